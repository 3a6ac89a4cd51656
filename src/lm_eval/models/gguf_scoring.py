"""Log-probs of token spans, each shared beginning evaluated once.

The spans of one batch form a tree by their common beginnings: a question's choices share its
context, questions share their few-shot text. Each node of the tree is one token to evaluate; it
belongs to the sequences of all leaves below it, so a whole tree goes through the model in one call.
Between batches, what the next one has in common with this one's first sequence stays in the cache:
the first, because its cells lie in the order of its tokens, which keeps results exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lm_eval.models.gguf_engine import MAX_SEQUENCES, Engine, Entry
from lm_eval.models.token_tree import Span, common_length

_WORTH_KEEPING = 16
"""Tokens of cached beginning for which a smaller batch is a good trade."""


class Scorer:
    """Scores spans on one engine, in batches that are filled as spans come in."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: Sequence[int] = []

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready."""
        batch = self._new_batch()
        for span in spans:
            if not span.targets:
                yield span
                continue
            if not batch.takes(span):
                yield from self._run(batch)
                batch = self._new_batch()
            batch.add(span)
        yield from self._run(batch)

    def _new_batch(self) -> _Batch:
        return _Batch(self._kept, self._engine.n_batch, shares=self._engine.shares_prefixes)

    def _run(self, batch: _Batch) -> Iterator[Span]:
        nodes = batch.tree.lay_out()
        if not nodes:
            return
        self._kept = []  # nothing is certain if a decode call is interrupted
        reuse = batch.reuse
        if self._engine.reserve(len(nodes) + self._engine.n_batch) or reuse == 0:
            reuse = 0
            self._engine.clear()
        else:
            self._fork(reuse, batch.tree.leaves)
        todo = [node for node in nodes if node.depth >= reuse]
        for start in range(0, len(todo), self._engine.n_batch):
            yield from self._evaluate(todo[start : start + self._engine.n_batch])
        if self._engine.shares_prefixes:
            self._kept = batch.first.inputs

    def _fork(self, reuse: int, leaves: int) -> None:
        """Let every sequence of the batch begin with the first ``reuse`` tokens of sequence 0."""
        self._engine.keep_only(0)
        self._engine.cut(0, reuse)
        for sequence in range(1, leaves):
            self._engine.share(0, sequence, reuse)

    def _evaluate(self, nodes: Sequence[Node]) -> Iterator[Span]:
        self._engine.decode(
            [Entry(node.token, node.depth, node.sequences, bool(node.reads)) for node in nodes]
        )
        done = []
        for index, node in enumerate(nodes):
            if node.reads:
                scores = self._engine.score(index, [target for _, target in node.reads])
                for (span, _), score in zip(node.reads, scores, strict=True):
                    if span.add(*score):
                        done.append(span)
        yield from done  # after the loop: whoever takes the answers may use the model in between


class _Batch:
    """The spans of the next run, and whether one more is worth adding."""

    def __init__(self, kept: Sequence[int], n_batch: int, *, shares: bool) -> None:
        self.tree = Tree()
        self.reuse = 0
        self.first: Span
        self._last: Span
        self._kept = kept
        self._n_batch = n_batch
        self._shares = shares

    def takes(self, span: Span) -> bool:
        if not self.tree.size:
            return True
        if not self._shares or self.tree.leaves == MAX_SEQUENCES:
            return False
        if common_length(self._last.inputs, span.inputs) >= span.first_read:
            return True  # the same context: a few more tokens cost less than the context again
        reuse = min(self.reuse, self._reusable(span))
        if self.reuse - reuse > _WORTH_KEEPING:
            return False
        now = self.tree.size - self.reuse
        then = self.tree.size + self.tree.new_nodes(span.inputs) - reuse
        return self._calls(then) <= self._calls(now)

    def add(self, span: Span) -> None:
        reusable = self._reusable(span)
        if not self.tree.size:
            self.first, self.reuse = span, reusable
        self.reuse = min(self.reuse, reusable)
        self.tree.add(span)
        self._last = span

    def _reusable(self, span: Span) -> int:
        return min(common_length(self._kept, span.inputs), span.first_read)

    def _calls(self, tokens: int) -> int:
        return -(-tokens // self._n_batch)


class Node:
    """One token of a tree; ``depth`` is its position, ``reads`` what its logits are needed for."""

    __slots__ = ("children", "depth", "first", "leaves", "reads", "token")

    def __init__(self, token: int, depth: int) -> None:
        self.token = token
        self.depth = depth
        self.children: dict[int, Node] = {}
        self.reads: list[tuple[Span, int]] = []
        self.first = 0
        self.leaves = 0

    @property
    def sequences(self) -> list[int]:
        """The sequences, one for each leaf below, that this token belongs to."""
        return list(range(self.first, self.first + self.leaves))


class Tree:
    """Spans merged by their beginnings."""

    def __init__(self) -> None:
        self._root = Node(-1, -1)
        self.size = 0
        self.leaves = 0

    def new_nodes(self, tokens: Sequence[int]) -> int:
        """How many tokens of this text the tree does not have yet."""
        return len(tokens) - self._follow(tokens)[1]

    def add(self, span: Span) -> None:
        """Add the span's tokens, and note at which of them its scores are read."""
        node, depth = self._follow(span.inputs)
        extends_leaf = node.depth >= 0 and not node.children
        if depth < len(span.inputs) and not extends_leaf:
            self.leaves += 1
        for token in span.inputs[depth:]:
            child = Node(token, node.depth + 1)
            node.children[token] = child
            node = child
        self.size += len(span.inputs) - depth
        node = self._root
        targets = iter(span.targets)
        for token in span.inputs:
            node = node.children[token]
            if node.depth >= span.first_read:
                node.reads.append((span, next(targets)))

    def _follow(self, tokens: Sequence[int]) -> tuple[Node, int]:
        node = self._root
        for depth, token in enumerate(tokens):
            child = node.children.get(token)
            if child is None:
                return node, depth
            node = child
        return node, len(tokens)

    def lay_out(self) -> list[Node]:
        """All nodes, each before its descendants, with leaves numbered: the order of evaluation."""
        order: list[Node] = []
        stack = list(reversed(self._root.children.values()))
        numbered = 0
        while stack:
            node = stack.pop()
            order.append(node)
            node.first = numbered
            node.leaves = 0 if node.children else 1
            numbered += node.leaves
            stack.extend(reversed(node.children.values()))
        for node in reversed(order):
            node.leaves += sum(child.leaves for child in node.children.values())
        return order
