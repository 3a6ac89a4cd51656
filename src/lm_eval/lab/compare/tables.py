"""A comparison as it is printed and drawn: sentences, tables, notes (terminal or Markdown), plots.

In: a ``ComparisonReport``. Out: ``Section``s for Rich or Markdown, and ``Plot``s. A ranking of models
has its own sentences, table and notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.lab.compare.values import (
    Comparison,
    ComparisonReport,
    ComparisonRow,
    Pair,
    Ranking,
)
from lm_eval.lab.compare.words import (
    SMALL_N,
    comparison_notes,
    pair_notes,
    sentences,
    title,
)
from lm_eval.lab.show.phrases import chance, digits, size
from lm_eval.lab.show.plots import Plot, flips_plot, save_all, spread_plot
from lm_eval.lab.show.score_plot import ScoresPlot, scores_plot
from lm_eval.text.columns import Cells, Column, FittingTable, markdown
from lm_eval.text.files import unique_name
from lm_eval.text.numbers import (
    bounds,
    count,
    duration,
    interval,
    number,
    p_value,
    percent,
    tokens,
    value_of,
    with_interval,
)
from lm_eval.text.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console


HEADING = "What this says"


@dataclass(frozen=True)
class Section:
    """One part of a report: a title, sentences, tables and the notes that explain them."""

    title: str
    says: Sequence[str]
    tables: Sequence[FittingTable]
    notes: Sequence[str] = ()
    plot: ScoresPlot | None = None
    """Shown below the first table, in a terminal."""


def sections(report: ComparisonReport, *, flips: int | None = None) -> list[Section]:
    """The parts of the report, in order; ``flips`` is how many flipped items are listed at most."""
    sections = [_comparison_section(comparison, flips) for comparison in report.blocks]
    return sections + [_ranking_section(ranking) for ranking in report.rankings]


def print_comparison(
    report: ComparisonReport, console: Console, *, flips: int | None = None
) -> None:
    """Print the whole report."""
    printed: set[str] = set()
    for index, section in enumerate(sections(report, flips=flips)):
        if index:
            console.print()
        _print_section(section, console, printed)
    for note in report.notes:
        console.print()
        console.print(Paragraph("Note: ", visible(note)))


def comparison_markdown(report: ComparisonReport, *, flips: int | None = None) -> str:
    """The whole report as Markdown."""
    lines: list[str] = []
    for section in sections(report, flips=flips):
        lines += [f"## {markdown(section.title)}", "", f"**{HEADING}**", ""]
        lines += [f"- {markdown(sentence)}" for sentence in section.says]
        for table in section.tables:
            lines += ["", *table.markdown()]
        for note in section.notes:
            lines += ["", markdown(note)]
        lines.append("")
    lines += [f"> {markdown(visible(note))}\n" for note in report.notes]
    return "\n".join(lines)


def _print_section(section: Section, console: Console, printed: set[str]) -> None:
    """Print one section, without the notes in ``printed``, to which its own are added."""
    console.print(Paragraph("", section.title, "bold"))
    console.print()
    console.print(Paragraph("", f"{HEADING}:"))
    for sentence in section.says:
        console.print(Paragraph("• ", sentence))
    for index, table in enumerate(section.tables):
        console.print()
        console.print(table)
        if section.plot is not None and index == 0:
            console.print()
            section.plot.show(console)
    new = [note for note in section.notes if note not in printed]
    printed.update(new)
    if new:
        console.print()
    for note in new:
        console.print(Paragraph("  ", note))


# One model's formats, or one format's models


def _comparison_section(comparison: Comparison, flips: int | None) -> Section:
    tables = [score_table(comparison), pair_table(comparison)]
    notes = [*pair_notes(comparison), *comparison_notes(comparison)]
    if flips is not None:
        notes += _flip_notes(comparison, flips)
    return Section(
        title(comparison), sentences(comparison), tables, notes, scores_picture(comparison)
    )


def score_table(comparison: Comparison) -> FittingTable:
    """A line for each row: score, interval, share read, how often it is best, what it cost."""
    metrics = {row.metric for row in comparison.rows}
    has_metrics = len(metrics) > 1
    columns = (
        Column("name", comparison.kind.capitalize(), wraps=True, stays=True),
        Column("metric", "Metric", wraps=True),
        Column("score", "Score" if has_metrics else visible(metrics.pop()), is_number=True),
        Column("interval", "95 % interval", is_number=True, stays=True),
        Column("read", "Read", is_number=True),
        Column("score_read", "If read", is_number=True),
        Column("bounds", "Bounds", is_number=True),
        Column("best", "Best", is_number=True),
        Column("requests", "Requests", is_number=True),
        Column("tokens", "Tokens", is_number=True),
        Column("time", "Time", is_number=True),
        Column("cost", "Cost", is_number=True),
    )
    lines = [_score_line(comparison, row, has_metrics=has_metrics) for row in comparison.rows]
    return FittingTable(columns, [lines], ("requests", "tokens", "time", "cost", "metric"))


def _score_line(comparison: Comparison, row: ComparisonRow, *, has_metrics: bool) -> Cells:
    chances = comparison.chances(row.label)
    usage = row.usage or {}
    tokens_in, tokens_out = int(usage.get("tokens_in", 0)), int(usage.get("tokens_out", 0))
    return Cells(
        name=visible(row.label),
        metric=visible(row.metric) if has_metrics else "",
        score=number(row.score.value),
        interval=interval(row.score),
        read="" if row.num_read is None else percent(row.num_read, row.score.n),
        score_read=_read_score(row),
        bounds="" if row.bounds is None or not row.num_unread else bounds(*row.bounds),
        best="" if chances is None or len(comparison.rows) < 3 else chance(chances[0]),
        requests=count(int(usage["requests"])) if usage.get("requests") else "",
        tokens=tokens(tokens_in, tokens_out),
        time=duration(float(usage["wall_s"]))
        if "wall_s" in usage and (usage.get("requests") or tokens_in)
        else "",
        cost=f"{usage['cost']:.4f}" if "cost" in usage else "",
    )


def _read_score(row: ComparisonRow) -> str:
    return "" if row.num_read is None else value_of(row.score_read)


def pair_table(comparison: Comparison) -> FittingTable:
    """A line for each two rows: difference, interval, test, flips, and what to make of it."""
    shows_probability = comparison.num_items < SMALL_N
    columns = (
        Column("name", "Better − worse", wraps=True, stays=True),
        Column("difference", "Difference", is_number=True, stays=True),
        Column("p", "p", is_number=True, stays=True),
        Column("probability", "Better", is_number=True),
        Column("flips", "Flips", is_number=True, stays=True),
        Column("both_read", "If both read", is_number=True),
        Column("detects", "Detects", is_number=True),
        Column("verdict", "Verdict", wraps=True, stays=True),
    )
    lines = [
        _pair_line(comparison, pair, shows_probability=shows_probability)
        for pair in comparison.pairs
    ]
    return FittingTable(columns, [lines], ("detects", "probability"), by_column=True)


def _pair_line(comparison: Comparison, pair: Pair, *, shows_probability: bool) -> Cells:
    result = pair.result
    detectable = result.smallest_detectable
    known = pair.probability if shows_probability else None
    return Cells(
        name=f"{visible(pair.first)} − {visible(pair.second)}",
        difference=with_interval(result.difference, digits(comparison)),
        p=p_value(pair.p_adjusted),
        probability="" if known is None else chance(min(known, _NEARLY_SURE)),
        flips=f"{pair.counts[0]}–{pair.counts[1]}",
        both_read=_both_read(comparison, pair),
        detects="" if detectable is None else size(comparison, detectable),
        verdict=pair.verdict,
    )


_NEARLY_SURE = 1 - 1e-9
"""No number of items makes it certain which of two is better, but rounding would show 100 %."""


def _both_read(comparison: Comparison, pair: Pair) -> str:
    if pair.both_read is None or pair.p_both_read is None:
        return ""
    return f"{size(comparison, pair.both_read.difference.value)} ({p_value(pair.p_both_read)})"


def _flip_notes(comparison: Comparison, limit: int) -> Iterator[str]:
    """The docs on which two rows differ."""
    better = "Right" if comparison.is_right_or_wrong else "Better"
    under = comparison.under
    for pair in comparison.pairs:
        if pair.flips is None:
            continue
        first, second = visible(pair.first), visible(pair.second)
        for where, docs in (
            (f"{under} {first}, not {under} {second}", pair.flips.first),
            (f"{under} {second}, not {under} {first}", pair.flips.second),
        ):
            if docs:
                more = f" and {len(docs) - limit:,} more" if len(docs) > limit else ""
                yield f"{better} {where}: doc {', '.join(map(visible, docs[:limit]))}{more}."


# Plots


SCORES = "scores with 95 % intervals"


def write_plots(report: ComparisonReport, folder: Path) -> list[Path]:
    """Write every plot as SVG and PNG, and return the paths."""
    return save_all(pictures(report), folder)


def pictures(report: ComparisonReport) -> Iterator[tuple[str, Plot]]:
    """Each plot with a name for its file: ``demo_mcq_dummy_scores``."""
    taken: list[str] = []
    for comparison in report.blocks:
        start = unique_name(f"{comparison.task}_{comparison.within}", taken)
        taken.append(start)
        labels = [row.label for row in comparison.rows]
        yield f"{start}_scores", scores_picture(comparison, _titled(comparison, SCORES))
        heading = _titled(comparison, "flips")
        yield (
            f"{start}_flips",
            flips_plot(labels, comparison.flip_counts, title=heading, sides=_sides(comparison)),
        )
        if comparison.spread is not None:
            yield (
                f"{start}_spread",
                spread_plot(comparison.spread, labels, title=_titled(comparison, "spread")),
            )


def show_scores(report: ComparisonReport, console: Console) -> None:
    """Print the plot of each comparison's scores as text."""
    for comparison in report.blocks:
        console.print()
        scores_picture(comparison, _titled(comparison, SCORES)).show(console)


