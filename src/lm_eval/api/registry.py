"""Names for models, formats, readers, metrics, filters and templates, for Python users."""

from lm_eval.registry import (
    AGGREGATIONS,
    FILTERS,
    FORMATS,
    HARNESS_METRICS,
    METRICS,
    MODELS,
    READERS,
    TASKS,
    TEMPLATES,
    Registry,
    get_aggregation,
    get_filter,
    get_metric,
    get_metric_aggregation,
    get_model,
    is_higher_better,
    register_aggregation,
    register_filter,
    register_group,
    register_metric,
    register_model,
    register_reader,
    register_task,
    register_template,
)

MODEL_REGISTRY = MODELS
FILTER_REGISTRY = FILTERS
AGGREGATION_REGISTRY = AGGREGATIONS
METRIC_REGISTRY = HARNESS_METRICS

__all__ = [
    "AGGREGATIONS",
    "AGGREGATION_REGISTRY",
    "FILTERS",
    "FILTER_REGISTRY",
    "FORMATS",
    "HARNESS_METRICS",
    "METRICS",
    "METRIC_REGISTRY",
    "MODELS",
    "MODEL_REGISTRY",
    "READERS",
    "TASKS",
    "TEMPLATES",
    "Registry",
    "get_aggregation",
    "get_filter",
    "get_metric",
    "get_metric_aggregation",
    "get_model",
    "is_higher_better",
    "register_aggregation",
    "register_filter",
    "register_group",
    "register_metric",
    "register_model",
    "register_reader",
    "register_task",
    "register_template",
]
