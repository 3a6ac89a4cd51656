"""Word overlap of free answers: ``f1`` and ``em`` as in SQuAD, ``f1_drop`` and ``em_drop`` as in DROP,
``f1_loo`` and ``em_loo`` as in CoQA, and ``contains``.

Each is one function of golds and an answer; the best gold counts. Under formats the answer is the text
that was read, and what was not read scores 0; plain tasks of the harness give the filtered reply.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from lm_eval.registry import Metric
from lm_eval.scoring.functions import BestReference, Score, answer_texts
from lm_eval.scoring.metrics import CHOICE, TEXT, ChoiceOutcome, keep

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


# SQuAD


@lru_cache(maxsize=8192)
def squad_form(text: str) -> str:
    """A text in lower case, without punctuation (ASCII), articles and runs of blanks, in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _squad_golds(golds: Sequence[str]) -> list[str]:
    """The golds in normal form; empty ones count only if all are empty."""
    forms = [squad_form(gold) for gold in golds]
    return [form for form in forms if form] or [""]


def squad_em(answer: str, golds: Sequence[str]) -> float:
    """Whether the answer is one of the golds, in normal form."""
    return float(squad_form(answer) in _squad_golds(golds))


def squad_f1(answer: str, golds: Sequence[str]) -> float:
    """The best F1 of the answer's words with those of a gold; nothing equals only nothing."""
    words = squad_form(answer).split()
    return max(_bag_f1(words, gold.split()) for gold in _squad_golds(golds))


def _bag_f1(words: Sequence[str], gold: Sequence[str]) -> float:
    if not words or not gold:
        return float(words == gold)
    shared = sum((Counter(words) & Counter(gold)).values())
    return 2 * shared / (len(words) + len(gold))


def contains(answer: str, golds: Sequence[str]) -> float:
    """Whether the answer contains the words of a gold next to each other, in normal form."""
    words = f" {squad_form(answer)} "
    return float(any(f" {gold} " in words for gold in _squad_golds(golds) if gold))


# MLQA