def scores_picture(comparison: Comparison, heading: str = "") -> ScoresPlot:
    """The scores of a comparison with their intervals."""
    return scores_plot([(row.label, row.score) for row in comparison.rows], title=heading)


def _sides(comparison: Comparison) -> tuple[str, str]:
    """The labels of the rows and of the columns of the flip matrix."""
    good, bad = ("right", "wrong") if comparison.is_right_or_wrong else ("better", "worse")
    by = f"{comparison.under} this {comparison.kind}"
    return f"{good} {by} …", f"… and {bad} {by.split(maxsplit=1)[0]} this one"


def _titled(comparison: Comparison, shown: str) -> str:
    return f"{title(comparison)}: {shown}"


# A ranking of models under each format


def _ranking_section(ranking: Ranking) -> Section:
    return Section(
        ranking_title(ranking),
        ranking_sentences(ranking),
        [ranking_table(ranking)],
        list(ranking_notes(ranking)),
    )


ALIKE = 0.1
"""Rankings count as alike if they agree across formats almost as well as on two halves of the items."""
_TIE = 1e-12


def ranking_title(ranking: Ranking) -> str:
    """``demo_mcq: do 4 formats rank 3 models alike?``."""
    return (
        f"{visible(ranking.task)}: do {len(ranking.formats)} formats rank {len(ranking.models)} models "
        "alike?"
    )


