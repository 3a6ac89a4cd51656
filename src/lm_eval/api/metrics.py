"""Metrics and aggregations, for Python users and helper modules of tasks."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.harness.aggregation import (
    acc_all,
    bits_per_byte,
    bleu,
    brier_score,
    bypass_agg,
    chrf,
    chrfpp,
    f1_score,
    is_non_str_iterable,
    matthews_corrcoef,
    mean,
    median,
    metric_max_over_ground_truths,
    nanmean,
    perplexity,
    ter,
    weighted_mean,
    weighted_perplexity,
)
from lm_eval.harness.stderr import (
    acc_all_stderr,
    aggregate_subtask_metrics,
    bootstrap_stderr,
    mean_stderr,
    pooled_sample_stderr,
    pop_stddev,
    sample_stddev,
    stderr_for_metric,
    unweighted_mean_stderr,
)
from lm_eval.scoring.metrics import exact_match as exact_match_fn
from lm_eval.scoring.metrics import exact_match as exact_match_hf_evaluate

__all__ = [
    "acc_all",
    "acc_all_stderr",
    "aggregate_subtask_metrics",
    "bits_per_byte",
    "bleu",
    "bootstrap_stderr",
    "brier_score",
    "bypass_agg",
    "chrf",
    "chrfpp",
    "exact_match_fn",
    "exact_match_hf_evaluate",
    "f1_score",
    "is_non_str_iterable",
    "matthews_corrcoef",
    "mean",
    "mean_stderr",
    "median",
    "metric_max_over_ground_truths",
    "nanmean",
    "perplexity",
    "pooled_sample_stderr",
    "pop_stddev",
    "sample_stddev",
    "stderr_for_metric",
    "ter",
    "unweighted_mean_stderr",
    "weighted_mean",
    "weighted_perplexity",
]

__getattr__ = attributes_of(__name__)
