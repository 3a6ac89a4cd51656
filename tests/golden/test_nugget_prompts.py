"""The judge's exact prompts. To change them: ``python tests/golden/regenerate.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.modules import module_at

golden = module_at(Path(__file__).with_name("regenerate_nuggets.py"))
PROMPTS = dict(golden.golden_prompts())


@pytest.mark.parametrize("file", PROMPTS, ids=lambda file: file.stem)
def test_prompt_is_the_golden_one(file: Path) -> None:
    command = "python tests/golden/regenerate.py"
    assert file.is_file(), f"{file.name} is missing: run `{command}`"
    assert PROMPTS[file] == file.read_bytes().decode()


def test_no_golden_file_is_left_over() -> None:
    assert set(golden.FOLDER.iterdir()) == set(PROMPTS)
