"""A reply as sentences: where they begin and end, and whether their words qualify a claim."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from lm_eval.formats.readers.language import vocabulary_of
from lm_eval.formats.readers.options import Mention, Span
from lm_eval.formats.readers.text import lowered
from lm_eval.formats.readers.wording import Wording, keys_of

Standing = Literal["firm", "conditional", "supposed", "denied"]

REACH = 300  # characters in either direction; words further apart are unrelated
# The period of a label that starts a line does not end a sentence.
_STOP = re.compile(r"(?<!\A\w)(?<!\n\w)(?<!\(\w)[.!?](?=[\s\"')\]*_]|\Z|[^\x00-\u05ff])|[;\n!?]")
# What may follow a second choice that a sentence names.
ENDS_SECOND = re.compile(r"\s*\Z|[ \t]*[\r\n.,;:!?…)\]}\"'*_]|\s+\(|\s*[–—]")
_CLAUSE = re.compile(r"[,;:()–—]|\s-\s|\s(?:but|so|and|then)\s")


class Sentences:
    """One reply in folded form. Every method looks at a bounded part of it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.low = lowered(text)
        self.words = vocabulary_of(self.low)
        self.keys = keys_of(self.low)

    def search(self, wording: Wording, start: int, end: int) -> re.Match[str] | None:
        """The first ``wording`` between two positions."""
        return wording.search(self.low, self.keys, start, end) if start < end else None

    def all_of(self, wording: Wording, start: int = 0) -> list[re.Match[str]]:
        """Every ``wording`` from ``start`` on."""
        return wording.all_in(self.low, self.keys, start)

    def sentence(self, pos: int) -> tuple[int, int]:
        """The sentence around ``pos``, up to ``REACH`` in each direction."""
        floor, ceiling = max(0, pos - REACH), min(len(self.low), pos + REACH)
        stop = _STOP.search(self.low, pos, ceiling)
        return self._last(_STOP, floor, pos), stop.end() if stop else ceiling

    def sentence_end(self, pos: int) -> int:
        """Where the sentence that contains ``pos`` ends, before its stop."""
        stop = _STOP.search(self.low, pos, pos + REACH)
        return stop.start() if stop else min(len(self.low), pos + REACH)

    def is_last(self, mention: Mention) -> bool:
        """True if nothing but closing punctuation follows."""
        end = mention.end  # a short look first: most text goes on
        return is_blank(self.text[end : end + 40]) and is_blank(self.text[end:])

    def is_denied(self, start: int, end: int) -> bool:
        """True if a word between two positions denies; "no doubt" does not."""
        if self.search(self.words.denial, start, end) is None:
            return False
        matches = self.words.denial.pattern.finditer(self.low, start, end)
        return any(not match["vain"] for match in matches)

    @cached_property
    def _may_doubt(self) -> bool:
        return self.words.doubt.is_in(self.low, self.keys)

    def standing(self, start: int, end: int) -> Standing:
        """How the words around the cue at ``start:end`` qualify the claim that it announces.

        ``denied``; ``supposed`` for the claim of others or of another case; ``conditional`` if it
        counts only without any other claim; or ``firm``.
        """
        if not self._may_doubt:
            return "firm"
        words = self.words
        begin, stop = self.sentence(start)
        if self.search(words.contrast, begin, start):
            begin = self._last(words.contrast.pattern, begin, start)
        if self.search(words.supposed, begin, end):
            return "supposed"
        is_would = self.search(words.would, start, end + 1) is not None
        if self.search(words.condition, begin, start):
            return self._under_condition(begin, start, is_would=is_would)
        if is_would:
            is_if = self.search(words.condition, end, min(stop, end + REACH)) is not None
            return "supposed" if is_if else "conditional"
        is_denied = self.is_denied(self._last(_CLAUSE, begin, start), start)
        return "denied" if is_denied else "firm"

    def _under_condition(self, begin: int, start: int, *, is_would: bool) -> Standing:
        """ "If it were …, it would be" claims nothing; "if I am not mistaken" changes nothing."""
        words = self.words.denial.pattern.finditer(self.low, begin, start)
        if any(match["vain"] for match in words):
            return "firm"
        return "supposed" if is_would else "conditional"

    def _last(self, pattern: re.Pattern[str], start: int, end: int) -> int:
        """Where the last ``pattern`` between two positions ends; ``start`` if there is none."""
        for match in pattern.finditer(self.low, start, end):
            start = match.end()
        return start

    # ------------------------------------------------------------------------------ verdicts

    def verdict_on(self, mention: Mention) -> bool | None:
        """True for "C is correct", False for "C is wrong", None if nothing is said."""
        match = self.words.verdict.match(self.low, mention.end)
        if match is None or (match["would"] and not self._is_second_claim(match)):
            return None  # "D would be correct for balloons"
        word = match["right"] or match["wrong"]
        at = match.start("right") if match["right"] else match.start("wrong")
        if word[0] < "\u0590" and not self._is_linked(mention, at):
            return None  # "A correct answer" is not about A
        is_right = match["right"] is not None
        return is_right if match["not"] is None else not is_right if is_right else None

    def _is_second_claim(self, verdict: re.Match[str]) -> bool:
        """True for "D would be correct as well": no other case is meant, and nothing follows."""
        following = self.low[verdict.end() : self.sentence_end(verdict.end())]
        return bool(verdict["also"] or verdict["too"]) and is_blank(
            self.words.noun.sub("", following, count=1)
        )

    def says_the_same(self, mention: Mention) -> bool:
        """True for "C is too" and "so is C": the verdict on another choice also applies to this one."""
        start = mention.span[0]
        return bool(
            self.words.too.match(self.low, mention.end)
            or (
                self.words.so_is.search(self.low, max(0, start - 40), start)
                and ENDS_SECOND.match(self.text, mention.end)
            )
        )

    def _is_linked(self, mention: Mention, at: int) -> bool:
        """True if something ties the verdict at ``at`` to the choice, as "ist C richtig" does."""
        if self.words.link.search(self.low, mention.span[1], at):
            return True
        start = mention.span[0]
        is_turned = self.words.copula_before.search(self.low, max(0, start - 24), start)
        return is_turned is not None and not self.text.startswith("?", self.sentence_end(at))

    def last_verdict(self, mention: Mention) -> bool | None:
        """The verdict at the end of a sentence that begins with the choice."""
        start, end = mention.span[0], self.sentence_end(mention.end)
        if self.text[self.sentence(start)[0] : start].strip(" \t\n*_(-"):
            return None
        tail = self.words.verdict_tail.search(self.low, mention.end, end)
        return None if tail is None else tail["wrong"] is None

    def is_doubtful(self, span: Span) -> bool:
        """True if a word of the same sentence denies, supposes or conditions what ``span`` names."""
        start, end = self.sentence(span[0])
        words = self.words
        if self.is_denied(start, span[0]) or self.is_denied(span[1], end):
            return True
        if self.search(words.supposed, start, end) or self.search(words.condition, start, span[0]):
            return True
        return self.text[end - 1 : end] == "?"


def is_blank(text: str) -> bool:
    """True if ``text`` contains only white space and closing punctuation."""
    return not text.strip(" \t\r\n\f\v.,;:!…*_`\"'$)]}>\ufe0f\u20e3✅✓✔☑👍🎯")
