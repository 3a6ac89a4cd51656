"""The parts of the HTTP engine that need no socket: waits, sizes, wording, when to send again."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.errors import RequestError, UnreachableError, UsageError
from lm_eval.models.http.failures import Failure, Schedule, of_body, of_status, server_message
from lm_eval.models.http.pacing import (
    LARGEST_AUTO,
    LONGEST_WAIT_S,
    AutoSize,
    Pace,
    allowance_wait,
    reset_wait,
    retry_after,
)
from lm_eval.models.http.transport import TransportOptions

KEY = "sk-canary-0123456789"


def redact(text: str) -> str:
    return text.replace(KEY, "[key]")


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
    moment = (datetime.now(timezone.utc) + timedelta(seconds=500)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert 200 < (reset_wait(moment) or 0) < 501


def test_retry_after_in_seconds_milliseconds_and_as_a_date() -> None:
    date = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=500), usegmt=True)
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


# -- when to send again ----------------------------------------------------------------------------


def schedule(
    max_retries: int = 3,
    *,
    used_s: float = 0.0,
    idle_s: float = math.inf,
    connect_s: float | None = None,
) -> Schedule:
    return Schedule(
        max_retries,
        begun_at=time.monotonic() - used_s,
        timeout_s=30.0,
        idle_s=lambda: idle_s,
        connect_s=lambda: connect_s,
    )


def sendings(plan: Schedule, failure: Failure, limit: int = 1000) -> int:
    count = 1
    while count < limit and plan.next_wait(failure) is not None:
        count += 1
    return count


def test_a_fault_is_retried_as_often_as_allowed() -> None:
    assert sendings(schedule(3), Failure("x", status=500)) == 4
    assert sendings(schedule(0), Failure("x", status=500)) == 1
    assert sendings(schedule(3), Failure("x", status=400, can_retry=False)) == 1


def test_waits_grow_and_are_spread() -> None:
    firsts = [schedule().next_wait(Failure("x")) or 0 for _ in range(200)]
    assert max(firsts) <= 0.5
    assert min(firsts) < 0.1
    assert max(firsts) > 0.4
    plan = schedule(20)
    waits = [plan.next_wait(Failure("x")) or 0 for _ in range(20)]
    assert max(waits) <= 30
    assert max(waits) > 2


def test_what_the_server_asks_for_is_waited() -> None:
    assert schedule().next_wait(Failure("x", status=503, asked_wait_s=42.0)) == 42.0


def test_a_refusal_is_not_answered_at_once() -> None:
    assert all((schedule().next_wait(Failure("x", status=429)) or 0) > 0.2 for _ in range(100))


def test_a_refusal_where_nothing_is_answered_ends_soon() -> None:
    assert sendings(schedule(3), Failure("x", status=429)) == 4
    assert sendings(schedule(3), Failure("x", status=429, asked_wait_s=0.0)) == 14


def test_a_refusal_is_patient_while_others_are_answered() -> None:
    assert sendings(schedule(3, idle_s=59), Failure("x", status=429)) == 51


def test_a_server_never_met_is_not_tried_for_longer_than_fifteen_seconds() -> None:
    nobody = Failure("x", is_unreachable=True)
    assert schedule(50, used_s=10.5, connect_s=5.0).next_wait(nobody) is None
    assert schedule(50, used_s=5.0, connect_s=5.0).next_wait(nobody) is not None
    assert schedule(50, used_s=60.0, connect_s=None).next_wait(nobody) is not None


# -- what it says ----------------------------------------------------------------------------------


def test_the_servers_own_words() -> None:
    def said(content: object) -> str:
        return server_message(json.dumps(content).encode(), redact)

    assert said({"error": {"message": "no such model", "type": "x"}}) == "no such model"
    assert said({"error": "plain"}) == "plain"
    assert said({"detail": [{"loc": ["body"], "msg": "field required"}]}) == "field required"
    assert said({"message": f"bad key {KEY}"}) == "bad key [key]"
    assert server_message(b"go\x1b[31m away\r\n now", redact) == "go [31m away now"
    assert server_message(b"", redact) == ""


def test_a_page_is_named_by_its_title() -> None:
    page = b"<!doctype html><html><head><title>502\n Bad &amp; Gone</title></head><body>x</body>"
    assert server_message(page, redact) == "an HTML page titled '502 Bad & Gone'"
    assert server_message(b"<html><body>hello", redact) == "an HTML page without a title"


def test_long_words_are_cut_after_the_key_is_hidden() -> None:
    said = server_message(b"x" * 390 + KEY.encode() + b"y" * 5000, redact)
    assert "sk-canary" not in said
    assert len(said) < 500


@given(st.binary(max_size=300))
def test_any_bytes_make_one_printable_line(body: bytes) -> None:
    for text in (server_message(body, redact), of_body("w", 200, body, KeyError("x"), redact).text):
        assert text.isprintable()


def test_deep_json_is_no_trap() -> None:
    assert server_message(b"[" * 100_000, redact).startswith("[[")


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_statuses_that_stop_the_run(status: int) -> None:
    error = of_status("http://h/p", status, [], b'{"error": "no"}', redact).error(
        1, never_answered=False
    )
    assert error.stops_run
    assert not error.retryable
    assert error.status == status
    assert str(error).startswith(f"http://h/p answered {status} ")
    assert ": no. Check" in str(error)


@pytest.mark.parametrize("status", [400, 413, 418, 422])
def test_statuses_that_fail_one_request(status: int) -> None:
    failure = of_status("http://h/p", status, [], b"", redact)
    assert not failure.can_retry
    assert not failure.stops_run


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_statuses_that_are_tried_again(status: int) -> None:
    failure = of_status("http://h/p", status, [(b"Retry-After", b"2")], b"", redact)
    assert failure.can_retry
    assert failure.asked_wait_s == 2
    error = failure.error(4, never_answered=False)
    assert error.retryable
    assert error.attempts == 4
    assert "(4 attempts)" in str(error)


def test_a_redirect_names_the_host_and_no_more() -> None:
    headers = [(b"Location", f"https://evil.example/x?key={KEY}".encode())]
    failure = of_status("http://h/p", 307, headers, b"", redact)
    assert "https://evil.example" in failure.text
    assert "sk-canary" not in failure.text
    assert failure.stops_run
    assert not failure.can_retry


def test_nobody_at_home_is_an_error_of_its_own() -> None:
    failure = Failure("Nothing answers", is_unreachable=True, stops_run=True)
    assert isinstance(failure.error(2, never_answered=True), UnreachableError)
    later = failure.error(4, never_answered=False)
    assert type(later) is RequestError
    assert later.stops_run


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_concurrent", 0),
        ("num_concurrent", "many"),
        ("num_concurrent", True),
        ("num_concurrent", 2.5),
        ("max_retries", -1),
        ("timeout_s", 0),
        ("timeout_s", float("nan")),
        ("timeout_s", "30"),
        ("max_response_bytes", 0),
    ],
)
def test_options_that_make_no_sense(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        TransportOptions(**{name: value})  # type: ignore[arg-type]
