"""``lm-eval diff``: why two stored runs have different scores.

Read in this order: facts, items, runs.
"""

from lm_eval.lab.diff.runs import diff_runs

__all__ = ["diff_runs"]
