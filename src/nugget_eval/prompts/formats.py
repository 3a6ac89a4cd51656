"""``NuggetFormat``, both halves of a prompt: how labels are asked for and how a reply is read.

In: the names of a prompt type, an output format, a domain and a language. Out: one value that writes the
system message, the user message for any data and a correct reply, and reads the labels in any reply.
``compose_prompt`` and ``build_template_prompt`` make the whole chat.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import listing
from lm_eval.formats.assemble import Chat, Message
from lm_eval.formats.compile import compile_format
from lm_eval.formats.grammar import Grammar, Hole
from lm_eval.formats.items import Item
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.readers import bind_reader
from nugget_eval.errors import PromptError
from nugget_eval.prompts.catalogue import (
    BUILTIN,
    Domain,
    Language,
    OutputFormat,
    PromptType,
    Texts,
    fill,
    get_domain,
    get_language,
    get_output_format,
    get_prompt_type,
)
from nugget_eval.prompts.examples import Example, LeftOut, as_example, without_leaks
from nugget_eval.prompts.fence import Data, as_item, mark_for, shielded
from nugget_eval.reading.outcome import LabelReading
from nugget_eval.reading.spellings import LABELS

_LONGEST_REASON = 200
_BLANK = "\0"
EXAMPLE_LABELS = ("support", "not_support", "partial_support")


@dataclass(frozen=True)
class PromptInfo:
    """What identifies a prompt: ``fingerprint`` changes when a text of it does."""

    name: str
    summary: str
    best_for: str
    version: str
    changelog: Mapping[str, str]
    fingerprint: str
    reasons: bool


@dataclass(frozen=True, eq=False)
class NuggetFormat:
    """One way to ask for labels and to read them: a prompt's definitions, put together.

    ``user`` is the user's message as a format of lm_eval; its reader wants every label to be there.
    """

    prompt_type: PromptType
    output: OutputFormat
    language: Language
    domain: Domain | None
    user: PromptFormat

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hex digits over everything that changes a prompt or its reading."""
        words = self._format_words
        asked = [self.template, self.prompt_type.output_words, words]
        language = [self.language.notice, self.language.closing, self.language.retry]
        content = [asked, language, dict(self.output.answer), self.user.fingerprint]
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def info(self) -> PromptInfo:
        """What identifies the prompt, for results to carry."""
        prompt = self.prompt_type
        return PromptInfo(
            prompt.name,
            prompt.summary,
            prompt.best_for,
            prompt.version,
            dict(prompt.changelog),
            self.fingerprint,
            prompt.reasons,
        )

    # Asking

    @cached_property
    def template(self) -> str:
        """The system message before its placeholders are filled."""
        sections = [self._parts["task"], self._section, self._parts["output"]]
        return "\n\n".join(filter(None, sections))

    def system_text(self, number: int) -> str:
        """The system message for ``number`` nuggets."""
        return _system_text(self, number)

    def user_turn(
        self, data: Data, seed: object, *, retry_reason: str | None = None
    ) -> tuple[str, str]:
        """The user's message and its mark."""
        mark = mark_for(data, seed)
        closing = _closing(self, len(data.nuggets))
        if retry_reason is not None:
            closing += "\n" + self._retry(retry_reason, len(data.nuggets))
        doc = {
            "mark": mark,
            "query": shielded(data.query),
            "passage": shielded(data.passage),
            "notice": fill(self.language.notice, {"mark": mark}),
            "closing": closing,
        }
        item = Item(doc, "", tuple(as_item(nugget) for nugget in data.nuggets), ())
        return self.user.question_turn(item).user, mark

    def reply(self, example: Example) -> str:
        """A correct reply to an example, with reasoning if the prompt type asks for it."""
        answer = self.output.write(example.labels)
        if not self.prompt_type.reasons:
            return answer
        if not example.has_reasoning:
            raise PromptError(
                f"Prompt type {self.prompt_type.name!r} asks for reasoning, and the example "
                f"{example.query!r:.60} has none. Give it a snippet and a rationale for each nugget."
            )
        fields = (example.nuggets, example.snippets, example.rationales, example.labels)
        items = [_REASONED.format(k, *row) for k, *row in zip(count(1), *fields)]
        return f"<reasoning>\n{''.join(items)}</reasoning>\n{answer}"

    # Reading

    def read(self, reply: str, count: int, data: Sequence[str] = ()) -> LabelReading:
        """The labels that a reply gives to the ``count`` nuggets it was asked about, shown ``data``."""
        return self.output.read(reply, count, data)

    def grammar(self, count: int) -> Grammar:
        """The grammar of a complete reply to ``count`` nuggets: reasons if asked for, then labels."""
        texts = self.output.write([_BLANK] * count).split(_BLANK)
        hole = Hole(choices=tuple(LABELS))
        parts = [part for text in texts for part in (text, hole)][:-1]
        filled = tuple(part for part in parts if part)
        if self.prompt_type.reasons:
            return Grammar(("\n", *filled), "</reasoning>")
        return Grammar(filled)

    # Inside

    @cached_property
    def _parts(self) -> Texts:
        """The prompt type's parts in this language."""
        texts = self.prompt_type.texts
        parts = texts.get(self.language.name) or self.language.texts.get(self.prompt_type.name)
        if parts is None:
            raise PromptError(
                f"Prompt type {self.prompt_type.name!r} has no text in {self.language.name!r}. It is "
                f"written in: {listing(texts)}."
            )
        pieces = self.language.pieces
        pieces = {name: fill(text, pieces) for name, text in pieces.items()}  # one may hold another
        return {name: fill(text, pieces) for name, text in parts.items()}

    @cached_property
    def _section(self) -> str:
        if self.domain is None:
            return ""
        try:
            return self.domain.texts[self.language.name]
        except KeyError:
            raise PromptError(
                f"Domain {self.domain.name!r} has no text in {self.language.name!r}. It is written "
                f"in: {listing(self.domain.texts)}."
            ) from None

    @cached_property
    def _format_words(self) -> dict[str, str]:
        """What the language says about the output format: its own words before the general ones."""
        try:
            return {**self.language.output, **self.language.formats[self.output.name]}
        except KeyError:
            raise PromptError(
                f"Language {self.language.name!r} has no words for format type "
                f"{self.output.name!r}. It has: {listing(self.language.formats)}."
            ) from None

    def _retry(self, reason: str, number: int) -> str:
        """Why it is asked again. A reason may quote the reply, so it is kept short and on one line."""
        shown = shielded(" ".join(reason.split()))[:_LONGEST_REASON]
        return fill(self.language.retry, {"reason": shown, "num_nuggets": number})

    def said(self, name: str, number: int) -> str:
        """A text about the output format, filled.

        Its example never has as many labels as there are nuggets: a model that repeats it has
        given no answer, and is not taken to have given one.
        """
        words = self._format_words
        example = EXAMPLE_LABELS if number != len(EXAMPLE_LABELS) else EXAMPLE_LABELS[:2]
        values = {
            "form": words["form"],
            "place": words["many_lines" if self.output.many_lines else "one_line"],
            "num_nuggets": number,
            "example_count": len(example),
            "example": self.output.write(example),
        }
        return fill(words[name], values)


