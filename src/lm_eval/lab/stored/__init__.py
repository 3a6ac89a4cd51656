"""Stored runs: opened, measured item by item, and chosen by task, format and model.

Read in this order: samples, view, run, measurement, select, scores.
"""

from lm_eval.lab.stored.run import open_runs

__all__ = ["open_runs"]
