"""A comparison as it is printed and drawn: tables, findings, details (terminal or Markdown), plots.

In: a ``ComparisonReport``. Out: ``Section``s for Rich or Markdown, and ``Plot``s. A ranking of models
has its own table, findings and details.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.lab.compare.details import (
    SMALL_N,
    cautions,
    columns,
    facts,
    measures,
)
from lm_eval.lab.compare.findings import finding_sections, title
from lm_eval.lab.compare.values import Comparison, ComparisonReport, ComparisonRow, Pair, Ranking
from lm_eval.lab.report import ReportLine, Section
from lm_eval.lab.show.phrases import chance, digits
from lm_eval.lab.show.plots import FlipsPlot, Plot, SpreadPlot, save_all
from lm_eval.lab.show.score_plot import ScoresPlot, scores_plot
from lm_eval.stats.estimates import Estimate
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.files import unique_name
from lm_eval.support.numbers import (
    count,
    counted,
    duration,
    interval,
    number,
    p_equals,
    p_value,
    percent,
    signed,
    tokens,
)
from lm_eval.support.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console


def sections(
    report: ComparisonReport, *, flips: int | None = None, explains: bool = True
) -> list[Section]:
    """The report, part by part; ``flips`` is how many flipped items are listed at most.

    ``explains``: with measures over all rows, and at the end what the columns mean.
    """
    parts: list[Section] = []
    meanings: list[ReportLine] = []
    for block in report.blocks:
        parts += _comparison_sections(block, flips, explains)
        meanings += columns(block) if explains else []
    for ranking in report.rankings:
        parts += _ranking_sections(ranking)
    return [*parts, Section(lines=list(dict.fromkeys(meanings)), notes=report.notes)]


def _comparison_sections(
    comparison: Comparison, flips: int | None, explains: bool
) -> list[Section]:
    details = measures(comparison) if explains else []
    details += cautions(comparison)
    details += [] if flips is None else _flip_lines(comparison, flips)
    return [
        Section(title(comparison), score_table(comparison)),
        *finding_sections(comparison, facts(comparison)),
        Section(table=pair_table(comparison), lines=details),
    ]


def score_table(comparison: Comparison) -> FittingTable:
    """A line for each row: score, interval, share read, how often it is best, what it cost."""
    metrics = {row.metric for row in comparison.rows}
    has_metrics = len(metrics) > 1
    metric = "score" if has_metrics else visible(metrics.pop())
    columns = (
        Column("name", comparison.kind.capitalize(), wraps=True, stays=True),
        Column("metric", "Metric", wraps=True),
        Column("score", "Score" if has_metrics else metric, is_number=True),
        Column("interval", "95 % CI", stays=True),
        Column("read", "Parsed", is_number=True),
        Column("score_read", f"{metric} if parsed", is_number=True),
        Column("at_most", "At most", is_number=True),
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
        at_most="" if row.bounds is None or not row.num_unread else number(row.bounds[1]),
        best="" if chances is None or len(comparison.rows) < 3 else chance(chances[0]),
        requests=count(int(usage["requests"])) if usage.get("requests") else "",
        tokens=tokens(tokens_in, tokens_out),
        time=duration(float(usage["wall_s"]))
        if "wall_s" in usage and (usage.get("requests") or tokens_in)
        else "",
        cost=f"{usage['cost']:.4f}" if "cost" in usage else "",
    )


def _read_score(row: ComparisonRow) -> str:
    if row.num_read is None or not row.num_unread:
        return ""
    return number(None if row.score_read is None else row.score_read.value)


def pair_table(comparison: Comparison) -> FittingTable:
    """A line for each two rows: difference, interval, test, flips, and what to make of it."""
    shows_probability = comparison.num_items < SMALL_N
    columns = (
        Column("name", "Pair", wraps=True, stays=True),
        Column("difference", "Difference", stays=True),
        Column("p", "p", is_number=True, stays=True),
        Column("probability", "Better", is_number=True),
        Column("flips", "Flips", is_number=True, stays=True),
        Column("both_read", "Both parsed", is_number=True),
        Column("detects", "Detects", is_number=True),
        Column("verdict", "Verdict", wraps=True, stays=True),
    )
    lines = [
        _pair_line(comparison, pair, shows_probability=shows_probability)
        for pair in comparison.pairs
    ]
    return FittingTable(columns, [lines], ("detects", "probability"))


def _pair_line(comparison: Comparison, pair: Pair, *, shows_probability: bool) -> Cells:
    result, places = pair.result, digits(comparison)
    difference = result.difference
    detectable = result.smallest_detectable
    known = pair.probability if shows_probability else None
    return Cells(
        name=f"{visible(pair.first)} > {visible(pair.second)}",
        difference=f"{signed(difference.value, places)} {interval(difference)}".rstrip(),
        p=p_value(pair.p_adjusted),
        probability="" if known is None else chance(min(known, _NEARLY_SURE)),
        flips=f"{pair.counts[0]}–{pair.counts[1]}",
        both_read=_both_read(comparison, pair),
        detects="" if detectable is None else number(detectable, places),
        verdict=pair.verdict,
    )


_NEARLY_SURE = 1 - 1e-9
"""No number of items makes it certain which of two is better, but rounding would show 100 %."""


def _both_read(comparison: Comparison, pair: Pair) -> str:
    if pair.both_read is None or pair.p_both_read is None:
        return ""
    apart = signed(pair.both_read.difference.value, digits(comparison))
    return f"{apart} ({p_equals(pair.p_both_read)})"


def _flip_lines(comparison: Comparison, limit: int) -> Iterator[ReportLine]:
    """The docs on which two rows differ."""
    better = "right" if comparison.is_right_or_wrong else "better"
    under = comparison.under
    label = "Flipped"
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
                yield ReportLine(
                    label, f"{better} {where}: doc {', '.join(map(visible, docs[:limit]))}{more}"
                )
                label = ""


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
            FlipsPlot(labels, comparison.flip_counts, title=heading, sides=_sides(comparison)),
        )
        if comparison.spread is not None:
            yield (
                f"{start}_spread",
                SpreadPlot(comparison.spread, labels, title=_titled(comparison, "spread")),
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


def _ranking_sections(ranking: Ranking) -> list[Section]:
    said = [ReportLine(None, sentence) for sentence in ranking_sentences(ranking)]
    return [
        Section(ranking_title(ranking), ranking_table(ranking), said),
        Section(lines=list(ranking_details(ranking))),
    ]


ALIKE = 0.1
"""Rankings count as alike if they agree across formats almost as well as on two halves of the items."""
_TIE = 1e-12


def ranking_title(ranking: Ranking) -> str:
    """``demo_mcq · 32 items · ranks of 3 models under 4 formats``."""
    return (
        f"{visible(ranking.task)} · {counted(ranking.num_items, 'item')} · ranks of "
        f"{len(ranking.models)} models under {len(ranking.formats)} formats"
    )


def ranking_sentences(ranking: Ranking) -> list[str]:
    """What the rankings say, a line for each finding."""
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
        Column("tau", "Agreement"),
    )
    lines = [_line(ranking, row) for row in range(len(ranking.formats))]
    return FittingTable(columns, [lines])


def ranking_details(ranking: Ranking) -> Iterator[ReportLine]:
    """What the columns mean, and the measures over all formats."""
    stability = ranking.stability
    yield ReportLine("(1), (2), …", "rank of the model under that format")
    yield ReportLine(
        "Agreement", "Kendall's tau-b with the mean of the other formats; 1 same order, −1 reverse"
    )
    measured = {
        "Kendall's W": stability.w,
        "mean tau-b": stability.tau,
        "pairs that swap": stability.flip_rate,
    }
    parts = [
        f"{name} {_with_ends(measure.estimate)}"
        for name, measure in measured.items()
        if measure.estimate is not None
    ]
    if parts:
        yield ReportLine(
            "All formats", f"{'; '.join(parts)} (95 % CI; noise alone makes models swap)"
        )


def _with_ends(estimate: Estimate | None) -> str:
    if estimate is None:
        return number(None)
    return f"{number(estimate.value, 2)} {interval(estimate)}".rstrip()


def _line(ranking: Ranking, row: int) -> Cells:
    scores = [of_model[row] for of_model in ranking.scores]
    tau = ranking.stability.tau_by_format[row].estimate
    cells = {
        f"model{k}": f"{number(score)} ({_rank(scores, score, is_up=ranking.higher_is_better)})"
        for k, score in enumerate(scores)
    }
    return Cells(name=visible(ranking.formats[row]), tau=_with_ends(tau), **cells)


def _rank(scores: Sequence[float], score: float, *, is_up: bool) -> int:
    """1 for the best; models that tie share the better rank."""
    return 1 + sum(other > score + _TIE if is_up else other < score - _TIE for other in scores)


def _order(ranking: Ranking) -> str:
    stability = ranking.stability
    share = stability.flip_rate.value
    if share is None:
        return ""
    if share == 0:
        return "Every format ranks the models alike, ties apart."
    text = f"The order depends on the format: two models swap in {chance(share)} of cases"
    reversal = stability.reversal.value
    if reversal:
        margin = number(stability.margin, 2)
        text += f"; a lead of {margin} turns into a lag of {margin} in {chance(reversal)}"
    return f"{text}."


def _halves(ranking: Ranking) -> str:
    """Whether noise alone would change the order as much."""
    halves = ranking.stability.halves
    if halves is None or halves.same_tau is None or halves.across_tau is None:
        return ""
    if ranking.stability.flip_rate.value == 0 and halves.same_tau == 1:
        return ""
    if ranking.stability.flip_rate.value == 0:
        effect = "Chance in the items can still change the order"
    elif halves.across_tau >= halves.same_tau - ALIKE:
        effect = "Chance in the items changes the order about as much as the format does"
    else:
        effect = "The format changes the order more than chance in the items does"
    return (
        f"{effect}: between halves of the items, orders agree by {number(halves.same_tau, 2)} under the "
        f"same format, {number(halves.across_tau, 2)} under different ones."
    )


def _typical(ranking: Ranking) -> str:
    typical = ranking.stability.most_typical
    if typical is None or ranking.stability.flip_rate.value == 0 or len(ranking.formats) < 3:
        return ""  # of two formats, each agrees with the other equally well
    tau = ranking.stability.tau_by_format[typical].value
    agrees = "" if tau is None else f" (agreement {number(tau, 2)})"
    name = visible(ranking.formats[typical])
    return f"{name} ranks the models most like the other formats do{agrees}."
