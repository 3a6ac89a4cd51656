"""Text as readers see it: folded to plain characters of equal length, as words, and cut at phrases."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

_PLAIN = {
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("“”„‟″«»「」『』", '"'),
    **dict.fromkeys("−﹣‐‑", "-"),
    "。": ".",
    "、": ",",
    "【": "[",
    "】": "]",
    "《": "<",
    "》": ">",
    "〈": "<",
    "〉": ">",
    "।": ".",
    "،": ",",
    "؛": ";",
    "؟": "?",
    **dict.fromkeys(
        "\ufe0e\ufe0f\u20dd\u20de\u20e3\u200d", " "
    ),  # what makes a sign an emoji or a key
    # Invisible marks surround answers in right-to-left and copied text.
    **dict.fromkeys("\u200b\u200e\u200f\u2060\ufeff", " "),
    **dict.fromkeys("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", " "),
}
# Superscripts and fractions are left out: 10² is not 102.
_PLAIN |= {  # letters in circles and squares, and those of flags
    chr(base + i): chr(65 + i)
    for base in (0x1F110, 0x1F130, 0x1F150, 0x1F170, 0x1F1E6)
    for i in range(26)
}
_FOLDED_KINDS = ("<wide>", "<narrow>", "<font>", "<circle>", "<compat>", "<noBreak>")


class _Folding(dict[int, str]):
    """Code point → its plain equivalent, filled as characters occur."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = _PLAIN.get(char) or _compatible(char)
        self[code] = folded
        return folded


def _compatible(char: str) -> str:
    if not unicodedata.decomposition(char).startswith(_FOLDED_KINDS):
        return char
    folded = unicodedata.normalize("NFKC", char)
    return folded if len(folded) == 1 else char


_FOLDING = _Folding()


_ENTITY = re.compile(
    r"&(?:(?P<name>nbsp|quot|apos|lt|gt|amp|lpar|rpar|ldquo|rdquo|lsquo|rsquo|ensp|emsp|thinsp)"
    r"|#(?P<number>\d{1,6})|#x(?P<hex>[0-9a-f]{1,5}));",
    re.IGNORECASE,
)


def fold(text: str) -> str:
    """``text`` with full-width, styled and typographic characters made plain, of equal length.

    HTML entities become the character they name, padded with spaces on the side where no tag begins.
    """
    if "&" in text and ";" in text:
        text = _ENTITY.sub(_unescaped, text)
    return text if text.isascii() else _folded(text)


def _unescaped(entity: re.Match[str]) -> str:
    import html  # few replies need its table of names

    char = html.unescape(entity.group())
    if len(char) != 1 or not char.isprintable():
        char = " "
    return char.rjust(len(entity.group())) if char == "<" else char.ljust(len(entity.group()))


@lru_cache(maxsize=4)  # the rules of one reader look at one reply in turn
def _folded(text: str) -> str:
    return text.translate(_FOLDING)


def lowered(text: str) -> str:
    """``text`` in lower case, of equal length; cues are searched in it.

    A pattern for lower case finds its first letters many times faster than one that ignores case.
    """
    if text.isascii():
        return text.lower()
    return text.replace("\u0130", "i").lower().replace("\u0131", "i").replace("\u017f", "s")


_LONG_BLANK = re.compile(r"\s{33,}")


