"""Candidates in brackets: JSON arrays and objects of any shape, Python lists, and near misses.

Valid JSON is decoded; what is not (single quotes, no quotes, cut off) is read element by element.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nugget_eval.reading.candidates import Candidate, LabelWords, Span, cut_out
from nugget_eval.reading.near_json import flat_lists, loose_objects
from nugget_eval.reading.spellings import STEM
from nugget_eval.reading.values import Pairs, of_value

_OPENER = re.compile(r"[\[{]")
_FAILED_TRIES = 64
_PARSED_PER_CHARACTER = 3
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=Pairs)


def decoded(text: str) -> Iterator[tuple[Any, Span]]:
    """Every outermost JSON array or object in ``text``, with its span.

    Work is bounded by the length of the text: after too many failed tries, the rest is skipped.
    """
    failed, budget = 0, _PARSED_PER_CHARACTER * len(text) + 1000
    opener = _OPENER.search(text)
    while opener and failed < _FAILED_TRIES and budget > 0:
        start = opener.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            failed += 1
            budget -= max(error.pos - start, 1)
            opener = _OPENER.search(text, start + 1)
        except (RecursionError, ValueError):
            failed += 8
            budget -= len(text) - start
            opener = _OPENER.search(text, start + 1)
        else:
            budget -= end - start
            yield value, (start, end)
            opener = _OPENER.search(text, end)


def bracketed(text: str, words: LabelWords) -> list[Candidate]:
    """Candidates in brackets, in order."""
    candidates: list[Candidate] = []
    claimed: list[Span] = []
    for value, span in decoded(text):
        if STEM.search(text, *span) or words.plain_words:
            decoded_here = [
                candidate for candidate in of_value(value, span, words) if candidate is not None
            ]
            candidates += decoded_here
            claimed += [span] if decoded_here and not _is_single(decoded_here) else []
    if "[" in text or "(" in text or "{" in text:
        rest, kept = cut_out(text, claimed), set(claimed)
        candidates = [candidate for candidate in candidates if candidate.span in kept]
        candidates += flat_lists(rest, words)
        candidates += loose_objects(rest, words)
    candidates.sort(key=lambda candidate: candidate.span)
    return _joined_rows(text, candidates)


def _is_single(candidates: list[Candidate]) -> bool:
    """One label in an array of one: on a numbered line it is that line's label."""
    return len(candidates) == 1 and len(candidates[0].slots) == 1 and candidates[0].rule == "array"


def _joined_rows(text: str, candidates: list[Candidate]) -> list[Candidate]:
    """Single records with only commas or lines between them (JSON lines) as one candidate."""
    groups: list[list[Candidate]] = []
    for candidate in candidates:
        if groups and _continues(text, groups[-1][-1], candidate):
            groups[-1].append(candidate)
        else:
            groups.append([candidate])
    return [group[0] if len(group) == 1 else _rows(group) for group in groups]


def _continues(text: str, last: Candidate, candidate: Candidate) -> bool:
    return (
        candidate.rule == last.rule
        and candidate.rule in ("record", "indexed", "keyed")
        and len(candidate.slots) == len(last.slots) == 1
        and not text[last.span[1] : candidate.span[0]].strip(" \t\r\n,;")
    )


def _rows(group: list[Candidate]) -> Candidate:
    first, last = group[0], group[-1]
    slots = tuple(candidate.slots[0] for candidate in group)
    span = (first.span[0], last.span[1])
    return replace(last, rule="rows", span=span, slots=slots)
