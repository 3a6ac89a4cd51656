"""``TaskConfig``: a task's YAML, each key checked, and the format through which it is seen.

In: the keys of a task file. Out: the same keys. A format changes none of them: ``doc_to_*`` and the
other keys that a format decides are made from it (``prompt_format``) when they are read.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef
from lm_eval.config.schema import ANYTHING, check, placed
from lm_eval.errors import ConfigError, FormatError, LmEvalWarning, listing
from lm_eval.formats.compile import (
    compile_formats,
    find_format,
    general_names,
    get_format,
    is_format,
)
from lm_eval.formats.jinja import JinjaField, choice_source, target_source, text_source
from lm_eval.formats.languages import in_language
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
from lm_eval.registry import TEMPLATES
from lm_eval.tasks.checks import check_values, with_rows_of_files
from lm_eval.tasks.prompts import FormatPrompts, RawFields, unwrapped

if TYPE_CHECKING:
    from lm_eval.tasks.keys.sample_rows import SampleUse

FIELDS = ("doc_to_text", "doc_to_choice", "doc_to_target")
NOT_KEYS = ("template_config",)
"""Fields of ``TaskConfig`` that no YAML file can set."""
FINGERPRINT_KEYS = (
    *("dataset_path", "dataset_name", "dataset_kwargs", "test_split"),
    *("validation_split", "fewshot_split", "fewshot_config", "process_docs"),
    *("description", "num_fewshot", "repeats", "process_results"),
    *("filter_list", "metric_list"),
)
NEWER_FINGERPRINT_KEYS = (
    *("normalization", "target_type", "dataset_revision", "dataset_files"),
    *("primary_metric", "doc_to_context", "where", "skip_docs", "fewshot_match", "language"),
    *("doc_to_rationale", "shuffle_choices", "unfold"),
)
"""Keys that count only if they are set, so that older fingerprints stay the same."""
NOT_CONFIG = ("include", "group", "task_list", "tag_list", "class")


class _Seen:
    """A key that is seen through the format in use; the config keeps what its file says."""

    def __init__(self, default: Any = None) -> None:
        self._default = default

    def __set_name__(self, _: type[TaskConfig], key: str) -> None:
        self._key = key

    def __get__(self, config: TaskConfig | None, _: type[TaskConfig]) -> Any:
        return self._default if config is None else config._seen(self._key)

    def __set__(self, config: TaskConfig, value: Any) -> None:
        config._assign(self._key, value)


@dataclass
class TaskConfig:
    """One task. Fields are the keys of its YAML. What a program assigns to them comes first.

    ``doc_to_*`` that are assigned are used as they are, so that no format applies any more: programs
    switch templates at run time in this way.
    """

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
    doc_to_text: Any = _Seen()
    doc_to_rationale: Any = None
    """The worked reasoning that few-shot examples show under formats that ask for reasons."""
    doc_to_target: Any = _Seen()
    doc_to_choice: Any = _Seen()
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
    target_delimiter: Any = _Seen(" ")
    fewshot_delimiter: Any = _Seen("\n\n")
    fewshot_config: dict[str, Any] | None = None
    fewshot_match: Any = None
    """The field whose value a doc and its few-shot examples share."""
    num_fewshot: int | None = None
    metric_list: list[dict[str, Any]] | None = None
    normalization: str | None = None
    primary_metric: str | list[str] | None = None
    """The metric that is the task's score; of several, the first that the answers allow."""
    output_type: Any = _Seen()
    generation_kwargs: Any = _Seen()
    repeats: int = 1
    filter_list: list[dict[str, Any]] | None = None
    should_decontaminate: bool = False
    doc_to_decontamination_query: Any = None
    gen_prefix: Any = _Seen()
    metadata: dict[str, Any] | None = None
    formats: Any = None
    template: Any = None
    template_config: TemplateConfig | None = None

    own_formats: Mapping[str, PromptFormat] = field(init=False, repr=False)
    data_pool: dict[str, Any] | None = field(init=False, repr=False, compare=False, default=None)
    """The data that tasks loaded together share."""
    source: str | None = field(init=False, repr=False, default=None)
    """The file the task was read from."""
    overridden: frozenset[str] = field(init=False, repr=False, compare=False, default=frozenset())
    """The keys that a group replaced; they hold under every format."""
    sample_use: SampleUse = field(init=False, repr=False, compare=False, default="never")
    """When ``sample_rows`` replace the data."""
    on_change: Callable[[str], None] | None = field(
        init=False, repr=False, compare=False, default=None
    )
    """Told the name of each key that is assigned."""
    _chosen: PromptFormat | None = field(init=False, repr=False, default=None)
    """The format that ``@`` chose, or that the template is."""
    _bare: RawFields | None = field(init=False, repr=False, default=None)
    """The fields without the words that a harness file puts around the question, for that format."""
    _assigned: dict[str, Any] = field(init=False, repr=False)
    _made: dict[str, Any] = field(init=False, repr=False, compare=False)
    """What was made of the format, by key; each when it was first read."""

    def __post_init__(self) -> None:
        if self.template is not None and self.formats is not None:
            raise ConfigError(
                f"Task {self.task!r} has both `template` and `formats`; they are two spellings of "
                "the same thing. Keep one."
            )
        self._assigned, self.own_formats = {}, {}
        check_values(self)
        if self.formats is not None:
            self.own_formats = compile_formats(self.formats, task=str(self.task))
        elif self.template is not None:
            self._take_template()
        self._made = {}

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name in _KEYS and "_made" in vars(self):
            self._made.clear()
            if self.on_change is not None:
                self.on_change(name)

    def __copy__(self) -> TaskConfig:
        copied = object.__new__(type(self))
        own = {"_assigned": dict(self._assigned), "_made": {}, "on_change": None}
        vars(copied).update({**vars(self), **own})
        return copied

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, source: str | None = None) -> TaskConfig:
        """A config from YAML data; an unknown key is an error with its line and the nearest key."""
        keys = {name: value for name, value in mapping.items() if name not in NOT_CONFIG}
        try:
            check(dict.fromkeys(keys), _ALL_KEYS, f"Task {mapping.get('task')!r}")
            keys = dict(with_rows_of_files(keys, source))
            config = cls(**keys)
        except ConfigError as error:
            formats = keys.get("formats")
            named = formats if isinstance(formats, Mapping) else ()
            inside = [("formats",), ("template",), *(("formats", str(name)) for name in named)]
            raise placed(error, source, *inside) from None
        config.source = source
        return config

    # The format in use

    @property
    def prompt_format(self) -> PromptFormat | None:
        """The format chosen with ``@``, else the task's default; None: its fields are the prompt."""
        return self._format_and_note[0]

    @property
    def format_note(self) -> str:
        """What users should know about the format; a warning when the task is asked with it."""
        return self._format_and_note[1]

    @property
    def _format_and_note(self) -> tuple[PromptFormat | None, str]:
        if any(key in self._assigned for key in FIELDS):
            return None, ""
        if "format" not in self._made:
            fmt, note = self._chosen or next(iter(self.own_formats.values()), None), ""
            if fmt is not None and (self.language is not None or fmt.has_words):
                fmt, note = in_language(fmt, self.language, task=str(self.task))
            self._made["format"] = fmt, note
        found: tuple[PromptFormat | None, str] = self._made["format"]
        return found

    def _take_template(self) -> None:
        """Be asked as ``template`` says: by a format, or by fields that a class of its own makes."""
        self.template_config = template = TemplateFactory.from_spec(self.template)
        self._chosen = None
        if type(template) in (MCQTemplate, ClozeTemplate):
            fmt, output_type = template.as_format(), self._said("output_type")
            self._chosen = generating(fmt) if output_type == "generate_until" else fmt

    @property
    def written(self) -> RawFields:
        """The field specs as the file has them, or as they were assigned."""
        text, choice, target = map(self._said, FIELDS)
        if self.uses_template and self.prompt_format is not None:
            text = DEFAULT_QUESTION if text is None else text
            choice = DEFAULT_CHOICES if choice is None else choice
        return RawFields(text, choice, target, self.doc_to_context, self.doc_to_rationale)

    @property
    def raw(self) -> RawFields:
        """The field specs that docs are asked by: the bare ones under a format."""
        if self.prompt_format is not None:
            return self._bare or self.written
        text, choice = self.doc_to_text, self.doc_to_choice
        return replace(self.written, text=text, choice=choice)

    @property
    def own_stops(self) -> list[Any]:
        """The stop strings of the task itself, without those of the format."""
        return _stops(self._said("generation_kwargs") or {})

    @property
    def uses_template(self) -> bool:
        return self.template is not None

    @property
    def has_format_map(self) -> bool:
        """Whether the task defines its own formats; ``formats: mcqa`` only names a default."""
        return bool(self.own_formats) and not isinstance(self.formats, str)

    def with_format(self, name: str) -> TaskConfig:
        """This task under ``task@name``: its own format of that name, or a registered one.

        A template class of that name is used as ``template: name`` would use it.
        """
        is_template = name not in self.own_formats and not is_format(name) and name in TEMPLATES
        changed = copy.copy(self)
        for key, value in changed._assigned.items():
            if not isinstance(value, JinjaField):  # what a template made is not a raw field
                vars(changed)[key] = value
        changed._assigned.clear()
        if self.formats is None and self.template is None:
            changed._unwrap()
        if is_template:
            changed.template, changed.formats, changed.own_formats = name, None, {}
            changed._take_template()
        else:
            fmt = find_format(name, self.own_formats, task=str(self.task))
            changed.check_format_fits(fmt)
            changed.template_config, changed._chosen = None, fmt
            if name.partition("+")[0] != next(iter(self.own_formats), None):
                changed._leave_to(fmt)
        return changed

    def _leave_to(self, fmt: PromptFormat) -> None:
        """Drop what belongs to the default format: a convention has its own number of examples, and its
        own first words if it has any. Answers without reasons do not show a model how to reason."""
        has_words = fmt.kind == "convention" and (fmt.preamble or fmt.instruction)
        if has_words and "description" not in self.overridden:
            self.description = ""
        if "num_fewshot" in self.overridden:
            return
        if fmt.kind == "convention":
            self.num_fewshot = fmt.num_fewshot
        elif fmt.reasons_first and not self._has_reasons:
            self.num_fewshot = None

    @property
    def _has_reasons(self) -> bool:
        return bool(self.doc_to_rationale or (self.fewshot_config or {}).get("doc_to_rationale"))

    def _unwrap(self) -> None:
        """Remove the words that a harness file puts around the question, with a warning."""
        written, self._bare = self.written, unwrapped(self.written)
        if self._bare != written:
            fields = f"doc_to_text: {self._bare.text!r}"
            if self._bare.choice != written.choice:
                fields += f", doc_to_choice: {self._bare.choice!r}"
            warnings.warn(
                f"Task {self.task!r}: doc_to_text is a prompt of its own "
                f"({shorten(str(written.text), 60)}). Formats bring such words themselves, so "
                f"they were taken off, and the task is asked with {fields}.",
                LmEvalWarning,
                stacklevel=5,
            )

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
        keys = CONFIG_KEYS
        if self.prompt_format is not None:  # which makes these itself
            keys = tuple(key for key in CONFIG_KEYS if key not in FIELDS)
        pending = [(key, self._said(key)) for key in keys]
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

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key that is set, else ``default``."""
        value = getattr(self, key, None)
        return default if value is None else value

    def to_dict(self) -> dict[str, Any]:
        """The config as the results file shows it: only keys that are set and affect results."""
        values = {key: getattr(self, key) for key in CONFIG_KEYS if key != "sample_rows"}
        return {key: value for key, value in values.items() if value is not None}

    def as_written(self) -> dict[str, Any]:
        """Every key as the file has it, or as it was assigned, whatever the format."""
        return {key: self._said(key) for key in CONFIG_KEYS}

    def fingerprint(self) -> str:
        """Twelve hex digits over what the task's YAML and helper files say, whatever the format."""
        content = {key: _without_address(getattr(self, key)) for key in FINGERPRINT_KEYS}
        content["raw"] = _without_address(self.written)  # whatever a format makes of them
        newer = {key: getattr(self, key) for key in NEWER_FINGERPRINT_KEYS}
        stated = {
            key: value if isinstance(value, str | Mapping) else _without_address(value)
            for key, value in newer.items()
            if value is not None
        }
        files = {function.file for _, function in self.functions()} - {None}
        helpers = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file)
        text = json.dumps({**content, **stated, "helpers": helpers}, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    # The keys that a format decides

    def _said(self, key: str) -> Any:
        """The value of a key that was assigned, or that the file has."""
        return self._assigned[key] if key in self._assigned else vars(self)[key]

    def _assign(self, key: str, value: Any) -> None:
        (self._assigned if "_made" in vars(self) else vars(self))[key] = value

    def _seen(self, key: str) -> Any:
        if "_made" not in vars(self):  # still being made
            return vars(self)[key]
        if key in self._assigned:
            return self._assigned[key]
        if key not in self._made:
            fmt = self.prompt_format
            self._made[key] = self._plain(key) if fmt is None else self._under(fmt, key)
        return self._made[key]

    def _plain(self, key: str) -> Any:
        """The value of a key if the task is asked without a format."""
        written = vars(self)[key]
        template = None if self.template is None else self.template_config
        if key == "output_type":
            return written or ("generate_until" if template is None else "multiple_choice")
        if template is None or key not in FIELDS[:2]:
            return written
        raw = self._bare or self.written
        question = DEFAULT_QUESTION if raw.text is None else raw.text
        choices = DEFAULT_CHOICES if raw.choice is None else raw.choice
        return template.fields_for(question, choices)[FIELDS.index(key)]

    def _under(self, fmt: PromptFormat, key: str) -> Any:
        """The value of a key under a format."""
        if key in FIELDS:
            return self._field(fmt, key)
        written = vars(self)[key]
        if key != "generation_kwargs":
            return getattr(fmt, key)
        if not fmt.reads_text:
            return written
        stops = dict.fromkeys([*_stops(fmt.generation_kwargs), *_stops(written or {})])
        merged = {**fmt.generation_kwargs, **(written or {})}
        return {**merged, "until": list(stops)} if stops else merged

    def _field(self, fmt: PromptFormat, key: str) -> Any:
        """What a format makes of ``doc_to_*``: Jinja that can also be called, or a plain callable."""
        raw, seed = self.raw, self.shuffle_choices
        prompts = FormatPrompts(fmt, raw, target_type=self.target_type, shuffle=seed)
        has_source = seed is None or raw.choice is None  # stock Jinja cannot shuffle choices
        source: str | None = None
        call: Callable[[Mapping[str, Any]], Any] = prompts.text
        if key == "doc_to_text" and has_source:
            source = text_source(fmt, raw.text, raw.choice, raw.context)
        elif key == "doc_to_choice":
            if raw.choice is None:
                return None
            source, call = choice_source(fmt, raw.choice) if has_source else None, prompts.scored
        elif key == "doc_to_target":
            if raw.target is None:
                return None
            call = prompts.target
            if has_source:
                source = target_source(fmt, raw.choice, raw.target, self.target_type)
        return call if source is None else JinjaField(source, call)

    def _missing_fields(self, fmt: PromptFormat) -> list[str]:
        written = self.written
        wanted = {"doc_to_text": written.text, "doc_to_target": written.target}
        if fmt.needs_choices:
            wanted["doc_to_choice"] = written.choice
        if self.uses_template:
            wanted.pop("doc_to_text", None)
            wanted.pop("doc_to_choice", None)
        return [name for name, spec in wanted.items() if spec is None]


CONFIG_KEYS = tuple(f.name for f in fields(TaskConfig) if f.init and f.name not in NOT_KEYS)
_KEYS = frozenset(CONFIG_KEYS)
_ALL_KEYS = dict.fromkeys(CONFIG_KEYS, ANYTHING)
_EXAMPLE_FIELD = {"doc_to_text": "question", "doc_to_target": "answer", "doc_to_choice": "choices"}


def _stops(generation_kwargs: Mapping[str, Any]) -> list[Any]:
    until = generation_kwargs.get("until")
    return list(until) if isinstance(until, list | tuple) else [] if until is None else [until]


def _without_address(value: Any) -> str:
    """A value as text, without the memory address of a function."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
