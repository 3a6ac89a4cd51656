"""``ConfigurableTask``: a task's docs, turned into prompts and gold answers under one format.

In: a ``TaskConfig``. Out: for each doc what is asked (``ask``), with which examples (``shots``), and
what is right. Loading data waits until docs are first asked for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from lm_eval.config.fields import compile_field, is_jinja
from lm_eval.data import Splits, Table, load_splits
from lm_eval.errors import ConfigError, DataError, FieldError, FormatError, LmEvalWarning, place
from lm_eval.formats.assemble import Joints, Message, Turn, shot_messages
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.fewshot import DEFAULT_SEED, Sampler, make_sampler
from lm_eval.tasks.fitness import check_fitness
from lm_eval.tasks.prompts import Asked, FormatPrompts, Prompts, RawFields, RawPrompts

Doc = Mapping[str, Any]


class ConfigurableTask:
    """One task under one format (or under none). Docs are numbered by their place in the split."""

    def __init__(
        self, config: TaskConfig | Mapping[str, Any], *, format_name: str | None = None
    ) -> None:
        if not isinstance(config, TaskConfig):
            config = TaskConfig.from_mapping(config)
        self.config = (
            config.as_assigned() if format_name is None else config.with_format(format_name)
        )
        self.format_name = format_name
        self.seed = DEFAULT_SEED
        self._shot_turns: dict[int, Turn] = {}
        self._shot_texts: dict[int, str] = {}
        self._shot_messages: dict[int, tuple[Message, ...]] = {}
        self._sampler: tuple[int, Sampler] | None = None

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

    # Docs

    @cached_property
    def splits(self) -> Splits:
        config = self.config
        with self._located():
            if config.custom_dataset is not None:
                given = config.custom_dataset(
                    **(config.metadata or {}), **(config.dataset_kwargs or {})
                )
                return Splits({name: _rows(rows) for name, rows in given.items()}, "custom_dataset")
            if not config.dataset_path:
                raise DataError(
                    "no dataset_path. Give one: a file (`questions.jsonl`), `json` with "
                    "dataset_kwargs.data_files, or a hub name."
                )
            base = Path(config.source).parent if config.source else None
            return load_splits(
                config.dataset_path, config.dataset_name, config.dataset_kwargs, base_dir=base
            )

    @cached_property
    def eval_docs(self) -> Sequence[Doc]:
        """The docs to be asked, processed: the test split, else the validation split."""
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
            return list(samples() if callable(samples) else samples)
        config = self.config
        for fallback in (config.training_split, config.validation_split, config.test_split):
            if fallback is not None:
                return self._processed(fallback, config.process_docs)
        raise DataError(f"Task {self.task_name!r} has no split to draw few-shot examples from.")

    @property
    def pool_may_hold_doc(self) -> bool:
        """Whether a doc could be drawn as its own example: pool and docs come from one split."""
        settings = self.config.fewshot_config or {}
        config = self.config
        pool = settings.get("split") or config.fewshot_split
        if pool is None and settings.get("samples") is not None:
            return False
        pool = pool or config.training_split or config.validation_split or config.test_split
        return pool == (config.test_split or config.validation_split)

    # Asking

    @cached_property
    def prompts(self) -> Prompts:
        return self._prompts_for(self.config.raw)

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
        return self.prompts if changed == raw else self._prompts_for(changed)

    def ask(self, doc_id: int) -> Asked:
        """What is asked about a doc. Errors name the task and the doc."""
        with self._located(doc_id):
            asked = self.prompts.ask(self.eval_docs[doc_id])
        if len(asked.choices) > self._most_labels:
            self._warn_cut(doc_id, asked)
        return asked

    def shots(self, doc_id: int, count: int) -> tuple[int, ...]:
        """Places in the pool of the examples for a doc; call in doc order, as one stream is drawn."""
        if count == 0:
            return ()
        if self._sampler is None or self._sampler[0] != count:
            self._sampler = (count, self._make_sampler(count))
        return self._sampler[1].draw(self.eval_docs[doc_id], count)

    def shot_turn(self, pool_place: int) -> Turn:
        """A few-shot example as a turn; made once, whatever number of docs it stands before."""
        if pool_place not in self._shot_turns:
            with self._located(pool_place, what="few-shot doc"):
                self._shot_turns[pool_place] = self.shot_prompts.shot(self.fewshot_docs[pool_place])
        return self._shot_turns[pool_place]

    def shot_text(self, pool_place: int) -> str:
        """A few-shot example as it stands in a plain prompt, delimiter included."""
        if pool_place not in self._shot_texts:
            self._shot_texts[pool_place] = self.joints.shot_text(self.shot_turn(pool_place))
        return self._shot_texts[pool_place]

    def shot_messages(self, pool_place: int) -> tuple[Message, ...]:
        """A few-shot example as chat turns of its own."""
        if pool_place not in self._shot_messages:
            self._shot_messages[pool_place] = shot_messages(self.shot_turn(pool_place))
        return self._shot_messages[pool_place]

    def description(self, doc_id: int) -> str:
        """The text at the start of a doc's prompt."""
        text = self.config.description or ""
        if not isinstance(text, str) or is_jinja(text):
            with self._located(doc_id):
                return str(compile_field(text)(self.eval_docs[doc_id]))
        return str(self.eval_docs[doc_id].get(text, text)) if text else ""

    def set_fewshot_seed(self, seed: int) -> None:
        """Start the stream of few-shot examples anew, from this seed."""
        self.seed = seed
        self._sampler = None

    def check_fitness(self) -> None:
        """Refuse a format on fields that are not raw; warn where literal text would double up."""
        if isinstance(self.prompts, FormatPrompts):
            with self._located():
                check_fitness(self.prompts, self.config, self.eval_docs)

    # Inside

    def _prompts_for(self, raw: RawFields) -> Prompts:
        config = self.config
        with self._located():
            if config.prompt_format is not None:
                config.check_format_fits(config.prompt_format)
                return FormatPrompts(config.prompt_format, raw)
            text, choice = raw.text, raw.choice
            if config.template_config is not None and raw == config.raw:
                text, choice = config.doc_to_text, config.doc_to_choice
            return RawPrompts(
                text,
                choice,
                raw.target,
                output_type=self.output_type,
                gen_prefix=config.gen_prefix,
            )

    def _processed(self, split: str, process: Any) -> Sequence[Doc]:
        with self._located():
            docs: Any = self.splits[split]
            if process is not None:
                docs = process(docs)
            if not isinstance(docs, Table):
                docs = Table.from_list([dict(doc) for doc in docs])
            rows: list[Doc] = (
                docs.to_list()
            )  # a table copies rows on every access; docs are read many times
            return rows

    def _make_sampler(self, count: int) -> Sampler:
        return make_sampler(
            (self.config.fewshot_config or {}).get("sampler"),
            self.fewshot_docs,
            count=count,
            seed=self.seed,
            may_hold_doc=self.pool_may_hold_doc,
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
            raise error.located(task=self.name, doc_id=doc_id) from error.__cause__
        except (FormatError, DataError, ConfigError) as error:
            where = place(self.name, None, doc_id).replace("doc ", f"{what} ")
            if str(error).startswith((where, "Task ")):
                raise
            raise type(error)(f"{where}{error}") from None


def _rows(rows: Any) -> Callable[[], Table]:
    return lambda: rows if isinstance(rows, Table) else Table.from_list([dict(row) for row in rows])
