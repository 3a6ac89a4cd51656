"""A ``ScoreTable`` as text: Markdown, LaTeX, CSV, HTML or JSON.

Names of tasks, models and formats are data. Whatever they hold, they are shown as text: nothing in them
is markup, a command or a formula, and the LaTeX is plain ASCII, so that every engine compiles it.
"""

from __future__ import annotations

import csv
import html
import io
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lm_eval.lab.table.values import ScoreCell, ScoreTable
from lm_eval.support.columns import markdown
from lm_eval.support.encode import to_json
from lm_eval.support.numbers import NOTHING, count, interval, number
from lm_eval.support.terminal import visible

SUFFIXES = {".md": "md", ".tex": "latex", ".csv": "csv", ".html": "html", ".json": "json"}
"""The end of a file's name → its target."""


def render(table: ScoreTable, target: str) -> str:
    """The table as text that ends in a line break."""
    return TARGETS[target](table)


def _headings(table: ScoreTable) -> list[str]:
    """The headings of the columns before the scores."""
    names = [table.heading(dimension) for dimension in table.row_dimensions]
    return names if table.sizes is None else [*names, "n"]


def _row_start(table: ScoreTable, index: int) -> list[str]:
    cells = [value or NOTHING for value in table.rows[index]]
    return cells if table.sizes is None else [*cells, count(table.sizes[index])]


def _row_cells(table: ScoreTable, index: int) -> list[ScoreCell | None]:
    row = table.rows[index]
    return [table.cells.get((row, column)) for column in table.columns]


# Markdown


def _markdown(table: ScoreTable) -> str:
    numbers = len(table.columns) + (table.sizes is not None)
    headings = [*_headings(table), *map(table.column_title, table.columns)]
    lines = [
        _pipes(headings),
        f"|{'|'.join([' --- '] * (len(headings) - numbers) + [' ---: '] * numbers)}|",
    ]
    for index in range(len(table.rows)):
        cells = [_markdown_cell(cell) for cell in _row_cells(table, index)]
        lines.append(_pipes([*_row_start(table, index), *cells]))
    return "\n".join([*lines, "", markdown(visible(table.caption)), ""])


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(markdown(visible(cell)) for cell in cells)} |"


def _markdown_cell(cell: ScoreCell | None) -> str:
    if cell is None:
        return NOTHING
    score = cell.score.estimate
    return f"{number(score.value)}{cell.mark} {interval(score)}".rstrip()


# LaTeX


_NO_LIGATURE = "\u2060"
"""Between two hyphens, which would become a dash; ``visible`` text has no such character."""
_LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{char: f"\\symbol{{{ord(char)}}}" for char in "\"`'"},  # else ligatures, or commands of T1
    "[": "{[}",
    "]": "{]}",
    _NO_LIGATURE: "{}",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "…": r"\dots{}",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "†": r"$^{\dagger}$",
    "“": "``",
    "”": "''",
    "‘": "`",
    "’": "'",
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
}
_ACCENTS = {
    **{"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0308": '"'},
    **{"\u0304": "=", "\u0307": ".", "\u0306": "u", "\u030c": "v", "\u030b": "H"},
    **{"\u030a": "r", "\u0327": "c"},
}


def latex(text: str) -> str:
    """``text`` as LaTeX that shows it, in ASCII.

    A letter that LaTeX has no command for is shown as ``[U+4E2D]``.
    """
    chars = re.sub("-(?=-)", f"-{_NO_LIGATURE}", unicodedata.normalize("NFC", visible(text)))
    return "".join(map(_latex_char, chars))


def _latex_char(char: str) -> str:
    if char in _LATEX:
        return _LATEX[char]
    if char.isascii():
        return char
    base, *marks = list(unicodedata.normalize("NFD", char))
    if marks and base.isascii() and base.isalpha() and all(mark in _ACCENTS for mark in marks):
        for mark in marks:
            base = rf"\{_ACCENTS[mark]}{{{base}}}"
        return f"{{{base}}}"
    return f"{{[}}U+{ord(char):04X}{{]}}"


_TIED = re.compile(r" (?=\\%)|(?<=\bn) (?==)|(?<=\bn =) (?=\d)")
"""Spaces at which a caption should not break: ``95 %``, ``n = 40``."""


