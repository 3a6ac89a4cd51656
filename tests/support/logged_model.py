"""A backend that writes down what it is asked, answers slowly and out of order, and can be told to fail.

As a script it is ``lm-eval`` with this backend in it, for tests that kill the process: once it has asked
as many requests as ``HOLD_AT`` in the environment says, it waits for that instead of asking more.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from lm_eval.cli import main
from lm_eval.errors import RequestError
from lm_eval.models.base import Capabilities
from lm_eval.models.dummy import DummyLM
from lm_eval.registry import MODELS
from lm_eval.requests import Answered, FailedRequest, Reply, Request
from lm_eval.requests.values import Usage

WINDOW = 4


class LoggedLM(DummyLM):
    """The dummy's answers. ``log`` gets a line for each request; ``fails`` names docs whose do."""

    keeps_answers = True

    def __init__(self, log: str, pause_s: float = 0.0, fails: str = "", **more: Any) -> None:
        super().__init__(**more)
        self.log = Path(log)
        self.pause_s = float(pause_s)
        self.fails = {int(doc) for doc in str(fails).split("+") if doc}
        self._usage: dict[str, Usage] = {}
        self._asked = 0

    def identity(self) -> dict[str, Any]:
        return {"seed": self.seed}

    @property
    def usage(self) -> dict[str, Usage]:
        return self._usage

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answered]]:
        numbered = enumerate(requests)
        while window := list(islice(numbered, WINDOW)):
            self._hold()
            self._asked += len(window)
            with self.log.open("a", encoding="utf-8") as log:
                for _, request in window:
                    log.write(f"{request.task} {request.doc_id} {request.index}\n")
            for place, request in reversed(window):
                time.sleep(self.pause_s)
                yield place, self._counted(request)

    def _hold(self) -> None:
        while self._asked >= int(os.environ.get("HOLD_AT", sys.maxsize)):
            time.sleep(0.05)

    def _counted(self, request: Request) -> Answered:
        if request.doc_id in self.fails:
            return FailedRequest(RequestError("The server says no (HTTP 500).", status=500))
        self._usage.setdefault(request.task, Usage()).add(Usage(requests=1, tokens_out=2))
        answer = self._answer(request)
        if isinstance(answer, Reply):
            return Reply(answer, finish=answer.finish, reasoning=os.environ.get("SAY"))
        return answer


class ChatOnlyLM(LoggedLM):
    """As a chat server: messages in, text out."""

    capabilities = Capabilities(loglikelihood=False, chat_only=True, prefill=False)


def register() -> None:
    MODELS.register("logged", LoggedLM)
    MODELS.register("chat_only", ChatOnlyLM)


if __name__ == "__main__":
    register()
    sys.exit(main(sys.argv[1:]))
