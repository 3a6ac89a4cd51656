"""Several models under several formats, in words and as a table: do the formats rank them alike?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lm_eval.lab.compare.values import Ranking
from lm_eval.lab.show.phrases import chance
from lm_eval.reports.table import number, with_interval
from lm_eval.text.columns import Cells, Column, FittingTable
from lm_eval.text.terminal import visible

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
    found = (_order(ranking), _halves(ranking), _typical(ranking))
    return [sentence for sentence in found if sentence]


def ranking_table(ranking: Ranking) -> FittingTable:
    """A line for each format: the score and rank of each model, and how it agrees with the others."""
    columns = (
        Column("name", "Format", wraps=True, stays=True),
        *(
            Column(f"model{place}", visible(model), is_number=True, wraps=True, stays=True)
            for place, model in enumerate(ranking.models)
        ),
        Column("tau", "Agrees with the others", is_number=True),
    )
    lines = [_line(ranking, place) for place in range(len(ranking.formats))]
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
        f"{name} {with_interval(found.estimate, 2)}"
        for name, found in measured.items()
        if found.estimate is not None
    ]
    if parts:
        yield (
            f"Over all formats: {'; '.join(parts)}. 95 % intervals, for what endless items of this kind "
            "would show: noise alone makes models change places."
        )


def _line(ranking: Ranking, place: int) -> Cells:
    scores = [row[place] for row in ranking.scores]
    tau = ranking.stability.tau_by_format[place].estimate
    cells = {
        f"model{k}": f"{number(score)} ({_rank(scores, score, is_up=ranking.higher_is_better)})"
        for k, score in enumerate(scores)
    }
    return Cells(name=visible(ranking.formats[place]), tau=with_interval(tau, 2), **cells)


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
    place = ranking.stability.most_typical
    if place is None or ranking.stability.flip_rate.value == 0 or len(ranking.formats) < 3:
        return ""  # two formats agree with each other as much as the other way round
    tau = ranking.stability.tau_by_format[place].value
    agrees = "" if tau is None else f" (agreement {number(tau, 2)})"
    name = visible(ranking.formats[place])
    return f"{name} ranks the models most like the other formats do{agrees}."
