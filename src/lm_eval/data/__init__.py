"""Data files and hub datasets → docs: named splits, each an immutable table of rows."""

from lm_eval.data.splits import Splits, load_splits
from lm_eval.data.table import Table

__all__ = ["Splits", "Table", "load_splits"]
