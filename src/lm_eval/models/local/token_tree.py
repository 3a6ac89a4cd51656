"""The order in which tokens go through a local model: each distinct beginning once.

The texts of a run form a tree by their common beginnings: a question's choices share its context,
questions share their few-shot text. ``TokenTree`` merges *spans* (a text, and which of its last
tokens to score) as they come in; ``chunks`` lays the tree out, each token before those that follow
it, and cuts that line into pieces of a few hundred tokens. Between two pieces a backend keeps only
the keys and values of the beginning that the next piece continues, so that memory is bounded by the
longest text and no token is evaluated twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

MOST_TOKENS_HELD = 2**25
"""Distinct tokens read ahead before the first are evaluated: 128 MiB of tokens."""
_SHORTEST_PART = 4
"""A piece may be cut early, at the end of a branch, if it has at least this fraction of the tokens."""
_NO_LIMIT = 2**62


@dataclass(eq=False, slots=True)
class Span:
    """Score ``targets``, the tokens that follow the last ``len(targets)`` positions of ``inputs``."""

    index: int
    inputs: Sequence[int]
    targets: Sequence[int]
    logprob: float = 0.0
    is_greedy: bool = True
    missing: int = field(init=False)

    def __post_init__(self) -> None:
        self.missing = len(self.targets)

    @property
    def first_read(self) -> int:
        """The first position whose logits are needed."""
        return len(self.inputs) - len(self.targets)

    def add(self, logprob: float, is_top: bool) -> bool:
        """Take one token's score; True when it was the last."""
        self.logprob += logprob
        self.is_greedy = self.is_greedy and is_top
        self.missing -= 1
        return self.missing == 0

    def reset(self) -> None:
        """Forget the scores, so that the span can be scored again."""
        self.logprob, self.is_greedy, self.missing = 0.0, True, len(self.targets)


class Node:
    """Tokens that no text leaves or enters midway, and the spans that end after the last of them."""

    __slots__ = ("children", "parent", "readers", "spans", "start", "tokens")

    def __init__(self, tokens: array[int], start: int, parent: Node | None) -> None:
        self.tokens = tokens
        self.start = start
        self.parent = parent
        self.children: dict[int, Node] = {}
        self.spans: list[Span] = []
        self.readers: list[Span] = []

    @property
    def end(self) -> int:
        """The length of the text that ends here."""
        return self.start + len(self.tokens)

    def path(self) -> list[Node]:
        """The nodes from the first to this one, without the empty root."""
        path: list[Node] = []
        node = self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path[::-1]

    def split(self, length: int) -> Node:
        """Give the first ``length`` tokens to a new node, which takes this one's place."""
        upper = Node(self.tokens[:length], self.start, self.parent)
        if self.parent is not None:
            self.parent.children[upper.tokens[0]] = upper
        self.tokens, self.start, self.parent = self.tokens[length:], upper.end, upper
        upper.children[self.tokens[0]] = self
        return upper


