"""The labels and choice texts of one question, compiled to be matched at a position in a reply.

Every choice reader asks the same two questions of a position: is there a label, is there a choice's
text? Both answers are a ``Reading``, and both say *ambiguous* rather than guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading
from lm_eval.formats.readers.text import (
    PlainWords,
    first_word,
    fold,
    key_of,
    may_mention,
    words,
)

# What may surround a label: emphasis, quotes, brackets, LaTeX and HTML wrappers.
# The look-ahead makes a run of white space one step: a masked thinking block can be a long one.
_OPEN = (
    r"(?=(?P<gap>\s+))(?P=gap)|[*_`\"'$(\[{:=~#>-]"
    r"|\\(?:boxed|fbox|text(?:bf|it|rm)?|math(?:rm|bf|it|sf))\s?\{|\\[(\[]"
    r"|<(?:b|i|u|em|strong|answer|final_answer|choice|option)>|<\|\w{1,20}\|>"
)
# Words that announce a label without changing what is said about it, unlike "not".
_FILLER = (
    r"(?:the|options?|choices?|answers?|letters?|labels?|number|both|either|neither|between|indeed"
    r"|definitely|clearly|certainly|therefore|thus|hence|most|likely|probably|maybe|perhaps|possibly|still|simply|just)\b"
)
_LEAD = rf"(?:{_OPEN}|{_FILLER}){{0,40}}"
_CLOSE = re.compile(r"(?:[*_`\"'$)\]}]|\\[)\]]|</\w{1,12}>|<\|\w{1,20}\|>){0,12}")
# A label ends its token: not the C of C++, C#, C-4 or C's, not the 1 of 1.5, the A of A.I. or A=5.
_TOKEN_START = r"(?<![A-Za-z0-9\u00c0-\u1fff\\])"
_TOKEN_END = (
    r"(?![A-Za-z0-9\u00c0-\u1fff+#%°^=@]|\\(?![)\]])|[-'_]\w|\.\d|\.\w\b|\s?[+*×÷=^<]\s?\d)"
)
_NUMBER_START = r"(?<![\d][.,:/])(?<!-)"
_NUMBER_END = r"(?![,:/]\d)"

_GOES_ON = (
    r"because|since|as|which|but|over|instead|rather\s+than|not(?!-)|due\s+to|given\s+that|based\s+on"
    r"|is\s+(?:(?:the|clearly|definitely|indeed|only|most)\s+){0,2}(?:correct|right|best|answer|true)"
)
# After a label or a text, the clause ends or explains itself; then it was an answer, not prose.
_TAIL = re.compile(
    r"\s*\Z|[ \t]*[\r\n]|[ \t]*[.,;:!?…]|\s*(?:[–—]|-+\s)|\s*\([^()\n]{0,200}\)\s*(?:[.,;:!]|\Z|\n)"
    rf"|\s+(?:{_GOES_ON})\b",
    re.IGNORECASE,
)
_TAIL_OF_I = re.compile(
    r"\s*\Z|[ \t]*[\r\n]|[.:;!?)]|\s*[–—]|\s+(?:because|since)\b", re.IGNORECASE
)
_NEW_SENTENCE = re.compile(r"\s+[A-Z]")
_LINE_ENDS = re.compile(r"[ \t.:;!)]*(?:\Z|[\r\n])")
_IS_DENIED = re.compile(
    r"[\s.:,;)–—-]{0,8}(?:is\s+|was\s+|seems\s+)?(?:also\s+|clearly\s+)?"
    r"(?:incorrect|wrong|false|not\s+(?:correct|right|true|the)|ruled\s+out|eliminated|untrue)\b",
    re.IGNORECASE,
)
_STRONG_JOINT = r"[ \t]*(?:/|&|\+|\||,?\s*\b(?:and|or|nor|and/or)\b)\s*"
_WEAK_JOINT = r"[ \t]*[,;]\s*|[ \t]+|\s*\n\s*"
_JOINT = re.compile(rf"(?P<strong>{_STRONG_JOINT})|(?:{_WEAK_JOINT})", re.IGNORECASE)
_TAIL_OF_SECOND = re.compile(r"\s*\Z|[ \t]*[\r\n.,;:!?…)]|\s+(?:and|or|are|both)\b", re.IGNORECASE)

# "A... no, C" and "A. Wait, that's wrong.": the first kind of word takes the answer back by itself,
# the second only together with another label.
_SOFTENER = r"(?:(?:but|hm+|oh|ah|oops)\b[\s,.…!]{0,4}){0,2}"
_WRONG = r"(?:that|this|it)(?:'s|\s+is)\s+(?:wrong|incorrect|not\s+right|not\s+correct)"
_RETRACTION = re.compile(
    rf"[\s.,;:!?…*)\"'–—-]{{0,12}}{_SOFTENER}"
    rf"(?:(?P<hard>no(?=\s*[,.!:;…–—-])|wait|hold\s+on|scratch\s+that|correction|{_WRONG}"
    r"|i\s+take\s+that\s+back)|actually|sorry|i\s+mean|or\s+rather)\b",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    rf"(?:[\s,.:;!…–—-]|{_WRONG}|no\b|wait\b|actually\b|sorry\b|i\s+mean\b|make\s+(?:it|that)\b"
    r"|(?:it|that)(?:'s|\s+is|\s+should\s+be|\s+must\s+be)|should\s+be\b"
    r"|the\s+(?:\w+\s+)?answer\s+(?:is|should\s+be)\b){0,24}",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class AnswerOptions:
    """One question's labels and choices.

    ``places`` maps a label as written to its place, ``any_case`` a case-folded one; ``any_case`` is
    empty where labels differ in case alone. The choices of most questions are new and most replies
    name a label, so a choice's words are looked at as late as possible, and its first word before all.
    """

    places: dict[str, int]
    any_case: dict[str, int]
    lead: re.Pattern[str]
    choices: tuple[str, ...]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The choices without case, punctuation and articles."""
        return tuple(map(key_of, self.choices))

    @cached_property
    def first_words(self) -> tuple[str, ...]:
        """The first word of each of ``keys``, at a fraction of the cost."""
        return tuple(map(first_word, self.choices))

    @cached_property
    def window(self) -> int:
        """How many characters are enough to see whether they begin with a choice."""
        return 400 + 2 * max(map(len, self.choices), default=0)

    # ---------------------------------------------------------------------------------- labels

    def label_at(self, text: str, pos: int, *, is_start: bool = False) -> Reading:
        """The label at ``pos``, after markup and filler words.

        ``is_start`` is for the start of a reply, where prose and numbered lists begin as well: a label
        then needs more evidence.
        """
        lead = self.lead.match(text, pos)
        index = self._place(lead["label"]) if lead else None
        if lead is None or index is None:
            return NO_ANSWER
        return _LabelAt(self, text, lead.span("label"), index, is_start).judge()

    def whole_label(self, text: str) -> Reading:
        """The label that is all of ``text``, apart from markup."""
        lead = self.lead.match(text)
        index = self._place(lead["label"]) if lead else None
        if lead is None or index is None:
            return NO_ANSWER
        after = _CLOSE.match(text, lead.end("label"))
        end = after.end() if after else lead.end("label")
        return self._reading(index, lead.span("label")) if is_blank(text[end:]) else NO_ANSWER

    def _place(self, label: str) -> int | None:
        written = " ".join(label.split())
        return self.places.get(written, self.any_case.get(written.casefold()))

    def is_exact(self, label: str) -> bool:
        """True if ``label`` is written in the case in which it was shown."""
        return " ".join(label.split()) in self.places

    @staticmethod
    def _reading(index: int, span: tuple[int, int]) -> Reading:
        return Reading(index, span=span)

    # ---------------------------------------------------------------------------------- texts

    def whole_text(self, text: str) -> Reading:
        """The choice whose text is all of ``text``, as written, else without case and signs."""
        stripped = text.strip()
        start = text.find(stripped)
        span = (start, start + len(stripped))
        same = [i for i, choice in enumerate(self.choices) if choice.strip() == stripped]
        if not same and stripped:
            near = self._near(stripped) if len(stripped) <= self.window else ()
            same = [i for i in near if self._has_key(i, key_of(stripped))]
        return only(same, span)

    def text_at(self, text: str, pos: int) -> Reading:
        """The choice whose text is at ``pos`` and fills the clause; the longest, if several."""
        at_pos = self.texts_at(text, pos).items()
        ended = {i: span for i, span in at_pos if _ends_clause(text, span[1])}
        sizes = {i: len(key_of(self.choices[i])) for i in ended}
        best = [i for i, size in sizes.items() if size == max(sizes.values())]
        return only(best, ended[best[0]]) if best else NO_ANSWER

    def texts_at(self, text: str, pos: int) -> dict[int, tuple[int, int]]:
        """The choices whose texts are at ``pos``, with the span of each text."""
        here = text[pos : pos + self.window]
        starts = {i: words(here).starts_with(key_of(self.choices[i])) for i in self._near(here)}
        return {i: (pos + span[0], pos + span[1]) for i, span in starts.items() if span}

    def _near(self, text: str) -> list[int]:
        """The choices with the first word of ``text``: no other is the text, or begins it."""
        word = first_word(text)
        return [i for i, first in enumerate(self.first_words) if first == word]

    def _has_key(self, index: int, key: str) -> bool:
        return bool(key) and index < len(self.choices) and key_of(self.choices[index]) == key

    def mentions(self, text: str) -> dict[int, list[tuple[int, int]]]:
        """Where each choice's text occurs as whole words; not inside a longer choice's text."""
        if not (may_mention(text, self.first_words) and may_mention(text, self.keys)):
            return {}
        return mentions(words(text), self.keys)

    # ---------------------------------------------------------------------------------- both

    def at(self, text: str, pos: int) -> Reading:
        """The label or the choice text at ``pos``; a text that begins with a label is a text."""
        label, choice = self.label_at(text, pos), self._text_not_withdrawn(text, pos)
        if choice.is_answer and (not label.is_settled or _covers(choice, label)):
            return choice
        return label if label.is_settled else choice

    def _text_not_withdrawn(self, text: str, pos: int) -> Reading:
        reading = self.text_at(text, pos)
        if reading.span is None:
            return reading
        return self.correction_at(text, reading.span[1]) or reading

    def correction_at(self, text: str, pos: int) -> Reading | None:
        """What replaces the answer that ended at ``pos``, as in ``A... no, C``; None if nothing does.

        Ambiguous if the answer is withdrawn and nothing takes its place.
        """
        taken_back = _RETRACTION.match(text, pos)
        bridge = _CORRECTION.match(text, taken_back.end()) if taken_back else None
        if taken_back is None or bridge is None:
            return None
        lead = self.lead.match(text, bridge.end())
        index = self._place(lead["label"]) if lead else None
        if lead and index is not None and _TAIL_OF_SECOND.match(text, lead.end("label")):
            return self._reading(index, lead.span("label"))
        choice = self.text_at(text, bridge.end())
        if choice.is_answer:
            return choice
        return AMBIGUOUS if taken_back["hard"] else None

    def whole(self, text: str) -> Reading:
        """The choice that ``text`` is: a label, a text, or a label with its own text."""
        for reading in (self.whole_label(text), self.whole_text(text)):
            if reading.is_settled:
                return reading
        label = self.label_at(text, 0, is_start=True)
        if not label.is_answer or label.span is None:
            return label
        rest = _CLOSE.sub("", text[label.span[1] :], count=1)
        is_own = len(rest) <= self.window and self._has_key(label.value, key_of(rest))
        return label if is_own else NO_ANSWER