_REASONED = '{}.\n  nugget="{}"\n  snippet="{}"\n  rationale="{}"\n  decision="{}"\n'


# Items of one run differ in their data; what is said around them is the same for each number of nuggets.
@lru_cache(maxsize=1024)
def _system_text(how: NuggetFormat, number: int) -> str:
    values = {"num_nuggets": number, "output": how.said(how.prompt_type.output_words, number)}
    return fill(how.template, values)


@lru_cache(maxsize=1024)
def _closing(how: NuggetFormat, number: int) -> str:
    reminder = how.said(f"{how.prompt_type.output_words}_reminder", number)
    return fill(how.language.closing, {"num_nuggets": number, "reminder": reminder})


def nugget_format(
    prompt_type: str, format_type: str = "json", *, domain: str | None = None, language: str = "en"
) -> NuggetFormat:
    """The format made of these definitions; an unknown name is an error that lists the valid ones."""
    return _put_together(
        get_prompt_type(prompt_type),
        get_output_format(format_type),
        get_language(language),
        None if domain is None else get_domain(domain),
    )


@lru_cache(maxsize=256)
def _put_together(
    prompt_type: PromptType, output: OutputFormat, language: Language, domain: Domain | None
) -> NuggetFormat:
    made = NuggetFormat(prompt_type, output, language, domain, _user_format(output.name))
    made.system_text(1)  # a combination without text says so here
    return made


