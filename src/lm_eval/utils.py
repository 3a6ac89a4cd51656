"""Functions that helper modules of tasks import under this address."""

from __future__ import annotations

import collections
import fnmatch
import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from lm_eval.addresses.finder import attributes_of
from lm_eval.harness.aggregation import weighted_f1_score
from lm_eval.harness.metrics import softmax

__all__ = [
    "create_iterator",
    "escaped_split",
    "eval_logger",
    "general_detokenize",
    "group",
    "handle_arg_string",
    "handle_non_serializable",
    "hash_string",
    "join_iters",
    "logging",
    "pattern_match",
    "regex_replace",
    "sanitize_list",
    "sanitize_model_name",
    "sanitize_task_name",
    "simple_parse_args_string",
    "softmax",
    "weighted_f1_score",
]

eval_logger = logging.getLogger("lm_eval")

_JOINED = ((" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"'))
_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None}


def general_detokenize(string: str) -> str:
    """A tokenised text with the spaces around punctuation removed."""
    for apart, joined in _JOINED:
        string = string.replace(apart, joined)
    return re.sub(r" (['.,])", r"\1", string)


def regex_replace(string: str, pattern: str, repl: str, count: int = 0) -> str:
    """``re.sub`` with the text first, as a Jinja filter wants it."""
    return re.sub(pattern, repl, string, count=count)


def hash_string(string: str) -> str:
    return hashlib.sha256(string.encode("utf-8")).hexdigest()


def escaped_split(text: str, sep_char: str, maxsplit: int = -1) -> Any:
    """The parts of a text between separators that have no backslash before them."""
    if maxsplit == 0:
        return text
    return re.split(rf"(?<!\\){sep_char}", text, maxsplit=max(0, maxsplit))


def handle_arg_string(arg: str) -> Any:
    """The value that a text on the command line means: bool, None, int, float, or the text.

    Quotes around it keep it a text.
    """
    arg = arg.strip()
    if len(arg) >= 2 and arg[0] == arg[-1] and arg[0] in "'\"":
        return arg[1:-1]
    if arg.lower() in _WORDS:
        return _WORDS[arg.lower()]
    for kind in (int,) if arg.lstrip("+-").isdigit() else ():
        try:
            return kind(arg)
        except ValueError:  # "--5"
            break
    try:
        return float(arg)
    except ValueError:
        return arg


def simple_parse_args_string(args_string: str | None) -> dict[str, Any]:
    """``a=1,b=two`` as a dict."""
    parts = (part.partition("=") for part in (args_string or "").strip().split(",") if part)
    return {name: handle_arg_string(value) for name, _, value in parts}


def handle_non_serializable(o: Any) -> Any:
    """What ``json.dumps`` writes for a value that it does not know."""
    if isinstance(o, set):
        return list(o)
    # numpy's scalars, without importing numpy
    if type(o).__module__ == "numpy" and getattr(o, "shape", None) == ():
        plain = o.item()
        return plain if isinstance(plain, (bool, int, float)) else str(o)
    return str(o)


def sanitize_list(sub: Any) -> Any:
    """Nested lists and tuples with every other value as a text."""
    if isinstance(sub, list):
        return [sanitize_list(item) for item in sub]
    if isinstance(sub, tuple):
        return tuple(sanitize_list(item) for item in sub)
    return str(sub)


def sanitize_model_name(model_name: str) -> str:
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", model_name)


def sanitize_task_name(task_name: str) -> str:
    return re.sub(r"\W", "_", task_name)


def join_iters(iters: Iterable[Iterable[Any]]) -> Iterator[Any]:
    return chain.from_iterable(iters)


def group(arr: Iterable[Any], fn: Callable[[Any], Any]) -> list[list[Any]]:
    """Lists of items with the same ``fn``, in order of first occurrence."""
    groups: dict[Any, list[Any]] = collections.defaultdict(list)
    for item in arr:
        groups[fn(item)].append(item)
    return list(groups.values())


def pattern_match(patterns: str | Iterable[str], source_list: Iterable[str]) -> list[str]:
    """The names that match any of the patterns (``*``, ``?``), sorted."""
    names = list(source_list)
    wanted = [patterns] if isinstance(patterns, str) else patterns
    return sorted({name for pattern in wanted for name in fnmatch.filter(names, pattern)})


def create_iterator(
    raw_iterator: Iterable[Any], *, rank: int = 0, world_size: int = 1, limit: int | None = None
) -> Iterator[Any]:
    """The items of one of several processes, up to a limit."""
    return islice(raw_iterator, rank, limit, world_size)


__getattr__ = attributes_of(__name__)
