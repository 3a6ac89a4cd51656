"""The judge's exact prompts. To change them: ``python tests/golden/regenerate.py``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


def _load_golden() -> Any:
    path = Path(__file__).with_name("regenerate_nuggets.py")
    spec = importlib.util.spec_from_file_location("golden_nugget_prompts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["golden_nugget_prompts"] = module
    spec.loader.exec_module(module)
    return module


golden = _load_golden()
PROMPTS = dict(golden.golden_prompts())


@pytest.mark.parametrize("file", PROMPTS, ids=lambda file: file.stem)
def test_prompt_is_the_golden_one(file: Path) -> None:
    command = "python tests/golden/regenerate.py"
    assert file.is_file(), f"{file.name} is missing: run `{command}`"
    assert PROMPTS[file] == file.read_bytes().decode()


def test_no_golden_file_is_left_over() -> None:
    assert set(golden.FOLDER.iterdir()) == set(PROMPTS)
