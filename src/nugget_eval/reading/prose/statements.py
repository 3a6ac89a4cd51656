"""Candidates in sentences: one for all nuggets, or one per sentence about a single nugget.

Also labels that one sentence lists: ``The labels are support and not_support, respectively``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from nugget_eval.reading.candidates import Candidate, LabelWords, Slot, make
from nugget_eval.reading.cues import cue_before
from nugget_eval.reading.prose import vocabulary as v
from nugget_eval.reading.prose.claims import claimed
from nugget_eval.reading.remarks import takes_back
from nugget_eval.reading.spellings import LABELS, Label

LONGEST_PROSE = 200_000
"""Characters; a longer reply is not searched for sentences."""


def stated(text: str, words: LabelWords, count: int) -> list[Candidate]:
    """One candidate made of all sentences that label nuggets; for a single nugget, one per sentence."""
    if len(text) > LONGEST_PROSE:
        return []
    slots = claimed(text, words, count)
    statements: list[Candidate] = []
    everyone = range(1, count + 1)
    covered = {slot.index for slot in slots if slot.label and slot.index in everyone}
    is_reasoning = len(covered) < count and any(slot.explained for slot in slots)
    if covered and not is_reasoning:
        starts = [slot.span[0] for slot in slots if slot.span]
        ends = [slot.span[1] for slot in slots if slot.span]
        statements = make("prose", "statements", (min(starts), max(ends)), slots)
    if count > 1:
        return statements or list(enumerated(text, words, count)) or list(single(text, words))
    by_sentence = [*single(text, words), *assigned(text, words)]
    return sorted(by_sentence, key=lambda candidate: candidate.span) or statements


_LONGEST_LISTING = 4_000
_JOIN = re.compile(rf"[ \t,&/*`\"']*(?:{v.AND}[ \t*`\"']*)?", re.IGNORECASE)
_LEAD = re.compile(
    rf"(?:[^\w?]|{v.GLUE}|{v.NOUN}|{v.LISTING}|{v.RESPECTIVELY}|{'|'.join(v.NUMBERS.values())}|\d)*",
    re.I,
)
_TAIL = re.compile(rf"(?:[^\w?]|{v.RESPECTIVELY}|です|である|입니다|이다|है|हैं)*", re.IGNORECASE)
_LABEL_NOUN = re.compile(v.LABEL_NOUN, re.IGNORECASE)
_RESPECTIVELY = re.compile(v.RESPECTIVELY, re.IGNORECASE)


def enumerated(text: str, words: LabelWords, count: int) -> Iterator[Candidate]:
    """One candidate per sentence that lists a label for each nugget and says nothing else."""
    for sentence in v.SENTENCE.finditer(text):
        if len(sentence[0]) <= _LONGEST_LISTING and not sentence[0].endswith("?"):
            yield from _enumerated(sentence[0], sentence.start(), words, count)


def _enumerated(sentence: str, at: int, words: LabelWords, count: int) -> list[Candidate]:
    matches = list(v.LABEL.finditer(sentence))
    if len(matches) != count or count < 2:
        return []
    if not all(_JOIN.fullmatch(sentence, a.end(), b.start()) for a, b in pairwise(matches)):
        return []
    start, end = matches[0].start(), matches[-1].end()
    lead, tail = sentence[:start], sentence[end:]
    if not _LEAD.fullmatch(lead) or not _TAIL.fullmatch(tail) or cue_before(lead):
        return []
    labels = [words(match[0], strict_slot=False) for match in matches]
    if None in labels:
        return []
    is_each = _RESPECTIVELY.search(lead) or _RESPECTIVELY.search(tail)
    if not is_each and (not _LABEL_NOUN.search(lead) or tuple(labels) == LABELS):
        return []
    slots = (
        Slot(label, None, (at + match.start(), at + match.end()))
        for label, match in zip(labels, matches, strict=True)
    )
    return make("prose", "series", (at + start, at + end), slots)


# The label that a sentence gives to the only nugget: ``The label is support``, ``I choose it``


_LABEL = (
    r"(?P<label>[\"'*`“‘«]{0,3}[ ]?(?:(?:fully|partially|partly|partial|not"
    r"|un)[ _-]?){0,2}support(?:ed)?(?![A-Za-z0-9_])"
    r"[ ]?[\"'*`”’»]{0,3})"
)
# What a judge calls its label, and the verb after it, in the languages judges are asked in.
_NAMES = (
    r"(?:label|answer|verdict|decision|judge?ment|classification|rating|assessment|urteil|antwort"
    r"|bewertung"
    r"|entscheidung|einstufung|étiquette|réponse|décision|etiqueta|respuesta|veredicto|decisión"
    r"|rótulo|resposta|decisão"
    r"|etichetta|risposta|verdetto|decisione|метка|ответ|вердикт|решение|оценка)"
)
_VERBS = r"(?:is|are|lautet|ist|est|es|é|è|sera|será|(?:should|will|would)\s+be|:|=|→|->|—|–)"
_ASIAN_NAMES = (
    r"(?:标签|標籤|答案|结论|結論|判定|判断|ラベル|回答|答え|評価|레이블|라벨|답변?|정답|판정"
    r"|التصنيف|الحكم|الإجابة|التسمية|लेबल|उत्तर|निर्णय)"
)
_SINGLE = re.compile(
    rf"(?:\b{_NAMES}\b(?P<about>[^.:=!?\n]{{0,60}}?)\s?{_VERBS}"
    rf"|{_ASIAN_NAMES}[^.:=!?\n]{{0,20}}?(?::|=|是|为|為|は|が|은|는|이|هو|هي|है|(?=[ ]))"
    rf"|\b(?:labell?(?:ed)?|marke?d?|rated?|judged?|classif(?:y|ied)|assigned?|assign\s+the\s+label)\b"
    r"(?P<object>[^.:=!?\n]{0,60}?\bas|\s+(?:the|this)\s+(?:nugget|claim|fact)|(?:\s+it)?"
    r"|\s+(?:the\s+label))"
    r"|\b(?:it|this)\s+is\b|\b(?:go|gone)\s+with\b|\b(?:nugget|claim)\s+gets\b"
    r"|\b(?:nugget|claim|statement|fact|so|therefore|thus|hence|result|conclusion|ergebnis|fazit"
    r"|résultat|conclusión)\s?:"
    r"|\b(?:therefore|thus|hence|so)\b,?"
    r"|\b(?:the|this)\s+(?:nugget|claim|fact|statement)\s+(?=is\b)(?P<subject>is))"
    rf"[ \t]{{0,2}}:?[ \t]{{0,2}}{_LABEL}(?P<rest>[^.\n。]{{0,80}})",
    re.IGNORECASE,
)
_DOUBT = re.compile(rf"{v.DOUBT}|\b(?:suppose|neither)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(?:no|not|never|neither|nicht|kein\w*|pas|não|non|не|нет)\b", re.IGNORECASE
)
_ANOTHER = re.compile(r"(?:partial|not)_support", re.IGNORECASE)
_SENTENCE_REACH = 200


def single(text: str, words: LabelWords) -> Iterator[Candidate]:
    """One candidate per sentence that labels *the* nugget; doubts and alternatives are skipped."""
    for statement in _SINGLE.finditer(text):
        label = words(statement["label"], strict_slot=False)
        sentence = _sentence(text, statement.start("label"))
        tail = statement["rest"]
        clause = re.split(r"[,;:]", sentence.rstrip(" :"))[-1]
        is_open = v.OPEN.search(tail) or _ANOTHER.search(tail) or _DENIED.search(clause)
        is_open = is_open or _DOUBT.search(sentence)
        if (
            label is None
            or is_open
            or takes_back(label, tail)
            or _is_negated(statement)
            or not v.END.match(statement["rest"])
        ):
            continue
        span = (statement.start(), statement.end("label"))
        yield Candidate("prose", "statement", span, (Slot(label, None, span),))


_ANY_LABEL = re.compile(rf"(?<![A-Za-z0-9_]){_LABEL}", re.IGNORECASE)
_ASSIGNING = re.compile(rf"(?:[^\w?]|{v.GLUE}|{v.ASSIGN}|{v.REVISING})*", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(?:[^\w?]|{v.ASSIGNED})*", re.IGNORECASE)


def assigned(text: str, words: LabelWords) -> Iterator[Candidate]:
    """Sentences that are nothing but a label and words that assign it: ``I would go with support``."""
    has_label = False
    for sentence in v.SENTENCE.finditer(text):
        if len(sentence[0]) > 2 * _SENTENCE_REACH or sentence[0].endswith("?"):
            continue
        labels = list(_ANY_LABEL.finditer(sentence[0]))
        if len(labels) != 1 or _DOUBT.search(sentence[0]):
            continue
        label = _assigned(sentence[0], labels[0], words, is_first=not has_label)
        if label is None:
            continue
        has_label = True
        at = sentence.start()
        span = (at + labels[0].start("label"), at + labels[0].end("label"))
        yield Candidate("prose", "statement", span, (Slot(label, None, span),))


def _assigned(
    sentence: str, match: re.Match[str], words: LabelWords, *, is_first: bool
) -> Label | None:
    """The label of a sentence if its other words only assign it; *no* may take back an earlier one."""
    start = match.start("label")
    clause = max(sentence.rfind(",", 0, start), sentence.rfind(":", 0, start)) + 1
    lead, tail = sentence[:start], sentence[match.end("label") :]
    if not _ASSIGNING.fullmatch(lead, clause) or cue_before(lead[:clause]):
        return None
    if _DENIED.search(lead) and (is_first or not v.is_taking_back(lead)):
        return None
    if lead.strip() and _is_negated(match):
        return None
    is_closed = v.END.match(tail) is not None and not v.OPEN.search(tail)
    label = words(match["label"], strict_slot=False)
    if label is None or takes_back(label, tail):
        return None
    return label if is_closed or _ASSIGNED.fullmatch(tail) else None


def _sentence(text: str, end: int) -> str:
    """The part of a sentence before ``end``."""
    before = text[max(0, end - _SENTENCE_REACH) : end]
    return re.split(r"[.!?\n。]", before)[-1]


def _is_negated(statement: re.Match[str]) -> bool:
    """True for ``the label is not support``, which denies a label instead of giving one."""
    is_bare = " " in statement["label"].strip("\"'*` ") and statement["label"][:1].isalpha()
    has_subject = statement.re is _SINGLE and statement["subject"] is not None
    return is_bare and not has_subject and "supported" not in statement["label"].lower()
