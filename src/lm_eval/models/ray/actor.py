"""What runs in the cluster: one model in its own process, which gets requests while it answers.

``answer`` is one stream of the model; meanwhile ``feed`` brings requests, and ``deliver`` yields what is
ready. The stream goes on as long as there are requests: it is never drained between two deliveries, so
groups, batches and shared prefixes are those of a run without Ray.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from lm_eval import __version__
from lm_eval.errors import ModelError
from lm_eval.formats.assemble import Chat, Context
from lm_eval.models.base import LM, Capabilities
from lm_eval.models.loading import load_model
from lm_eval.models.overrides import own_identity
from lm_eval.registry import MODELS
from lm_eval.requests import Answered, Request

Numbered = tuple[int, Request]
"""A request with its number in the driver's stream."""

FEED, DELIVER, ASIDE = "feed", "deliver", "aside"
"""Ray's concurrency groups, one thread each; all other calls are made in the model's own thread."""
_DELIVERED_EVERY_S = 0.1
_MAX_READY = 256
"""As many answers are delivered sooner."""


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


@dataclass
class Delivery:
    """Answers that became ready together."""

    answers: list[tuple[int, Answered]] = field(default_factory=list)
    texts: list[tuple[int, str]] = field(default_factory=list)
    """Chats as the model saw them, each with the number of a request."""
    usage: Mapping[str, Sequence[float]] = field(default_factory=dict)
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
        self._lock = threading.Lock()
        self._stream = _Stream(0)

    def where(self) -> tuple[str, str]:
        """The address of this node, and the release of this package that it has."""
        import ray

        return ray.util.get_node_ip_address(), __version__

    def load(self, model_args: Mapping[str, Any]) -> ReplicaFacts:
        """The facts of the loaded model."""
        self._model = load_model(self._backend, dict(model_args))
        return facts_of(self._model)

    def ask(self, name: str, *arguments: Any) -> Any:
        """A method or attribute of the model; only between streams."""
        value = getattr(self._model, name)
        return value(*arguments) if callable(value) else value

    def render(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        """A chat as the model sees it, also while it answers."""
        assert self._model is not None
        return self._model.apply_chat_template(
            messages, add_generation_prompt=add_generation_prompt
        )

    def feed(self, turn: int, requests: Sequence[Numbered], is_last: bool, ahead: int) -> bool:
        """Add requests to a stream; ``is_last`` ends it after those that came with it.

        Returns when at most ``ahead`` of them are unread, or when the model waits for more: whether it
        does.
        """
        return self._stream_of(turn).feed(requests, is_last=is_last, ahead=ahead)

    def stop(self, turn: int) -> None:
        """End a stream whose answers nobody wants."""
        self._stream_of(turn).stop()

    def answer(self, turn: int) -> None:
        """Have the model answer all requests of a stream."""
        stream, model = self._stream_of(turn), self._model
        assert model is not None
        rendered: Context | None = None
        try:
            for place, answer in model.stream(iter(stream)):
                number, request = stream.take(place)
                context, text = getattr(request, "context", None), None
                if isinstance(context, Chat) and context is not rendered:
                    rendered = context
                    if model.capabilities.chat_template:
                        text = model.render(context)
                stream.add(number, answer, text)
                if stream.is_stopped:
                    break
            stream.end(None)
        except Exception as error:
            stream.end(error)

    def deliver(self, turn: int) -> Iterator[Delivery]:
        """The answers of a stream, as they become ready; at the end, the error that ended it."""
        stream, model = self._stream_of(turn), self._model
        assert model is not None
        while not stream.is_delivered:
            delivery = stream.ready()
            delivery.usage = {task: usage.counts() for task, usage in model.usage.items()}
            yield delivery
        if stream.error is not None:
            raise stream.error

    def _stream_of(self, turn: int) -> _Stream:
        """The stream of a turn, which ends that of an earlier one."""
        with self._lock:
            if turn > self._stream.turn:
                self._stream.stop()
                self._stream = _Stream(turn)
            return self._stream if turn == self._stream.turn else _Stream(turn, is_stopped=True)


class _Stream:
    """One stream: what ``feed`` adds, the model reads in its own thread; its answers are delivered."""

    def __init__(self, turn: int, *, is_stopped: bool = False) -> None:
        self.turn = turn
        self.error: Exception | None = None
        self.is_stopped = self._is_last = self._is_over = self.is_delivered = is_stopped
        self._changed = threading.Condition()
        self._unread: deque[Numbered] = deque()
        self._at_work: dict[int, Numbered] = {}
        self._wants_more = False
        self._ready = Delivery()
        self._delivered_at = 0.0

    # the model's side

    def __iter__(self) -> Iterator[Request]:
        for place in count():
            with self._changed:
                self._wants_more = not self._unread
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._unread or self._is_last)
                self._wants_more = False
                if not self._unread:
                    return
                self._at_work[place] = numbered = self._unread.popleft()
            yield numbered[1]

    def take(self, place: int) -> Numbered:
        """The request that was read at a place, which is answered now."""
        numbered = self._at_work.pop(place, None)
        if numbered is None:
            raise ModelError(
                f"The model answered request {place} of its stream, which it was not asked or had "
                "already answered. A backend answers each request once."
            )
        return numbered

    def add(self, number: int, answer: Answered, text: str | None) -> None:
        with self._changed:
            self._ready.answers.append((number, answer))
            if text is not None:
                self._ready.texts.append((number, text))
            self._changed.notify_all()

    def end(self, error: Exception | None) -> None:
        with self._changed:
            left = len(self._at_work) + len(self._unread)
            if error is None and left and not self.is_stopped:
                error = ModelError(
                    f"The model left {left:,} requests without an answer. A backend answers each "
                    "request once."
                )
            self.error = error
            self._is_last = self._is_over = True
            self._changed.notify_all()

    # the driver's side

    def feed(self, requests: Sequence[Numbered], *, is_last: bool, ahead: int) -> bool:
        with self._changed:
            self._unread.extend(requests)
            self._is_last = self._is_last or is_last
            self._wants_more = self._wants_more and not self._unread
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._is_last or self._wants_more or len(self._unread) <= ahead
            )
            return self._wants_more

    def ready(self) -> Delivery:
        """Wait for answers, those that become ready soon after each other together."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready.answers or self._is_over)
            self._changed.wait_for(
                lambda: self._is_over or len(self._ready.answers) >= _MAX_READY,
                timeout=self._delivered_at + _DELIVERED_EVERY_S - time.monotonic(),
            )
            self._delivered_at, self.is_delivered = time.monotonic(), self._is_over
            delivery, self._ready = self._ready, Delivery()
            return delivery

    def stop(self) -> None:
        with self._changed:
            self._unread.clear()
            self._is_last = self.is_stopped = True
            self._changed.notify_all()


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
