"""The command line: arguments in, the evaluator called, one clear message when something is wrong.

Read in this order: arguments, diff, ls, program, options, lab_commands, commands, compare, power,
reread, run, preview, sweep, validate.
"""

from __future__ import annotations

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run ``lm-eval``; the exit code."""
    from lm_eval.cli.commands import run_command

    return run_command(argv)
