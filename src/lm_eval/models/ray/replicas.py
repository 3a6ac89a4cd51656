"""The replicas as the driver sees them: placed, loaded, asked, and replaced if one is lost."""

from __future__ import annotations

import os
import pickle
import re
import secrets
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from lm_eval import __version__
from lm_eval.errors import LmEvalError, LmEvalWarning, ModelError
from lm_eval.models.base import LM
from lm_eval.models.ray.actor import THREADS, Delivery, Numbered, Replica, ReplicaFacts, packed
from lm_eval.models.ray.cluster import Cluster
from lm_eval.models.ray.line import SECRET_BYTES, ReplicaLine, readable
from lm_eval.requests import Request
from lm_eval.requests.values import Usage

MOST_FAILED_LOADS = 3
"""A replica is given up after this many loads in a row that end its process."""
_LOOK_UP_S = 1.0
_LOADING_S = 0.05
"""As ``_LOOK_UP_S`` while replicas answer over their lines and others are being placed or loaded."""
_UNKNOWN = "unknown:"

State = Literal["placing", "loading", "idle", "working", "given up"]


@dataclass(frozen=True)
class Needs:
    """What each replica runs, and the resources it needs."""

    backend: str
    backend_class: type[LM] | None
    """The class, if replicas cannot find it by its name."""
    model_args: Mapping[str, Any]
    resources: Mapping[str, float]
    timeout: float
    """Seconds without any replica after which the run ends."""


@dataclass
class Handle:
    """One replica, whichever process runs it at present."""

    number: int
    actor: Any = None
    state: State = "placing"
    pending: Any = None
    """The call of Ray that is waited for."""
    address: str = "a node not known yet"
    port: int | None = None
    line: ReplicaLine | None = None
    """What exchanges go over; None: they are calls of Ray."""
    life: Any = None
    """The call of Ray that ends with the line, or with the process."""
    is_awaited: bool = False
    """Whether an exchange is under way on the line."""
    turn: int = 0
    """The number of the stream that is under way, or of the next."""
    sent: dict[int, Request] = field(default_factory=dict)
    """Requests without an answer yet, by number, in the order in which they went out."""
    is_ending: bool = False
    """Whether its stream takes no more requests."""
    is_alone: bool = False
    """Whether its stream holds requests that were with a replica when it died, and nothing else."""
    failed_loads: int = 0
    usage: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def is_placed(self) -> bool:
        return self.state in ("loading", "idle", "working")


@dataclass(frozen=True)
class Lost:
    """A replica died while it answered."""

    reason: str


