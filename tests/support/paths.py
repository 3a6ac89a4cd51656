"""Where things are in the checkout, so that tests need not count folders upwards."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
DATA = TESTS / "data"
FIXTURES = TESTS / "fixtures"
GOLDEN = TESTS / "golden"
SHARED = ROOT.parent / "shared"
"""Files that are beside the checkout on some machines only."""
