"""What prompts are made of: prompt types, output formats, domains and languages, found by name.

A definition is a mapping from a built-in YAML file, a plug-in or a user's folder, checked and frozen.
Texts hold placeholders such as ``{num_nuggets}``; data never passes through them. Files are read on
first use. Plug-ins are added by decorator, by a folder of YAML files, or by entry point (groups
``nugget_eval.prompts``, ``nugget_eval.domains``, ``nugget_eval.languages``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from lm_eval.config.schema import Key, check, keys_of
from lm_eval.errors import ConfigError
from lm_eval.registry import Registry
from nugget_eval.errors import PromptError, UnknownPromptError
from nugget_eval.reading.outcome import FORMAT_TYPES, LabelReading
from nugget_eval.reading.reader import read_labels

PROMPT_TYPES = ("no_reasoning", "short_cot", "long_cot", "legacy", "optimized")
DOMAINS = ("biomedical", "legal", "news")
LANGUAGES = ("en", "zh", "de", "es")

OutputWords = Literal["alone", "last"]
"""Whether labels are all of the reply, or its end after reasoning."""

Texts = Mapping[str, str]

BUILTIN = Path(__file__).with_name("builtin")
"""The folder of the definitions that come with the package."""

_PLACEHOLDER = re.compile(r"(^[ \t]*)?\{([a-z_]+)\}", re.MULTILINE)


def fill(text: str, values: Mapping[str, Any]) -> str:
    """``text`` with every placeholder that ``values`` knows; other braces stay as they are.

    A value of several lines that starts a line keeps that line's indentation. Placeholders
    inside a value are not filled.
    """

    def filled(placeholder: re.Match[str]) -> str:
        if placeholder[2] not in values:
            return placeholder[0]
        indent = placeholder[1] or ""
        return indent + str(values[placeholder[2]]).replace("\n", "\n" + indent)

    return _PLACEHOLDER.sub(filled, text)


@dataclass(frozen=True, kw_only=True, eq=False)
class Definition:
    """What every definition says about itself. ``changelog`` is version → what changed, oldest first."""

    name: str
    summary: str = ""
    version: str = "1.0"
    changelog: Texts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptType(Definition):
    """How a judge is asked. ``texts`` is language → ``task`` and ``output``, the system message's parts.

    ``output`` says what a reply looks like and holds ``{output}``, which the output format fills.
    ``reasons`` tells whether a reply holds a reasoning block.
    """

    best_for: str = ""
    reasons: bool = False
    output_words: OutputWords = "alone"
    texts: Mapping[str, Texts]


@dataclass(frozen=True, kw_only=True, eq=False)
class OutputFormat(Definition):
    """How labels are written and read. ``answer`` has ``open``, ``item``, ``between`` and ``close``."""

    answer: Texts
    many_lines: bool = False

    def write(self, labels: Sequence[str]) -> str:
        """The labels as an answer in this format, as a right reply and a shot hold it."""
        item = self.answer["item"]
        items = (fill(item, {"k": k, "label": label}) for k, label in enumerate(labels, 1))
        listed = self.answer.get("between", "").join(items)
        return self.answer.get("open", "") + listed + self.answer.get("close", "")

    def read(self, reply: str, count: int, data: Sequence[str] = ()) -> LabelReading:
        """The labels that a reply gives to ``count`` nuggets, if this format was asked for.

        ``data`` is what the judge was shown; copies of it in the reply are not its answer.
        """
        return read_labels(reply, count, format_type=self.name, data=data)


@dataclass(frozen=True, kw_only=True, eq=False)
class Domain(Definition):
    """Guidance for a judge in one field of knowledge. ``texts`` is language → a section."""

    texts: Texts


@dataclass(frozen=True, kw_only=True, eq=False)
class Language(Definition):
    """The words of one language around prompt types and output formats.

    ``texts`` is prompt type → its parts, for types that do not bring their own; ``pieces`` are
    shared by several of them. ``output`` is said about every output format, ``formats`` about one.
    """

    texts: Mapping[str, Texts] = field(default_factory=dict)
    pieces: Texts = field(default_factory=dict)
    notice: str
    closing: str
    retry: str
    output: Texts
    formats: Mapping[str, Texts]


D = TypeVar("D", bound=Definition)


def define(kind: type[D], values: Mapping[str, Any], *, where: str) -> D:
    """The definition in a mapping; an unknown, missing or unusable field is an error.

    ``where`` starts every message: the file or the object that the mapping comes from.
    """
    schema = keys_of(kind)
    for each in fields(kind):
        words = "a mapping of texts" if "Texts" in str(each.type) else ""
        is_needed = each.default is each.default_factory is MISSING
        schema[each.name] = replace(schema[each.name], words=words, is_needed=is_needed)
    try:
        check(values, schema, where)
        made = kind(**values)
        if isinstance(made, PromptType | Language):
            for name, parts in made.texts.items():
                check(parts, _PARTS, where, "texts", name)
        elif isinstance(made, OutputFormat):
            check(made.answer, _ANSWER, where, "answer")
    except ConfigError as error:
        raise PromptError(str(error)) from None
    if made.changelog and made.version not in made.changelog:
        raise PromptError(f"{where}: the changelog has no entry for version {made.version!r}.")
    return made


def _part(placeholder: str) -> Key:
    words = f"a text that holds {placeholder}"
    return Key(str, words, fits=lambda text: placeholder in text, takes_null=False, is_needed=True)


_PARTS = {"task": Key(str, takes_null=False, is_needed=True), "output": _part("{output}")}
_ANSWER = {"open": Key(str), "item": _part("{label}"), "between": Key(str), "close": Key(str)}


# Definitions by name


class PromptCatalogue(Registry[Any], Generic[D]):
    """Definitions of one kind by name, each read once."""

    def __init__(
        self, word: str, kind: type[D], folder: str, names: tuple[str, ...], group: str | None
    ) -> None:
        super().__init__(word, entry_point_group=group, error=UnknownPromptError)
        self._definition = kind
        self._read: dict[str, tuple[Any, D]] = {}
        for name in names:
            self.register(name, BUILTIN / folder / f"{name}.yaml", place="built in")

    def define(self, name: object) -> D:
        """The definition of that name; an unknown name is an error with the valid ones."""
        if not isinstance(name, str):
            raise self.unknown(str(name))
        source = self._source(name)
        known = self._read.get(name)
        if known is None or known[0] is not source:
            where = f"{self.kind.capitalize()} {name!r}"
            known = self._read[name] = (source, self._defined(name, source, where))
        return known[1]

    def _source(self, name: str) -> Any:
        try:
            return self.get(name)
        except (ImportError, AttributeError) as error:
            raise PromptError(
                f"{self.kind.capitalize()} {name!r} ({self.place(name)}) cannot be imported: {error}. "
                "Repair or remove the package that brings it."
            ) from None

    def add(self, name: str, source: Any, place: str) -> None:
        """Register ``source`` under ``name``; one that cannot be used takes no name."""
        definition = self._defined(name, source, place)
        self.register(name, source, place=place)
        self._read[name] = (source, definition)

    def _defined(self, name: str, source: Any, where: str) -> D:
        if isinstance(source, self._definition):
            return source
        values, where = _mapping(source, where)
        if "extends" in values:
            values = {**self._inherited(values.pop("extends"), where), **values}
        return define(self._definition, {**values, "name": name}, where=where)

    def _inherited(self, base: object, where: str) -> dict[str, Any]:
        """The fields of the definition that another one starts from; its versions are its own."""
        try:
            inherited = vars(self.define(base))
        except UnknownPromptError as error:
            raise PromptError(f"{where}: extends: {error}") from None
        return {
            key: value for key, value in inherited.items() if key not in ("version", "changelog")
        }


def _mapping(source: Any, where: str) -> tuple[dict[str, Any], str]:
    """The mapping that a source holds, and how errors name it."""
    if isinstance(source, Path):
        return _load(source), str(source)
    if callable(source):
        try:
            source = source()
        except Exception as error:
            raise PromptError(f"{where}: the function failed: {error!r}.") from error
    if isinstance(source, Definition):
        source = vars(source)
    if isinstance(source, Mapping):
        return dict(source), where
    raise PromptError(
        f"{where} is a {type(source).__name__}. Give a mapping of fields, the path of a YAML file, "
        "or a function that gives one."
    )


def _load(path: Path) -> dict[str, Any]:
    from lm_eval.config.yaml import load_yaml

    try:
        return load_yaml(path, run_code=False)
    except ConfigError as error:
        raise PromptError(str(error)) from None


_TYPES = PromptCatalogue("prompt type", PromptType, "types", PROMPT_TYPES, "nugget_eval.prompts")
_FORMATS = PromptCatalogue("format type", OutputFormat, "formats", FORMAT_TYPES, None)
_DOMAINS = PromptCatalogue("domain", Domain, "domains", DOMAINS, "nugget_eval.domains")
_LANGUAGES = PromptCatalogue("language", Language, "languages", LANGUAGES, "nugget_eval.languages")
_OPEN: dict[object, PromptCatalogue[Any]] = {
    "type": _TYPES,
    "domain": _DOMAINS,
    "language": _LANGUAGES,
}
"""Kind → the catalogue to which definitions of that kind can be added."""

get_prompt_type = _TYPES.define
get_output_format = _FORMATS.define
get_domain = _DOMAINS.define
get_language = _LANGUAGES.define


def prompt_type_names() -> list[str]:
    """All prompt types: built in, registered, and of installed packages."""
    return list(_TYPES)


def domain_names() -> list[str]:
    """All domains: built in, registered, and of installed packages."""
    return list(_DOMAINS)


def language_names() -> list[str]:
    """All languages: built in, registered, and of installed packages."""
    return list(_LANGUAGES)


Source = TypeVar("Source")


def register_prompt(name: str, *, kind: str = "type") -> Callable[[Source], Source]:
    """A decorator for a function that gives a definition's fields as a mapping.

    ``kind`` is ``type``, ``domain`` or ``language``. A definition may say ``extends: short_cot`` and
    give only what differs.
    """
    catalogue = _open_catalogue(kind, f"register_prompt({name!r})")

    def bind(source: Source) -> Source:
        module = getattr(source, "__module__", "")
        label = getattr(source, "__qualname__", type(source).__name__)
        catalogue.add(name, source, f"{module}.{label}")
        return source

    return bind


def register_prompt_folder(folder: str | Path) -> list[str]:
    """Add every ``*.yaml`` file of a folder; the names added, in file order.

    A file holds a prompt type unless its ``kind`` is ``domain`` or ``language``.
    """
    root = Path(folder)
    if not root.exists():
        raise PromptError(f"The prompt folder {str(root)!r} does not exist.")
    files = sorted(root.glob("*.yaml")) if root.is_dir() else [root]
    if not files:
        raise PromptError(f"The prompt folder {str(root)!r} holds no .yaml file.")
    return [_register_file(file) for file in files]


def _register_file(file: Path) -> str:
    values = _load(file)
    catalogue = _open_catalogue(values.pop("kind", "type"), str(file))
    name = values.get("name", file.stem)
    if not isinstance(name, str):
        raise PromptError(f"{file}: name must be a text, not {name!r}.")
    try:
        catalogue.add(name, values, str(file))
    except ConfigError as error:
        raise PromptError(str(error)) from None
    return name


def _open_catalogue(kind: object, where: str) -> PromptCatalogue[Any]:
    try:
        return _OPEN[kind]
    except (KeyError, TypeError):  # TypeError: a list or mapping in a file
        raise PromptError(
            f"{where}: kind cannot be {kind!r}. Expected type, domain or language; output "
            "formats are read by code, so only the built-in ones exist."
        ) from None
