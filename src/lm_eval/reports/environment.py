"""The machine and the packages that a run was made with, as the results file records them."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import lm_eval

PACKAGES = (
    "rich",
    "jinja2",
    "pyyaml",
    "numpy",
    "torch",
    "transformers",
    "datasets",
    "pyarrow",
    "cyllama",
)
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


def environment() -> dict[str, Any]:
    """Python, platform and the versions of the installed packages that can change a score."""
    import platform

    versions = {name: package_version(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "lm_eval": lm_eval.VERSION,
        "packages": {name: version for name, version in versions.items() if version is not None},
    }


def pretty_environment(facts: dict[str, Any] | None = None) -> str:
    """The same facts as lines of text, the shape of the ``pretty_env_info`` field."""
    facts = facts if facts is not None else environment()
    lines = [f"{name}: {value}" for name, value in facts.items() if name != "packages"]
    return "\n".join([*lines, *(f"{name}=={v}" for name, v in facts["packages"].items())])


@lru_cache
def package_version(name: str) -> str | None:
    """The installed version of a package, or None. Does not import that package."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def git_hash(folder: Path | None = None, *, timeout_s: float = 2.0) -> str | None:
    """The commit that ``folder`` (the current one) is at; None outside git or without it."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    commit = done.stdout.strip()
    return commit if done.returncode == 0 and _COMMIT.fullmatch(commit) else None
