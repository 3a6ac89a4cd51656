"""Scores and agreement → tables for people.

Names of runs and topics are data: they go through ``visible`` and are never read as markup. Print a
table with a console of ``lm_eval.support.terminal``, or take its ``markdown()``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import bounds, interval, number, p_value, percent, with_interval
from lm_eval.support.terminal import Paragraph, visible
from nugget_eval.reading.spellings import LABELS
from nugget_eval.scores.agreement import Agreement, RaterAgreement
from nugget_eval.scores.compare import RunAgreement, RunDifference, RunRanking
from nugget_eval.scores.measures import MEASURES, known_measure
from nugget_eval.scores.scores import RunScores, TopicScore

if TYPE_CHECKING:
    from rich.console import Console

NAME_CHARS = 60
_UNNAMED = "(unnamed)"


def summary_table(runs: Sequence[RunScores], measures: Sequence[str] = MEASURES) -> FittingTable:
    """A line for each run: measures as columns, bounds over missing labels, coverage.

    ``Worst–best`` is about the first measure, ``Labelled`` about all nuggets. In a narrow terminal the
    last measures become lines below the table.
    """
    named = [known_measure(name) for name in measures]
    columns = (
        Column("name", "Run", wraps=True, stays=True),
        *(
            Column(measure, visible(measure.removesuffix("_score")), is_number=True, stays=True)
            for measure in named
        ),
        Column("bounds", "Worst–best", is_number=True),
        Column("coverage", "Labelled", is_number=True, stays=True),
        Column("n", "Topics", is_number=True, stays=True),
        Column("note", "Note", wraps=True),
    )
    movable = ("note", *reversed(named[1:]))
    return FittingTable(columns, [[_run_line(run, named) for run in runs]], movable)


def topic_table(
    run: RunScores, measures: Sequence[str] = ("vital_score", "all_score")
) -> FittingTable:
    """A line for each topic: its scores, how many of its nuggets have a label, and what is undefined."""
    columns = (
        Column("name", "Topic", wraps=True, stays=True),
        *(Column(name, known_measure(name), is_number=True, stays=True) for name in measures),
        Column("coverage", "Labelled", is_number=True, stays=True),
        Column("note", "Note", wraps=True),
    )
    lines = []
    for topic in run.topics:
        scores = [topic.scores[name] for name in measures]
        every = topic.scores["all_score"]
        lines.append(
            Cells(
                name=_name(topic.qid),
                **{name: _topic_cell(score) for name, score in zip(measures, scores, strict=True)},
                coverage=f"{every.labelled}/{every.total}",
                note="; ".join(dict.fromkeys(score.reason for score in scores if score.reason)),
            )
        )
    return FittingTable(columns, [lines], ("note",))


def ranking_table(ranking: RunRanking) -> FittingTable:
    """A line for each run from best to worst, with its lead over the next and whether that is real."""
    columns = (
        Column("rank", "Rank", is_number=True, stays=True),
        Column("name", "Run", wraps=True, stays=True),
        Column("score", ranking.measure, is_number=True, stays=True),
        Column("interval", "Lead over the next", is_number=True),
        Column("p", "p (Holm)", is_number=True),
        Column("n", "Topics", is_number=True, stays=True),
    )
    pairs = {(pair.first, pair.second): pair for pair in ranking.pairs}
    lines = []
    for index, row in enumerate(ranking.rows):
        below = ranking.rows[index + 1].run_id if index + 1 < len(ranking.rows) else ""
        pair = pairs.get((row.run_id, below))
        lines.append(
            Cells(
                name=_name(row.run_id),
                rank=str(row.rank),
                score=number(row.mean),
                interval=with_interval(pair.difference.estimate) if pair else "",
                p=p_value(pair.p_adjusted) if pair else "",
                n=str(ranking.num_topics),
            )
        )
    return FittingTable(columns, [lines])


def comparison_table(comparisons: Sequence[RunDifference]) -> FittingTable:
    """A line for each pair of runs: difference, interval, test, and wins, ties and losses by topic."""
    columns = (
        Column("name", "Runs", wraps=True, stays=True),
        Column("measure", "Measure", stays=True),
        Column("score", "Difference", is_number=True, stays=True),
        Column("interval", "95 % interval", is_number=True, stays=True),
        Column("p", "p", is_number=True, stays=True),
        Column("n", "Topics", is_number=True, stays=True),
        Column("wins", "Won–tied–lost", is_number=True, stays=True),
        Column("note", "Test", wraps=True),
    )
    lines = [
        Cells(
            name=f"{_name(pair.first)} − {_name(pair.second)}",
            measure=pair.measure,
            score=number(pair.difference.value),
            interval=interval(pair.difference.estimate),
            p=p_value(pair.p.value if pair.p_adjusted is None else pair.p_adjusted),
            n=str(pair.num_topics),
            wins=f"{pair.wins}–{pair.ties}–{pair.losses}",
            note=pair.p.method + ("" if pair.p_adjusted is None else ", Holm"),
        )
        for pair in comparisons
    ]
    return FittingTable(columns, [lines], ("note",))


def agreement_table(agreed: Agreement | RaterAgreement | RunAgreement) -> FittingTable:
    """A line for each statistic with its interval."""
    columns = (
        Column("name", "Statistic", stays=True),
        Column("score", "Value", is_number=True, stays=True),
        Column("interval", "95 % interval", is_number=True, stays=True),
        Column("n", "n", is_number=True, stays=True),
    )
    lines = [
        Cells(
            name=name,
            score=number(measure.value),
            interval=interval(measure.estimate),
            n=str(measure.estimate.n) if measure.estimate else "0",
        )
        for name, measure in agreed.measures.items()
    ]
    return FittingTable(columns, [lines])


def agreement_notes(agreed: Agreement | RaterAgreement | RunAgreement) -> list[str]:
    """Why statistics are undefined or have no interval: each reason once, after their names."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, measure in agreed.measures.items():
        if measure.reason:
            names[measure.reason].append(name)
    return [f"{', '.join(named)}: {reason}" for reason, named in names.items()]


