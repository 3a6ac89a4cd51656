"""The replicas as the driver sees them: placed, loaded, asked, and replaced if one is lost."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from lm_eval import VERSION
from lm_eval.errors import LmEvalError, LmEvalWarning, ModelError, first_line
from lm_eval.models.base import LM
from lm_eval.models.ray.actor import ASIDE, Delivery, Numbered, Replica, ReplicaFacts
from lm_eval.models.ray.cluster import Cluster
from lm_eval.requests import Request
from lm_eval.requests.values import Usage

MAX_FAILED_LOADS = 3
"""A replica is given up after this many loads in a row that end its process."""
_LOOK_UP_S = 1.0

State = Literal["placing", "loading", "loaded", "given up"]


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
class Batch:
    """Requests that a replica has, and the call that streams its answers."""

    deliveries: Any
    left: dict[int, Request]
    """Those without an answer yet, by number."""
    is_suspect: bool
    """Whether they were with a replica when it died."""


@dataclass
class Handle:
    """One replica, whichever process runs it at present."""

    number: int
    actor: Any = None
    state: State = "placing"
    call: Any = None
    """The call that places or loads the replica."""
    batches: deque[Batch] = field(default_factory=deque)
    """What it has to answer, in order: the first is at work."""
    address: str = "a node not known yet"
    failed_loads: int = 0
    heard_at: float = 0.0
    usage: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def is_placed(self) -> bool:
        return self.state in ("loading", "loaded")


@dataclass(frozen=True)
class Lost:
    """A replica died while it answered."""

    reason: str
    batches: Sequence[Batch]


Event = Delivery | Lost


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
        self._turn = 1
        self._past_usage: dict[str, Usage] = {}
        self._alone_since = time.monotonic()

    # -- life cycle --------------------------------------------------------------------------

    def start(self) -> ReplicaFacts:
        """Place all replicas, and wait for the first to be loaded."""
        for handle in self.handles:
            self._place(handle)
        while self.facts is None:
            for _ in self.events():
                pass
        return self.facts

    def _place(self, handle: Handle) -> None:
        """Have Ray start a replica somewhere.

        A lost one is replaced by a new actor: one that Ray restarts (``max_restarts``) may be killed
        while it is loading again, and its calls fail without saying what ended its process.
        """
        replica = self._ray.remote(concurrency_groups={ASIDE: 1})(Replica).options(
            num_cpus=self._needs.resources.get("CPU", 0),
            num_gpus=self._needs.resources.get("GPU", 0),
            max_restarts=0,
            max_task_retries=0,  # what was asked, and what died of it, is known here
            scheduling_strategy="SPREAD",
        )
        handle.actor = replica.remote(self._needs.backend, self._needs.backend_class, os.getcwd())
        handle.state, handle.call = "placing", handle.actor.where.remote()

    def close(self) -> None:
        """End every replica."""
        for handle in self.handles:
            with suppress(Exception):  # it may be gone already
                self._ray.kill(handle.actor)

    # -- events ------------------------------------------------------------------------------

    def events(self) -> Iterator[tuple[Handle, Event]]:
        """The next events that concern requests; replicas are placed and loaded on the way."""
        calls: dict[Any, Handle] = {}
        for handle in sorted(self.handles, key=lambda handle: handle.heard_at):
            if handle.call is not None:
                calls[handle.call] = handle
            elif handle.batches:
                calls[handle.batches[0].deliveries] = handle
        self._check_patience()
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=_LOOK_UP_S)
        for call in ready:
            handle = calls[call]
            handle.heard_at = time.monotonic()
            event = self._event(handle, call)
            if event is not None:
                yield handle, event

    def _event(self, handle: Handle, call: Any) -> Event | None:
        try:
            if call is not handle.call:
                delivery: Delivery = self._ray.get(next(call))
                handle.usage = delivery.usage
                return delivery
            handle.call = None
            value = self._ray.get(call)
        except StopIteration:
            handle.batches.popleft()
            return None
        except self._ray.exceptions.RayTaskError as error:
            raise self._raised(handle, error) from error
        except self._ray.exceptions.RayError as error:
            return self._died(handle, error)
        if handle.state == "placing":
            self._placed(handle, *value)
        else:
            self._loaded(handle, value)
        return None

    def _raised(self, handle: Handle, error: Any) -> LmEvalError:
        """What a replica raised: an error of ours as it is, any other with its name."""
        if isinstance(error.cause, LmEvalError):
            return error.cause
        return ModelError(
            f"Replica {handle.number} on {handle.address} failed: "
            f"{type(error.cause).__name__}: {first_line(error.cause)}."
        )

    def _placed(self, handle: Handle, address: str, version: str) -> None:
        handle.address = address
        if version != VERSION:
            raise ModelError(
                f"Node {address} has lm-eval-formats {version}, and this process {VERSION}. "
                "Install the same release on every node."
            )
        handle.state = "loading"
        handle.call = handle.actor.load.remote(dict(self._needs.model_args))

    def _loaded(self, handle: Handle, facts: ReplicaFacts) -> None:
        self.facts = self.facts or facts
        first, other = self.facts.identity or {}, facts.identity or {}
        differing = [name for name in {**first, **other} if first.get(name) != other.get(name)]
        if differing and "unknown:" not in f"{first}{other}":  # else it cannot be compared
            shown = ", ".join(
                f"{name} is {other.get(name)}, not {first.get(name)}" for name in differing
            )
            raise ModelError(
                f"The replica on {handle.address} has another model than the first: {shown}. Put the "
                "same files under the same path on every node."
            )
        handle.state, handle.failed_loads = "loaded", 0

    def _died(self, handle: Handle, error: Exception) -> Lost | None:
        """Replace a lost replica. The caller asks again for what it had not answered."""
        reason, batches = _reason(error), list(handle.batches)
        handle.batches.clear()
        with suppress(Exception):  # one that is only out of reach must not answer twice
            self._ray.kill(handle.actor)
        _add_usage(self._past_usage, handle.usage)
        handle.usage = {}
        if batches:
            self.lost += 1
            unanswered = sum(len(batch.left) for batch in batches)
            warnings.warn(
                f"Replica {handle.number} on {handle.address} died ({reason}). Its "
                f"{unanswered:,} unanswered requests are asked again.",
                LmEvalWarning,
                stacklevel=2,
            )
        else:
            handle.failed_loads += 1
        if handle.failed_loads >= MAX_FAILED_LOADS:
            self._give_up(handle, reason)
        else:
            self._place(handle)
        return Lost(reason, batches) if batches else None

    def _give_up(self, handle: Handle, reason: str) -> None:
        handle.state, handle.call = "given up", None
        if all(other.state == "given up" for other in self.handles):
            raise ModelError(
                f"No replica of --model {self._needs.backend} could be loaded: each died "
                f"{MAX_FAILED_LOADS} times in a row, the last on {handle.address}: {reason}. A process "
                "that ends while loading mostly ran out of memory: use fewer replicas per node "
                "(num_cpus, num_gpus), a smaller model or a dtype of fewer bits."
            )
        warnings.warn(
            f"Replica {handle.number} died {MAX_FAILED_LOADS} times in a row while it was loading "
            f"({reason}); the run goes on without it.",
            LmEvalWarning,
            stacklevel=2,
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

    def send(
        self, handle: Handle, requests: Sequence[Numbered], *, is_suspect: bool = False
    ) -> None:
        """Give a replica one more batch."""
        answer = handle.actor.answer.options(num_returns="streaming")
        deliveries = answer.remote(self._turn, list(requests))
        handle.batches.append(Batch(deliveries, dict(requests), is_suspect))

    def abandon(self) -> None:
        """Abandon all batches that are under way."""
        for handle in self.handles:
            if handle.batches:
                handle.actor.abandon.options(concurrency_group=ASIDE).remote(self._turn)
                handle.batches.clear()
        self._turn += 1

    def ask(self, name: str, *arguments: Any) -> Any:
        """A method or attribute of the model, from any replica."""
        while True:
            for handle in self.handles:
                if handle.state == "loaded":
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
            if handle.state == "loaded":
                render = handle.actor.render.options(concurrency_group=ASIDE)
                try:
                    return str(self._ray.get(render.remote(messages, add_generation_prompt)))
                except self._ray.exceptions.RayTaskError as error:
                    raise error.as_instanceof_cause() from None
                except self._ray.exceptions.RayError:
                    continue  # noticed by the stream that is under way
        return None

    def ask_all(self, name: str) -> list[tuple[Handle, Any]]:
        """An attribute of the model of every replica."""
        answers = []
        for handle in self.handles:
            if handle.state == "loaded":
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


def _add_usage(total: dict[str, Usage], usage: Mapping[str, Sequence[Any]]) -> None:
    for task, counts in usage.items():
        total.setdefault(task, Usage()).add(Usage(*counts))


def _reason(error: Exception) -> str:
    """Why a process ended: what was raised in it, else the first line of what Ray says."""
    raised = re.findall(r"^\w+(?:Error|Exception): .+$", str(error), re.MULTILINE)
    return raised[-1].rstrip(".") if raised else first_line(error)
