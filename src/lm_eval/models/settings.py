"""Model arguments as a constructor declares them: the type checks a value, the text documents it.

    @checked
    def __init__(self, n_ctx: Annotated[Count | None, "the window in tokens"] = None) -> None: ...

The same declaration serves ``--dry_run``, which makes no model, and the tables of ``docs/``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lm_eval.errors import UsageError, did_you_mean, listing
from lm_eval.registry import backend_name

Init = TypeVar("Init", bound=Callable[..., None])


@dataclass(frozen=True)
class Rule:
    """What a value may be: in words, after "must be", and as a function that raises ValueError."""

    words: str
    read: Callable[[Any], Any]
    names: Sequence[str] = ()

    def apply(self, name: str, value: Any, owner: str) -> Any:
        """The value of the argument ``name`` of the model ``owner``, or a ``UsageError``."""
        try:
            return self.read(value)
        except (ValueError, TypeError, OverflowError):
            raise UsageError(
                f"Model {owner!r}: {name} must be {self.words}, not {value!r}."
                f"{did_you_mean(str(value), self.names)}"
            ) from None


def _number(value: Any, *, is_whole: bool = False) -> Any:
    """A number, also as text; 1e9 is a whole one."""
    if isinstance(value, str):
        value = int(value) if value.strip().isdecimal() else float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**64:
        raise ValueError(value)
    if is_whole and int(value) != value:
        raise ValueError(value)
    return int(value) if is_whole else float(value)


def whole(words: str, *, least: int | None = None) -> Rule:
    """A whole number, of at least ``least`` if that is given."""

    def read(value: Any) -> int:
        number = int(_number(value, is_whole=True))
        if least is not None and number < least:
            raise ValueError(value)
        return number

    return Rule(words, read)


def real(words: str, fits: Callable[[float], bool]) -> Rule:
    """A number for which ``fits``."""

    def read(value: Any) -> float:
        number = float(_number(value))
        if not fits(number):
            raise ValueError(value)
        return number

    return Rule(words, read)


def one_of(names: Sequence[str]) -> Rule:
    """One of these names."""

    def read(value: Any) -> str:
        if value not in names:
            raise ValueError(value)
        return str(value)

    return Rule(f"one of {listing(names)}", read, names)


def _switch(value: Any) -> bool:
    if value not in (True, False):
        raise ValueError(value)
    return bool(value)


def _batch(value: Any) -> int | None:
    """Texts or tokens at a time; None if the backend chooses. ``auto:4`` of the harness is ``auto``."""
    if str(value).partition(":")[0] == "auto":
        return None
    return int(COUNT.read(value))


COUNT = whole("a whole number above 0", least=1)
SWITCH = Rule("true or false", _switch)
BATCH_SIZE = Rule("a whole number above 0 or auto", _batch)
Count = Annotated[int, COUNT]
Size = Annotated[int, whole("a whole number of bytes above 0", least=1)]
FromZero = Annotated[int, whole("a whole number from 0 up", least=0)]
Seed = Annotated[int, whole("a whole number")]
BatchSize = Annotated[int | str | None, BATCH_SIZE]
Share = Annotated[float, real("a number above 0, at most 1", lambda value: 0 < value <= 1)]
Amount = Annotated[float, real("a number from 0 up", lambda value: value >= 0)]
Seconds = Annotated[float, real("a number of seconds above 0", lambda value: value > 0)]

MAX_GEN_TOKS = "the limit for generated tokens if a task sets none"


@dataclass(frozen=True)
class Setting:
    """One argument of a constructor: its rule, if any, what it is about, and its default."""

    rule: Rule | None
    about: str
    default: Any
    takes_none: bool

    def read(self, name: str, value: Any, owner: str) -> Any:
        """The value by its rule, or a ``UsageError``; None means the default if it is no value."""
        if self.rule is None:
            return value
        if value is None:
            return None if self.takes_none else self.default
        return self.rule.apply(name, value, owner)


@cache
def settings_of(init: Callable[..., None]) -> Mapping[str, Setting]:
    """The arguments of a constructor that have names, in order."""
    try:
        hints = get_type_hints(init, include_extras=True)
    except NameError:  # a program's own class, with names that only its type checker knows
        hints = {}
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = {}
    for name, parameter in list(inspect.signature(init).parameters.items())[1:]:
        if parameter.kind in named:
            hint = hints.get(name, type(parameter.default))
            texts = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, str)]
            takes_none = parameter.default in (None, parameter.empty) or type(None) in _kinds(hint)
            found[name] = Setting(_rule(hint), " ".join(texts), parameter.default, takes_none)
    return found


def accepted_arguments(cls: type) -> list[str] | None:
    """What a class takes, with its parents' if it passes ``**kwargs`` on; None if anything."""
    names: dict[str, None] = {}
    for parent in cls.__mro__[:-1]:
        if (init := vars(parent).get("__init__")) is not None:
            names.update(dict.fromkeys(settings_of(init)))
            parameters = inspect.signature(init).parameters.values()
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                return list(names)
    return None


def _rule(hint: Any) -> Rule | None:
    kinds = _kinds(hint)
    rules = [kind for kind in kinds if isinstance(kind, Rule)]
    return rules[0] if rules else SWITCH if bool in kinds else None


def _kinds(hint: Any) -> list[Any]:
    """The parts of a type: int, a rule, None and the text of ``Annotated[Count | None, "a window"]``."""
    if get_origin(hint) in (Annotated, Union, UnionType):
        return [kind for part in get_args(hint) for kind in _kinds(part)]
    return [hint]


def check(init: Callable[..., None], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """The given arguments, each read by its rule; ``owner`` names the model in errors."""
    settings = settings_of(init)
    return {
        name: settings[name].read(name, value, owner) if name in settings else value
        for name, value in given.items()
    }


def checked(init: Init) -> Init:
    """A constructor that reads its arguments by their rules."""
    signature = inspect.signature(init)

    @wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.arguments |= check(init, bound.arguments, backend_name(self))
        init(*bound.args, **bound.kwargs)

    return cast("Init", construct)