def _latex(table: ScoreTable) -> str:
    starts = _headings(table)
    has_size = table.sizes is not None
    left = "l" * (len(starts) - has_size) + "r" * has_size
    scores = r"r@{\hspace{0.55em}}l" * len(table.columns)
    titles = [
        rf"\multicolumn{{2}}{{c}}{{{latex(table.column_title(column))}}}"
        for column in table.columns
    ]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_TIED.sub('~', latex(table.caption))}}}",
        r"  \medskip",
        rf"  \begin{{tabular}}{{@{{}}{left}{scores}@{{}}}}",
        r"    \toprule",
        rf"    {' & '.join([*map(latex, starts), *titles])} \\",
        r"    \midrule",
        *(f"    {line}" for line in _latex_rows(table)),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


def _latex_rows(table: ScoreTable) -> Iterator[str]:
    """The rows; a value that is the same as above is not repeated, unless it is all there is."""
    above: Sequence[str] = ()
    for index, row in enumerate(table.rows):
        start = _row_start(table, index)
        for at in range(len(row) - 1):
            if tuple(above[: at + 1]) == row[: at + 1]:
                start[at] = ""
        above = row
        cells = [part for cell in _row_cells(table, index) for part in _latex_cell(cell)]
        yield rf"{' & '.join([*map(latex, start), *cells])} \\"


def _latex_cell(cell: ScoreCell | None) -> tuple[str, str]:
    """The value and its interval, each in its own column."""
    if cell is None:
        return "--", ""
    value = number(cell.score.estimate.value).replace("−", "$-$")
    mark = {"*": r"\rlap{$^{*}$}", "†": r"\rlap{$^{\dagger}$}"}.get(cell.mark, "")
    ends = interval(cell.score.estimate).replace("−", "$-$")
    return f"{value}{mark}", rf"{{\scriptsize {ends.replace('[', '{[}')}}}" if ends else ""


# CSV


_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""The start of a text that a spreadsheet would take for a formula."""


def csv_text(value: Any) -> Any:
    """A cell: numbers as they are, texts such that no spreadsheet runs them."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if _FORMULA.match(text) else text


def _csv(table: ScoreTable) -> str:
    rows = [cell.to_dict(table.part_name) for cell in table.in_order()]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([csv_text(name) for name in rows[0]])
    for row in rows:
        writer.writerow([csv_text(value) for value in row.values()])
    return file.getvalue()


# HTML


def _html(table: ScoreTable) -> str:
    lines = ["<table>", f"  <caption>{_text(table.caption)}</caption>", "  <thead>", "    <tr>"]
    lines += [f'      <th scope="col">{_text(name)}</th>' for name in _headings(table)]
    lines += [
        f'      <th scope="col">{_text(table.column_title(column))}</th>'
        for column in table.columns
    ]
    lines += ["    </tr>", "  </thead>", "  <tbody>"]
    for index in range(len(table.rows)):
        start = [f'<th scope="row">{_text(cell)}</th>' for cell in _row_start(table, index)]
        cells = [f"<td>{_html_cell(cell)}</td>" for cell in _row_cells(table, index)]
        lines.append(f"    <tr>{''.join([*start, *cells])}</tr>")
    return "\n".join([*lines, "  </tbody>", "</table>", ""])


def _text(text: str) -> str:
    return html.escape(visible(text))


def _html_cell(cell: ScoreCell | None) -> str:
    if cell is None:
        return NOTHING
    value, ends = number(cell.score.estimate.value), interval(cell.score.estimate)
    mark = f"<sup>{cell.mark}</sup>" if cell.mark else ""
    return f"{value}{mark}" + (f" <small>{ends}</small>" if ends else "")


# JSON


def _json(table: ScoreTable) -> str:
    content = {
        "caption": table.caption,
        "rows": [table.part_name if d == "part" else d for d in table.row_dimensions],
        "columns": [table.part_name if d == "part" else d for d in table.column_dimensions],
        "baseline": table.baseline,
        "scores": [cell.to_dict(table.part_name) for cell in table.in_order()],
    }
    return to_json(content, indent=1) + "\n"


TARGETS: Mapping[str, Callable[[ScoreTable], str]] = {
    "md": _markdown,
    "latex": _latex,
    "csv": _csv,
    "html": _html,
    "json": _json,
}
