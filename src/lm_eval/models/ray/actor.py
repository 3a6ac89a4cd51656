"""What runs in the cluster: one model in its own process, which gets requests while it answers.

An exchange brings requests and returns the answers that are ready, over the driver's own connection or
as a call of Ray. The model reads requests from a queue, as one stream that goes on as long as there are
any: it is never drained between two deliveries, so groups, batches and shared beginnings are those of a
run without Ray.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lm_eval import __version__
from lm_eval.errors import LmEvalError, ModelError
from lm_eval.formats.assemble import Chat, Context
from lm_eval.models.base import LM, Capabilities, overridden
from lm_eval.models.loading import load_model
from lm_eval.models.overrides import redefinition
from lm_eval.models.ray.line import Door
from lm_eval.registry import MODELS
from lm_eval.requests import Answered, Request

Numbered = tuple[int, Request]
"""A request with its number in the driver's stream."""

THREADS = 4
"""Calls that a replica handles at a time: the line, or an exchange and the next one, and questions."""


@dataclass(frozen=True)
class ReplicaFacts:
    """What the driver has to know about the model in a replica."""

    capabilities: Capabilities
    class_name: str
    identity: Mapping[str, Any] | None
    """None if the backend's name and arguments are all that decides answers."""
    chat_template: str | None
    is_tuned_for_chats: bool
    tokenizer_name: str
    keeps_answers: bool
    can_encode: bool
    can_decode: bool
    max_gen_toks: int | None


@dataclass
class Delivery:
    """What one exchange brings back."""

    turn: int
    """The driver's number of the stream."""
    answers: list[tuple[int, Answered]]
    unread: int
    """Requests that the model has not read yet."""
    is_hungry: bool
    """Whether the model waits for more requests."""
    is_done: bool
    """Whether the stream has ended."""
    texts: list[tuple[int, str]]
    """Chats as the model saw them, each with the number of a request."""
    error: LmEvalError | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)


