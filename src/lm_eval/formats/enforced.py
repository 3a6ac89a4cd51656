"""Enforced formats: ``format+enforced`` has the same prompt, but the model can only write answers.

It is a separate format with its own name, fingerprint and scores. The difference between the two scores
is what a model loses by not following the format.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from lm_eval.errors import (
    ConfigError,
    FormatError,
    UnknownFormatError,
    did_you_mean,
    nearest,
)
from lm_eval.formats.gold import one_of_each_text
from lm_eval.formats.grammar import Grammar, Hole, grammar_of, one_of, order_of, text_hole
from lm_eval.formats.items import Item
from lm_eval.formats.readers import Reading, read

if TYPE_CHECKING:
    from lm_eval.formats.prompt_format import PromptFormat

SUFFIX = "+enforced"
RULE = "enforced"
"""The rule that a reading by the grammar states."""


def split_suffix(name: str) -> tuple[str, str]:
    """``generate+enforced`` → ``("generate", "+enforced")``; the suffix may be empty."""
    base, plus, suffix = name.partition("+")
    return base, plus + suffix


def check_suffix(suffix: str, name: str) -> None:
    """Refuse any suffix other than ``+enforced``."""
    if suffix and suffix != SUFFIX:
        raise UnknownFormatError(
            f"{name!r} ends with {suffix!r}, which no format can.{did_you_mean(suffix, [SUFFIX])} "
            f"Valid: {SUFFIX}, which holds the model to the answers that the format asks for.",
            name=name,
            nearest=nearest(suffix, [SUFFIX]),
        )


def enforced(fmt: PromptFormat) -> PromptFormat:
    """The format with its answers enforced; an error if the model writes no text."""
    if fmt.enforced:
        return fmt
    if not fmt.reads_text:
        raise FormatError(
            f"Format {fmt.name!r} cannot be enforced: it scores log-likelihoods of given answers, so "
            "that the model writes nothing. Leave +enforced out, or name a format that reads text, such "
            f"as generate{SUFFIX} or cot{SUFFIX}."
        )
    changed = replace(fmt, name=f"{fmt.name}{SUFFIX}", enforced=True)
    check_reads_itself(changed, f"Format {changed.name!r}")
    return changed


def check_reads_itself(fmt: PromptFormat, where: str) -> None:
    """Refuse a format whose reader cannot read the answers in its own examples."""
    if fmt.answers != "choice" or fmt.choice_labels == "choices":
        return
    item = Item({}, "", ("first", "second"), (0,))
    assert fmt.scorer is not None
    reply = fmt.target_format.format(label=fmt.labels(item)[0], answer="first", rationale="")
    reading = replace(fmt, enforced=False, gen_prefix=None).read(reply, item)
    if not reading.is_answer:
        raise ConfigError(
            f"{where}: its target_format writes {reply!r}, which its scorer "
            f"{fmt.scorer.as_spec()!r} does not read, so that there is no answer to hold the model to. "
            "Let target_format write an answer as the format asks for it.",
            key="target_format",
        )


def answer_grammar(fmt: PromptFormat, item: Item) -> Grammar:
    """The replies that a format allows to one item."""
    labels = fmt.labels(item)

    def hole(after: str) -> Hole:
        if fmt.answers == "text":
            return text_hole(fmt.grammar, item.choices, after)
        if fmt.answers == "order":
            return order_of(labels)
        return one_of(labels if "{label}" in fmt.target_format else item.choices)

    return grammar_of(fmt.target_format, hole, reasons_first=fmt.reasons_first)


def read_enforced(fmt: PromptFormat, reply: str, item: Item, finish: str | None) -> Reading:
    """The answer that fills the grammar; a reply outside the grammar has none."""
    grammar = answer_grammar(fmt, item)
    filled = grammar.answers(reply)
    if filled is None:
        reason = "unreadable" if reply.strip() else "empty"
        return Reading.unread("truncated" if finish == "length" else reason)  # type: ignore[arg-type]
    ((answer, span),) = filled
    if fmt.answers == "text":
        return Reading(_as_read(fmt, reply, grammar, item) or answer.strip(), RULE, span)
    index = grammar.holes[0].choices.index(answer)
    if fmt.answers == "order":
        orders = list(permutations(range(len(fmt.labels(item)))))
        return Reading(list(orders[index]), RULE, span)
    return Reading(_choice_index(fmt, answer, item), RULE, span)


def _choice_index(fmt: PromptFormat, answer: str, item: Item) -> int:
    """The choice that an answer names; of choices with the same text, the right one."""
    labels = fmt.labels(item)
    if "{label}" in fmt.target_format and fmt.choice_labels != "choices":
        return labels.index(answer)
    kept = one_of_each_text(item.choices, item.gold)
    return next(index for index in kept if item.choices[index].strip() == answer)


def _as_read(fmt: PromptFormat, reply: str, grammar: Grammar, item: Item) -> str | None:
    """The answer as the format's reader gives it, so that it is scored like one that is not enforced."""
    assert fmt.scorer is not None
    answer = reply[len(grammar.split(reply)[0]) :]
    reading = read(answer, (fmt.scorer,), choices=item.choices)
    return reading.value if reading.is_answer and isinstance(reading.value, str) else None