def ranking_sentences(ranking: Ranking) -> list[str]:
    """What the rankings say, in plain words."""
    lines = (_order(ranking), _halves(ranking), _typical(ranking))
    return [sentence for sentence in lines if sentence]


def ranking_table(ranking: Ranking) -> FittingTable:
    """A line for each format: the score and rank of each model, and how it agrees with the others."""
    columns = (
        Column("name", "Format", wraps=True, stays=True),
        *(
            Column(f"model{index}", visible(model), is_number=True, wraps=True, stays=True)
            for index, model in enumerate(ranking.models)
        ),
        Column("tau", "Agrees with the others", is_number=True),
    )
    lines = [_line(ranking, row) for row in range(len(ranking.formats))]
    return FittingTable(columns, [lines])


def ranking_notes(ranking: Ranking) -> Iterator[str]:
    """What the columns mean, and the measures over all formats."""
    stability = ranking.stability
    yield (
        "In brackets: the model's rank under that format. Agrees with the others: Kendall's tau-b with "
        "the mean over the other formats, 1 for the same order, −1 for the reverse."
    )
    measured = {
        "Kendall's W": stability.w,
        "mean tau-b": stability.tau,
        "pairs of models that change places": stability.flip_rate,
    }
    parts = [
        f"{name} {with_interval(measure.estimate, 2)}"
        for name, measure in measured.items()
        if measure.estimate is not None
    ]
    if parts:
        yield (
            f"Over all formats: {'; '.join(parts)}. 95 % intervals, for what endless items of this kind "
            "would show: noise alone makes models change places."
        )


