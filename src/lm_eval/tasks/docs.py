"""A task's docs: its splits, the docs to ask, and the pool of its few-shot examples.

In: a ``TaskConfig``. Out: processed docs. Data is loaded when docs are first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from lm_eval.config.fields import compile_field, process_field
from lm_eval.data.resolve import is_on_hub, load_splits
from lm_eval.data.splits import Splits, mappings, splits_of
from lm_eval.data.table import Table
from lm_eval.errors import (
    ConfigError,
    DataError,
    FieldError,
    FormatError,
    KnownBadDocError,
    MissingExtraError,
    place,
)
from lm_eval.tasks.checks import score_fields
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.fewshot import PoolRules
from lm_eval.tasks.keys.rows import (
    KnownBadDocs,
    RowFilter,
    Unfolding,
    cluster_name,
    instructions,
    named_examples,
    part_name,
)
from lm_eval.tasks.methods import HarnessMethods

Doc = Mapping[str, Any]


class TaskDocs(HarnessMethods):
    """The part of a task that knows its data."""

    _rows_of: dict[str, int]
    """Split → how many rows it has, if ``where`` keeps only some of them."""
    shows_redacted = False
    """Whether the user asks to see what ``redact`` hides."""
    config: TaskConfig
    format_name: str | None = None
    parity: bool

    def overrides(self, name: str) -> bool:
        """Whether a subclass, or ``task.name = function``, overrides this method of the harness."""
        return name in vars(self) or getattr(type(self), name) is not getattr(HarnessMethods, name)

    @property
    def task_name(self) -> str:
        return str(self.config.task)

    @task_name.setter
    def task_name(self, name: str) -> None:
        self.config.task = name

    @property
    def name(self) -> str:
        """``task@format`` if a format was chosen with ``@``, else the task's name."""
        return f"{self.task_name}@{self.format_name}" if self.format_name else self.task_name

    @cached_property
    def splits(self) -> Splits:
        """Split name → rows; replacing a split changes the docs that are asked."""
        splits = self._read_splits()
        splits.on_change = self._forget
        return splits

    def _forget(self) -> None:
        """Discard what was made from the docs."""

    def replace_splits(self, splits: Mapping[str, Any]) -> None:
        """Use docs from code, as ``custom_dataset`` would."""
        with self._located():
            self.splits = splits_of(splits, "dataset")
        self.splits.on_change = self._forget
        self._forget()

    @cached_property
    def uses_sample_rows(self) -> bool:
        """Whether the docs are the invented rows of ``sample_rows``."""
        use, has_rows = self.config.sample_use, self.config.sample_rows is not None
        if use == "never":
            return False
        if use == "if_absent":
            return has_rows and not self._is_data_here()
        if not has_rows and self.data_from != "files":
            with self._located():
                raise DataError(
                    "it has no sample_rows to use instead of its data. Give it a file of invented rows "
                    "(`sample_rows: rows/my_task.jsonl`), or leave out --sample_rows."
                )
        return has_rows

    def _is_data_here(self) -> bool:
        """Whether the docs can be read without a network."""
        config = self.config
        if self.data_from != "hub":
            return True
        from lm_eval.data.hub.load import is_cached

        return is_cached(
            str(config.dataset_path),
            config.dataset_name,
            config.dataset_kwargs,
            revision=config.dataset_revision,
            files=config.dataset_files,
            split=config.test_split or config.validation_split,
        )

    def _read_splits(self) -> Splits:
        """The task's data; tasks that are loaded together read the same data once.

        A task with its own Python code reads it alone, because it may change the rows.
        """
        pool = self.config.data_pool
        if pool is None or self._has_code:
            return self._load_splits()
        key = self._data_key()
        if key not in pool:
            pool[key] = self._load_splits()
        shared: Splits = pool[key]
        return shared.view()

    def _data_key(self) -> str:
        """Equal for tasks that read the same splits of the same data."""
        config = self.config
        return repr(
            (
                *(config.dataset_path, config.dataset_name, config.dataset_kwargs),
                *(config.dataset_revision, config.dataset_files, config.columns),
                *(config.test_split, config.validation_split, config.training_split),
                *(config.fewshot_split, (config.fewshot_config or {}).get("split")),
                *(self._folder, self.parity, self.has_media),
                config.sample_rows if self.uses_sample_rows else None,
            )
        )

    def _load_splits(self) -> Splits:
        config = self.config
        with self._located():
            if self.uses_sample_rows:
                from lm_eval.tasks.keys.sample_rows import sample_splits

                return sample_splits(config, self._folder)
            if config.custom_dataset is not None:
                dataset = config.custom_dataset(**self._facts_for_code())
                return splits_of(dataset, "custom_dataset")
            if not config.dataset_path:
                raise DataError(
                    "no dataset_path. Give one: a file (`questions.jsonl`), `json` with "
                    "dataset_kwargs.data_files, or a hub name."
                )
            splits = load_splits(
                config.dataset_path,
                config.dataset_name,
                config.dataset_kwargs,
                revision=config.dataset_revision,
                files=config.dataset_files,
                base_dir=self._folder,
                reads_dates=self.parity,
                has_media=self.has_media,
                is_private=self._has_code,
            )
            splits.columns = config.columns
            return splits

    @property
    def data_record(self) -> dict[str, Any] | None:
        """Which files of which commit of the hub the docs were read from; None for other data."""
        splits: Splits | None = self.__dict__.get("splits")  # not loaded for this
        if splits is None or splits.origin is None or not splits.origin.fetched:
            return None
        return splits.origin.record()

    def _facts_for_code(self) -> dict[str, Any]:
        """The arguments of ``custom_dataset``."""
        metadata, arguments = self.config.metadata or {}, self.config.dataset_kwargs or {}
        for key in metadata.keys() & arguments.keys():
            raise ConfigError(
                f"{key!r} is in metadata and in dataset_kwargs, and custom_dataset is called "
                "with both. Rename one of the two."
            )
        return {**metadata, **arguments}

    @property
    def data_from(self) -> Literal["files", "hub", "code"]:
        """Where docs come from; none are fetched for this."""
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
            docs_of_class = self.test_docs() if self.has_test_docs() else self.validation_docs()
            return [dict(doc) for doc in docs_of_class]
        split = self.config.test_split or self.config.validation_split
        if split is None:
            raise DataError(
                f"Task {self.task_name!r} names neither test_split nor validation_split, so there "
                "is nothing to ask. Add `test_split: <name of the split>`."
            )
        # Not copied: the docs of a large task are most of what a run holds in memory.
        config = self.config
        table = self._processed(split, config.process_docs, config.where)
        docs: Sequence[Doc] = table.own_rows() if self._has_code else table.rows
        if not docs:
            raise DataError(
                f"Task {self.task_name!r}: split {split!r} holds no docs"
                f"{' after process_docs' if self.config.process_docs else ''}."
            )
        return docs

    @property
    def _has_code(self) -> bool:
        """Whether the task's own Python code sees its docs, and may change them."""
        config, raw = self.config, self.config.raw
        is_own = type(self).__module__ != "lm_eval.tasks.task"
        calls = (config.custom_dataset, config.process_docs, config.process_results)
        settings = (raw.text, raw.choice, raw.target, config.description, *calls)
        return is_own or any(map(callable, settings)) or any(True for _ in config.functions())

    @property
    def hides_docs(self) -> bool:
        """Whether samples and previews hide the text of the docs."""
        return bool(self.config.redact) and not self.shows_redacted

    @cached_property
    def _known_bad(self) -> KnownBadDocs | None:
        skip_docs = self.config.skip_docs
        if skip_docs is not None and self.uses_sample_rows:
            from lm_eval.tasks.keys.sample_rows import without_numbers

            skip_docs = without_numbers(skip_docs)
        with self._located():
            return None if skip_docs is None else KnownBadDocs(skip_docs, self.eval_docs)

    def check_not_bad(self, doc_id: int) -> None:
        """Refuse a doc that ``skip_docs`` leaves out."""
        reason = self._known_bad.reason(doc_id) if self._known_bad else None
        if reason is not None:
            raise KnownBadDocError(
                f"the task leaves it out: skip_docs says {reason!r}.",
                skip_reason=f"skip_docs: {reason}",
            )

    def good_docs(self) -> Sequence[Doc]:
        """The docs to be asked, without those that ``skip_docs`` leaves out."""
        bad = self._known_bad
        if bad is None:
            return self.eval_docs
        return [doc for doc_id, doc in enumerate(self.eval_docs) if bad.reason(doc_id) is None]

    def is_good_example(self, index: int) -> bool:
        """Whether ``skip_docs`` leaves a doc of the pool in."""
        bad = self._known_bad
        if bad is None:
            return True
        if self.pool_rules.excludes_doc and not self.uses_sample_rows:  # the pool is what is asked
            return bad.reason(index) is None
        return bad.reason_of(self.shot_pool[index]) is None

    @property
    def rows_total(self) -> int | None:
        """How many rows the asked split has, kept or not; None without ``where``."""
        len(self.eval_docs)  # choosing them counts them
        return self._rows_of.get(self.config.test_split or self.config.validation_split or "")

    @cached_property
    def shot_pool(self) -> Sequence[Doc]:
        """The docs that examples are drawn from; read once."""
        return list(self.fewshot_docs()) if self.overrides("fewshot_docs") else self._shot_docs()

    def _shot_docs(self) -> Sequence[Doc]:
        """The docs that the YAML names for examples."""
        settings = self.config.fewshot_config or {}
        split = settings.get("split") or self.config.fewshot_split
        if split is not None:
            process = settings.get("process_docs", self.config.process_docs)
            where = settings.get("where", self.config.where)
            return self._named(self._processed(split, process, where).to_list(), split)
        samples = settings.get("samples")
        if samples is not None:
            with self._located():
                return mappings(
                    samples() if callable(samples) else samples, "fewshot_config.samples"
                )
        config = self.config
        if self.overrides("training_docs") and self.has_training_docs():
            return [dict(doc) for doc in self.training_docs()]
        for fallback in (config.training_split, config.validation_split, config.test_split):
            if fallback is not None:
                return self._named(self.split_docs(fallback), fallback)
        raise DataError(f"Task {self.task_name!r} has no split to draw few-shot examples from.")

    def _named(self, docs: Sequence[Doc], split: str) -> Sequence[Doc]:
        """The docs that the task names as examples; all of them if they are invented rows."""
        settings = self.config.fewshot_config or {}
        if settings.get("ids") is None or self.uses_sample_rows:
            return docs
        with self._located():
            return named_examples(docs, settings["ids"], settings.get("id", "id"), split=split)

    def split_names(self, *, with_shots: bool) -> list[str]:
        """The splits that a run reads; the split of few-shot examples only if there may be any."""
        config, settings = self.config, self.config.fewshot_config or {}
        asked = [config.test_split or config.validation_split]
        if with_shots and config.num_fewshot != 0:
            named = settings.get("split") or config.fewshot_split
            if named is None and settings.get("samples") is None:
                named = config.training_split or config.validation_split or config.test_split
            asked.append(named)
        return list(dict.fromkeys(name for name in asked if name is not None))

    @property
    def pool_rules(self) -> PoolRules:
        """Whether a doc could be drawn as its own example, and how that is prevented."""
        settings = self.config.fewshot_config or {}
        config = self.config
        named = settings.get("split") or config.fewshot_split
        # The harness compares the two names, so two unset names are one split to it.
        draws_one_more = named == config.test_split
        if named is None and settings.get("samples") is not None:
            return PoolRules(draws_one_more, excludes_doc=False)
        pool = named or config.training_split or config.validation_split or config.test_split
        is_same = pool == (config.test_split or config.validation_split)
        if self.uses_sample_rows:  # every split has the same rows
            is_same = any(doc != self.shot_pool[0] for doc in self.shot_pool)
        return PoolRules(draws_one_more, excludes_doc=is_same and not self.parity)

    def cluster_of(self, doc_id: int) -> str | None:
        """The cluster of a doc; None if the task has no ``cluster``."""
        if self.config.cluster is None:
            return None
        with self._located(doc_id, field="cluster"):
            return cluster_name(compile_field(self.config.cluster)(self.eval_docs[doc_id]))

    def parts_of(self, doc_id: int) -> dict[str, str]:
        """Field of ``score_by`` → the part that a doc belongs to; empty without ``score_by``."""
        parts: dict[str, str] = {}
        for name, spec in score_fields(self.config.score_by).items():
            with self._located(doc_id, field="score_by"):
                parts[name] = part_name(compile_field(spec)(self.eval_docs[doc_id]), name)
        return parts

    def checks_of(self, doc_id: int) -> list[tuple[str, dict[str, Any]]]:
        """The checks of the reply to a doc: their ids and arguments.

        Arguments that are None are left out: Parquet adds the arguments of other checks as None.
        """
        if self.config.checks is None:
            return []
        doc = self.eval_docs[doc_id]
        with self._located(doc_id, field="checks"):
            ids = compile_field(self.config.checks["ids"])(doc)
            arguments = process_field(doc, self.config.checks.get("arguments"), [{}] * len(ids))
            return instructions(ids, arguments)

    @property
    def has_media(self) -> bool:
        """Whether docs have images or audio, which only some models accept."""
        return self.config.doc_to_image is not None or self.config.doc_to_audio is not None

    def media(self, doc_id: int) -> dict[str, Any]:
        """A doc's images and audio, under the names that the harness's models read."""
        doc = self.eval_docs[doc_id]
        media = {}
        for name, key in (("visual", "doc_to_image"), ("audio", "doc_to_audio")):
            spec = getattr(self.config, key)
            if spec is not None:
                with self._located(doc_id):
                    media[name] = self._media_of(doc, spec, key)
        return media

    def split_docs(self, split: str | None) -> Sequence[Doc]:
        """The processed docs of a split; none if the task does not name it."""
        if split is None:
            return []
        config = self.config
        return self._processed(split, config.process_docs, config.where).to_list()

    def _processed(self, split: str, process: Any, where: Any) -> Table:
        with self._located():
            table = self.splits[split]
            docs = table if process is None else process(table)
            if not isinstance(docs, Table):
                docs = Table.from_list(mappings(docs, "process_docs"))
            if self.config.unfold is not None:
                docs = Table.owning(Unfolding(self.config.unfold).docs(docs.rows, split=split))
            if where is None:
                return docs
            kept = docs.select(RowFilter(where).kept(docs.rows, split=split))
            self._rows_of[split] = len(docs)
            return kept

    @contextmanager
    def _located(
        self, doc_id: int | None = None, *, what: str = "doc", field: str | None = None
    ) -> Iterator[None]:
        """Add the task, the doc and the field to errors that do not name them."""
        try:
            yield
        except FieldError as error:
            raise error.located(
                task=self.name, doc_id=doc_id, field=field, what=what
            ) from error.__cause__
        except MissingExtraError as error:
            where = place(self.name, None, doc_id, what=what)
            if error.what.startswith("Task "):
                raise
            raise MissingExtraError(f"{where}{error.what}", install=error.install) from error
        except (FormatError, DataError, ConfigError) as error:
            where = place(self.name, None, doc_id, what=what)
            if str(error).startswith((where, "Task ")):
                raise
            raise error.saying(f"{where}{error}") from error.__cause__
