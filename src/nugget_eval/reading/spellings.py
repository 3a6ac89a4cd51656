"""The three labels and their spellings: whole texts (``label_of``) and where one stands (``SPELLING``).

``not_support``, ``Not Supported``, ``notSupported`` and ``does not support`` are one label; ``not
fully supported``, ``support or partial_support`` and ``supporting`` are none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, get_args

from lm_eval.formats.readers.text import fold

Label = Literal["support", "partial_support", "not_support"]
LABELS: tuple[Label, ...] = get_args(Label)
ORDER: tuple[Label, ...] = LABELS[::-1]
"""From the lowest label to the highest."""
RANK: dict[Label, int] = {label: rank for rank, label in enumerate(ORDER)}

_STEM = r"support(?:ed|s)?"
_GAP = r"(?:\\?_|[ \t-])?"
SPELLING = re.compile(
    r"(?<![^\W_])(?:"
    r"(?P<odd>(?:not|n['’]t|never|hardly|barely|cannot|nor|no[ ]longer)[ ]"
    rf"(?:[a-z]+ly|yet|quite|well|even|partial)[ ]{_STEM}"
    rf"|(?:never|hardly|barely|cannot|nor|can['’]t|no[ ]longer)[ ]{_STEM})"
    rf"|(?P<partial>(?:(?:is|are|only)[ ])?(?:in[ ]part|partially|partly|partial){_GAP}{_STEM}"
    r"|(?:is[ ])?partial)"
    r"|(?P<no>(?:(?:is|are|was|were|does|do|did)[ ]?(?:n['’]?t|not)[ ]"
    rf"|(?:(?:is|are)[ ])?(?:not|non|no|un){_GAP}){_STEM})"
    rf"|(?P<yes>(?:(?:is|are)[ ])?(?:(?:fully|full|completely){_GAP})?{_STEM})"
    r")(?![^\W_]|_\w|-\w|\(\))",
    re.IGNORECASE | re.ASCII,
)
"""One spelling of a label in running text; ``spelled`` names it."""

# A mark beside a label says the same as the label, or the text is not a label.
MARKS: dict[str, Label] = {
    **dict.fromkeys("✅✔☑✓🟢👍", LABELS[0]),
    **dict.fromkeys("⚠🟡🟠🔶➖", LABELS[1]),
    **dict.fromkeys("❌✗✘✖❎🔴👎⛔🚫", LABELS[2]),
}
MARK = re.compile(f"[{''.join(MARKS)}]")
_EDGES = " \t\r\n\"'`*_()[]{}<>.,;:#@$|"  # what may surround a label without meaning
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LONGEST = 80


def spelled(match: re.Match[str]) -> Label | None:
    """The label that a match of ``SPELLING`` spells; None for ``not fully supported``."""
    return {"yes": LABELS[0], "partial": LABELS[1], "no": LABELS[2]}.get(match.lastgroup or "")


def label_of(text: str) -> Label | None:
    """The label that ``text`` as a whole spells, or None."""
    if len(text) > _LONGEST:
        text = text.strip()
    return _label_of(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=16384)
def _label_of(text: str) -> Label | None:
    plain = fold(text)
    mark = MARK.search(plain)
    if mark is not None:
        plain = plain.replace(mark[0], " ")
    plain = plain.strip(_EDGES)
    if not plain.islower() and not plain.isupper():
        plain = _CAMEL.sub("_", plain)
    match = SPELLING.fullmatch(re.sub(r"[ \t]{1,2}|\s*\n\s*", " ", plain))
    label = spelled(match) if match else None
    return label if mark is None or MARKS[mark[0]] == label else None
