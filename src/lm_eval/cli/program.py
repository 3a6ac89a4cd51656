"""What the command-line programs share: a parser with short errors, and a run without tracebacks.

Imports nothing heavy, so that ``--help`` is instant.
"""

from __future__ import annotations

import argparse
import errno
import gc
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from lm_eval.errors import LmEvalError, LmEvalWarning, UsageError, did_you_mean, few_names, listing
from lm_eval.support.terminal import LOG_LEVELS, bystander_note, never_fail_on_encoding, visible

_MIN_CUT = len("--task")
"""An option may be abbreviated to this length."""
GARBAGE_AFTER = 5_000
"""How many more objects are made than freed before cycles are collected; Python's default is 700."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are short messages, without a screen of usage."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_Help, **settings)

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ").rstrip(".")
        place, separator, problem = text.partition(": ")
        if "|" in place and separator:  # a positional argument, named by all its values
            text = problem[:1].upper() + problem[1:]
        raise UsageError(f"{text}. See `{self.prog} --help`.")


class _Help(argparse.HelpFormatter):
    """Wraps descriptions, but not examples, which have their own line breaks."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Break at spaces only: `lm-eval` stays in one piece."""
        import textwrap  # for help only, as in argparse

        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def examples(*lines: tuple[str, str]) -> str:
    """The last part of a command's help: commands to try, and what each of them shows."""
    width = max(len(command) for command, _ in lines)
    shown = [f"{command:{width}}   {about}" for command, about in lines]
    return "Try:  " + "\n      ".join(shown)


def add_options(
    parser: argparse.ArgumentParser, options: Mapping[str, str], **settings: Mapping[str, Any]
) -> None:
    """Add flags with their help texts, each written as in a usage line.

    ``--limit -L N`` takes a value, ``--tasks -t TASK …`` one or more, ``--plots [DIR]`` at most one, and
    ``--parity`` is a switch. Values such as ``holm|bh|by`` are the only ones allowed. ``settings`` holds
    further arguments of ``add_argument``, by the name of the flag.
    """
    for usage, about in options.items():
        words = usage.split()
        flags = [word for word in words if word.startswith("-")]
        name = flags[0].removeprefix("--")
        arguments = {**_value_settings(words[len(flags) :]), **settings.get(name, {})}
        parser.add_argument(*flags, help=about, **arguments)


def _value_settings(words: Sequence[str]) -> dict[str, Any]:
    """The settings for argparse of a flag with the value ``words``, such as ``TASK …``."""
    if not words:
        return {"action": "store_true"}
    is_optional = words[0].startswith("[")
    value = words[0][1:-1] if is_optional else words[0]
    known: dict[str, Any] = {"metavar": value}
    if "|" in value and value.islower():
        known["type"] = one_of(*value.split("|"))
    if is_optional:
        return {**known, "nargs": "?", "const": "true"}
    return {**known, "nargs": "+"} if "…" in words else known


def int_option(**settings: Any) -> dict[str, Any]:
    """The settings of a flag that takes a whole number."""
    return {"type": whole_number, **settings}


def count_option(**settings: Any) -> dict[str, Any]:
    """The settings of a flag that takes a whole number from 0 up."""
    return {"type": _count, **settings}


