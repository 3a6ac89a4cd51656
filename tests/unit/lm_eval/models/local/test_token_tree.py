"""Which tokens are evaluated when: every beginning once, each with what it follows at hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.models.local.token_tree import (
    Chunk,
    Limits,
    Span,
    TokenTree,
    chunks,
    common_length,
    trees,
)

# Few different tokens, so that texts begin alike and one is often the beginning of another.
TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=12)
LIMITS = st.builds(
    Limits,
    tokens=st.integers(1, 12),
    reads=st.integers(1, 6),
    leaves=st.integers(1, 4),
    in_order=st.booleans(),
)


def _spans(texts: Sequence[Sequence[int]]) -> list[Span]:
    """One span for each text, which scores up to three tokens at its end."""
    spans = []
    for place, text in enumerate(texts):
        count = min(len(text), 1 + place % 3)
        spans.append(Span(place, text, [100 * place + i for i in range(count)]))
    return spans


def _evaluated(chunk: Chunk, kept: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The text that each token of the chunk ends, by what ``seen`` and ``ends`` say it may see."""
    seen, ends = chunk.seen(), chunk.ends()
    texts = []
    for index, token in enumerate(chunk.tokens):
        follows = [i for i in range(index) if index < ends[i]]
        before = (*kept[: seen[index]], *(texts[i] for i in follows))
        texts.append((*(text[-1] for text in before), token))
        assert [len(text) for text in before] == list(range(1, len(before) + 1))
        assert all(texts[index][: len(text)] == text for text in before)
        assert chunk.positions[index] == len(before)
    return texts


@given(TEXTS, LIMITS)
def test_each_beginning_is_evaluated_once_after_its_own_beginning(
    texts: list[list[int]], limits: Limits
) -> None:
    spans = _spans(texts)
    tree = TokenTree(spans)
    kept: list[tuple[int, ...]] = []
    evaluated: list[tuple[int, ...]] = []
    reads: dict[int, dict[tuple[int, ...], int]] = {span.index: {} for span in spans}
    for chunk in chunks(tree, limits):
        assert len(kept) == chunk.past
        new = _evaluated(chunk, kept)
        for index, wanted in chunk.reads:
            for span, target in wanted:
                reads[span.index][new[index]] = target
        evaluated += new
        kept = [*kept[: chunk.kept], *(new[index] for index in chunk.moved)]
    beginnings = {tuple(text[:end]) for text in texts for end in range(1, len(text) + 1)}
    assert len(evaluated) == tree.size == len(beginnings)
    assert set(evaluated) == beginnings
    assert kept == []
    for span, text in zip(spans, texts, strict=True):
        first = len(text) - len(span.targets)
        wanted = {tuple(text[: first + i + 1]): target for i, target in enumerate(span.targets)}
        assert reads[span.index] == wanted


@given(TEXTS, LIMITS)
def test_no_chunk_exceeds_its_limits(texts: list[list[int]], limits: Limits) -> None:
    for chunk in chunks(TokenTree(_spans(texts)), limits):
        assert 1 <= len(chunk.tokens) <= limits.tokens
        assert len(chunk.reads) <= limits.reads
        assert len(chunk.leaves()) <= limits.leaves
        if limits.in_order and chunk.moved:
            assert chunk.kept == chunk.past
            assert chunk.moved == list(range(len(chunk.moved)))


@given(TEXTS)
def test_inputs_stay_what_they_were(texts: list[list[int]]) -> None:
    spans = _spans(texts)
    tree = TokenTree(spans)
    assert [list(span.inputs) for span in spans] == texts
    assert [len(span.inputs) for span in spans] == [len(text) for text in texts]
    assert [list(span.inputs[1:]) for span in spans] == [text[1:] for text in texts]
    assert sorted(span.index for span in tree.spans()) == list(range(len(texts)))
    assert tree.longest == max(map(len, texts))


def test_the_longest_text_comes_first_and_the_rest_in_order() -> None:
    texts = [[1, 5], [2, 6], [3, 7, 7], [4, 8]]
    order = [span.index for span in TokenTree(_spans(texts)).spans()]
    assert order == [2, 0, 1, 3]


def test_cuts_fall_between_docs_not_inside_one() -> None:
    shots = list(range(20))
    docs = [[*shots, 100 + doc, *range(50, 58)] for doc in range(6)]
    sizes = [len(chunk.tokens) for chunk in chunks(TokenTree(_spans(docs)), Limits(tokens=31))]
    assert sizes == [29, 27, 18]  # 20 shared tokens and 9 of each doc


def test_choices_of_a_doc_are_one_small_tree() -> None:
    spans = [Span(place, [1, 2, *choice], [9]) for place, choice in enumerate(([3], [4, 5], []))]
    (chunk,) = chunks(TokenTree(spans), Limits(tokens=10))
    assert chunk.positions == [0, 1, 2, 2, 3]  # the longest choice after one it must not see
    assert chunk.ends() == [5, 5, 3, 5, 5]
    assert [index for index, _ in chunk.reads] == [1, 2, 4]
    assert chunk.leaves() == [2, 4]


def test_trees_are_given_away_when_they_are_large() -> None:
    spans = _spans([[1, 2], [1, 3], [4, 5], [6], [7]])
    sizes = [tree.size for tree in trees(spans, most_tokens=4)]
    assert sizes == [5, 2]


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [([], [1], 0), ([1, 2, 3], [1, 2, 4], 2), ([1, 2], [1, 2, 3], 2), ([2], [1], 0)],
)
def test_common_length(one: list[int], other: list[int], length: int) -> None:
    assert common_length(one, other) == length
