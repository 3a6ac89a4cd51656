"""The built-in filters: take the answer out of a response, rewrite it, or choose among responses.

In: for each request the list of its responses. Out: as many entries, in the same order. Names, options
and results are those of EleutherAI's harness.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from lm_eval.config.limits import bounded_match
from lm_eval.errors import ConfigError, FieldError, listing
from lm_eval.harness.filters.pipeline import Filter, Responses, each, each_text

# Take the answer out

NUMBER_AFTER_HASHES = r"#### (\-?[0-9\.\,]+)"
_TAGGED_TOKEN = re.compile(r"\('([^']*)', '([^']*)'\)")


class RegexFilter(Filter):
    """One match of a pattern, stripped; ``fallback`` if there is none.

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
        match = self._match(self.regex, response)
        if match is None:
            return self.fallback
        if match == ():
            return _strip(self.fallback)
        return match

    def _match(self, regex: re.Pattern[str], response: Any) -> Any:
        """The selected match; ``()`` if all of its groups are empty, None without a match."""
        text = response if isinstance(response, str) else ""
        matches = bounded_match(regex.findall, text, pattern=regex.pattern, owner="Filter")
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
        self._ignored = [re.compile(pattern) for pattern in regexes_to_ignore or ()]

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        return [self._letters(some, choices_of(doc)) for some, doc in zip(resps, docs, strict=True)]

    def _letters(self, responses: Iterable[Any], choices: Iterable[str]) -> list[Any]:
        texts = [self._plain(choice.strip()) for choice in choices]
        letters = [chr(ord("A") + place) for place in range(len(texts))]
        # A text that occurs twice is the later choice.
        of_text = {text: f"({letter})" for text, letter in zip(texts, letters, strict=True)}
        of_letter = {letter: f"({letter})" for letter in letters}
        # Longest first: otherwise "Guilty" would be found inside "Guilty of Romance".
        any_text = re.compile("|".join(sorted(map(re.escape, texts), key=len, reverse=True)))
        any_letter = re.compile(rf":[\s]*({'|'.join(map(re.escape, letters))})")
        answers = []
        for response in responses:
            answer = self._match(self.regex, response) or None
            if not answer:
                answer = self._look_up(any_text, self._plain(response), of_text)
            if not answer:
                answer = self._look_up(any_letter, response, of_letter)
            answers.append(answer or self.fallback)
        return answers

    def _look_up(self, regex: re.Pattern[str], response: Any, names: Mapping[str, str]) -> Any:
        match = self._match(regex, response)
        return names.get(match, match) if match else None

    def _plain(self, text: Any) -> str:
        """The text without what is to be ignored."""
        if not isinstance(text, str):
            return ""
        for regex in self._ignored:
            replace = partial(regex.sub, "")
            text = bounded_match(replace, text, pattern=regex.pattern, owner="Filter")
        if self.ignore_case:
            text = text.lower()
        if self.ignore_punctuation:
            text = "".join(c for c in text if not unicodedata.category(c).startswith("P"))
        return str(text)


def choices_of(doc: Mapping[str, Any]) -> Iterable[str]:
    """The doc's field ``choices``: this filter looks there, whatever the task says."""
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


# Rewrite each response


class _TextFilter(Filter):
    """Changes each text by itself and takes no options."""

    change: ClassVar[Callable[[str], str]]

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(type(self).change, resps)


class LowercaseFilter(_TextFilter):
    """Responses in lower case."""

    change = str.lower


class UppercaseFilter(_TextFilter):
    """Responses in upper case."""

    change = str.upper


class WhitespaceFilter(Filter):
    """Responses without white space at their ends."""

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each_text(str.strip, resps)


class MapFilter(Filter):
    """Each response looked up in ``mapping_dict``; ``default_value`` if it is not a key."""

    def __init__(
        self, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None
    ) -> None:
        if mapping_dict is not None and not isinstance(mapping_dict, Mapping):
            raise ConfigError(f"mapping_dict must be a mapping, not {mapping_dict!r}.")
        self.mapping_dict = mapping_dict or {}
        self.default_value = default_value

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return each(self._look_up, resps)

    def _look_up(self, response: Any) -> Any:
        try:
            return self.mapping_dict.get(response, self.default_value)
        except TypeError:  # a list cannot be a key
            return self.default_value


SPAN_LABELS = {
    "PER": ("person", "people", "persons", "per"),
    "LOC": ("location", "counties", "places", "country", "continent", "loc"),
    "ORG": ("organization", "company", "org"),
    "DATE": ("time", "date"),
}
_LABEL_OF = {word: label for label, words in SPAN_LABELS.items() for word in words}
_LABEL_WORD = re.compile(rf"\b({'|'.join(_LABEL_OF)})\s*:")
_SPANS = re.compile(rf"\b({'|'.join(SPAN_LABELS)}):\s*([^$]+)")


def format_spans(text: str) -> str:
    """The entities in a text such as ``Person: Ada $$ LOCATION: Rome, Kenya``."""
    labelled = _LABEL_WORD.sub(lambda match: f"{_LABEL_OF[match[1]]}:", text.lower())
    fields = labelled.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    entities = []
    for label, names in _SPANS.findall(fields):
        stripped = (name.strip() for name in names.split(","))
        entities += [f"{label.lower()}: {name}" for name in stripped if name.lower() != "none"]
    return " $ ".join(entities)


class SPANFilter(_TextFilter):
    """Named entities as ``label: entity $ label: entity``, from any of several spellings.

    Labels become ``per``, ``loc``, ``org`` or ``date``; entities called ``none`` are left out.
    """

    change = format_spans


class CustomFilter(Filter):
    """``filter_fn(resps, docs)``, the task's own function over all responses."""

    def __init__(self, filter_fn: Callable[..., Responses]) -> None:
        self.filter_fn = filter_fn

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:
        return self.filter_fn(resps, docs)


# Choose among responses


class TakeFirstFilter(Filter):
    """The first response, which is no longer a list: a later step sees its letters."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return [some[:1] if isinstance(some, str) else some[0] for some in resps]


class TakeKFilter(Filter):
    """The first ``k`` responses; the task's ``repeats`` must give that many."""

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        resps = list(resps)
        if resps and len(resps[0]) < self.k:
            raise ConfigError(
                f"The filter take_first_k takes {self.k} responses to each request, and there are "
                f"{len(resps[0])}. Set `repeats: {self.k}` in the task, or a smaller `k`."
            )
        return [some[: self.k] for some in resps]


class MajorityVoteFilter(Filter):
    """A list of one: the most frequent response, of equally frequent ones the first seen."""

    def __init__(self) -> None:
        pass

    def apply(self, resps: Responses, docs: Sequence[Mapping[str, Any]]) -> Responses:  # noqa: ARG002
        return [_most_frequent(some) for some in resps]


def _most_frequent(responses: Iterable[Any]) -> list[Any]:
    counts: Counter[Any] = Counter(responses)
    return [response for response, _ in counts.most_common(1)]
