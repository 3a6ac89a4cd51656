"""``ConfigurableTask``: a task's docs, turned into prompts and gold answers under one format.

In: a ``TaskConfig``. Out: for each doc, what is asked (``ask``), with which examples (``shots``), and
the right answers. Data is loaded when docs are first needed.
"""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from lm_eval.config.fields import compile_field, compile_template, is_jinja
from lm_eval.errors import ConfigError, LmEvalError, LmEvalWarning, did_you_mean
from lm_eval.formats.assemble import Joints, Message, Turn, shot_messages
from lm_eval.formats.checks import CALIBRATED, MUTUAL_INFORMATION, leading
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.tasks.config import CONFIG_KEYS, TaskConfig
from lm_eval.tasks.docs import Doc, TaskDocs
from lm_eval.tasks.fewshot import (
    DEFAULT_SEED,
    MatchedSampler,
    Sampler,
    make_sampler,
    with_substitutes,
)
from lm_eval.tasks.format_fit import (
    CHECKED_DOCS,
    check_fields,
    check_fitness,
    check_gold_positions,
    check_needs_format,
    check_supported,
)
from lm_eval.tasks.keys.rows import shared_value
from lm_eval.tasks.methods import HarnessMethods
from lm_eval.tasks.prompts import DocPrompt, FormatPrompts, Prompts, RawFields

__all__ = ["ConfigurableTask", "Doc", "Task"]


