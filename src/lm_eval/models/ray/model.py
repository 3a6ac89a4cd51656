"""Replicas of any backend on a Ray cluster, found or started, with one store of answers.

Requests, keys, the store and scores stay in this process, the driver. Each replica holds a complete
backend and only answers, so that a run with Ray and one without resume each other.

Each replica has one batch of whole docs at work and one waiting. Requests that were at work in a
replica when it died are asked again, first and by themselves; a request that alone ends a second replica
has failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from lm_eval.errors import ModelError, RequestError, UsageError, listing
from lm_eval.formats.grammar import Grammar
from lm_eval.models.base import LM, Capabilities, StreamingLM, is_ours
from lm_eval.models.loading import RAY_ARGUMENTS, behind_ray, load_model, model_class
from lm_eval.models.ray.actor import Numbered, ReplicaFacts
from lm_eval.models.ray.cluster import Cluster
from lm_eval.models.ray.replicas import Event, Handle, Lost, Needs, ReplicaPool
from lm_eval.models.settings import Amount, Count, checked
from lm_eval.requests import Answered, FailedRequest, Request
from lm_eval.requests.values import Usage

DEFAULT_TIMEOUT_S = 600.0
MAX_BATCH = 1024
MIN_BATCH = 8
_READ_AT_ONCE = 512


class RayLM(StreamingLM):
    """Replicas of a backend. Every argument that is not listed here is the backend's."""

    @checked
    def __init__(
        self,
        backend: Annotated[str, "what each replica runs: `hf`, `vllm`, `gguf`, …"],
        replicas: Annotated[
            Count | None,
            "how many; by default one per `num_gpus` GPUs, or one per node without any",
        ] = None,
        num_gpus: Annotated[
            Amount | None, "GPUs for each; by default 1 if the cluster has any, else 0"
        ] = None,
        num_cpus: Annotated[
            Amount | None, "cores for each, which is also how many threads torch uses on a CPU"
        ] = 1,
        address: Annotated[
            str | None,
            "`HOST:PORT` of the head node, `auto` for a cluster on this machine, `local` for one of "
            "this run's own; by default what is running here, else `local`",
        ] = None,
        timeout: Annotated[
            Amount, "seconds without any replica after which the run ends, with its answers kept"
        ] = DEFAULT_TIMEOUT_S,
        backend_args: Annotated[
            Mapping[str, Any] | None,
            "arguments of the backend whose names are listed here, as a mapping",
        ] = None,
        **arguments: Any,
    ) -> None:
        self._backend = str(backend)
        self._arguments = {**arguments, **(backend_args or {})}
        inner = self._inner_class(self._backend)
        inner.check_args(self._arguments, name=self._backend)
        timeout = timeout or DEFAULT_TIMEOUT_S
        gpus, cpus = num_gpus, num_cpus or 0
        self._cluster = Cluster.connect(None if address is None else str(address))
        self._pool: ReplicaPool | None = None
        try:
            if gpus is None:
                gpus = 1 if self._cluster.resources.get("GPU") else 0
            needed = {"CPU": cpus, "GPU": gpus}
            needs = Needs(
                self._backend, None if is_ours(inner) else inner, self._arguments, needed, timeout
            )
            self._pool = ReplicaPool(self._cluster, needs, replicas or self._cluster.room(needed))
            self._facts = self._pool.start()
        except BaseException:
            self.close()
            raise
        self.capabilities: Capabilities = self._facts.capabilities
        self.keeps_answers = self._facts.keeps_answers
        self.max_gen_toks = self._facts.max_gen_toks

    @staticmethod
    def _inner_class(backend: str) -> type[LM]:
        inner = model_class(backend)
        if issubclass(inner, RayLM):
            raise UsageError(
                "backend=ray: a replica answers with a model. Give hf, vllm, gguf, …, or a backend of "
                "your own."
            )
        return inner

    # -- arguments ---------------------------------------------------------------------------

    @classmethod
    def check_args(cls, model_args: Mapping[str, Any], *, name: str) -> None:
        """As for every backend; the replicas' backend checks arguments that are not Ray's."""
        super().check_args(model_args, name=name)
        more = model_args.get("backend_args")
        if more is not None and not isinstance(more, Mapping):
            raise UsageError(
                f"Model {name!r}: backend_args is a mapping, not {more!r}. Write it in JSON: "
                '--model_args \'{"backend": "hf", "backend_args": {"backend": "seq2seq"}, …}\'. Only '
                f"arguments of the backend that are called {listing(RAY_ARGUMENTS)} need it."
            )
        backend, arguments = behind_ray(model_args)
        cls._inner_class(backend).check_args(arguments, name=backend)

    @classmethod
    def for_tokens(cls, model_args: Mapping[str, Any], *, name: str) -> LM:
        """The backend itself, in this process: tokens need no cluster."""
        cls.check_args(model_args, name=name)
        backend, arguments = behind_ray(model_args)
        return load_model(backend, arguments, for_tokens=True)

    # -- requests ----------------------------------------------------------------------------

    @property
    def pool(self) -> ReplicaPool:
        assert self._pool is not None, "made in __init__"
        return self._pool

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answered]]:
        return Dispatch(self.pool, requests).answers()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._cluster.close()

    # -- what the model is -------------------------------------------------------------------

    @property
    def answers_as(self) -> tuple[str | None, Mapping[str, Any]]:
        """The backend and the arguments under which answers are stored; None if they are not."""
        return self._backend if self._facts.has_known_answers else None, self._arguments

    def identity(self) -> Mapping[str, Any] | None:
        """The identity of the model in the replicas: answers are the same with and without Ray."""
        return self._facts.identity

    @property
    def facts(self) -> ReplicaFacts:
        """What the model in the replicas is."""
        return self._facts

    @property
    def chat_template(self) -> str | None:
        return self._facts.chat_template

    @property
    def is_tuned_for_chats(self) -> bool:
        return self._facts.is_tuned_for_chats

    @property
    def tokenizer_name(self) -> str:
        return self._facts.tokenizer_name

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        text = self.pool.render(chat_history, add_generation_prompt)
        if text is None:
            raise ModelError(
                "A chat could not be rendered, because no replica was there. The same command continues "
                "from the stored answers."
            )
        return text

    def why_not_enforceable(self, grammar: Grammar) -> str | None:
        reason = super().why_not_enforceable(grammar) or self.pool.ask(
            "why_not_enforceable", grammar
        )
        return None if reason is None else str(reason)

    @property
    def encoder(self) -> Callable[[str], Sequence[int]] | None:
        return partial(self.pool.ask, "encoder") if self._facts.can_encode else None

    @property
    def decoder(self) -> Callable[[Sequence[int]], str] | None:
        return partial(self.pool.ask, "decoder") if self._facts.can_decode else None

    @property
    def usage(self) -> Mapping[str, Usage]:
        return self.pool.usage

    @property
    def warnings(self) -> list[str]:
        """The warnings of the replicas, each once, and how many replicas could not be placed."""
        notes: dict[str, list[str]] = {}
        for handle, warnings in self.pool.ask_all("warnings"):
            for note in warnings:
                notes.setdefault(note, []).append(f"replica {handle.number} on {handle.address}")
        shown = [
            note if len(self.pool.handles) == 1 else f"{note} ({listing(who, limit=4)})"
            for note, who in notes.items()
        ]
        waiting = [handle for handle in self.pool.handles if handle.state == "placing"]
        if waiting:
            shown.append(
                f"{len(waiting)} of {len(self.pool.handles)} replicas found no place in the cluster: "
                f"{self._cluster.shown()}."
            )
        return shown

    def describe(self) -> dict[str, Any]:
        facts = dict(self.pool.ask("describe"))
        nodes = sorted({handle.address for handle in self.pool.handles if handle.is_placed})
        return facts | {
            "ray": self._cluster.ray.__version__,
            "ray_replicas": len(self.pool.handles),
            "ray_nodes": len(nodes),
            "ray_replicas_lost": self.pool.lost,
        }