@dataclass(frozen=True)
class _LabelAt:
    """A label found at a place, and what the words behind it say about it."""

    options: AnswerOptions
    text: str
    span: tuple[int, int]
    place: int
    is_start: bool

    def judge(self) -> Reading:
        """The label as an answer; ambiguous if contradicted; nothing if it was only prose."""
        if self._is_price():
            return NO_ANSWER
        if self._other_label_follows() or self._other_text_follows():
            return AMBIGUOUS
        end = self._own_end()
        if _IS_DENIED.match(self.text, end):
            return NO_ANSWER
        corrected = self.options.correction_at(self.text, end)
        if corrected is not None:
            return corrected
        return self._reading if self._own_text or self._reads_on() else NO_ANSWER

    @property
    def _reading(self) -> Reading:
        return Reading(self.place, span=self.span)

    @property
    def _label(self) -> str:
        return self.text[slice(*self.span)]

    @cached_property
    def _closed(self) -> int:
        closing = _CLOSE.match(self.text, self.span[1])
        return closing.end() if closing else self.span[1]

    def _is_price(self) -> bool:
        """True for the 2 of ``$2``; ``$2$`` is a label in LaTeX."""
        start, end = self.span
        dollar = self.text[start - 1 : start] == "$"
        return self._label.isdigit() and dollar and "$" not in self.text[end : self._closed]

    def _is_wrapped(self) -> bool:
        """True if brackets or emphasis close behind the label, as in ``C)`` and ``**C**``."""
        closing = self.text[self.span[1] : self._closed]
        before = self.text[max(self.span[0] - 1, 0) : self.span[0]]
        return bool(closing) and (closing[0] in ")]}\\<" or closing[0] == before)

    def _reads_on(self) -> bool:
        """True if what follows can follow an answer; ``A good question`` cannot."""
        is_enumerator = self._label.isdigit() or self._label in ("I", "i")
        if self.is_start and is_enumerator:
            return bool(_LINE_ENDS.match(self.text, self._closed))
        if self._is_wrapped():
            return True
        if self._label in ("I", "i"):
            return bool(_TAIL_OF_I.match(self.text, self._closed))
        if _TAIL.match(self.text, self._closed):
            return True
        can_be_word = (
            is_enumerator or self._label in ("A", "a") or not self.options.is_exact(self._label)
        )
        opens_sentence = bool(_NEW_SENTENCE.match(self.text, self._closed))
        return opens_sentence and not self.is_start and not can_be_word

    @cached_property
    def _own_text(self) -> tuple[int, int] | None:
        """The span of the label's own text, if that follows."""
        return self.options.texts_at(self.text, self._closed).get(self.place)

    def _own_end(self) -> int:
        """Where the label's own text ends, or where it would begin."""
        return self._own_text[1] if self._own_text else self._closed

    def _other_text_follows(self) -> bool:
        """True for ``C. London`` where London is another choice's text."""
        reading = self.options.text_at(self.text, self._closed)
        if not reading.is_answer or reading.span is None or reading.value == self.place:
            return False
        is_longer = reading.span[1] > self._own_end()
        return is_longer and "\n" not in self.text[self._closed : reading.span[0]]

    def _other_label_follows(self) -> bool:
        """True for ``A or B``, ``A, B`` and ``A/B``."""
        joint = _JOINT.match(self.text, self._closed)
        lead = self.options.lead.match(self.text, joint.end()) if joint else None
        if joint is None or lead is None or self._own_text:
            return False
        other = lead["label"]
        is_same_case = self.options.is_exact(other) == self.options.is_exact(self._label)
        if not is_same_case or self.options._place(other) in (None, self.place):
            return False
        if "\n" in joint[0]:  # a label on the next line is a second answer only if it is all of it
            return bool(_LINE_ENDS.match(self.text, lead.end("label")))
        is_plain = joint["strong"] is not None and other not in ("A", "a", "I", "i")
        return is_plain or bool(_TAIL_OF_SECOND.match(self.text, lead.end("label")))


