"""The parts of the GGUF backend that need no weights: trees, growing text."""

from __future__ import annotations

import pytest

from lm_eval.models.gguf_engine import _byte_alphabet
from lm_eval.models.gguf_generation import GrowingText
from lm_eval.models.gguf_scoring import Tree
from lm_eval.models.token_tree import Span, common_length


def test_tree_shares_beginnings_and_numbers_leaves() -> None:
    tree = Tree()
    for place, tokens in enumerate(([1, 2, 3], [1, 2, 4], [1, 2], [5])):
        tree.add(Span(place, tokens, [9]))
    nodes = tree.lay_out()
    laid_out = [(node.token, node.depth, node.sequences, len(node.reads)) for node in nodes]
    assert laid_out == [
        (1, 0, [0, 1], 0),
        (2, 1, [0, 1], 1),
        (3, 2, [0], 1),
        (4, 2, [1], 1),
        (5, 0, [2], 1),
    ]
    assert (tree.size, tree.leaves) == (5, 3)


def test_tree_grows_a_leaf_without_a_new_sequence() -> None:
    tree = Tree()
    tree.add(Span(0, [1], [2]))
    tree.add(Span(1, [1, 2], [3]))
    assert tree.leaves == 1
    assert tree.new_nodes([1, 2, 3]) == 1


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [([], [1], 0), ([1, 2, 3], [1, 2, 4], 2), ([1, 2], [1, 2, 3], 2), ([2], [1], 0)],
)
def test_common_length(one: list[int], other: list[int], length: int) -> None:
    assert common_length(one, other) == length


def test_stop_string_over_several_pieces() -> None:
    text = GrowingText(("\n\nQ", "never", ""))
    assert [text.add(piece) for piece in (b"yes", b"\n", b"\n", b"Question")] == [
        *[False] * 3,
        True,
    ]
    assert text.text == "yes"


def test_character_over_several_pieces() -> None:
    text = GrowingText(("🦙",))
    assert not text.add("é🦙".encode()[:4])
    assert text.text == "é"
    assert text.add("é🦙".encode()[4:])
    assert text.text == "é"


def test_half_a_character_at_the_end_shows() -> None:
    text = GrowingText(())
    text.add("🦙".encode()[:2], final=True)
    assert text.text == "\ufffd"


def test_byte_alphabet_covers_all_bytes() -> None:
    alphabet = _byte_alphabet()
    assert sorted(alphabet.values()) == list(range(256))
    assert bytes(alphabet[character] for character in "Ġé") == b" \xe9"
