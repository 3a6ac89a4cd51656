"""The labels and choice texts of one question, compiled to be matched at a position in a reply.

Two questions about a position: is there a label, is there a choice's text? ``claims`` decides what the
words around it mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading
from lm_eval.formats.readers.text import PlainWords, fold, key_of, words

Span = tuple[int, int]

EMOJI = (
    "(?![❌✗✘✖🚫🔴❎⛔])[\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\ufe0f\u200d\u20e3"
    "\U0001f000-\U0001faff]"
)
# What may surround a label: emphasis, quotes, brackets, LaTeX and HTML wrappers.
_OPEN = re.compile(
    r"(?:\s|\\(?:boxed|fbox|text(?:bf|it|rm)?|math(?:rm|bf|it|sf))\s?\{|\\[(\[]"
    r"|<(?:/?(?:[a-z][a-z_]{1,15}|(?-i:[bipsuq]))|\|\w{1,20}\|)>"
    rf"|[*_`\"'$(\[{{:=~#>,|…<-]|[–—]|\.{{2,6}}|{EMOJI}){{0,60}}",
    re.IGNORECASE,
)
_CLOSE = re.compile(r"(?:[*_`\"'$)\]}>]|\\[)\]]|</\w{1,12}>|<\|\w{1,20}\|>|[\ufe0f\u20e3]){0,12}")
# A label ends its token: not the C of C++, C#, C-4 or C's, not the 1 of 1.5, the A of A.I. or A=5.
_TOKEN_START = r"(?<![A-Za-z0-9\u00c0-\u1fff\\])"
_TOKEN_END = (
    r"(?![A-Za-z0-9\u00c0-\u05ff\u0700-\u08ff\u0980-\u1fff+#%°^=@]|\\(?![)\]])|[-'_]\w|\.\d|\.\w\b"
    r"|\s?[+*×÷^<]\s?\d|\s?=\s?[\w\\$]|\(\w)"
)
_NUMBER_START = r"(?<![\d][.,:/])(?<!-)"
_NUMBER_END = r"(?![,:/]\d)"
_MAX_SPELLED = 64  # labels in one pattern; the look-up of a token does not slow down with more


class Name(NamedTuple):
    """A choice that a reply names: its index, the span of its name, and where what follows begins.

    ``choice`` is ``SEVERAL`` if two or more are named at once.
    """

    choice: int
    span: Span
    end: int
    is_text: bool = False


SEVERAL = -1


@dataclass(frozen=True, eq=False)
class AnswerOptions:
    """One question's labels and choices.

    ``by_label`` maps a label as written to its index, ``any_case`` a case-folded one; ``any_case`` is
    empty if labels differ only in case.
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
    def window(self) -> int:
        """How many characters are enough to see whether a text begins with a choice."""
        return 400 + 2 * max(map(len, self.choices), default=0)

    @property
    def count(self) -> int:
        return max(len(self.choices), len(self.by_label))

    def index_of(self, label: str) -> int | None:
        """The index of a label as written, else in any case."""
        written = " ".join(label.split())
        index = self.by_label.get(written)
        return self.any_case.get(written.casefold()) if index is None else index

    def is_exact(self, label: str) -> bool:
        """True if ``label`` is in the case in which it was shown."""
        return " ".join(label.split()) in self.by_label

    def label_at(self, text: str, pos: int) -> Name | None:
        """The label that begins exactly at ``pos``."""
        match = self.label.match(text, pos)
        index = self.index_of(match.group()) if match else None
        if match is None or index is None:
            return None
        return Name(index, match.span(), closed(text, match.end()))

    def texts_at(self, text: str, pos: int) -> dict[int, Span]:
        """The choices whose texts are at ``pos``, with the span of each text."""
        if not self.choices:
            return {}
        here = words(text[pos : pos + self.window])
        starts = {i: here.starts_with(key) for i, key in enumerate(self.keys)}
        return {i: (pos + span[0], pos + span[1]) for i, span in starts.items() if span}

    def whole_text(self, text: str) -> Reading:
        """The choice whose text is all of ``text``: exactly, else without case and punctuation."""
        stripped = text.strip()
        if not stripped or len(stripped) > self.window:
            return NO_ANSWER
        same = [i for i, choice in enumerate(self.choices) if choice.strip() == stripped]
        if not same:
            key = key_of(stripped)
            same = [i for i, known in enumerate(self.keys) if key and known == key]
        if len(same) != 1:
            return AMBIGUOUS if same else NO_ANSWER
        start = text.find(stripped)
        return Reading(same[0], span=(start, start + len(stripped)))

    def text_mentions(self, text: str) -> dict[int, list[Span]]:
        """Where each choice's text occurs as whole words; not inside a longer choice's text."""
        return _mentions(words(text), self.keys)


