"""Which process this is: ``torchrun`` and ``accelerate launch`` start one command several times.

A run is one process: the first does it, and the others say so and leave it alone.
"""

from __future__ import annotations

import os


def bystander_note() -> str | None:
    """What a process says that leaves the run to the first; None in the first, or where it is alone."""
    rank, count = _number("RANK"), _number("WORLD_SIZE")
    if rank is None or count is None or count < 2 or rank < 1:
        return None
    return (
        f"this is process {rank + 1} of {count}, which does nothing: the first does the whole run. "
        "Start it once, without torchrun or accelerate launch; device_map=auto spreads a model over "
        "several GPUs."
    )


def _number(variable: str) -> int | None:
    """A variable that the launchers set, as a number."""
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdecimal() else None
