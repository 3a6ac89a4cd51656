"""A/B tests: the same items judged under several prompts, and what differs.

In: a config, prompt types and output formats. Out: a ``Trial`` for each combination, and a ``Contrast``
for each two of them, tested over topics.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

from lm_eval.errors import DataError
from lm_eval.models.loading import opened_model
from lm_eval.requests.values import Usage
from lm_eval.stats.multiplicity import holm
from lm_eval.stats.resampling import Measured
from lm_eval.stats.sign_flips import PValue
from lm_eval.text.encode import AsDict, plain
from lm_eval.text.secrets import hiding
from nugget_eval.config import Config
from nugget_eval.data.items import load_items
from nugget_eval.judge.evaluation import Evaluation, evaluating, judge_specs
from nugget_eval.output.files import count_replies
from nugget_eval.reading.spellings import Label
from nugget_eval.scores.agreement import Agreement, agreement
from nugget_eval.scores.bootstrap import Resampling, np
from nugget_eval.scores.compare import tested_over_topics
from nugget_eval.scores.measures import GAIN


@dataclass(frozen=True)
class Trial:
    """One combination, judged."""

    done: Evaluation
    agreement: Agreement | None
    """With people; None where there is no gold."""

    @property
    def name(self) -> str:
        return trial_name(self.done.config)

    @property
    def usage(self) -> Usage:
        """What it cost, over all judges."""
        return Usage.total(judged.usage for judged in self.done.judged)

    @property
    def cost(self) -> float | None:
        """In the currency of the prices, where these are given."""
        prices = self.done.prices
        if not prices:
            return None
        return sum(float(prices[judge.name].cost(judge.usage)) for judge in self.done.judged)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        done = self.done
        return {
            "prompt_type": done.config.model.prompt_type,
            "format_type": done.config.model.format_type,
            "labelled": done.labelled,
            "total": done.total,
            "replies": plain([count_replies(judged) for judged in done.judged]),
            "agreement": plain(self.agreement),
            "usage": self.usage.as_dict(),
            "cost": self.cost,
            "prompts": {name: info.fingerprint for name, info in done.prompts.items()},
        }


@dataclass(frozen=True)
class Contrast(AsDict):
    """Two combinations on the nuggets that both labelled, with a test over topics."""

    first: str
    second: str
    same: Measured
    """The share of nuggets with the same label under both."""
    kappa: Measured
    measure: str
    """What is tested: ``accuracy`` against gold, or the mean label where there is no gold."""
    difference: Measured
    """First less second, as the mean over topics."""
    p: PValue
    p_adjusted: float
    num_topics: int


@contextmanager
def trials(
    config: Config, prompt_types: Sequence[str], format_types: Sequence[str]
) -> Iterator[list[Trial]]:
    """Every combination, judged; replies stay on disk until the block is left."""
    configs = varied(config, prompt_types, format_types)
    loaded = load_items(config.data)
    with ExitStack() as stack:
        specs = []
        for spec in judge_specs(config):
            stack.enter_context(hiding(spec.model_args, config.model.gen_kwargs))
            model = stack.enter_context(opened_model(spec.backend, spec.model_args))
            specs.append(replace(spec, backend=spec.backend or "gguf", model=model))
        judged = []
        for varied_config in configs:
            label = trial_name(varied_config)
            trial = evaluating(varied_config, specs=specs, loaded=loaded, label=label)
            done = stack.enter_context(trial)
            judged.append(Trial(done, done.agreement()))
        yield judged


def trial_name(config: Config) -> str:
    """``prompt_type×format_type``."""
    return f"{config.model.prompt_type}×{config.model.format_type}"


def varied(
    config: Config, prompt_types: Sequence[str], format_types: Sequence[str]
) -> list[Config]:
    """The config under each combination, each with a folder of its own."""
    configs = []
    for prompt_type, format_type in product(prompt_types, format_types):
        copied = copy.deepcopy(config)
        copied.model.prompt_type, copied.model.format_type = prompt_type, format_type
        if config.logging.output_path is not None:
            folder = Path(config.logging.output_path) / f"{prompt_type}_{format_type}"
            copied.logging.output_path = str(folder)
        configs.append(copied)
    return configs


def contrasts(all_trials: Sequence[Trial], how: Resampling) -> list[Contrast]:
    """Each two trials against each other; p-values are adjusted by Holm over all pairs."""
    pairs = [_contrast(first, second, how) for first, second in combinations(all_trials, 2)]
    adjusted = holm([pair.p.value for pair in pairs])
    return [replace(pair, p_adjusted=p) for pair, p in zip(pairs, adjusted, strict=True)]


def _contrast(first: Trial, second: Trial, how: Resampling) -> Contrast:
    topics = [item.qid for item in first.done.items for _ in item.nuggets]
    agreed = agreement(first.done.flat_labels, second.done.flat_labels, topics=topics, how=how)
    differences = _differences(first, second)
    if not differences:
        raise DataError(
            f"{first.name} and {second.name} have no nugget that both labelled, so they cannot be "
            "compared."
        )
    column = np.array(list(differences.values()))[:, None]
    ((difference, p),) = tested_over_topics(column, how)
    return Contrast(
        first.name,
        second.name,
        agreed.measures["accuracy"],
        agreed.measures["kappa"],
        "accuracy" if first.agreement is not None else "mean label",
        difference,
        p,
        1.0,
        len(differences),
    )


def _differences(first: Trial, second: Trial) -> dict[str, float]:
    """Topic → how much higher the first scores, over the nuggets that both labelled."""
    has_gold = any(item.gold for item in first.done.items)
    differences: dict[str, list[float]] = defaultdict(list)
    rows = zip(first.done.items, first.done.labels, second.done.labels, strict=True)
    for item, labels, other_labels in rows:
        gold: Sequence[Label | None] = item.gold or [None] * len(labels)
        for right, label, other in zip(gold, labels, other_labels, strict=True):
            if label is None or other is None or (has_gold and right is None):
                continue
            if has_gold:
                differences[item.qid].append(float(label == right) - float(other == right))
            else:
                differences[item.qid].append(GAIN[label] - GAIN[other])
    return {qid: sum(values) / len(values) for qid, values in differences.items()}
