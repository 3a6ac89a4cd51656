"""What reading again found, as a screen: scores, the test, and the flips with their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lm_eval.lab.reread.items import ReadAgain, Verdict
from lm_eval.lab.reread.results import NOT_READ, Reread, Side
from lm_eval.lab.show.phrases import counted, marked, quoted
from lm_eval.stats.paired import Paired
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.numbers import NOTHING, interval, number, p_equals, percent, signed
from lm_eval.text.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_COLUMNS = (
    Column("name", "", stays=True),
    Column("score", "Score", is_number=True, stays=True),
    Column("interval", "95 % interval", is_number=True, stays=True),
    Column("read", "Read", is_number=True, stays=True),
    Column("score_read", "if read", is_number=True, stays=True),
    Column("reader", "Reader", wraps=True, stays=True),
)
MOST_RULES = 6


def print_reread(found: Reread, console: Console) -> None:
    """Print one result."""
    docs = found.paired.n
    to_docs = f" to {counted(docs, 'doc')}" if docs != found.total else ""
    part = f", {found.part}" if found.part else ""
    what = f"{found.metric} of {counted(found.total, 'stored answer')}{to_docs}"
    title = f"{found.name} ({found.model}){part}: {what}"
    console.print(Paragraph("", visible(title)))
    rows = [_row("before", found.before, found.total), _row("after", found.after, found.total)]
    console.print(FittingTable(_COLUMNS, [rows]))
    for line in _lines(found):
        console.print(line)
    console.print()


def _row(name: str, side: Side, total: int) -> Cells:
    return Cells(
        name=name,
        score=number(side.score.value),
        interval=interval(side.score),
        read=percent(side.read, total),
        score_read=number(side.score_read),
        reader=visible(side.reader),
    )


def _lines(found: Reread) -> Iterator[RenderableType]:
    yield Paragraph("  ", difference_words(found.paired, "after − before", "higher", "lower"))
    yield Paragraph("  ", _reading_words(found))
    yield Paragraph("  ", f"Rules before: {_rules(found.before.rules)}.")
    yield Paragraph("  ", f"Rules after:  {_rules(found.after.rules)}.")
    for note in found.notes:
        yield Paragraph("  ", f"Note: {visible(note)}.")
    if not found.num_flips:
        yield Paragraph("", "No verdict flips.")
        return
    if not found.flips:
        yield Paragraph("", f"Verdicts that flip: {found.num_flips}. With text: --show 5.")
        return
    shown = "" if len(found.flips) == found.num_flips else f", the first {len(found.flips)}"
    yield Paragraph("", f"Verdicts that flip ({found.num_flips}{shown}):")
    for flip in found.flips:
        yield from _flip(flip)
    if found.num_flips > len(found.flips):
        left = found.num_flips - len(found.flips)
        yield Paragraph("  ", f"… and {left} more: --show {found.num_flips}.")


def difference_words(found: Paired, title: str, more: str, less: str) -> str:
    """A paired difference with its interval and test, in one sentence."""
    ends = interval(found.difference).replace("-", "−")
    said = f" {ends}" if ends != NOTHING else ""
    counts = f"{found.wins} {more}, {found.losses} {less}, {found.ties} the same"
    return (
        f"{title} {signed(found.difference.value)}{said}: {counts}; {p_equals(found.p)} "
        f"({found.test})."
    )


def _reading_words(found: Reread) -> str:
    both, total = found.read_by_both, found.total
    only_after, only_before = found.after.read - both, found.before.read - both
    parts = [
        f"Read by both: {both} of {total}, {found.same_answer} of them as the same answer",
        f"by the new reader alone: {only_after}",
        f"by the old one alone: {only_before}",
        f"by neither: {total - both - only_after - only_before}",
    ]
    said = "; ".join(parts) + "."
    if found.scores_of_both is None:
        return said
    one, other = map(number, found.scores_of_both)
    return f"{said} On those that both read, the score is {one} before and {other} after."


def _rules(rules: Mapping[str, int]) -> str:
    shown = [f"{visible(rule)} {count}" for rule, count in rules.items()]
    more = f" and {len(shown) - MOST_RULES} more" if len(shown) > MOST_RULES else ""
    return ", ".join(shown[:MOST_RULES]) + more


def _flip(item: ReadAgain) -> Iterator[RenderableType]:
    change = f"{_score(item.before)} → {_score(item.after)}"
    yield Paragraph("  ", f"{visible(item.item)}: {change} (right: {visible(item.right, 60)})")
    for name, verdict in (("before", item.before), ("after ", item.after)):
        yield Paragraph(f"    {name}  ", _verdict(item.reply, verdict))


def _score(verdict: Verdict) -> str:
    return {0.0: "wrong", 1.0: "right"}.get(verdict.score, number(verdict.score))


def _verdict(reply: str, verdict: Verdict) -> str:
    if not verdict.is_read:
        return f"{NOT_READ}{visible(str(verdict.reason))}, in {quoted(reply)}"
    said = f"{visible(str(verdict.answer), 60)!s}, by {visible(str(verdict.rule))}"
    if verdict.span is None:
        return f"{said}, in {quoted(reply)}"
    return f"{said}, in “{marked(reply, verdict.span)}”"
