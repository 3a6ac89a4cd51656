"""Every prompt type, output format, domain and language by name; built-ins are YAML files.

Files are read on first use. Plug-ins are added by decorator, by a folder of YAML files, or by entry
point (groups ``nugget_eval.prompts``, ``nugget_eval.domains``, ``nugget_eval.languages``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from lm_eval.errors import ConfigError
from lm_eval.registry import Registry
from nugget_eval.errors import PromptError, UnknownPromptError
from nugget_eval.prompts.definitions import (
    BUILTIN,
    Definition,
    Domain,
    Language,
    OutputFormat,
    PromptType,
    define,
)
from nugget_eval.reading import FORMAT_TYPES

PROMPT_TYPES = ("no_reasoning", "short_cot", "long_cot", "legacy", "optimized")
DOMAINS = ("biomedical", "legal", "news")
LANGUAGES = ("en", "zh", "de", "es")

D = TypeVar("D", bound=Definition)


class Catalogue(Registry[Any], Generic[D]):
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


_TYPES = Catalogue("prompt type", PromptType, "types", PROMPT_TYPES, "nugget_eval.prompts")
_FORMATS = Catalogue("format type", OutputFormat, "formats", FORMAT_TYPES, None)
_DOMAINS = Catalogue("domain", Domain, "domains", DOMAINS, "nugget_eval.domains")
_LANGUAGES = Catalogue("language", Language, "languages", LANGUAGES, "nugget_eval.languages")
_OPEN: dict[object, Catalogue[Any]] = {"type": _TYPES, "domain": _DOMAINS, "language": _LANGUAGES}
"""Kind → where definitions of that kind can be added."""

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


def _open_catalogue(kind: object, where: str) -> Catalogue[Any]:
    try:
        return _OPEN[kind]
    except (KeyError, TypeError):  # TypeError: a list or mapping in a file
        raise PromptError(
            f"{where}: kind cannot be {kind!r}. Expected type, domain or language; output "
            "formats are read by code, so only the built-in ones exist."
        ) from None
