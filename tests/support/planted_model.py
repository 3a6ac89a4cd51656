"""A model that knows the answers and lets the format decide how often it gives them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from lm_eval.models.dummy import DummyLM
from lm_eval.registry import MODELS
from lm_eval.requests import Answer, LoglikelihoodRequest, Request, Score

USUAL = 0.6


class PlantedLM(DummyLM):
    """Right on a share of the docs that the format decides.

    ``apart`` is how far formats lie above and below the usual share. ``by_label`` is the share for
    labels that are numbers, the opposite for roman ones. ``best`` and ``worst`` name formats that are
    right nearly always and nearly never. Whether a doc is easy is the same under every format, as
    with real models.
    """

    keeps_answers = True

    def __init__(
        self,
        best: str = "",
        worst: str = "",
        by_label: float = USUAL,
        apart: float = 0.0,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.apart = float(apart)
        self.best, self.worst, self.by_label = best, worst, float(by_label)

    def identity(self) -> dict[str, Any]:
        facts = (self.seed, self.best, self.worst, self.by_label, self.apart)
        return {"planted": facts}

    def _answer(self, request: Request) -> Answer:
        assert isinstance(request, LoglikelihoodRequest)
        gold = int(request.doc["answer"])
        is_right = self._ease(request) < self.share(request.task.partition("@")[2], request)
        chosen = gold if is_right else (gold + 1) % len(request.doc["choices"])
        return Score(-1.0 if request.index == chosen else -5.0, False, tokens=1)

    def share(self, name: str, request: LoglikelihoodRequest) -> float:
        """How often the model is right under the format of this name."""
        if name in (self.best, self.worst):
            return 0.98 if name == self.best else 0.02
        if self.apart:
            draws = [self._share_of(f"{place} {name}") for place in range(4)]
            return USUAL + self.apart * (sum(draws) - 2)
        label = request.continuation.strip()
        if label.isascii() and label.isdigit():
            return self.by_label
        return 1 - self.by_label if set(label.upper()) <= set("IVX") else USUAL

    def _ease(self, request: LoglikelihoodRequest) -> float:
        """Between 0 and 1: half of it the doc's own, half the doc's under this format."""
        own = self._share_of(f"{request.doc_id}")
        return (own + self._share_of(f"{request.doc_id} {request.task}")) / 2

    def _share_of(self, text: str) -> float:
        digest = blake2b(f"{self.seed} {text}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


def register() -> None:
    MODELS.register("planted", PlantedLM)