class Dispatch:
    """One stream of requests over all replicas."""

    def __init__(self, pool: ReplicaPool, requests: Iterable[Request]) -> None:
        self._pool = pool
        self._queue = _DocQueue(requests)
        self._suspects: deque[list[Numbered]] = deque()
        """Requests that were at work in a replica when it died, by replica."""

    def answers(self) -> Iterator[tuple[int, Answered]]:
        """``(index in requests, answer)`` as answers arrive."""
        try:
            while self._hand_out():
                for handle, event in self._pool.events():
                    yield from self._heard(handle, event)
        finally:
            self._pool.abandon()

    def _hand_out(self) -> bool:
        """Give each replica a batch to work on and one to wait; False once everything is answered."""
        handles = self._pool.handles
        self._queue.fill(2 * MAX_BATCH * len(handles))
        for handle in handles:
            while handle.state == "loaded" and len(handle.batches) < 2:
                if handle.batches and (self._suspects or handle.batches[0].is_suspect):
                    break  # suspects have a replica to themselves
                if self._suspects:
                    self._pool.send(handle, self._suspects.popleft(), is_suspect=True)
                elif self._queue:
                    self._pool.send(handle, self._queue.take(self._batch_size()))
                else:
                    break
        is_working = any(handle.batches for handle in handles)
        return is_working or bool(self._suspects) or bool(self._queue)

    def _batch_size(self) -> int:
        """Few requests near the end, so that all replicas finish together."""
        replicas = sum(handle.state != "given up" for handle in self._pool.handles)
        wanted = len(self._queue) // (4 * replicas) if replicas > 1 else MAX_BATCH
        return max(MIN_BATCH, min(MAX_BATCH, wanted))

    def _heard(self, handle: Handle, event: Event) -> Iterator[tuple[int, Answered]]:
        if isinstance(event, Lost):
            yield from self._lost(event)
            return
        for number, _ in event.answers:
            del handle.batches[0].left[number]
        yield from event.answers

    def _lost(self, lost: Lost) -> Iterator[tuple[int, Answered]]:
        at_work, *waiting = lost.batches
        for batch in waiting:
            self._queue.give_back(list(batch.left.items()))
        requests = list(at_work.left.items())
        if not at_work.is_suspect:
            self._suspects.extendleft([requests] if requests else [])
        elif len(requests) > 1:
            middle = (len(requests) + 1) // 2
            self._suspects.extendleft([requests[middle:], requests[:middle]])
        elif requests:
            [(number, request)] = requests
            yield number, FailedRequest(_fatal(request, lost))


