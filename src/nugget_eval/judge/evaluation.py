"""A whole evaluation, or several that differ in their prompts: config in; labels, scores, agreement out.

Each judge is loaded, asked and released in turn; their labels are combined, scored and compared with
gold. Replies are kept on disk until the files are written, so a call that was killed can be resumed.
"""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

from lm_eval.answers.keys import digest_of
from lm_eval.answers.prices import Prices, read_prices
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.models.base import LM
from lm_eval.models.loading import name_of, opened_model
from lm_eval.reports.costs import Forecast
from lm_eval.run.resume import RunStore, model_identity, run_store
from lm_eval.support.secrets import hiding
from nugget_eval.config import Config
from nugget_eval.data.files import align_labels, best_over_passages, one_per_topic
from nugget_eval.data.items import Loaded, NuggetItem, load_items
from nugget_eval.data.records import TextRecord
from nugget_eval.judge.judge import Judge, Judged
from nugget_eval.judge.voting import combine
from nugget_eval.prompts.formats import PromptInfo
from nugget_eval.reading.spellings import Label
from nugget_eval.scores.agreement import (
    Agreement,
    RaterAgreement,
    agreement,
    rater_agreement,
)
from nugget_eval.scores.bootstrap import Resampling
from nugget_eval.scores.scores import RunScores, score_runs


@dataclass(frozen=True)
class JudgeSpec:
    """A model that judges."""

    name: str
    backend: str | None
    model_args: Mapping[str, Any]
    model: LM | None = None
    """The model itself, if it is loaded already."""

    @property
    def model_name(self) -> str:
        """What a prices file calls it."""
        return self.name if self.backend is None else name_of(self.backend, self.model_args)


@dataclass
class Evaluation:
    """What came out of an evaluation."""

    config: Config
    loaded: Loaded
    judged: list[Judged]
    labels: list[list[Label | None]]
    """``labels[item][nugget]``, combined over judges."""
    prompts: dict[str, PromptInfo]
    prices: dict[str, Prices]
    seconds: float = 0.0
    command: list[str] = field(default_factory=list)

    @property
    def items(self) -> list[NuggetItem]:
        return self.loaded.items

    @property
    def how(self) -> Resampling:
        """How intervals are made."""
        return Resampling.from_config(self.config.metrics, self.config.model.seed)

    @property
    def flat_labels(self) -> list[Label | None]:
        """The labels of all items in one list."""
        return [label for labels in self.labels for label in labels]

    @property
    def labelled(self) -> int:
        """How many nuggets have a label."""
        return sum(label is not None for label in self.flat_labels)

    @property
    def total(self) -> int:
        return sum(map(len, self.labels))

    @property
    def share(self) -> float | None:
        """The share of nuggets with a label."""
        return self.labelled / self.total if self.total else None

    def records(self) -> list[TextRecord]:
        """What was judged, with the labels."""
        pairs = zip(self.items, self.labels, strict=True)
        return [item.labelled(labels) for item, labels in pairs]

    def scores(self) -> list[RunScores]:
        """The scores of each run, or of the topics if passages were judged."""
        items = one_per_topic(self.records())
        return score_runs(items, trec_compat=self.config.metrics.trec_compat, how=self.how)

    def agreement(self) -> Agreement | None:
        """The labels against gold; None if there is none."""
        if self.loaded.gold:  # of whole topics: blocks were judged
            pairs = align_labels(self.loaded.gold, best_over_passages(self.records()))
            return agreement(pairs.gold, pairs.judged, topics=pairs.topics, how=self.how)
        gold: list[Label | None] = []
        judged: list[Label | None] = []
        topics: list[str] = []
        for item, labels in zip(self.items, self.labels, strict=True):
            if item.gold:
                gold += item.gold
                judged += labels
                topics += [item.qid] * len(labels)
        return agreement(gold, judged, topics=topics, how=self.how) if gold else None

    def raters(self) -> RaterAgreement | None:
        """How well the judges agree; None if there is only one."""
        if len(self.judged) < 2:
            return None
        votes = {judged.name: judged.flat_labels for judged in self.judged}
        topics = [item.qid for item in self.items for _ in item.nuggets]
        return rater_agreement(votes, topics=topics, how=self.how)


