"""The result screen of ``lm-eval run`` against stored screens: what a reader has after ten seconds.

Regenerate after an intended change: ``REGENERATE=1 pytest``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import Workplace
from tests.support.golden import assert_golden
from tests.support.paths import GOLDEN

SCREENS = GOLDEN / "screens"
FOUR = "demo_mcq@cloze,demo_mcq@mcqa,demo_mcq@generate,demo_mcq@cot"


def four_formats(place: Workplace) -> tuple[str, ...]:
    return ("--tasks", FOUR)


def thirteen_rows(place: Workplace) -> tuple[str, ...]:
    labels = ["letters", "numbers", "choices"]
    formats = {
        f"f{number:02}": {
            "type": "generate" if number % 4 == 3 else "mcqa" if number % 2 else "cloze",
            "question_prefix": f"Question {number}: ",
            **({"choice_labels": labels[number % 2]} if number % 2 else {}),
        }
        for number in range(13)
    }
    place.rows(count=80)
    place.task(formats=formats)
    return ("--tasks", "t.yaml@*")


def two_tasks(place: Workplace) -> tuple[str, ...]:
    place.rows(count=60)
    place.task()
    place.task("u.yaml", task="u", test_split="test")
    return ("--tasks", "t.yaml@mcqa,t.yaml@cloze,u.yaml@mcqa,u.yaml@cloze,u.yaml@generate")


def group(place: Workplace) -> tuple[str, ...]:
    place.task()
    place.task("u.yaml", task="u")
    place.write(
        "g.yaml",
        json.dumps(
            {
                "group": "both",
                "task": ["t", "u"],
                "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
            }
        ),
    )
    return ("--tasks", "both", "--include_path", str(place.folder))


def plain_task(place: Workplace) -> tuple[str, ...]:
    place.task(formats=..., output_type="multiple_choice")
    return ("--tasks", "t.yaml")


def full(place: Workplace) -> tuple[str, ...]:
    """Nothing is left out: all remarks, examples, parts and metrics, and what each task cost."""
    return (*parts(place), "--table", "full")


def first_docs(place: Workplace) -> tuple[str, ...]:
    return ("--tasks", "demo_mcq@mcqa", "--limit", "10")


def one_label(place: Workplace) -> tuple[str, ...]:
    place.rows(count=40)
    place.task()
    return ("--tasks", "t.yaml@generate", "--model_args", "reply=The best answer is C.")


def perplexity(place: Workplace) -> tuple[str, ...]:
    """Numbers on different scales, without intervals: no picture."""
    lines = [json.dumps({"text": f"one two three {number}"}) for number in range(6)]
    place.task(
        dataset_kwargs=place.data("texts.jsonl", "\n".join(lines)),
        output_type="loglikelihood_rolling",
        **dict.fromkeys(("formats", "doc_to_choice"), ...),
        doc_to_text="",
        doc_to_target="{{text}}",
        metric_list=[{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}],
    )
    return ("--tasks", "t.yaml")


def parts(place: Workplace) -> tuple[str, ...]:
    """Scores of parts come after what a reader should know of the scores."""
    place.rows(count=40)
    for number in range(3):
        place.task(f"{number}.yaml", task=f"t{number}", score_by=["answer"])
    names = [f"{number}.yaml@{name}" for number in range(3) for name in ("mcqa", "generate")]
    return ("--tasks", ",".join(names))


CASES: dict[str, tuple[Callable[[Workplace], tuple[str, ...]], int]] = {
    "four_formats": (four_formats, 100),
    "four_formats_60": (four_formats, 60),
    "four_formats_40": (four_formats, 40),
    "thirteen_rows": (thirteen_rows, 100),
    "two_tasks": (two_tasks, 100),
    "group": (group, 100),
    "plain_task": (plain_task, 100),
    "first_docs": (first_docs, 100),
    "one_label": (one_label, 100),
    "perplexity": (perplexity, 100),
    "parts": (parts, 100),
    "full": (full, 100),
}


def screen(case: str, folder: Path) -> str:
    """The screen without what differs from run to run: times and folders."""
    arguments, width = CASES[case]
    place = Workplace(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.chdir(folder)  # paths as short as people's: what fits on a line depends on them
        chosen = ("--model", "dummy", "--output_path", "OUT", *arguments(place))
        done = place.cli("run", *chosen).ok()
    text = re.sub(r"(?<= ·[ \n])[\d.]+ s$", "TIME", done.out, count=1, flags=re.MULTILINE)
    text = re.sub(r"results_[\dT.-]+\.json", "results_TIME.json", text)
    return text


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, tmp_path: Path) -> None:
    assert_golden(SCREENS / f"{case}.txt", screen(case, tmp_path))


def test_no_golden_file_is_left_over() -> None:
    assert {file.stem for file in SCREENS.iterdir()} == set(CASES)


@pytest.mark.parametrize(("case", "most"), [("four_formats", 25), ("thirteen_rows", 40)])
def test_the_screen_is_short(case: str, most: int) -> None:
    lines = (SCREENS / f"{case}.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= most
    assert max(map(len, lines)) <= 100


def test_names_and_replies_are_shown_not_obeyed(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.task(task="t\x1b[31m")
    done = place.run("--tasks", "t.yaml@generate", "--model_args", "reply=\x1b[2J")
    assert "\x1b" not in done.out
    assert "\\x1b[2J" in done.out


def test_every_metric_is_in_the_full_table(tmp_path: Path) -> None:
    done = Workplace(tmp_path).run("--tasks", FOUR, "--table", "full")
    for text in (
        "demo_mcq@cloze acc_norm",
        "acc_bytes",
        "exact_match",
        "The format matters",
        "doc ",
    ):
        assert text in done.out
    assert "--table full" not in done.out