class Path(Sequence[int]):
    """The tokens from the root of a tree to the end of a node, as a sequence that holds none."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __len__(self) -> int:
        return self.node.end

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self.tokens()[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self.tokens())

    def tokens(self) -> array[int]:
        """A copy of the tokens."""
        parts = []
        node: Node | None = self.node
        while node is not None:
            parts.append(node.tokens)
            node = node.parent
        tokens = array("i")
        for part in reversed(parts):
            tokens.extend(part)
        return tokens


class TokenTree:
    """Spans merged by their beginnings. A span's ``inputs`` become a view of the tree."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._root = Node(array("i"), 0, None)
        self.size = 0
        """How many tokens the tree has, the fewest that must be evaluated."""
        self.size_of_texts = 0
        """How many tokens its distinct texts have, each by itself."""
        self._longest = self._root
        for span in spans:
            self.add(span)

    @property
    def longest(self) -> int:
        """The number of tokens in the longest text."""
        return self._longest.end

    @property
    def longest_text(self) -> Node:
        """The node at which the longest text ends."""
        return self._longest

    def add(self, span: Span) -> None:
        """Add the span's tokens."""
        node = self._insert(array("i", span.inputs))
        if not node.spans:
            self.size_of_texts += node.end
        node.spans.append(span)
        span.inputs = Path(node)
        if node.end > self.longest:
            self._longest = node

    def _insert(self, tokens: array[int]) -> Node:
        node = self._root
        while tokens:
            child = node.children.get(tokens[0])
            if child is None:
                self.size += len(tokens)
                child = node.children[tokens[0]] = Node(tokens, node.end, node)
                return child
            shared = common_length(child.tokens, tokens)
            node = child.split(shared) if shared < len(child.tokens) else child
            tokens = tokens[shared:]
        return node

    def nodes(self) -> Iterator[Node]:
        """All nodes, each before those below it; the longest text first, else as they came in.

        The longest first, so that a model that cannot process it fails at once. One branch that it
        must not see comes before its end, so that a model that does see it is noticed.
        """
        rank = self._ranks()
        stack = [self._root]
        while stack:
            node = stack.pop()
            if node.tokens:
                yield node
            children = sorted(node.children.values(), key=lambda child: rank.get(id(child), 2))
            stack.extend(reversed(children))

    def _ranks(self) -> dict[int, int]:
        """Nodes that come before their siblings: those of the longest text, and one branch beside it.

        The branch leaves the text after the opening, which is evaluated before all else.
        """
        path = self._longest.path()
        rank = {id(node): 1 for node in path}
        below = next((at for at, node in enumerate(path) if node.readers), len(path))
        for node in reversed(path[below:]):
            siblings = node.parent.children.values() if node.parent else ()
            others = [other for other in siblings if other is not node]
            if others:
                return rank | {id(min(others, key=lambda other: len(other.children))): 0}
        return rank

    def opening(self) -> Node | None:
        """The longest beginning of the longest text in which nothing is read, if any.

        It is the few-shot examples if all texts share them.
        """
        note_readers(self)
        opening: Node | None = None
        for node in self._longest.path():
            if node.readers:
                break
            opening = node
        return opening

    def spans(self) -> Iterator[Span]:
        """All spans, in the order of their nodes."""
        for node in self.nodes():
            yield from node.spans


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest size of one piece of work."""

    tokens: int
    reads: int = _NO_LIMIT
    """Tokens whose logits are needed: each costs a row as wide as the vocabulary."""
    leaves: int = _NO_LIMIT
    in_order: bool = False
    """Whether the tokens that are kept must be the first ones evaluated, without gaps."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens to evaluate together, after ``past`` kept ones, the beginning of the first token.

    A token follows the last one before it whose position is one lower, so ``positions`` describes the
    tree. Afterwards the first ``kept`` of the kept tokens stay, followed by those of these tokens at
    ``moved``: together they are the beginning of the next chunk's first token.
    """

    tokens: list[int]
    positions: list[int]
    past: int
    reads: list[tuple[int, list[tuple[Span, int]]]]
    """Index into ``tokens`` → the spans that need log-probs of the next token there, and which token."""
    kept: int
    moved: list[int]

    def seen(self) -> list[int]:
        """For each token, how many of the kept tokens it follows."""
        seen, now = [], self.past
        for position in self.positions:
            now = min(now, position)
            seen.append(now)
        return seen

    def ends(self) -> list[int]:
        """For each token, the index after the last one that follows it."""
        ends = [len(self.positions)] * len(self.positions)
        opened: list[int] = []
        for index, position in enumerate(self.positions):
            while opened and self.positions[opened[-1]] >= position:
                ends[opened.pop()] = index
            opened.append(index)
        return ends

    def leaves(self) -> list[int]:
        """The tokens that no token of this chunk follows."""
        return [index for index, end in enumerate(self.ends()) if end == index + 1]


def chunks(tree: TokenTree, limits: Limits) -> Iterator[Chunk]:
    """The whole tree as pieces of work, in the order in which they must be done."""
    note_readers(tree)
    return line_of(tree.nodes(), limits)


def line_of(nodes: Iterable[Node], limits: Limits, past: Node | None = None) -> Iterator[Chunk]:
    """Nodes that know their readers, as pieces of work, each after those above it.

    ``past`` is a beginning of all of them that is already evaluated and kept.
    """
    line = _Queue(limits, past=past.end if past else 0)
    for node in nodes:
        line.extend(node)
        while len(line) > limits.tokens:
            yield line.take()
    while len(line):
        yield line.take()


def trees(spans: Iterable[Span], most_tokens: int = MOST_TOKENS_HELD) -> Iterator[TokenTree]:
    """The spans as one tree, or as several if one would need too much memory."""
    tree = TokenTree()
    for span in spans:
        tree.add(span)
        if tree.size >= most_tokens:
            yield tree
            tree = TokenTree()
    if tree.size:
        yield tree


def set_aside_empty(spans: Iterable[Span], empty: list[Span]) -> Iterator[Span]:
    """The spans that have something to score; the others are appended to ``empty``."""
    for span in spans:
        if span.targets:
            yield span
        else:
            empty.append(span)


def note_readers(tree: TokenTree) -> None:
    """Let each node know the spans that read logits at one of its tokens."""
    for node in tree.nodes():
        node.readers.clear()
    for span in tree.spans():
        assert isinstance(span.inputs, Path)
        above: Node | None = span.inputs.node
        while above is not None and above.end > span.first_read:
            above.readers.append(span)
            above = above.parent


class _Queue:
    """The next tokens of a tree in order of evaluation, from which chunks are cut."""

    def __init__(self, limits: Limits, past: int = 0) -> None:
        self._limits = limits
        self._tokens: list[int] = []
        self._positions: list[int] = []
        self._reads: list[list[tuple[Span, int]]] = []
        self._past = past

    def __len__(self) -> int:
        return len(self._tokens)

    def extend(self, node: Node) -> None:
        """Add a node's tokens and what is read there."""
        self._tokens.extend(node.tokens)
        self._positions.extend(range(node.start, node.end))
        reads: list[list[tuple[Span, int]]] = [[] for _ in node.tokens]
        for span in node.readers:
            first = span.first_read
            for position in range(max(first, node.start), min(len(span.inputs), node.end)):
                reads[position - node.start].append((span, span.targets[position - first]))
        self._reads.extend(reads)

    def take(self) -> Chunk:
        """Cut off the next chunk; there is at least one token."""
        cut = self._cut()
        kept, moved = self._path_to(cut)
        chunk = Chunk(
            self._tokens[:cut],
            self._positions[:cut],
            self._past,
            [(index, reads) for index, reads in enumerate(self._reads[:cut]) if reads],
            kept,
            moved,
        )
        del self._tokens[:cut], self._positions[:cut], self._reads[:cut]
        self._past = kept + len(moved)
        return chunk

    def _cut(self) -> int:
        """How many tokens to take: up to the end of a branch, if that is not too early."""
        most = self._most()
        if most == len(self):
            return most  # the end of the line
        cut = most
        ends = [
            index
            for index in range(max(1, most // _SHORTEST_PART), most + 1)
            if self._positions[index] <= self._positions[index - 1]
        ]
        if ends:
            cut = min(ends, key=lambda index: (self._positions[index], -index))
        return self._in_order(cut) if self._limits.in_order else cut

    def _most(self) -> int:
        """How many tokens the limits allow, at least one."""
        reads = leaves = 0
        most = min(len(self), self._limits.tokens)
        for index in range(most):
            reads += bool(self._reads[index])
            leaves += index == 0 or self._positions[index] <= self._positions[index - 1]
            if index and (reads > self._limits.reads or leaves > self._limits.leaves):
                return index
        return most

    def _in_order(self, cut: int) -> int:
        """The last index up to ``cut`` whose beginning is the first tokens of kept and new ones."""
        kept, moved = self._path_to(cut)
        if moved and kept < self._past:
            return moved[0]
        return next((index for order, index in enumerate(moved) if index != order), cut)

    def _path_to(self, cut: int) -> tuple[int, list[int]]:
        """The beginning of the token at ``cut``: how many kept tokens, and which new ones."""
        if cut == len(self):
            return 0, []
        depth = self._positions[cut]
        kept = min(self._past, depth, *self._positions[:cut])
        moved: list[int] = []
        for index in range(cut - 1, -1, -1):
            if depth == kept:
                break
            if self._positions[index] == depth - 1:
                moved.append(index)
                depth -= 1
        return kept, moved[::-1]


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two texts share at the start."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while low < high:  # comparing slices is far faster than comparing tokens in a loop
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
