"""What commands say about the differences of a comparison; ``test_tables`` has whole screens."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from lm_eval.lab.compare.findings import findings_report
from lm_eval.lab.compare.statistics import compare
from lm_eval.lab.report import print_report
from lm_eval.lab.stored.measurement import Measurement
from lm_eval.lab.words import sentences
from lm_eval.support.numbers import number
from tests.support.comparison_cases import CASES, FAST, comparison, right, row
from tests.support.consoles import printed_by


@pytest.mark.parametrize("case", CASES)
def test_findings_fit_on_a_screen(case: str) -> None:
    found = findings_report(comparison(case).blocks)
    for width, lines in ((100, 14), (60, None)):
        text = printed_by(partial(print_report, found), width).splitlines()
        assert lines is None or len(text) <= lines
        assert not [line for line in text if len(line) > width]


# What the stored screens do not have


def said(rows: list[Measurement]) -> str:
    return " ".join(sentences(compare(rows, FAST).blocks[0]))


def test_answers_that_were_parsed_may_say_the_reverse() -> None:
    """b answers better where it is parsed, but that is only a third of the items."""
    read = np.array([k % 3 == 0 for k in range(90)])
    a, b = row("a", [int(k % 3 != 0) for k in range(90)]), row("b", read.astype(int), read=read)
    assert (
        "Confounded: b trails a by .33 (p = .002), but 67 % of its replies contain no answer. Where "
        "both were parsed, b > a remains: +1.00, p < .001."
    ) in said([a, b])


def test_a_format_that_was_never_parsed() -> None:
    rows = [row("mcqa", [1] * 20), row("cot", [0] * 20, read=[False] * 20)]
    text = said(rows)
    assert "cot trails mcqa by 1.00 (p < .001), but all of its replies contain no answer." in text
    assert "Where both" not in text


def test_a_real_difference_has_what_remains_of_it_beside_it() -> None:
    read = [k % 4 > 0 for k in range(200)]
    rows = [row("a", [1] * 200), row("b", [int(k % 8 == 1) for k in range(200)], read=read)]
    assert "Real: a > b +.88 [.82, .91] p < .001 (+.83 on the 150 parsed under b)" in said(rows)


def test_where_every_difference_may_be_parsing_the_format_may_matter_only_for_that() -> None:
    half = [k % 2 == 0 for k in range(80)]
    rows = [row("a", [1] * 80), *(row(name, half, read=half) for name in "bc")]
    assert "It may matter only for how many replies contain an answer." in said(rows)


def test_what_can_be_found_is_said_of_the_pair_that_varies_most() -> None:
    """The middle one of three pairs would hide the pair that needs most items."""
    alike = right(200, 0.5, 1)
    other = [1 - score if place % 5 == 0 else score for place, score in enumerate(alike)]
    near = [1 - score if place in (3, 4, 6, 7) else score for place, score in enumerate(alike)]
    rows = [row("a", alike), row("b", near), row("c", other)]
    (block,) = compare(rows, FAST).blocks
    power = block.power(block.pairs)
    assert power is not None
    sizes = [pair.result.smallest_detectable or 0.0 for pair in block.pairs]
    assert power.detects == max(sizes) > np.median(sizes)
    assert f"200 items detect ≥ {number(power.detects, 2)}" in said(rows)


SHOWN = {
    "shown under mcqa and generate, hidden under cot": "mcqa:shown generate:shown cot:hidden",
    "shown under mcqa, scored unseen under cloze": "mcqa:shown cloze:scored",
    "shown under a, b, c and 2 more, hidden under cot": "a:shown b:shown c:shown d:shown e:shown "
    "cot:hidden",
    "": "a:shown b:shown",
}


@pytest.mark.parametrize(("text", "formats"), SHOWN.items())
def test_which_formats_show_the_choices(text: str, formats: str) -> None:
    kinds = [one.split(":") for one in formats.split()]
    rows = [row(name, right(60, 0.5, k), choices=kind) for k, (name, kind) in enumerate(kinds)]
    found = [one for one in sentences(compare(rows, FAST).blocks[0]) if one.startswith("Choices")]
    assert found == ([f"Choices: {text}."] if text else [])
