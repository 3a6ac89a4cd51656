"""What runs in the cluster: one model in its own process, which answers one batch of requests at a time.

Answers leave a batch as they become ready, so that what was answered before a death is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from lm_eval import VERSION
from lm_eval.errors import ModelError
from lm_eval.models.base import LM, Capabilities
from lm_eval.models.loading import load_model
from lm_eval.models.overrides import own_identity
from lm_eval.registry import MODELS
from lm_eval.requests import Answered, Request

Numbered = tuple[int, Request]
"""A request with its number in the driver's stream."""

ASIDE = "aside"
"""Ray's concurrency group for calls that do not wait for the batch that is being answered."""
_DELIVERED_EVERY_S = 0.1


@dataclass(frozen=True)
class ReplicaFacts:
    """What the driver has to know about the model in a replica."""

    capabilities: Capabilities
    identity: Mapping[str, Any] | None
    """None if the backend's name and arguments are all that decides answers."""
    has_known_answers: bool
    """Whether anything is known to decide them."""
    chat_template: str | None
    is_tuned_for_chats: bool
    tokenizer_name: str
    keeps_answers: bool
    can_encode: bool
    can_decode: bool
    max_gen_toks: int | None


@dataclass(frozen=True)
class Delivery:
    """Answers that became ready together."""

    answers: Sequence[tuple[int, Answered]]
    usage: Mapping[str, Sequence[float]]
    """What the replica's requests have cost so far, by task."""


class Replica:
    """A model in the cluster. Nothing is loaded before ``load``, so that placing it is quick."""

    def __init__(self, backend: str, backend_class: type[LM] | None, folder: str) -> None:
        with suppress(OSError):  # relative paths mean the driver's, where the folder is here too
            os.chdir(folder)
        if backend_class is not None and backend not in MODELS:
            MODELS.register(backend, backend_class)
        self._backend = backend
        self._model: LM | None = None
        self._abandoned = 0
        self._thread = ThreadPoolExecutor(1)
        """Where the model works, while answers leave in Ray's thread."""

    def where(self) -> tuple[str, str]:
        """The address of this node, and the release of this package that it has."""
        import ray

        return ray.util.get_node_ip_address(), VERSION

    def load(self, model_args: Mapping[str, Any]) -> ReplicaFacts:
        """The facts of the loaded model."""
        self._model = self._thread.submit(load_model, self._backend, dict(model_args)).result()
        return facts_of(self._model)

    @property
    def model(self) -> LM:
        assert self._model is not None, "load comes first"
        return self._model

    def ask(self, name: str, *arguments: Any) -> Any:
        """A method or attribute of the model; only between batches."""
        value = getattr(self.model, name)
        return value(*arguments) if callable(value) else value

    def render(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        """A chat as the model sees it, also while it answers."""
        return self.model.apply_chat_template(messages, add_generation_prompt=add_generation_prompt)

    def abandon(self, turn: int) -> None:
        """End the batches of a stream whose answers nobody wants."""
        self._abandoned = turn

    def answer(self, turn: int, requests: Sequence[Numbered]) -> Iterator[Delivery]:
        """The answers to a batch, in deliveries of what became ready soon after each other.

        ``turn`` is the number of the driver's stream to which the batch belongs.
        """
        ready: SimpleQueue[tuple[int, Answered] | None] = SimpleQueue()
        at_work = self._thread.submit(self._run, turn, requests, ready)
        delivered_at, is_over = 0.0, False
        while not is_over:
            answers = []
            with suppress(Empty):
                answer = ready.get()
                while answer is not None:
                    answers.append(answer)
                    wait_s = delivered_at + _DELIVERED_EVERY_S - time.monotonic()
                    answer = ready.get(timeout=max(0.0, wait_s))
                is_over = True
            delivered_at = time.monotonic()
            usage = {task: usage.counts() for task, usage in self.model.usage.items()}
            yield Delivery(answers, usage)
        at_work.result()

    def _run(
        self,
        turn: int,
        requests: Sequence[Numbered],
        ready: SimpleQueue[tuple[int, Answered] | None],
    ) -> None:
        """Have the model answer a batch; None is behind its last answer, and behind an error."""
        left = {place: number for place, (number, _) in enumerate(requests)}
        try:
            for place, answer in self.model.stream(self._unless_abandoned(turn, requests)):
                if turn <= self._abandoned:
                    return
                if place not in left:
                    raise ModelError(
                        f"The model answered request {place} of its batch, which it was not asked or "
                        "had already answered. A backend answers each request once."
                    )
                ready.put((left.pop(place), answer))
            if left and turn > self._abandoned:
                raise ModelError(
                    f"The model left {len(left):,} requests without an answer. A backend answers each "
                    "request once."
                )
        finally:
            ready.put(None)

    def _unless_abandoned(self, turn: int, requests: Sequence[Numbered]) -> Iterator[Request]:
        for _, request in requests:
            if turn > self._abandoned:
                yield request


def facts_of(model: LM) -> ReplicaFacts:
    """What the driver answers on behalf of the model."""
    identity = own_identity(model)
    template = getattr(model, "chat_template", None)
    template = template(True) if callable(template) else template
    limit = getattr(model, "max_gen_toks", None)
    return ReplicaFacts(
        capabilities=model.capabilities,
        identity=identity,
        has_known_answers=identity is not None or model.identity() is None,
        chat_template=None if template is None else str(template),
        is_tuned_for_chats=model.is_tuned_for_chats,
        tokenizer_name=model.tokenizer_name,
        keeps_answers=model.keeps_answers,
        can_encode=model.encoder is not None,
        can_decode=model.decoder is not None,
        max_gen_toks=limit if isinstance(limit, int) else None,
    )
