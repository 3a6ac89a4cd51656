"""Patterns for the words that carry meaning in a reply, by kind, from ``language.yaml``.

Readers name a kind (``correct``, ``not``, ``if``) and never spell a word. Patterns are for text in lower
case, cover all languages at once, and are compiled on first use.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from pathlib import Path

import yaml

from lm_eval.config.yaml import SafeLoader

# Languages whose words have spaces around them and no endings that change them.
_SPACED = ("en", "de", "fr", "es", "pt", "it", "ru")
# What may come between the parts of a phrase: blanks, emphasis, closing quotes and brackets.
_MARKUP = r"[\s*_`\"')\]]{0,8}"
_COLON = rf"{_MARKUP}(?:[:=→⇒]|=>|->|[–—]|-{{1,2}}(?=[\s*_]))"


@lru_cache(maxsize=1)
def vocabulary() -> Vocabulary:
    """The words of all languages."""
    return Vocabulary()


def vocabulary_of(_text: str) -> Vocabulary:
    return vocabulary()


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[str]]]:
    source = Path(__file__).with_name("language.yaml")
    table: dict[str, dict[str, list[str]]] = yaml.load(  # plain data of our own
        source.read_text(encoding="utf-8"), Loader=SafeLoader
    )
    return table


_FIELD = (
    r"[\"'][\w -]{0,30}?(?:answer|choice|option|solution|result|response|selection|letter|label|class"
    r"|category|sentiment|antwort|réponse|respuesta|resposta|risposta|ответ|答案|回答)\\?[\"']\s?:"
)


def _words(*kinds: str) -> cached_property[re.Pattern[str]]:
    """A pattern for one word of these kinds."""
    return cached_property(lambda vocabulary: re.compile(vocabulary.one_of(*kinds)))


class Vocabulary:
    """The patterns of the words of all languages."""

    none = _words("none")
    and_or = _words("and_or")
    supposed = _words("supposed")
    condition = _words("if")
    would = _words("would")
    contrast = _words("contrast")
    refusal = _words("refusal")
    it_is = _words("it_is")
    second_thought = _words("taken_back", "rather")
    withdrawn = _words("taken_back")
    also = _words("also", "so_is")

    def one_of(self, *kinds: str, is_spaced: bool | None = None) -> str:
        """The source of a pattern for one word of these kinds, whole where words have edges.

        ``is_spaced`` leaves out the languages with spaces between words (False), or the others.
        """
        spaced: list[str] = []
        joined: list[str] = []
        for kind in kinds:
            for language, items in _table()[kind].items():
                if is_spaced is None or (language in _SPACED) is is_spaced:
                    for item in items:
                        is_word = language in _SPACED and (item[0].isalpha() or item[0] == "(")
                        (spaced if is_word else joined).append(item)
        parts = [rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)"] if spaced else []
        parts += sorted(joined, key=len, reverse=True)
        return f"(?:{'|'.join(parts)})" if parts else "(?!)"

    # ------------------------------------------------------------------------------ announcing

    @cached_property
    def cue(self) -> re.Pattern[str]:
        """What announces a choice: "the best answer to this is", ``Antwort:``, ``答案是``, a field.

        An option is announced by a verb or, if it is called the best or the like, by a colon: "let us
        check each option: A" announces none. Where verbs come last or are left out, the name of the
        answer is enough.
        """
        best = rf"{self.one_of('best')}[\s*_]{{1,3}}{self.one_of('option')}"
        names = rf"(?:{self.one_of('answer', 'outcome')}|{best})"
        return re.compile(
            rf"{names}{self._about}(?:{self._copula}|{_COLON})"
            rf"|{self.one_of('option')}{self._about}{self._copula}|{_FIELD}"
            rf"|(?:(?<=[\n#*_ ])|\A)(?:answer|conclusion)[*_]{{0,3}}[ \t]*\n|{self._bare}"
        )

    @cached_property
    def class_cue(self) -> re.Pattern[str]:
        """What announces a class: "Category is", ``Sentiment:``."""
        return re.compile(rf"{self.one_of('class_name')}(?:{self._copula}|{_COLON})")

    @cached_property
    def _copula(self) -> str:
        return rf"{_MARKUP}{self.one_of('would', 'copula')}"

    @cached_property
    def _about(self) -> str:
        return rf"(?:{_MARKUP}(?:{self.one_of('quality')}|[,(])[^.:;!?\n]{{0,80}}?)?"

    @cached_property
    def _bare(self) -> str:
        names = self.one_of("answer", is_spaced=False)
        particles = self.one_of("copula", "quality", is_spaced=False)
        return rf"{names}(?:\s{{0,3}}{particles}){{0,3}}"

    @cached_property
    def pick(self) -> re.Pattern[str]:
        """A choice in the first person: "I choose", "elijo"; an order ("choose C") is none."""
        return re.compile(
            rf"{self.one_of('pick')}|{self.one_of('subject')}\s{{1,3}}{self.one_of('choose')}"
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
    def denial(self) -> re.Pattern[str]:
        """A word that denies; all of "no doubt" is in the group ``vain``, since it denies nothing."""
        return re.compile(rf"(?P<vain>{self.one_of('not_denying')})|{self.one_of('not', 'wrong')}")

    @cached_property
    def not_(self) -> re.Pattern[str]:
        """A denial, with the copula that may follow it: "no es"."""
        return re.compile(rf"{self.one_of('not')}\s{{0,3}}(?:{self.one_of('copula')}\s{{0,3}})?")

    @cached_property
    def but(self) -> re.Pattern[str]:
        return re.compile(rf"[\s,;.–—-]{{0,4}}{self.one_of('but')}\s{{0,3}}")

    @cached_property
    def but_after(self) -> re.Pattern[str]:
        """After a choice that is denied, where the denial follows it: "AではなくD"."""
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
            r"(?!\s+(?:that|about|only\s+(?:if|when)|if|when|in\s+(?:saying|that))\b)"
            r"(?(stop)(?=[*_ \t]{0,3}(?:[.,;:!–—(\n]|\Z)))"
        )

    @cached_property
    def link(self) -> re.Pattern[str]:
        """What links a name to its verdict: "is", a colon, an arrow."""
        return re.compile(rf"{self.one_of('copula', 'would', 'also')}|[.:;,)\]*|=→>–—-]")

    @cached_property
    def joint(self) -> re.Pattern[str]:
        """What comes between two labels; ``strong`` if it can only join them."""
        strong = rf"[ \t]*(?:[/&+|]|,?\s*{self.one_of('and_or')})\s*(?:{self.one_of('adverb')}\s+)?"
        return re.compile(rf"(?P<strong>{strong})|(?:[ \t]*[,;]\s*|[ \t]+|\s*\n\s*)")

    @cached_property
    def goes_on(self) -> re.Pattern[str]:
        """What may follow an answer in its sentence: "because"."""
        return re.compile(rf"\s*{self.one_of('because')}")

    @cached_property
    def reason(self) -> re.Pattern[str]:
        """The same after a label that may be an ordinary word, like A."""
        other = self.one_of("because", is_spaced=False)
        return re.compile(rf"\s+{self.one_of('reason')}|\s*{other}")

    @cached_property
    def taken_back(self) -> re.Pattern[str]:
        """Right after an answer: words that withdraw it (``hard``) or replace it with what follows."""
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
        """ "the third option": the word, and what it counts, before or after it."""
        counted = rf"(?:{self.one_of('option', 'answer')}|(?<!\w)ones?(?!\w))"
        return re.compile(
            rf"(?:{counted}\s{{0,3}}(?:number\s+|no\.\s*|#)?"
            rf"(?P<later>\d{{1,2}}|{self.one_of('ordinals')})(?!\w|\.\d)"
            rf"|(?P<word>{self.one_of('ordinals')})\s{{0,3}}{self.one_of('counter')}?"
            rf"\s{{0,3}}{counted})"
        )

    def ordinal_number(self, word: str) -> int | None:
        """The number of an ordinal, from 1; None for the last."""
        if word.isdigit():
            return int(word)
        columns = zip(*_table()["ordinals"].values(), strict=True)
        names = [re.compile("|".join(column)) for column in columns][:-1]
        return next((n for n, name in enumerate(names, 1) if name.fullmatch(word)), None)

    @cached_property
    def scale(self) -> re.Pattern[str]:
        """The power of ten that follows a number; the name of its group is ``e`` and the exponent."""
        parts = (rf"(?P<e{power}>{self.one_of(str(power))})" for power in (12, 9, 8, 7, 6, 5, 4, 3))
        return re.compile(rf"\s{{0,2}}(?:{'|'.join(parts)})")

    @cached_property
    def units(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """A unit right after a number, and a number with its unit right before one."""
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
        """The heading of a next question."""
        return re.compile(
            rf"\n[ \t]*[#*_]{{0,4}}[ \t]*{self.one_of('question')}[*_]{{0,3}}[ \t]*[:.)]"
        )
