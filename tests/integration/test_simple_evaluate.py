"""The same script gives the same results under EleutherAI's lm_eval 0.4.13 and here.

``python_api/golden.json`` was written by ``python_api/script.py`` with the peer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import lm_eval
from lm_eval.api.model import LM
from lm_eval.errors import LmEvalWarning, ModelError, UsageError
from lm_eval.models.dummy import DummyLM
from lm_eval.requests import Reply
from lm_eval.tasks import TaskManager
from tests.support.modules import module_at

HERE = Path(__file__).parent / "python_api"
ABOUT_THE_RUN = {
    *("git_hash", "date", "pretty_env_info", "lm_eval_version", "transformers_version"),
    "upper_git_hash",
}
NOT_COMPARED = {
    *ABOUT_THE_RUN,
    "configs",  # theirs repeats the defaults of fewshot_config; compared below
}


def differences(golden: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where ours differs from the golden value; keys of our own may stand beside its keys."""
    if isinstance(golden, dict) and isinstance(ours, dict):
        for key, value in golden.items():
            if key in ours:
                yield from differences(value, ours[key], f"{path}/{key}")
            else:
                yield f"{path}/{key} is missing: {value!r}"
    elif isinstance(golden, list) and isinstance(ours, list) and len(golden) == len(ours):
        for place, (value, own) in enumerate(zip(golden, ours, strict=True)):
            yield from differences(value, own, f"{path}/{place}")
    elif isinstance(golden, float) and isinstance(ours, int | float):
        if not math.isclose(golden, ours, rel_tol=1e-9, abs_tol=1e-9):
            yield f"{path}: {golden!r} there, {ours!r} here"
    elif golden != ours:
        yield f"{path}: {golden!r} there, {ours!r} here"


GOLDEN = json.loads((HERE / "golden.json").read_text(encoding="utf-8"))["outcomes"]


