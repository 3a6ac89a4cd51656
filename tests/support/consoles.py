"""What is printed on a console of some width."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console


def printed_by(show: Callable[[Console], object], width: int = 100) -> str:
    """The lines that ``show`` prints, without spaces at their ends."""
    stream = io.StringIO()
    show(Console(file=stream, width=width, markup=False, emoji=False, highlight=False))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())
