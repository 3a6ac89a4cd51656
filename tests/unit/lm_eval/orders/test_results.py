"""What the order of choices does, as people see it, compared with plain text files.

To regenerate the files: ``REGENERATE=1 pytest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lm_eval.orders.results import ChoiceOrder, print_orders
from lm_eval.scoring.results import TaskResult
from lm_eval.stats.estimates import mean_estimate, share_estimate
from tests.support.consoles import printed_by
from tests.support.golden import assert_golden
from tests.support.paths import GOLDEN
from tests.support.report_cases import result

TABLES = GOLDEN / "tables"

SCORED = ChoiceOrder(
    mode="cyclic",
    permuted=57,
    asked_once=0,
    left_in_place={"a choice names other choices": 3},
    asked=57 * 4 + 3,
    is_vote=False,
    labels=("A", "B", "C", "D"),
    recall=(0.8, 0.5, 0.45, None),
    recall_debiased=(0.6, 0.6, 0.55, None),
    picked=(0.5, 0.2, 0.2, 0.1),
    picked_over_orders=(0.45, 0.25, 0.2, 0.1),
    moved=(*(share_estimate(right, 57) for right in (46, 30, 25)), None),
    changed=share_estimate(23, 57),
    priors={2: (0.7, 0.3), 4: (0.5, 0.2, 0.2, 0.1)},
    ties=1,
    unanswered=0,
)
VOTED = ChoiceOrder(
    mode="full",
    permuted=60,
    asked_once=0,
    left_in_place={},
    asked=360,
    is_vote=True,
    labels=("1", "[bold]2"),
    recall=(0.5, 0.6),
    recall_debiased=(0.5, 0.7),
    picked=(0.4, 0.6),
    picked_over_orders=(0.45, 0.55),
    moved=tuple(mean_estimate([0.0, 0.5, 1.0] * 20) for _ in range(2)),
    changed=share_estimate(60, 60),
    priors={},
    ties=12,
    unanswered=4,
)
HIDDEN = ChoiceOrder(
    mode="cyclic",
    permuted=0,
    asked_once=0,
    left_in_place={"the prompt does not show the choices": 60},
    asked=60,
    is_vote=False,
    labels=(),
    recall=(),
    recall_debiased=(),
    picked=(),
    picked_over_orders=(),
    moved=(),
    changed=None,
    priors={},
    ties=0,
    unanswered=0,
)
SCORES = {
    "acc": share_estimate(31, 60),
    "acc_debiased": share_estimate(36, 60),
    "acc_over_orders": mean_estimate([0.25, 0.5, 1.0] * 20),
}
RESULTS = [
    result("demo_mcq@mcqa", metrics=SCORES, choice_order=SCORED),
    result("demo_mcq@generate", metrics=SCORES, choice_order=VOTED),
    result("demo_mcq@cloze", choice_order=HIDDEN),
    result("plain"),
]


def printed(results: list[TaskResult], width: int = 100) -> str:
    return printed_by(lambda console: print_orders(results, console), width)


def golden_files() -> Iterator[tuple[str, str]]:
    for width in (100, 80):
        yield f"orders_{width}.txt", printed(RESULTS, width)


@pytest.mark.parametrize(("name", "text"), list(golden_files()))
def test_golden(name: str, text: str) -> None:
    assert_golden(TABLES / name, text)


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_too_long_and_nothing_is_lost(width: int) -> None:
    text = printed(RESULTS, width)
    assert max(map(len, text.splitlines())) <= width
    for part in (".807", "[bold]2", "23 of 57", "15.5", "12 docs"):
        assert part in " ".join(text.split())


def test_nothing_is_printed_without_orders() -> None:
    assert printed([result()]) == ""


def test_notes_say_how_docs_were_asked() -> None:
    assert SCORED.notes() == [
        "57 docs asked in several orders of their choices (cyclic); 3 in their own order: a choice "
        "names other choices"
    ]
    assert HIDDEN.notes() == [
        "--permute cyclic changed no order; 60 in their own order: the prompt does not show the choices"
    ]
    one = replace(SCORED, permuted=1, left_in_place={"a choice names other choices": 1})
    assert one.notes() == [
        "1 doc asked in several orders of their choices (cyclic); 1 in its own order: a choice names "
        "other choices"
    ]


def test_where_no_order_was_changed_there_is_no_table_of_positions() -> None:
    some = replace(HIDDEN, labels=("1", "2"), recall=(0.5, None), recall_debiased=(0.5, None))
    text = printed([result("t@cloze", choice_order=some)])
    assert text.startswith("  t@cloze: nothing was asked in another order")
