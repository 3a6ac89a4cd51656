"""Rows of one length, and stopping at a text."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from lm_eval.compat.tensors import (  # noqa: E402
    get_dtype,
    pad_and_concat,
    stop_sequences_criteria,
)


def test_rows_are_padded_on_a_side() -> None:
    rows = [torch.tensor([1, 2]), torch.tensor([[3]])]
    assert pad_and_concat(3, list(rows)).tolist() == [[1, 2, 0], [3, 0, 0]]
    assert pad_and_concat(2, list(rows), padding_side="left").tolist() == [[1, 2], [0, 3]]
    with pytest.raises(AssertionError):
        pad_and_concat(3, rows, padding_side="top")


def test_names_of_dtypes() -> None:
    assert get_dtype("float16") is torch.float16
    assert get_dtype("auto") == "auto"
    assert get_dtype(torch.bfloat16) is torch.bfloat16


class Letters:
    """A tokenizer whose tokens are letters."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(char) for char in text]

    def batch_decode(self, rows: object) -> list[str]:
        return ["".join(map(chr, row)) for row in rows.tolist()]  # type: ignore[attr-defined]


def test_a_batch_stops_once_every_row_has_the_text() -> None:
    criteria = stop_sequences_criteria(Letters(), ["ab"], 2, 2)

    def step(*rows: str) -> bool:
        ids = torch.tensor([[ord(char) for char in row] for row in rows])
        return bool(criteria[0](ids, None))

    assert not step("abx", "aby")  # in the prompt
    assert not step("abxab", "aby__")
    assert step("abxabc", "aby_ab")  # the first row stays done
