"""Requests that fail: when to send them again, and what is said of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.models.http.failures import Failure, Schedule, of_body, of_status, server_message

Plan = Callable[[Failure], "float | None"]
KEY = "sk-canary-0123456789"


def redact(text: str) -> str:
    return text.replace(KEY, "[key]")


# -- when to send again ----------------------------------------------------------------------------


def schedule(
    max_retries: int = 3,
    *,
    used_s: float = 0.0,
    idle_s: float = math.inf,
    connect_s: float | None = None,
) -> Plan:
    plan = Schedule(max_retries, timeout_s=30.0)
    return partial(plan.next_wait, used_s=used_s, idle_s=idle_s, connect_s=connect_s)


def sendings(plan: Plan, failure: Failure, limit: int = 1000) -> int:
    count = 1
    while count < limit and plan(failure) is not None:
        count += 1
    return count


def test_a_fault_is_retried_as_often_as_allowed() -> None:
    assert sendings(schedule(3), Failure("x", status=500)) == 4
    assert sendings(schedule(0), Failure("x", status=500)) == 1
    assert sendings(schedule(3), Failure("x", status=400, can_retry=False)) == 1


def test_waits_grow_and_are_spread() -> None:
    firsts = [schedule()(Failure("x")) or 0 for _ in range(200)]
    assert max(firsts) <= 0.5
    assert min(firsts) < 0.1
    assert max(firsts) > 0.4
    plan = schedule(20)
    waits = [plan(Failure("x")) or 0 for _ in range(20)]
    assert max(waits) <= 30
    assert max(waits) > 2


def test_what_the_server_asks_for_is_waited() -> None:
    assert schedule()(Failure("x", status=503, asked_wait_s=42.0)) == 42.0


def test_a_refusal_is_not_answered_at_once() -> None:
    assert all((schedule()(Failure("x", status=429)) or 0) > 0.2 for _ in range(100))


def test_a_refusal_where_nothing_is_answered_ends_soon() -> None:
    assert sendings(schedule(3), Failure("x", status=429)) == 4
    assert sendings(schedule(3), Failure("x", status=429, asked_wait_s=0.0)) == 14


def test_a_refusal_is_patient_while_others_are_answered() -> None:
    assert sendings(schedule(3, idle_s=59), Failure("x", status=429)) == 51


def test_a_server_never_met_is_not_tried_for_longer_than_fifteen_seconds() -> None:
    nobody = Failure("x", is_unreachable=True)
    assert schedule(50, used_s=10.5, connect_s=5.0)(nobody) is None
    assert schedule(50, used_s=5.0, connect_s=5.0)(nobody) is not None
    assert schedule(50, used_s=60.0, connect_s=None)(nobody) is not None


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


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_statuses_that_are_tried_again(status: int) -> None:
    failure = of_status("http://h/p", status, [(b"Retry-After", b"2")], b"", redact)
    assert failure.can_retry
    assert failure.asked_wait_s == 2
    error = failure.error(4, never_answered=False)
    assert error.retryable
    assert error.attempts == 4
    assert "(4 attempts)" in str(error)
