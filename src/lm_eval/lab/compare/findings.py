"""A comparison as lines, one for each finding: does the format matter, and which pairs differ.

In: a ``Comparison``. Out: ``ReportLine``s of a report (whether the format matters; which differences are
real, confounded by replies without an answer, or inconclusive). Commands and the viewer share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lm_eval.lab.compare.values import (
    ALPHA,
    CONFOUNDED,
    EQUAL,
    INCONCLUSIVE,
    REAL,
    Comparison,
    ComparisonRow,
    Pair,
)
from lm_eval.lab.report import ReportLine, Section, print_report
from lm_eval.lab.show.phrases import round_up
from lm_eval.stats.power import can_find
from lm_eval.support.numbers import (
    ALWAYS,
    counted,
    interval,
    joined,
    listed,
    number,
    p_equals,
    percent,
    signed,
)
from lm_eval.support.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console


LABELS = {REAL: "Real", CONFOUNDED: "Confounded", INCONCLUSIVE: "Inconclusive"}
MOST_PAIRS = 4
"""Pairs on lines of their own under one verdict; ``lm-eval compare`` lists the others."""
NAMES_CHARS = 72
"""Pairs that are not told apart share one line, if their names take no more than this."""
MOST_TASKS = 6
"""Tasks whose formats are compared on the screen; ``lm-eval compare`` has the others."""
_ADJUSTED = {"holm": "Holm", "bh": "Benjamini–Hochberg", "by": "Benjamini–Yekutieli"}


def title(comparison: Comparison) -> str:
    """What was compared: ``demo_mcq · 32 items · 4 formats · dummy``."""
    items = counted(comparison.num_items, "item")
    if comparison.num_clusters:
        items += f" in {counted(comparison.num_clusters, 'cluster')}"
    if comparison.members:
        items += f" of {len(comparison.members)} tasks"
    compared = f"{len(comparison.rows)} {comparison.compares}"
    return " · ".join([visible(comparison.task), items, compared, visible(comparison.within)])


def findings(comparison: Comparison) -> list[ReportLine]:
    """Everything that the screen says about one comparison, the most important first."""
    overall = overall_line(comparison)
    shown = [ReportLine(None, overall)] if overall else []
    if all(row.num_read == 0 for row in comparison.rows):
        return shown
    lines = {
        REAL: [*_pair_lines(comparison, REAL)],
        CONFOUNDED: [*_confounded_lines(comparison)],
        INCONCLUSIVE: [*_inconclusive_lines(comparison)],
    }
    verdicts = [verdict for verdict in lines if lines[verdict]]
    if verdicts:
        power = _power(comparison, comparison.pairs_called(INCONCLUSIVE))
        lines[verdicts[-1]].append(f"{power} {_footnote(comparison)}".strip())
    for verdict in verdicts:
        first, *others = lines[verdict]
        shown += [ReportLine(LABELS[verdict], first), *(ReportLine("", text) for text in others)]
    return shown


def summary(comparison: Comparison) -> str:
    """The comparison in one sentence or two, where a run has many tasks."""
    parts = [overall_line(comparison)]
    real = comparison.pairs_called(REAL)
    if real:
        more = f" and {len(real) - 1} more" if len(real) > 1 else ""
        parts.append(f"Real: {_names(real[0])} {_difference(real[0])}{more}.")
    counts = [
        f"{counted(len(pairs), 'pair')} {verdict}"
        for verdict in (CONFOUNDED, INCONCLUSIVE)
        if (pairs := comparison.pairs_called(verdict))
    ]
    if counts:
        text = joined(counts)
        parts.append(f"{text[0].upper()}{text[1:]}.")
    return " ".join(filter(None, parts))


def overall_line(comparison: Comparison) -> str:
    """Whether the format matters: best − worst, beside what chance alone would show."""
    rows, spread = comparison.rows, comparison.spread
    if all(row.num_read == 0 for row in rows):
        return (
            "No reply contained an answer, so these scores say nothing about what the model knows."
        )
    if not any(any(pair.counts) for pair in comparison.pairs):
        same = "Both" if len(rows) == 2 else f"All {len(rows)}"
        return f"No difference: {same.lower()} {comparison.compares} score alike on every item."
    if spread is None or len(rows) == 2:
        return ""
    best_worst = f"best − worst = {number(spread.value, 2)}"
    luck = f"by chance ≤ {number(spread.null_95, 2)} in 95 % of cases"
    if spread.p >= ALPHA:
        return f"No sign that the {comparison.kind} matters: {best_worst} ({luck})."
    halves = spread.split_half
    held_out = "" if halves is None else f"; {number(max(halves, 0.0), 2)} on held-out halves"
    caution = ""
    verdicts = {pair.verdict for pair in comparison.pairs}
    if REAL not in verdicts:
        caution = (
            " It may matter only for how many replies contain an answer."
            if CONFOUNDED in verdicts
            else f" No two {comparison.compares} stand out."
        )
    return f"The {comparison.kind} matters: {best_worst} ({luck}{held_out}).{caution}"


def _pair_lines(comparison: Comparison, verdict: str) -> Iterator[str]:
    pairs = comparison.pairs_called(verdict)
    shown = pairs[:MOST_PAIRS]
    width = max((len(_names(pair)) for pair in shown), default=0)
    differences = [_difference(pair) for pair in shown]
    wide = max(map(len, differences), default=0)
    for pair, difference in zip(shown, differences, strict=True):
        line = f"{_names(pair):{width}}  {difference:{wide}}  {p_equals(pair.p_adjusted)}"
        yield f"{line}{_if_parsed(comparison, pair)}"
    if len(pairs) > len(shown):
        yield f"and {len(pairs) - len(shown)} more"


def _names(pair: Pair) -> str:
    return f"{visible(pair.first)} > {visible(pair.second)}"


def _difference(pair: Pair) -> str:
    """``+.24 [.07, .39]``."""
    return f"{signed(pair.result.difference.value)} {interval(pair.result.difference)}".rstrip()


def _if_parsed(comparison: Comparison, pair: Pair) -> str:
    """What a real difference is on the items parsed under the worse of two."""
    if pair.verdict != REAL or pair.remaining is None or pair.gap_read <= 0:
        return ""
    left = signed(pair.remaining.difference.value)
    where = f"{pair.remaining.n:,} parsed {comparison.under} {visible(pair.second)}"
    return f"  ({left} on the {where})"


def _confounded_lines(comparison: Comparison) -> Iterator[str]:
    """A sentence for each row whose unread replies may explain why it trails.

    Rows that trail the same row and of which the same remains, which is nothing, share a sentence.
    """
    pairs = comparison.pairs_called(CONFOUNDED)
    sentences: dict[object, list[Pair]] = {}
    for label in dict.fromkeys(pair.second for pair in pairs):
        of_row = [pair for pair in pairs if pair.second == label]
        leader = of_row[0].first if len(of_row) == 1 and not _left(of_row) else None
        key = (leader, of_row[0].both_read is None) if leader else label
        sentences.setdefault(key, []).extend(of_row)
    shown = list(sentences.values())[:MOST_PAIRS]
    yield from (_trailing(comparison, of_rows) for of_rows in shown)
    if len(sentences) > len(shown):
        yield f"and {counted(len(sentences) - len(shown), 'more format')}"


def _trailing(comparison: Comparison, pairs: Sequence[Pair]) -> str:
    """``cot trails cloze and mcqa by .46 and .23 (p ≤ .038), but 54 % of its replies contain no …``."""
    rows = [comparison.row(label) for label in dict.fromkeys(pair.second for pair in pairs)]
    names = listed([visible(row.label) for row in rows])
    trail, their = ("trails", "its") if len(rows) == 1 else ("trail", "their")
    leaders = listed([visible(label) for label in dict.fromkeys(pair.first for pair in pairs)])
    gaps = joined([number(abs(pair.result.difference.value), 2) for pair in pairs])
    p = p_equals(max(pair.p_adjusted for pair in pairs))
    p = p if len(pairs) == 1 or "<" in p else p.replace("=", "≤")
    shares = [*map(_unread_share, rows)]
    unread = shares[0] if len(set(shares)) == 1 else joined(shares)
    text = (
        f"{names} {trail} {leaders} by {gaps} ({p}), but {unread} of "
        f"{their} replies contain no answer."
    )
    if not any(pair.both_read is not None for pair in pairs):
        return text
    left = _left(pairs)
    if not left:
        return f"{text} Where both were parsed, no difference is significant."
    remains = "; ".join(_remaining(comparison, pair) for pair in left)
    only = "only " if len(left) < len(pairs) else ""
    return f"{text} Where both were parsed, {only}{remains}."


def _left(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs that differ significantly on the items parsed under both."""
    return [
        pair
        for pair in pairs
        if pair.both_read is not None
        and (pair.p_both_read or 0) < ALPHA
        and abs(pair.both_read.difference.value) > 0
    ]