def only(places: Iterable[int], span: tuple[int, int]) -> Reading:
    """The one place there is; ambiguous if there are several, nothing if there is none."""
    distinct = set(places)
    if len(distinct) > 1:
        return AMBIGUOUS
    return Reading(distinct.pop(), span=span) if distinct else NO_ANSWER


def mentions(text: PlainWords, keys: Sequence[str]) -> dict[int, list[tuple[int, int]]]:
    """Where each of ``keys`` occurs in ``text``; a key inside a longer one does not count."""
    taken = bytearray(len(text.line))
    occurrences: dict[int, list[tuple[int, int]]] = {}
    by_length = sorted(range(len(keys)), key=lambda i: -len(keys[i]))
    for key in dict.fromkeys(keys[i] for i in by_length):
        free = [occurrence for occurrence in text.find_all(key) if not taken[occurrence[0] + 1]]
        for start, end in free:
            taken[start + 1 : end] = b"\1" * (end - start - 1)
        for i in (i for i in by_length if keys[i] == key and free):
            occurrences[i] = [text.span_of(occurrence) for occurrence in free]
    return occurrences


def is_blank(text: str) -> bool:
    """True if ``text`` holds nothing but white space and closing punctuation."""
    return not text.strip(" \t\r\n\f\v.,;:!…*_`\"'$)]}")


