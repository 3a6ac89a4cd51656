"""``template:``, the older spelling of a format: objects with settings, wrappers and conversions.

A template compiles to a ``PromptFormat`` (``as_format``), which makes its prompts. The predefined styles
(``mcq::gpqa``, ``cloze::pure`` …) are the built-in formats of the same names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

from lm_eval.config.fields import compile_field, process_field, shorten
from lm_eval.config.schema import ANYTHING, Key, check
from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.formats.compile import compile_format, get_format
from lm_eval.formats.items import Item, choice_texts, question_text
from lm_eval.formats.jinja import JinjaField, choice_source, text_source
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.readers import bind_reader
from lm_eval.registry import TEMPLATES

Extractor = Any
"""A field spec: a column's name, Jinja, or a callable."""
Doc = Mapping[str, Any]
T = TypeVar("T", bound="TemplateConfig")

DEFAULT_QUESTION = "question"
DEFAULT_CHOICES = "choices"


def _letters() -> list[str]:
    return ["A", "B", "C", "D"]


@dataclass
class TemplateConfig:
    """Settings shared by all templates. Subclass it to write your own template.

    A subclass overrides ``format_prompt``, or ``get_doc_to_text`` and ``get_doc_to_choice``, which may
    accept the task's field specs, as here, or nothing. With ``@register_template("x")`` above it,
    ``template: x`` in a task and ``task@x`` use it.
    """

    template_type: ClassVar[str] = "custom"

    prefix: str = ""
    suffix: str = ""
    question_choice_delimiter: str = "\n"
    choice_delimiter: str = "\n"
    choice_labels: list[str] = field(default_factory=_letters)
    choice_format: str = "{label}. {choice}"
    _carried: dict[str, tuple[Any, Any]] | None = field(
        default=None, repr=False, compare=False, kw_only=True
    )
    """From a conversion: setting → (its value before, its value after)."""

    def as_format(self) -> PromptFormat:
        """This template as a format."""
        return compile_format(self._format_fields(), name=self.template_type, where="template")

    def format_prompt(
        self, question: str, choices: Sequence[Any] | None = None, **kwargs: Any
    ) -> str:
        """The prompt for one question."""
        texts = () if choices is None else tuple(str(choice) for choice in choices)
        return self.as_format().question_turn(Item(kwargs, question, texts, ())).user

    def get_doc_to_text(
        self, doc_to_text: Extractor = None, doc_to_choice: Extractor = None
    ) -> Any:
        """The prompt as Jinja source that can also be called on a doc.

        Without arguments it reads the fields ``question`` and ``choices``. If an extractor is a Python
        callable there is no Jinja source, and the result is a plain callable.
        """
        question = DEFAULT_QUESTION if doc_to_text is None else doc_to_text
        choices = DEFAULT_CHOICES if doc_to_choice is None else doc_to_choice
        call = self._text_caller(question, choices)
        if self._formats_itself():
            return call
        source = text_source(self.as_format(), question, choices)
        return call if source is None else JinjaField(source, call)

    def get_doc_to_choice(self, doc_to_choice: Extractor = None) -> Any:
        """What is scored for each choice, as Jinja source that can also be called on a doc."""
        choices = DEFAULT_CHOICES if doc_to_choice is None else doc_to_choice
        fmt = self.as_format()

        def scored(doc: Doc) -> list[str]:
            texts = choice_texts(process_field(doc, choices))
            return list(fmt.labels(Item(doc, "", texts, ())) or texts)

        source = choice_source(fmt, choices)
        return scored if source is None else JinjaField(source, scored)

    def wrap_doc_to_text(
        self, original_doc_to_text: Extractor = None, original_doc_to_choice: Extractor = None
    ) -> Any:
        """A callable that gives a doc's whole prompt, from the task's own extractors."""
        spec = _given_what_it_takes(
            self.get_doc_to_text, original_doc_to_text, original_doc_to_choice
        )
        return _callable(spec)

    def wrap_doc_to_choice(self, original_doc_to_choice: Extractor = None) -> Any:
        """A callable that gives the labels if labels are shown, else the choice texts."""
        return _callable(_given_what_it_takes(self.get_doc_to_choice, original_doc_to_choice))

    def fields_for(self, question: Extractor, choices: Extractor) -> tuple[Any, Any]:
        """``doc_to_text`` and ``doc_to_choice`` of a task with these fields under this template."""
        return (
            _given_what_it_takes(self.get_doc_to_text, question, choices),
            _given_what_it_takes(self.get_doc_to_choice, choices),
        )

    def to_mcq(self) -> MCQTemplate:
        """This template as a multiple-choice question, keeping every setting that was chosen."""
        return self._converted(MCQTemplate)

    def to_cloze(self) -> ClozeTemplate:
        """This template as fill-in-the-blank, keeping every setting that was chosen."""
        return self._converted(ClozeTemplate)

    def to_dict(self) -> dict[str, Any]:
        """The settings as YAML would hold them, ``template_type`` first."""
        return {"template_type": self.template_type, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "_carried"}

    def _format_fields(self) -> dict[str, Any]:
        return {
            "instruction": self.prefix or None,
            "strip_question": True,
            "question_choice_delimiter": self.question_choice_delimiter,
            "choice_labels": self.choice_labels,
            "choice_format": self.choice_format,
            "choice_delimiter": self.choice_delimiter,
            "cut_choices": True,
            "answer_prompt": _on_new_line(self.suffix),
        }

    def _text_caller(self, question: Extractor, choices: Extractor) -> Callable[[Doc], str]:
        shows_choices = self._shows_choices()
        fmt = None if self._formats_itself() else self.as_format()

        def prompt(doc: Doc) -> str:
            asked = question_text(process_field(doc, question))
            shown = choice_texts(process_field(doc, choices)) if shows_choices else ()
            if fmt is not None:
                return fmt.question_turn(Item(doc, asked, shown, ())).user
            others = {k: v for k, v in doc.items() if k not in ("self", "question", "choices")}
            return self.format_prompt(asked, list(shown), **others)

        return prompt

    def _formats_itself(self) -> bool:
        """Whether a subclass lays out the prompt in Python, so that no Jinja source exists."""
        return type(self).format_prompt is not TemplateConfig.format_prompt

    def _shows_choices(self) -> bool:
        return True

    def _converted(self, target: type[T]) -> T:
        """``self`` as another type: chosen settings are kept, defaults become the target's.

        Settings that an earlier conversion carried along come back as they were, unless they were
        changed in between: converting there and back gives an equal template.
        """
        if isinstance(self, target):
            return _copy(self)
        ours, own_defaults, theirs = self._settings(), type(self)._defaults(), target._defaults()
        carried = self._carried or {}
        settings: dict[str, Any] = {}
        for name in theirs:
            if name in carried:
                before, converted = carried[name]
                is_unchanged = name not in ours or ours[name] == converted
                settings[name] = before if is_unchanged else ours[name]
            elif name in ours and ours[name] != own_defaults[name]:
                settings[name] = ours[name]
        result = target(**{name: _own(value) for name, value in settings.items()})
        became = result._settings()
        result._carried = {n: (_own(v), _own(became.get(n))) for n, v in ours.items()}
        return result

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return cls()._settings()


