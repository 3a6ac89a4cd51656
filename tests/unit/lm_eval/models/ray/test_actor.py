"""A replica without a cluster: what goes in as requests comes out as answers, one batch at a time."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from time import sleep
from typing import Any

import pytest

from lm_eval.errors import FieldError, MissingExtraError, ModelError, RequestError
from lm_eval.formats.assemble import Prompt
from lm_eval.models.base import Capabilities, StreamingLM
from lm_eval.models.ray.actor import Replica
from lm_eval.requests import LoglikelihoodRequest, Request


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
        sleep(0.3)  # longer than answers wait for each other
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


def answers(replica: Replica, batch: list[tuple[int, Request]]) -> list[tuple[int, Any]]:
    return [pair for delivery in replica.answer(1, batch) for pair in delivery.answers]


@pytest.mark.parametrize("replica", [GreedyLM], indirect=True)
def test_answers_have_the_numbers_of_their_requests(replica: Replica) -> None:
    given = answers(replica, requests(3, start=7))
    assert given == [(9, (-9.0, False)), (8, (-8.0, False)), (7, (-7.0, False))]


@pytest.mark.parametrize("replica", [GreedyLM], indirect=True)
def test_an_abandoned_batch_gives_way_to_those_of_the_next_stream(replica: Replica) -> None:
    replica.abandon(1)
    assert answers(replica, requests(3)) == []
    assert len([*replica.answer(2, requests(3))]) == 1


@pytest.mark.parametrize("replica", [SilentLM], indirect=True)
def test_requests_without_an_answer_are_an_error(replica: Replica) -> None:
    with pytest.raises(ModelError, match="left 2 requests without an answer"):
        answers(replica, requests(3))


@pytest.mark.parametrize("replica", [FailingLM], indirect=True)
def test_an_error_comes_after_the_answers_before_it(replica: Replica) -> None:
    deliveries = replica.answer(1, requests(3))
    assert [number for number, _ in next(deliveries).answers] == [0]
    with pytest.raises(RuntimeError, match="device-side assert"):
        list(deliveries)


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
