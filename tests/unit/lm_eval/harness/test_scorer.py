"""The scorer of harness tasks, where no golden of the peer can tell: its own messages and notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import ConfigError
from lm_eval.evaluator import RunOptions, run_all
from lm_eval.models.dummy import DummyLM
from lm_eval.run.prepare import prepare
from lm_eval.scoring.results import TaskResult
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.task import ConfigurableTask


def scored(folder: Path, **keys: Any) -> list[TaskResult]:
    data = folder / "d.jsonl"
    data.write_text('{"q": "a", "a": "1"}\n{"q": "b", "a": "2"}\n', encoding="utf-8")
    config = TaskConfig(
        **{
            **{"task": "t", "dataset_path": str(data), "test_split": "test"},
            **{"doc_to_text": "q", "doc_to_target": "a", **keys},
        }
    )
    options = RunOptions(shows_progress=False)
    return run_all(
        [prepare(ConfigurableTask(config), options)], DummyLM(reply="so #### 1"), options
    )


def test_values_that_have_no_mean_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Task 't': the values of metric 'pair'.*by mean"):
        scored(tmp_path, process_results=lambda doc, replies: {"pair": ("x", "y")})


def test_replies_that_no_pattern_matched_are_counted(tmp_path: Path) -> None:
    strict = {"name": "strict", "filter": [{"function": "regex"}, {"function": "take_first"}]}
    letters = {
        "name": "letters",
        "filter": [
            {"function": "regex", "regex_pattern": "answer is ([A-D])"},
            {"function": "take_first"},
        ],
    }
    first, second = scored(tmp_path, filter_list=[strict, letters])
    assert (first.filter, first.metrics["exact_match"].value, first.notes) == ("strict", 0.5, [])
    assert second.filter == "letters"
    assert "2 of 2 replies matched no pattern" in second.notes[0]
