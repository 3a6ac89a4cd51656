"""What a task's helper gets for ``import evaluate``: the library itself, but for ``code_eval``.

That metric runs programs that models wrote; here they run in the sandbox of ``scoring.programs``.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from lm_eval.scoring.functions import pass_chance
from lm_eval.scoring.programs import PASSED, VERDICTS


class CodeEval:
    """The metric ``code_eval``: the share of problems solved by at least one of k programs."""

    def compute(
        self,
        *,
        references: Sequence[str],
        predictions: Sequence[Sequence[str]],
        k: Iterable[int] = (1, 10, 100),
        **_options: Any,
    ) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
        """``pass@k`` for each k that every problem has programs for, and what became of each program."""
        if VERDICTS.runner is None:
            VERDICTS.prepare(["code_eval"], is_confirmed=False)
        places = [(at, n) for at, programs in enumerate(predictions) for n in range(len(programs))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            run = pool.map(
                lambda p: VERDICTS.of(f"{predictions[p[0]][p[1]]}\n{references[p[0]]}"), places
            )
        results: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for (at, n), verdict in zip(places, run, strict=True):
            facts = {
                "task_id": at,
                "passed": verdict == PASSED,
                "result": verdict,
                "completion_id": n,
            }
            results[at].append((n, facts))
        right = [sum(facts["passed"] for _, facts in results[at]) for at in range(len(predictions))]
        counts = [len(programs) for programs in predictions]
        scores = {
            f"pass@{most}": sum(map(lambda r, n: pass_chance(r, n, most), right, counts))
            / len(counts)
            for most in k
            if all(count >= most for count in counts)
        }
        return scores, results


class _Evaluate(ModuleType):
    """The library ``evaluate``, imported when something of it is asked for."""

    def load(self, path: str, *args: Any, **options: Any) -> Any:
        return CodeEval() if path == "code_eval" else _library().load(path, *args, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_library(), name)


def _library() -> Any:
    if isinstance(sys.modules.get("evaluate"), _Evaluate):
        del sys.modules["evaluate"]
    return importlib.import_module("evaluate")


def stand_in() -> ModuleType:
    """A module for ``sys.modules["evaluate"]`` while a helper is imported."""
    return _Evaluate("evaluate")
