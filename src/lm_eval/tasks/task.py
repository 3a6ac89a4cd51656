"""``ConfigurableTask``: a task's docs, turned into prompts and gold answers under one format.

In: a ``TaskConfig``. Out: for each doc what is asked (``ask``), with which examples (``shots``), and
what is right. Loading data waits until docs are first asked for.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lm_eval.config.fields import compile_field, compile_template, is_jinja, shorten
from lm_eval.data import Splits, Table, is_on_hub, load_splits
from lm_eval.errors import (
    ConfigError,
    DataError,
    FieldError,
    FormatError,
    LmEvalWarning,
    MissingExtraError,
    UnsupportedError,
    did_you_mean,
    place,
)
from lm_eval.formats.assemble import Joints, Message, Turn, shot_messages
from lm_eval.formats.normalisation import CALIBRATED, MUTUAL_INFORMATION, leading
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.tasks.config import CONFIG_KEYS, TaskConfig
from lm_eval.tasks.fewshot import DEFAULT_SEED, PoolRules, Sampler, check_sampler, make_sampler
from lm_eval.tasks.fitness import CHECKED_DOCS, check_fitness
from lm_eval.tasks.harness import HarnessPrompts, media_of
from lm_eval.tasks.overridable import HarnessMethods
from lm_eval.tasks.prompts import Asked, FormatPrompts, Prompts, RawFields

Doc = Mapping[str, Any]


class ConfigurableTask(HarnessMethods):
    """One task under one format (or under none). Docs are numbered by their place in the split."""

    VERSION: Any = "Yaml"

    def __init__(
        self,
        config: TaskConfig | Mapping[str, Any] | None = None,
        *,
        format_name: str | None = None,
        parity: bool = False,
    ) -> None:
        if not isinstance(config, TaskConfig):
            config = TaskConfig.from_mapping({**self._class_settings(), **(config or {})})
        if format_name is None and config.format_problem is not None:
            raise config.format_problem
        self.config = (
            config.as_assigned() if format_name is None else config.with_format(format_name)
        )
        self.format_name = format_name
        self.parity = parity
        """Whether deliberate differences from the harness are undone, for comparisons with it."""
        self.seed = DEFAULT_SEED
        self._shot_turns: dict[int, Turn] = {}
        self._shot_texts: dict[int, str] = {}
        self._shot_messages: dict[int, tuple[Message, ...]] = {}
        self._sampler: tuple[int, Sampler] | None = None
        self.VERSION = (self.config.metadata or {}).get("version", self.VERSION)
        self.instances: list[Any] = []
        """What ``build_all_requests`` built."""
        if self.overrides("download"):
            self.download()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(task_name={self.name},output_type={self.output_type})"

    @property
    def task_name(self) -> str:
        return str(self.config.task)

    @property
    def name(self) -> str:
        """``task@format`` where a format was asked for with ``@``, else the task's name."""
        return f"{self.task_name}@{self.format_name}" if self.format_name else self.task_name

    @property
    def format(self) -> PromptFormat | None:
        """The format in use, or None where the harness's own rules apply."""
        return self.config.prompt_format

    @property
    def output_type(self) -> str:
        return str(self.config.output_type)

    @cached_property
    def joints(self) -> Joints:
        return Joints(self.config.target_delimiter, self.config.fewshot_delimiter)

    @cached_property
    def shot_joints(self) -> Joints:
        """The strings inside and after few-shot examples; ``fewshot_config`` may override them."""
        if self.format is not None:
            return self.joints
        settings = self.config.fewshot_config or {}
        return Joints(
            settings.get("target_delimiter", self.config.target_delimiter),
            settings.get("fewshot_delimiter", self.config.fewshot_delimiter),
        )

    # Docs

    @cached_property
    def splits(self) -> Splits:
        config = self.config
        with self._located():
            if config.custom_dataset is not None:
                given = config.custom_dataset(
                    **(config.metadata or {}), **(config.dataset_kwargs or {})
                )
                if not isinstance(given, Mapping):
                    raise DataError(
                        f"custom_dataset gives {shorten(given)}; expected a mapping of split names "
                        "to rows."
                    )
                return Splits({name: _rows(rows) for name, rows in given.items()}, "custom_dataset")
            if not config.dataset_path:
                raise DataError(
                    "no dataset_path. Give one: a file (`questions.jsonl`), `json` with "
                    "dataset_kwargs.data_files, or a hub name."
                )
            return load_splits(
                config.dataset_path,
                config.dataset_name,
                config.dataset_kwargs,
                base_dir=self._folder,
                reads_dates=self.parity,
            )

    @property
    def data_from(self) -> Literal["files", "hub", "code"]:
        """Where docs come from, without fetching any."""
        config = self.config
        if config.custom_dataset is not None:
            return "code"
        is_remote = isinstance(config.dataset_path, str) and is_on_hub(
            config.dataset_path, config.dataset_name, config.dataset_kwargs, base_dir=self._folder
        )
        return "hub" if is_remote else "files"

    @property
    def _folder(self) -> Path | None:
        return Path(self.config.source).parent if self.config.source else None

    @cached_property
    def eval_docs(self) -> Sequence[Doc]:
        """The docs to be asked, processed: the test split, else the validation split."""
        if self.overrides("test_docs") or self.overrides("validation_docs"):
            own = self.test_docs() if self.has_test_docs() else self.validation_docs()
            return [dict(doc) for doc in own]
        split = self.config.test_split or self.config.validation_split
        if split is None:
            raise DataError(
                f"Task {self.task_name!r} names neither test_split nor validation_split, so there "
                "is nothing to ask. Add `test_split: <name of the split>`."
            )
        docs = self._processed(split, self.config.process_docs)
        if len(docs) == 0:
            raise DataError(
                f"Task {self.task_name!r}: split {split!r} holds no docs"
                f"{' after process_docs' if self.config.process_docs else ''}."
            )
        return docs

    @cached_property
    def fewshot_docs(self) -> Sequence[Doc]:
        """The pool that examples are drawn from."""
        settings = self.config.fewshot_config or {}
        split = settings.get("split") or self.config.fewshot_split
        if split is not None:
            process = settings.get("process_docs", self.config.process_docs)
            return self._processed(split, process)
        samples = settings.get("samples")
        if samples is not None:
            with self._located():
                return _mappings(
                    samples() if callable(samples) else samples, "fewshot_config.samples"
                )
        config = self.config
        if self.overrides("training_docs") and self.has_training_docs():
            return [dict(doc) for doc in self.training_docs()]
        for fallback in (config.training_split, config.validation_split, config.test_split):
            if fallback is not None:
                return self._processed(fallback, config.process_docs)
        raise DataError(f"Task {self.task_name!r} has no split to draw few-shot examples from.")

    @property
    def pool_rules(self) -> PoolRules:
        """Whether a doc could be drawn as its own example, and what is done about it."""
        settings = self.config.fewshot_config or {}
        config = self.config
        named = settings.get("split") or config.fewshot_split
        # The harness compares the two names, so that two unset ones are the same split to it.
        draws_one_more = named == config.test_split
        if named is None and settings.get("samples") is not None:
            return PoolRules(draws_one_more, excludes_doc=False)
        pool = named or config.training_split or config.validation_split or config.test_split
        is_same = pool == (config.test_split or config.validation_split)
        return PoolRules(draws_one_more, excludes_doc=is_same and not self.parity)

    # Asking

    @cached_property
    def prompts(self) -> Prompts:
        return self._prompts_for(self.config.raw, self.config.gen_prefix)

    @cached_property
    def shot_prompts(self) -> Prompts:
        """How few-shot docs are turned into turns; ``fewshot_config`` may override the fields."""
        settings = self.config.fewshot_config or {}
        raw = self.config.raw
        changed = RawFields(
            settings.get("doc_to_text", raw.text),
            settings.get("doc_to_choice", raw.choice),
            settings.get("doc_to_target", raw.target),
        )
        gen_prefix = settings.get("gen_prefix", self.config.gen_prefix)
        if changed == raw and gen_prefix == self.config.gen_prefix:
            return self.prompts
        return self._prompts_for(changed, gen_prefix)

    def ask(self, doc_id: int) -> Asked:
        """What is asked about a doc. Errors name the task and the doc."""
        with self._located(doc_id):
            asked = self.prompts.ask(self.eval_docs[doc_id])
        self.cluster_of(doc_id)  # what is wrong with it is found before a model is asked
        if len(asked.choices) > self._most_labels:
            self._warn_cut(doc_id, asked)
        return asked

    def cluster_of(self, doc_id: int) -> str | None:
        """What a doc belongs to; None where the task names no ``cluster``."""
        if self.config.cluster is None:
            return None
        with self._located(doc_id):
            try:
                value = compile_field(self.config.cluster)(self.eval_docs[doc_id])
                return _cluster_name(value)
            except FieldError as error:
                raise error.located(field="cluster") from error.__cause__

    def shots(self, doc_id: int, count: int) -> tuple[int, ...]:
        """Places in the pool of the examples for a doc; call in doc order, as one stream is drawn."""
        return self.shots_for(self.eval_docs[doc_id], count) if count else ()

    def shots_for(self, doc: Doc, count: int) -> tuple[int, ...]:
        """As ``shots``, for a doc given by its data."""
        if count == 0:
            return ()
        if self._sampler is None or self._sampler[0] != count:
            self._sampler = (count, self._make_sampler(count))
        return self._sampler[1].draw(doc, count)

    def shot_turn(self, pool_place: int) -> Turn:
        """A few-shot example as a turn; made once, whatever number of docs it stands before."""
        if pool_place not in self._shot_turns:
            with self._located(pool_place, what="few-shot doc"):
                self._shot_turns[pool_place] = self.shot_prompts.shot(self.fewshot_docs[pool_place])
        return self._shot_turns[pool_place]

    def shot_text(self, pool_place: int) -> str:
        """A few-shot example as it stands in a plain prompt, delimiter included."""
        if pool_place not in self._shot_texts:
            self._shot_texts[pool_place] = self.shot_joints.shot_text(self.shot_turn(pool_place))
        return self._shot_texts[pool_place]

    def shot_messages(self, pool_place: int) -> tuple[Message, ...]:
        """A few-shot example as chat turns of its own."""
        if pool_place not in self._shot_messages:
            self._shot_messages[pool_place] = shot_messages(self.shot_turn(pool_place))
        return self._shot_messages[pool_place]

    def description(self, doc_id: int) -> str:
        """The text at the start of a doc's prompt."""
        with self._located(doc_id):
            return self.description_for(self.eval_docs[doc_id])

    def description_for(self, doc: Doc) -> str:
        """As ``description``, for a doc given by its data."""
        text = self.config.description or ""
        if isinstance(text, str) and not is_jinja(text):
            return str(doc.get(text, text)) if text else ""
        if self.format is None and isinstance(text, str):
            return compile_template(text)(doc)
        return str(compile_field(text)(doc))

    @property
    def normalization(self) -> str | None:
        """How scored choices are compared for the score shown; None: as the first metric says.

        The format's own word counts first. The task's is for choices that are scored as texts:
        labels are all alike, and their plain sums are compared.
        """
        fmt, own = self.format, self.config.normalization
        if fmt is None:
            return own if self.output_type == "multiple_choice" else None
        return fmt.normalization or (own if fmt.scores_texts else None)

    @property
    def scores_without_question(self) -> bool:
        """Whether every choice is also scored alone, for mutual information."""
        return MUTUAL_INFORMATION in self._wanted_metrics

    @property
    def scores_content_free(self) -> bool:
        """Whether every choice is also scored after questions without content, for calibration."""
        return self.format is not None and CALIBRATED in self._wanted_metrics

    @property
    def _wanted_metrics(self) -> tuple[str, ...]:
        wanted = [
            str(entry.get("metric"))
            for entry in self.config.metric_list or ()
            if isinstance(entry, Mapping)
        ]
        if self.format is not None:
            wanted += self.format.metrics
        return leading(wanted, self.normalization)

    def set_fewshot_seed(self, seed: int) -> None:
        """Start the stream of few-shot examples anew, from this seed."""
        self.seed = seed
        self._sampler = None

    def check_fitness(self, doc_ids: Sequence[int] | None = None) -> None:
        """Refuse a format on fields that are not raw; warn where literal text would double up.

        ``doc_ids`` are the docs to be asked; None means all.
        """
        if isinstance(self.prompts, FormatPrompts):
            chosen = range(len(self.eval_docs)) if doc_ids is None else doc_ids
            docs = [self.eval_docs[doc_id] for doc_id in chosen[:CHECKED_DOCS]]
            with self._located():
                check_fitness(self.prompts, self.config, docs)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Change one key of the config; ``update`` adds to a mapping instead of replacing it."""
        if key not in CONFIG_KEYS:
            raise ConfigError(
                f"Task {self.task_name!r}: {key!r} is no key of a task.{did_you_mean(key, CONFIG_KEYS)}"
            )
        if update:
            value = {**(getattr(self.config, key) or {}), **value}
        setattr(self.config, key, value)
        self.config = self.config.as_assigned()
        for name in _MADE_FROM_CONFIG:
            self.__dict__.pop(name, None)
        for made in (self._shot_turns, self._shot_texts, self._shot_messages):
            made.clear()
        self._sampler = None

    def check_config(self) -> None:
        """Refuse what is wrong with the task's keys and can be seen without a doc."""
        self.check_supported()
        with self._located():
            settings = self.config.fewshot_config or {}
            check_sampler(settings.get("sampler"), task=self.name)
            if isinstance(self.config.cluster, str):
                compile_field(self.config.cluster)
            if self.format is not None:
                self._prompts_for(self.config.raw, self.config.gen_prefix)
                return
            raw = self.config.raw
            specs = {
                **{"doc_to_text": raw.text, "doc_to_choice": raw.choice},
                **{"doc_to_target": raw.target, "gen_prefix": self.config.gen_prefix},
                "description": self.config.description,
                **{f"fewshot_config.{key}": value for key, value in settings.items()},
            }
            for field, spec in specs.items():
                if isinstance(spec, str) and is_jinja(spec):
                    try:
                        compile_template(spec)
                    except FieldError as error:
                        raise error.located(field=field) from None

    def check_supported(self) -> None:
        """Refuse keys that would change the prompt, and that are not followed here."""
        config = self.config
        unsupported = {
            "use_prompt": (config.use_prompt, "prompts of the promptsource library"),
        }
        for key, (value, what) in unsupported.items():
            if value is not None:
                raise UnsupportedError(
                    f"Task {self.name!r} sets `{key}`, and {what} are not supported in this release. "
                    "Remove the key to ask about the text alone, or leave the task out.",
                    key=key,
                    path=config.source,
                )

    # Images and audio

    @property
    def has_media(self) -> bool:
        """Whether docs bring images or audio, which only some models can take."""
        return self.config.doc_to_image is not None or self.config.doc_to_audio is not None

    def media(self, doc_id: int) -> dict[str, Any]:
        """A doc's images and audio, under the names that the harness's models read."""
        specs = {"visual": self.config.doc_to_image, "audio": self.config.doc_to_audio}
        doc = self.eval_docs[doc_id]
        found = {}
        for name, spec in specs.items():
            if spec is not None:
                with self._located(doc_id):
                    found[name] = media_of(doc, spec)
        return found

    def split_docs(self, split: str | None) -> Sequence[Doc]:
        """The processed docs of a split; none where the task does not name it."""
        return [] if split is None else self._processed(split, self.config.process_docs)

    @cached_property
    def fingerprint(self) -> str:
        """Twelve hex digits over what the task's YAML and helper files say, whatever the format."""
        config = self.config
        content = {
            # Where a function lies in memory says nothing about what it does.
            key: re.sub(r" at 0x[0-9a-f]+", "", str(getattr(config, key)))
            for key in (
                *("dataset_path", "dataset_name", "dataset_kwargs", "test_split"),
                *("validation_split", "fewshot_split", "fewshot_config", "process_docs"),
                *("description", "num_fewshot", "repeats", "raw", "process_results"),
                *("filter_list", "metric_list"),
            )
        }
        if config.normalization is not None:
            content["normalization"] = config.normalization
        files = {function.file for _, function in config.functions()} - {None}
        helpers = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file)
        text = json.dumps({**content, "helpers": helpers}, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    # What a subclass brings of its own

    @property
    def has_own_scoring(self) -> bool:
        return self.overrides("process_results")

    @property
    def own_process_results(self) -> Callable[..., Any] | None:
        """The function that scores a doc, where the YAML or a subclass brings one."""
        if self.has_own_scoring:
            return self.process_results
        function: Callable[..., Any] | None = self.config.process_results
        return function

    @property
    def own_aggregation(self) -> Mapping[str, Callable[..., float]]:
        """Metric → aggregation, where a subclass says so."""
        return self.aggregation() if self.overrides("aggregation") else {}

    @cached_property
    def has_several_targets(self) -> bool:
        """Whether any of a list of targets is right; the first doc decides for all."""
        return isinstance(self.prompts.target(self.eval_docs[0]), list)

    # Inside

    @classmethod
    def _class_settings(cls) -> dict[str, Any]:
        """What a Python task says by class attributes instead of YAML keys."""
        settings = {
            "dataset_path": cls.DATASET_PATH,
            "dataset_name": cls.DATASET_NAME,
            "output_type": cls.OUTPUT_TYPE,
        }
        return {key: value for key, value in settings.items() if value is not None}

    def _own_fields(self, raw: RawFields) -> RawFields:
        """The field specs, with methods that a subclass brings in their place."""
        return RawFields(
            self.doc_to_text if self.overrides("doc_to_text") else raw.text,
            self.doc_to_choice if self.overrides("doc_to_choice") else raw.choice,
            self.doc_to_target if self.overrides("doc_to_target") else raw.target,
        )

    def _prompts_for(self, raw: RawFields, gen_prefix: Any) -> Prompts:
        config = self.config
        self.check_supported()
        with self._located():
            if config.prompt_format is not None:
                config.check_format_fits(config.prompt_format)
                return FormatPrompts(config.prompt_format, raw)
            if config.template_config is not None and raw == config.raw:
                raw = RawFields(config.doc_to_text, config.doc_to_choice, raw.target)
            return HarnessPrompts(
                self._own_fields(raw),
                output_type=self.output_type,
                columns=frozenset(self.eval_docs[0]),
                gen_prefix=gen_prefix,
                parity=self.parity,
            )

    def _processed(self, split: str, process: Any) -> Sequence[Doc]:
        with self._located():
            docs: Any = self.splits[split]
            if process is not None:
                docs = process(docs)
            if not isinstance(docs, Table):
                docs = Table.from_list(_mappings(docs, "process_docs"))
            # A table copies rows on every access, and docs are read many times.
            rows: list[Doc] = docs.to_list()
            return rows

    def _make_sampler(self, count: int) -> Sampler:
        return make_sampler(
            (self.config.fewshot_config or {}).get("sampler"),
            self.fewshot_docs,
            self.pool_rules,
            count=count,
            seed=self.seed,
            task=self.task_name,
        )

    @cached_property
    def _most_labels(self) -> float:
        """How many choices the format shows of a doc that has more."""
        fmt = self.format
        cuts = fmt is not None and fmt.cut_choices and isinstance(fmt.choice_labels, tuple)
        return len(fmt.choice_labels or ()) if fmt is not None and cuts else math.inf

    def _warn_cut(self, doc_id: int, asked: Asked) -> None:
        if getattr(self, "_warned_cut", False):
            return
        self._warned_cut = True
        warnings.warn(
            f"Task {self.name!r}: doc {doc_id} has {len(asked.choices)} choices but the format "
            f"{self.format.name if self.format else ''!r} has {self._most_labels} labels; choices "
            "beyond them are not shown. Give it more choice_labels to show all.",
            LmEvalWarning,
            stacklevel=3,
        )

    @contextmanager
    def _located(self, doc_id: int | None = None, *, what: str = "doc") -> Iterator[None]:
        """Put the task and doc into errors that do not know them."""
        try:
            yield
        except FieldError as error:
            raise error.located(task=self.name, doc_id=doc_id, what=what) from error.__cause__
        except MissingExtraError as error:
            where = place(self.name, None, doc_id, what=what)
            raise MissingExtraError(f"{where}{error.what}", install=error.install) from error
        except (FormatError, DataError, ConfigError) as error:
            where = place(self.name, None, doc_id, what=what)
            if str(error).startswith((where, "Task ")):
                raise
            located = copy.copy(error)  # with the facts that it carries
            located.args = (f"{where}{error}",)
            raise located from error.__cause__


_MADE_FROM_CONFIG = tuple(
    name for name, value in vars(ConfigurableTask).items() if isinstance(value, cached_property)
)

Task = ConfigurableTask
"""The name under which older Python tasks know it."""


def _rows(rows: Any) -> Callable[[], Table]:
    if isinstance(rows, Table):
        return lambda: rows
    return lambda: Table.from_list(_mappings(rows, "custom_dataset"))


def _cluster_name(value: Any) -> str:
    is_nan = isinstance(value, float) and math.isnan(value)
    if not isinstance(value, str | int | float) or is_nan or value == "":
        raise FieldError(
            f"the doc has {shorten(value)} there. Every doc needs a text or a number that it shares "
            "with the docs it belongs to; give docs that stand alone one of their own."
        )
    return str(value)


def _mappings(rows: Any, key: str) -> list[dict[str, Any]]:
    """Docs that a task's own code or YAML brings, checked to be docs."""
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise DataError(f"{key} gives {shorten(rows)}; expected a list of docs (mappings).")
    found = list(rows)
    for row in found:
        if not isinstance(row, Mapping):
            raise DataError(f"{key} gives {shorten(row)} among its docs; expected mappings.")
    return [dict(row) for row in found]
