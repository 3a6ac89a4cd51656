"""What the two batch protocols say, and how lines of their results are understood."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lm_eval.errors import RequestError
from lm_eval.models.batches.protocols import (
    AnthropicBatches,
    BatchState,
    LineOutcome,
    OpenAIBatches,
)
from lm_eval.models.http.failures import BrokenBody


class Provider:
    """Answers by path, and keeps what was sent."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, bytes | None, str, bool]] = []

    def __call__(
        self,
        path: str,
        decode: Callable[[bytes], Any],
        body: bytes | None = None,
        *,
        kind: str = "json",
        once: bool = False,
    ) -> Any:
        self.sent.append((path, body, kind, once))
        answer = self.answers[path]
        return decode(answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def openai_outcome(line: dict[str, Any]) -> LineOutcome:
    provider = Provider({"/v1/files/f/content": json.dumps(line).encode() + b"\n\n"})
    state = BatchState(True, "completed", 1, files=("f",))
    (outcome,) = OpenAIBatches(provider, "/v1/chat/completions").outcomes("b", state)
    return outcome


@pytest.mark.parametrize(
    ("response", "error", "said", "is_final"),
    [
        ({"status_code": 400, "body": {"error": {"message": "too long"}}}, None, "too long", True),
        ({"status_code": 429, "body": {"error": {"message": "slow"}}}, None, "slow", False),
        ({"status_code": 500, "body": {"error": "broken"}}, None, "broken", False),
        (None, {"code": "batch_expired", "message": "late"}, "late", False),
        (None, {"code": "batch_cancelled"}, "batch_cancelled", False),
        (None, None, "no reply", False),
    ],
)
def test_openais_errors(response: Any, error: Any, said: str, is_final: bool) -> None:
    outcome = openai_outcome({"custom_id": "a", "response": response, "error": error})
    assert (outcome.custom_id, outcome.body) == ("a", None)
    assert (outcome.error, outcome.is_final) == (said, is_final)


def test_openais_replies() -> None:
    body = {"choices": []}
    line = {"custom_id": "a", "response": {"status_code": 200, "body": body}, "error": None}
    assert openai_outcome(line) == LineOutcome("a", body)


@pytest.mark.parametrize(
    ("result", "said", "is_final"),
    [
        ({"type": "expired"}, "expired", False),
        ({"type": "canceled"}, "canceled", False),
        (
            {
                "type": "errored",
                "error": {"error": {"type": "invalid_request_error", "message": "x"}},
            },
            "x",
            True,
        ),
        ({"type": "errored", "error": {"type": "overloaded_error", "message": "y"}}, "y", False),
    ],
)
def test_anthropics_errors(result: Any, said: str, is_final: bool) -> None:
    line = json.dumps({"custom_id": "a", "result": result}).encode()
    provider = Provider({"/v1/messages/batches/b/results": line})
    (outcome,) = AnthropicBatches(provider, "/v1/messages").outcomes(
        "b", BatchState(True, "ended", 1)
    )
    assert (outcome.error, outcome.is_final, outcome.body) == (said, is_final, None)


@pytest.mark.parametrize(
    ("status", "is_over"),
    [
        ("validating", False), ("in_progress", False), ("finalizing", False), ("cancelling", False),
        ("completed", True), ("expired", True), ("cancelled", True), ("failed", True),
    ],
)  # fmt: skip
def test_when_a_batch_of_openai_is_over(status: str, is_over: bool) -> None:
    counts = {"total": 9, "completed": 4, "failed": 2}
    found = {
        "status": status,
        "request_counts": counts,
        "output_file_id": "o",
        "error_file_id": None,
    }
    state = OpenAIBatches(Provider({"/v1/batches/b": found}), "/v1/x").state("b")
    assert (state.is_over, state.done, state.files) == (is_over, 6, ("o",))
    assert bool(state.refused) == (status == "failed")


def test_a_batch_is_begun_with_one_sending() -> None:
    """A second sending could begin a second batch."""
    provider = Provider({"/v1/files": {"id": "f"}, "/v1/batches": {"id": "b"}})
    batches = OpenAIBatches(provider, "/v1/chat/completions")
    assert batches.upload([b"{}\n"]) == "f"
    assert batches.create([b"{}\n"], "f") == "b"
    assert [once for *_, once in provider.sent] == [False, True]
    claude = Provider({"/v1/messages/batches": {"id": "c"}})
    assert AnthropicBatches(claude, "/v1/messages").create([b'{"custom_id":"a"}', b"{}"], "") == "c"
    _, body, _, once = claude.sent[0]
    assert json.loads(body or b"") == {"requests": [{"custom_id": "a"}, {}]}
    assert once


def batch(name: str, count: int, when: str) -> dict[str, Any]:
    return {"id": name, "created_at": when, "request_counts": {"processing": count}}


LATE, EARLY = "2026-01-02T00:00:00Z", "2020-01-01T00:00:00Z"
SINCE = 1767225600.0  # 2026-01-01


def test_a_lost_batch_of_anthropic_is_one_of_its_size_since_then() -> None:
    listed = [batch("a", 3, LATE), batch("b", 5, LATE), batch("d", 3, LATE), batch("c", 3, EARLY)]
    find = AnthropicBatches(
        Provider({"/v1/messages/batches?limit=100": {"data": listed}}), "/v1/messages"
    ).find
    assert find("", 3, SINCE, set()) == ["a", "d"]
    assert find("", 3, SINCE, {"a"}) == ["d"]
    assert find("", 4, SINCE, set()) == []
    assert find("", 3, 0.0, set()) == ["a", "d", "c"]


@pytest.mark.parametrize(
    ("provider", "path", "cursor"),
    [("openai", "/v1/batches", "after"), ("anthropic", "/v1/messages/batches", "after_id")],
)
def test_lists_are_read_page_by_page_as_far_as_they_can_matter(
    provider: str, path: str, cursor: str
) -> None:
    def page(name: str, when: str) -> dict[str, Any]:
        row = {**batch(name, 3, when), "input_file_id": f"file of {name}"}
        return {"data": [row], "has_more": True}

    pages = {
        f"{path}?limit=100": page("a", LATE),
        f"{path}?limit=100&{cursor}=a": page("b", LATE),
        f"{path}?limit=100&{cursor}=b": page("c", EARLY),
    }
    connect = Provider(pages)
    batches: OpenAIBatches | AnthropicBatches = (
        OpenAIBatches(connect, "/v1/x")
        if provider == "openai"
        else AnthropicBatches(connect, "/v1/messages")
    )
    assert batches.find("file of b", 3, SINCE, {"a"}) == ["b"]
    assert batches.find("file of z", 4, SINCE, set()) == []  # the page behind "c" is not asked for
    assert [sent[0] for sent in connect.sent[-3:]] == list(pages)


@pytest.mark.parametrize(
    ("status", "ids", "holds"),
    [
        ("in_progress", ["k1-m"], None),
        ("canceling", ["k1-m"], None),
        ("ended", ["k2-m", "k1-m"], True),
        ("ended", ["k1-other"], False),  # the same request, handed in by another run
        ("ended", [], False),
    ],
)
def test_the_results_of_a_batch_of_anthropic_say_whose_it_is(
    status: str, ids: list[str], holds: bool | None
) -> None:
    lines = b"".join(json.dumps({"custom_id": one}).encode() + b"\n" for one in ids)
    connect = Provider(
        {
            "/v1/messages/batches/b": {"processing_status": status},
            "/v1/messages/batches/b/results": lines,
        }
    )
    assert AnthropicBatches(connect, "/v1/messages").holds("b", ["k1-m", "k3-m"]) is holds


@pytest.mark.parametrize(("status", "is_raised"), [(404, False), (410, False), (500, True)])
def test_a_batch_that_was_deleted_is_not_ours(status: int, is_raised: bool) -> None:
    def refuse(
        path: str, body: bytes | None = None, *, kind: str = "", once: bool = False
    ) -> bytes:
        raise RequestError("no such batch", status=status)

    if is_raised:
        with pytest.raises(RequestError, match="no such batch"):
            AnthropicBatches(refuse, "/v1/messages").holds("b", ["k1-m"])
    else:
        assert AnthropicBatches(refuse, "/v1/messages").holds("b", ["k1-m"]) is False


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"id": 5}'])
def test_an_answer_without_an_id_is_asked_for_again(body: bytes) -> None:
    with pytest.raises(BrokenBody, match=r"it is not an object|it has no id"):
        OpenAIBatches(Provider({"/v1/batches": body}), "/v1/x").create([], "f")
