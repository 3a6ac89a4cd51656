"""Checks of replies that have no gold answer, as IFEval makes them, and the scores made from them.

A check gets the reply and the arguments that the data gives, and says whether an instruction was
followed; there is one for each of IFEval's 25 instruction ids. The rules are those that Zhou et al.
(2023) published with the data, odd ones included.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from lm_eval.errors import ConfigError, MissingExtraError, did_you_mean, few_names
from lm_eval.formats.readers.reply import find_thinking
from lm_eval.registry import CHECKS, register_check
from lm_eval.stats.estimates import Estimate, mean_and_ratio_estimate, mean_estimate, ratio_estimate

# Sentences and words
#
# IFEval counts sentences with the Punkt tokenizer and words with that of the Penn Treebank, both of
# nltk. The rules here count alike without it: a sentence ends at ``.``, ``?`` or ``!``
# before a blank, unless the period belongs to an abbreviation, an initial or a list of initials.


_SENTENCE_END = re.compile(r"(?P<word>\S*?)(?P<mark>[.?!]+)[\"'”’)\]*_]*(?=\s|(?<=\")[,}])")
_ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "rev", "hon", "sr", "jr", "st", "gen", "col", "lt"),
        *("sgt", "capt", "cmdr", "maj", "gov", "sen", "rep", "pres", "inc", "corp", "co", "ltd"),
        *("bros", "vs", "jan", "feb", "aug", "sept", "oct", "nov", "dec", "u.s", "u.k", "u.n"),
        *("d.c", "a.m", "p.m", "e.g", "i.e", "fig", "ph.d", "vol", "mt", "ft", "ave", "blvd"),
        *("dept", "est", "approx"),
    )
)
_INITIAL = re.compile(r"[A-Z]")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]")
_NEXT_WORD = re.compile(r"\s*[\"'“‘(\[*_]*(\S)")


def count_sentences(text: str) -> int:
    """The number of sentences; what comes after the last end counts as one."""
    stripped = text.strip()
    if not stripped:
        return 0
    ends = 0
    last = 0
    for match in _SENTENCE_END.finditer(f"{stripped} "):
        if match.end() >= len(stripped):
            continue  # the end of the text ends its last sentence anyway
        if _ends_sentence(match, stripped):
            ends += 1
            last = match.end()
    return ends + bool(stripped[last:].strip())


def _ends_sentence(match: re.Match[str], text: str) -> bool:
    mark = match["mark"]
    if mark != ".":
        is_ellipsis = set(mark) == {"."}
        return not is_ellipsis or _next_is_capital(match, text)
    written = match["word"].strip("\"'“‘([*_-")
    word = written.lower()
    if word == "no":  # No. 5
        return re.match(r"\s*\d", text[match.end() :]) is None
    if word.isdecimal():  # the number of an item in a list
        following = _NEXT_WORD.match(text, match.end())
        return following is None or not following[1].islower()
    if word in _ABBREVIATIONS or _INITIALS.fullmatch(word):
        return word not in ("mr", "mrs", "ms", "dr", "prof") and _starts_sentence(match, text)
    if _INITIAL.fullmatch(written) and word != "i":
        return not _next_is_capital(match, text) or _starts_sentence(match, text)
    return True


_STARTERS = frozenset(
    (
        *("the", "he", "she", "it", "they", "we", "i", "this", "that", "in", "but", "however"),
        *("his", "her"),
    )
)


def _starts_sentence(match: re.Match[str], text: str) -> bool:
    """Whether the next word is one that begins sentences; a name after ``Inc.`` is not."""
    following = re.match(r"\s*[\"'“‘(\[*_]*([A-Z]\w*)", text[match.end() :])
    return following is not None and following[1].lower() in _STARTERS


def _next_is_capital(match: re.Match[str], text: str) -> bool:
    following = _NEXT_WORD.match(text, match.end())
    return following is not None and following[1].isupper()


def count_words(text: str) -> int:
    """Runs of letters, digits and underscores."""
    return len(re.findall(r"\w+", text))


_APART = (
    re.compile(r"[;@#$%&?!()\[\]{}<>]|[«“”‘’»„\"]|--+|\.{2,}|…"),
    re.compile(r"[:,](?=\D|$)|``|''"),
)
_CONTRACTION = re.compile(
    r"(?<=[^' ])('s|'m|'d|'ll|'re|'ve|n't|')(?=\s|$)|\b(can)(?=not\b)", re.IGNORECASE
)
_TWO_WORDS = re.compile(r"\b(gim|lem)(me)\b|\b(gon|wan)(na)\b|\b(got)(ta)\b", re.IGNORECASE)


def words_apart(text: str) -> list[str]:
    """The tokens of a text: punctuation apart, contractions in two (``DON'T``: ``DO``, ``N'T``)."""
    for pattern in _APART:
        text = pattern.sub(lambda match: f" {match[0]} ", text)
    text = re.sub(r"(?<=[^.])\.(?=[\s\])}>\"']*$)", " . ", text)
    text = _TWO_WORDS.sub(lambda m: " ".join(part for part in m.groups() if part), f" {text} ")
    text = _CONTRACTION.sub(lambda m: f" {m[1]}" if m[1] else f"{m[2]} ", text)
    return text.split()


def count_capital_words(text: str) -> int:
    """Tokens in capital letters."""
    return sum(word.isupper() for word in words_apart(text))


# The language of a reply, by the library that IFEval uses, with a fixed seed: one text, one answer


SEED = 0


def load_detector() -> Any:
    """The library; an error with the line that installs it if it is missing."""
    try:
        import langdetect
    except ModuleNotFoundError:
        raise MissingExtraError(
            "Checks of a reply's language (language:response_language, change_case:english_…) need the "
            "library langdetect, which is not installed.",
            install="pip install 'lm-eval-formats[ifeval]'",
        ) from None
    return langdetect


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """The code of the most likely language, such as ``en``; None for a text without letters."""
    langdetect = load_detector()
    langdetect.DetectorFactory.seed = SEED
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return None


# The checks, under IFEval's ids


def _compare(count: int, relation: str, wanted: int) -> bool:
    if relation == "at least":
        return count >= wanted
    if relation == "less than":
        return count < wanted
    raise ConfigError(f"a relation is {relation!r}; expected 'at least' or 'less than'.")


@register_check("keywords:existence")
def keywords_exist(reply: str, keywords: Sequence[str]) -> bool:
    """Every keyword occurs, in any case, within words too."""
    return all(re.search(re.escape(word), reply, re.IGNORECASE) for word in keywords)


@register_check("keywords:frequency")
def keyword_frequency(reply: str, keyword: str, frequency: int, relation: str) -> bool:
    """The keyword occurs this often, in any case, within words too."""
    matches = re.findall(re.escape(keyword.strip()), reply, re.IGNORECASE)
    return _compare(len(matches), relation, frequency)


@register_check("keywords:forbidden_words")
def no_forbidden_words(reply: str, forbidden_words: Sequence[str]) -> bool:
    """None of the words occurs as a word of its own, in any case."""
    return not any(
        re.search(rf"\b{re.escape(word)}\b", reply, re.IGNORECASE) for word in forbidden_words
    )


@register_check("keywords:letter_frequency")
def letter_frequency(reply: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    """A letter or sign occurs this often, in any case."""
    return _compare(reply.lower().count(letter.strip().lower()), let_relation, let_frequency)


@register_check("language:response_language")
def response_language(reply: str, language: str) -> bool:
    """The whole reply is in the language; one without letters counts as followed."""
    detected = language_of(reply)
    return detected is None or detected == language


response_language.load = load_detector


@register_check("change_case:english_capital")
def english_capital(reply: str) -> bool:
    """English, all letters capital."""
    return reply.isupper() and language_of(reply) in ("en", None)


@register_check("change_case:english_lowercase")
def english_lowercase(reply: str) -> bool:
    """English, no capital letter."""
    return reply.islower() and language_of(reply) in ("en", None)


english_capital.load = english_lowercase.load = load_detector


@register_check("change_case:capital_word_frequency")
def capital_word_frequency(reply: str, capital_frequency: int, capital_relation: str) -> bool:
    """This many words in capital letters."""
    return _compare(count_capital_words(reply), capital_relation, capital_frequency)


@register_check("length_constraints:number_words")
def number_words(reply: str, num_words: int, relation: str) -> bool:
    """This many words."""
    return _compare(count_words(reply), relation, num_words)


@register_check("length_constraints:number_sentences")
def number_sentences(reply: str, num_sentences: int, relation: str) -> bool:
    """This many sentences."""
    return _compare(count_sentences(reply), relation, num_sentences)


@register_check("length_constraints:number_paragraphs")
def number_paragraphs(reply: str, num_paragraphs: int) -> bool:
    """Exactly this many paragraphs, with ``***`` between them and none of them empty."""
    parts = [part.strip() for part in re.split(r"\s?\*\*\*\s?", reply)]
    if not all(parts[1:-1]):
        return False
    return sum(map(bool, parts)) == num_paragraphs


@register_check("length_constraints:nth_paragraph_first_word")
def nth_paragraph_first_word(
    reply: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
    """This many paragraphs, with blank lines between them, and the n-th begins with the word."""
    parts = reply.split("\n\n")
    count = sum(bool(part.strip()) for part in parts)
    if nth_paragraph > count or not parts[nth_paragraph - 1].strip():
        return False
    word = parts[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    return count == num_paragraphs and re.split(r"[.,?!'\"]", word)[0].lower() == first_word.lower()


@register_check("detectable_content:number_placeholders")
def number_placeholders(reply: str, num_placeholders: int) -> bool:
    """At least this many placeholders in square brackets."""
    return len(re.findall(r"\[.*?\]", reply)) >= num_placeholders


@register_check("detectable_content:postscript")
def postscript(reply: str, postscript_marker: str) -> bool:
    """A postscript, introduced by the marker with or without blanks in it."""
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    pattern = patterns.get(postscript_marker.strip(), re.escape(postscript_marker.strip().lower()))
    return re.search(pattern, reply.lower()) is not None


@register_check("detectable_format:number_bullet_lists")
def number_bullet_lists(reply: str, num_bullets: int) -> bool:
    """Exactly this many lines that begin with ``*`` or ``-``."""
    stars = re.findall(r"^\s*\*[^\*].*$", reply, re.MULTILINE)
    dashes = re.findall(r"^\s*-.*$", reply, re.MULTILINE)
    return len(stars) + len(dashes) == num_bullets


_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@register_check("detectable_format:constrained_response")
def constrained_response(reply: str) -> bool:
    """One of the three sentences that the prompt offers."""
    return any(option in reply for option in _OPTIONS)


@register_check("detectable_format:number_highlighted_sections")
def number_highlighted_sections(reply: str, num_highlights: int) -> bool:
    """At least this many sections in ``*one*`` or ``**two**`` asterisks."""
    single = re.findall(r"\*([^\n\*]*)\*", reply)
    double = re.findall(r"\*\*([^\n\*]*)\*\*", reply)
    return sum(bool(text.strip()) for text in (*single, *double)) >= num_highlights


@register_check("detectable_format:multiple_sections")
def multiple_sections(reply: str, section_spliter: str, num_sections: int) -> bool:
    """At least this many sections, each headed by the word and a number."""
    heading = rf"\s?{re.escape(section_spliter.strip())}\s?\d+\s?"
    return len(re.split(heading, reply)) - 1 >= num_sections


@register_check("detectable_format:json_format")
def json_format(reply: str) -> bool:
    """The whole reply is JSON, in a code fence or not."""
    text = reply.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


@register_check("detectable_format:title")
def title(reply: str) -> bool:
    """A title in double angular brackets that is not empty."""
    return any(text.lstrip("<").rstrip(">").strip() for text in re.findall(r"<<[^\n]+>>", reply))


@register_check("combination:two_responses")
def two_responses(reply: str) -> bool:
    """Two different answers, with six asterisks between them."""
    parts = [part.strip() for part in reply.split("******")]
    if not all(parts[1:-1]):
        return False
    answers = [part for part in parts if part]
    return len(answers) == 2 and answers[0] != answers[1]


@register_check("combination:repeat_prompt")
def repeat_prompt(reply: str, prompt_to_repeat: str) -> bool:
    """The request comes first, word for word, in any case."""
    return reply.strip().lower().startswith(prompt_to_repeat.strip().lower())


@register_check("startend:end_checker")
def end_checker(reply: str, end_phrase: str) -> bool:
    """The reply ends with the phrase, in any case; quotation marks behind it do not count."""
    return reply.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@register_check("startend:quotation")
def quotation(reply: str) -> bool:
    """The whole reply is in double quotation marks."""
    text = reply.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


@register_check("punctuation:no_comma")
def no_comma(reply: str) -> bool:
    """No comma."""
    return "," not in reply


# Verdicts, strict and loose
#
# Strict: the reply as it is. Loose: any of eight variants of it, without the first line, the last line
# or both, with and without asterisks, for replies that begin with "Sure, here is …" or use Markdown.


Instruction = tuple[str, Mapping[str, Any]]
"""The id of a check, and its arguments."""


def load_check(name: str, arguments: Mapping[str, Any]) -> Callable[..., bool]:
    """The check of an id; an error if there is none or it does not take the arguments."""
    if name not in CHECKS:
        raise ConfigError(
            f"unknown check {name!r}.{did_you_mean(name, CHECKS)} Checks: "
            f"{few_names(name, sorted(CHECKS))}, or one of your own with @register_check."
        )
    check = CHECKS.get(name)
    try:
        inspect.signature(check).bind("", **arguments)
    except TypeError as error:
        raise ConfigError(
            f"check {name!r} does not take {dict(arguments)!r}: {error}. It is "
            f"{name}{inspect.signature(check)}."
        ) from None
    return check  # type: ignore[no-any-return]


def load_libraries(names: Iterable[str]) -> None:
    """Import what the checks of these ids need; a missing library is an error that says so."""
    for name in sorted(set(names)):
        load = getattr(CHECKS.get(name, None), "load", None)
        if load is not None:
            load()


def answer_of(reply: str) -> str:
    """The reply without a block of thinking that it begins with; any other reply is left as it is."""
    spans = find_thinking(reply).spans
    is_first = bool(spans) and not reply[: spans[0][0]].strip()
    return reply[spans[0][1] :].strip() if is_first else reply


def variants_of(reply: str) -> list[str]:
    """The reply and what is left of it without its first line, last line, both, and asterisks."""
    lines = reply.split("\n")
    parts = [reply, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*parts, *(part.replace("*", "") for part in parts)]


def verdicts(reply: str, instructions: Sequence[Instruction]) -> dict[str, Any]:
    """A doc's values: by prompt (all instructions followed) and by instruction, strict and loose."""
    answer = answer_of(reply)
    variants = [variant for variant in variants_of(answer) if variant.strip()]
    strict, loose = [], []
    for name, arguments in instructions:
        check = CHECKS.get(name)
        strict.append(bool(answer.strip()) and bool(check(answer, **arguments)))
        loose.append(strict[-1] or any(check(variant, **arguments) for variant in variants))
    return {
        "prompt_level_strict_acc": float(all(strict)),
        "inst_level_strict_acc": strict,
        "prompt_level_loose_acc": float(all(loose)),
        "inst_level_loose_acc": loose,
        "strict_acc": strict,
    }


def _by_instruction(values: Sequence[Sequence[bool]]) -> Estimate:
    return ratio_estimate([(sum(doc), len(doc)) for doc in values])


def _both_levels(values: Sequence[Sequence[bool]]) -> Estimate:
    return mean_and_ratio_estimate([(sum(doc), len(doc)) for doc in values])


CHECK_METRICS: dict[str, Callable[[Sequence[Any]], Estimate]] = {
    "prompt_level_strict_acc": mean_estimate,
    "inst_level_strict_acc": _by_instruction,
    "prompt_level_loose_acc": mean_estimate,
    "inst_level_loose_acc": _by_instruction,
    "strict_acc": _both_levels,
}
"""The scores of a task with ``checks``, and how each is estimated. ``strict_acc`` is the mean of the two
strict ones, as on the second Open LLM Leaderboard."""
