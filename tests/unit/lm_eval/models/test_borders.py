"""Token borders, with a tokenizer that takes the longest piece it knows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.models.borders import (
    alike,
    describe_border,
    find_border,
    move_blanks,
)

PIECES = ("Answer:", " A", " B", "(A", "(B", "(", ")", "):", "word", " ")


def encode(text: str) -> list[int]:
    """The longest known piece first; single characters have numbers of their own."""
    tokens = []
    while text:
        known = [piece for piece in PIECES if text.startswith(piece)]
        piece = max(known, key=len, default=text[0])
        tokens.append(PIECES.index(piece) if known else 1000 + ord(piece))
        text = text[len(piece) :]
    return tokens


def decode(tokens: object) -> str:
    return "".join(PIECES[token] for token in tokens)  # type: ignore[attr-defined]


@pytest.mark.parametrize("context", ["Answer:", "Answer: ", "Answer:  \n"])
def test_a_label_after_a_blank_is_its_own(context: str) -> None:
    border = find_border(encode, context, " A" if context == "Answer:" else "A")
    assert border.kind == "own"
    assert border.is_own
    assert border.context == (PIECES.index("Answer:"),)
    assert border.context + border.scored == border.joined


def test_a_label_that_merges_with_the_bracket_before_it() -> None:
    borders = [find_border(encode, "word(", label) for label in ("A)", "B)")]
    assert [border.kind for border in borders] == ["merged", "merged"]
    assert [decode(border.seam) for border in borders] == ["(A)", "(B)"]
    # Both labels are scored by the closing bracket alone, after the same context.
    assert {border.scored for border in borders} == {(PIECES.index(")"),)}
    assert alike(borders) == [[0, 1]]
    assert "'A)' after …'word(' begins inside '(A'" in describe_border(borders[0], decode)


def test_a_continuation_that_vanishes_in_the_last_token() -> None:
    border = find_border(encode, "word)", ":")
    assert (border.kind, border.scored) == ("empty", ())
    assert "leaves no token to score" in describe_border(border)


def test_texts_that_differ_in_tokens_or_not_at_all_are_not_alike() -> None:
    labels = [" A", " B", " A"]
    assert alike([find_border(encode, "Answer:", label) for label in labels]) == []


def test_an_empty_context() -> None:
    assert find_border(encode, " ", "word").scored == tuple(encode(" word"))


@given(st.text("AB():word \n", max_size=12), st.text("AB():word ", max_size=8))
def test_a_border_is_own_exactly_if_both_together_begin_with_the_context(
    context: str, continuation: str
) -> None:
    border = find_border(encode, context, continuation)
    stripped, moved = move_blanks(context, continuation)
    assert stripped + moved == context + continuation
    before, whole = encode(stripped), encode(stripped + moved)
    starts_alike = whole[: len(before)] == before
    assert border.is_own == (starts_alike and len(whole) > len(before))
    assert (border.context, border.joined) == (tuple(before), tuple(whole))
    assert border.joined[: border.kept] + border.seam == border.joined
