"""A replica without a cluster: what goes in as requests comes out as answers, one stream at a time."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import pytest

from lm_eval.errors import FieldError, MissingExtraError, ModelError, RequestError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.base import Capabilities, StreamingLM
from lm_eval.models.ray.actor import Replica
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request


class GreedyLM(StreamingLM):
    """Reads all there is before it answers anything, from behind."""

    capabilities = Capabilities()

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        asked = list(enumerate(requests))
        for place, request in reversed(asked):
            yield place, (-float(request.index), False)


class SilentLM(GreedyLM):
    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        yield from list(super().stream(requests))[:1]


class FailingLM(GreedyLM):
    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        next(iter(requests))
        yield 0, (0.0, False)
        raise RuntimeError("CUDA error: device-side assert")


def requests(count: int, start: int = 0) -> list[tuple[int, Request]]:
    context = Prompt(("Q",))
    return [
        (number, LoglikelihoodRequest("t", number // 4, number, context, " A"))
        for number in range(start, start + count)
    ]


@pytest.fixture
def replica(request: pytest.FixtureRequest, own_registries: None) -> Replica:
    made = Replica(f"unit-{request.param.__name__}", request.param, ".")
    made.load({})
    return made


class Answers:
    """A stream of a replica, with threads in the place of Ray's."""

    def __init__(self, replica: Replica, turn: int = 1) -> None:
        self._replica, self._turn = replica, turn
        self._threads = ThreadPoolExecutor(2)
        self._threads.submit(replica.answer, turn)
        self._delivered = self._threads.submit(lambda: list(replica.deliver(turn)))

    def feed(self, more: list[tuple[int, Request]], last: bool = False, ahead: int = -1) -> bool:
        return self._replica.feed(self._turn, more, last, ahead)

    def all(self) -> list[tuple[int, Any]]:
        with self._threads:
            return [pair for delivery in self._delivered.result(10) for pair in delivery.answers]

    def texts(self) -> list[tuple[int, str]]:
        with self._threads:
            return [pair for delivery in self._delivered.result(10) for pair in delivery.texts]


@pytest.mark.parametrize("replica", [GreedyLM], indirect=True)
def test_a_model_that_wants_more_says_so_and_answers_at_the_end(replica: Replica) -> None:
    stream = Answers(replica)
    assert stream.feed(requests(3))
    stream.feed(requests(2, start=7), last=True)
    answers = stream.all()
    assert [number for number, _ in answers] == [8, 7, 2, 1, 0]
    assert answers[0][1] == (-8.0, False)


@pytest.mark.parametrize("replica", [GreedyLM], indirect=True)
def test_a_stream_that_is_stopped_or_forgotten_gives_way_to_the_next(replica: Replica) -> None:
    stopped = Answers(replica)
    assert stopped.feed(requests(3))
    replica.stop(1)
    assert len(stopped.all()) <= 1
    forgotten = Answers(replica, turn=2)
    assert forgotten.feed(requests(3))
    last = Answers(replica, turn=3)
    last.feed(requests(2, start=40), last=True)
    assert [number for number, _ in last.all()] == [41, 40]
    assert len(forgotten.all()) <= 1
    assert not forgotten.feed(requests(1))  # late, and not waited for


@pytest.mark.parametrize("replica", [SilentLM], indirect=True)
def test_requests_without_an_answer_are_an_error(replica: Replica) -> None:
    stream = Answers(replica)
    stream.feed(requests(3), last=True)
    with pytest.raises(ModelError, match="left 2 requests without an answer"):
        stream.all()


@pytest.mark.parametrize("replica", [FailingLM], indirect=True)
def test_an_error_comes_after_the_answers_before_it(replica: Replica) -> None:
    replica.feed(1, requests(3), True, 0)
    replica.answer(1)
    deliveries = replica.deliver(1)
    assert [number for number, _ in next(deliveries).answers] == [0]
    with pytest.raises(RuntimeError, match="device-side assert"):
        next(deliveries)


@pytest.mark.parametrize(
    "error",
    [
        MissingExtraError("Needs x.", install="pip install x"),
        RequestError("No.", status=500, attempts=3, stops_run=True),
        FieldError("has no value", task="t", field="f", doc_id=3),
    ],
)
def test_errors_survive_the_journey(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert (str(back), vars(back)) == (str(error), vars(error))


def test_chats_come_back_as_the_model_saw_them() -> None:
    replica = Replica("dummy", None, ".")
    replica.load({})
    chat = Chat((Message("user", "Hi"),))
    kwargs = MappingProxyType({"max_gen_toks": 4})  # as tasks share theirs
    asked: list[tuple[int, Request]] = [
        (number, GenerateRequest("t", 0, number, chat, kwargs)) for number in (3, 4)
    ]
    stream = Answers(replica)
    stream.feed(asked, last=True)
    assert stream.texts() == [(3, "<|user|>\nHi\n<|assistant|>\n")]
