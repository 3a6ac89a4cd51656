"""What programs written for the harness call, beside stored answers of its release 0.4.13."""

from __future__ import annotations

import copy
import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from lm_eval.compat.helpers import (
    CacheHook,
    EnhancedJSONEncoder,
    FewshotConfig,
    add_tokenizer_info,
    get_sample_size,
    get_task_name_from_config,
    get_task_name_from_object,
    hash_args,
    hash_dict_images,
    warning_once,
)
from lm_eval.tasks.loader import TaskManager
from tests.support import peer_calls
from tests.support.paths import TESTS

STORED = json.loads((TESTS / "data" / "peer_calls.json").read_text("utf-8"))


@pytest.mark.parametrize("name", peer_calls.CALLS)
def test_calls_answer_as_0_4_13_does(name: str) -> None:
    answered = peer_calls.answer(name)
    assert len(answered) == len(STORED[name])
    for at, (ours, theirs) in enumerate(zip(answered, STORED[name], strict=True)):
        assert ours == theirs, f"{name}, answer {at}"


def test_setup_logging_writes_records_once() -> None:
    code = (
        "from lm_eval.utils import setup_logging, eval_logger\n"
        "setup_logging(); setup_logging('DEBUG')\n"
        "eval_logger.info('one line'); eval_logger.debug('and another')\n"
        "import logging; logging.getLogger('lm_eval.tasks').warning('from tasks')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={}
    )
    lines = [line.split(" ", 1)[1] for line in done.stderr.splitlines()]
    assert lines == [
        "INFO     [lm_eval:3] one line",
        "DEBUG    [lm_eval:3] and another",
        "WARNING  [tasks:4] from tasks",
    ]


def test_the_environment_sets_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.compat.helpers import setup_logging

    logger = logging.getLogger("lm_eval")
    before = (logger.level, list(logger.handlers), logger.propagate)
    try:
        monkeypatch.setenv("LMEVAL_LOG_LEVEL", "error")
        setup_logging("DEBUG")
        assert logger.level == logging.ERROR
        monkeypatch.setenv("LMEVAL_LOG_LEVEL", "loud")
        setup_logging(None)
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before[0])
        logger.handlers[:] = before[1]
        logger.propagate = before[2]


def test_a_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("program")
    for _ in range(3):
        warning_once(logger, "only %s", "once")
    assert [record.getMessage() for record in caplog.records] == ["only once"]


def test_names_and_sizes_of_tasks() -> None:
    [task] = TaskManager().load(["demo_mcq"])["tasks"].values()
    assert get_task_name_from_object(task) == "demo_mcq"
    assert get_task_name_from_object(SimpleNamespace(EVAL_HARNESS_NAME="own")) == "own"
    assert get_task_name_from_config({"dataset_path": "a", "dataset_name": "b"}) == "a_b"
    with pytest.raises(ValueError, match="neither 'task' nor"):
        get_task_name_from_config({})
    size = len(task.eval_docs)
    assert [get_sample_size(task, limit) for limit in (None, 3, 0.5)] == [None, 3, -(-size // 2)]


def test_a_cache_of_the_programs_own_gets_answers() -> None:
    CacheHook(None).add_partial("loglikelihood", ("a", "b"), (-1.0, True))
    store: dict[str, object] = {}
    CacheHook(SimpleNamespace(dbdict=store)).add_partial("generate_until", ("a", {}), "text")
    assert store == {hash_args("generate_until", ("a", {})): "text"}


def test_arguments_are_known_by_their_contents() -> None:
    assert hash_args("a", [b"x"]) == hash_args("a", [bytearray(b"x")]) != hash_args("a", [b"y"])
    images = pytest.importorskip("PIL.Image")
    red, same, blue = (images.new("RGB", (2, 2), name) for name in ("red", "red", "blue"))
    assert hash_args("a", [red]) == hash_args("a", [same]) != hash_args("a", [blue])
    with pytest.raises(TypeError):
        hash_args("a", [object()])


def test_facts_about_a_tokenizer() -> None:
    tokenizer = SimpleNamespace(pad_token="p", pad_token_id=0, eos_token="e", eos_token_id=1)
    facts: dict[str, object] = {}
    add_tokenizer_info(facts, SimpleNamespace(tokenizer=tokenizer, max_length=8, eot_token_id=1))
    assert facts == {
        "tokenizer_pad_token": ["p", "0"],
        "tokenizer_eos_token": ["e", "1"],
        "tokenizer_bos_token": [None, "None"],
        "eot_token_id": 1,
        "max_length": 8,
    }
    add_tokenizer_info(facts := {}, SimpleNamespace())
    assert facts == {}


def test_fewshot_config_has_its_keys_as_attributes() -> None:
    config = FewshotConfig(split="train")
    assert (config.split, config["split"], config.sampler, config.samples) == (
        "train",
        "train",
        "default",
        None,
    )
    assert json.loads(json.dumps(config)) == {"split": "train"}
    assert copy.deepcopy(config) == config


def test_small_ones() -> None:
    @dataclass
    class Facts:
        number: int = 1

    assert json.dumps({"facts": Facts()}, cls=EnhancedJSONEncoder) == '{"facts": {"number": 1}}'
    with pytest.raises(TypeError):
        hash_dict_images([])  # type: ignore[arg-type]
    assert hash_dict_images({"a": [1, "x"]}) == {"a": [1, "x"]}