def _ends_clause(text: str, pos: int) -> bool:
    closed = _CLOSE.match(text, pos)
    return bool(_TAIL.match(text, closed.end() if closed else pos))


def _covers(choice: Reading, label: Reading) -> bool:
    if choice.span is None or label.span is None:
        return False
    return choice.span[0] <= label.span[0] and choice.span[1] > label.span[1]


# ------------------------------------------------------------------------------------ compiling


def options_of(labels: Sequence[str], choices: Sequence[str]) -> AnswerOptions:
    """The compiled labels and choices; the same question is compiled once."""
    return _compile(tuple(map(str, labels)), tuple(map(str, choices)))


@lru_cache(maxsize=4096)
def _compile(labels: tuple[str, ...], choices: tuple[str, ...]) -> AnswerOptions:
    return AnswerOptions(*_compile_labels(labels), choices)


@lru_cache(maxsize=1024)
def _compile_labels(
    labels: tuple[str, ...],
) -> tuple[dict[str, int], dict[str, int], re.Pattern[str]]:
    """``places``, ``any_case`` and ``lead``: the part that the questions of a task share."""
    cores = _cores(labels)
    places = {core: i for i, core in _unique(cores)}
    any_case = {core: i for i, core in _unique([core.casefold() for core in cores])}
    is_same_size = len(any_case) == len(places)
    lead = _lead_pattern(tuple(sorted(places, key=len, reverse=True)))
    return places, any_case if is_same_size else {}, lead


