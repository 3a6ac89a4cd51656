"""How long to wait, and how many requests at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.models.http.pacing import (
    LARGEST_AUTO,
    LONGEST_WAIT_S,
    AutoSize,
    Pace,
    allowance_wait,
    reset_wait,
    retry_after,
)

# -- how long to wait ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        ("1.5", 1.5),
        ("20ms", 0.02),
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("-4", 0),
        ("", None),
        ("soon", None),
        ("1s soon", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_a_reset_is_a_duration_or_seconds(text: str, seconds: float | None) -> None:
    assert reset_wait(text) == (pytest.approx(seconds) if seconds is not None else None)


@pytest.mark.parametrize("spell", [str, lambda moment: str(int(moment * 1000))])
def test_a_reset_may_be_a_moment_since_1970(spell: Callable[[float], str]) -> None:
    assert 200 < (reset_wait(spell(time.time() + 500)) or 0) < 501


def test_a_reset_may_be_an_iso_date() -> None:
    moment = (datetime.now(UTC) + timedelta(seconds=500)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert 200 < (reset_wait(moment) or 0) < 501


def test_retry_after_in_seconds_milliseconds_and_as_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=500), usegmt=True)
    assert retry_after([(b"Retry-After", b"3")]) == 3
    assert retry_after([(b"retry-after", b"9"), (b"retry-after-ms", b"250")]) == 0.25
    assert 200 < (retry_after([(b"RETRY-AFTER", date.encode())]) or 0) < 501
    assert retry_after([(b"Retry-After", b"whenever")]) is None
    assert retry_after([]) is None


def test_a_past_date_means_now() -> None:
    assert retry_after([(b"Retry-After", b"Wed, 21 Oct 2015 07:28:00 GMT")]) == 0


def test_no_wait_is_longer_than_ten_minutes() -> None:
    assert retry_after([(b"Retry-After", b"86400")]) == LONGEST_WAIT_S


def test_an_empty_allowance_waits_for_the_latest_reset() -> None:
    headers = [
        (b"X-RateLimit-Remaining-Requests", b"0"),
        (b"X-RateLimit-Reset-Requests", b"2s"),
        (b"x-ratelimit-remaining-tokens", b"0"),
        (b"x-ratelimit-reset-tokens", b"5s"),
        (b"x-ratelimit-remaining-images", b"7"),
        (b"x-ratelimit-reset-images", b"9s"),
    ]
    assert allowance_wait(headers) == 5
    assert allowance_wait(headers[4:]) is None
    assert allowance_wait([(b"x-ratelimit-remaining-tokens", b"0")]) is None


@given(st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=30)), max_size=5), st.binary())
def test_headers_of_any_bytes_are_read(headers: list[tuple[bytes, bytes]], value: bytes) -> None:
    wait_s = retry_after([*headers, (b"Retry-After", value)])
    assert wait_s is None or 0 <= wait_s <= LONGEST_WAIT_S


def test_a_pause_is_not_cut_short_by_a_shorter_one() -> None:
    pace = Pace(4)
    assert not pace.is_paused
    pace.pause(60)
    pace.pause(0)
    assert pace.is_paused


# -- how many at a time ----------------------------------------------------------------------------


def replies(size: AutoSize, capacity: int, rounds: int) -> list[int]:
    """The sizes that come of a server which works on ``capacity`` requests at a time."""
    sizes = []
    for _ in range(rounds):
        for _ in range(size.size):
            size.finished(0.1 * max(1.0, size.size / capacity))
        sizes.append(size.size)
    return sizes


def test_auto_settles_near_what_the_server_can_do() -> None:
    sizes = replies(AutoSize(), capacity=20, rounds=300)
    assert max(sizes[:10]) > 20
    assert min(sizes[50:]) >= 20
    assert max(sizes[50:]) <= 50


def test_auto_stays_within_its_bounds() -> None:
    size = AutoSize()
    assert replies(size, capacity=10_000, rounds=100)[-1] == LARGEST_AUTO
    for _ in range(10_000):
        size.refused()
        for _ in range(size.size):
            size.finished(0.1)
    assert size.size >= 1


def test_the_refusals_of_one_round_shrink_once() -> None:
    size = AutoSize()
    replies(size, capacity=10_000, rounds=10)
    before = size.size
    for _ in range(10):
        size.refused()
    assert before / 2 < size.size < before


def test_work_that_is_slower_by_itself_does_not_keep_auto_small() -> None:
    size = AutoSize()
    replies(size, capacity=10_000, rounds=6)
    before = size.size
    for _ in range(20_000):
        size.finished(10.0)  # another kind of request: however many, each takes ten seconds
    assert size.size > before
