"""Print the oldest release that ``pyproject.toml`` allows of each dependency, as ``name==version``.

    python scripts/oldest.py [EXTRA…]       the core's, and those of the extras named

`make test` installs these into an environment of their own and runs there what keeps hostile files and
servers from doing harm: a bound that admits a release with a known hole fails.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_BOUND = re.compile(r"(?P<name>[\w.-]+)\s*[>=]=\s*(?P<version>[\w.]+)")


def oldest(project: dict[str, Any], extras: list[str]) -> list[str]:
    """One pin for each dependency of the core and of these extras."""
    named = project["optional-dependencies"]
    unknown = [extra for extra in extras if extra not in named]
    if unknown:
        raise SystemExit(f"No extra {', '.join(unknown)}. There are: {', '.join(named)}.")
    pins = []
    for dependency in [*project["dependencies"], *(d for extra in extras for d in named[extra])]:
        bound = _BOUND.match(dependency)
        if bound is None:
            raise SystemExit(f"{dependency!r} in pyproject.toml has no lower bound. Give it one.")
        pins.append(f"{bound['name']}=={bound['version']}")
    return pins


if __name__ == "__main__":
    content = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    print("\n".join(oldest(content["project"], sys.argv[1:])))
