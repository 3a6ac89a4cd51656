"""``python -m lm_eval``, and ``cli_evaluate`` for programs that register something and then run it."""

from __future__ import annotations

import sys

from lm_eval.addresses.finder import attributes_of
from lm_eval.cli import main


def cli_evaluate() -> None:
    """Run the command line of ``sys.argv``; a failure ends the program with its exit code."""
    if code := main():
        sys.exit(code)


if __name__ == "__main__":
    sys.exit(main())

__getattr__ = attributes_of(__name__)
