"""What answers with one model: its scorers, its generator and its batches, made for the model as it is.

What scorers find out about a model holds as long as the model stays what it was. A program may put
another in its place or change its modules between two runs, so ``fingerprint`` is compared before each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lm_eval.models.hf.auto_batch import AutoBatch, is_out_of_memory
from lm_eval.models.hf.forward import (
    PairScorer,
    PlainScorer,
    find_rope_switch,
    forget_lengths,
    score_error,
)
from lm_eval.models.hf.generation import BatchGenerator, BatchJob, Endings
from lm_eval.models.hf.options import auto_batch
from lm_eval.models.hf.tokens import Tokens
from lm_eval.models.hf.tree_forward import (
    TreeForward,
    bytes_per_token,
    free_memory,
    refusal,
    vocabulary_size,
)
from lm_eval.models.local.token_tree import (
    Chunk,
    Limits,
    Node,
    Span,
    TokenTree,
    chunks,
    set_aside_empty,
    trees,
)
from lm_eval.requests import Reply

# Log-probs of token spans, each shared beginning evaluated once
#
# ``token_tree`` says what to evaluate when; ``tree_forward`` evaluates it. What a model makes of a tree
# is not taken on trust: the first results are compared with ordinary forwards, and texts for which they
# differ, or whose keys and values take too much memory, are scored by those.


TOKENS_AT_ONCE = 512
"""Tokens per forward pass: enough to keep a processor busy, few enough for attention to be cheap."""
_FEWEST_AT_ONCE = 64
_LOGITS_BYTES = 2**27
_CHECKED_DOCS = 2
_CHECKS_AFTER_AN_ERROR = 8

Plain = Callable[[Iterable[Span]], Iterable[Span]]
"""Ordinary forwards: spans come back with their scores."""


class TreeScorer:
    """Scores spans on one model. ``notes`` says where ordinary forwards were needed, and why.

    ``kv_budget`` is the memory for keys and values in bytes, by default half of what is free.
    """

    def __init__(
        self,
        model: Any,
        *,
        device: Any,
        plain: Plain,
        kv_budget: int | None = None,
        tokens_at_once: int = TOKENS_AT_ONCE,
    ) -> None:
        self._model = model
        self._device = device
        self._plain = plain
        self._kv_budget = kv_budget
        self._check_docs = _CHECKED_DOCS
        self._tokens_at_once = tokens_at_once
        self._checked = 0
        self._switch = find_rope_switch(model.config)
        self._too_long: float = self._switch.length + 1 if self._switch else math.inf
        self._largest_error = 0.0
        self._lacking_memory = 0
        self._beyond_switch = 0
        self._refusal = refusal(model)
        self.tokens_needed = 0
        """Distinct beginnings over all spans, in tokens: the least there is to do."""
        self.tokens_pushed = 0
        """Tokens that went through the model, those of ordinary forwards included."""
        self.tokens_checked = 0
        """Of them, those that only served to compare."""
        self.fallbacks = 0
        """Spans scored by ordinary forwards."""

    @property
    def notes(self) -> list[str]:
        """What a reader of the results may want to know."""
        notes = []
        if self._refusal:
            notes.append(
                f"The prefix cache was not used: {self._refusal}. Texts went through the model as a "
                "whole, which is slower and gives the same scores."
            )
        elif self._largest_error:
            notes.append(
                f"Texts of {self._too_long} tokens and more went through the model as a whole: with "
                f"the prefix cache, the score of one was off by {self._largest_error:.2g}."
            )
        elif self._beyond_switch:
            notes.append(
                f"{self._beyond_switch} texts went through the model as a whole: beyond "
                f"{self._too_long - 1} tokens it encodes positions differently, so that they share no "
                "beginning with shorter ones."
            )
        if self._lacking_memory:
            notes.append(
                f"{self._lacking_memory} texts went through the model as a whole: their keys and "
                f"values do not fit kv_budget={self._kv_budget} (bytes). Raise it in --model_args if "
                "there is memory."
            )
        return notes

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready, in an order of their own."""
        without_targets: list[Span] = []
        for tree in trees(set_aside_empty(spans, without_targets)):
            self.tokens_needed += tree.size
            yield from self._score_tree(tree)
        yield from without_targets

    def _score_tree(self, tree: TokenTree) -> Iterator[Span]:
        """Score a tree. Where that fails, less of it is tried again and the rest scored plainly."""
        while tree.size:
            tree, others = self._divide(tree)
            yield from self._score_plainly(others)
            answered: set[int] = set()
            try:
                for span in self._run(tree):
                    answered.add(id(span))
                    yield span
                return
            except _TreeError:
                tree = TokenTree(span for span in tree.spans() if id(span) not in answered)

    def _divide(self, tree: TokenTree) -> tuple[TokenTree, list[Span]]:
        """What to score as a tree, and what not."""
        if self._refusal is not None:
            return TokenTree(), list(tree.spans())
        fits = self._kv_tokens() - min(_FEWEST_AT_ONCE, self._tokens_at_once)
        most = min(fits, self._too_long - 1)
        if tree.longest <= most:
            return tree, []
        spans = list(tree.spans())
        others = [span for span in spans if len(span.inputs) > most]
        count = len(_one_per_text(others))
        if fits < self._too_long - 1:
            self._lacking_memory += count
        elif not self._largest_error:
            self._beyond_switch += count
        return TokenTree(span for span in spans if len(span.inputs) <= most), others

    def _kv_tokens(self) -> int:
        if self._kv_budget is None:
            self._kv_budget = free_memory(self._device) // 2
        return self._kv_budget // bytes_per_token(self._model)

    # -- trees -------------------------------------------------------------------------------

    def _run(self, tree: TokenTree) -> Iterator[Span]:
        """Evaluate a tree. Nothing is given away before the first scores are checked."""
        for span in tree.spans():
            span.reset()
        if self._switch and self._switch.grows:
            forget_lengths(self._model)
        at_once = min(self._tokens_at_once, self._kv_tokens() - tree.longest)
        forward = TreeForward(
            self._model, self._device, longest=tree.longest, tokens_at_once=at_once
        )
        trial = self._begin(forward, tree) if self._checked < tree.longest else None
        held: list[Span] = []
        for chunk in chunks(tree, self._limits(at_once), trial.opening if trial else None):
            held += self._evaluate(forward, chunk)
            if self._checked < tree.longest:
                if not (trial.is_done if trial else self._has_enough(held)):
                    continue
                self._check(held, trial)
                self._checked = tree.longest
            yield from self._rescore_non_finite(held)
            held = []
        if held:
            self._check(held, trial)
            self._checked = tree.longest
            yield from self._rescore_non_finite(held)

    def _begin(self, forward: TreeForward, tree: TokenTree) -> _Trial | None:
        """Evaluate the longest text as a whole: to compare with, and to continue its beginning.

        Not where layers have windows, or after an error: then what is compared must be chosen with
        more care.
        """
        opening = tree.opening()
        if opening is None or forward.has_windows or self._largest_error:
            return None
        trial = _Trial(opening, tree.longest_text)
        try:
            forward.begin(trial.plain, keep=opening.end)
        except Exception as error:  # as below
            self._back_off(error)
            raise _TreeError from error
        self.tokens_pushed += trial.text.end
        self.tokens_checked += trial.text.end - opening.end
        return trial

    def _has_enough(self, held: Sequence[Span]) -> bool:
        return len(_one_per_text(held)) >= self._check_docs

    def _limits(self, at_once: int) -> Limits:
        row = 4 * vocabulary_size(self._model)
        return Limits(at_once, reads=max(1, _LOGITS_BYTES // row))

    def _evaluate(self, forward: TreeForward, chunk: Chunk) -> list[Span]:
        try:
            scores = forward.scores(chunk)
        except Exception as error:  # whatever a model's code makes of what it was not written for
            self._back_off(error)
            raise _TreeError from error
        self.tokens_pushed += len(chunk.tokens)
        spans = [span for _, reads in chunk.reads for span, _ in reads]
        return [span for span, score in zip(spans, scores, strict=True) if span.add(*score)]

    def _back_off(self, error: Exception) -> None:
        """After a failed pass: fewer tokens at once if memory ran out, else no more trees."""
        if not is_out_of_memory(error):
            reason = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
            self._refusal = f"the model refuses it ({reason})"
        elif self._tokens_at_once // 2 >= _FEWEST_AT_ONCE:
            self._tokens_at_once //= 2
        else:
            self._refusal = "memory ran out"

    # -- ordinary forwards -------------------------------------------------------------------

    def _check(self, spans: Sequence[Span], trial: _Trial | None) -> None:
        """Compare some scores with those of ordinary forwards, already made in a trial.

        If one differs, texts of about that length and longer are no longer scored in trees: what
        goes wrong, such as a window that a model applies in its own way, goes wrong from a length on.
        """
        if trial:
            sample, plain = trial.text.spans, trial.plain
        else:
            sample = _sample(_one_per_text(spans), self._check_docs)
            plain = [_unscored(span) for span in sample]
            list(self._plain(plain))
            pushed = sum(len(span.inputs) for span in sample)
            self.tokens_checked += pushed
            self.tokens_pushed += pushed
        errors = [self._error(span, other) for span, other in zip(sample, plain, strict=True)]
        if any(errors):
            # The longest: beside it, shorter texts may go wrong that are right without it.
            longest = max(len(s.inputs) for s, e in zip(sample, errors, strict=True) if e)
            self._too_long = min(self._too_long, 2 ** (longest.bit_length() - 1))
            self._largest_error = max(self._largest_error, *errors)
            self._check_docs = max(self._check_docs, _CHECKS_AFTER_AN_ERROR)
            raise _TreeError

    def _error(self, span: Span, plain: Span) -> float:
        return score_error(self._model, span.logprob, plain.logprob, len(span.targets))

    def _rescore_non_finite(self, spans: Sequence[Span]) -> Iterator[Span]:
        """The spans; those whose log-prob is not finite are scored again, by ordinary forwards."""
        yield from (span for span in spans if math.isfinite(span.logprob))
        yield from self._score_plainly([s for s in spans if not math.isfinite(s.logprob)])

    def _score_plainly(self, spans: Sequence[Span]) -> Iterator[Span]:
        """Score spans by ordinary forwards, the longest first; those of one text go together."""
        self.fallbacks += len(spans)
        self.tokens_pushed += sum(len(span.inputs) for span in _one_per_text(spans))
        for span in spans:
            span.reset()
        yield from self._plain(sorted(spans, key=lambda span: -len(span.inputs)))


class _Trial:
    """A text that went through the model as a whole, and the beginning of it that was kept."""

    def __init__(self, opening: Node, text: Node) -> None:
        self.opening = opening
        self.text = text
        self.plain = [_unscored(span) for span in text.spans]

    @property
    def is_done(self) -> bool:
        """Whether the tree has come to the text."""
        return not any(span.missing for span in self.text.spans)


def _unscored(span: Span) -> Span:
    return Span(span.place, span.inputs, span.targets)


class _TreeError(Exception):
    """A tree could not be scored as one."""


def _node(span: Span) -> object:
    """What spans of the same text have in common, once they are in a tree."""
    return getattr(span.inputs, "node", span.inputs)


def _one_per_text(spans: Iterable[Span]) -> list[Span]:
    return list({id(_node(span)): span for span in spans}.values())


def _sample(spans: Sequence[Span], size: int) -> list[Span]:
    """The longest span, the last one, which is furthest from its beginning, and the first ones."""
    longest = max(spans, key=lambda span: len(span.inputs))
    chosen = {id(span): span for span in (longest, spans[-1], *spans)}
    return list(chosen.values())[:size]


# The engine of one model


_NEEDED = ("config", "get_input_embeddings", "forward", "dtype", "modules")


@dataclass(frozen=True)
class EngineOptions:
    """How an engine works; ``rows`` per pass None: as many as fit, at most ``most_rows``."""

    device: Any
    rows: int | None
    most_rows: int
    reads_apart: bool
    prefix_cache: bool
    kv_budget: int | None


class HFEngine:
    """Scores spans and continues prompts with one model of ``transformers``."""

    def __init__(
        self, model: Any, tokens: Tokens, endings: Endings, options: EngineOptions
    ) -> None:
        self.model = model
        self.tokens = tokens
        self.endings = endings
        self.options = options
        self.scoring = self._batch()
        self.generating = self._batch()
        self._generator: BatchGenerator | None = None

    def _batch(self) -> AutoBatch:
        return auto_batch(self.options.rows, self.options.most_rows, self.options.device)

    @cached_property
    def scorers(self) -> Sequence[PairScorer | PlainScorer | TreeScorer]:
        """The one that answers first, then the one it falls back to."""
        model, device = self.model, self.options.device
        if self.options.reads_apart:
            return [PairScorer(model, device=device, batch=self.scoring)]
        plain = PlainScorer(model, device=device, batch=self.scoring)
        if not self.options.prefix_cache:
            return [plain]
        budget = self.options.kv_budget
        return [TreeScorer(model, device=device, plain=plain.score, kv_budget=budget), plain]

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, by the best way this model allows."""
        return self.scorers[0].score(spans)

    def generate(self, jobs: Iterable[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        """``(job, reply)`` as batches are complete."""
        self._generator = BatchGenerator(
            self.model,
            self.tokens,
            self.endings,
            device=self.options.device,
            batch=self.generating,
            prefix_cache=self.options.prefix_cache,
        )
        return self._generator.generate(jobs)

    @property
    def tokens_counted(self) -> dict[str, int]:
        """How many tokens texts have, and how many of them went through the model."""
        scorer = self.scorers[0]
        if not isinstance(scorer, TreeScorer):
            return {}
        return {"tokens_needed": scorer.tokens_needed, "tokens_pushed": scorer.tokens_pushed}

    @property
    def notes(self) -> list[str]:
        """What a reader of the results should know."""
        notes = []
        if shrunk := self.scoring.shrunk + self.generating.shrunk:
            notes.append(
                f"Memory ran out {shrunk} times and smaller batches were taken; scores are the "
                "same. A smaller batch_size saves the time."
            )
        for scorer in self.scorers:
            notes += scorer.notes
        if self._generator is not None:
            notes += self._generator.notes
        return notes


def is_usable(model: Any) -> bool:
    """Whether an engine can work with this: a causal or encoder-decoder model of ``transformers``."""
    return all(hasattr(model, name) for name in _NEEDED)


def fingerprint(model: Any) -> tuple[Any, ...]:
    """Equal as long as a model has the same modules and nobody changed what they compute."""
    return (
        id(model),
        *(
            (id(type(module)), len(module._forward_hooks), id(vars(module).get("forward")))
            for module in model.modules()
        ),
    )
