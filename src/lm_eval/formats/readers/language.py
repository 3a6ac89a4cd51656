"""Patterns for the words that carry meaning in a reply, by kind and script, from ``language.yaml``.

Readers name a kind (``correct``, ``not``, ``if``) and never spell a word. Only words of the scripts that
a reply uses are searched for, and a pattern is compiled on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache
from pathlib import Path

import yaml

from lm_eval.config.yaml import SafeLoader
from lm_eval.formats.readers.wording import Wording

_LANGUAGES = {
    "latin": ("en", "de", "fr", "es", "pt", "it", "signs"),
    "cyrillic": ("ru",),
    "han": ("zh", "ja"),
    "hangul": ("ko",),
    "arabic": ("ar",),
    "devanagari": ("hi",),
}
_SCRIPTS = {
    "cyrillic": "[\u0400-\u04ff]",
    "han": "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]",
    "hangul": "[\uac00-\ud7af]",
    "arabic": "[\u0600-\u06ff]",
    "devanagari": "[\u0900-\u097f]",
}
_SPACED = ("latin", "cyrillic")  # words with spaces around them, and no endings that change them


def vocabulary_of(text: str) -> Vocabulary:
    """The words of the scripts in which ``text`` is written; Latin letters are always expected."""
    if text.isascii():
        return _vocabulary(("latin",))
    return _vocabulary(("latin", *(name for name in _SCRIPTS if _script(name).search(text))))


@lru_cache(maxsize=len(_SCRIPTS))
def _script(name: str) -> re.Pattern[str]:
    return re.compile(_SCRIPTS[name])


@lru_cache(maxsize=64)
def _vocabulary(scripts: tuple[str, ...]) -> Vocabulary:
    return Vocabulary(scripts)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[str]]]:
    source = Path(__file__).with_name("language.yaml")
    table: dict[str, dict[str, list[str]]] = yaml.load(  # plain data of our own
        source.read_text(encoding="utf-8"), Loader=SafeLoader
    )
    return table


def _items(kind: str, script: str) -> Iterator[str]:
    for language in _LANGUAGES[script]:
        yield from _table()[kind].get(language, ())


# What may come between the parts of a phrase: blanks, emphasis, closing quotes and brackets.
_MARKUP = r"[\s*_`\"')\]]{0,8}"
_DASH = r"(?:[–—]|-{1,2}(?=[\s*_]))"
_WRONG_SIGNS = "❌✗✘✖🚫🔴❎⛔"
EMOJI = (
    rf"(?![{_WRONG_SIGNS}])[\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\ufe0f\u200d\u20e3"
    "\U0001f000-\U0001faff]"
)


def _wording(*kinds: str) -> cached_property[Wording]:
    """A vocabulary's words of these kinds, to be searched for; made when they are first needed."""
    return cached_property(lambda words: Wording(words.one_of(*kinds), words.items(*kinds)))


def _pattern(*kinds: str) -> cached_property[re.Pattern[str]]:
    """A pattern for one word of these kinds; compiled when it is first needed."""
    return cached_property(lambda words: re.compile(words.one_of(*kinds)))


