"""Filters that take the answer out of a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval.errors import FieldError, listing
from lm_eval.harness.filters.pipeline import Filter, Responses, each, each_text

NUMBER_AFTER_HASHES = r"#### (\-?[0-9\.\,]+)"
_TAGGED_TOKEN = re.compile(r"\('([^']*)', '([^']*)'\)")


class RegexFilter(Filter):
    """One match of a pattern, stripped; ``fallback`` where there is none.

    ``group_select`` says which match. Of several groups the first that is not empty counts.
    """

    def __init__(
        self,
        regex_pattern: str = NUMBER_AFTER_HASHES,
        group_select: int = 0,
        fallback: str = "[invalid]",
    ) -> None:
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each(self._read, resps)

    def _read(self, response: Any) -> Any:
        found = self._match(self.regex, response)
        if found is None:
            return self.fallback
        if found == ():
            return _strip(self.fallback)
        return found

    def _match(self, regex: re.Pattern[str], response: Any) -> Any:
        """The selected match; ``()`` where all of its groups are empty, None without a match."""
        matches = regex.findall(response if isinstance(response, str) else "")
        try:
            match = matches[self.group_select]
        except IndexError:
            return None
        if isinstance(match, tuple):
            match = next((group for group in match if group), ())
        return _strip(match)


class POSFilter(Filter):
    """The tags of ``('token', 'TAG')`` pairs in a text, as a list."""

    def __init__(
        self,
        regex_pattern: str = r"\['(.*?)'\]",
        group_select: int = 0,
        fallback: Any = None,
    ) -> None:
        # The pattern has never decided anything; it is kept because task files give one.
        self.regex_pattern = regex_pattern
        self.regex = re.compile(regex_pattern)
        self.group_select = group_select
        self.fallback = ["invalid"] if fallback is None else fallback

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each(self._tags, resps)

    def _tags(self, response: Any) -> Any:
        pairs = _TAGGED_TOKEN.findall(response) if isinstance(response, str) else response
        return [tag for _, tag in pairs] or self.fallback


class WhitespaceFilter(Filter):
    """Responses without white space at their ends."""

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(str.strip, resps)


class MultiChoiceRegexFilter(RegexFilter):
    """The letter of a choice, as ``(A)``: found by the pattern, else by the text of a choice of
    ``doc["choices"]`` in the response, else as a letter after a colon.

    The ``ignore`` options concern the second step only.
    """

    def __init__(
        self,
        regex_pattern: str = NUMBER_AFTER_HASHES,
        group_select: int = 0,
        fallback: str = "[invalid]",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: list[str] | None = None,
    ) -> None:
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        return [self._letters(some, choices_of(doc)) for some, doc in zip(resps, docs, strict=True)]

    def _letters(self, responses: Iterable[Any], choices: Iterable[str]) -> list[Any]:
        texts = [self._plain(choice.strip()) for choice in choices]
        letters = [chr(ord("A") + place) for place in range(len(texts))]
        # A text that stands twice is the later choice.
        of_text = {text: f"({letter})" for text, letter in zip(texts, letters, strict=True)}
        of_letter = {letter: f"({letter})" for letter in letters}
        # Longest first: otherwise "Guilty" would be found inside "Guilty of Romance".
        any_text = re.compile("|".join(sorted(map(re.escape, texts), key=len, reverse=True)))
        any_letter = re.compile(rf":[\s]*({'|'.join(map(re.escape, letters))})")
        found = []
        for response in responses:
            answer = self._match(self.regex, response) or None
            if not answer:
                answer = self._look_up(any_text, self._plain(response), of_text)
            if not answer:
                answer = self._look_up(any_letter, response, of_letter)
            found.append(answer or self.fallback)
        return found

    def _look_up(self, regex: re.Pattern[str], response: Any, names: Mapping[str, str]) -> Any:
        match = self._match(regex, response)
        return names.get(match, match) if match else None

    def _plain(self, text: Any) -> str:
        """The text without what is to be ignored."""
        if not isinstance(text, str):
            return ""
        for pattern in self.regexes_to_ignore or ():
            text = re.sub(pattern, "", text)
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
        return str(text)


def choices_of(doc: Mapping[str, Any]) -> Iterable[str]:
    """The doc's field ``choices``, which is where this filter looks whatever the task says."""
    try:
        choices: Iterable[str] = doc["choices"]
    except KeyError:
        raise FieldError(
            "the filter multi_choice_regex reads the choices from a field `choices`, and the doc "
            f"has none. Its fields: {listing(doc)}. Add the field in `process_docs`, or use the "
            "filter `regex`."
        ) from None
    return choices


def _strip(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
