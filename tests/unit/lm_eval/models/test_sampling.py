"""The reasoning and the answer in what a model wrote."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lm_eval.models.sampling import split_reasoning

MARK = 0


def decode(tokens: Sequence[int]) -> str:
    return "".join(chr(token) for token in tokens if token != MARK)


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (None, (None, "why</t> so</t>\n B")),
        ("</t>", ("why</t> so", "B")),
        ("<end>", (None, "why</t> so</t>\n B")),
        (ord("s"), ("why</t> ", "o</t>\n B")),
        (ord("z"), (None, "why</t> so</t>\n B")),
    ],
)
def test_the_last_mark_ends_the_reasoning(
    mark: str | int | None, expected: tuple[str | None, str]
) -> None:
    tokens = [ord(character) for character in "why</t> so</t>\n B"]
    assert split_reasoning(tokens, mark, decode) == expected


def test_a_token_that_text_does_not_show_ends_the_reasoning() -> None:
    tokens = [*map(ord, "why"), MARK, *map(ord, " B")]
    assert split_reasoning(tokens, MARK, decode) == ("why", "B")


def test_a_text_that_is_known_is_not_decoded() -> None:
    assert split_reasoning([1, 2], "|", decode, "why| B") == ("why", "B")
