"""``math_equal``: whether an answer is the gold, as mathematics has it.

First as texts and plain numbers, then by math-verify (extra ``math``), which runs in a process of its
own and is ended if a comparison takes too long. Without it, the first step decides.
"""

from __future__ import annotations

import atexit
import json
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lm_eval.errors import ConfigError, LmEvalWarning
from lm_eval.registry import Metric
from lm_eval.scoring.functions import BestReference
from lm_eval.scoring.metrics import TEXT, as_number

MAX_LENGTH = 2000
"""Characters of an answer; longer ones are compared as texts."""
MAX_S = 10.0
"""For one comparison; one that takes longer proves nothing."""
_START_S = 120.0

_WRAPPED = re.compile(
    r"\\(?:text|mathrm|textbf|mathbf|mbox|boxed)\s?\{([^{}]*)\}|\\\((.*)\\\)|\\\[(.*)\\\]|\$\$?(.*?)\$\$?",
    re.DOTALL,
)
_NOISE = re.compile(
    r"(?<!\d)\s+|\s+(?!\d|\s)|\\[!,;: ]|\\(?:left|right)(?![a-zA-Z])|\*\*|(?<=\d)\{,\}(?=\d{3})"
)


@lru_cache(maxsize=8192)
def math_equal(answer: str, gold: str) -> bool:
    """Whether two answers are equal: ``\\dfrac{1}{2}``, ``0.5``, ``\\frac12`` and ``x = 1/2`` are."""
    ours, theirs = _bare(answer), _bare(gold)
    if not ours or not theirs:
        return False
    if ours == theirs:
        return True
    value = as_number(answer) if len(answer) <= MAX_LENGTH else None
    if value is not None and value == as_number(gold):
        return True
    if max(len(answer), len(gold)) > MAX_LENGTH or not _is_installed():
        return False
    return _GRADER.is_equal(answer, gold)


def _bare(answer: str) -> str:
    """A text without case, blanks, the final period, and the marks around all of it."""
    text = answer.strip()
    while len(text) <= MAX_LENGTH and (wrapped := _WRAPPED.fullmatch(text)):
        text = next(filter(None, wrapped.groups()), "").strip()
    return _NOISE.sub("", text).casefold().rstrip(".")


@lru_cache(maxsize=1)
def _is_installed() -> bool:
    if find_spec("math_verify") is not None:
        return True
    warnings.warn(
        "math_equal compares plain numbers and texts only: 1/2 is 0.5, but \\sqrt{4} is not 2. For "
        "formulas: pip install 'lm-eval-formats[math]'",
        LmEvalWarning,
        stacklevel=2,
    )
    return False


class _Grader:
    """The worker's process; started when first needed, and again after a comparison that was stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        atexit.register(self.stop)

    def is_equal(self, answer: str, gold: str) -> bool:
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, str(Path(__file__).with_name("worker.py"))],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    encoding="utf-8",
                )
                self._ask(None, _START_S)
            verdict = self._ask(json.dumps([answer, gold]), MAX_S) if self._process else ""
            return verdict == "true"

    def _ask(self, line: str | None, max_s: float) -> str:
        """The worker's next line; empty, with the worker ended, if it does not come in time."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return ""
        timer = threading.Timer(max_s, process.kill)
        timer.start()
        try:
            if line is not None:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            reply = process.stdout.readline().strip()
        except OSError:  # it has ended
            reply = ""
        finally:
            timer.cancel()
        if not reply:
            self.stop()
        return reply

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_GRADER = _Grader()


# As a metric


def _best(answer: str, golds: Sequence[str]) -> float:
    return float(any(math_equal(answer, gold) for gold in golds))


def math_equal_metric(references: Sequence[Any], predictions: Sequence[Any]) -> float:
    """``math_equal`` as task files call it."""
    return BestReference(_best)(references, predictions)


def _check_options(**options: Any) -> None:
    if options:
        raise ConfigError(
            f"metric 'math_equal' has no option {next(iter(options))!r}: math-verify decides about "
            "every formula if it is installed (pip install 'lm-eval-formats[math]'). Remove the option."
        )


math_equal_metric.takes_all_golds = True  # type: ignore[attr-defined]
math_equal_metric.check_options = _check_options  # type: ignore[attr-defined]

MATH_EQUAL = Metric(
    "math_equal",
    "the answer is mathematically equal to a gold",
    of_text=BestReference(_best).of_text,
    compares_texts=True,
    same=math_equal,
    function=math_equal_metric,
    aggregation="mean",
    output_types=(TEXT,),
    is_built_in=True,
)
