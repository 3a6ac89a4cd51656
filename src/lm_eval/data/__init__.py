"""Data files and hub datasets → docs: named splits, each an immutable table of rows.

Read in this order: packed, table, csv_rows, files, splits, hub, resolve.
"""

from lm_eval.data.resolve import is_on_hub, load_splits
from lm_eval.data.splits import Splits
from lm_eval.data.table import Table

__all__ = ["Splits", "Table", "is_on_hub", "load_splits"]