class Replica:
    """A model in the cluster. Nothing is loaded before ``load``, so that placing it is quick."""

    def __init__(self, backend: str, backend_class: type[LM] | None, folder: str) -> None:
        with suppress(OSError):  # relative paths mean the driver's, where the folder is here too
            os.chdir(folder)
        if backend_class is not None and backend not in MODELS:
            MODELS.register(backend, backend_class)
        self._backend = backend
        self._model: LM | None = None
        self._changed = threading.Condition()
        self._stream: _Stream | None = None
        self._door: Door | None = None
        # Engines may be bound to the thread that made them: one thread does all of a model's work.
        self._thread = ThreadPoolExecutor(1, "model")

    def where(self) -> dict[str, Any]:
        """Where this process runs, which release it has, and where it waits for the driver's line."""
        import ray

        context = ray.get_runtime_context()
        address = ray.util.get_node_ip_address()
        with suppress(OSError):  # an address by which only other nodes reach this one
            self._door = Door(address)
        return {
            "node": context.get_node_id(),
            "address": address,
            "port": None if self._door is None else self._door.port,
            "pid": os.getpid(),
            "version": __version__,
        }

    def load(self, model_args: Mapping[str, Any]) -> bytes:
        """The facts of the loaded model, or the error that ended loading."""
        return self._thread.submit(self._load, dict(model_args)).result()

    def _load(self, model_args: dict[str, Any]) -> bytes:
        try:
            self._model = load_model(self._backend, model_args)
            return packed(facts_of(self._model))
        except BaseException as error:  # whatever it is, the driver reports it
            return packed(_surfaced(error, "could not load the model"))

    def ask(self, name: str, *arguments: Any) -> Any:
        """A method or attribute of the model; only between streams."""
        return self._thread.submit(self._ask, name, arguments).result()

    def _ask(self, name: str, arguments: Sequence[Any]) -> Any:
        value = getattr(self._model, name)
        return value(*arguments) if callable(value) else value

    def render(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        """A chat as the model sees it, also while it answers."""
        assert self._model is not None
        return self._model.apply_chat_template(
            messages, add_generation_prompt=add_generation_prompt
        )

    # -- requests and answers ----------------------------------------------------------------

    def serve(self, secret: bytes) -> None:
        """Exchange over the driver's line until the driver is gone."""
        assert self._door is not None
        with closing(self._door.admit(secret)) as line:
            for frame in line.frames():
                line.send(self.exchange(*pickle.loads(frame)))

    def exchange(self, requests: bytes | None, is_last: bool, turn: int) -> bytes:
        """Take requests and return the answers that are ready; wait until there is something to report.

        The first requests of a turn begin a stream, and abandon that of an earlier turn; ``is_last``
        ends it after those that came with it.
        """
        with self._changed:
            if self._stream is not None and self._stream.turn != turn:
                self._stream.abandon()
                self._stream = None
            stream = self._stream
            if stream is None:
                stream = self._stream = _Stream(self._changed, turn)
                self._thread.submit(self._answer, stream)
            stream.deliver(pickle.loads(requests) if requests else (), is_last=is_last)
            delivery = stream.wait()
            if delivery.is_done and self._stream is stream:
                self._stream = None
        assert self._model is not None
        delivery.usage = {task: usage.counts() for task, usage in self._model.usage.items()}
        return packed(delivery)

    def abandon(self) -> None:
        """End the stream: nobody wants its answers any more."""
        with self._changed:
            if self._stream is not None:
                self._stream.abandon()
                self._stream = None

    def _answer(self, stream: _Stream) -> None:
        try:
            assert self._model is not None
            render = self._model.render if self._model.capabilities.chat_template else None
            answers = iter(self._model.stream(stream))
            for index, answer in answers:
                if not stream.take(index, answer, render):
                    close = getattr(answers, "close", None)
                    if close is not None:
                        close()
                    break
            stream.finish(None)
        except BaseException as error:
            stream.finish(_surfaced(error, "could not answer"))


class _Stream:
    """One stream of requests to the model, which reads it in its own thread."""

    def __init__(self, changed: threading.Condition, turn: int) -> None:
        self.turn = turn
        self._changed = changed
        self._waiting: deque[Numbered] = deque()
        self._read: dict[int, Numbered] = {}
        self._count = 0
        self._answers: list[tuple[int, Answered]] = []
        self._texts: list[tuple[int, str]] = []
        self._rendered: Context | None = None
        self._is_last = False
        self._is_hungry = False
        self._is_abandoned = False
        self._is_done = False
        self._error: LmEvalError | None = None

    # the model's side

    def __iter__(self) -> Iterator[Request]:
        return self

    def __next__(self) -> Request:
        with self._changed:
            while not self._waiting and not self._is_last:
                self._is_hungry = True
                self._changed.notify_all()
                self._changed.wait()
            self._is_hungry = False
            if not self._waiting:
                raise StopIteration
            numbered = self._read[self._count] = self._waiting.popleft()
            self._count += 1
            return numbered[1]

    def take(self, index: int, answer: Answered, render: Callable[[Context], str] | None) -> bool:
        """Note an answer; False if nobody wants it."""
        numbered = self._read.pop(index, None)
        if numbered is None:
            raise ModelError(
                f"The model answered request {index} of its stream, which it was not asked or had "
                "already answered. A backend answers each request once."
            )
        number, request = numbered
        text = None
        context = getattr(request, "context", None)
        if render is not None and isinstance(context, Chat) and context is not self._rendered:
            text, self._rendered = render(context), context
        with self._changed:
            self._answers.append((number, answer))
            if text is not None:
                self._texts.append((number, text))
            self._changed.notify_all()
            return not self._is_abandoned

    def finish(self, error: LmEvalError | None) -> None:
        with self._changed:
            if error is None and (self._read or self._waiting) and not self._is_abandoned:
                left = len(self._read) + len(self._waiting)
                error = ModelError(
                    f"The model left {left:,} requests without an answer. A backend answers each "
                    "request once."
                )
            self._error = error
            self._is_done = True
            self._changed.notify_all()

    # the driver's side, under the lock

    def deliver(self, requests: Sequence[Numbered], *, is_last: bool) -> None:
        self._waiting.extend(requests)
        self._is_last = self._is_last or is_last
        if self._waiting or self._is_last:
            self._is_hungry = False  # until it has read what came
        self._changed.notify_all()

    def wait(self) -> Delivery:
        while not (self._answers or self._is_hungry or self._is_done or self._is_abandoned):
            self._changed.wait()
        answers, self._answers = self._answers, []
        texts, self._texts = self._texts, []
        return Delivery(
            *(self.turn, answers, len(self._waiting), self._is_hungry, self._is_done, texts),
            error=self._error,
        )

    def abandon(self) -> None:
        self._waiting.clear()
        self._is_last = self._is_abandoned = True
        self._changed.notify_all()


def packed(value: Any) -> bytes:
    """A value as bytes for another process; contexts that requests share are in it once."""
    buffer = io.BytesIO()
    _Packer(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class _Packer(pickle.Pickler):
    """Packs read-only mappings, such as arguments for generation, as plain ones."""

    def reducer_override(self, value: Any) -> Any:
        return (dict, (dict(value),)) if isinstance(value, MappingProxyType) else NotImplemented


def facts_of(model: LM) -> ReplicaFacts:
    """What the driver answers on behalf of the model."""
    identity = model.identity()
    if identity is not None:
        redefined = {} if overridden(model, ["identity"]) else redefinition(model)
        identity = {"class": type(model).__name__, **identity, **redefined}
    template = getattr(model, "chat_template", None)
    template = template(True) if callable(template) else template
    limit = getattr(model, "max_gen_toks", None)
    return ReplicaFacts(
        capabilities=model.capabilities,
        class_name=type(model).__name__,
        identity=identity,
        chat_template=None if template is None else str(template),
        is_tuned_for_chats=model.is_tuned_for_chats,
        tokenizer_name=model.tokenizer_name,
        keeps_answers=model.keeps_answers,
        can_encode=model.encoder is not None,
        can_decode=model.decoder is not None,
        max_gen_toks=limit if isinstance(limit, int) else None,
    )


def _surfaced(error: BaseException, what: str) -> LmEvalError:
    """The error as the driver raises it: one of ours unchanged, any other with its name."""
    if isinstance(error, LmEvalError):
        return error
    traceback.print_exception(error, file=sys.stderr)
    sys.stderr.flush()
    reason = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    return ModelError(
        f"A replica {what}: {type(error).__name__}: {reason}. Its traceback is in Ray's logs "
        "(worker-*.err in the session's logs folder of that node)."
    )
