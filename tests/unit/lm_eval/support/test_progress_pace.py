"""The time left is told by kind of request: a run that scores first and writes later says so."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from lm_eval.support import progress
from lm_eval.support.progress import Progress, RunPace, Share, Speed, SpeedNotes, time_left

SCORE, WRITE = "loglikelihood", "generate_until"


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_000_000 + self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    fake = SimpleNamespace(monotonic=clock.monotonic, time=clock.time)
    monkeypatch.setattr(progress, "time", fake)
    return clock


def demo() -> list[Share]:
    """As the demo: 256 choices are scored, then 64 replies are written."""
    return [
        Share("mcqa", SCORE, 128, 50),
        Share("cloze", SCORE, 128, 25),
        Share("generate", WRITE, 32, 80, is_written=True),
        Share("cot", WRITE, 32, 80, is_written=True),
    ]


def answer(
    pace: RunPace,
    clock: Clock,
    task: str,
    kind: str,
    times: int,
    each: float,
    tokens: float | None = None,
) -> None:
    for _ in range(times):
        clock.now += each
        pace.answered(task, kind, tokens)


def test_replies_are_not_promised_at_the_speed_of_scores(clock: Clock) -> None:
    pace = RunPace(demo())
    pace.begin(SCORE)
    assert time_left(*pace.left()) == "256 scores and 64 replies left"
    answer(pace, clock, "mcqa", SCORE, 64, 0.1)
    # 64 × 0.1 s, and 128 of half the size
    assert pace.left() == (pytest.approx(6.4 + 6.4), {"replies": 64})
    assert time_left(*pace.left()) == "13 s left, then 64 replies"
    answer(pace, clock, "mcqa", SCORE, 64, 0.1)
    answer(pace, clock, "cloze", SCORE, 128, 0.2)
    assert time_left(*pace.left()) == "64 replies left"


def test_the_replies_of_a_task_that_is_not_begun_have_no_length(clock: Clock) -> None:
    pace = RunPace(demo()[2:])
    pace.begin(WRITE)
    answer(pace, clock, "generate", WRITE, 8, 0.5, tokens=5)
    assert pace.left() == (pytest.approx(24 * 0.5), {"replies": 32})
    answer(pace, clock, "generate", WRITE, 24, 0.5, tokens=5)
    answer(pace, clock, "cot", WRITE, 4, 6.0, tokens=60)
    assert pace.left() == (pytest.approx(28 * 6.0), {})
    assert pace.rate() == pytest.approx(36 / 40)


def test_an_answer_that_takes_long_counts_before_it_is_there(clock: Clock) -> None:
    pace = RunPace([Share("t", WRITE, 10, 80, is_written=True)])
    pace.begin(WRITE)
    answer(pace, clock, "t", WRITE, 5, 1.0, tokens=10)
    assert pace.left()[0] == pytest.approx(5.0)
    clock.now += 60
    assert pace.left()[0] == pytest.approx(5 * 65 / 6)


def test_what_was_kept_is_not_left(clock: Clock) -> None:
    pace = RunPace(demo())
    pace.found("cot", 32)
    pace.found("generate", 16)
    pace.begin(WRITE)
    answer(pace, clock, "generate", WRITE, 8, 1.0, tokens=5)
    assert pace.left() == (pytest.approx(8.0), {"scores": 256})


def test_speeds_of_earlier_runs_are_known_from_the_start(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pace = RunPace(demo())
    pace.begin(SCORE)
    answer(pace, clock, "mcqa", SCORE, 128, 0.1)
    pace.begin(WRITE)
    answer(pace, clock, "generate", WRITE, 32, 1.0, tokens=10)
    SpeedNotes("gguf a").note(pace.speeds())
    known = SpeedNotes("gguf a").known()
    assert known[WRITE] == Speed(pytest.approx(0.1), 10.0, clock.time())
    assert SpeedNotes("gguf b").known() == {}
    again = RunPace(demo(), known)
    expected = 12.8 + 128 * 25 * 0.1 / 50 + 64 * 10 * 0.1
    assert again.left() == (pytest.approx(expected), {})
    again.begin(WRITE)
    answer(again, clock, "generate", WRITE, 32, 2.0, tokens=10)
    # twice as slow as then; the other task's replies are still taken to be as long as those were
    assert again.left()[0] == pytest.approx(12.8 + 128 * 25 * 0.1 / 50 + 32 * 10 * 0.2)


def test_a_short_run_leaves_no_speed(clock: Clock) -> None:
    pace = RunPace(demo())
    pace.begin(SCORE)
    answer(pace, clock, "mcqa", SCORE, 10, 0.01)
    assert pace.speeds() == {}


@pytest.mark.parametrize(
    "content", ["", "[]", '{"x": 1}', "{", '{"k": {"generate_until": "fast"}}']
)
def test_damaged_notes_are_no_notes(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    notes = SpeedNotes("m")
    notes.note({WRITE: Speed(0.1, 10.0, 1.0)})
    (path,) = tmp_path.rglob("speeds.json")
    key = next(iter(json.loads(path.read_text())))
    path.write_text(content.replace('"k"', json.dumps(key)))
    assert notes.known() == {}
    notes.note({WRITE: Speed(0.1, 10.0, 1.0)})
    assert notes.known() == {WRITE: Speed(0.1, 10.0, 1.0)}


def test_progress_shows_what_the_pace_says(clock: Clock) -> None:
    pace = RunPace(demo())
    with Progress("demo", 320, enabled=False, pace=pace) as bar:
        pace.begin(SCORE)
        answer(pace, clock, "mcqa", SCORE, 128, 0.1)
        bar.advance(128)
    assert str(bar) == "demo: 128/320, 10.0/s, 6 s left, then 64 replies"
