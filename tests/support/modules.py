"""Programs that belong to no package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def module_at(path: Path) -> Any:
    """The module that a file makes, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"tests_of_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their own module
    spec.loader.exec_module(module)
    return module
