"""Responses → what is scored: the filters of a task's ``filter_list`` and their pipelines.

Read in this order: pipeline, builtin.
"""

from lm_eval.harness.filters.pipeline import (
    Filter,
    FilterEnsemble,
    FilterPipeline,
    build_filter_ensemble,
    build_pipelines,
)

__all__ = [
    "Filter",
    "FilterEnsemble",
    "FilterPipeline",
    "build_filter_ensemble",
    "build_pipelines",
]