@dataclass
class MCQTemplate(TemplateConfig):
    """A question, its labelled choices, and a suffix that asks for the answer."""

    template_type: ClassVar[str] = "mcq"

    suffix: str = "Answer:"


@dataclass
class ClozeTemplate(TemplateConfig):
    """A question with a blank to fill, with or without the options shown."""

    template_type: ClassVar[str] = "cloze"

    question_choice_delimiter: str = ""
    choice_delimiter: str = " "
    blank_marker: str = "______"
    show_choices: bool = True
    choices_prefix: str = "\nOptions: "
    blank_position: str = "end"

    def _format_fields(self) -> dict[str, Any]:
        return {
            **super()._format_fields(),
            "blank_marker": self.blank_marker,
            "blank_position": self.blank_position,
            "choices_prefix": self.choices_prefix,
            "choice_labels": self.choice_labels if self.show_choices else None,
            "target_format": "{label}" if self.show_choices else "{answer}",
            "metrics": ["acc"] if self.show_choices else ["acc", "acc_norm", "acc_bytes"],
        }

    def _shows_choices(self) -> bool:
        return self.show_choices


_BUILT_IN: dict[str, tuple[type[TemplateConfig], str]] = {
    "mcq": (MCQTemplate, "mcq::mmlu"),
    "mcq::mmlu": (MCQTemplate, "mcq::mmlu"),
    "mcq::gpqa": (MCQTemplate, "mcq::gpqa"),
    "mcq::numbered": (MCQTemplate, "mcq::numbered"),
    "cloze": (ClozeTemplate, "cloze::with_options"),
    "cloze::with_options": (ClozeTemplate, "cloze::with_options"),
    "cloze::pure": (ClozeTemplate, "cloze::pure"),
}
"""Style → its class, and the built-in format that holds its settings."""


