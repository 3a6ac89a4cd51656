"""A backend whose answers follow from the question's number, so that every score is known beforehand.

Question ``Q7?`` has the choices w, x, y, z and the gold 7 % 4. ``mcqa``, ``cloze`` and ``generate`` name
the rule by which an item is right under that format: ``always``, ``never``, or a number k for every k-th
item wrong. Under ``generate``, every ``unread``-th reply cannot be read, and the requests of docs in
``fails`` fail for good.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from lm_eval.errors import RequestError
from lm_eval.models.dummy import DummyLM
from lm_eval.requests import (
    Answered,
    FailedRequest,
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    Request,
    Score,
)

LABELS, TEXTS = "ABCD", "wxyz"


class KnownLM(DummyLM):
    """Right or wrong by rule."""

    def __init__(
        self,
        mcqa: Any = "always",
        cloze: Any = 2,
        generate: Any = "always",
        unread: int = 0,
        fails: str = "",
    ) -> None:
        super().__init__()
        self.fails = {int(doc) for doc in str(fails).split("+") if doc}
        self.rules = {"mcqa": mcqa, "cloze": cloze, "generate": generate}
        self.unread = int(unread)

    def identity(self) -> dict[str, Any]:
        return {**self.rules, "unread": self.unread}

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answered]]:
        for place, request in enumerate(requests):
            if isinstance(request, GenerateRequest) and request.doc_id in self.fails:
                yield (
                    place,
                    FailedRequest(RequestError("The server says no (HTTP 500).", status=500)),
                )
            else:
                yield place, self._answer(request)

    def _score(self, request: LoglikelihoodRequest) -> Score:
        answer = request.continuation.strip()
        format_name = "mcqa" if answer in LABELS else "cloze"
        place = (LABELS if format_name == "mcqa" else TEXTS).index(answer)
        is_chosen = place == self._choice(request.context, format_name)
        return Score(-1.0 if is_chosen else -9.0, is_greedy=is_chosen, tokens=1)

    def _generate(self, request: GenerateRequest) -> Reply:
        number = _number(request.context)
        if self.unread and number % self.unread == 0:
            return Reply("I would rather not say.")
        return Reply(f" {LABELS[self._choice(request.context, 'generate')]}")

    def _choice(self, context: Any, format_name: str) -> int:
        number, rule = _number(context), self.rules[format_name]
        is_wrong = rule == "never" or (rule != "always" and number % int(rule) == 0)
        return (number + is_wrong) % 4


def _number(context: Any) -> int:
    return int(re.findall(r"Q(\d+)\?", str(context))[-1])
