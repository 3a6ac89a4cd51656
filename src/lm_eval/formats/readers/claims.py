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
from lm_eval.formats.readers.text import PLACEHOLDER, key_of, lowered

NONE = -2
"""In place of a choice: the reply says that none of them is right, or withdraws the one it named."""

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
_ITEM_MARK = re.compile(r"[*_]{0,3}[.):\]]")
_ARTICLE = re.compile(
    r"(?:[aoe]|la|el|il|le|die|der|das|the)\s+(?=[(\[*\"'`]{0,3}[A-Z0-9]{1,2}\b(?!'))"
)
_BRACKET = re.compile(r"\s*[(\[]")
_ASIDE = re.compile(
    r"\s*(?:,\s*[^,()\n.:;]{1,80},|\([^()\n]{1,80}\)|[–—-]\s[^–—\n.:;]{1,80}\s?[–—-])\s*"
)
_COMMA = re.compile(r"[ \t]*[,;/&+|]\s*")


class Claim(NamedTuple):
    """A choice that a reply commits to (or ``SEVERAL``, ``NONE``), and from where to where it does."""

    choice: int
    span: Span
    start: int
    end: int
    rule: str
    is_firm: bool = True


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

        ``is_start``: nothing announces it, so a label needs more evidence. ``SEVERAL`` if more than one
        is named, or a label with the text of another choice.
        """
        for _ in range(_LEAD_WORDS):
            placeholder = PLACEHOLDER.match(self.text, pos)
            pos = opened(self.text, placeholder.end() if placeholder else pos)
            article = None if is_start else _ARTICLE.match(self.text, pos)
            if article and (name := self._named_here(opened(self.text, article.end()))):
                return name
            name = self._named_here(pos, is_start=is_start)
            step = None if name or is_start else self.words.adverb.match(self.low, pos)
            if step is None:
                return name
            pos = step.end()
        return None

    def _named_here(self, pos: int, *, is_start: bool = False) -> Name | None:
        label = self.options.label_at(self.text, pos)
        if label is None and self.text[pos - 1 : pos] == "-":  # a label like -1
            label = self.options.label_at(self.text, pos - 1)
        text = self._text_at(pos)
        if text is not None and (label is None or text.end > label.end):
            return self._joined(text)
        if label is not None and self._is_meant(label, is_start=is_start):
            return self._joined(label)
        return self._counted_at(pos)

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

    def _is_meant(self, label: Name, *, is_start: bool) -> bool:
        """True if what follows can follow a label; "A good question" and "2 apples" are prose."""
        text, low, end, words = self.text, self.low, label.end, self.words
        written = text[slice(*label.span)]
        before, closing = text[label.span[0] - 1 : label.span[0]], text[label.span[1] : end]
        if before == "$" and written.isdigit():
            return "$" in closing  # $2 is a price, $2$ a label in LaTeX
        if self._is_listed(label):
            return False
        if is_start and (written.isdigit() or written in "Ii"):
            return bool(_ENDS_LINE.match(text, end) or words.reason.match(low, end))
        if len(text) > REACH and not self.options.is_exact(written):
            return _ENDS_LINE.match(text, end) is not None  # the (a) of a solution in parts
        is_word = written.isdigit() or written in "AaIi" or not self.options.is_exact(written)
        return bool(
            (self.options.is_exact(written) and self.options.texts_at(text, end))
            or self._other_at(label, end)
            or (closing and (closing[0] in ")]}\\<>" or closing[0] == before))
            or _ENDS.match(text, end)
            or any(p.match(low, end) for p in (words.reason, words.but, words.but_after))
            or self.verdict_on(label)
            or (not is_word and not is_start and words.goes_on.match(low, end))
            or (not is_word and _NEW_SENTENCE.match(text, end))
        )

    def _is_listed(self, label: Name) -> bool:
        """True if the label opens a list of the options: the next label follows its text."""
        line_end = self.text.find("\n", label.end, label.end + 2 * REACH)
        item = _ITEM.match(self.text, line_end) if line_end >= 0 else None
        name = self.options.label_at(self.text, item.end()) if item else None
        if name is None or name.choice != label.choice + 1:
            return False
        is_item = _ITEM_MARK.match(self.text, name.span[1]) is not None
        return is_item and not self.is_denied(name.end, self.sentence_end(name.end))

    def _joined(self, name: Name) -> Name:
        """The name, or ``SEVERAL`` for "A or B", "A, B", "C. London" (which is not C), "Paris (B)"."""
        own = None if name.is_text else self.options.texts_at(self.text, name.end).get(name.choice)
        end = closed(self.text, own[1]) if own else name.end
        other = self._other_at(name, end)
        if other is None and not name.is_text and not self.text.startswith(").", name.span[1]):
            text = self._text_at(opened(self.text, name.end))
            is_on_line = text is not None and "\n" not in self.text[name.end : text.span[0]]
            is_second = text is not None and is_on_line and not (own and text.end <= end)
            other = text if text and is_second and text.choice != name.choice else None
        if other is None and (bracket := _BRACKET.match(self.text, name.end)):
            label = self.options.label_at(self.text, bracket.end())
            is_closed = label is not None and self.text[label.span[1] : label.span[1] + 1] in ")]"
            other = label if label and is_closed and label.choice != name.choice else None
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
            is_strong = pattern is not _COMMA and joint["strong"] is not None
            if other is None:
                text = self._text_at(joint.end()) if is_strong and name.is_text else None
                if text and text.choice != name.choice:
                    return text
                continue
            written = self.text[slice(*other.span)]
            if other.choice == name.choice or not self.options.is_exact(written):
                continue
            if (
                "\n" in joint[0]
            ):  # a label on the next line is a second answer only if it is all of it
                return other if _ENDS_LINE.match(self.text, other.span[1]) else None
            if written not in "AaIi" or _ENDS_SECOND.match(self.text, other.span[1]):
                return other
        return None

    def is_wrong(self, name: Name) -> bool:
        """True if the words after a name deny it: "A is wrong"."""
        verdict = self.verdict_on(name)
        return verdict is not None and bool(verdict["wrong"] or verdict["not"])

    def verdict_on(self, name: Name) -> re.Match[str] | None:
        """The verdict on a name; "A correct answer" and "a opção correta" are none on A."""
        verdict = self.words.verdict.match(self.low, name.end)
        if verdict is None or self.text[slice(*name.span)] not in "AaEeIiOo":
            return verdict
        word = verdict.start("wrong" if verdict["wrong"] else "right")
        return verdict if self.words.link.search(self.low, name.end, word) else None

    def _counted_at(self, pos: int) -> Name | None:
        """The choice counted at ``pos``: "the third option", "option 3"."""
        match = self.words.ordinal.match(self.low, pos)
        return self._counted(match) if match and self.ends(match.end()) else None

    def _counted(self, match: re.Match[str]) -> Name | None:
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
        if name is None and not is_start:
            name = self._otherwise_at(pos)
        if name is None or self.is_wrong(name):
            return None
        if self.words.but_after.match(self.low, name.end):
            return None
        replaced = self._correction_at(name.end)
        if replaced is not None:
            return Claim(replaced.choice, replaced.span, start, replaced.end, rule)
        if self.text[name.end : name.end + 1] == "?" and self.text[name.end + 1 :].strip():
            return None
        return Claim(name.choice, name.span, start, name.end, rule)

    def _otherwise_at(self, pos: int) -> Name | None:
        """What is said at ``pos`` if no choice is named right away: one after an aside, or none."""
        inner = opened(self.text, pos)
        none = self.words.none.match(self.low, inner)
        if none:
            return Name(NONE, none.span(), none.end())
        aside = None if self.words.not_.match(self.low, inner) else _ASIDE.match(self.text, pos)
        return self.name_at(aside.end()) if aside else None

    def _correction_at(self, pos: int) -> Name | None:
        """What replaces the answer that ended at ``pos``, as in ``A... no, C``; None if nothing does.

        ``NONE`` if the answer is withdrawn and nothing replaces it.
        """
        taken_back = self.words.taken_back.match(self.low, pos)
        if taken_back is None:
            return None
        bridge = self.words.bridge.match(self.low, taken_back.end())
        end = bridge.end() if bridge else taken_back.end()
        for start in (taken_back.end(), end):
            name = self.name_at(start)
            if name is not None:
                return name
        is_hard = self.words.withdrawn.search(self.low, taken_back.start(), end)
        return Name(NONE, taken_back.span(), taken_back.end()) if is_hard else None

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
                standing = self.standing(*match.span())
                claim = self.claim_at(match.start(), match.end(), rule) if standing else None
                if claim is not None:
                    claims.append(claim._replace(is_firm=standing == "firm"))
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

    def standing(self, start: int, end: int) -> str | None:
        """``firm``; ``open`` for "would be"; None if the words around it make it no claim at all."""
        words, low = self.words, self.low
        begin, stop = self.sentence(start)
        for contrast in words.contrast.finditer(low, begin, start):
            begin = contrast.end()
        if words.supposed.search(low, begin, end):
            return None
        is_would = words.would.search(low, start, end + 1) is not None
        is_if = words.condition.search(low, begin, start) or (
            is_would and words.condition.search(low, end, stop)
        )
        if is_if:
            return None if is_would else "open"
        clauses = [match.end() for match in _CLAUSE.finditer(low, begin, start)]
        if self.is_denied(clauses[-1] if clauses else begin, start):
            return None
        return "open" if is_would else "firm"

    def is_denied(self, start: int, end: int) -> bool:
        """True if a word between two positions denies."""
        return self.words.denies(self.low, start, end)

    def is_corrected(self, start: int, end: int) -> bool:
        """True if the reply changes its mind between two positions."""
        return self.words.second_thought.search(self.low, start, end) is not None

    def verdicts(self, start: int = 0) -> tuple[dict[int, Span], set[int]]:
        """The choices called right from ``start`` on, and those called wrong; the last word counts."""
        rights: dict[int, Span] = {}
        wrongs: set[int] = set()
        group: list[Name] = []  # "A and C are correct" is about both
        for name in self._mentions(start):
            joint = (
                self.words.joint.fullmatch(self.low, group[-1].end, name.span[0]) if group else None
            )
            group = [*group[-9:], name] if joint and joint["strong"] else [name]
            verdict = self.verdict_on(name)
            is_also = verdict is not None and self._is_also(verdict)
            if verdict is None or (verdict["would"] and not is_also):
                continue
            for named in group:
                if verdict["wrong"] or verdict["not"]:
                    rights.pop(named.choice, None)
                    wrongs.add(named.choice)
                elif self.standing(named.span[0], named.end):
                    wrongs.discard(named.choice)
                    rights[named.choice] = named.span
                    if is_also:
                        rights[SEVERAL] = named.span
        return rights, wrongs

    def _is_also(self, verdict: re.Match[str]) -> bool:
        """True for "E would be correct as well"."""
        end = self.sentence_end(verdict.end())
        return self.words.also.search(self.low, verdict.start(), end) is not None

    def _mentions(self, start: int) -> Iterator[Name]:
        """Labels as they were shown, then ordinals, then texts."""
        yield from islice(labels_in(self.options, self.text, start, len(self.text)), 1000)
        if len(self.text) <= 4 * REACH:
            for match in self.words.ordinal.finditer(self.low, start):
                counted = self._counted(match)
                if counted is not None:
                    yield counted
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
        is_label = label is not None and self.options.index_of(label[0]) is not None
        return not is_label and not (len(end) <= REACH and self._ends_with_text(end))

    def _ends_with_text(self, end: str) -> bool:
        key = key_of(end[-self.options.window :])
        return any(known and f" {key}".endswith(f" {known}") for known in self.options.keys)


_LAST_WORD = re.compile(r"\w{1,3}\Z")
