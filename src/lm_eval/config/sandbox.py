"""The sandbox that templates run in: no way out, no chance, and no single step that fills the memory.

``bounded`` stops a template between two steps of Python. A single step in C, such as ``'x' * 10**10``,
cannot be stopped, so this sandbox looks at each one before it is taken and refuses what would make a
text or list of more than ``MAX_ITEMS``, or a number of more than ``MAX_BITS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_ITEMS = 10_000_000
"""Characters of a text, or items of a list, that one step may make."""
MAX_BITS = 100_000
"""Size of a number that one step may make."""
MAX_DIGITS = 1_000
"""Places that numbers may be rounded to."""
JOINED = "_joined"
"""The filter that ``a ~ b`` is compiled to."""
COMPILE_ERRORS = (TemplateSyntaxError, SyntaxError, RecursionError, MemoryError, OverflowError)
"""What compiling a template raises: mistakes in it, or more nesting than Python takes."""

_WITHOUT_CHANCE = {"filters": ("random",), "globals": ("lipsum",)}
_PRINTF_SIZE = re.compile(r"%[^%a-zA-Z]*?(\*|\d{6,})")
_FORMAT_SIZE = re.compile(r"\{[^{}]*:[^{}]*\d{6,}")
_NESTED_FIELD = re.compile(r"\{[^{}]*:[^{}]*\{")
_TOO_WIDE = "a text is not formatted to a width of a million characters or more"


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's immutable sandbox with a bound on every step, and without what differs between runs."""

    intercepted_binops = frozenset({"*", "**", "+", "%", "//"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name in _WITHOUT_CHANCE["filters"]:
            del self.filters[name]
        for name in _WITHOUT_CHANCE["globals"]:
            del self.globals[name]
        self.filters |= {name: _checked(name, call) for name, call in self.filters.items()}
        self.filters[JOINED] = joined

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """The text of a template's parts."""
        texts, length = [], 0
        for part in parts:
            length += len(part)
            _check_size(length)
            texts.append(part)
        return "".join(texts)

    def _generate(
        self,
        source: nodes.Template,
        name: str | None,
        filename: str | None,
        defer_init: bool = False,
    ) -> str:
        for node in source.find_all(nodes.Concat):
            parts = nodes.List(list(node.nodes), lineno=node.lineno)
            node.nodes = [nodes.Filter(parts, JOINED, [], [], None, None, lineno=node.lineno)]
        return super()._generate(source, name, filename, defer_init)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_operation(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _check_call(obj, [*args, *kwargs.values()])
        return super().call(context, obj, *args, **kwargs)


def joined(parts: Sequence[Any]) -> str:
    """``a ~ b``: the parts as one text."""
    texts = [str(part) for part in parts]
    _check_size(sum(map(len, texts)))
    return "".join(texts)


def _check_size(items: int) -> None:
    if items > MAX_ITEMS:
        raise SecurityError(
            f"a text or list of more than {MAX_ITEMS:,} items is not made in templates"
        )


def _check_bits(bits: int) -> None:
    if bits > MAX_BITS:
        raise SecurityError(f"a number of more than {MAX_BITS:,} bits is not computed in templates")


def _check_operation(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str | bytes):
        _check_printf(str(left))
    elif operator == "+" and _is_sequence(left) and _is_sequence(right):
        _check_size(len(left) + len(right))
    elif operator == "*":
        for value, times in ((left, right), (right, left)):
            if _is_sequence(value) and isinstance(times, int):
                _check_size(len(value) * times)
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() + right.bit_length())
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() * abs(right))


def _is_sequence(value: Any) -> bool:
    return isinstance(value, str | bytes | list | tuple)


def _check_printf(text: str) -> None:
    """Refuse ``'%1000000000d' % 1``, and widths that come as an argument."""
    if _PRINTF_SIZE.search(text):
        raise SecurityError(_TOO_WIDE)


def _check_call(call: Any, args: Sequence[Any]) -> None:
    """Refuse a method of a text or list that would make too much of it."""
    call = getattr(call, "__wrapped__", call)  # Jinja wraps ``format``
    text: Any = getattr(call, "__self__", None)
    name = getattr(call, "__name__", "")
    if not _is_sequence(text):
        return
    if name in ("format", "format_map"):
        if _FORMAT_SIZE.search(str(text)):
            raise SecurityError(_TOO_WIDE)
        if _NESTED_FIELD.search(str(text)):  # a width that comes as an argument
            _check_numbers(args)
    elif name == "join" and args:
        _check_joined(len(text), args[0])
    elif name == "replace" and len(args) > 1:
        _check_replaced(str(text), *args[:2])
    elif name == "translate" and args and isinstance(args[0], dict):
        longest = max((len(v) for v in args[0].values() if isinstance(v, str)), default=1)
        _check_size(len(text) * longest)
    elif name in ("expandtabs", "ljust", "rjust", "center", "zfill"):
        most = max([8, *(n for n in args if isinstance(n, int))])
        _check_size(len(text) * most if name == "expandtabs" else most)


def _check_numbers(args: Iterable[Any]) -> None:
    for number in args:
        if isinstance(number, int):
            _check_size(abs(number))


def _check_joined(separator: int, items: Any) -> None:
    if isinstance(items, list | tuple):
        _check_size(sum(len(item) + separator for item in items if isinstance(item, str)))


def _check_replaced(text: str, old: Any, new: Any) -> None:
    count = text.count(str(old)) if old else len(text) + 1
    _check_size(len(text) + count * len(str(new)))


def _checked(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that looks at its arguments first."""

    @wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        if name == "round":
            _check_rounding(values[1:])
        elif name == "format":
            _check_printf(str(args[0]))
        elif name in ("center", "indent", "wordwrap", "truncate", "batch", "slice"):
            _check_numbers(values)
        elif name in ("replace", "join"):
            _check_text_filter(name, [v for v in values if isinstance(v, str | list | tuple)])
        return call(*args, **kwargs)

    return checked


def _check_rounding(values: Iterable[Any]) -> None:
    if any(isinstance(value, int) and abs(value) > MAX_DIGITS for value in values):
        raise SecurityError(f"a number is not rounded to more than {MAX_DIGITS:,} places")


def _check_text_filter(name: str, values: Sequence[Any]) -> None:
    if name == "replace" and len(values) > 2:
        _check_replaced(*map(str, values[:3]))
    elif name == "join" and values:
        separator = values[1] if len(values) > 1 and isinstance(values[1], str) else ""
        _check_joined(len(separator), values[0])
