"""The labels and choice texts of one question, compiled to be matched at a position in a reply.

Every choice reader asks two questions about a position: is there a label, is there a choice's text?
``claims`` decides what the words around it mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from string import ascii_letters
from typing import NamedTuple

from lm_eval.formats.readers.language import EMOJI, vocabulary_of
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading
from lm_eval.formats.readers.text import (
    PLACEHOLDER,
    PlainWords,
    first_word,
    fold,
    key_of,
    lowered,
    words,
)
from lm_eval.formats.readers.wording import KEY

Span = tuple[int, int]

# What may surround a label: emphasis, quotes, brackets, LaTeX and HTML wrappers.
_OPEN = re.compile(
    r"(?:\s|\\(?:boxed|fbox|text(?:bf|it|rm)?|math(?:rm|bf|it|sf))\s?\{|\\[(\[]"
    r"|<(?:/?[a-z][a-z_]{0,15}|\|\w{1,20}\|)>"
    rf"|[*_`\"'$(\[{{:=~#>,|…<-]|[–—]|\.{{2,6}}|&|{EMOJI}){{0,60}}",
    re.IGNORECASE,
)
_CLOSE = re.compile(r"(?:[*_`\"'$)\]}>]|\\[)\]]|</\w{1,12}>|<\|\w{1,20}\|>|[\ufe0f\u20e3]){0,12}")
# A label ends its token: not the C of C++, C#, C-4 or C's, not the 1 of 1.5, the A of A.I. or A=5.
_TOKEN_START = r"(?<![A-Za-z0-9\u00c0-\u1fff\\])"
_TOKEN_END = (
    r"(?![A-Za-z0-9\u00c0-\u05ff\u0700-\u08ff\u0980-\u1fff+#%°^=@]|\\(?![)\]])|[-'_]\w|\.\d|\.\w\b"
    r"|\s?[+*×÷=^<]\s?\d)"
)
_NUMBER_START = r"(?<![\d][.,:/])(?<!-)"
_NUMBER_END = r"(?![,:/]\d)"
_ARTICLE = re.compile(
    r"(?:[aoe]|la|el|il|le|die|der|das|the)\s+(?=[(\[*\"'`]{0,3}[A-Z0-9]{1,2}\b(?!'))"
)
_MOST_SPELLED = 64  # labels in one pattern; the look-up of a token does not slow down with more
_LEAD_WORDS = 12
_REMEMBERED = 2000  # characters: nothing about longer texts is kept in memory
_LETTERS = frozenset(ascii_letters)


class Mention(NamedTuple):
    """A choice that a reply names: its index, the span of its name, and where what follows begins."""

    choice: int
    span: Span
    end: int
    is_text: bool = False


@dataclass(frozen=True, eq=False)
class AnswerOptions:
    """One question's labels and choices.

    ``by_label`` maps a label as written to its index, ``any_case`` a case-folded one; ``any_case`` is
    empty if labels differ only in case. The choices of most questions are new and most replies name a
    label, so the words of a choice are examined as late as possible, and its first word first.
    """

    by_label: dict[str, int]
    any_case: dict[str, int]
    label: re.Pattern[str]
    choices: tuple[str, ...]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The choices without case, punctuation and articles."""
        return tuple(map(key_of, self.choices))

    @cached_property
    def by_first_word(self) -> dict[str, list[int]]:
        """First word of a choice → the choices that begin with it."""
        return _positions(map(first_word, self.choices))

    @cached_property
    def text_keys(self) -> frozenset[str] | None:
        """The keys of the first words; None if one of them has no key, like a number."""
        firsts = list(self.by_first_word)
        if not all(first.isascii() and first.isalpha() for first in firsts):
            return None
        return frozenset(first[:KEY] for first in firsts)

    @cached_property
    def by_text(self) -> dict[str, list[int]]:
        """Stripped text of a choice → the choices with this text."""
        return _positions(map(str.strip, self.choices))

    @cached_property
    def last_letters(self) -> frozenset[str]:
        """The last characters of the labels, in lower case."""
        return frozenset(label[-1] for label in (*map(lowered, self.by_label), *self.any_case))

    @cached_property
    def window(self) -> int:
        """How many characters are enough to see whether a text begins with a choice."""
        return 400 + 2 * max(map(len, self.choices), default=0)

    def __contains__(self, name: object) -> bool:
        """True if ``name``, in lower case, is a label or a choice."""
        return name in self.any_case or name in self.keys

    @property
    def count(self) -> int:
        return max(len(self.choices), len(self.by_label))

    # ---------------------------------------------------------------------------------- labels

    def index_of(self, label: str) -> int | None:
        """The index of a label as written, else in any case."""
        written = label if label in self.by_label else " ".join(label.split())
        index = self.by_label.get(written)
        return self.any_case.get(written.casefold()) if index is None else index

    def is_exact(self, label: str) -> bool:
        """True if ``label`` is in the case in which it was shown."""
        return label in self.by_label or " ".join(label.split()) in self.by_label

    def holds_label(self, text: str) -> bool:
        """False if there is no label anywhere in ``text``; the last short text is remembered."""
        if len(text) > _REMEMBERED:
            return True
        last: tuple[str, bool] | None = self.__dict__.get("_last")
        if last is None or last[0] is not text:
            last = (text, self.label.search(text) is not None)
            self.__dict__["_last"] = last
        return last[1]

    def label_here(self, text: str, pos: int) -> Mention | None:
        """The label that begins exactly at ``pos``."""
        match = self.label.match(text, pos)
        index = self.index_of(match.group()) if match else None
        if match is None or index is None:
            return None
        return Mention(index, match.span(), closed(text, match.end()))

    def is_named_at(self, text: str, pos: int) -> bool:
        """True if a label or a choice's text is exactly at ``pos``, and no list goes on behind it."""
        label = self.label_here(text, pos)
        if label is not None:
            return not text[label.end : label.end + 9].startswith((",", " or"))
        return any(span[0] == pos for span in self.texts_at(text, pos).values())

    def label_at(self, text: str, low: str, pos: int) -> Mention | None:
        """The label at ``pos``, after markup, a repeated placeholder and adverbs."""
        if not self.holds_label(text):
            return None
        adverb = None
        may_repeat = "[" in text or "_" in text or "<" in text or "(" in text
        for _ in range(_LEAD_WORDS):
            placeholder = PLACEHOLDER.match(text, pos) if may_repeat else None
            pos = opened(text, placeholder.end() if placeholder else pos)
            article = _ARTICLE.match(text, pos) if text[pos : pos + 1].islower() else None
            pos = opened(text, article.end()) if article else pos
            label = self.label_here(text, pos)
            if label is None and text[pos - 1 : pos] == "-":  # a label like -1
                label = self.label_here(text, pos - 1)
            if label is not None and not (
                text[pos].islower() and self._is_article(text, low, label)
            ):
                return label
            adverb = adverb or vocabulary_of(low).adverb
            step = adverb.match(low, pos if label is None else opened(text, label.end))
            if step is None:
                return label
            pos = step.end()
        return None

    def _is_article(self, text: str, low: str, label: Mention) -> bool:
        """True for the first ``a`` of ``é a letra C``: a word comes between it and the label."""
        at = label.span[1]
        if not text[at : at + 1].isspace():
            return False
        word = vocabulary_of(low).adverb.match(low, opened(text, at))
        return word is not None and self.label_here(text, opened(text, word.end())) is not None

    def ordinal_at(self, text: str, low: str, pos: int) -> Mention | None:
        """The choice counted at ``pos``: "the third option", "option 3"."""
        vocabulary = vocabulary_of(low)
        match = vocabulary.ordinal.match(low, pos)
        if match is None or (match["word"] and not match["noun"]):
            return None
        number = vocabulary.ordinal_number(match["later"] or match["word"])
        index = self.count - 1 if number is None else number - 1
        is_there = 0 <= index < self.count
        return Mention(index, match.span(), closed(text, match.end())) if is_there else None

    # ---------------------------------------------------------------------------------- texts

    def whole_text(self, text: str) -> Reading:
        """The choice whose text is all of ``text``: exactly, else without case and punctuation."""
        stripped = text.strip()
        if not stripped:
            return NO_ANSWER
        start = text.find(stripped)
        same = self.by_text.get(stripped)
        if same is None and len(stripped) <= self.window:
            near = self.by_first_word.get(first_word(stripped), ())
            key = key_of(stripped) if near else ""
            same = [i for i in near if key and self.keys[i] == key]
        return only(same or (), (start, start + len(stripped)))

    def texts_at(self, text: str, pos: int) -> dict[int, Span]:
        """The choices whose texts are at ``pos``, with the span of each text."""
        if not self.choices:
            return {}
        near = self.by_first_word.get(first_word(text[pos : pos + 400]), ())
        if not near:
            return {}
        reach = 400 + 2 * max(len(self.choices[i]) for i in near)
        here = words(text[pos : pos + reach])
        starts = {i: here.starts_with(self.keys[i]) for i in near}
        return {i: (pos + span[0], pos + span[1]) for i, span in starts.items() if span}

    def text_mentions(self, text: str) -> dict[int, list[Span]]:
        """Where each choice's text occurs as whole words; not inside a longer choice's text."""
        low = lowered(text) if text.isascii() else fold(text).casefold()
        if not any(first and first in low for first in self._first_parts):
            return {}
        return mentions(words(text), self.keys)

    @cached_property
    def _first_parts(self) -> tuple[str, ...]:
        """For each choice, a part that any text that mentions it contains; digits may be grouped."""
        return tuple(
            first[:1] if first.isdigit() else first for first in self.by_first_word if first
        )


