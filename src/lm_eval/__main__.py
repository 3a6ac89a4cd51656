"""``python -m lm_eval``."""

import sys

from lm_eval.cli import main

sys.exit(main())
