"""``lm-eval`` with backends that end their own replica, their node or the driver, for runs with Ray.

``mortal-gguf`` and ``mortal-dummy`` answer as ``gguf`` and ``dummy`` do. Their arguments:

``log``      a file that gets ``read KEY`` for each request that a model is asked, and from the driver
             ``kept KEY`` for each answer that it has stored; lines are whole, and in order. A model
             begins with ``pid NUMBER``
``dies``     ``replica`` or ``node``: who is killed, once in all processes that share the log; ``never``:
             each model is stuck instead
``at``       the answer of a process with which that happens
``poison``   the doc whose requests end every replica that reads them
``pause_s``  how long each answer takes

``DIE_AT`` in the driver's environment ends it at that answer.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lm_eval.cli import main
from lm_eval.models.dummy import DummyLM
from lm_eval.models.gguf import GgufLM
from lm_eval.models.ray import model as ray_model
from lm_eval.models.ray.model import Dispatch
from lm_eval.registry import MODELS
from lm_eval.requests import Request

HEAD = "127.0.0.9"


def key(request: Request) -> str:
    return f"{request.task} {request.doc_id} {request.index}"


def note(log: str, line: str) -> None:
    """Append a line; what several processes append stays whole, and in the order of writing."""
    with open(log, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def is_on_head() -> bool:
    import ray

    return bool(ray.util.get_node_ip_address() == HEAD)


class _Mortal:
    """What both backends have beside their answers."""

    keeps_answers = True
    cache_key = "mortal"

    def __init__(
        self,
        log: str,
        dies: str = "",
        at: int = 0,
        poison: int = -1,
        pause_s: float = 0.0,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.log, self.dies, self.at = log, dies, int(at)
        self.poison, self.pause_s = int(poison), float(pause_s)

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        note(self.log, f"pid {os.getpid()}")
        if (
            self.dies == "node" and is_on_head()
        ):  # leave enough for the others, however fast this is
            while not os.path.exists(f"{self.log}.died"):
                time.sleep(0.05)
        answers = super().stream(self._read(requests))  # type: ignore[misc]
        for number, answer in enumerate(answers, 1):
            if self.dies and number >= self.at:
                self._die()
            time.sleep(self.pause_s)
            yield answer

    def _read(self, requests: Iterable[Request]) -> Iterator[Request]:
        for request in requests:
            note(self.log, f"read {key(request)}")
            if request.doc_id == self.poison:
                os.kill(os.getpid(), signal.SIGKILL)
            yield request

    def _die(self) -> None:
        if self.dies == "never":
            time.sleep(3600)
        if self.dies == "node" and is_on_head():
            return  # the driver's own
        try:
            os.close(os.open(f"{self.log}.died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if self.dies == "node":  # all of its processes at once, as where a machine is gone
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class MortalGguf(_Mortal, GgufLM):
    pass


class MortalDummy(_Mortal, DummyLM):
    pass


class BrokenLM(DummyLM):
    """A backend whose process ends while it loads."""

    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class NotedDispatch(Dispatch):
    """Notes what is stored; ends the driver at the answer that is said."""

    def __init__(self, pool: Any, requests: Iterable[Request]) -> None:
        self.asked: dict[int, str] = {}
        super().__init__(pool, self._seen(requests))

    def _seen(self, requests: Iterable[Request]) -> Iterator[Request]:
        for place, request in enumerate(requests):
            self.asked[place] = key(request)
            yield request

    def answers(self) -> Iterator[tuple[int, Any]]:
        log, last = os.environ.get("RAY_TEST_LOG"), int(os.environ.get("DIE_AT", "0"))
        for number, (place, answer) in enumerate(super().answers(), 1):
            if number == last:
                os.kill(os.getpid(), signal.SIGKILL)
            yield place, answer
            if log:
                note(log, f"kept {self.asked.pop(place)}")


def register() -> None:
    MODELS.register("mortal-gguf", MortalGguf)
    MODELS.register("mortal-dummy", MortalDummy)
    MODELS.register("broken", BrokenLM)


def read_after_kept(log: Path) -> list[str]:
    """Requests that a model was asked although their answer was stored."""
    kept: set[str] = set()
    again = []
    for line in log.read_text("utf-8").splitlines():
        what, _, rest = line.partition(" ")
        if what == "kept":
            kept.add(rest)
        elif rest in kept:
            again.append(rest)
    return again


if __name__ == "__main__":
    register()
    ray_model.Dispatch = NotedDispatch  # type: ignore[misc]
    sys.exit(main(sys.argv[1:]))
