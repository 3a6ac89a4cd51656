"""A full sweep is a comparison of every format with the base."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lm_eval.lab.compare.statistics import Options, compare
from lm_eval.lab.stored.measurement import Measurement
from lm_eval.lab.sweep.sweep import FullSweep, full_sweep, slot_values
from lm_eval.stats.paired import paired
from tests.support.comparison_cases import clear, row


def swept(formats: list[Measurement]) -> FullSweep:
    return full_sweep(formats, [{"casing": one.format} for one in formats])


def test_its_numbers_are_those_of_a_comparison_with_the_base() -> None:
    formats = clear()
    (block,) = compare(formats, Options(default="mcqa", method="bh")).blocks
    result = swept(formats)
    assert result.comparison == block
    assert result.scores == tuple(one.score for one in block.rows)
    assert (result.best, result.worst) == (block.spread.best, block.spread.worst)
    assert any(pair.is_significant for pair in block.pairs)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_differences_are_the_format_minus_the_base(higher_is_better: bool) -> None:
    formats = [replace(one, higher_is_better=higher_is_better) for one in clear()]
    result = swept(formats)
    assert result.against_base[0] is None
    assert result.adjusted[0] is None
    for one, found in zip(formats[1:], result.against_base[1:], strict=True):
        expected = paired(one.scores.tolist(), formats[0].scores.tolist())
        assert (found.wins, found.losses, found.p) == (expected.wins, expected.losses, expected.p)
        assert found.difference.value == expected.difference.value
        assert found.difference.low == pytest.approx(expected.difference.low)
    lowest, highest = (
        formats.index(extreme(formats, key=lambda one: one.scores.mean())) for extreme in (min, max)
    )
    assert (result.worst, result.best) == (
        (lowest, highest) if higher_is_better else (highest, lowest)
    )
    assert result.p_best[result.best] == max(result.p_best)


def test_items_of_one_cluster_have_no_components() -> None:
    """Where missing answers leave one cluster, nothing says what other clusters would score."""
    formats = [
        row(name, scores, clusters=("a",) * 4)
        for name, scores in (("base", [1, 0, 1, 0]), ("other", [1, 1, 1, 0]))
    ]
    assert swept(formats).to_dict()["components"] is None


def test_slots_that_a_format_lacks_are_empty() -> None:
    assert slot_values([{"a": "x"}, {"b": "y"}]) == {"a": ["x", ""], "b": ["", "y"]}
