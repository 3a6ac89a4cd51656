"""A process that asks math-verify: lines of JSON, ``[answer, gold]``, in; ``true`` or ``false`` out.

LaTeX from a model can keep sympy busy for ever (``9^{9^{9^9}}``) in a step that cannot be interrupted:
``equal`` ends this process then. Run as a file; nothing of lm_eval is loaded.
"""

from __future__ import annotations

import json
import re
import sys

_MAX_S = 3  # for each step, by math-verify's own timer; few steps ignore it
_MAX_BYTES = 4 * 2**30
_DISPLAY = re.compile(r"(\$\$?|\\\(|\\\[)(.*?)(?:\$\$?|\\\)|\\\])\.?", re.DOTALL)

_SIGNS = str.maketrans(
    {"°": r"^\circ ", "∞": r"\infty ", "π": r"\pi ", "√": r"\sqrt ", "²": "^2", "³": "^3", "−": "-"}
)


def is_equal(answer: str, gold: str) -> bool:
    """Whether math-verify finds the two equal. Only its LaTeX parser is used: the other runs Python."""
    from math_verify import LatexExtractionConfig, parse, verify

    sides = []
    for text in (gold.translate(_SIGNS), answer.translate(_SIGNS)):
        display = _DISPLAY.fullmatch(text.strip())
        latex = f"${display[2] if display else text}$"
        sides.append(parse(latex, (LatexExtractionConfig(),), parsing_timeout=_MAX_S))
    return bool(verify(*sides, allow_set_relation_comp=True, timeout_seconds=_MAX_S))


def serve() -> None:
    """Answer each line until there is none."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
    except (ImportError, ValueError, OSError):  # no such limits on this system
        pass
    is_equal("1", "1")  # loads sympy, and fills its caches
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            verdict = is_equal(*json.loads(line))
        except Exception:  # sympy fails in many ways, and none of them is a proof
            verdict = False
        print(json.dumps(verdict), flush=True)


if __name__ == "__main__":
    serve()
