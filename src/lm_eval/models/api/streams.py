"""Requests in, answers out: jobs are made as they are sent, a bounded window of them at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lm_eval.models.api.calls import ServerCaller
from lm_eval.models.api.generation import GenerationJobs
from lm_eval.models.api.scoring import Ability, ServerScorer, packed
from lm_eval.models.api.settings import ServerModel
from lm_eval.requests import Answered, FailedRequest, LoglikelihoodRequest, RollingRequest


class Streams:
    """The streams of one model, one for each kind of request."""

    def __init__(self, model: ServerModel, caller: ServerCaller) -> None:
        self._model = model
        self._caller = caller

    def replies(self, requests: Iterable[Any]) -> Iterator[tuple[int, Answered]]:
        jobs = GenerationJobs(self._model, self._model.generates_from_tokens()).made(requests)
        for job, answers in self._model.transport.window(jobs, self._caller.generate):
            if isinstance(answers, list):
                yield from zip(job.places, answers, strict=True)
            else:
                self._caller.count_failure(job.task, answers)
                failed = FailedRequest(answers)
                yield from ((place, failed) for place in job.places)

    def scores(
        self, requests: Iterable[LoglikelihoodRequest], ability: Ability
    ) -> Iterator[tuple[int, Answered]]:
        groups = self._model.planner.groups(requests, self._model.render)
        for scores in self.scored(groups, ability):
            yield from scores

    def texts(
        self, requests: Iterable[RollingRequest], ability: Ability
    ) -> Iterator[tuple[int, Answered]]:
        for scores in self.scored(self._model.planner.windows(requests), ability):
            sums: dict[int, float] = {}
            for place, score in scores:
                if isinstance(score, FailedRequest):
                    sums.pop(place, None)
                    yield place, score
                    continue
                sums[place] = sums.get(place, 0.0) + score[0]
            yield from sums.items()

    def scored(self, groups: Iterable[Any], ability: Ability) -> Iterator[list[tuple[int, Any]]]:
        batch_size = self._caller.settings.batch_size
        packs = packed(groups, ability, batch_size)
        work = self._caller.scoring(ServerScorer(self._caller, ability, batch_size))
        for pack, scores in self._model.transport.window(packs, work):
            if isinstance(scores, list):
                yield scores
            else:
                self._caller.count_failure(pack[0].task, scores)
                failed = FailedRequest(scores)
                places = {span.place for group in pack for span in group.spans}
                yield [(place, failed) for place in sorted(places)]