class ConfigurableTask(TaskDocs):
    """One task under one format (or under none). Docs are numbered by their position in the split."""

    VERSION: Any = "Yaml"

    def __init__(
        self,
        data_dir: TaskConfig | Mapping[str, Any] | str | None = None,
        cache_dir: str | None = None,  # noqa: ARG002 (the harness has these three)
        download_mode: Any = None,  # noqa: ARG002
        config: TaskConfig | Mapping[str, Any] | None = None,
        *,
        format_name: str | None = None,
        parity: bool = False,
    ) -> None:
        """``config`` may come first: where data is downloaded to is said elsewhere here."""
        if isinstance(data_dir, TaskConfig | Mapping):
            config = data_dir
        if not isinstance(config, TaskConfig):
            keys = {**self._class_settings(), **(config or {})}
            keys.pop("class", None)
            config = TaskConfig.from_mapping(keys)
        if format_name is not None:
            config = config.with_format(format_name)
        elif config.formats is not None and config.prompt_format is not None:
            config.check_format_fits(config.prompt_format)
        if config.format_note:
            warnings.warn(config.format_note, LmEvalWarning, stacklevel=2)
        self.format_name = format_name
        self.parity = parity
        """Whether to undo deliberate differences from the harness, for comparisons with it."""
        self._rows_of = {}
        self.seed = DEFAULT_SEED
        self._shot_turns: dict[int, Turn] = {}
        self._shot_texts: dict[int, str] = {}
        self._shot_messages: dict[int, tuple[Message, ...]] = {}
        self._sampler: tuple[int, Sampler] | None = None
        self.replace_config(config)
        self.VERSION = (self.config.metadata or {}).get("version", self.VERSION)
        self.OUTPUT_TYPE = self.config.output_type
        self.format_metrics: list[Any] | None = None
        """The metrics of its format, once they have been built."""
        self.instances: list[Any] = []
        """What ``build_all_requests`` built."""
        if self.overrides("download"):
            self.download()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(task_name={self.name},output_type={self.output_type})"

    def __setattr__(self, name: str, value: Any) -> None:
        """Replacing a method discards what the old one made."""
        super().__setattr__(name, value)
        if callable(getattr(HarnessMethods, name, None)) and "_sampler" in vars(self):
            self._forget()

    @cached_property
    def format(self) -> PromptFormat | None:
        """The format in use, or None if the harness's rules apply."""
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
            settings.get("doc_to_context", raw.context),
            settings.get("doc_to_rationale", raw.rationale),
        )
        gen_prefix = settings.get("gen_prefix", self.config.gen_prefix)
        if changed == raw and gen_prefix == self.config.gen_prefix:
            return self.prompts
        return self._prompts_for(changed, gen_prefix)

    def ask(self, doc_id: int) -> DocPrompt:
        """What is asked about a doc. Errors name the task and the doc."""
        config = self.config
        try:
            if config.skip_docs is not None:
                self.check_not_bad(doc_id)
            asked = self.prompts.ask(self.eval_docs[doc_id])
        except LmEvalError:
            with self._located(doc_id):
                raise
        if config.cluster is not None:  # finds errors before a model is asked
            self.cluster_of(doc_id)
        if config.score_by is not None:
            self.parts_of(doc_id)
        if len(asked.choices) > self._most_labels:
            self._warn_cut(doc_id, asked)
        return asked

    def shots(self, doc_id: int, count: int) -> tuple[int, ...]:
        """The examples for a doc, as indices into the pool; call in doc order: there is one stream."""
        return self.shots_for(self.eval_docs[doc_id], count) if count else ()

    def shots_for(self, doc: Doc, count: int) -> tuple[int, ...]:
        """As ``shots``, for a doc given by its data."""
        if count == 0:
            return ()
        if self._sampler is None or self._sampler[0] != count:
            self._sampler = (count, self._make_sampler(count))
        return self._showable(self._sampler[1].draw(doc, count), doc)

    def _showable(self, drawn: tuple[int, ...], doc: Doc) -> tuple[int, ...]:
        """The indices drawn; a doc that cannot be shown is replaced by the next in the pool that can."""
        if not isinstance(self.shot_prompts, FormatPrompts):
            return drawn
        if all(map(self._shot_turns.__contains__, drawn)):  # shown before
            return drawn
        size = len(self.shot_pool)
        return with_substitutes(drawn, size, lambda index: self._is_shot(index, doc, drawn))

    def _is_shot(self, index: int, doc: Doc, drawn: Sequence[int]) -> bool:
        """Whether a doc of the pool can be an example for ``doc``."""
        if index not in drawn and self.shot_pool[index] == doc:
            return False
        sampler = self._sampler[1] if self._sampler else None
        if isinstance(sampler, MatchedSampler) and not sampler.suits(index, doc):
            return False
        if not self.is_good_example(index):
            return False
        try:
            self.shot_turn(index)
        except LmEvalError as error:
            # What concerns more than this doc is reported where the doc is shown.
            return error.skip_reason is None
        return True

    def shot_turn(self, pool_index: int) -> Turn:
        """A few-shot example as a turn; made once for all the docs it precedes."""
        if pool_index not in self._shot_turns:
            with self._located(pool_index, what="few-shot doc"):
                self._shot_turns[pool_index] = self.shot_prompts.shot(self.shot_pool[pool_index])
        return self._shot_turns[pool_index]

    def shot_text(self, pool_index: int) -> str:
        """A few-shot example in a plain prompt, delimiter included."""
        if pool_index not in self._shot_texts:
            self._shot_texts[pool_index] = self.shot_joints.shot_text(self.shot_turn(pool_index))
        return self._shot_texts[pool_index]

    def shot_messages(self, pool_index: int) -> tuple[Message, ...]:
        """A few-shot example as separate chat turns."""
        if pool_index not in self._shot_messages:
            self._shot_messages[pool_index] = shot_messages(self.shot_turn(pool_index))
        return self._shot_messages[pool_index]

    def description(self, doc_id: int) -> str:
        """The text at the start of a doc's prompt: the task's description, the format's preamble."""
        if not self.config.description and (self.format is None or not self.format.preamble):
            return ""
        with self._located(doc_id):
            return self.description_for(self.eval_docs[doc_id])

    def description_for(self, doc: Doc) -> str:
        """As ``description``, for a doc given by its data."""
        preamble = "" if self.format is None else self.format.preamble_for(doc)
        return self._own_description(doc) + preamble

    def _own_description(self, doc: Doc) -> str:
        text = self.config.description or ""
        if isinstance(text, str) and not is_jinja(text):
            return str(doc.get(text, text)) if text else ""
        if self.format is None and isinstance(text, str):
            return compile_template(text)(doc)
        return str(compile_field(text)(doc))

    @property
    def normalization(self) -> str | None:
        """How scored choices are compared for the main score; None: as the first metric says.

        The format's setting comes first. The task's applies to choices that are scored as texts: labels
        are equally long, so their plain sums are compared.
        """
        fmt, own = self.format, self.config.normalization
        if fmt is None:
            return own if self.output_type == "multiple_choice" else None
        return fmt.normalization or (own if fmt.scores_texts else None)

    @property
    def primary_metrics(self) -> tuple[str, ...]:
        """The metrics that may be the main score; the first that fits is. Empty: as the format says."""
        named = self.config.primary_metric
        return () if named is None else (named,) if isinstance(named, str) else tuple(named)

    @cached_property
    def scores_without_question(self) -> bool:
        """Whether every choice is also scored alone, for mutual information."""
        return MUTUAL_INFORMATION in self._wanted_metrics

    @cached_property
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
        wanted += self.primary_metrics
        return leading(wanted, self.normalization)

    def set_fewshot_seed(self, seed: int) -> None:
        """Restart the stream of few-shot examples from this seed."""
        self.seed = seed
        self._sampler = None
        self.__dict__.pop("sampler", None)

    def check_fitness(self, doc_ids: Sequence[int] | None = None) -> None:
        """Refuse a format on fields that are not raw; warn if literal text would appear twice.

        ``doc_ids`` are the docs to be asked; None means all.
        """
        if isinstance(self.prompts, FormatPrompts):
            chosen = range(len(self.eval_docs)) if doc_ids is None else doc_ids
            docs = [self.eval_docs[doc_id] for doc_id in chosen[:CHECKED_DOCS]]
            with self._located():
                check_fitness(self.prompts, self.config, docs)
                check_gold_positions(self.prompts.format, self.prompts.items(self.good_docs()))

    def check_config(self) -> None:
        """Refuse errors in the task's keys that show without a doc."""
        check_supported(self.config, task=self.name)
        with self._located():
            check_fields(self.config, task=self.name)
            if self.format is not None:
                self._prompts_for(self.config.raw, self.config.gen_prefix)

    def set_config(self, key: str, value: Any, update: bool = False) -> None:
        """Change one key of the config; ``update`` adds to a mapping instead of replacing it."""
        if key not in CONFIG_KEYS:
            raise ConfigError(
                f"Task {self.task_name!r}: {key!r} is not a key of a task."
                f"{did_you_mean(key, CONFIG_KEYS)}"
            )
        if update:
            value = {**(getattr(self.config, key) or {}), **value}
        setattr(self.config, key, value)

    def replace_config(self, config: TaskConfig) -> None:
        """Use another config; subclasses may make their own. Programs may assign to its keys."""
        self.config = copy.copy(config)
        self.config.on_change = self._forget
        self._forget()

    def _forget(self, key: str = "") -> None:
        """Discard what was made from the config and the docs; ``key`` is the key that was changed."""
        keeps_data = not key.startswith(("dataset_", "custom_dataset", "metadata"))
        for name in _MADE_FROM_CONFIG:
            if not (keeps_data and name == "splits"):
                self.__dict__.pop(name, None)
        for made in (self._shot_turns, self._shot_texts, self._shot_messages):
            made.clear()
        self._sampler = self.format_metrics = None

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits over the task's YAML and helper files, whatever the format.

        For a data set of the hub the commit counts too: with other docs it is another task.
        """
        record = self.data_record
        if record is None:
            return self._file_fingerprint
        text = f"{self._file_fingerprint} {record['commit']}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @cached_property
    def _file_fingerprint(self) -> str:
        return self.config.fingerprint()

    # Inside

    def _prompts_for(self, raw: RawFields, gen_prefix: Any, *, by_yaml: bool = False) -> Prompts:
        config = self.config
        check_supported(self.config, task=self.name)
        with self._located():
            if config.prompt_format is not None:
                config.check_format_fits(config.prompt_format)
                return FormatPrompts(
                    config.prompt_format,
                    raw,
                    target_type=config.target_type,
                    shuffle=config.shuffle_choices,
                    docs=self.good_docs,
                )
            check_needs_format(config)
            return self._harness_prompts(raw if by_yaml else self._own_fields(raw), gen_prefix)

    def _make_sampler(self, count: int) -> Sampler:
        match, settings = self.config.fewshot_match, self.config.fewshot_config or {}
        with self._located():
            return make_sampler(
                "first_n" if settings.get("ids") else settings.get("sampler"),
                self.shot_pool,
                self.pool_rules,
                count=count,
                seed=self.seed,
                task=self.task_name,
                match=None if match is None else shared_value(match),
            )

    @cached_property
    def _most_labels(self) -> float:
        """The most choices that the format shows."""
        fmt = self.format
        cuts = fmt is not None and fmt.cut_choices and isinstance(fmt.choice_labels, tuple)
        return len(fmt.choice_labels or ()) if fmt is not None and cuts else math.inf

    def _warn_cut(self, doc_id: int, asked: DocPrompt) -> None:
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


_MADE_FROM_CONFIG = tuple(
    name
    for made in (ConfigurableTask, TaskDocs, HarnessMethods)
    for name, value in vars(made).items()
    if isinstance(value, cached_property)
)

Task = ConfigurableTask
"""The name that older Python tasks use."""
