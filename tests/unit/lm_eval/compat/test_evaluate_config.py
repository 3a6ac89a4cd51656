"""The options of a run as one object."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from lm_eval import simple_evaluate
from lm_eval.compat.evaluate_config import EvaluatorConfig


def test_a_yaml_file_to_results(tmp_path: Path) -> None:
    """As programs drive a run by a file: options, tasks, the call."""
    path = tmp_path / "run.yaml"
    path.write_text("model: dummy\nmodel_args: seed=3\ntasks: demo_m*@mcqa\nlimit: 2\nseed: 5\n")
    config = EvaluatorConfig.from_config(path)
    assert config.model_args == config.metadata == {"seed": 3}
    assert config.seed == [5, 5, 5, 5]
    manager = config.process_tasks()
    assert config.tasks == ["demo_mcq@mcqa"]
    results = simple_evaluate(
        config.model, config.model_args, config.tasks, limit=config.limit, task_manager=manager
    )
    assert results["n-samples"]["demo_mcq@mcqa"]["effective"] == 2


def test_a_program_that_fills_the_options_itself() -> None:
    config = EvaluatorConfig(model="dummy", model_args="seed=3", tasks=["demo_mcq"], limit=1)
    config = config._parse_dict_args()._configure()
    manager = config.process_tasks(config.metadata)
    results = simple_evaluate(
        model=config.model,
        model_args=config.model_args,
        tasks=config.tasks,
        limit=config.limit,
        cache_requests=config.cache_requests.get("cache_requests", False),
        check_integrity=config.check_integrity,
        gen_kwargs=config.gen_kwargs,
        task_manager=manager,
        metadata=config.metadata,
    )
    assert results["config"]["model_args"]["seed"] == 3


def test_what_is_typed_counts_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("tasks: [a]\nlimit: 2\nbatch_size: 4\n")
    config = EvaluatorConfig.from_cli(Namespace(config=str(path), limit=0, tasks=None, func=print))
    assert (config.tasks, config.limit, config.batch_size) == (["a"], 0, 4)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("- a", TypeError, "holds a list"),
        ("a: [", ValueError, "cannot be read as YAML"),
        ("taks: a", TypeError, "Did you mean 'tasks'"),
        ("seed: [a]", ValueError, "seed values must be whole numbers"),
        ("predict_only: true", ValueError, "give output_path too"),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, text: str, error: type[Exception], message: str
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(error, match=message):
        EvaluatorConfig.from_config(path)


def test_tasks_that_are_not_there() -> None:
    config = EvaluatorConfig(tasks="demo_mcq,demo_mcp,none.yaml")
    with pytest.raises(
        ValueError, match=r"not found: demo_mcp, none.yaml. Did you mean 'demo_mcq'"
    ):
        config.process_tasks()
