"""Requests are handed out whole doc by whole doc, and fewer at a time near the end."""

from __future__ import annotations

from collections.abc import Iterator

from lm_eval.formats.assemble import Prompt
from lm_eval.models.ray.model import _DocQueue
from lm_eval.requests import LoglikelihoodRequest, Request


def asked(docs: int, choices: int = 4) -> Iterator[Request]:
    for doc in range(docs):
        context = Prompt((f"Q{doc}",))
        for choice in range(choices):
            yield LoglikelihoodRequest("t", doc, choice, context, " A")


def test_docs_stay_together() -> None:
    queue = _DocQueue(asked(10))
    taken = queue.take(6)
    assert [number for number, _ in taken] == list(range(8))
    assert [request.doc_id for _, request in queue.take(1)] == [2] * 4


def test_docs_stay_together_where_reading_pauses() -> None:
    queue = _DocQueue(asked(400, choices=3))  # read 512 at a time: in the middle of a doc
    assert len(queue) == 512
    assert len(queue.take(512)) == 513


def test_everything_is_taken_once() -> None:
    queue, numbers = _DocQueue(asked(700)), []
    while queue:
        queue.fill(1000)
        numbers += [number for number, _ in queue.take(50)]
    assert numbers == list(range(2800))


def test_requests_are_read_as_they_are_needed() -> None:
    read = 0

    def counted() -> Iterator[Request]:
        nonlocal read
        for request in asked(100_000):
            read += 1
            yield request

    queue = _DocQueue(counted())
    for _ in range(50):
        queue.fill(2048)
    assert read < 3000
