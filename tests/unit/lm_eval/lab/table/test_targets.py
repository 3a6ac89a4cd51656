"""Tables as text: whatever names hold, they are shown as text in every target."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lm_eval.lab.stored.scores import StoredScore
from lm_eval.lab.table.targets import TARGETS, csv_text, latex, render
from lm_eval.lab.table.values import BaselineTest, ScoreCell, ScoreTable
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.paired import paired

HOSTILE = (
    "=HYPERLINK(1)",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "＝1",
    r"\input{/etc/passwd} & % $ # _ { } ~ ^ \\",
    "a -- b --- c ?` !` ,, << >> ''",
    "<script>alert(1)</script> & \"quoted\" 'too'",
    "| pipe | [link](javascript:alert(1)) `code` *bold*",
    "\x1b[31mred \u202eright to left \u0000",
    "é ñ ž ő ç ß Ø 中文 😀 ﬁ",
)


def score(task: str, value: float = 0.5, **changes: object) -> StoredScore:
    facts: dict[str, object] = {
        "run": "r.json",
        "model": "m",
        "name": f"{task}@mcqa",
        "task": task,
        "format": "mcqa",
        "shots": 0,
        "metric": "acc",
        "filter": "none",
        "estimate": Estimate(value, 0.05, value - 0.1, value + 0.1, 40, "wilson"),
        "is_score": True,
        "higher_is_better": True,
        "share_read": None,
        "missing": 0,
        "version": 1,
        "fingerprint": "abc",
    }
    return StoredScore(**{**facts, **changes})  # type: ignore[arg-type]


def table(names: tuple[str, ...] = HOSTILE) -> ScoreTable:
    columns = [("mcqa",), ("=cot|<b>",)]
    test = BaselineTest(paired([0.0] * 20, [1.0] * 8 + [0.0] * 12), 0.002, 0.002)
    cells = {((name,), columns[0]): ScoreCell(score(name)) for name in names}
    cells |= {((names[0],), columns[1]): ScoreCell(score(names[0], -0.25), test)}
    rows = tuple((name,) for name in names)
    return ScoreTable(("task",), ("format",), rows, tuple(columns), cells, caption=" ".join(names))


def test_markdown_keeps_every_row_on_one_line_with_all_its_cells() -> None:
    lines = render(table(), "md").splitlines()
    rows = lines[: len(HOSTILE) + 2]
    assert all(line.startswith("| ") or line.startswith("| ---") for line in rows[:1])
    for line in rows:
        assert line.replace("\\|", "").count("|") == 4, line
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<script>" not in text
    assert r"−.250\* \[−.35, −.15\]" in text


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_has_no_tag_of_a_name() -> None:
    page = Tags()
    page.feed(render(table(), "html"))
    known = {"table", "caption", "thead", "tbody", "tr", "th", "td", "small", "sup"}
    assert set(page.tags) == known
    assert "<script>alert(1)</script>" in page.text  # as text
    assert page.tags.count("tr") == len(HOSTILE) + 1


def test_csv_has_no_formula_and_numbers_stay_numbers() -> None:
    rows = list(csv.DictReader(io.StringIO(render(table(), "csv"))))
    assert len(rows) == len(HOSTILE) + 1
    for row in rows:
        for name, cell in row.items():
            is_number = name in {"score", "low", "high", "difference", *("difference_low",)}
            if cell and not is_number and name != "difference_high":
                assert cell[0] not in "=+-@\t\r＝", (name, cell)
    negative = next(row for row in rows if row["difference"])
    assert float(negative["score"]) == -0.25
    assert float(negative["difference"]) == -0.4
    assert csv_text("=1+1") == "'=1+1"
    assert csv_text(" @x") == "' @x"
    assert csv_text(-1.5) == -1.5
    assert csv_text("plain-name") == "plain-name"


def test_json_holds_names_as_they_are() -> None:
    found = json.loads(render(table(), "json"))
    assert [row["task"] for row in found["scores"][2:]] == list(HOSTILE[1:])
    assert found["scores"][1]["verdict"] == "real"


def test_latex_is_ascii_and_shows_specials() -> None:
    text = render(table(), "latex")
    assert text.isascii()
    assert latex("a_b & 5 % --x") == r"a\_b \& 5 \% -{}-x"
    assert latex("---") == "-{}-{}-"
    assert latex("é") == r"{\'{e}}"
    assert latex("中") == "{[}U+4E2D{]}"
    assert latex("\\") == r"\textbackslash{}"
    assert r"\rlap{$^{*}$}" in text
    assert "$-$.250" in text


def test_every_target_ends_in_one_line_break() -> None:
    for target in TARGETS:
        text = render(table(), target)
        assert text == f"{text.rstrip()}\n", target


def test_a_value_as_above_is_not_repeated_in_latex() -> None:
    names = (("a", "x"), ("a", "y"), ("b", "y"))
    cells = {(name, ("mcqa",)): ScoreCell(score(name[0])) for name in names}
    made = ScoreTable(("task", "model"), ("format",), names, (("mcqa",),), cells)
    lines = [line for line in render(made, "latex").splitlines() if ".500" in line]
    starts = [[cell.strip() for cell in line.split("&")[:2]] for line in lines]
    assert starts == [["a", "x"], ["", "y"], ["b", "y"]]


def _compiles() -> bool:
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        return False
    found = subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False)
    return found.returncode == 0


@pytest.mark.skipif(
    not _compiles(), reason="needs pdflatex and booktabs (texlive-latex-recommended)"
)
def test_latex_compiles_whatever_names_hold(tmp_path: Path) -> None:
    document = "\n".join(
        [
            r"\documentclass{article}",
            r"\usepackage{booktabs}",
            r"\begin{document}",
            render(table(), "latex"),
            r"\end{document}",
        ]
    )
    (tmp_path / "page.tex").write_text(document, "ascii")
    done = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "page.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "page.pdf").stat().st_size > 1000
