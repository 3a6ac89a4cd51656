"""What a key of a file may hold, as a type and in words, and the one line that says what is wrong.

In: the values of a file and a schema, key → ``Key``. Out: nothing, or a ``ConfigError`` that names the
place, the key, what is expected there and what it got, with the nearest name if it is a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lm_eval.config.fields import shorten
from lm_eval.config.yaml import locate_key
from lm_eval.errors import ConfigError, did_you_mean, few_names


@dataclass(frozen=True)
class Key:
    """What a key may hold."""

    kind: Any = Any
    """A type, as msgspec understands it: ``int`` takes no booleans, ``list[str]`` looks at each item."""
    words: str = ""
    """The same for the user, after "must be", if the type says too little."""
    takes_code: bool = False
    """Whether a Python function will do too."""
    takes_null: bool = True
    fits: Callable[[Any], bool] | None = None
    """What the type cannot say."""
    names: Iterable[str] = ()
    """The names that are valid, if it is a name."""
    is_needed: bool = False
    """Whether the key must be there."""

    @property
    def expected(self) -> str:
        """What it must be, in words."""
        if self.words or self._literals:
            return self.words or f"one of {', '.join(self._literals)}"
        kinds = get_args(self.kind) if get_origin(self.kind) in (Union, UnionType) else (self.kind,)
        return " or ".join(_WORDS[kind] for kind in map(_bare, kinds) if kind in _WORDS)

    @property
    def _literals(self) -> list[str]:
        parts = [part for part in (self.kind, *get_args(self.kind)) if get_origin(part) is Literal]
        return [str(name) for part in parts for name in get_args(part)]

    def refusal(self, value: Any) -> str | None:
        """None for a value that fits; else what to say of it besides ``expected``, if anything."""
        if value is None:
            return None if self.takes_null else ""
        if callable(value) and not isinstance(value, str):
            return None if self.takes_code else ""
        from msgspec import ValidationError, convert

        try:
            convert(value, self.kind)
        except ValidationError as error:
            entry = re.search(r"at `\$\[(\d+)\]`$", str(error))
            if entry:
                return f" Entry {int(entry[1]) + 1} is {shorten(value[int(entry[1])])}."
        else:
            if self.fits is None or self.fits(value):
                return None
        return did_you_mean(value, [*self.names, *self._literals]) if isinstance(value, str) else ""


def _bare(kind: Any) -> Any:
    return get_origin(kind) or kind


_WORDS: dict[Any, str] = {
    **{str: "a text", bool: "true or false", int: "a whole number", float: "a number"},
    **{dict: "a mapping", Mapping: "a mapping", list: "a list"},
}
ANYTHING = Key(takes_code=True)


def keys_of(kind: type, **special: Key) -> dict[str, Key]:
    """The fields of a dataclass as keys, by their types; ``special`` says more of some."""
    types = get_type_hints(kind)
    typed = {field.name: types[field.name] for field in fields(kind)}
    plain = {name: Key(of, takes_null=type(None) in get_args(of)) for name, of in typed.items()}
    return {**plain, **special}


def check(values: Any, schema: Mapping[str, Key], where: str, *inside: str | int) -> None:
    """Refuse a key that the schema does not have or needs, and a value that its key cannot hold.

    ``where`` starts the message; ``inside`` leads to these values from the top of the file.
    """
    place = _shown(inside)
    if not isinstance(values, Mapping):
        must = f"must be a mapping with {few_names('', schema)}"
        raise ConfigError(f"{where}: {place} {must}, not {shorten(values)}.", key=inside)
    for name, value in values.items():
        key = schema.get(name)
        if key is None:
            raise ConfigError(
                f"{where}: unknown key {str(name)!r}{f' in {place}' if place else ''}."
                f"{did_you_mean(str(name), schema)} Keys: {few_names(str(name), list(schema))}.",
                key=(*inside, str(name)),
            )
        refusal = key.refusal(value)
        if refusal is not None:
            raise ConfigError(
                f"{where}: {_shown((*inside, name))} must be {key.expected}, not {shorten(value)}."
                f"{refusal}",
                key=(*inside, name),
            )
    for name, key in schema.items():
        if key.is_needed and name not in values:
            at = f"{place} " if place else ""
            raise ConfigError(f"{where}: {at}needs `{name}`: {key.expected}.", key=inside)


def _shown(route: tuple[str | int, ...]) -> str:
    """``formats[2].name``: the entries of lists are counted from 1, as people do."""
    parts = (f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in route)
    return "".join(parts).removeprefix(".")


def placed(error: ConfigError, source: str | None, *above: tuple[str, ...]) -> ConfigError:
    """The error with file and line of its key: at the top of ``source``, or below the keys ``above``.

    The line of a key that is not there is that of the nearest key around it.
    """
    if source is None or source in str(error):
        return error
    key = error.route
    routes = [(*route, *key[:end]) for end in range(len(key), 0, -1) for route in ((), *above)]
    found = filter(None, (locate_key(source, route) for route in routes))
    path, line = next(found, (source, None))
    located = error.saying(f"{path}{f', line {line}' if line else ''}: {error}")
    located.path, located.line = path, line
    return located
