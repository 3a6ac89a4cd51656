"""What a reply commits to: the choices it announces, calls right, or takes back.

A label alone says little: "not A", "A or B", "if it were 1900, A", "some would say A" and "A. No, C"
all name A. ``ReplyText`` is one reply to one question; every method examines a bounded part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from lm_eval.formats.readers.language import vocabulary
from lm_eval.formats.readers.options import (
    EMOJI,
    SEVERAL,
    AnswerOptions,
    Name,
    Span,
    closed,
    labels_in,
    opened,
)
from lm_eval.formats.readers.text import PLACEHOLDER, lowered

REACH = 300  # characters; words further apart are unrelated
_MAX_CLAIMS = 400
_LEAD_WORDS = 12
# The period of a label that starts a line does not end a sentence.
_STOP = re.compile(r"(?<!\A\w)(?<!\n\w)(?<!\(\w)[.!?](?=[\s\"')\]*_]|\Z|[^\x00-\u05ff])|[;\n!?]")
_CLAUSE = re.compile(r"[,;:()–—]|\s-\s|\s(?:but|so|and|then)\s")
_ENDS = re.compile(
    r"\s*\Z|[ \t]*[\r\n]|[ \t]*[.,;:!?…|/&)\]}]|\s*(?:[–—→⇒]|-+[\s>]|=>)"
    r"|\s*\([^()\n]{0,200}\)\s*(?:[.,;:!]|\Z|\n)"
    rf"|\s*{EMOJI}|\s*<|\s*\[[^\]\n]{{0,60}}\]|\s*\\"
)
_ENDS_LINE = re.compile(r"[ \t.:;!)]*(?:\Z|[\r\n])")
_ENDS_SECOND = re.compile(r"\s*\Z|[ \t]*[\r\n.,;:!?…)\]}\"'*_]|\s+\(|\s*[–—]")
_NEW_SENTENCE = re.compile(
    r"\s+(?:The|It|This|That|Because|Since|In|Explanation|Reason(?:ing)?|Rationale|Note|Here|We|Let"
    r"|Therefore|Thus|As|For|Answer|Final)\b|\s+[A-Z][a-z]+:"
)
_ITEM = re.compile(r"[ \t.,;|/]{0,4}\n?[-*•_(\[ \t]{0,8}")
_ASIDE = re.compile(
    r"\s*(?:,\s*[^,()\n.:;]{1,80},|\([^()\n]{4,80}\)|[–—-]\s[^–—\n.:;]{1,80}\s?[–—-])\s*"
)
_COMMA = re.compile(r"[ \t]*(?:[,;/&+|]\s*|(?=\(\w{1,3}\)))")


def own_parts(text: str) -> list[str]:
    """All of a reply before a turn that it invents; first of all, what precedes an invented question."""
    low, words = lowered(text), vocabulary()
    begins = len(text) - len(text.lstrip())
    turn = words.turn.search(low, begins)
    end = turn.start() if turn else len(text)
    question = words.question.search(low, begins, end)
    return [text[: question.start()], text[:end]] if question else [text[:end]]


class Claim(NamedTuple):
    """A choice that a reply commits to (or ``SEVERAL``), and from where to where it does."""

    choice: int
    span: Span
    start: int
    end: int
    rule: str


class ReplyText:
    """One reply, in folded form, and the question it answers."""

    def __init__(self, text: str, options: AnswerOptions) -> None:
        self.text = text
        self.low = lowered(text)
        self.words = vocabulary()
        self.options = options

    # --------------------------------------------------------------------------------- names

    def name_at(self, pos: int, *, is_start: bool = False) -> Name | None:
        """The choice named at ``pos``, behind markup and words that change nothing.

        ``is_start``: nothing announces it, so no words may come first. ``SEVERAL`` if more than one
        is named, or a label with the text of another choice.
        """
        for _ in range(_LEAD_WORDS):
            placeholder = PLACEHOLDER.match(self.text, pos)
            pos = opened(self.text, placeholder.end() if placeholder else pos)
            name = self._named_here(pos)
            step = None if name or is_start else self.words.adverb.match(self.low, pos)
            if step is None:
                return name
            pos = step.end()
        return None

    def _named_here(self, pos: int) -> Name | None:
        label = self.options.label_at(self.text, pos)
        if label is None and self.text[pos - 1 : pos] == "-":  # a label like -1
            label = self.options.label_at(self.text, pos - 1)
        text = self._text_at(pos)
        if text is not None and (label is None or text.end > label.end):
            return self._joined(text)
        if label is not None and self._is_meant(label):
            return self._joined(label)
        return self._counted(self.words.ordinal.match(self.low, pos))

    def _text_at(self, pos: int) -> Name | None:
        """The choice whose text fills the clause at ``pos``; if there are several, the longest."""
        texts = self.options.texts_at(self.text, pos)
        ended = {i: span for i, span in texts.items() if self.ends(span[1])}
        if not ended:
            return None
        longest = max(span[1] for span in ended.values())
        best = [i for i, span in ended.items() if span[1] == longest]
        choice = best[0] if len(best) == 1 else SEVERAL
        return Name(choice, ended[best[0]], closed(self.text, longest), is_text=True)

    def _is_meant(self, label: Name) -> bool:
        """True if what follows can follow a label; "A good question" and "2 apples" are prose."""
        text, low, end, words = self.text, self.low, label.end, self.words
        written = text[slice(*label.span)]
        if self._is_listed(label):
            return False
        if not self.options.is_exact(written):
            return _ENDS_LINE.match(text, end) is not None  # the (a) of a solution in parts
        is_word = written.isdigit() or written in "AaIi"
        return bool(
            label.span[1] < end
            or self._other_at(label, end)
            or _ENDS.match(text, end)
            or any(p.match(low, end) for p in (words.reason, words.but, words.but_after))
            or (not is_word and (words.goes_on.match(low, end) or _NEW_SENTENCE.match(text, end)))
        )

    def _is_listed(self, label: Name) -> bool:
        """True if the label opens a list of the options: the next label is on the next line."""
        line_end = self.text.find("\n", label.end, label.end + 2 * REACH)
        item = _ITEM.match(self.text, line_end) if line_end >= 0 else None
        name = self.options.label_at(self.text, item.end()) if item else None
        return name is not None and name.choice == label.choice + 1

    def _joined(self, name: Name) -> Name:
        """The name, or ``SEVERAL`` for "A or B", "A, B", "C. London" (which is not C)."""
        own = None if name.is_text else self.options.texts_at(self.text, name.end).get(name.choice)
        end = closed(self.text, own[1]) if own else name.end
        other = self._other_at(name, end)
        if other is None and not self.text.startswith(").", name.span[1]):
            text = self._text_at(opened(self.text, name.end))
            is_on_line = text is not None and "\n" not in self.text[name.end : text.span[0]]
            other = text if text and is_on_line and text.choice != name.choice else None
        if other is not None:
            return name._replace(choice=SEVERAL, end=other.end)
        return name._replace(end=end)

    def _other_at(self, name: Name, end: int) -> Name | None:
        """Another choice that the reply names together with ``name``, not to contrast the two."""
        for pattern in (_COMMA, self.words.joint):
            joint = pattern.match(self.low, end)
            if joint is None:
                continue
            other = self.options.label_at(self.text, opened(self.text, joint.end()))
            other = other or self._text_at(joint.end())
            if other is None or other.choice == name.choice:
                continue
            written = self.text[slice(*other.span)]
            if "\n" in joint[0] and not _ENDS_LINE.match(self.text, other.span[1]):
                return None  # a label on the next line is a second answer only if it is all of it
            if written not in "AaIi" or _ENDS_SECOND.match(self.text, other.span[1]):
                return other
        return None

    def _counted(self, match: re.Match[str] | None) -> Name | None:
        """The choice that is counted: "the third option", "option 3"."""
        if match is None:
            return None
        number = self.words.ordinal_number(match["later"] or match["word"])
        choice = self.options.count - 1 if number is None else number - 1
        is_there = 0 <= choice < self.options.count
        return Name(choice, match.span(), closed(self.text, match.end())) if is_there else None

    def ends(self, pos: int) -> bool:
        """True if a clause ends at ``pos`` or goes on with an explanation or a verdict."""
        pos = closed(self.text, pos)
        return bool(_ENDS.match(self.text, pos) or self.words.goes_on.match(self.low, pos))

    # -------------------------------------------------------------------------------- claims

    def claim_at(self, start: int, pos: int, rule: str, *, is_start: bool = False) -> Claim | None:
        """What the words from ``start`` announce at ``pos``, if they announce a choice or none."""
        name = self.name_at(pos, is_start=is_start)
        if name is None and not is_start and (aside := _ASIDE.match(self.text, pos)):
            name = self.name_at(aside.end())
        if name is None or self._is_wrong(name):
            return None
        later = self._correction_at(name.end)
        if later is None and self.text.startswith("?", name.end):
            return None
        name = later or name
        return Claim(name.choice, name.span, start, name.end, rule)

    def _is_wrong(self, name: Name) -> bool:
        """True if the words after a name deny it: "A is wrong"."""
        verdict = self.words.verdict.match(self.low, name.end)
        is_wrong = verdict is not None and bool(verdict["wrong"] or verdict["not"])
        return is_wrong or self.words.but_after.match(self.low, name.end) is not None

    def _correction_at(self, pos: int) -> Name | None:
        """What replaces the answer that ended at ``pos``, as in ``A... no, C``; None if nothing does.

        ``SEVERAL`` if the answer is withdrawn and nothing replaces it.
        """
        taken_back = self.words.taken_back.match(self.low, pos)
        if taken_back is None:
            return None
        bridge = self.words.bridge.match(self.low, taken_back.end())
        later = self.name_at(taken_back.end()) or (self.name_at(bridge.end()) if bridge else None)
        return later or Name(SEVERAL, taken_back.span(), taken_back.end())

    def conclusions(self, phrase: re.Pattern[str] | None) -> list[Claim]:
        """Every choice that the reply announces as its answer, in order."""
        claims = list(self._contrasts())
        patterns = [("phrase", phrase)] if phrase else []
        patterns += [("cue", self.words.cue), ("pick", self.words.pick)]
        for rule, pattern in patterns:
            matches = list(pattern.finditer(self.low))
            if len(matches) > _MAX_CLAIMS:  # a loop: its start and its end tell
                matches = matches[: _MAX_CLAIMS // 2] + matches[-_MAX_CLAIMS // 2 :]
            for match in matches:
                claim = self.claim_at(match.start(), match.end(), rule)
                if claim is not None and not self.is_supposed(*match.span()):
                    claims.append(claim)
        return sorted(claims, key=lambda claim: claim.span)

    def _contrasts(self) -> Iterator[Claim]:
        """The D of "not A but D", and of ``AではなくD``."""
        for match in islice(self.words.not_.finditer(self.low), _MAX_CLAIMS):
            denied = self.name_at(match.end())
            but = self.words.but.match(self.low, denied.end) if denied else None
            name = self.name_at(but.end()) if but else None
            if name is not None:
                yield Claim(name.choice, name.span, match.start(), name.end, "not_but")
        for but in self.words.but_after.finditer(self.low):
            name = self.name_at(but.end())
            if name is not None:
                yield Claim(name.choice, name.span, but.start(), name.end, "not_but")

    def is_supposed(self, pos: int, end: int) -> bool:
        """True if what is said at ``pos`` follows a condition ("if it were 1900, …") or a denial."""
        begin = self.sentence(pos)[0]
        clauses = [begin, *(match.end() for match in _CLAUSE.finditer(self.low, begin, pos))]
        if self.is_denied(clauses[-1], pos):
            return True
        is_would = self.words.would.search(self.low, pos, end + 1)
        return bool(is_would and self.words.condition.search(self.low, begin, pos))

    def is_denied(self, start: int, end: int) -> bool:
        """True if a word between two positions denies."""
        return self.words.denies(self.low, start, end)

    def is_corrected(self, start: int, end: int) -> bool:
        """True if the reply changes its mind between two positions."""
        return self.words.second_thought.search(self.low, start, end) is not None

    def called_right(self, start: int = 0) -> dict[int, Span]:
        """The choices called right from ``start`` on; of several verdicts on one, the last counts."""
        rights: dict[int, Span] = {}
        group: list[Name] = []  # "A and C are correct" is about both
        for name in self._mentions(start):
            joint = group and self.words.joint.fullmatch(self.low, group[-1].end, name.span[0])
            group = [*group[-9:], name] if joint else [name]
            verdict = self.words.verdict.match(self.low, name.end)
            if verdict is None or self._is_article(name, verdict):
                continue
            end = self.sentence_end(verdict.end())
            is_also = self.words.also.search(self.low, verdict.start(), end) is not None
            if verdict["would"] and not is_also:
                continue
            for named in group:
                if verdict["wrong"] or verdict["not"]:
                    rights.pop(named.choice, None)
                elif not self.is_supposed(named.span[0], verdict.end()):
                    rights[SEVERAL if is_also else named.choice] = named.span
        return rights

    def _is_article(self, name: Name, verdict: re.Match[str]) -> bool:
        """True for the A of "A correct answer" and of "A opção correta"."""
        if verdict["wrong"] or self.text[slice(*name.span)] not in "AEIO":
            return False
        return self.words.link.search(self.low, name.end, verdict.start("right")) is None

    def _mentions(self, start: int) -> Iterator[Name]:
        """Labels as they were shown, then ordinals, then texts."""
        yield from islice(labels_in(self.options, self.text, start, len(self.text)), 1000)
        if len(self.text) <= 4 * REACH:
            yield from filter(
                None, map(self._counted, self.words.ordinal.finditer(self.low, start))
            )
            for choice, spans in self.options.text_mentions(self.text).items():
                for span in spans[-50:]:
                    if span[0] >= start:
                        yield Name(choice, span, closed(self.text, span[1]), is_text=True)

    # ----------------------------------------------------------------------------- sentences

    def sentence(self, pos: int) -> Span:
        """The sentence around ``pos``, up to ``REACH`` in each direction."""
        start = max(0, pos - REACH)
        for stop in _STOP.finditer(self.low, start, pos):
            start = stop.end()
        return start, self.sentence_end(pos)

    def sentence_end(self, pos: int) -> int:
        """Where the sentence that contains ``pos`` ends."""
        stop = _STOP.search(self.low, pos, pos + REACH)
        return stop.end() if stop else min(len(self.low), pos + REACH)

    @cached_property
    def is_cut(self) -> bool:
        """True if the reply ends in the middle of a sentence."""
        end = self.text.rstrip(" \t\r\n*_`$\"')]}\\|")
        if not end or end[-1] in ".!?…。" or not end[-1].isascii():
            return False
        label = _LAST_WORD.search(end)
        return label is None or self.options.index_of(label[0]) is None


_LAST_WORD = re.compile(r"\w{1,3}\Z")