def opened(text: str, pos: int) -> int:
    """Where the markup that begins at ``pos`` ends."""
    match = _OPEN.match(text, pos)
    return match.end() if match else pos


def closed(text: str, pos: int) -> int:
    """Where the markup that closes at ``pos`` ends."""
    match = _CLOSE.match(text, pos)
    return match.end() if match else pos


def _mentions(text: PlainWords, keys: Sequence[str]) -> dict[int, list[Span]]:
    """Where each of ``keys`` occurs in ``text``; a key inside a longer one does not count."""
    taken = bytearray(len(text.line))
    occurrences: dict[int, list[Span]] = {}
    positions: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        if key:
            positions.setdefault(key, []).append(i)
    for key in sorted(positions, key=len, reverse=True):
        free = [occurrence for occurrence in text.find_all(key) if not taken[occurrence[0] + 1]]
        for start, end in free:
            taken[start + 1 : end] = b"\1" * (end - start - 1)
        for i in positions[key] if free else ():
            occurrences[i] = [text.span_of(occurrence) for occurrence in free]
    return occurrences


# ------------------------------------------------------------------------------------ compiling


def options_of(labels: Sequence[str], choices: Sequence[str]) -> AnswerOptions:
    """The compiled labels and choices; the same question is compiled once."""
    return _compile(tuple(map(str, labels)), tuple(map(str, choices)))


@lru_cache(maxsize=512)
def _compile(labels: tuple[str, ...], choices: tuple[str, ...]) -> AnswerOptions:
    cores = _cores(labels)
    by_label = dict(_unique(cores))
    any_case = dict(_unique([core.casefold() for core in cores]))
    is_same_size = len(any_case) == len(by_label)
    pattern = label_pattern(tuple(by_label))
    return AnswerOptions(by_label, any_case if is_same_size else {}, pattern, choices)


def _cores(labels: Sequence[str]) -> list[str]:
    """Labels without their brackets, ``(a)`` → ``a``, unless two would become the same."""
    full = [" ".join(fold(label).split()) for label in labels]
    bare = [label.strip("()[]{}<>").rstrip(".:)") for label in full]
    return bare if all(bare) and len(set(bare)) == len(set(full)) else full


def _unique(cores: Sequence[str]) -> Iterable[tuple[str, int]]:
    """Labels that occur once, with their index; a label shown twice names nothing."""
    return ((core, i) for i, core in enumerate(cores) if core and cores.count(core) == 1)


@lru_cache(maxsize=1024)
def label_pattern(cores: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for one of ``cores`` as a whole token, in any case.

    For very many labels it finds any token of their shape; a look-up then decides whether it is one.
    """
    if not cores:
        return re.compile(r"(?!)")
    if len(cores) > _MAX_SPELLED and all(core.isalnum() for core in cores):
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


def labels_in(options: AnswerOptions, text: str, start: int, end: int) -> Iterator[Name]:
    """The labels between two positions, in the case in which they were shown."""
    for match in options.label.finditer(text, start, end):
        index = options.index_of(match.group())
        if index is not None and options.is_exact(match.group()):
            yield Name(index, match.span(), closed(text, match.end()))
