"""Log-probs of token spans from a transformers model, each shared beginning evaluated once.

``token_tree`` says what to evaluate when; ``tree_forward`` evaluates it. Not every model evaluates a
tree correctly: the first results are compared with ordinary passes. If they differ, all texts are scored
by ordinary passes, as are those whose keys and values need too much memory.

On a CPU a pass of a few hundred tokens is too small to keep several cores busy: they wait for each other
after every step. Large trees are therefore cut into *lanes*, one for each thread.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from lm_eval.models.hf.auto_batch import is_out_of_memory
from lm_eval.models.hf.forward import TokenScores, find_rope_switch, forget_lengths, score_error
from lm_eval.models.hf.tree_forward import (
    TreeForward,
    bytes_per_token,
    free_memory,
    refusal,
    runs_beside_itself,
    vocabulary_size,
)
from lm_eval.models.local.token_tree import (
    Chunk,
    Limits,
    Node,
    Span,
    TokenTree,
    line_of,
    note_readers,
)

TOKENS_AT_ONCE = 512
"""Tokens per forward pass: enough to keep a CPU busy, few enough for attention to be cheap."""
_FEWEST_AT_ONCE = 64
_LOGITS_BYTES = 2**27
_CHECKED_DOCS = 2
_MOST_LANES = 4
_SHORTEST_LANE = 2048
"""The fewest tokens for which another thread pays."""

Plain = Callable[[Iterable[Span]], Iterable[Span]]
"""Ordinary passes: spans come back with their scores."""


class TreeScorer:
    """Scores spans on one model. ``notes`` says when ordinary passes were needed, and why.

    ``kv_budget`` is the memory for keys and values in bytes, by default half of what is free. ``lanes``
    is how many threads share a tree, by default as many as pay.
    """

    def __init__(
        self,
        model: Any,
        *,
        device: Any,
        plain: Plain,
        kv_budget: int | None = None,
        tokens_at_once: int = TOKENS_AT_ONCE,
        lanes: int | None = None,
    ) -> None:
        self._model = model
        self._device = device
        self._plain = plain
        self._kv_budget = kv_budget
        self._tokens_at_once = tokens_at_once
        self._lanes = lanes
        self._checked = 0
        self._switch = find_rope_switch(model.config)
        self._lacking_memory = 0
        self._beyond_switch = 0
        self._refusal = refusal(model)
        self.tokens_needed = 0
        """Tokens in the distinct beginnings of all spans, the fewest that must be evaluated."""
        self.tokens_pushed = 0
        """Tokens that went through the model, those of ordinary passes included."""
        self.tokens_checked = 0
        """How many of them only served to compare."""
        self.fallbacks = 0
        """Spans scored by ordinary passes."""

    @property
    def notes(self) -> list[str]:
        """What a reader of the results may want to know."""
        notes = []
        if self._refusal:
            notes.append(
                f"The prefix cache was not used: {self._refusal}. Texts went through the model as a "
                "whole, which is slower and gives the same scores."
            )
        elif self._beyond_switch and self._switch:
            notes.append(
                f"{self._beyond_switch} texts went through the model as a whole: beyond "
                f"{self._switch.length} tokens it encodes positions differently, so that they share no "
                "beginning with shorter ones."
            )
        if self._lacking_memory:
            notes.append(
                f"{self._lacking_memory} texts went through the model as a whole: their keys and "
                f"values do not fit kv_budget={self._kv_budget} (bytes). Raise it in --model_args if "
                "there is memory."
            )
        return notes

    def score(self, tree: TokenTree) -> Iterator[Span]:
        """The spans of a tree with their scores, as they are ready, in an order of their own.

        If memory runs out, smaller pieces are tried; if the model cannot do it, ordinary passes follow.
        """
        self.tokens_needed += tree.size
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
        """The part to score as a tree, and the other spans."""
        if self._refusal is not None:
            return TokenTree(), list(tree.spans())
        fits = self._kv_tokens() - min(_FEWEST_AT_ONCE, self._tokens_at_once)
        most = min(fits, self._switch.length) if self._switch else fits
        if tree.longest <= most:
            return tree, []
        spans = list(tree.spans())
        others = [span for span in spans if len(span.inputs) > most]
        count = len(_one_per_text(others))
        if most == fits:
            self._lacking_memory += count
        else:
            self._beyond_switch += count
        return TokenTree(span for span in spans if len(span.inputs) <= most), others

    def _kv_tokens(self) -> int:
        if self._kv_budget is None:
            self._kv_budget = free_memory(self._device) // 2
        return self._kv_budget // bytes_per_token(self._model)

    # -- trees -------------------------------------------------------------------------------

    def _run(self, tree: TokenTree) -> Iterator[Span]:
        """Evaluate a tree. No span is returned before the first scores are checked."""
        for span in tree.spans():
            span.reset()
        if self._switch and self._switch.grows:
            forget_lengths(self._model)
        plan = self._plan(tree)
        at_once = min(self._tokens_at_once, self._kv_tokens() // len(plan.parts) - tree.longest)
        forward = TreeForward(
            self._model, self._device, longest=tree.longest, tokens_at_once=at_once
        )
        trial = self._begin(forward, tree) if self._checked < tree.longest else None
        limits = self._limits(at_once)
        opening = trial.opening if trial else None
        first = line_of(_behind(opening, plan.parts[0]), limits, opening)
        held: list[Span] = []
        for chunk in first:
            held += self._take(chunk, self._evaluate(forward, chunk))
            if self._checked < tree.longest:
                if not (trial.is_done if trial else len(_one_per_text(held)) >= _CHECKED_DOCS):
                    continue
                self._check(held, trial)
                self._checked = tree.longest
            yield from self._rescore_non_finite(held)
            held = []
            if len(plan.parts) > 1 and chunk.kept + len(chunk.moved) >= plan.shared:
                break
        if held:
            self._check(held, trial)
            self._checked = tree.longest
            yield from self._rescore_non_finite(held)
        if len(plan.parts) > 1:
            others = [line_of(part, limits, plan.trunk) for part in plan.parts[1:]]
            forks = [forward.fork(plan.shared) for _ in others]
            for done in self._beside([(forward, first), *zip(forks, others, strict=True)]):
                yield from self._rescore_non_finite(done)

    def _plan(self, tree: TokenTree) -> _Lanes:
        """The tree in as many lanes as pay and have room for their keys and values."""
        room = self._kv_tokens() // (tree.longest + self._tokens_at_once)
        note_readers(tree)
        return _lanes(tree, min(self._lane_count(tree), room))

    def _lane_count(self, tree: TokenTree) -> int:
        import torch

        if self._lanes is not None:
            return self._lanes
        pays = min(_MOST_LANES, torch.get_num_threads(), tree.size // _SHORTEST_LANE)
        on_processor = torch.device(self._device).type == "cpu"
        return pays if pays > 1 and on_processor and runs_beside_itself(self._model) else 1

    def _beside(self, work: list[tuple[TreeForward, Iterator[Chunk]]]) -> Iterator[list[Span]]:
        """Evaluate several lines of chunks, each in a thread; the spans of each chunk when it is done.

        Scores do not depend on which thread is faster.
        """
        import torch

        cores = torch.get_num_threads()
        results: SimpleQueue[tuple[Chunk, TokenScores] | Exception | None] = SimpleQueue()
        stops = Event()

        def evaluate(forward: TreeForward, line: Iterator[Chunk]) -> None:
            try:
                torch.set_num_threads(max(1, cores // len(work)))  # of this thread
                for chunk in line:
                    if stops.is_set():
                        break
                    results.put((chunk, forward.scores(chunk)))
            except Exception as error:  # as below
                results.put(error)
            finally:
                results.put(None)

        threads = [Thread(target=evaluate, args=lane, daemon=True) for lane in work]
        try:
            for thread in threads:
                thread.start()
            running = len(threads)
            while running:
                result = results.get()
                if result is None:
                    running -= 1
                elif isinstance(result, Exception):
                    self._back_off(result)
                    raise _TreeError from result
                else:
                    yield self._take(*result)
        finally:
            stops.set()
            for thread in threads:
                thread.join()
            torch.set_num_threads(cores)

    def _begin(self, forward: TreeForward, tree: TokenTree) -> _Trial | None:
        """Evaluate the longest text as a whole: as a reference, and to continue its beginning.

        Not if layers have windows: then what is compared must be chosen with more care.
        """
        opening = tree.opening()
        if opening is None or forward.has_windows:
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

    def _limits(self, at_once: int) -> Limits:
        row = 4 * vocabulary_size(self._model)
        return Limits(at_once, reads=max(1, _LOGITS_BYTES // row))

    def _evaluate(self, forward: TreeForward, chunk: Chunk) -> TokenScores:
        try:
            return forward.scores(chunk)
        except Exception as error:  # a model's code was not written for this and may raise anything
            self._back_off(error)
            raise _TreeError from error

    def _take(self, chunk: Chunk, scores: TokenScores) -> list[Span]:
        """Add the scores to their spans; returns those that are complete."""
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

    # -- ordinary passes ---------------------------------------------------------------------

    def _check(self, spans: Sequence[Span], trial: _Trial | None) -> None:
        """Compare some scores with those of ordinary passes, which a trial has already made."""
        if trial:
            sample, plain = trial.text.spans, trial.plain
        else:
            sample = _sample(_one_per_text(spans), _CHECKED_DOCS)
            plain = [_unscored(span) for span in sample]
            list(self._plain(plain))
            pushed = sum(len(span.inputs) for span in sample)
            self.tokens_checked += pushed
            self.tokens_pushed += pushed
        error = max(
            score_error(self._model, span.logprob, other.logprob, len(span.targets))
            for span, other in zip(sample, plain, strict=True)
        )
        if error:
            self._refusal = f"with it, the score of a text was off by {error:.2g}"
            raise _TreeError

    def _rescore_non_finite(self, spans: Sequence[Span]) -> Iterator[Span]:
        """The spans; those whose log-prob is not finite are scored again, by ordinary passes."""
        yield from (span for span in spans if math.isfinite(span.logprob))
        yield from self._score_plainly([s for s in spans if not math.isfinite(s.logprob)])

    def _score_plainly(self, spans: Sequence[Span]) -> Iterator[Span]:
        """Score spans by ordinary passes."""
        self.fallbacks += len(spans)
        self.tokens_pushed += sum(len(span.inputs) for span in _one_per_text(spans))
        for span in spans:
            span.reset()
        yield from self._plain(spans)


@dataclass(frozen=True)
class _Lanes:
    """A tree in parts of about the same size that can be evaluated in parallel; no span is in two.

    The first part begins with ``trunk``; the others continue after it.
    """

    trunk: Node | None
    parts: list[Iterable[Node]]

    @property
    def shared(self) -> int:
        return self.trunk.end if self.trunk else 0


def _behind(opening: Node | None, nodes: Iterable[Node]) -> Iterable[Node]:
    """The nodes without those of the opening, which come first."""
    return islice(nodes, len(opening.path()) if opening else 0, None)


def _lanes(tree: TokenTree, count: int) -> _Lanes:
    """The tree in at most ``count`` parts, cut where nothing is read at any token before the cut.

    The longest text, by which the tree is checked, is in the first. Tokens between the trunk and a cut
    are evaluated in both parts.
    """
    if count < 2 or not tree.size:
        return _Lanes(None, [tree.nodes()])
    nodes = list(tree.nodes())
    stem = next((at for at, node in enumerate(nodes) if at and node.parent is not nodes[at - 1]), 0)
    checked = nodes.index(tree.longest_text)
    quiet = {id(nodes[0].parent)}
    starts, sizes, size, before = [], [], 0, 0
    for index, node in enumerate(nodes):
        if id(node.parent) in quiet:
            if index > checked:
                starts.append(index)
                sizes.append(size)
            if not node.readers:
                quiet.add(id(node))
                before = size + len(node.tokens) if index < stem else before
        size += len(node.tokens)
    wanted = [before + (size - before) * lane // count for lane in range(1, count)]
    if not starts:
        return _Lanes(None, [nodes])
    cuts = sorted({starts[min(bisect_left(sizes, at), len(starts) - 1)] for at in wanted})
    paths = [nodes[cut].path() for cut in cuts]
    depth = 0
    while all(path[depth] is nodes[depth] for path in paths):
        depth += 1
    parts: list[Iterable[Node]] = [nodes[: cuts[0]]]
    for path, start, end in zip(paths, cuts, [*cuts[1:], len(nodes)], strict=True):
        parts.append([*path[depth:-1], *nodes[start:end]])
    return _Lanes(nodes[depth - 1] if depth else None, parts)


class _Trial:
    """A text that went through the model as a whole, and the beginning of it that was kept."""

    def __init__(self, opening: Node, text: Node) -> None:
        self.opening = opening
        self.text = text
        self.plain = [_unscored(span) for span in text.spans]

    @property
    def is_done(self) -> bool:
        """Whether the text has been scored in the tree."""
        return not any(span.missing for span in self.text.spans)


def _unscored(span: Span) -> Span:
    return Span(span.index, span.inputs, span.targets)


class _TreeError(Exception):
    """A tree could not be scored as one."""


def _node(span: Span) -> object:
    """The node that spans of the same text share, once they are in a tree."""
    return getattr(span.inputs, "node", span.inputs)


def _one_per_text(spans: Iterable[Span]) -> list[Span]:
    return list({id(_node(span)): span for span in spans}.values())


def _sample(spans: Sequence[Span], size: int) -> list[Span]:
    """The longest span, the last one, which is furthest from its beginning, and the first ones."""
    longest = max(spans, key=lambda span: len(span.inputs))
    chosen = {id(span): span for span in (longest, spans[-1], *spans)}
    return list(chosen.values())[:size]
