"""Which prompt type suits a list of nuggets, by what makes a nugget hard to judge.

Numbers, dates, negations, conjunctions and length each give a nugget points; the points decide, and are
logged.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence

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


def hardness(nugget: str) -> dict[str, int]:
    """The points that a nugget gets for each thing that makes it hard to judge.

    A date does not count as a number too.
    """
    text = nugget[:_LOOKED_AT]
    without_dates = _DATE.sub(" ", text)
    words = len(_WIDE.sub("", text).split()) + len(_WIDE.findall(text)) // 2
    return {
        "numbers": int(_NUMBER.search(without_dates) is not None),
        "dates": int(without_dates != text),
        "negation": int(_NEGATION.search(text) is not None),
        "conjunctions": min(len(_CONJUNCTION.findall(text)), 2),
        "length": int(words > LONG_NUGGET),
    }


def select_prompt_type(nuggets: Sequence[str]) -> str:
    """``no_reasoning`` for simple nuggets, ``short_cot`` for moderate, ``optimized`` for hard ones."""
    found: Counter[str] = Counter()
    for nugget in nuggets:
        found.update(hardness(nugget))
    points = found.total() / len(nuggets)
    name = "no_reasoning" if points < MODERATE else "short_cot" if points < COMPLEX else "optimized"
    logger.info("Prompt type %s: %.2f points a nugget, %s", name, points, dict(found))
    return name
