"""What a key of a file may hold, as a type and in words, and the one line that says what is wrong.

In: the values of a file and a schema, key → ``Key``. Out: nothing, or a ``ConfigError`` that names the
place, the key, what is expected there and what it got, with the nearest name if it is a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lm_eval.config.fields import shorten
from lm_eval.config.yaml import locate_key
from lm_eval.errors import ConfigError, did_you_mean, few_names


@dataclass(frozen=True)
class Key:
    """What a key may hold."""

    kind: Any
    """A type, as msgspec understands it: ``int`` takes no booleans, ``list[str]`` looks at each item."""
    words: str
    """The same for the user, after "must be"."""
    takes_code: bool = False
    """Whether a Python function will do too."""
    takes_null: bool = True
    fits: Callable[[Any], bool] | None = None
    """What the type cannot say."""
    names: Iterable[str] = ()
    """The names that are valid, if it is a name."""

    def accepts(self, value: Any) -> bool:
        if value is None:
            return self.takes_null
        if callable(value) and not isinstance(value, str):
            return self.takes_code
        from msgspec import ValidationError, convert

        try:
            convert(value, self.kind)
        except ValidationError:
            return False
        return self.fits is None or self.fits(value)


def one_of(names: Iterable[str], words: str = "") -> Key:
    """A key that holds one of these names."""
    return Key(Literal[tuple(names)], words or f"one of {', '.join(names)}", names=names)


def check(
    values: Mapping[str, Any], schema: Mapping[str, Key], where: str, inside: str = ""
) -> None:
    """Refuse a key that the schema does not have, and a value that its key cannot hold.

    ``where`` starts the message; ``inside`` is the key of the file that has these values, if any.
    """
    for name, value in values.items():
        key = schema.get(name)
        shown = f"{inside}.{name}" if inside else str(name)
        if key is None:
            raise ConfigError(
                f"{where}: unknown key {str(name)!r}{f' in {inside}' if inside else ''}."
                f"{did_you_mean(str(name), schema)} Keys: {few_names(str(name), list(schema))}.",
                key=inside or str(name),
            )
        if not key.accepts(value):
            nearest = did_you_mean(value, key.names) if isinstance(value, str) else ""
            raise ConfigError(
                f"{where}: {shown} must be {key.words}, not {shorten(value)}.{nearest}",
                key=inside or str(name),
            )


def placed(error: ConfigError, source: str | None, *above: tuple[str, ...]) -> ConfigError:
    """The error with file and line of its key: at the top of ``source``, or below the keys ``above``."""
    if source is None or source in str(error):
        return error
    routes = [(*route, error.key) for route in ((), *above)] if error.key else []
    found = filter(None, (locate_key(source, route) for route in routes))
    path, line = next(found, (source, None))
    located = error.saying(f"{path}{f', line {line}' if line else ''}: {error}")
    located.path, located.line = path, line
    return located
