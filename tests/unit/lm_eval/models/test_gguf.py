"""The parts of the GGUF backend that need no weights: growing text."""

from __future__ import annotations

import pytest

from lm_eval.errors import UsageError
from lm_eval.models.gguf import GgufLM
from lm_eval.models.llama_cpp.engine import _byte_alphabet
from lm_eval.models.llama_cpp.generation import GrowingText


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


def test_a_switch_is_true_or_false() -> None:
    GgufLM.check_args({"add_bos_token": True}, name="gguf")
    GgufLM.check_args({"add_bos_token": None}, name="gguf")
    with pytest.raises(
        UsageError, match="'gguf': add_bos_token must be true or false, not 'perhaps'"
    ):
        GgufLM.check_args({"add_bos_token": "perhaps"}, name="gguf")