class TemplateFactory:
    """Templates by style, from a mapping, and from one another."""

    STYLES: ClassVar[tuple[str, ...]] = tuple(_BUILT_IN)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> TemplateConfig:
        """A template from ``{"template_type": "mcq::gpqa", …settings}``."""
        settings = dict(config)
        template_type = settings.pop("template_type", None)
        if template_type is None:
            raise ConfigError(
                f"template: template_type is missing. Types: {listing(cls.types(), 40)}."
            )
        if template_type in TEMPLATES:
            template_class: type[TemplateConfig] = TEMPLATES.get(template_type)
            return template_class(**_known(settings, template_class, template_type))
        if template_type not in cls.STYLES:
            raise ConfigError(
                f"template: unknown template_type {str(template_type)!r}."
                f"{did_you_mean(str(template_type), cls.types())} Types: {listing(cls.types(), 40)}."
            )
        return _styled(template_type, settings, _BUILT_IN[template_type][0])

    @classmethod
    def from_spec(cls, spec: Any) -> TemplateConfig:
        """A template from a task's ``template:`` value: a type's name or a mapping."""
        if isinstance(spec, TemplateConfig):
            return spec
        if isinstance(spec, str):
            return cls.from_dict({"template_type": spec})
        if isinstance(spec, Mapping):
            return cls.from_dict(spec)
        raise ConfigError(
            f"template: expected a type's name or a mapping with template_type, not {shorten(spec)}."
        )

    @classmethod
    def types(cls) -> list[str]:
        """Every ``template_type`` there is, registered ones included."""
        return [*cls.STYLES, *TEMPLATES]

    @classmethod
    def create_mmlu_style(cls, **settings: Any) -> MCQTemplate:
        """MMLU style: ``A. choice`` on lines of their own."""
        return _styled("mcq::mmlu", settings, MCQTemplate)

    @classmethod
    def create_gpqa_style(cls, **settings: Any) -> MCQTemplate:
        """GPQA style: ``(A) choice`` on one line."""
        return _styled("mcq::gpqa", settings, MCQTemplate)

    @classmethod
    def create_numbered_style(cls, num_choices: int = 4, **settings: Any) -> MCQTemplate:
        """Numbers for labels: ``1. choice``."""
        return _styled("mcq::numbered", {"num_choices": num_choices, **settings}, MCQTemplate)

    @classmethod
    def create_cloze_with_options(cls, **settings: Any) -> ClozeTemplate:
        """Fill in the blank, options shown."""
        return _styled("cloze::with_options", settings, ClozeTemplate)

    @classmethod
    def create_pure_cloze(cls, **settings: Any) -> ClozeTemplate:
        """Fill in the blank, no options shown."""
        return _styled("cloze::pure", settings, ClozeTemplate)

    @classmethod
    def convert_template(cls, template: TemplateConfig, target_type: str) -> TemplateConfig:
        """The template as ``mcq`` or ``cloze``."""
        kind = target_type.partition("::")[0]
        if kind == "mcq":
            return template.to_mcq()
        if kind == "cloze":
            return template.to_cloze()
        raise ConfigError(
            f"A template cannot be converted to {target_type!r}."
            f"{did_you_mean(target_type, ('mcq', 'cloze'))} It can be converted to mcq or cloze."
        )