def evaluate(config: Config, *, model: LM | None = None) -> Evaluation:
    """Judge everything that the config names. ``model`` judges instead of the config's, if given."""
    with evaluating(config, specs=judge_specs(config, model)) as done:
        return done


@contextmanager
def evaluating(
    config: Config,
    *,
    specs: Sequence[JudgeSpec] | None = None,
    loaded: Loaded | None = None,
    label: str | None = None,
) -> Iterator[Evaluation]:
    """As ``evaluate``; replies stay on disk until the block is left, so that files can be written.

    ``label`` sets apart evaluations of the same items by the same model.
    """
    started = time.perf_counter()
    loaded = load_items(config.data) if loaded is None else loaded
    specs = judge_specs(config) if specs is None else specs
    prices = prices_of(config, specs)
    stores: list[RunStore] = []
    judged: list[Judged] = []
    prompts: dict[str, PromptInfo] = {}
    holders = (config.model.gen_kwargs, *(spec.model_args for spec in specs))
    with hiding(*holders), ExitStack() as stack:
        for spec in specs:
            with opened_model(spec.model or spec.backend, spec.model_args) as lm:
                store = stack.enter_context(_run_store(config, spec, lm, loaded.items, label))
                name = spec.name if label is None else f"{spec.name}, {label}"
                is_alone = label is None  # others are to be compared with it
                judge = Judge(
                    lm, loaded.items, config, name=name, kept=store.kept, gives_up=is_alone
                )
                prompts |= judge.caller.prompts()
                judged.append(judge.judge())
                judged[-1].name = spec.name
                stores.append(store)
                for note in lm.warnings:
                    warnings.warn(f"Model {spec.name}: {note}", LmEvalWarning, stacklevel=3)
        seconds = time.perf_counter() - started
        labels = _combined(judged, config.evaluation.combine)
        yield Evaluation(config, loaded, judged, labels, prompts, prices, seconds)
        for store, result in zip(stores, judged, strict=True):
            store.finish(is_complete=not result.failed)


def forecast(config: Config) -> tuple[list[Forecast], list[str]]:
    """What each judge would be asked first, and what asking again may add, in words."""
    from lm_eval.run.forecast import estimator

    loaded = load_items(config.data)
    forecasts, notes = [], list(loaded.notes)
    for spec in judge_specs(config):
        with (
            hiding(spec.model_args, config.model.gen_kwargs),
            estimator(spec.backend, spec.model_args) as lm,
        ):
            calls, cost = Judge(lm, loaded.items, config, name=spec.name).estimate()
            forecasts.append(Forecast(spec.name, len(loaded.items), cost))
            notes.append(_may_be_added(spec.name, calls, loaded.items, config))
    return forecasts, notes


def _may_be_added(name: str, calls: int, items: Sequence[NuggetItem], config: Config) -> str:
    evaluation = config.evaluation
    most = calls * evaluation.retries
    if evaluation.singles:
        most += sum(len(item.nuggets) for item in items) * evaluation.permutations
    return (
        f"{name}: {calls:,} calls. Labels that cannot be read are asked for again, which takes up to "
        f"{most:,} more calls."
    )


def judge_specs(config: Config, model: LM | None = None) -> list[JudgeSpec]:
    """The models that judge, each under a name of its own."""
    if model is not None:
        return [JudgeSpec(type(model).__name__, None, {}, model)]
    judges = config.evaluation.judges or [
        {"backend": config.model.backend, "model_args": config.model.model_args, "name": None}
    ]
    specs: list[JudgeSpec] = []
    for judge in judges:
        name = judge["name"] or name_of(judge["backend"], judge["model_args"])
        same = sum(spec.name.partition(" #")[0] == name for spec in specs)
        if same:
            name = f"{name} #{same + 1}"
        specs.append(JudgeSpec(name, judge["backend"], judge["model_args"]))
    return specs


def prices_of(config: Config, specs: Sequence[JudgeSpec]) -> dict[str, Prices]:
    """What each judge charges, if a prices file is given."""
    if config.logging.prices is None:
        return {}
    known = read_prices(config.logging.prices)
    return {spec.name: known.of(spec.model_name) for spec in specs}


