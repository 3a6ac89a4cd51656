"""A replica without a cluster: what goes in as requests comes out as answers, one stream at a time."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

import pytest

from lm_eval.errors import FieldError, MissingExtraError, ModelError, RequestError, UsageError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.base import Capabilities, StreamingLM
from lm_eval.models.dummy import DummyLM
from lm_eval.models.ray.actor import Delivery, Replica, packed
from lm_eval.models.ray.line import Door, ReplicaLine
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
        raise RuntimeError("CUDA error: device-side assert")
        yield


def requests(count: int, start: int = 0) -> list[tuple[int, Request]]:
    context = Prompt(("Q",))
    return [
        (number, LoglikelihoodRequest("t", number // 4, number, context, " A"))
        for number in range(start, start + count)
    ]


@pytest.fixture
def replica(request: pytest.FixtureRequest, own_registries: None) -> Replica:
    made = Replica(f"unit-{request.param.__name__}", request.param, ".")
    assert pickle.loads(made.load({})).class_name == request.param.__name__
    return made


def exchange(
    replica: Replica, more: list[tuple[int, Request]], last: bool = False, turn: int = 0
) -> Delivery:
    delivery: Delivery = pickle.loads(replica.exchange(packed(more) if more else None, last, turn))
    assert delivery.turn == turn
    return delivery


@pytest.mark.parametrize("replica", [GreedyLM], indirect=True)
def test_a_model_that_wants_more_says_so_and_answers_at_the_end(replica: Replica) -> None:
    first = exchange(replica, requests(3))
    assert (first.answers, first.is_hungry, first.is_done) == ([], True, False)
    answers: list[Any] = []
    delivery = exchange(replica, requests(2, start=7), last=True)
    while True:
        answers += delivery.answers
        if delivery.is_done:
            break
        delivery = exchange(replica, [])
    assert [number for number, _ in answers] == [8, 7, 2, 1, 0]
    assert answers[0][1] == (-8.0, False)


@pytest.mark.parametrize("replica", [DummyLM], indirect=True)
def test_a_stream_that_is_abandoned_gives_way_to_the_next(replica: Replica) -> None:
    exchange(replica, requests(5))
    replica.abandon()
    delivery = exchange(replica, requests(1, start=40), last=True)
    answers = delivery.answers or exchange(replica, []).answers
    assert [number for number, _ in answers] == [40]


@pytest.mark.parametrize("replica", [GreedyLM], indirect=True)
def test_a_turn_that_nobody_ended_gives_way_to_the_next(replica: Replica) -> None:
    assert exchange(replica, requests(3), turn=0).is_hungry
    delivery = exchange(replica, requests(2, start=40), last=True, turn=1)
    answers = list(delivery.answers)
    while not delivery.is_done:
        delivery = exchange(replica, [], turn=1)
        answers += delivery.answers
    assert [number for number, _ in answers] == [41, 40]


@pytest.mark.parametrize("replica", [GreedyLM], indirect=True)
def test_exchanges_go_over_a_line_as_they_do_as_calls(replica: Replica) -> None:
    replica._door = Door("127.0.0.1")
    with ThreadPoolExecutor(1) as thread:
        life = thread.submit(replica.serve, b"secret")
        line = ReplicaLine.to("127.0.0.1", replica._door.port, b"secret")
        answers: list[Any] = []
        load: bytes | None = packed(requests(3))
        is_done = False
        while not is_done:
            line.send(pickle.dumps((load, True, 5)))
            frames: list[bytes] = []
            while not frames:
                frames = line.receive()
            [delivery] = map(pickle.loads, frames)
            assert delivery.turn == 5
            answers += delivery.answers
            load, is_done = None, delivery.is_done
        line.close()
        assert life.result(10) is None  # a driver that is gone ends it
    assert [number for number, _ in answers] == [2, 1, 0]


@pytest.mark.parametrize("replica", [SilentLM], indirect=True)
def test_requests_without_an_answer_are_an_error(replica: Replica) -> None:
    delivery = exchange(replica, requests(3), last=True)
    while not delivery.is_done:
        delivery = exchange(replica, [])
    assert "left 2 requests without an answer" in str(delivery.error)


@pytest.mark.parametrize("replica", [FailingLM], indirect=True)
def test_a_stranger_s_error_has_its_name(
    replica: Replica, capsys: pytest.CaptureFixture[str]
) -> None:
    delivery = exchange(replica, requests(3), last=True)
    assert isinstance(delivery.error, ModelError)
    assert "RuntimeError: CUDA error: device-side assert." in str(delivery.error)
    assert "Traceback" in capsys.readouterr().err  # Ray's log of the replica


def test_an_error_of_ours_is_the_driver_s_as_it_is() -> None:
    error = pickle.loads(Replica("gguf", None, ".").load({"path": "missing.gguf"}))
    assert isinstance(error, ModelError)
    assert "missing.gguf" in str(error)
    error = pickle.loads(Replica("dummy", None, ".").load({"sed": 1}))
    assert isinstance(error, UsageError)
    assert "Did you mean 'seed'?" in str(error)


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
    delivery = exchange(replica, asked, last=True)
    texts = list(delivery.texts)
    while not delivery.is_done:
        delivery = exchange(replica, [])
        texts += delivery.texts
    assert texts == [(3, "<|user|>\nHi\n<|assistant|>\n")]


def test_requests_of_a_doc_share_their_context_on_the_way() -> None:
    context = Prompt(("word " * 4000,))
    alone = len(packed([LoglikelihoodRequest("t", 0, 0, context, " A")]))
    four = len(packed([LoglikelihoodRequest("t", 0, n, context, " A") for n in range(4)]))
    assert four - alone < 600
