"""Servers that misbehave in every way, one at a time: a run equals the clean one, or says one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_api_runs import CHAT, COMPLETIONS, arguments, samples
from tests.support.command_line import Outcome, Workplace
from tests.support.servers.faulty import (
    HARMLESS,
    TRANSIENT,
    UNFIT,
    Fault,
    FaultyServer,
    Plan,
    always,
    first,
    never,
)
from tests.support.servers.toy_openai import ToyServer, write_tokenizer

SURVIVED = (*TRANSIENT, *HARMLESS, *UNFIT, *map(Fault, ("hang_up", "html_200")))
TASKS = {COMPLETIONS: "t@mcqa,t@cloze,t@generate", CHAT: "t@generate"}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("lm_eval.models.http.failures._FIRST_WAIT_S", 0.01)
    write_tokenizer(tmp_path / "tokenizer")
    place = Workplace(tmp_path)
    place.task()
    return place


def run(work: Workplace, path: str, plan: Plan, *more: str, **pairs: Any) -> Outcome:
    with FaultyServer(ToyServer(), faults=plan) as server:
        return work.cli(
            *("run", "--tasks", TASKS[path], "--include_path", str(work.folder), "--limit", "5"),
            *("--gen_kwargs", "max_gen_toks=8", "--log_samples", *more),
            *arguments(work, server, path, **pairs),
        )


def name(fault: Fault) -> str:
    return str(fault.kind)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Path → the samples of a clean run, filled in by whoever needs it first."""
    return {}


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
@pytest.mark.parametrize("fault", [*SURVIVED, Fault("huge", size=2**27)], ids=name)
def test_a_fault_of_each_request_changes_nothing(
    work: Workplace, path: str, fault: Fault, expected: dict[str, Any]
) -> None:
    if path not in expected:
        assert run(work, path, never).code == 0
        expected[path] = samples(work)
        assert {len(rows) for rows in expected[path].values()} == {5}
    run(work, path, first(1, fault)).ok()
    assert samples(work) == expected[path]


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
@pytest.mark.parametrize("fault", UNFIT, ids=name)
def test_a_fault_of_every_reply_is_one_message(work: Workplace, path: str, fault: Fault) -> None:
    if path == CHAT and "logprob" in str(fault.kind):
        pytest.skip("a chat's reply has no log-probs")
    done = run(work, path, always(fault), max_retries=1)
    assert done.code == 1
    assert done.err.count("error: http://127.0.0.1") == 1, done.err
    assert "Traceback" not in done.err
    assert done.err.count("cannot be read: ") + done.err.count("cannot score text") == 1, done.err
    assert samples(work) == {}
