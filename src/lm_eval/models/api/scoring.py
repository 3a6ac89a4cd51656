"""Scoring plans: log-likelihood requests → what is sent, in as few requests as the server allows.

Requests that share one context form a ``SpanGroup``. If every continuation is one token, one request for
the likeliest next tokens scores them all. Tokens that are not among those, and all other continuations,
are sent together with their context and scored by the log-probs of the prompt (``echo``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from lm_eval.errors import ModelError
from lm_eval.requests import LoglikelihoodRequest, RollingRequest

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

_DOCS_AHEAD = 64
CHOICES_PER_REQUEST = 32
Score = tuple[float, bool]


@dataclass(frozen=True, slots=True)
class Ability:
    """What a server can do, as a probe found out."""

    echo: bool
    why_no_echo: str = ""
    top: int = 0
    """How many likeliest tokens one request returns; 0 if none, or if they disagree with ``echo``."""
    batch: bool = False
    lead: int = 0
    """How many tokens the server puts before a text."""


@dataclass(frozen=True, slots=True)
class PromptSpan:
    """One text to score: ``tokens`` from ``ctxlen`` on. ``text`` is sent in their place, if given."""

    index: int
    tokens: list[int]
    ctxlen: int
    text: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.ctxlen == len(self.tokens)


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """Spans of one task with one context. ``context_text`` is sent in its place, if given."""

    task: str
    spans: tuple[PromptSpan, ...]
    context_text: str | None = None
    labels: tuple[str | None, ...] = ()
    """The text of each span's only token; empty if a continuation has several tokens."""

    @property
    def context(self) -> list[int]:
        first = self.spans[0]
        return first.tokens[: first.ctxlen]

    def prompts(self, ability: Ability) -> int:
        """How many prompts its scores take."""
        return 1 if self.uses_top(ability) else sum(not span.is_empty for span in self.spans)

    def uses_top(self, ability: Ability) -> bool:
        return bool(self.labels and ability.top) and (len(self.spans) > 1 or not ability.echo)


