"""``TaskConfig``: a task's YAML, each key checked, with its format applied.

In: the keys of a task file. Out: raw field specs (``raw``), the task's own formats (``own_formats``),
and the format in use (``prompt_format``), which replaces ``doc_to_*`` by what it makes of them.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef
from lm_eval.errors import ConfigError, FormatError, LmEvalWarning, did_you_mean, few_names, listing
from lm_eval.formats.compile import (
    compile_formats,
    find_format,
    general_names,
    get_format,
    is_format,
)
from lm_eval.formats.jinja import JinjaField, choice_source, target_source, text_source, unwrapped
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.templates import (
    DEFAULT_CHOICES,
    DEFAULT_QUESTION,
    ClozeTemplate,
    MCQTemplate,
    TemplateConfig,
    TemplateFactory,
    generating,
)
from lm_eval.formats.variants import in_language
from lm_eval.registry import TEMPLATES
from lm_eval.tasks.checks import check_values, location_of, location_within, with_rows_of_files
from lm_eval.tasks.prompts import FormatPrompts, RawFields

if TYPE_CHECKING:
    from lm_eval.tasks.keys.sample_rows import SampleUse

DECIDED_BY_FORMAT = (
    "output_type",
    "target_delimiter",
    "fewshot_delimiter",
    "gen_prefix",
    "generation_kwargs",
)
NOT_KEYS = ("template_config", "checks_format")
"""Fields of ``TaskConfig`` that no YAML file can set."""
NOT_CONFIG = ("include", "group", "task_list", "tag_list", "class")


@dataclass
class TaskConfig:
    """One task. Fields are the keys of its YAML; ``raw`` keeps the specs as the task wrote them."""

    task: str | None = None
    task_alias: str | None = None
    tag: str | list[str] | None = None
    dataset_path: str | None = None
    dataset_name: str | None = None
    dataset_kwargs: dict[str, Any] | None = None
    dataset_revision: str | None = None
    dataset_files: Any = None
    columns: Any = None
    """The columns that docs must have: names, or name → type."""
    sample_rows: Any = None
    """A file of invented rows, for commands that call no model before the data is fetched."""
    custom_dataset: Any = None
    training_split: str | None = None
    validation_split: str | None = None
    test_split: str | None = None
    fewshot_split: str | None = None
    process_docs: Any = None
    unfold: Any = None
    """A variable and the list of its values in a row; each value makes a separate doc."""
    where: Any = None
    """An expression that is true for the rows that belong to the task."""
    skip_docs: Any = None
    """Docs that are known to be bad: reason → their numbers or ids, or an expression."""
    redact: bool | None = None
    """Whether files and previews hide the text of docs, for data that must not be published."""
    doc_to_context: Any = None
    """The passage that the question is about; a format shows it before the question."""
    doc_to_text: Any = None
    doc_to_rationale: Any = None
    """The worked reasoning that few-shot examples show under formats that ask for reasons."""
    doc_to_target: Any = None
    doc_to_choice: Any = None
    shuffle_choices: int | str | None = None
    """The seed by which the choices of each doc are ordered; None: as in the data."""
    target_type: str | None = None
    """What ``doc_to_target`` gives under a format: one of ``TARGET_TYPES``."""
    language: str | None = None
    """The language of the docs, such as ``de``; formats use it if they can."""
    doc_to_image: Any = None
    doc_to_audio: Any = None
    cluster: Any = None
    """What a doc belongs to, such as the passage it asks about: a field of the docs."""
    score_by: Any = None
    """The fields by whose values scores are also reported: one, a list of them, or name → field."""
    unsafe_code: bool = False
    process_results: Any = None
    checks: Any = None
    """The checks of a reply, instead of a gold: ``ids`` and ``arguments``, fields of the docs."""
    use_prompt: str | None = None
    description: str = ""
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    fewshot_config: dict[str, Any] | None = None
    fewshot_match: Any = None
    """The field whose value a doc and its few-shot examples share."""
    num_fewshot: int | None = None
    metric_list: list[dict[str, Any]] | None = None
    normalization: str | None = None
    primary_metric: str | list[str] | None = None
    """The metric that is the task's score; of several, the first that the answers allow."""
    output_type: str | None = None
    generation_kwargs: dict[str, Any] | None = None
    repeats: int = 1
    filter_list: list[dict[str, Any]] | None = None
    should_decontaminate: bool = False
    doc_to_decontamination_query: Any = None
    gen_prefix: str | None = None
    metadata: dict[str, Any] | None = None
    formats: Any = None
    template: Any = None
    template_config: TemplateConfig | None = None
    checks_format: bool = True
    """Whether a default format that does not fit is an error at once. Not a YAML key."""

    raw: RawFields = field(init=False, repr=False)
    wrapped: RawFields | None = field(init=False, repr=False, default=None)
    """``raw`` as the task's file has it, if a format uses other fields."""
    own_formats: Mapping[str, PromptFormat] = field(init=False, repr=False)
    prompt_format: PromptFormat | None = field(init=False, repr=False, default=None)
    format_problem: FormatError | None = field(init=False, repr=False, default=None)
    """Why the default format cannot be used; raised when the task is asked without ``@format``."""
    format_note: str = field(init=False, repr=False, compare=False, default="")
    """What users should know about the format; a warning when the task is asked with it."""
    data_pool: dict[str, Any] | None = field(init=False, repr=False, compare=False, default=None)
    """The data that tasks loaded together share."""
    source: str | None = field(init=False, repr=False, default=None)
    """The file the task was read from."""
    sample_use: SampleUse = field(init=False, repr=False, compare=False, default="never")
    """When ``sample_rows`` replace the data."""
    _written: dict[str, Any] = field(init=False, repr=False)
    _made: tuple[Any, ...] = field(init=False, repr=False, compare=False, default=())
    """``doc_to_*`` as this class set them; any other value was assigned by the user."""

    changes: int = field(init=False, repr=False, compare=False, default=0)
    """How many times a key was assigned; tells a task that its config has changed."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in _ASKED_KEYS:
            object.__setattr__(self, "changes", self.changes + 1)

    def __post_init__(self) -> None:
        if self.template is not None and self.formats is not None:
            raise ConfigError(
                f"Task {self.task!r} has both `template` and `formats`; they are two spellings of "
                "the same thing. Keep one."
            )
        self.raw = RawFields(
            self.doc_to_text,
            self.doc_to_choice,
            self.doc_to_target,
            self.doc_to_context,
            self.doc_to_rationale,
        )
        self.own_formats = {}
        self._written = {key: getattr(self, key) for key in DECIDED_BY_FORMAT}
        check_values(self)
        if self.formats is not None:
            self.own_formats = compile_formats(self.formats, task=str(self.task))
            self._apply_default(next(iter(self.own_formats.values())))
        elif self.template is not None:
            self._apply_template()
        if self.output_type is None:
            self.output_type = "generate_until"
        self._made = self._fields()

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, source: str | None = None) -> TaskConfig:
        """A config from YAML data; an unknown key is an error with its line and the nearest key."""
        keys = {name: value for name, value in mapping.items() if name not in NOT_CONFIG}
        for key in keys:
            if key not in CONFIG_KEYS:
                path, line = location_of(source, key)
                raise ConfigError(
                    f"{f'{path}, line {line}: ' if line else f'{path}: ' if path else ''}"
                    f"task {mapping.get('task')!r} has an unknown key "
                    f"{str(key)!r}.{did_you_mean(str(key), CONFIG_KEYS)} "
                    f"Keys: {few_names(str(key), CONFIG_KEYS)}.",
                    path=path,
                    line=line,
                )
        keys = dict(with_rows_of_files(keys, source))
        try:
            config = cls(**keys, checks_format=False)
        except ConfigError as error:
            if source is None or source in str(error):
                raise
            path, line = location_within(source, error.key, keys)
            where = f"{path}, line {line}" if line else path
            raise type(error)(f"{where}: {error}", path=path, line=line) from None
        config.source = source
        return config

    @property
    def own_stops(self) -> list[Any]:
        """The stop strings of the task itself, without those of the format."""
        return _stops(self._written["generation_kwargs"] or {})

    @property
    def uses_template(self) -> bool:
        return self.template is not None

    @property
    def has_format_map(self) -> bool:
        """Whether the task defines its own formats; ``formats: mcqa`` only names a default."""
        return bool(self.own_formats) and not isinstance(self.formats, str)

    def apply_format(self, fmt: PromptFormat) -> None:
        """Use this format: overwrite ``doc_to_*`` and the settings that the format decides."""
        self.check_format_fits(fmt)
        self._overwrite_with(fmt)

    def _apply_default(self, fmt: PromptFormat) -> None:
        """Apply the task's default format; a misfit matters only if no other format is chosen."""
        try:
            self.check_format_fits(fmt)
        except FormatError as error:
            if self.checks_format:
                raise
            self.format_problem = error
        self._overwrite_with(fmt)

    def check_format_fits(self, fmt: PromptFormat) -> None:
        """Refuse a format that needs a field the task does not have."""
        missing = self._missing_fields(fmt)
        if self.checks is not None:
            raise FormatError(
                f"Task {self.task!r} cannot be asked as {fmt.name!r}: its replies are checked as they "
                "are (`checks`), and no answer is read from them. Ask it without a format."
            )
        if missing:
            raise FormatError(
                f"Task {self.task!r} cannot be asked as {fmt.name!r}: it has no "
                f"{' and no '.join(missing)}. Name the field of the docs that holds it, for example "
                f"`{missing[0]}: {_EXAMPLE_FIELD[missing[0]]}`.{self._fitting_formats()}"
            )

    def _fitting_formats(self) -> str:
        names = [name for name in general_names() if not self._missing_fields(get_format(name))]
        return f" Formats that its fields can fill: {listing(names, 40)}." if names else ""

    def _overwrite_with(self, fmt: PromptFormat) -> None:
        self.format_note = ""
        if self.language is not None or fmt.has_words:
            fmt, self.format_note = in_language(fmt, self.language, task=str(self.task))
        self.prompt_format = fmt
        self.doc_to_text, self.doc_to_choice, self.doc_to_target = _applied(fmt, self.raw, self)
        self._made = self._fields()
        self.output_type = fmt.output_type
        self.target_delimiter = fmt.target_delimiter
        self.fewshot_delimiter = fmt.fewshot_delimiter
        self.gen_prefix = fmt.gen_prefix
        if fmt.reads_text:
            written = self.generation_kwargs or {}
            self.generation_kwargs = {**fmt.generation_kwargs, **written}
            stops = dict.fromkeys([*_stops(fmt.generation_kwargs), *_stops(written)])
            if stops:
                self.generation_kwargs["until"] = list(stops)

    def with_format(self, name: str) -> TaskConfig:
        """A copy of this task under ``task@name``: its own format of that name, or a registered one.

        A template class of that name is used as ``template: name`` would use it.
        """
        is_template = name not in self.own_formats and not is_format(name) and name in TEMPLATES
        changed = copy.copy(self)
        changed.template_config = None
        changed.raw = self._raw_now(with_templates=False)
        if self.formats is None and self.template is None:
            changed._unwrap()
        for key, value in self._written.items():  # undoes what an earlier format overwrote
            setattr(changed, key, value)
        if is_template:
            changed.template, changed.formats, changed.prompt_format = name, None, None
            changed.doc_to_target = changed.raw.target
            changed._apply_template()
        else:
            changed.apply_format(find_format(name, self.own_formats, task=str(self.task)))
        return changed

    def _unwrap(self) -> None:
        """Remove the words that a harness file puts around the question, with a warning."""
        self.wrapped, self.raw = self.raw, unwrapped(self.raw)
        if self.raw is not self.wrapped:
            fields = f"doc_to_text: {self.raw.text!r}"
            if self.raw.choice != self.wrapped.choice:
                fields += f", doc_to_choice: {self.raw.choice!r}"
            warnings.warn(
                f"Task {self.task!r}: doc_to_text is a prompt of its own "
                f"({shorten(str(self.wrapped.text), 60)}). Formats bring such words themselves, so "
                f"they were taken off, and the task is asked with {fields}.",
                LmEvalWarning,
                stacklevel=5,
            )

    def as_assigned(self) -> TaskConfig:
        """This config, or a copy that uses the ``doc_to_*`` assigned to it since it was made.

        Programs switch templates at run time in this way. Such fields are used as they are, so the
        format that made the earlier ones no longer applies.
        """
        if all(now is made for now, made in zip(self._fields(), self._made, strict=True)):
            return self
        changed = copy.copy(self)
        changed.prompt_format = None
        changed.raw = self._raw_now(with_templates=True)
        return changed

    def take_assigned(self) -> None:
        """Apply what was assigned to this config in place: programs may go on changing it."""
        vars(self).update(vars(self.as_assigned()))

    def format_choices(self) -> list[str]:
        """What ``task@*`` selects: the task's own formats, or all general ones that it can fill."""
        if self.has_format_map:
            return list(self.own_formats)
        return [name for name in general_names() if not self._missing_fields(get_format(name))]

    def unfillable_formats(self) -> dict[str, str]:
        """Format → the fields that it needs and this task lacks."""
        missing = {name: self._missing_fields(get_format(name)) for name in general_names()}
        return {
            name: f"the task has no {' and no '.join(keys)}"
            for name, keys in missing.items()
            if keys
        }

    def load_helpers(self) -> None:
        """Import every helper module the task names: some register filters as they load."""
        for _, function in self.functions():
            function.resolve()

    def functions(self) -> Iterator[tuple[str, FunctionRef]]:
        """Every Python object the task names, with its key."""
        pending: list[tuple[str, Any]] = [(key, getattr(self, key)) for key in CONFIG_KEYS]
        while pending:
            key, value = pending.pop()
            if isinstance(value, FunctionRef):
                yield key, value
            elif isinstance(value, Mapping):
                pending += [(f"{key}.{inner}", item) for inner, item in value.items()]
            elif isinstance(value, list):
                pending += [(key, item) for item in value]

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def to_dict(self) -> dict[str, Any]:
        """The config as the results file shows it: only keys that are set and affect results."""
        values = {key: getattr(self, key) for key in CONFIG_KEYS if key != "sample_rows"}
        return {key: value for key, value in values.items() if value is not None}

    def _fields(self) -> tuple[Any, ...]:
        return self.doc_to_text, self.doc_to_choice, self.doc_to_target

    def _raw_now(self, *, with_templates: bool) -> RawFields:
        """The raw fields, with those assigned since; fields that a template made are not raw."""
        raw = (self.raw.text, self.raw.choice, self.raw.target)
        fields_now = []
        for now, made, before in zip(self._fields(), self._made, raw, strict=True):
            is_assigned = now is not made and (with_templates or not isinstance(now, JinjaField))
            fields_now.append(now if is_assigned else before)
        text, choice, target = fields_now
        return replace(self.raw, text=text, choice=choice, target=target)

    def _apply_template(self) -> None:
        template = TemplateFactory.from_spec(self.template)
        self.template_config = template
        if type(template) in (MCQTemplate, ClozeTemplate):
            fmt = template.as_format()
            if self.output_type == "generate_until":
                fmt = generating(fmt)
            self._overwrite_with(fmt)  # even without a target: prompts can be shown, but not scored
            return
        self.doc_to_text, self.doc_to_choice = template.fields_for(*self._template_fields())
        self._made = self._fields()
        self.output_type = self.output_type or "multiple_choice"

    def _template_fields(self) -> tuple[Any, Any]:
        question = DEFAULT_QUESTION if self.raw.text is None else self.raw.text
        return question, DEFAULT_CHOICES if self.raw.choice is None else self.raw.choice

    def _missing_fields(self, fmt: PromptFormat) -> list[str]:
        wanted = {"doc_to_text": self.raw.text, "doc_to_target": self.raw.target}
        if fmt.needs_choices:
            wanted["doc_to_choice"] = self.raw.choice
        if self.uses_template:
            wanted.pop("doc_to_text", None)
            wanted.pop("doc_to_choice", None)
        return [name for name, spec in wanted.items() if spec is None]