class _DocQueue:
    """Requests that are read ahead and handed out by whole docs; ``len`` counts those not taken."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._source = enumerate(requests)
        self._read: deque[Numbered] = deque()
        self._is_read = False
        self.fill(1)

    def __len__(self) -> int:
        return len(self._read)

    def fill(self, most: int) -> None:
        """Read more requests, some at a time because replicas wait meanwhile."""
        if not self._is_read and len(self._read) < most:
            for _ in range(_READ_AT_ONCE):
                numbered = next(self._source, None)
                if numbered is None:
                    self._is_read = True
                    return
                self._read.append(numbered)

    def give_back(self, requests: Sequence[Numbered]) -> None:
        """Hand these out again, before all others."""
        self._read.extendleft(reversed(requests))

    def take(self, count: int) -> list[Numbered]:
        """At least ``count`` requests if there are that many, up to the end of a doc."""
        taken: list[Numbered] = []
        while self._read and (len(taken) < count or _doc(self._read[0]) == _doc(taken[-1])):
            taken.append(self._read.popleft())
            if not self._read:
                self.fill(1)
        return taken


def _doc(numbered: Numbered) -> tuple[str, int]:
    return numbered[1].task, numbered[1].doc_id


def _fatal(request: Request, lost: Lost) -> RequestError:
    return RequestError(
        f"Task {request.task!r}, doc {request.doc_id}: its {request.kind} request ended two replicas, "
        f"the second with nothing else to answer ({lost.reason}). A prompt too long for the memory is "
        "the usual cause: lower the window or the batch size, or leave the doc out with --samples.",
        attempts=2,
    )
