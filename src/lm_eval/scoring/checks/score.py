"""A reply and its instructions → verdicts, strict and loose → the scores of IFEval.

Strict: the reply as it is. Loose: any of eight variants of it, without the first line, the last line or
both, each with and without asterisks, for replies that begin with "Sure, here is …" or use Markdown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.errors import ConfigError, did_you_mean, few_names
from lm_eval.formats.readers.reply import find_thinking
from lm_eval.registry import CHECKS
from lm_eval.stats.estimates import Estimate, mean_and_ratio_estimate, mean_estimate, ratio_estimate

Instruction = tuple[str, Mapping[str, Any]]
"""The id of a check, and its arguments."""


def load_check(name: str, arguments: Mapping[str, Any]) -> Callable[..., bool]:
    """The check of an id; an error if there is none or it does not take the arguments."""
    if name not in CHECKS:
        raise ConfigError(
            f"unknown check {name!r}.{did_you_mean(name, CHECKS)} Checks: "
            f"{few_names(name, sorted(CHECKS))}, or one of your own with @register_check."
        )
    check = CHECKS.get(name)
    try:
        inspect.signature(check).bind("", **arguments)
    except TypeError as error:
        raise ConfigError(
            f"check {name!r} does not take {dict(arguments)!r}: {error}. It is "
            f"{name}{inspect.signature(check)}."
        ) from None
    return check  # type: ignore[no-any-return]


def load_libraries(names: Iterable[str]) -> None:
    """Import what the checks of these ids need; a missing library is an error that says so."""
    for name in sorted(set(names)):
        load = getattr(CHECKS.get(name, None), "load", None)
        if load is not None:
            load()


def answer_of(reply: str) -> str:
    """The reply without a block of thinking that it begins with; any other reply is left as it is."""
    spans = find_thinking(reply).spans
    is_first = bool(spans) and not reply[: spans[0][0]].strip()
    return reply[spans[0][1] :].strip() if is_first else reply


def variants_of(reply: str) -> list[str]:
    """The reply and what is left of it without its first line, last line, both, and asterisks."""
    lines = reply.split("\n")
    parts = [reply, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*parts, *(part.replace("*", "") for part in parts)]


def verdicts(reply: str, instructions: Sequence[Instruction]) -> dict[str, Any]:
    """A doc's values: by prompt (all instructions followed) and by instruction, strict and loose."""
    answer = answer_of(reply)
    variants = [variant for variant in variants_of(answer) if variant.strip()]
    strict, loose = [], []
    for name, arguments in instructions:
        check = CHECKS.get(name)
        strict.append(bool(answer.strip()) and bool(check(answer, **arguments)))
        loose.append(strict[-1] or any(check(variant, **arguments) for variant in variants))
    return {
        "prompt_level_strict_acc": float(all(strict)),
        "inst_level_strict_acc": strict,
        "prompt_level_loose_acc": float(all(loose)),
        "inst_level_loose_acc": loose,
        "strict_acc": strict,
    }


def _by_instruction(values: Sequence[Sequence[bool]]) -> Estimate:
    return ratio_estimate([(sum(doc), len(doc)) for doc in values])


def _both_levels(values: Sequence[Sequence[bool]]) -> Estimate:
    return mean_and_ratio_estimate([(sum(doc), len(doc)) for doc in values])


CHECK_METRICS: dict[str, Callable[[Sequence[Any]], Estimate]] = {
    "prompt_level_strict_acc": mean_estimate,
    "inst_level_strict_acc": _by_instruction,
    "prompt_level_loose_acc": mean_estimate,
    "inst_level_loose_acc": _by_instruction,
    "strict_acc": _both_levels,
}
"""The scores of a task with ``checks``, and how each is estimated. ``strict_acc`` is the mean of the two
strict ones, as on the second Open LLM Leaderboard."""