_ARTICLES_OF = {
    "en": _ARTICLES,
    "es": re.compile(r"\b(?:un|una|unos|unas|el|la|los|las)\b"),
    "vi": re.compile(r"\b(?:của|là|cái|chiếc|những)\b"),
    "de": re.compile(r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    "ar": re.compile(r"(?:^|\s)ال"),
}
_HAN = re.compile(r"([\u4e00-\u9fa5])")


def mlqa_words(text: str, language: str) -> list[str]:
    """The words of a text in lower case, without punctuation and the language's articles; each Chinese
    character is a word."""
    marks = (c for c in text.lower() if c not in string.punctuation)
    plain = "".join(c for c in marks if not unicodedata.category(c).startswith("P"))
    if language in _ARTICLES_OF:
        plain = _ARTICLES_OF[language].sub(" ", plain)
    return (_HAN.sub(r" \1 ", plain) if language == "zh" else plain).split()


def _mlqa(language: str) -> tuple[Score, Score]:
    """``em`` and ``f1`` by MLQA's rules for a language."""

    def em(answer: str, golds: Sequence[str]) -> float:
        words = mlqa_words(answer, language)
        return float(any(words == mlqa_words(gold, language) for gold in golds))

    def f1(answer: str, golds: Sequence[str]) -> float:
        words = mlqa_words(answer, language)
        return max(_bag_f1(words, mlqa_words(gold, language)) for gold in golds)

    return em, f1


# CoQA


def leave_one_out(score: Score) -> Score:
    """A score whose golds are left out one at a time, as if each annotator were compared with the rest.

    People are measured so, one against the others; with one gold there is nothing to leave out.
    """

    def mean_score(answer: str, golds: Sequence[str]) -> float:
        if len(golds) < 2:
            return score(answer, golds)
        rests = ([*golds[:at], *golds[at + 1 :]] for at in range(len(golds)))
        return sum(score(answer, rest) for rest in rests) / len(golds)

    return mean_score


# DROP


def drop_em(answer: str, golds: Sequence[str]) -> float:
    """Whether the answer has the spans of one of the golds, in normal form and any order."""
    return max(
        float(sorted(map(drop_form, spans)) == sorted(map(drop_form, gold)))
        for gold in map(spans_of, golds)
        for spans in _span_lists(answer, len(gold))
    )


def drop_f1(answer: str, golds: Sequence[str]) -> float:
    """The best F1 of the answer's words with those of a gold, span by span, rounded to hundredths.

    Spans are paired so that the sum is highest; those left over count as 0. A pair whose gold has
    numbers counts only if it shares one.
    """
    return max(
        _spans_f1(spans, gold)
        for gold in map(spans_of, golds)
        for spans in _span_lists(answer, len(gold))
    )


def spans_of(gold: str) -> tuple[str, ...]:
    """The parts of a gold: those of a list in ``doc_to_target``, else the text itself."""
    return getattr(gold, "parts", None) or (gold,)


_WORD_BORDER = re.compile(r"[ -]")


@lru_cache(maxsize=8192)
def drop_form(span: str) -> str:
    """A span word by word, parted at blanks and hyphens: numbers as floats, other words without
    punctuation and articles."""
    words = (
        " ".join(_ARTICLES.sub(" ", _as_float(_bare_word(word))).split())
        for word in _WORD_BORDER.split(span.lower())
    )
    return " ".join(word for word in words if word)


def _bare_word(word: str) -> str:
    return word if _is_number(word) else word.translate(_PUNCTUATION)


def _as_float(word: str) -> str:
    return str(float(word)) if _is_number(word) else word


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


_LIST_BORDERS = (
    re.compile(r"(?:\s*\n\s*|\A(?=.*\n))(?:(?:[-*•]|\d{1,2}[.)])\s+)?"),
    re.compile(r"\s*;\s*"),
    re.compile(r"\s*(?:,|&|\band\b)\s*"),
)


def _span_lists(answer: str, count: int) -> Iterator[Sequence[str]]:
    """The answer as one span and, if the gold has several, as a list of spans.

    Items are on separate lines, or separated by semicolons, or by commas and "and".
    """
    yield (answer,)
    for border in _LIST_BORDERS if count > 1 else ():
        parts = [part for part in border.split(answer.strip().rstrip(".")) if part.strip()]
        if len(parts) > 1:
            yield parts


def _spans_f1(spans: Sequence[str], gold: Sequence[str]) -> float:
    ours = [frozenset(drop_form(span).split()) for span in spans]
    theirs = [frozenset(drop_form(span).split()) for span in gold]
    scores = [[_set_f1(words, right) for words in ours] for right in theirs]
    return round(best_pairing(scores) / max(len(ours), len(theirs)), 2)


def _set_f1(words: frozenset[str], gold: frozenset[str]) -> float:
    numbers = {word for word in gold if _is_number(word)}
    if numbers and not numbers & words:
        return 0.0
    shared = len(words & gold)
    precision = shared / len(words) if words else 1.0
    recall = shared / len(gold) if gold else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def best_pairing(scores: Sequence[Sequence[float]]) -> float:
    """The highest sum of scores with at most one taken from each row and each column.

    The Hungarian method with potentials: rows² × columns steps.
    """
    if len(scores) > len(scores[0]):
        scores = list(zip(*scores, strict=True))
    rows, columns = len(scores), len(scores[0])
    row_price, column_price = [0.0] * (rows + 1), [0.0] * (columns + 1)
    row_of = [0] * (columns + 1)  # the row that holds a column; rows and columns count from 1
    for row in range(1, rows + 1):
        row_of[0] = row
        at = 0
        slack = [float("inf")] * (columns + 1)
        came_from = [0] * (columns + 1)
        is_done = [False] * (columns + 1)
        while row_of[at]:
            is_done[at] = True
            current, step, nearest = row_of[at], float("inf"), 0
            for column in range(1, columns + 1):
                if is_done[column]:
                    continue
                cost = -scores[current - 1][column - 1] - row_price[current] - column_price[column]
                if cost < slack[column]:
                    slack[column], came_from[column] = cost, at
                if slack[column] < step:
                    step, nearest = slack[column], column
            for column in range(columns + 1):
                if is_done[column]:
                    row_price[row_of[column]] += step
                    column_price[column] -= step
                else:
                    slack[column] -= step
            at = nearest
        while at:
            row_of[at] = row_of[came_from[at]]
            at = came_from[at]
    return sum(scores[row - 1][at] for at, row in enumerate(row_of[1:]) if row)


# As metrics


def _metric(name: str, explained: str, score: Score, *, decides: bool = False) -> Metric:
    """The metric of formats and of plain tasks; ``decides`` whether it says right or wrong."""
    function = BestReference(score)
    return Metric(
        name,
        explained,
        of_text=function.of_text,
        compares_texts=True,
        same=(lambda answer, gold: score(answer, [gold]) == 1.0) if decides else None,
        function=function,
        aggregation="mean",
        output_types=(TEXT,),
        is_built_in=True,
    )


EM = _metric("em", "the text read is a gold, by SQuAD's rules", squad_em, decides=True)
F1 = replace(
    _metric("f1", "words shared with the best gold, by SQuAD's rules", squad_f1),
    # In plain tasks this name is the F1 of two classes.
    function=keep,
    aggregation="f1",
    output_types=(CHOICE,),
)
EM_DROP = _metric(
    "em_drop", "the spans read are those of a gold, by DROP's rules", drop_em, decides=True
)
F1_DROP = _metric(
    "f1_drop", "words shared with the best gold, span by span, by DROP's rules", drop_f1
)
F1_LOO = _metric("f1_loo", "as f1, each gold left out in turn, as in CoQA", leave_one_out(squad_f1))
EM_LOO = _metric("em_loo", "as em, each gold left out in turn, as in CoQA", leave_one_out(squad_em))
for _language in ("ar", "de", "en", "es", "hi", "vi", "zh"):
    _em, _f1 = _mlqa(_language)
    globals()[f"EM_MLQA_{_language.upper()}"] = _metric(
        f"em_mlqa_{_language}", f"em by MLQA's rules for {_language}", _em, decides=True
    )
    globals()[f"F1_MLQA_{_language.upper()}"] = _metric(
        f"f1_mlqa_{_language}", f"f1 by MLQA's rules for {_language}", _f1
    )
CONTAINS = _metric("contains", "the text read contains a gold, by SQuAD's rules", contains)


def _choice_f1(outcome: ChoiceOutcome) -> float:
    golds, picked = answer_texts(outcome)
    return squad_f1(picked, golds)


def _choice_em(outcome: ChoiceOutcome) -> float:
    golds, picked = answer_texts(outcome)
    return squad_em(picked, golds)


CHOICE_EM = Metric(
    "choice_em",
    "the likeliest choice is a right one, by SQuAD's rules",
    _choice_em,
)
CHOICE_F1 = Metric(
    "choice_f1",
    "words of the likeliest choice shared with a right one, by SQuAD's rules",
    _choice_f1,
)
