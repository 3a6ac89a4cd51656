"""Published scores are reproduced from stored replies, where these are present."""

from __future__ import annotations

import pytest

from benchmarks.published import DATA, bbh, gsm8k, ifeval

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(),
    reason="needs the stored replies of ../shared/data/real, which are not part of the project",
)


def test_big_bench_hard() -> None:
    scores = bbh(DATA)
    assert len(scores) == 54
    assert not [score.name for score in scores if not score.is_equal]


def test_ifeval() -> None:
    """The paper's figures are ours if one (strict) and none (loose) of two drawn letters is frequent."""
    scores = ifeval(DATA)
    assert all(score.is_equal and score.by_chance == 2 for score in scores)
    assert [round(score.published * score.n) - round(score.ours * score.n) for score in scores] == [
        *(-1, -1, -2, -2)
    ]


def test_gsm8k() -> None:
    for score in gsm8k(DATA):
        assert len(score.differing) <= 0.005 * score.n, score.differing
