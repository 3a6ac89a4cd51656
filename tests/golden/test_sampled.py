"""Twelve sampled formats, word for word. ``python tests/golden/regenerate.py`` writes them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PATH = Path(__file__).with_name("regenerate_sampled.py")


def test_sampled_prompts_are_the_golden_ones() -> None:
    spec = importlib.util.spec_from_file_location("golden_sampled", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.golden()
    assert text.count("=== ") == 12
    assert text == module.FILE.read_bytes().decode()
