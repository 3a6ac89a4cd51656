"""Which prompt type suits a list of nuggets, by what makes a nugget hard to judge.

Numbers, dates, negations, conjunctions and length each give a nugget points; the points decide, and the
reason is returned and logged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lm_eval.config.fields import shorten
from nugget_eval.errors import PromptError

logger = logging.getLogger("nugget_eval.prompts")

LONG_NUGGET = 20
"""Words; in scripts without spaces, every second character counts as one."""

MODERATE, COMPLEX = 0.75, 1.75
"""Mean points a nugget from which reasoning, and the decision ladder, is used."""

_MONTHS = (
    "jan(?:uary|uar|\\.)?|feb(?:ruary|ruar|\\.)?|mar(?:ch|\\.)|märz|apr(?:il|\\.)?|mai|june?|juni|july?|juli"
    "|aug(?:ust|\\.)?|sept?(?:ember|\\.)?|o[ck]t(?:ober|\\.)?|nov(?:ember|\\.)?|de[cz](?:ember|\\.)?"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
)
_DATE = re.compile(
    rf"(?<!\d)\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}(?!\d)|(?<![\d.,])(?:1\d|20)\d\d(?:s\b)?(?![\d.,]\d|\d)"
    rf"|(?<!\d)\d{{1,2}}月|\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:de\s+)?(?:{_MONTHS})\b"
    rf"|\b(?:{_MONTHS})\s+\d{{1,4}}\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand|million|billion|percent"
    r"|half|twice|zwei|drei|prozent|dos|tres|ciento)\b|[二三四五六七八九十百千万亿]",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nor|neither|without|cannot|lacks?|fails?|except|unless|nicht|kein\w*|ohne|nie"
    r"|nunca|ningun[oa]?|ningún|sin)\b|n['’]t\b|[不没無无未非]",
    re.IGNORECASE,
)
_CONJUNCTION = re.compile(
    r"\b(?:and|or|but|while|although|because|whereas|und|oder|aber|weil|obwohl|y|pero|porque|aunque)\b|;"
    r"|[和或但且、；]",
    re.IGNORECASE,
)
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LOOKED_AT = 2000  # characters of a nugget


@dataclass(frozen=True, slots=True)
class Complexity:
    """What makes one nugget hard to judge."""

    has_number: bool
    has_date: bool
    has_negation: bool
    conjunctions: int
    words: int

    @property
    def points(self) -> int:
        """A point for each of: number, date, negation, long; one for each conjunction, two at most."""
        is_long = self.words > LONG_NUGGET
        flags = (self.has_number, self.has_date, self.has_negation, is_long)
        return sum(flags) + min(self.conjunctions, 2)


@dataclass(frozen=True, slots=True)
class Selection:
    """A prompt type, and why it was chosen."""

    prompt_type: str
    reason: str
    points: float


def complexity(nugget: str) -> Complexity:
    """The complexity of one nugget. A date does not count as a number too."""
    text = nugget[:_LOOKED_AT]
    without_dates = _DATE.sub(" ", text)
    return Complexity(
        has_number=_NUMBER.search(without_dates) is not None,
        has_date=without_dates != text,
        has_negation=_NEGATION.search(text) is not None,
        conjunctions=sum(1 for _ in _CONJUNCTION.finditer(text)),
        words=len(_WIDE.sub("", text).split()) + len(_WIDE.findall(text)) // 2,
    )


def select_prompt_type(nuggets: Sequence[str], *, is_reasoning_model: bool = False) -> Selection:
    """The prompt type for these nuggets, with the reason, which is also logged.

    Simple nuggets get ``no_reasoning``, moderate ones ``short_cot``, complex ones ``optimized``, or
    ``long_cot`` for a model that thinks at length.
    """
    if isinstance(nuggets, str) or not nuggets:
        raise PromptError(f"A prompt type is chosen for a list of nuggets; got {shorten(nuggets)}.")
    complexities = [complexity(nugget) for nugget in nuggets]
    points = sum(nugget.points for nugget in complexities) / len(complexities)
    if points < MODERATE:
        level, prompt_type = "simple", "no_reasoning"
    elif points < COMPLEX:
        level, prompt_type = "moderate", "short_cot"
    else:
        level, prompt_type = "complex", "long_cot" if is_reasoning_model else "optimized"
    reason = f"{level}: {points:.2f} points a nugget ({_counted(complexities)})"
    logger.info("Prompt type %s for %d nuggets, %s", prompt_type, len(complexities), reason)
    return Selection(prompt_type, reason, points)


def _counted(complexities: Sequence[Complexity]) -> str:
    counts = {
        "numbers": sum(nugget.has_number for nugget in complexities),
        "dates": sum(nugget.has_date for nugget in complexities),
        "negation": sum(nugget.has_negation for nugget in complexities),
        "conjunctions": sum(nugget.conjunctions > 0 for nugget in complexities),
        f"over {LONG_NUGGET} words": sum(nugget.words > LONG_NUGGET for nugget in complexities),
    }
    present = [f"{name} in {count}" for name, count in counts.items() if count]
    return f"of {len(complexities)}: {', '.join(present) or 'nothing that makes them hard'}"
