"""Log-probs of token spans from llama.cpp, each shared beginning evaluated once.

``token_tree`` says what to evaluate when; here a chunk of it is one decode call. Each branch of the
chunk is a sequence of the cache, and a token belongs to the sequences of all branches that go through
it. Between chunks only a beginning of sequence 0 stays, whose cells lie in the order of its tokens:
that keeps results the same whatever else was evaluated (see ``gguf_engine.TOKENS_AT_ONCE``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from lm_eval.models.gguf.engine import MAX_SEQUENCES, BatchEntry, Engine
from lm_eval.models.tree.tokens import (
    Chunk,
    Limits,
    Span,
    TokenTree,
    chunks,
    set_aside_empty,
    trees,
)


class Scorer:
    """Scores spans on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = Limits(engine.n_batch, leaves=MAX_SEQUENCES, in_order=True)
        self.tokens_needed = 0
        """Distinct beginnings over all spans, in tokens: the least there is to do."""
        self.tokens_pushed = 0

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready, in an order of their own."""
        without_targets: list[Span] = []
        for tree in self._trees(set_aside_empty(spans, without_targets)):
            self.tokens_needed += tree.size
            yield from self._run(tree)
        yield from without_targets

    def _trees(self, spans: Iterable[Span]) -> Iterator[TokenTree]:
        if self._engine.shares_prefixes:
            return trees(spans)
        return (TokenTree([span]) for span in spans)

    def _run(self, tree: TokenTree) -> Iterator[Span]:
        self._engine.reserve(tree.longest + 2 * self._engine.n_batch)
        self._engine.clear()
        for chunk in chunks(tree, self._limits):
            done = self._evaluate(chunk)
            self._keep(chunk)
            yield from done  # last: whoever takes the answers may leave it at that

    def _evaluate(self, chunk: Chunk) -> list[Span]:
        leaves, ends, seen = chunk.leaves(), chunk.ends(), chunk.seen()
        for sequence, leaf in enumerate(leaves):
            if sequence and seen[leaf]:
                self._engine.share(0, sequence, seen[leaf])
        through = [
            range(bisect_left(leaves, index), bisect_left(leaves, end))
            for index, end in enumerate(ends)
        ]
        is_read = {index for index, _ in chunk.reads}
        self._engine.decode(
            [
                BatchEntry(token, chunk.positions[index], list(through[index]), index in is_read)
                for index, token in enumerate(chunk.tokens)
            ]
        )
        self.tokens_pushed += len(chunk.tokens)
        return self._read(chunk)

    def _read(self, chunk: Chunk) -> list[Span]:
        done = []
        for index, reads in chunk.reads:
            scores = self._engine.score(index, [target for _, target in reads])
            for (span, _), score in zip(reads, scores, strict=True):
                if span.add(*score):
                    done.append(span)
        return done

    def _keep(self, chunk: Chunk) -> None:
        """Forget all but the beginning of the next chunk, which is one of sequence 0."""
        length = chunk.kept + len(chunk.moved)
        if length < chunk.past + len(chunk.tokens):
            self._engine.keep_only(0)
            self._engine.cut(0, length)
