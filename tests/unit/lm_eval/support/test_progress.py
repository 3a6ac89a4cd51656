"""Progress shows after a while, plainly in logs, and never when it is off."""

import io
import sys
import threading
import time

import pytest

from lm_eval.support import progress
from lm_eval.support.progress import Progress


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 0.02)
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.02)
    monkeypatch.setattr(progress, "BAR_EVERY_S", 0.01)


class Watched(io.StringIO):
    """A stream that can be waited for."""

    def __init__(self):
        super().__init__()
        self._is_written = threading.Event()

    def write(self, text):
        written = super().write(text)
        self._is_written.set()
        return written

    def wait(self):
        assert self._is_written.wait(60)


class Terminal(Watched):
    def isatty(self):
        return True


def test_a_log_gets_plain_lines_and_the_end():
    stream = Watched()
    bar = Progress("demo@\x1b[31mcot", 3, stream=stream)
    bar.advance()
    with bar:
        stream.wait()
        bar.advance(2)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith(r"demo@\x1b[31mcot: 1/3, ")
    assert lines[0].endswith(" left")
    assert lines[-1].startswith(r"demo@\x1b[31mcot: 3/3, ")
    assert "\x1b" not in stream.getvalue()


def test_short_work_shows_nothing(monkeypatch):
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 60.0)
    stream = io.StringIO()
    with Progress("quick", 2, stream=stream) as bar:
        bar.advance(2)
    assert stream.getvalue() == ""


def test_off_means_no_thread_and_no_output():
    stream = io.StringIO()
    before = set(threading.enumerate())
    with Progress("off", 2, stream=stream, enabled=False) as bar:
        assert set(threading.enumerate()) <= before
        bar.advance()
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar_without_markup(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with Progress("[red]demo[/red]", 2) as bar:
        bar.advance()
        stream.wait()
        bar.advance()
    assert "[red]demo[/red]" in stream.getvalue()
    assert "2/2" in stream.getvalue()
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is shown again


def test_an_error_inside_passes_through_and_stops_the_thread():
    def fail():
        with Progress("x", 1, stream=io.StringIO()):
            time.sleep(0.05)
            raise KeyError

    before = set(threading.enumerate())
    with pytest.raises(KeyError):
        fail()
    assert set(threading.enumerate()) <= before


def test_how_a_moment_reads(monkeypatch):
    rows = [
        (12, 20, 3.1, "", "x: 12/20, 3.1/s, 3 s left"),
        (0, 20, 0.0, "", "x: 0/20"),
        (20, 20, 5.0, "", "x: 20/20, 5.0/s"),
        (7, None, 5.0, "", "x: 7, 5.0/s"),
        (1, 100, 0.02, "", "x: 1/100, 1.2/min, 1 h 22 min left"),
        (1, 100, 0.5, "", "x: 1/100, 0.5/s, 3 min left"),
        (1_500_000, 3_000_000, 500_000.0, "bytes", "x: 1.5/3.0 MB, 0.5 MB/s, 3 s left"),
        (20_000, None, 0.0, "bytes", "x: 0.0 MB"),
    ]
    read = []
    for done, total, rate, unit, _ in rows:
        bar = Progress("x", total, done=done, unit=unit)
        monkeypatch.setattr(bar, "rate", lambda rate=rate: rate)
        read.append(str(bar))
    assert read == [row[-1] for row in rows]


def test_what_was_done_before_is_not_in_the_rate():
    with Progress("t", 100, done=90, enabled=False) as bar:
        assert bar.rate() == 0.0
        assert str(bar) == "t: 90/100"