def _positions(names: Iterable[str]) -> dict[str, list[int]]:
    """Name → where it occurs in ``names``."""
    positions: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        positions.setdefault(name, []).append(i)
    return positions


def opened(text: str, pos: int) -> int:
    """Where the markup that begins at ``pos`` ends."""
    if text[pos : pos + 1] in _LETTERS:  # no markup begins with a letter
        return pos
    match = _OPEN.match(text, pos)
    return match.end() if match else pos


def closed(text: str, pos: int) -> int:
    """Where the markup that closes at ``pos`` ends."""
    match = _CLOSE.match(text, pos)
    return match.end() if match else pos


def only(indices: Iterable[int], span: Span) -> Reading:
    """The only index there is; ambiguous if there are several, nothing if there is none."""
    distinct = set(indices)
    if len(distinct) > 1:
        return AMBIGUOUS
    return Reading(distinct.pop(), span=span) if distinct else NO_ANSWER


def mentions(text: PlainWords, keys: Sequence[str]) -> dict[int, list[Span]]:
    """Where each of ``keys`` occurs in ``text``; a key inside a longer one does not count."""
    present = set(text.line.split())
    taken = bytearray(len(text.line))
    occurrences: dict[int, list[Span]] = {}
    positions: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        if key and len(key) < len(text.line) and key.split(" ", 1)[0] in present:
            positions.setdefault(key, []).append(i)
    for key in sorted(positions, key=len, reverse=True):
        free = [occurrence for occurrence in text.find_all(key) if not taken[occurrence[0] + 1]]
        for start, end in free:
            taken[start + 1 : end] = b"\1" * (end - start - 1)
        for i in positions[key] if free else ():
            occurrences[i] = [text.span_of(occurrence) for occurrence in free]
    return occurrences


