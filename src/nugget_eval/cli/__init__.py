"""The command line ``nugget-eval``: arguments in, an evaluation called, one clear message on an error.

Read in this order: commands, preview, run, score.
"""

from __future__ import annotations

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run ``nugget-eval``; the exit code."""
    from nugget_eval.cli.commands import run_command

    return run_command(argv)