def _combined(judged: Sequence[Judged], how: str) -> list[list[Label | None]]:
    """The labels of all judges as one."""
    if len(judged) == 1:
        return judged[0].labels
    votes = zip(*(judge.flat_labels for judge in judged), strict=True)
    combined = iter(combine(list(votes), how))
    return [[next(combined) for _ in labels] for labels in judged[0].labels]


# The same items under several prompts


@contextmanager
def trials(
    config: Config, prompt_types: Sequence[str], format_types: Sequence[str]
) -> Iterator[list[Evaluation]]:
    """Every combination, judged; replies stay on disk until the block is left."""
    configs = varied(config, prompt_types, format_types)
    loaded = load_items(config.data)
    with ExitStack() as stack:
        specs = []
        for spec in judge_specs(config):
            stack.enter_context(hiding(spec.model_args, config.model.gen_kwargs))
            model = stack.enter_context(opened_model(spec.backend, spec.model_args))
            specs.append(replace(spec, backend=spec.backend or "gguf", model=model))
        yield [
            stack.enter_context(evaluating(one, specs=specs, loaded=loaded, label=trial_name(one)))
            for one in configs
        ]


def trial_name(config: Config) -> str:
    """``prompt_type×format_type``."""
    return f"{config.model.prompt_type}×{config.model.format_type}"


def trial_folder(config: Config) -> str:
    """The name of its folder."""
    return f"{config.model.prompt_type}_{config.model.format_type}"


def varied(
    config: Config, prompt_types: Sequence[str], format_types: Sequence[str]
) -> list[Config]:
    """The config under each combination, each with a folder of its own."""
    configs = []
    for prompt_type, format_type in product(prompt_types, format_types):
        copied = copy.deepcopy(config)
        copied.model.prompt_type, copied.model.format_type = prompt_type, format_type
        if config.logging.output_path is not None:
            folder = Path(config.logging.output_path) / trial_folder(copied)
            copied.logging.output_path = str(folder)
        configs.append(copied)
    return configs


# Kept replies


def _run_store(
    config: Config, spec: JudgeSpec, model: LM, items: Sequence[NuggetItem], label: str | None
) -> RunStore:
    """Where the replies of a judge are kept."""
    backend = spec.backend or ("gguf" if spec.model is None else None)
    asked = {
        name: value
        for name, value in config.to_dict()["model"].items()
        if name not in ("backend", "model_args")
    }

    def key(identity: Mapping[str, Any]) -> str:
        what = {"judge": spec.name, "model": identity, "asked": asked}
        return digest_of({**what, "items": _digest(items), "of": label})

    return run_store(
        model,
        model_identity(model, backend, spec.model_args),
        use_cache=config.evaluation.use_cache,
        folder=Path(config.logging.output_path) if config.logging.output_path else None,
        key=key,
    )


def _digest(items: Sequence[NuggetItem]) -> str:
    """What the prompts of items follow from, as hex digits."""
    digest = blake2b(digest_size=16)
    for item in items:
        texts = [nugget.text for nugget in item.nuggets]
        for part in (item.unit, item.qid, item.query, item.passage, *texts, str(len(texts))):
            data = part.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(data))
            digest.update(data)
    return digest.hexdigest()


def check_output(path: str | None) -> Path | None:
    """The folder for files, created if needed; an error if it cannot be written to."""
    if path is None:
        return None
    folder = Path(path).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # a name of its own: others may share the folder
            pass
    except OSError as error:
        raise UsageError(
            f"Cannot write to {str(folder)!r}: {error.strerror}. Choose a folder that you can write to "
            "with --output_path."
        ) from None
    return folder


@contextmanager
def output_folder(path: str | None) -> Iterator[Path | None]:
    """The folder for files; removed again if the command fails before it writes a file."""
    wanted = None if path is None else Path(path).expanduser()
    folders = [] if wanted is None else [wanted, *wanted.parents]
    made = [folder for folder in folders if not folder.exists()]
    try:
        yield check_output(path)
    except BaseException:
        with suppress(OSError):  # a folder with files in it stays
            for folder in made:
                folder.rmdir()
        raise