def _unread_share(row: ComparisonRow) -> str:
    return "all" if not row.num_read else percent(row.num_unread, row.score.n)


def _remaining(comparison: Comparison, pair: Pair) -> str:
    assert pair.both_read is not None
    value = pair.both_read.difference.value
    is_same_way = (value > 0) == comparison.higher_is_better
    first, second = (pair.first, pair.second) if is_same_way else (pair.second, pair.first)
    return (
        f"{visible(first)} > {visible(second)} remains: +{number(abs(value), 2)}, "
        f"{p_equals(pair.p_both_read or 0.0)}"
    )


def _inconclusive_lines(comparison: Comparison) -> Iterator[str]:
    pairs = comparison.pairs_called(INCONCLUSIVE)
    equal = comparison.pairs_called(EQUAL)
    if not pairs:
        return
    separator = "; " if any("," in _names(pair) for pair in pairs) else ", "
    names = separator.join(
        f"{_names(pair)} {signed(pair.result.difference.value)}" for pair in pairs
    )
    if len(pairs) < MOST_PAIRS - 1:
        yield from _pair_lines(comparison, INCONCLUSIVE)
    elif len(pairs) < MOST_PAIRS and len(names) <= NAMES_CHARS:
        least = p_equals(min(pair.p_adjusted for pair in pairs))
        yield f"{names} ({least.replace('=', '≥') if least != 'p = 1' else least})"
    else:
        largest = number(abs(pairs[0].result.difference.value), 2)
        p = min(pair.p_adjusted for pair in pairs)
        least = p_equals(p).replace("=", "≥") if p < ALWAYS else p_equals(p)
        which = "all" if len(pairs) + len(equal) == len(comparison.pairs) else "the other"
        yield f"{which} {len(pairs)} pairs: differences up to {largest}, {least}"