def _line(ranking: Ranking, row: int) -> Cells:
    scores = [of_model[row] for of_model in ranking.scores]
    tau = ranking.stability.tau_by_format[row].estimate
    cells = {
        f"model{k}": f"{number(score)} ({_rank(scores, score, is_up=ranking.higher_is_better)})"
        for k, score in enumerate(scores)
    }
    return Cells(name=visible(ranking.formats[row]), tau=with_interval(tau, 2), **cells)


def _rank(scores: Sequence[float], score: float, *, is_up: bool) -> int:
    """1 for the best; models that tie share the better rank."""
    return 1 + sum(other > score + _TIE if is_up else other < score - _TIE for other in scores)


def _order(ranking: Ranking) -> str:
    stability = ranking.stability
    share = stability.flip_rate.value
    if share is None:
        return ""
    if share == 0:
        return "The order of the models is the same under every format, ties apart."
    text = (
        f"The order differs between formats: from one format to another, two models change places in "
        f"{chance(share)} of cases"
    )
    reversal = stability.reversal.value
    if reversal:
        text += (
            f"; a model that leads by {number(stability.margin, 2)} or more under one format trails by "
            f"as much under another in {chance(reversal)}"
        )
    return f"{text}."


def _halves(ranking: Ranking) -> str:
    """Whether noise alone would change the order as much."""
    halves = ranking.stability.halves
    if halves is None or halves.same_tau is None or halves.across_tau is None:
        return ""
    if ranking.stability.flip_rate.value == 0 and halves.same_tau == 1:
        return ""
    text = (
        f"On two halves of the {ranking.num_items:,} items, the orders agree by "
        f"{number(halves.same_tau, 2)} under the same format, and by {number(halves.across_tau, 2)} "
        "under different ones (1: the same order, 0: no relation, −1: the reverse)"
    )
    if ranking.stability.flip_rate.value == 0:
        return f"{text}: luck in the items can change the order all the same."
    if halves.across_tau >= halves.same_tau - ALIKE:
        return f"{text}: luck in the items changes the order about as much as the format does."
    return f"{text}: the format changes the order more than luck in the items does."


def _typical(ranking: Ranking) -> str:
    typical = ranking.stability.most_typical
    if typical is None or ranking.stability.flip_rate.value == 0 or len(ranking.formats) < 3:
        return ""  # of two formats, each agrees with the other equally well
    tau = ranking.stability.tau_by_format[typical].value
    agrees = "" if tau is None else f" (agreement {number(tau, 2)})"
    name = visible(ranking.formats[typical])
    return f"{name} ranks the models most like the other formats do{agrees}."
