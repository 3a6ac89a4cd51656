"""A task under many formats: the same docs and examples, and one warning for all."""

from __future__ import annotations

import warnings

import pytest

from lm_eval.errors import LmEvalWarning
from lm_eval.formats.compile import get_format
from lm_eval.lab.grammar.sample import sample_formats
from lm_eval.lab.sweep.cells import SweptTask, one_warning_for_all
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask


@pytest.fixture(scope="module")
def base() -> ConfigurableTask:
    (task,) = TaskManager().load("demo_mcq@mcqa")["tasks"].values()
    assert isinstance(task, ConfigurableTask)
    return task


def swept(base: ConfigurableTask, count: int, axis: str = "layout") -> list[SweptTask]:
    formats = sample_formats(get_format("mcqa"), count, seed=2, axes=(axis,))
    return [SweptTask(base, one) for one in formats]


def test_docs_are_shared_and_names_are_those_of_the_formats(base: ConfigurableTask) -> None:
    tasks = swept(base, 3)
    assert all(task.eval_docs is base.eval_docs for task in tasks)
    assert [task.name for task in tasks] == [f"demo_mcq@{task.format_name}" for task in tasks]
    assert tasks[0].format == base.format
    assert len({task.format.fingerprint for task in tasks if task.format}) == 3


def test_examples_are_those_of_a_run_of_all_docs(base: ConfigurableTask) -> None:
    base.set_fewshot_seed(7)
    expected = [base.shots(doc, 3) for doc in range(20)]
    for task in swept(base, 2):
        task.set_fewshot_seed(7)
        assert [task.shots(doc, 3) for doc in (17, 4, 9)] == [expected[d] for d in (17, 4, 9)]
        task.set_fewshot_seed(8)
        assert task.shots(17, 3) != expected[17]
        assert task.shots(17, 0) == ()


def test_the_axis_shots_brings_its_own_number_and_seed(base: ConfigurableTask) -> None:
    tasks = swept(base, 12, "shots")
    own = [task for task in tasks if task._own_seed is not None]
    assert own
    for task in own:
        count = task.config.num_fewshot or 0
        task.set_fewshot_seed(1)
        first = task.shots(3, count)
        task.set_fewshot_seed(2)
        assert task.shots(3, count) == first


def test_one_warning_speaks_for_all_formats() -> None:
    names = ["t@a", "t@ab", "t@c"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with one_warning_for_all(names):
            for name in names:
                warnings.warn(f"{name}: its labels are no tokens.", LmEvalWarning, stacklevel=1)
            warnings.warn("Something about the model.", LmEvalWarning, stacklevel=1)
            warnings.warn("Something about the model.", LmEvalWarning, stacklevel=1)
            for name in names[:2]:
                warnings.warn(f"{name}: another thing.", LmEvalWarning, stacklevel=1)
    said = [str(one.message) for one in caught]
    assert said == [
        "t@a: its labels are no tokens. (2 other formats have the like; see `notes` in the results.)",
        "Something about the model.",
        "t@a: another thing. (1 other format has the like; see `notes` in the results.)",
    ]


def test_errors_pass_the_warnings_by() -> None:
    with pytest.raises(KeyError), one_warning_for_all(["t@a"]):
        raise KeyError("x")
