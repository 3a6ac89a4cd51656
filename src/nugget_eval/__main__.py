"""``python -m nugget_eval``."""

from __future__ import annotations

import sys

from nugget_eval.cli import main

if __name__ == "__main__":
    sys.exit(main())
