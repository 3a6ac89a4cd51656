"""Names for models, formats, readers, metrics, filters and templates, for Python users."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.compat.helpers import (
    METRIC_AGGREGATIONS,
    METRIC_DIRECTIONS,
    METRIC_FUNCTIONS,
    get_aggregation,
    get_metric,
    get_metric_aggregation,
    is_higher_better,
)
from lm_eval.registry import (
    AGGREGATIONS,
    FILTERS,
    FORMATS,
    METRICS,
    MODELS,
    READERS,
    TASKS,
    TEMPLATES,
    Registry,
    get_filter,
    get_model,
    register_aggregation,
    register_check,
    register_filter,
    register_group,
    register_metric,
    register_model,
    register_reader,
    register_task,
    register_template,
)

HARNESS_METRICS = METRICS
MODEL_REGISTRY = MODELS
FILTER_REGISTRY = FILTERS
AGGREGATION_REGISTRY = AGGREGATIONS
METRIC_REGISTRY = METRIC_FUNCTIONS
METRIC_AGGREGATION_REGISTRY = METRIC_AGGREGATIONS
HIGHER_IS_BETTER_REGISTRY = METRIC_DIRECTIONS

__all__ = [
    "AGGREGATIONS",
    "AGGREGATION_REGISTRY",
    "FILTERS",
    "FILTER_REGISTRY",
    "FORMATS",
    "HARNESS_METRICS",
    "HIGHER_IS_BETTER_REGISTRY",
    "METRICS",
    "METRIC_AGGREGATION_REGISTRY",
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
    "register_check",
    "register_filter",
    "register_group",
    "register_metric",
    "register_model",
    "register_reader",
    "register_task",
    "register_template",
]

__getattr__ = attributes_of(__name__)