CONFIG_KEYS = tuple(f.name for f in fields(TaskConfig) if f.init and f.name not in NOT_KEYS)
_ASKED_KEYS = frozenset(CONFIG_KEYS)
_EXAMPLE_FIELD = {"doc_to_text": "question", "doc_to_target": "answer", "doc_to_choice": "choices"}


def _applied(fmt: PromptFormat, raw: RawFields, config: TaskConfig) -> tuple[Any, Any, Any]:
    """``doc_to_text``, ``doc_to_choice`` and ``doc_to_target`` under a format."""
    text, choice = raw.text, raw.choice
    if config.uses_template:
        text, choice = config._template_fields()
        config.raw = raw = replace(raw, text=text, choice=choice)
    seed = config.shuffle_choices
    prompts = FormatPrompts(fmt, raw, target_type=config.target_type, shuffle=seed)
    has_source = seed is None or choice is None  # stock Jinja cannot shuffle choices
    text_jinja = text_source(fmt, text, choice, raw.context) if has_source else None
    choice_jinja = choice_source(fmt, choice) if has_source and choice is not None else None
    target_jinja = (
        target_source(fmt, choice, raw.target, config.target_type) if has_source else None
    )
    return (
        _field(text_jinja, prompts.text),
        None if choice is None else _field(choice_jinja, prompts.scored),
        None if raw.target is None else _field(target_jinja, prompts.target),
    )


def _stops(generation_kwargs: Mapping[str, Any]) -> list[Any]:
    until = generation_kwargs.get("until")
    return list(until) if isinstance(until, list | tuple) else [] if until is None else [until]


def _field(source: str | None, call: Any) -> Any:
    return call if source is None else JinjaField(source, call)