class Planner:
    """Turns requests into groups, by the current values of a model's arguments."""

    def __init__(self, model: TemplateAPI) -> None:
        self._model = model
        self.truncated = 0
        self.cut_tokens = 0
        self.empty = 0
        self._labels: dict[int, str | None] = {}

    @property
    def _window(self) -> int:
        """How many tokens a request may hold: one is generated."""
        return int(self._model.max_length) - 1

    def _text(self, tokens: list[int]) -> str | None:
        """The text that is sent in place of tokens; None if the tokens are."""
        return None if self._model.tokenized_requests else self._model.decode_batch([tokens])[0]

    def _bare(self, texts: list[str]) -> list[list[int]]:
        """The tokens of texts with nothing before them."""
        return self._model.encode_texts(texts, add_special_tokens=False) if texts else []

    def groups(self, requests: Iterable[LoglikelihoodRequest]) -> Iterator[SpanGroup]:
        """The groups of the requests, in order; tokens are made for a few dozen docs at a time."""
        runs = (list(run) for _, run in groupby(enumerate(requests), key=_context_key))
        while ahead := list(islice(runs, _DOCS_AHEAD)):
            yield from self._encoded(ahead)

    def _encoded(self, runs: list[list[tuple[int, LoglikelihoodRequest]]]) -> Iterator[SpanGroup]:
        texts: list[str] = []
        bare: list[str] = []
        split: list[tuple[str, list[str]]] = []
        for run in runs:
            rendered = self._model.render(run[0][1].context)
            context = rendered.rstrip()
            endings = [rendered[len(context) :] + request.continuation for _, request in run]
            split.append((context, endings))
            if context:
                texts += [context, *(context + ending for ending in endings)]
            else:
                bare += endings
        tokens = iter(self._model.encode_texts(texts) if texts else [])
        bare_tokens = iter(self._bare(bare))
        for run, (context, endings) in zip(runs, split, strict=True):
            if context:
                before = next(tokens)
                wholes = [next(tokens) for _ in endings]
                after = [whole[len(before) :] for whole in wholes]
                has_seam = all(whole[: len(before)] == before for whole in wholes)
            else:
                before = [self._model.prefix_token_id]
                after = [_without(next(bare_tokens), before[0]) for _ in endings]
                has_seam = True
            group = self._group(run, before, after, context or None, endings)
            # If a token spans the seam, the next token after the context is not the continuation.
            yield group if has_seam else replace(group, labels=())

    def _group(
        self,
        run: Sequence[tuple[int, LoglikelihoodRequest]],
        before: list[int],
        after: list[list[int]],
        context: str | None,
        endings: list[str],
    ) -> SpanGroup:
        spans = []
        for (index, request), tokens, ending in zip(run, after, endings, strict=True):
            cut = self._cut(len(before) + len(tokens), len(tokens), request)
            known = None if cut or context is None else context + ending
            spans.append(self._span(index, before[cut:] + tokens, len(before) - cut, known))
        is_single = all(len(tokens) == 1 for tokens in after)
        labels = tuple(self._label(tokens[0]) for tokens in after) if is_single else ()
        group = SpanGroup(run[0][1].task, tuple(spans), labels=labels)
        if self._model.tokenized_requests or not labels:
            return group
        is_whole = context is not None and len(group.context) == len(before)
        return replace(group, context_text=context if is_whole else self._text(group.context))

    def _span(
        self, index: int, tokens: list[int], ctxlen: int, text: str | None = None
    ) -> PromptSpan:
        if self._model.tokenized_requests:
            return PromptSpan(index, tokens, ctxlen)
        return PromptSpan(index, tokens, ctxlen, self._text(tokens) if text is None else text)

    def span(self, index: int, before: list[int], after: list[int]) -> PromptSpan:
        """A pair of token lists, cut to the window from the front."""
        tokens = (before + after)[-self._window :]
        return self._span(index, tokens, len(tokens) - len(after))

    def cut_prompt(self, length: int, room: int) -> int:
        """How many tokens a prompt loses to fit; counted."""
        cut = max(0, length - room)
        self.truncated += cut > 0
        self.cut_tokens += cut
        return cut

    def _label(self, token: int) -> str | None:
        if token not in self._labels:
            self._labels[token] = self._model.only_text(token)
        return self._labels[token]

    def _cut(self, length: int, ending: int, request: Any) -> int:
        """How many tokens are cut from the front; a continuation is never cut."""
        if not ending:
            self.empty += 1
            return 0
        if ending >= self._window:
            raise ModelError(
                f"Task {request.task!r}, doc {request.doc_id}: a continuation of {ending} tokens "
                f"leaves no room for a context in max_length {self._window + 1}. Raise max_length "
                "in --model_args if the model allows it, or leave the doc out with --samples."
            )
        return self.cut_prompt(length, self._window)

    def windows(self, requests: Iterable[RollingRequest]) -> Iterator[SpanGroup]:
        """For each text, spans that score each of its tokens once, after as much context as fits."""
        numbered = enumerate(requests)
        while ahead := list(islice(numbered, _DOCS_AHEAD)):
            encoded = self._bare([request.text for _, request in ahead])
            for (index, request), tokens in zip(ahead, encoded, strict=True):
                spans = list(self._windows(index, [self._model.prefix_token_id, *tokens]))
                yield SpanGroup(request.task, tuple(spans))

    def _windows(self, index: int, tokens: list[int]) -> Iterator[PromptSpan]:
        last = len(tokens) - 1
        size = self._window - 1
        if last == 0:
            yield self._span(index, tokens, 1)
        for scored in range(0, last, size):
            end = min(scored + size, last)
            sent = tokens[max(0, end - size) : end + 1]
            yield self._span(index, sent, len(sent) - (end - scored))


def _context_key(numbered: tuple[int, LoglikelihoodRequest]) -> tuple[int, str]:
    """Equal for consecutive requests that share a context; by identity, as contexts are long."""
    _, request = numbered
    return id(request.context), request.task


def _without(tokens: list[int], prefix: int) -> list[int]:
    return tokens[1:] if tokens[:1] == [prefix] else tokens


def packed(
    groups: Iterable[SpanGroup], ability: Ability, batch_size: int
) -> Iterator[list[SpanGroup]]:
    """Lists of groups of one task whose prompts fill ``batch_size``; at least one group each."""
    pack: list[SpanGroup] = []
    size = 0
    for group in groups:
        prompts = group.prompts(ability)
        if pack and (size + prompts > batch_size or group.task != pack[0].task):
            yield pack
            pack, size = [], 0
        pack.append(group)
        size += prompts
    if pack:
        yield pack