class ReplicaPool:
    """All replicas of one run. ``facts`` are those of the first that was loaded."""

    def __init__(self, cluster: Cluster, needs: Needs, count: int) -> None:
        self._cluster = cluster
        self._ray = cluster.ray
        self._needs = needs
        self.handles = [Handle(number) for number in range(1, count + 1)]
        self.facts: ReplicaFacts | None = None
        self.lost = 0
        """Replicas that died after they were loaded."""
        self._past_usage: dict[str, Usage] = {}
        self._reasons: list[str] = []
        self._alone_since = time.monotonic()
        self._secret = secrets.token_bytes(SECRET_BYTES)
        # A line is not encrypted: if Ray's own connections are, there is none.
        self._has_lines = os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true")
        self._look_up_at = 0.0
        self._class = self._ray.remote(Replica)

    # -- life cycle --------------------------------------------------------------------------

    def start(self) -> ReplicaFacts:
        """Place all replicas, and wait for the first to be loaded."""
        for handle in self.handles:
            self._spawn(handle)
        while self.facts is None:
            for _ in self.events():
                pass
        return self.facts

    def _spawn(self, handle: Handle) -> None:
        options = dict(self._needs.resources)
        handle.actor = self._class.options(
            num_cpus=options.get("CPU", 0),
            num_gpus=options.get("GPU", 0),
            max_concurrency=THREADS,
            max_restarts=0,  # a new one is made here, which knows what was asked
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        ).remote(self._needs.backend, self._needs.backend_class, os.getcwd())
        handle.state, handle.pending = "placing", handle.actor.where.remote()

    def close(self) -> None:
        """End every replica."""
        for handle in self.handles:
            self._end(handle)

    def _end(self, handle: Handle) -> None:
        if handle.actor is not None:
            with suppress(Exception):  # it may be gone already
                self._ray.kill(handle.actor)
        self._hang_up(handle)
        handle.actor = handle.pending = handle.life = None

    @staticmethod
    def _hang_up(handle: Handle) -> None:
        if handle.line is not None:
            handle.line.close()
        handle.line, handle.is_awaited = None, False

    # -- events ------------------------------------------------------------------------------

    def events(self) -> Iterator[tuple[Handle, Delivery | Lost]]:
        """The next events that concern requests; replicas are placed and loaded on the way."""
        calls = {handle.pending: handle for handle in self.handles if handle.pending is not None}
        lines = {
            handle.line: handle for handle in self.handles if handle.is_awaited and handle.line
        }
        if not calls and not lines:
            raise self._none_left()
        self._check_patience()
        if lines:
            left = self._look_up_at - time.monotonic()
            for line in readable(lines, max(0.0, left)):
                yield from self._heard(lines[line], line)
            if left > 0:
                return
            self._look_up_at = time.monotonic() + (_LOADING_S if calls else _LOOK_UP_S)
            calls |= {handle.life: handle for handle in self.handles if handle.is_awaited}
        yield from self._called(calls, 0 if lines else _LOOK_UP_S)

    def _heard(self, handle: Handle, line: ReplicaLine) -> Iterator[tuple[Handle, Delivery | Lost]]:
        """What arrived on a line. If the line ended, Ray knows why."""
        try:
            frames = line.receive()
        except OSError:
            self._hang_up(handle)
            handle.pending = handle.life
            return
        for frame in frames:
            delivery = pickle.loads(frame)
            if delivery.turn == handle.turn:  # else of a stream that was abandoned
                handle.is_awaited, handle.usage = False, delivery.usage
                yield handle, delivery

    def _called(
        self, calls: Mapping[Any, Handle], wait_s: float
    ) -> Iterator[tuple[Handle, Delivery | Lost]]:
        """The results of calls of Ray."""
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=wait_s)
        for reference in ready:
            handle = calls[reference]
            handle.pending = None
            delivery = self._received(handle, reference)
            if delivery is not None:
                yield handle, delivery

    def _received(self, handle: Handle, reference: Any) -> Delivery | Lost | None:
        errors = self._ray.exceptions
        try:
            value = self._ray.get(reference)
        except errors.RayTaskError as error:
            raise ModelError(
                f"Replica {handle.number} on {handle.address} failed: {_first_line(error)}."
            ) from error
        except errors.RayError as error:
            return self._died(handle, error)
        if handle.state == "placing":
            self._placed(handle, value)
            return None
        if handle.state == "loading":
            self._loaded(handle, pickle.loads(value))
            return None
        if value is None:  # from ``serve``
            return self._died(handle, ConnectionError("its connection broke"))
        delivery: Delivery = pickle.loads(value)
        handle.usage = delivery.usage
        return delivery

    def _placed(self, handle: Handle, where: Mapping[str, Any]) -> None:
        handle.address, handle.port = where["address"], where.get("port")
        if where["version"] != __version__:
            raise ModelError(
                f"Node {handle.address} has lm-eval-formats {where['version']}, and this process "
                f"{__version__}. Install the same release on every node."
            )
        handle.state = "loading"
        handle.pending = handle.actor.load.remote(dict(self._needs.model_args))

    def _loaded(self, handle: Handle, facts: ReplicaFacts | LmEvalError) -> None:
        if isinstance(facts, LmEvalError):
            raise facts
        if self.facts is None:
            self.facts = facts
        elif _differs(self.facts.identity, facts.identity):
            raise ModelError(
                f"The replica on {handle.address} has another model than the first: "
                f"{_difference(self.facts.identity or {}, facts.identity or {})}. Put the same files "
                "under the same path on every node."
            )
        handle.state, handle.failed_loads = "idle", 0
        self._call_up(handle)

    def _call_up(self, handle: Handle) -> None:
        """Open a line to a replica. If a firewall prevents that, exchanges are calls of Ray."""
        if handle.port is None or not self._has_lines:
            return
        life = handle.actor.serve.remote(self._secret)
        try:
            handle.line = ReplicaLine.to(handle.address, handle.port, self._secret)
            handle.life = life
        except OSError:
            self._has_lines = False

    def _died(self, handle: Handle, error: Exception) -> Lost | None:
        """Replace a lost replica. The caller asks again for what it had not answered."""
        reason, state = _reason(error), handle.state
        if state == "placing" and "ModuleNotFoundError" in str(error):
            raise ModelError(
                f"A node of the cluster cannot import what the replicas need: {_module_line(error)}. "
                "Install the package of that module on every node, in the Python that runs `ray "
                f"start`. This one is lm-eval-formats=={__version__}, with the extra of --model "
                f"{self._needs.backend}."
            ) from error
        self._end(handle)
        self._keep_usage(handle)
        if state == "working":
            self.lost += 1
            warnings.warn(
                f"Replica {handle.number} on {handle.address} died ({reason}). Its "
                f"{len(handle.sent):,} unanswered requests are asked again.",
                LmEvalWarning,
                stacklevel=2,
            )
        else:
            handle.failed_loads += 1
            self._reasons.append(f"on {handle.address}: {reason}")
        if handle.failed_loads >= MOST_FAILED_LOADS:
            handle.state = "given up"
            if all(other.state == "given up" for other in self.handles):
                raise self._none_left()
            warnings.warn(
                f"Replica {handle.number} died {MOST_FAILED_LOADS} times in a row while it was "
                f"loading ({self._reasons[-1]}); the run goes on without it.",
                LmEvalWarning,
                stacklevel=2,
            )
        else:
            self._spawn(handle)
        return Lost(reason) if state == "working" else None

    def _none_left(self) -> ModelError:
        last = f" The last {self._reasons[-1]}." if self._reasons else ""
        return ModelError(
            f"No replica of --model {self._needs.backend} could be loaded: each died "
            f"{MOST_FAILED_LOADS} times in a row.{last} A process that ends while loading mostly ran "
            "out of memory: use fewer replicas per node (num_cpus, num_gpus), a smaller model or a "
            "dtype of fewer bits."
        )

    def _check_patience(self) -> None:
        """End the run if no replica could be placed for too long."""
        if any(handle.is_placed for handle in self.handles):
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > self._needs.timeout:
            wanted = ", ".join(f"{n:g} {name}s" for name, n in self._needs.resources.items() if n)
            raise ModelError(
                f"No replica found a place in the cluster for {self._needs.timeout:g} s. Each needs "
                f"{wanted or 'nothing'}; the nodes have {self._cluster.shown()}, some of it in use. "
                "Add nodes, give smaller num_cpus or num_gpus, or wait longer (timeout, in seconds)."
            )

    # -- requests and questions --------------------------------------------------------------

    @property
    def alive(self) -> int:
        """Replicas that have a place."""
        return sum(handle.is_placed for handle in self.handles)

    def send(self, handle: Handle, requests: Sequence[Numbered], is_last: bool) -> None:
        """Give requests to a replica, and wait for what it reports."""
        handle.sent.update(requests)
        handle.is_ending = handle.is_ending or is_last
        load = packed(list(requests)) if requests else None
        handle.state = "working"
        if handle.line is None:
            handle.pending = handle.actor.exchange.remote(load, is_last, handle.turn)
            return
        try:
            handle.line.send(pickle.dumps((load, is_last, handle.turn)))
            handle.is_awaited = True
        except OSError:
            self._hang_up(handle)
            handle.pending = handle.life

    def release(self, handle: Handle) -> None:
        """The replica's stream has ended."""
        handle.state, handle.is_ending, handle.is_alone = "idle", False, False
        handle.turn += 1

    def abandon(self) -> None:
        """Abandon all streams that are under way."""
        for handle in self.handles:
            if handle.state == "working":
                with suppress(Exception):
                    handle.actor.abandon.remote()
                handle.pending, handle.is_awaited = None, False
                handle.sent.clear()
                self.release(handle)

    def ask(self, name: str, *arguments: Any) -> Any:
        """A method or attribute of the model, from any replica."""
        while True:
            for handle in self.handles:
                if handle.state == "idle":
                    try:
                        return self._ray.get(handle.actor.ask.remote(name, *arguments))
                    except self._ray.exceptions.RayTaskError as error:
                        raise error.as_instanceof_cause() from None
                    except self._ray.exceptions.RayError as error:
                        self._died(handle, error)
            for _ in self.events():
                pass

    def render(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str | None:
        """A chat as the model sees it, from a replica that may be answering; None without any."""
        for handle in self.handles:
            if handle.state in ("idle", "working"):
                call = handle.actor.render.remote(messages, add_generation_prompt)
                try:
                    return str(self._ray.get(call))
                except self._ray.exceptions.RayTaskError as error:
                    raise error.as_instanceof_cause() from None
                except self._ray.exceptions.RayError:
                    continue  # noticed by the exchange that is under way
        return None

    def ask_all(self, name: str) -> list[tuple[Handle, Any]]:
        """An attribute of the model of every idle replica."""
        answers = []
        for handle in self.handles:
            if handle.state == "idle":
                with suppress(self._ray.exceptions.RayError):
                    answers.append((handle, self._ray.get(handle.actor.ask.remote(name))))
        return answers

    @property
    def usage(self) -> dict[str, Usage]:
        """Task → what its requests cost, over all replicas, lost ones included."""
        total = {task: Usage(*usage.counts()) for task, usage in self._past_usage.items()}
        for handle in self.handles:
            _add_usage(total, handle.usage)
        return total

    def _keep_usage(self, handle: Handle) -> None:
        _add_usage(self._past_usage, handle.usage)
        handle.usage = {}


def _add_usage(total: dict[str, Usage], usage: Mapping[str, Sequence[Any]]) -> None:
    for task, counts in usage.items():
        total.setdefault(task, Usage()).add(Usage(*counts))


def _differs(first: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two identities are known to differ; those without a stable form are not compared."""
    return first != other and _UNKNOWN not in f"{first}{other}"


def _difference(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
    return ", ".join(f"{name} is {other.get(name)}, not {first.get(name)}" for name in names)


def _first_line(error: Exception) -> str:
    cause = getattr(error, "cause", None)
    text = f"{type(cause).__name__}: {cause}" if cause is not None else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _module_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "ModuleNotFoundError" in line]
    return lines[-1].rstrip(".")


def _reason(error: Exception) -> str:
    """Why a process ended, in a few words."""
    text = str(error)
    if "OutOfMemory" in type(error).__name__ or "memory usage threshold" in text:
        return "its node ran out of memory"
    if "node has died" in text or "node was" in text or "died because its node" in text:
        return "its node is gone"
    raised = re.search(r"^(\w+(?:\.\w+)*(?:Error|Exception)\b.*)$", text, re.MULTILINE)
    if raised and "creation task" in text:
        return raised.group(1).rstrip(".")
    if "exit detail" in text or "worker process has died" in text:
        return "its process ended"
    return (text.strip().splitlines() or [type(error).__name__])[0].rstrip(".:")
