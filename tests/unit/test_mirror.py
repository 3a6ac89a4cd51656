"""``tests/unit`` mirrors ``src``: a test is in the folder of the module or package it is named after."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import SOURCE, TESTS

UNIT = TESTS / "unit"


def files_of(package: str) -> list[Path]:
    return sorted(file.relative_to(UNIT) for file in (UNIT / package).rglob("test_*.py"))


def names_in(folder: Path) -> set[str]:
    """The modules and packages of a folder of ``src``."""
    return {entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()}


def is_named_after(test: Path, names: set[str]) -> bool:
    """``test_spread.py`` and ``test_spread_halves.py`` are named after ``spread``."""
    tested = test.stem.removeprefix("test_")
    return any(f"{tested}_".startswith(f"{name}_") for name in names)


@pytest.mark.parametrize("package", ["lm_eval", "nugget_eval"])
def test_every_test_is_where_its_module_is(package: str) -> None:
    tests = files_of(package)
    assert tests
    homeless = [str(test) for test in tests if not (SOURCE / test.parent).is_dir()]
    assert not homeless, "src has no such folder"
    misnamed = [
        str(test) for test in tests if not is_named_after(test, names_in(SOURCE / test.parent))
    ]
    assert not misnamed, (
        "Name a test after a module or package of its folder, test_MODULE[_ASPECT].py"
    )


@pytest.mark.parametrize(
    ("test", "expected"),
    [("test_spread.py", True), ("test_spread_halves.py", True), ("test_spreading.py", False)],
)
def test_a_name_goes_on_after_an_underscore(test: str, expected: bool) -> None:
    assert is_named_after(Path(test), {"spread", "ranks"}) is expected