def _cores(labels: Sequence[str]) -> list[str]:
    """Labels without their brackets, ``(a)`` → ``a``, unless two would become the same."""
    full = [" ".join(fold(label).split()) for label in labels]
    bare = [label.strip("()[]{}<>").rstrip(".:)") for label in full]
    return bare if all(bare) and len(set(bare)) == len(set(full)) else full


def _unique(cores: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Labels that occur once, with their index; a label shown twice names nothing."""
    for i, core in enumerate(cores):
        if core and cores.count(core) == 1:
            yield i, core


@lru_cache(maxsize=1024)
def _lead_pattern(cores: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for one of ``cores`` as a whole token, behind markup and filler words."""
    if not cores:
        return re.compile(r"(?!)(?P<label>)")
    return re.compile(rf"{_LEAD}(?P<label>{'|'.join(map(token, cores))})", re.IGNORECASE)


def token(core: str) -> str:
    """A pattern source for ``core`` as a whole token: no ``1`` in ``10``, no ``I`` in ``II``."""
    source = r"\s+".join(map(re.escape, core.split()))
    before = _TOKEN_START if core[0].isalnum() else ""
    after = _TOKEN_END if core[-1].isalnum() else ""
    if core.isdigit():
        before, after = before + _NUMBER_START, after + _NUMBER_END
    return f"{before}{source}{after}"
