"""``lm-eval`` with local backends that kill their own process, at the answer ``DIE_AT`` says.

They answer as ``hf`` and ``gguf`` do, under names of their own: ``dying-hf`` and ``dying-gguf``.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from lm_eval.cli import main
from lm_eval.models.gguf import GgufLM
from lm_eval.models.huggingface import HFLM
from lm_eval.registry import MODELS
from lm_eval.requests import Request

_answers = itertools.count(1)


def mortal(answers: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """The answers as they come, up to the one that is never given."""
    for answer in answers:
        if next(_answers) == int(os.environ.get("DIE_AT", "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        yield answer


class DyingHFLM(HFLM):
    cache_key = "dying"

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        return mortal(super().stream(requests))


class DyingGgufLM(GgufLM):
    cache_key = "dying"

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Any]]:
        return mortal(super().stream(requests))


if __name__ == "__main__":
    MODELS.register("dying-hf", DyingHFLM)
    MODELS.register("dying-gguf", DyingGgufLM)
    sys.exit(main(sys.argv[1:]))
