"""The metrics that a plain task file can name: their functions, and what holds by default.

A function takes ``references``, ``predictions`` and a task's options, or one pair that it keeps for the
aggregation. Names that are not here belong to the ``evaluate`` library.
"""

from __future__ import annotations

from typing import Any

from lm_eval.errors import MissingExtraError, did_you_mean
from lm_eval.harness.exact_match import exact_match
from lm_eval.registry import HARNESS_METRICS, HarnessMetric

CHOICE, LL, ROLLING, TEXT = (
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
    "generate_until",
)


def keep(items: Any) -> Any:
    """What is stored is computed elsewhere, or by the aggregation."""
    return items


def bypass(items: Any) -> None:
    """Nothing: the run only predicts."""


class HubMetric:
    """A metric of the ``evaluate`` library, loaded when it is first called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._compute: Any = None

    def load(self) -> Any:
        """The function that computes it."""
        if self._compute is None:
            self._compute = _load_from_hub(self.__name__)
        return self._compute

    def __call__(self, **arguments: Any) -> Any:
        return self.load()(**arguments)


def _load_from_hub(name: str) -> Any:
    unknown = ""
    if name not in HARNESS_METRICS:
        hint = did_you_mean(name, HARNESS_METRICS)
        unknown = f"{name!r} is no metric of this package.{hint} "
    try:
        import evaluate
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"{unknown}The metric {name!r} is looked for in the library `evaluate`, which is not "
            "installed.",
            install="pip install 'lm-eval-formats[hub-metrics]'",
        ) from None
    try:
        return evaluate.load(name).compute
    except Exception as error:
        raise MissingExtraError(
            f"{unknown}The library `evaluate` cannot load the metric {name!r} "
            f"({type(error).__name__}: {error}). It may need the network or one more package.",
            install=f'python -c "import evaluate; evaluate.load({name!r})"',
        ) from error


def get_metric(name: str, hf_evaluate_metric: bool = False) -> Any:
    """The function of a metric: a registered one, else the one of the ``evaluate`` library.

    ``exact_match`` there and here are the same, so it needs no library.
    """
    if name in HARNESS_METRICS and (not hf_evaluate_metric or name == "exact_match"):
        return HARNESS_METRICS.get(name).function
    return HubMetric(name)


BUILT_IN = (
    # name, aggregation, higher_is_better, what it is made from
    HarnessMetric("acc", keep, "mean", True, (CHOICE, LL)),
    HarnessMetric("acc_norm", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_bytes", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_tokens", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_mutual_info", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_all", keep, "mean", True, ()),
    HarnessMetric("exact_match", exact_match, "mean", True, (CHOICE, TEXT)),
    HarnessMetric("f1", keep, "f1", True, (CHOICE,)),
    HarnessMetric("mcc", keep, "matthews_corrcoef", True, (CHOICE,)),
    HarnessMetric("brier_score", keep, "brier_score", False, (CHOICE,)),
    HarnessMetric("likelihood", keep, "mean", True, (CHOICE,)),
    HarnessMetric("perplexity", keep, "perplexity", False, (LL,)),
    HarnessMetric("word_perplexity", keep, "weighted_perplexity", False, (ROLLING,)),
    HarnessMetric("byte_perplexity", keep, "weighted_perplexity", False, (ROLLING,)),
    HarnessMetric("bits_per_byte", keep, "bits_per_byte", False, (ROLLING,)),
    HarnessMetric("bleu", keep, "bleu", True, (TEXT,)),
    HarnessMetric("chrf", keep, "chrf", True, (TEXT,)),
    HarnessMetric("chrf++", keep, "chrf++", True, (TEXT,)),
    HarnessMetric("ter", keep, "ter", False, (TEXT,)),
    HarnessMetric("bypass", bypass, "bypass", True, (CHOICE, LL, ROLLING, TEXT)),
)
for _metric in BUILT_IN:
    HARNESS_METRICS.register(_metric.name, _metric, place=f"{__name__}, metric {_metric.name}")