@pytest.fixture(scope="module")
def ours() -> Iterator[dict[str, Any]]:
    module = module_at(HERE / "script.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(module.FOLDER)
        yield module.outcomes()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_same_script_gives_the_same(name: str, ours: dict[str, Any]) -> None:
    golden = GOLDEN[name]
    if isinstance(golden, dict):
        golden = {key: value for key, value in golden.items() if key not in NOT_COMPARED}
    assert list(differences(golden, ours[name])) == []


@pytest.mark.parametrize("name", [name for name in GOLDEN if "configs" in GOLDEN[name]])
def test_configs_hold_what_theirs_hold(name: str, ours: dict[str, Any]) -> None:
    assert GOLDEN[name].keys() <= ours[name].keys() | ABOUT_THE_RUN
    for task, golden in GOLDEN[name]["configs"].items():
        config = ours[name]["configs"][task]
        for key in set(golden) - {"fewshot_config", "metadata", "num_fewshot", "generation_kwargs"}:
            assert config[key] == golden[key], (task, key)


# Ours alone


def test_formats_work_from_python() -> None:
    results = lm_eval.simple_evaluate(
        "dummy", "reply=The best answer is A.", tasks=["demo_mcq@generate"], limit=4
    )
    scores = results["results"]["demo_mcq@generate"]
    assert scores["share_read,none"] == 1
    sample = results["samples"]["demo_mcq@generate"][0]
    assert isinstance(sample["resps"][0][0], Reply)
    assert sample["reading"]["answer"]


def test_a_model_object_is_left_open_and_may_be_used_again() -> None:
    closed = []

    class Model(DummyLM):
        def close(self) -> None:
            closed.append(self)

    model = Model()
    first, second = (
        lm_eval.simple_evaluate(model, tasks=["demo_mcq@mcqa"], limit=3) for _ in range(2)
    )
    assert not closed
    assert first["results"] == second["results"]
    assert first["config"]["model"] == "Model"


@pytest.mark.parametrize(
    ("method", "answer", "expected"),
    [
        ("loglikelihood", -1.0, "a pair (log-prob, is_greedy)"),
        ("loglikelihood", (float("nan"), False), "a log-prob that is a number"),
        ("loglikelihood", (None, False), "a log-prob that is a number"),
        ("generate_until", None, "a text"),
    ],
)
def test_what_is_no_answer_is_not_scored(method: str, answer: Any, expected: str) -> None:
    def answered(_: LM, requests: Sequence[Any]) -> list[Any]:
        return [answer] * len(requests)

    methods = ("loglikelihood", "loglikelihood_rolling", "generate_until")
    model = type("Model", (LM,), dict.fromkeys(methods, answered))()
    task = "demo_mcq@mcqa" if method == "loglikelihood" else "demo_mcq@generate"
    with pytest.raises(
        ModelError, match=re.escape(f"Model answers {method} (task {task!r}")
    ) as told:
        lm_eval.simple_evaluate(model, tasks=[task], limit=2)
    assert str(told.value).endswith(f"expected {expected}.")


def test_write_out_prints_the_first_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    lm_eval.simple_evaluate("dummy", tasks=["demo_mcq@mcqa"], limit=1, write_out=True)
    assert "demo_mcq@mcqa, doc 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"evaluation_tracker": object()}, "evaluation_tracker is a object"),
        ({"apply_chat_template": "name"}, "models here have one template"),
        ({"tasks": []}, "No tasks"),
        ({"limit": 2, "samples": {"demo_mcq": [0]}}, "--limit and --samples both"),
        ({"samples": {"demo_mcq": ["0"]}}, "doc numbers"),
        ({"limit": 0}, "--limit 0: give a whole number"),
        ({"limit": "5"}, "--limit '5': give"),
        ({"num_fewshot": "2"}, "num_fewshot is '2'"),
        ({"num_fewshot": -1}, "num_fewshot is -1"),
        ({"system_instruction": 5}, "system_instruction is 5"),
        ({"task_manager": TaskManager(), "metadata": {"a": 1}}, "belong to the TaskManager"),
        ({"task_manager": TaskManager(), "parity": True}, "belong to the TaskManager"),
        ({"verbosity": "LOUD"}, "is not a level"),
        ({"model": object()}, "subclass of lm_eval.api.model.LM"),
        ({"model": "dumy"}, "Did you mean 'dummy'"),
        ({"model_args": "sed=1"}, "no argument 'sed'"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(Exception, match=said) as caught:
        lm_eval.simple_evaluate(**{"model": "dummy", "tasks": ["demo_mcq"], **arguments})
    assert caught.type.__module__ == "lm_eval.errors"


def test_arguments_of_a_model_that_is_made_already() -> None:
    with pytest.warns(LmEvalWarning, match=r"no difference|no effect"):
        lm_eval.simple_evaluate(DummyLM(), "seed=1", tasks=["demo_mcq@mcqa"], limit=1)
    with pytest.warns(LmEvalWarning, match="takes no batch_size"):
        lm_eval.simple_evaluate(DummyLM(), tasks=["demo_mcq@mcqa"], limit=1, batch_size=4)


def test_secrets_stay_out_of_results_and_errors() -> None:
    with pytest.raises(Exception, match="no argument") as caught:
        lm_eval.simple_evaluate("dummy", {"api_key": "sk-123456"}, tasks=["demo_mcq"], limit=1)
    assert "sk-123456" not in str(caught.value)


def test_several_processes_are_refused() -> None:
    model = DummyLM()
    model._world_size = 2  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="2 processes"):
        lm_eval.simple_evaluate(model, tasks=["demo_mcq@mcqa"], limit=1)


def test_unsafe_code_is_confirmed() -> None:
    task = {
        "task": "runs_code",
        "custom_dataset": lambda **_: {"test": [{"q": "x", "a": "y"}]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "metric_list": [{"metric": "exact_match"}],
        "unsafe_code": True,
    }
    with pytest.raises(UsageError, match="confirm_run_unsafe_code"):
        lm_eval.simple_evaluate("dummy", tasks=[task])
    results = lm_eval.simple_evaluate("dummy", tasks=[task], confirm_run_unsafe_code=True)
    assert results["n-samples"]["runs_code"]["effective"] == 1


def test_metadata_reaches_the_tasks() -> None:
    given: dict[str, Any] = {}

    def rows(**metadata: Any) -> dict[str, list[dict[str, str]]]:
        given.update(metadata)
        return {"test": [{"q": "x", "a": "y"}]}

    task = {
        "task": "reads_metadata",
        "custom_dataset": rows,
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "metadata": {"version": 2, "length": 1},
    }
    results = lm_eval.simple_evaluate(
        "dummy", "seed=7", tasks=[task], metadata={"length": 4096}, log_samples=False
    )
    assert given == {"version": 2, "length": 4096, "seed": 7}
    assert "samples" not in results


def test_evaluate_takes_the_model_first() -> None:
    with pytest.raises(UsageError, match=r"api\.model\.LM"):
        lm_eval.evaluate([], DummyLM())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"TaskManager\.load"):
        lm_eval.evaluate(DummyLM(), [])  # type: ignore[arg-type]