def _power(comparison: Comparison, pairs: Sequence[Pair]) -> str:
    """``80 items detect ≥ .18; .10 needs about 250.``."""
    if not pairs:
        return ""
    fewest = fewest_units(comparison)
    unit = "clusters" if comparison.num_clusters else "items"
    if comparison.num_units < fewest:
        return (
            f"{comparison.num_units:,} {unit} are too few to tell any difference from chance; "
            f"that takes {fewest}."
        )
    power = comparison.power(pairs)
    if power is None:
        return ""
    text = f"{comparison.num_items:,} items detect ≥ {number(power.detects, 2)}"
    if power.target is not None and power.items is not None:
        text += f"; {number(power.target, 2)} needs about {round_up(power.items):,}"
    return f"{text}."


def fewest_units(comparison: Comparison) -> int:
    """The fewest items (or clusters) with which any difference can have a p below the level.

    Holm multiplies the smallest p by the number of comparisons.
    """
    tests = len(comparison.pairs) if comparison.method == "holm" else 1
    fewest = 1
    while not can_find(fewest, ALPHA / tests):
        fewest += 1
    return fewest


def _footnote(comparison: Comparison) -> str:
    """The test and its adjustment."""
    tests = " or ".join(dict.fromkeys(pair.result.test for pair in comparison.pairs))
    tests = tests[0].upper() + tests[1:]
    count = len(comparison.pairs)
    lower = "" if comparison.higher_is_better else " Lower is better: “>” means better."
    if count == 1:
        return f"{tests}.{lower}"
    against = f" ({comparison.family})" if comparison.family.startswith("each") else ""
    return f"{tests}, {_ADJUSTED[comparison.method]}-adjusted for {count} pairs{against}.{lower}"


# Printed


def findings_report(blocks: Sequence[Comparison]) -> list[Section]:
    """What comparisons say: line by line of one task, in a sentence or two of each of many."""
    if len(blocks) == 1:
        return finding_sections(blocks[0])
    more = len(blocks) - MOST_TASKS
    lines = [ReportLine(visible(block.task), summary(block)) for block in blocks[:MOST_TASKS]]
    width = max(len(line.label or "") for line in lines) + 2
    if more > 0:
        lines.append(ReportLine(None, f"{more} more tasks are compared by the command below."))
    return [Section(lines=lines, label_width=width)]


def finding_sections(comparison: Comparison, more: Sequence[ReportLine] = ()) -> list[Section]:
    """The findings, what they say as a whole apart; ``more`` lines come after them."""
    found = findings(comparison)
    return [
        Section(lines=[line for line in found if line.label is None]),
        Section(lines=[*(line for line in found if line.label is not None), *more]),
    ]


def print_findings(blocks: Sequence[Comparison], console: Console) -> None:
    """Print what the comparisons say, after an empty line."""
    console.print()
    print_report(findings_report(blocks), console)