def prompt_info(
    prompt_type: str, format_type: str = "json", *, domain: str | None = None, language: str = "en"
) -> PromptInfo:
    """Version, changelog and fingerprint of a prompt; results carry them."""
    return nugget_format(prompt_type, format_type, domain=domain, language=language).info


@lru_cache(maxsize=16)
def _user_format(format_type: str) -> PromptFormat:
    from lm_eval.config.yaml import load_yaml

    file = BUILTIN / "user.yaml"
    reader = bind_reader({"reader": "nugget_labels", "format_type": format_type})
    return replace(compile_format(load_yaml(file), where=str(file)), scorer=reader)


@dataclass(frozen=True)
class TemplatePrompt:
    """A prompt and what has to be known about it afterwards."""

    chat: Chat
    mark: str
    format: NuggetFormat
    examples: tuple[Example, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as ``{"role": …, "content": …}`` messages, the system's first."""
        return self.chat.as_dicts()


def compose_prompt(
    prompt_type: str,
    query: str,
    passage: str,
    nuggets: Sequence[str],
    format_type: str = "json",
    *,
    seed: object = 0,
    domain: str | None = None,
    language: str = "en",
    examples: Sequence[Example | Mapping[str, Any]] = (),
    retry_reason: str | None = None,
) -> TemplatePrompt:
    """As ``build_template_prompt``, with the mark, the fingerprint and the examples left out.

    ``retry_reason`` says why an earlier reply could not be used; it ends the prompt.
    """
    how = nugget_format(prompt_type, format_type, domain=domain, language=language)
    data = _checked_data(query, passage, nuggets)
    shots = [
        as_example(example, where=f"Example {number}") for number, example in enumerate(examples, 1)
    ]
    kept, left_out = without_leaks(shots, data)
    messages = [Message("system", how.system_text(len(data.nuggets)))]
    for example in kept:
        messages.append(Message("user", how.user_turn(example.data, seed)[0]))
        messages.append(Message("assistant", how.reply(example)))
    user, mark = how.user_turn(data, seed, retry_reason=retry_reason)
    chat = Chat((*messages, Message("user", user)))
    return TemplatePrompt(chat, mark, how, kept, left_out)


def build_template_prompt(
    prompt_type: str,
    query: str,
    passage: str,
    nuggets: Sequence[str],
    format_type: str = "json",
    *,
    seed: object = 0,
    domain: str | None = None,
    language: str = "en",
    examples: Sequence[Example | Mapping[str, Any]] = (),
) -> list[dict[str, str]]:
    """The chat messages that ask a judge for one label per nugget: system, then user.

    Query, passage and nuggets are enclosed by lines with a mark that occurs nowhere in them and follows
    from ``seed`` and the data, so the same call gives the same prompt. ``examples`` come in between, as
    turns of user and assistant; one that shares text with the item is left out and logged.
    """
    return compose_prompt(
        prompt_type,
        query,
        passage,
        nuggets,
        format_type,
        seed=seed,
        domain=domain,
        language=language,
        examples=examples,
    ).messages


def _checked_data(query: object, passage: object, nuggets: object) -> Data:
    for name, value in (("query", query), ("passage", passage)):
        if not isinstance(value, str):
            raise PromptError(f"The {name} must be a text, not {shorten(value)}.")
    if isinstance(nuggets, str) or not isinstance(nuggets, Sequence):
        raise PromptError(f"Nuggets must be a list of texts, not {shorten(nuggets)}.")
    if not nuggets:
        raise PromptError(
            f"There are no nuggets to judge (query {shorten(query, 60)}). Leave this item out."
        )
    for number, nugget in enumerate(nuggets, 1):
        if not isinstance(nugget, str):
            raise PromptError(f"Nugget {number} must be a text, not {shorten(nugget)}.")
        if not nugget.strip():
            raise PromptError(f"Nugget {number} of {len(nuggets)} is empty. Give it a text.")
    return Data(str(query), str(passage), tuple(nuggets))