# ------------------------------------------------------------------------------------ compiling

_KEPT_UP_TO = 20_000  # characters of choices; longer ones are not kept in memory


def options_of(labels: Sequence[str], choices: Sequence[str]) -> AnswerOptions:
    """The compiled labels and choices; the same question is compiled once."""
    fixed = tuple(map(str, labels)), tuple(map(str, choices))
    if sum(map(len, fixed[1])) > _KEPT_UP_TO:
        return AnswerOptions(*_compile_labels(fixed[0]), fixed[1])
    return _compile(*fixed)


@lru_cache(maxsize=4096)
def _compile(labels: tuple[str, ...], choices: tuple[str, ...]) -> AnswerOptions:
    return AnswerOptions(*_compile_labels(labels), choices)


@lru_cache(maxsize=1024)
def _compile_labels(
    labels: tuple[str, ...],
) -> tuple[dict[str, int], dict[str, int], re.Pattern[str]]:
    """``by_label``, ``any_case`` and ``label``: the part that the questions of a task share."""
    cores = _cores(labels)
    by_label = dict(_unique(cores))
    any_case = dict(_unique([core.casefold() for core in cores]))
    is_same_size = len(any_case) == len(by_label)
    return by_label, any_case if is_same_size else {}, label_pattern(tuple(by_label))


def _cores(labels: Sequence[str]) -> list[str]:
    """Labels without their brackets, ``(a)`` → ``a``, unless two would become the same."""
    full = [" ".join(fold(label).split()) for label in labels]
    bare = [label.strip("()[]{}<>").rstrip(".:)") for label in full]
    return bare if all(bare) and len(set(bare)) == len(set(full)) else full


def _unique(cores: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Labels that occur once, with their index; a label shown twice names nothing."""
    counts: dict[str, int] = {}
    for core in cores:
        counts[core] = counts.get(core, 0) + 1
    return ((core, i) for i, core in enumerate(cores) if core and counts[core] == 1)


@lru_cache(maxsize=1024)
def label_pattern(cores: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for one of ``cores`` as a whole token, in any case.

    For very many labels it finds any token of their shape; a look-up then decides whether it is one.
    """
    if not cores:
        return re.compile(r"(?!)")
    if all(len(core) == 1 and core.isalpha() for core in cores):
        return re.compile(
            rf"{_TOKEN_START}[{''.join(map(re.escape, cores))}]{_TOKEN_END}", re.IGNORECASE
        )
    if len(cores) > _MOST_SPELLED and all(core.isalnum() for core in cores):
        longest = max(map(len, cores))
        return re.compile(
            rf"{_TOKEN_START}{_NUMBER_START}[^\W_]{{1,{longest}}}{_TOKEN_END}{_NUMBER_END}"
        )
    longest_first = sorted(cores, key=len, reverse=True)
    return re.compile("|".join(map(token, longest_first)), re.IGNORECASE)


def token(core: str) -> str:
    """A pattern source for ``core`` as a whole token: no ``1`` in ``10``, no ``I`` in ``II``."""
    source = r"\s+".join(map(re.escape, core.split()))
    before = _TOKEN_START if core[0].isalnum() else ""
    after = _TOKEN_END if core[-1].isalnum() else ""
    if core.isdigit():
        before, after = before + _NUMBER_START, after + _NUMBER_END
    return f"{before}{source}{after}"