_SEARCH = (
    "Sample a list with --formats 20: the sweep names its best and its worst format. With --budget 4n "
    "it estimates from fewer answers how far apart they are."
)
_GONE = {"sweep --search": _SEARCH, "sweep --search_method": _SEARCH}
"""Options that a command had, and what to do instead."""


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The arguments of a command; an unknown one is an error that names the nearest option."""
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        command = f"`{parser.prog} {args.command}`"
        name = unknown[0].partition("=")[0]
        if not name.startswith("-"):
            raise UsageError(f"{command} takes no argument {name!r}. See {command[:-1]} -h`.")
        if (gone := _GONE.get(f"{args.command} {name}")) is not None:
            raise UsageError(f"{command} no longer has {name}. {gone}")
        options = _options(parser, args.command)
        raise UsageError(
            f"{command} has no option {name!r}.{did_you_mean(name, options)} "
            f"Options: {few_names(name, options)}. See {command[:-1]} -h`."
        )
    return args


def expand_abbreviations(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """The words of a command, with abbreviated options written out if only one option fits.

    EleutherAI's command accepts ``--output`` for ``--output_path``, and scripts rely on it.
    """
    options = [
        name
        for action in _actions(parser, words[0])
        for name in action.option_strings
        if name.startswith("--")
    ]
    written_out = list(words)
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if len(name) >= _MIN_CUT and name.startswith("--") and name not in options:
            matches = [option for option in options if option.startswith(name)]
            if len(matches) == 1:
                written_out[index] = f"{matches[0]}{equals}{value}"
    return written_out


def check_repeated(parser: argparse.ArgumentParser, command: str, words: Sequence[str]) -> None:
    """Refuse an option with several values that is given twice: the first values would be dropped."""
    names = [word.partition("=")[0] for word in words]
    for action in _actions(parser, command):
        has_list = isinstance(action, argparse._StoreAction) and action.nargs == "+"
        if has_list and sum(name in action.option_strings for name in names) > 1:
            option = action.option_strings[0]
            raise UsageError(
                f"{option} is given twice, and only the values after the last one would count. Give "
                f"all values at once: {option} {action.metavar} {action.metavar}."
            )


def _options(parser: argparse.ArgumentParser, command: str) -> list[str]:
    """The long options that the help of a command shows."""
    actions = _actions(parser, command)
    shown = [action for action in actions if action.help is not argparse.SUPPRESS]
    return [name for action in shown for name in action.option_strings if name.startswith("--")]


def _actions(parser: argparse.ArgumentParser, command: str) -> list[argparse.Action]:
    """The options and arguments of a command."""
    subparsers = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    chosen = [action.choices[command] for action in subparsers if command in action.choices]
    return [action for each in chosen or [parser] for action in each._actions]


def run_program(name: str, call: Callable[[], int]) -> int:
    """The exit code of ``call``; every expected error is printed as one message, with code 1.

    Warnings are printed as they come, each text once. If a launcher started several processes, the first
    does everything; the others say so.
    """
    for stream in (sys.stdout, sys.stderr):
        never_fail_on_encoding(stream)
    if (note := bystander_note()) is not None:
        print(f"{name}: {note}", file=sys.stderr, flush=True)
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("always", LmEvalWarning)
        warnings.showwarning = _warning_printer(name)
        with _collecting_rarely():
            return _run_safely(name, call)


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Collect cycles less often: a run makes many objects, and few of them in cycles."""
    before = gc.get_threshold()
    if before[0]:  # 0: collection is switched off
        gc.set_threshold(max(before[0], GARBAGE_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _run_safely(name: str, call: Callable[[], int]) -> int:
    try:
        return int(call())
    except LmEvalError as error:
        return _fail(name, str(error))
    except KeyboardInterrupt as stop:
        return _fail(name, f"Stopped by Ctrl-C. {stop}".rstrip(), code=130)
    except BrokenPipeError:  # `lm-eval ls tasks | head`
        _drop_output()
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_output()
        return _fail(name, f"The output cannot be written: {error.strerror}. Free some space.")
    except MemoryError:
        return _fail(name, "Out of memory. Use a smaller --limit, --batch_size or model.")


def _drop_output() -> None:
    """Discard buffered output, which Python would flush at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def logging_from(level: str | None, name: str, package: str) -> Iterator[None]:
    """Log the messages of ``package`` from ``level`` up, while a command runs."""
    if level is None:
        yield
        return
    import logging

    class Visible(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return visible(super().format(record), keep="\n")

    logger = logging.getLogger(package)
    before, propagates = logger.level, logger.propagate
    handler = logging.StreamHandler()
    handler.setFormatter(Visible(f"{name}: %(levelname)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = propagates


def whole_number(text: str) -> int:
    """The type of a flag that takes a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _count(text: str) -> int:
    number = whole_number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is below zero. Give 0 or more")
    return number


def true_or_false(text: str) -> bool:
    """The type of a switch that can be switched off."""
    return one_of("true", "false")(text) == "true"


def real_number(text: str) -> float:
    """The type of a flag that takes a number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return number


def one_of(*options: str) -> Callable[[str], str]:
    """The type of a flag that takes one of these words, in any case."""

    def check(text: str) -> str:
        if text.lower() in options:
            return text.lower()
        raise argparse.ArgumentTypeError(
            f"unknown value {text!r}.{did_you_mean(text, options)} Values: {listing(options)}"
        )

    return check


def log_level(text: str) -> str:
    """The type of ``--verbosity``."""
    return one_of(*(name.lower() for name in LOG_LEVELS))(text).upper()


def _fail(name: str, message: str, *, code: int = 1) -> int:
    from lm_eval.support.secrets import known_secrets

    shown = visible(known_secrets().hide(message), keep=chr(10))
    print(f"{name}: error: {shown}", file=sys.stderr)
    return code


def _warning_printer(name: str) -> Any:
    """A function that prints the warnings of one run, each text once."""
    seen: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        from lm_eval.support.secrets import known_secrets

        text = known_secrets().hide(str(message))
        if text not in seen:
            seen.add(text)
            print(f"{name}: warning: {visible(text, keep=chr(10))}", file=sys.stderr)

    return show