def print_agreement(out: Console, agreed: Agreement | RaterAgreement | RunAgreement) -> None:
    """Print the table of agreement, and its notes below it."""
    out.print(agreement_table(agreed))
    for note in agreement_notes(agreed):
        out.print(Paragraph("  ", note))


def confusion_table(agreed: Agreement) -> FittingTable:
    """Gold labels down, the judge's across, missing ones last."""
    across = (*LABELS, "missing")
    columns = (
        Column("name", "Gold ↓ judge →", stays=True),
        *(Column(label, label, is_number=True, stays=True) for label in across),
    )
    lines = [
        Cells(name=label, **{column: str(agreed.confusion[label][column]) for column in across})
        for label in LABELS
    ]
    return FittingTable(columns, [lines])


def _run_line(run: RunScores, measures: Sequence[str]) -> Cells:
    first = run.means[measures[0]]
    means = [run.means[measure] for measure in measures]
    every = max(means, key=lambda scored: scored.total)  # of all nuggets, not the vital ones alone
    notes = [
        note
        for scored in means
        for note in (
            scored.mean.reason,
            *(f"{n} × {reason}" for reason, n in scored.undefined.items()),
        )
        if note
    ]
    return Cells(
        name=_name(run.run_id),
        **{
            measure: with_interval(scored.mean.estimate)
            if scored.mean.estimate is not None
            else number(scored.mean.value)
            for measure, scored in zip(measures, means, strict=True)
        },
        bounds=bounds(first.low, first.high) if first.labelled < first.total else "",
        coverage=percent(every.labelled, every.total),
        n=str(every.num_topics),
        note="; ".join(dict.fromkeys(notes)),
    )


def _topic_cell(score: TopicScore) -> str:
    if score.value is None or score.labelled == score.total:
        return number(score.value)
    return f"{number(score.value)} ({bounds(score.low, score.high)})"


def _name(text: str) -> str:
    return visible(text, NAME_CHARS) if text else _UNNAMED