mmlu_template = TemplateFactory.create_mmlu_style
gpqa_template = TemplateFactory.create_gpqa_style
numbered_template = TemplateFactory.create_numbered_style
cloze_template = TemplateFactory.create_cloze_with_options
pure_cloze_template = TemplateFactory.create_pure_cloze


def _styled(style: str, settings: Mapping[str, Any], template_class: type[T]) -> T:
    """The template of a built-in style with some of its settings changed."""
    base, settings = get_format(_BUILT_IN[style][1]), dict(settings)
    if style == "mcq::numbered":
        count = settings.pop("num_choices", 4)
        if not isinstance(count, int) or isinstance(count, bool) or count < 2:
            raise ConfigError(
                f"template: num_choices must be a whole number from 2 up, not {shorten(count)}."
            )
        settings.setdefault("choice_labels", [str(n + 1) for n in range(count)])
    known = _known(settings, template_class, style)
    return template_class(**{**_settings_of(base, template_class), **known})


def _settings_of(base: PromptFormat, template_class: type[TemplateConfig]) -> dict[str, Any]:
    """The settings of a template that correspond to a built-in format."""
    labels = base.choice_labels if isinstance(base.choice_labels, tuple) else _letters()
    settings = {
        "prefix": base.instruction or "",
        "suffix": base.answer_prompt or "",
        "question_choice_delimiter": base.question_choice_delimiter or "",
        "choice_delimiter": base.choice_delimiter,
        "choice_labels": list(labels),
        "choice_format": base.choice_format,
        "blank_marker": base.blank_marker,
        "blank_position": base.blank_position,
        "choices_prefix": base.choices_prefix or ClozeTemplate.choices_prefix,
        "show_choices": base.choice_labels is not None,
    }
    known = {f.name for f in fields(template_class)}
    return {name: value for name, value in settings.items() if name in known}


def _known(
    settings: dict[str, Any], template_class: type[TemplateConfig], style: str
) -> dict[str, Any]:
    """The settings, of the types of their defaults: labels as texts, and null as no text."""
    keys = {
        f.name: Key(type(f.default), takes_null=f.name in _MAY_BE_NULL)
        if isinstance(f.default, str | bool)
        else ANYTHING
        for f in fields(template_class)
        if f.name != "_carried"
    }
    check(settings, keys, f"template {style!r}")
    known = {n: "" if v is None and n in _MAY_BE_NULL else v for n, v in settings.items()}
    if isinstance(known.get("choice_labels"), list | tuple):
        known["choice_labels"] = [str(label) for label in known["choice_labels"]]
    return known


_MAY_BE_NULL = ("prefix", "suffix", "choices_prefix")


def _given_what_it_takes(method: Callable[..., Any], *specs: Extractor) -> Any:
    """What a template's method returns; in a subclass it may accept the field specs, or nothing."""
    takes = [
        parameter
        for parameter in inspect.signature(method).parameters.values()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    takes_any = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in takes)
    return method(*(specs if takes_any else specs[: len(takes)]))


def _callable(spec: Any) -> Any:
    """A field spec that can be called on a doc."""
    if callable(spec):
        return spec
    compiled = compile_field(spec)
    return JinjaField(spec, compiled) if isinstance(spec, str) else compiled


def _on_new_line(suffix: str) -> str | None:
    """A suffix without its leading newline: the section separator comes before it."""
    return suffix.removeprefix("\n") if suffix else None


def _copy(template: T) -> T:
    copy = type(template)(**{n: _own(v) for n, v in template._settings().items()})
    copy._carried = template._carried
    return copy


def _own(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def generating(fmt: PromptFormat) -> PromptFormat:
    """A template's format for a task that generates its answers: the label is read from the reply."""
    scorer = bind_reader({"reader": "choice", "phrase": fmt.answer_prompt or "Answer:"})
    metrics = ("acc", "acc_read")
    return replace(fmt, output_type="generate_until", scorer=scorer, metrics=metrics)
