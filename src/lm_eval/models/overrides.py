"""A model of a redefined backend → what tells its answers from others: its class, code and attributes.

Kept answers are found by this. A subclass, an object or a patch of our own class may redefine methods;
their code is part of the result, together with the constants and functions that it uses.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import PurePath
from types import CodeType, FunctionType
from typing import Any

from lm_eval.models.base import is_ours, overridden, shipped
from lm_eval.text.secrets import is_secret_name


def kept_as(name: str, doc: str) -> Any:
    """A property over the attribute ``name``, under which the harness keeps its value."""

    def write(model: Any, value: Any) -> None:
        setattr(model, name, value)

    return property(lambda model: getattr(model, name), write, doc=doc)


def class_path(cls: type) -> str:
    """Where a class is defined: its module and qualified name."""
    return f"{cls.__module__}.{cls.__qualname__}"


def redefinition(model: object) -> dict[str, Any]:
    """What distinguishes a model of a class outside this package: its class, code and attributes.

    Attributes that our classes have are left to the backend's own identity. Empty for an unchanged
    model of ours. What has no stable form makes the result unlike every other.
    """
    foreign = [cls for cls in type(model).__mro__ if not is_ours(cls) and cls is not object]
    foreign = [cls for cls in foreign if cls.__module__ not in ("abc", "typing")]
    patched = [
        (cls, name, value)
        for cls in type(model).__mro__
        for name, value in vars(cls).items()
        if shipped(cls).get(name) is not value and _is_code(value)
    ]
    known_to = [cls for cls in type(model).__mro__ if is_ours(cls)] if foreign else []
    ours = {name for cls in known_to for name in (*vars(cls), *_set_by(cls))}
    attributes = {
        name: value
        for name, value in getattr(model, "__dict__", {}).items()
        if (foreign and name not in ours) or overridden(model, [name])
    }
    attributes = {k: v for k, v in attributes.items() if not is_secret_name(k)}
    if not (foreign or patched or attributes):
        return {}
    digest = sha256()
    for cls in foreign:
        for name, value in sorted(vars(cls).items()):
            _add_code(digest, name, value, set())
    for cls, name, value in patched:
        _add_code(digest, f"{class_path(cls)}.{name}", value, set())
    return {
        "class": class_path(type(model)),
        "code": digest.hexdigest(),
        "attributes": {name: stable(value) for name, value in sorted(attributes.items())},
    }


def _set_by(cls: type) -> Iterator[str]:
    """The attributes that the methods of a class set."""
    for method in vars(cls).values():
        code = getattr(getattr(method, "__func__", method), "__code__", None)
        if code is not None:
            yield from (i.argval for i in dis.get_instructions(code) if i.opname == "STORE_ATTR")


def stable(value: Any) -> Any:
    """A value as plain data that is equal in every process; what has no such form equals nothing."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, PurePath) or type(value).__module__.partition(".")[0] == "torch":
        text = str(
            value
        )  # of torch: a dtype or a device; the text of a tensor or module is too long
        return text if len(text) < 64 and not hasattr(value, "parameters") else _unlike_any()
    if isinstance(value, Mapping):
        return {str(key): stable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [stable(item) for item in items]
    if _is_code(value):
        digest = sha256()
        _add_code(digest, "", value, set())
        return digest.hexdigest()
    return _unlike_any()


def _unlike_any() -> str:
    import uuid

    return f"unknown:{uuid.uuid4().hex}"


def _is_code(value: Any) -> bool:
    return callable(value) or isinstance(value, property | staticmethod | classmethod)


def _add_code(digest: Any, name: str, value: Any, seen: set[int]) -> None:
    """Add a function with the constants and functions of its module that it names, or a plain value."""
    value = getattr(value, "__func__", value)
    for function in (getattr(value, part, None) for part in ("fget", "fset", "func")):
        if function is not None:
            _add_code(digest, name, function, seen)
    if not isinstance(value, FunctionType):
        if value is None or isinstance(value, str | int | float | tuple):
            digest.update(f"{name}={value!r};".encode("utf-8", "backslashreplace"))
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    digest.update(f"{name}:{_code_text(value.__code__)};{value.__defaults__!r}".encode())
    cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
    for index, content in enumerate(cells):
        _add_code(digest, f"{name}[{index}]", content, seen)
    for used in _names_in(value.__code__):
        other = value.__globals__.get(used)
        is_near = getattr(other, "__module__", None) == value.__module__
        if not callable(other) or (isinstance(other, FunctionType) and is_near):
            _add_code(digest, used, other, seen)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names_in(code: CodeType) -> Iterator[str]:
    """The names that a function uses, those inside its comprehensions and functions included."""
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names_in(value)


def _code_text(code: CodeType) -> str:
    constants = [
        _code_text(value) if isinstance(value, CodeType) else repr(value)
        for value in code.co_consts
    ]
    return f"{code.co_code.hex()}{constants}{code.co_names}{code.co_varnames}"
