"""Twelve sampled formats, word for word. ``python tests/golden/regenerate.py`` writes them."""

from __future__ import annotations

from pathlib import Path

from tests.support.modules import module_at

PATH = Path(__file__).with_name("regenerate_sampled.py")


def test_sampled_prompts_are_the_golden_ones() -> None:
    module = module_at(PATH)
    text = module.golden()
    assert text.count("=== ") == 12
    assert text == module.FILE.read_bytes().decode()