def squeezed(text: str) -> tuple[str, Callable[[tuple[int, int]], tuple[int, int]]]:
    """``text`` with long runs of white space as one, and how its spans map to those of ``text``.

    A masked thought is one long run. Rules that skip white space may begin anywhere in it, so a bound on
    its length keeps them linear.
    """
    pieces: list[str] = []
    cuts, removed, at = [0], [0], 0
    for run in _LONG_BLANK.finditer(text):
        pieces += (text[at : run.start()], "\n" if "\n" in run[0] else " ")
        removed.append(removed[-1] + len(run[0]) - 1)
        at = run.end()
        cuts.append(at - removed[-1])

    def moved_back(span: tuple[int, int]) -> tuple[int, int]:
        start, end = (removed[bisect_right(cuts, edge) - 1] for edge in (span[0], span[1] - 1))
        return span[0] + start, span[1] + end

    return "".join(pieces) + text[at:], moved_back


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """``text`` of equal length with spaces in place of ``spans``, which are in order."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += (text[at:start], " " * (end - start))
        at = end
    return "".join(pieces) + text[at:]


# --------------------------------------------------------------------------------------- phrases


# Cues are patterns in lower case, to be searched in ``lowered`` text.


@lru_cache(maxsize=512)
def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """A cue for ``phrase`` in any case, spacing and emphasis (``The **best answer** is``)."""
    words = [re.escape(word) for word in lowered(fold(phrase)).split()]
    if not words:
        return re.compile(r"(?!)")  # an empty phrase occurs nowhere
    # Looking back from behind the first word lets the search begin with its letters.
    before = rf"(?<!\w{words[0]})" if phrase.strip()[0].isalnum() else ""
    after = r"(?!\w)" if phrase.strip()[-1].isalnum() else ""
    return re.compile(r"[\s*_]+".join([words[0] + before, *words[1:]]) + after)


# ---------------------------------------------------------------------------------- instructions

_NAMES = (
    "answer letter label number choice option order ranking value result response solution text name "
    "word class category list integer digit index your the final best correct chosen insert here"
)
NAME = rf"(?:(?:{'|'.join(_NAMES.split())})s?[ _-]?){{1,4}}"
# A placeholder by itself, as it may be repeated beside the answer: ``[answer_letter] D``.
PLACEHOLDER = re.compile(
    rf"\s{{0,4}}(?:[\[(<{{]{NAME}[\])>}}]|(?:answer|option|choice)_(?:letter|label|number))[\s:=*_-]{{0,4}}",
    re.IGNORECASE,
)

# ------------------------------------------------------------------------------------- sentences

_SENTENCE_END = re.compile(
    r"(?:[^\W\d_]{2}|[\d)\]}$*\"'`%])(?P<stop>[.!?])[)\]*_\"'`]{0,3}(?=\s+[\"'(\[*_]{0,3}[^\W\d_])"
    r"|(?P<wide>[。！？])(?=\S)"
)
_ABBREVIATION = re.compile(
    r"\b(?:dr|mrs?|ms|prof|st|mt|vs|jr|sr|inc|ltd|co|corp|gen|col|lt|capt|rev|dept|univ|ave|approx|est"
    r"|etc)\.\Z",
    re.IGNORECASE,
)


def sentence_ends(text: str) -> Iterator[tuple[int, int]]:
    """Where sentences end, except the last: the positions before and behind their stop.

    The periods of ``St. Louis``, ``J. K.``, ``No. 5`` and ``3.14`` end no sentence; the next sentence
    begins with a capital letter, if its script has them.
    """
    for match in _SENTENCE_END.finditer(text):
        following = re.compile(r"[^\W\d_]").search(text, match.end())
        if following is None or following[0].islower():
            continue
        stop = match.start("stop") if match["stop"] else match.start("wide")
        if not _ABBREVIATION.search(text, max(0, stop - 20), stop + 1):
            yield stop, match.end()


# --------------------------------------------------------------------------------------- words

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_WORD = re.compile(
    # numbers keep sign and decimals, "-5" is not "5"
    r"(?:(?<![\w)])-)?\d+(?:[.,]\d+)*(?![^\W_])"
    # scripts without spaces: every character is a word
    rf"|[{_CJK}]"
    # accents may follow their letter
    rf"|[^\W_{_CJK}](?:[^\W_{_CJK}]|[\u0300-\u036f])*"
    # signs that carry meaning, as in "x < y"; emphasis, quotes and brackets do not
    r"|[^\w\s*$`\"'.,;:!?()\[\]{}–—…¡¿·-]"
)


_ARTICLE = re.compile(r"\W{0,8}(?:an?|the)\s+(?=\w)", re.IGNORECASE)


def _plain_word(word: str) -> str:
    if word[-1].isdigit():
        word = word.replace(",", "")
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFKC", word).casefold()


@dataclass(frozen=True, slots=True)
class PlainWords:
    """A text as plain words, each with its span in the text.

    ``line`` holds the words with one space around each, so that a whole-word search is one
    ``str.find``: linear, whatever the text.
    """

    line: str
    starts: list[int]
    spans: list[tuple[int, int]]

    @property
    def key(self) -> str:
        """The words alone, to compare two texts."""
        return self.line[1:-1]

    def starts_with(self, key: str) -> tuple[int, int] | None:
        """The span of ``key`` in the text, if the text begins with it."""
        if not key or not self.line.startswith(f" {key} "):
            return None
        return self.span_of((0, len(key) + 1))

    def find_all(self, key: str) -> Iterator[tuple[int, int]]:
        """Spans of ``key`` in ``line``, as whole words."""
        if not key:
            return
        needle, at = f" {key} ", -1
        while (at := self.line.find(needle, at + 1)) >= 0:
            yield at, at + len(needle) - 1

    def span_of(self, in_line: tuple[int, int]) -> tuple[int, int]:
        """The span in the text of a span in ``line``."""
        first = bisect_right(self.starts, in_line[0] + 1) - 1
        last = bisect_right(self.starts, in_line[1] - 1) - 1
        return self.spans[first][0], self.spans[last][1]


@lru_cache(maxsize=4)  # as in ``fold``
def words(text: str) -> PlainWords:
    """``text`` without case, punctuation and an article at its start."""
    folded = fold(text)
    article = _ARTICLE.match(folded)
    matches = list(_WORD.finditer(folded, article.end() if article else 0))
    line, starts = [" "], []
    at = 1
    for match in matches:
        word = _plain_word(match.group())
        starts.append(at)
        line += (word, " ")
        at += len(word) + 1
    return PlainWords("".join(line), starts, [match.span() for match in matches])


def key_of(text: str) -> str:
    """A key that texts share if they differ only in case, punctuation, an article or Unicode form."""
    return words(text).key