class Vocabulary:
    """The patterns of the words of some scripts, for text in lower case."""

    pick = _wording("pick")
    choose = _wording("choose")
    it_is = _wording("it_is")
    supposed = _wording("supposed")
    condition = _wording("if")
    would = _wording("would")
    doubt = _wording("supposed", "if", "would", "not", "wrong")
    """Whatever can keep a claim from being one."""
    contrast = _wording("contrast")
    but_word = _wording("but")
    also = _wording("also")
    verdict_word = _wording("correct", "also", "so_is")
    hard = _wording("taken_back")
    second_thought = _wording("taken_back", "rather")
    refusal = _wording("refusal")
    none = _pattern("none")
    and_or = _pattern("and_or")
    noun = _pattern("answer", "option")
    """What a verdict may end with: "a correct ANSWER"."""
    field_name = _pattern("answer", "outcome", "option", "class_name")
    """The name of a field that holds an answer."""

    def __init__(self, scripts: tuple[str, ...]) -> None:
        self.scripts = scripts

    def items(self, *kinds: str) -> list[str]:
        return [item for kind in kinds for script in self.scripts for item in _items(kind, script)]

    def one_of(self, *kinds: str, besides: str = "") -> str:
        """The source of a pattern for one word of these kinds, whole where words have edges.

        ``besides`` names a script whose words are left out.
        """
        parts: list[str] = []
        for script in self.scripts:
            items = [item for kind in kinds for item in _items(kind, script)]
            if script == besides or not items:
                continue
            if script not in _SPACED:
                parts += sorted(items, key=len, reverse=True)
                continue
            spelled = [item for item in items if item[0].isalpha() or item[0] == "("]
            parts += [rf"(?<!\w)(?:{'|'.join(spelled)})(?!\w)"] if spelled else []
            parts += [item for item in items if item not in spelled]
        return f"(?:{'|'.join(parts)})" if parts else "(?!)"

    # ------------------------------------------------------------------------------ announcing

    @cached_property
    def cue(self) -> Wording:
        """What announces an answer: "the best answer to this is", ``Antwort:``, ``答案是``.

        Where verbs come last or are left out, the name of the answer is enough.
        """
        heading = r"|(?:(?<=[\n#*_ ])|\A)(?:answer|conclusion)[*_]{0,3}[ \t]*\n"
        # without a link only where the name of the answer is in another script than the label
        return self._announcing(
            ("answer", "outcome", "option"),
            heading + ("" if self.scripts == ("latin",) else self._bare()),
        )

    @cached_property
    def text_cue(self) -> Wording:
        """The same for an answer in words; other names would be too vague for it."""
        is_latin = self.scripts == ("latin",)
        return self._announcing(
            ("answer",), "" if is_latin else rf"{self._bare()}(?=[\s:]{{0,3}}\d)"
        )

    @cached_property
    def class_cue(self) -> Wording:
        """The same for a class: "the sentiment is"."""
        return self._announcing(("class_name",), "")

    def _announcing(self, kinds: tuple[str, ...], otherwise: str) -> Wording:
        link = (
            rf"(?:{_MARKUP}(?:(?P<would>{self.one_of('would')})|{self.one_of('copula')})"
            rf"|{_MARKUP}(?:[:=→⇒]|=>|->|{_DASH}))"
        )
        about = rf"(?:{_MARKUP}(?:{self.one_of('quality')}|[,(])[^.:;!?\n]{{0,80}}?)?"
        return Wording(rf"{self.one_of(*kinds)}{about}{link}{otherwise}", self.items(*kinds))

    def _bare(self) -> str:
        names = self.one_of("answer", besides="latin")
        particles = self.one_of("copula", "quality", besides="latin")
        return rf"|{names}(?:\s{{0,3}}{particles}){{0,3}}"

    @cached_property
    def subject(self) -> re.Pattern[str]:
        """Who picks, right before the verb."""
        return re.compile(rf"{self.one_of('subject')}\s+\Z")

    @cached_property
    def option_before(self) -> re.Pattern[str]:
        """The name of an option right before a label."""
        return re.compile(rf"{self.one_of('option', 'answer')}[\s*_(\[\"']{{0,5}}\Z")

    @cached_property
    def label_before(self) -> re.Pattern[str]:
        """What comes before a letter that is meant as a label: a mark, or a word that leads to it."""
        kinds = (
            *("before", "adverb", "copula", "it_is", "pick"),
            *("option", "answer", "outcome", "would"),
        )
        return re.compile(
            rf"(?:\A|[,:;.!?(–—→=>*\n\"'-]|[^\x00-\u058f]|{self.one_of(*kinds)})[\s*_(\[\"'`]{{0,6}}\Z"
        )

    @cached_property
    def adverb(self) -> re.Pattern[str]:
        return re.compile(rf"{self.one_of('adverb')}[\s,:]{{0,3}}")

    # ------------------------------------------------------------------------------- judging

    @cached_property
    def condition_before(self) -> re.Pattern[str]:
        """A condition right before the name of an answer: "if the final answer"."""
        return re.compile(
            rf"{self.one_of('if')}\s*(?:(?:{self.one_of('adverb')}|final[ea]?)\s+){{0,3}}\Z"
        )

    @cached_property
    def denial(self) -> Wording:
        """A word that denies; all of "no doubt" is in the group ``vain``, since it denies nothing."""
        return Wording(
            rf"(?P<vain>{self.one_of('not_denying')})|{self.one_of('not', 'wrong')}",
            self.items("not", "wrong", "not_denying"),
        )

    @cached_property
    def not_(self) -> re.Pattern[str]:
        """A denial, with the copula that may follow it: "no es"."""
        return re.compile(rf"{self.one_of('not')}\s{{0,3}}(?:{self.one_of('copula')}\s{{0,3}})?")

    @cached_property
    def not_before(self) -> re.Pattern[str]:
        """A denial right before a choice."""
        return re.compile(rf"{self.one_of('not')}\s{{1,3}}(?:{self.one_of('adverb')}\s{{1,3}})?\Z")

    @cached_property
    def but(self) -> re.Pattern[str]:
        return re.compile(rf"[\s,;.–—-]{{0,4}}{self.one_of('but')}\s{{0,3}}")

    @cached_property
    def but_behind(self) -> re.Pattern[str]:
        return re.compile(rf"\s{{0,3}}{self.one_of('but_behind')}[\s,]{{0,3}}")

    @cached_property
    def verdict(self) -> re.Pattern[str]:
        """A verdict on the choice before it: ``right`` or ``wrong``, with ``not`` and ``also``."""
        between = (
            rf"(?:(?:(?P<not>{self.one_of('not')})|(?P<also>{self.one_of('also')})"
            rf"|(?P<would>{self.one_of('would')})|{self.one_of('copula', 'adverb')})"
            r"[ \t,*_]{0,4}){0,7}"
        )
        return re.compile(
            rf"(?:[ \t:,;)\]*_\"'|=→>–—({{\[-]{{0,8}}{between}"
            r"|[.)*_ \t]{0,6}(?P<stop>\.)[*_ \t]{0,4}(?!(?:yes|no)\b))"
            rf"(?:(?P<wrong>{self.one_of('wrong')})|(?P<right>{self.one_of('correct')}))"
            rf"(?:\s{{1,3}}(?:{self.one_of('answer', 'option')}\s{{1,3}})?"
            rf"(?P<too>{self.one_of('also')}))?"
            r"(?!\s+(?:that|about|only\s+(?:if|when)|if|when|in\s+(?:saying|that))\b)"
            r"(?(stop)(?=[*_ \t]{0,3}(?:[.,;:!–—(\n]|\Z)))"
        )

    @cached_property
    def too(self) -> re.Pattern[str]:
        """What repeats the last verdict for the choice before it: "C is too", "C l'est aussi"."""
        also, is_so = self.one_of("also"), self.one_of("is_so")
        return re.compile(
            rf"[\s,)*_]{{0,5}}(?:(?:{is_so}[\s,]{{0,3}})?{also}|{also}\s{{0,3}}{is_so})"
            r"[*_)]{0,3}\s{0,3}(?:[.,;!\n]|\Z)"
        )

    @cached_property
    def so_is(self) -> re.Pattern[str]:
        """The same right before it: "and so is C"."""
        return re.compile(
            rf"{self.one_of('so_is')}\s{{1,3}}(?:{self.one_of('adverb')}\s{{1,3}}){{0,2}}[*_(\"']{{0,3}}\Z"
        )

    @cached_property
    def verdict_tail(self) -> re.Pattern[str]:
        """The verdict that ends a sentence about a choice: "it has no rings → incorrect"."""
        return re.compile(
            rf"(?:[→⇒–—:=]|->|=>)\s{{0,3}}(?:(?P<wrong>{self.one_of('wrong')})|{self.one_of('correct')})"
            r"[*_)\s]{0,4}\Z"
        )

    @cached_property
    def link(self) -> re.Pattern[str]:
        """What ties a verdict to the choice before it."""
        return re.compile(rf"[:,;.)\]–—=→>|*\"'-]|{self.one_of('copula', 'would', 'also', 'not')}")

    @cached_property
    def copula_before(self) -> re.Pattern[str]:
        """The verb in "therefore is C correct", as other languages have it."""
        return re.compile(
            rf"{self.one_of('copula')}\s{{1,3}}(?:{self.one_of('adverb')}\s{{1,3}})?\Z"
        )

    @cached_property
    def joint(self) -> re.Pattern[str]:
        """What comes between two labels; ``strong`` if it can only join them."""
        strong = rf"[ \t]*(?:[/&+|]|,?\s*{self.one_of('and_or')})\s*(?:{self.one_of('adverb')}\s+)?"
        return re.compile(rf"(?P<strong>{strong})|(?:[ \t]*[,;]\s*|[ \t]+|\s*\n\s*)")

    @cached_property
    def goes_on(self) -> re.Pattern[str]:
        return re.compile(rf"\s*{self.one_of('because')}")

    @cached_property
    def reason(self) -> re.Pattern[str]:
        """What begins a reason behind a label that may be an ordinary word, like A."""
        other = self.one_of("because", besides="latin")
        return re.compile(rf"\s+{self.one_of('reason')}|\s*{other}")

    @cached_property
    def taken_back(self) -> re.Pattern[str]:
        """Right behind an answer: words that withdraw it (``hard``) or replace it with what follows."""
        softener = r"(?:(?:but|hm+|oh|ah|oops)\b[\s,.…!]{0,4}){0,2}"
        return re.compile(
            rf"[\s.,;:!?…*)\"'–—-]{{0,12}}{softener}"
            rf"(?:(?P<hard>{self.one_of('taken_back')})|{self.one_of('rather')})"
        )

    @cached_property
    def bridge(self) -> re.Pattern[str]:
        """What may come between a retraction and the answer that replaces it."""
        words = self.one_of("taken_back", "rather", "it_is", "copula", "adverb", "answer", "would")
        return re.compile(
            rf"(?:[\s,.:;!…–—*_-]|{words}|should\s+be\b|make\s+(?:it|that)\b){{0,24}}"
        )

    @cached_property
    def ordinal(self) -> re.Pattern[str]:
        """ "the third option": the word, and what it counts, before or behind it."""
        counted = rf"(?:{self.one_of('option', 'answer')}|(?<!\w)ones?(?!\w))"
        return re.compile(
            rf"(?:(?P<before>{counted})\s{{0,3}}(?:number\s+|no\.\s*|#)?"
            rf"(?P<later>\d{{1,2}}|{self.one_of('ordinals')})(?!\w|\.\d)"
            rf"|(?P<word>{self.one_of('ordinals')})\s{{0,3}}{self.one_of('counter')}?"
            rf"\s{{0,3}}(?P<noun>{counted})?)"
        )

    def ordinal_number(self, word: str) -> int | None:
        """The number of an ordinal, from 1; None for the last."""
        if word.isdigit():
            return int(word)
        *numbered, _ = self._ordinals
        return next((n for n, names in enumerate(numbered, 1) if names.fullmatch(word)), None)

    @cached_property
    def _ordinals(self) -> tuple[re.Pattern[str], ...]:
        columns = zip(
            *(
                _table()["ordinals"][language]
                for script in self.scripts
                for language in _LANGUAGES[script]
                if language in _table()["ordinals"]
            ),
            strict=True,
        )
        return tuple(re.compile("|".join(column)) for column in columns)

    @cached_property
    def scale(self) -> re.Pattern[str]:
        """The power of ten that follows a number; the name of its group is ``e`` and the exponent."""
        parts = (rf"(?P<e{power}>{self.one_of(str(power))})" for power in (12, 9, 8, 7, 6, 5, 4, 3))
        return re.compile(rf"\s{{0,2}}(?:{'|'.join(parts)})")

    @cached_property
    def units(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """A unit right behind a number, and a number with its unit right before one."""
        unit = self.one_of("unit")
        return (
            re.compile(rf"\s{{0,2}}{unit}"),
            re.compile(rf"\d\s{{0,2}}{unit}[\s,]{{0,3}}(?:{self.one_of('and_or')}\s{{1,3}})?\Z"),
        )

    @cached_property
    def verb_last(self) -> re.Pattern[str]:
        """The verb at the end of a sentence that gives an answer."""
        return re.compile(rf"(?<=\S)\s{{0,2}}{self.one_of('verb_last')}\Z")

    @cached_property
    def answer_field(self) -> re.Pattern[str]:
        """The whole name of a field that holds an answer in words: "final answer"."""
        return re.compile(rf"(?:\w{{1,20}}[ -]){{0,2}}{self.one_of('answer')}")

    @cached_property
    def turn(self) -> re.Pattern[str]:
        """A line on which someone else begins to speak."""
        return re.compile(
            rf"\n[ \t]*(?:[#*_<\[|]{{0,4}}[ \t]*{self.one_of('turn')}[ \t]*[*_>\]|]{{0,4}}[ \t]*:"
            r"|(?:user|human)[ \t]*(?:\n|\Z)"
            r"|#{2,4}[ \t]*(?:instruction|input|human|user|question)\b|<\|(?:user|im_start)\|>|\[inst\])"
        )

    @cached_property
    def question(self) -> re.Pattern[str]:
        return re.compile(
            rf"\n[ \t]*[#*_]{{0,4}}[ \t]*{self.one_of('question')}[*_]{{0,3}}[ \t]*[:.)]"
        )
