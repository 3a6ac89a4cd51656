"""The report kit of the lab's commands: ``Section``s → a console, or a file of Markdown or JSON.

A section has a title, a table, lines and notes, each of which may be missing. Texts are safe to show,
but for notes, which may name files and models as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_eval.support.columns import FittingTable, markdown
from lm_eval.support.encode import to_json
from lm_eval.support.files import write_output
from lm_eval.support.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LABEL_WIDTH = 14
"""``Inconclusive`` and two spaces."""
_STYLES = {"Real": "bold green", "Confounded": "yellow", "Inconclusive": "dim"}


class ReportLine(NamedTuple):
    """A text after its label; without a label it goes on below the line before, None: a sentence."""

    label: str | None
    text: str


@dataclass(frozen=True)
class Section:
    """A part of a report, with an empty line between what it has."""

    title: str = ""
    table: FittingTable | None = None
    lines: Sequence[ReportLine] = ()
    notes: Sequence[str] = ()
    label_width: int = LABEL_WIDTH

    def parts(self) -> Iterator[list[RenderableType]]:
        """What is printed, block by block."""
        yield [Paragraph("", self.title, "bold")] if self.title else []
        yield [] if self.table is None else [self.table]
        yield [_line(line, self.label_width) for line in self.lines]
        yield [Paragraph("! ", visible(note), "yellow") for note in self.notes]

    def markdown(self, level: int) -> Iterator[list[str]]:
        """The lines of Markdown, block by block."""
        yield [f"{'#' * level} {markdown(self.title)}"] if self.title else []
        yield [] if self.table is None else self.table.markdown()
        yield [f"- {markdown(text)}" for text in in_text(self.lines)]
        yield [f"> {markdown(visible(note))}\n" for note in self.notes]


def print_report(sections: Iterable[Section], console: Console) -> None:
    """Print the sections below each other."""
    blocks = filter(None, (block for section in sections for block in section.parts()))
    for index, block in enumerate(blocks):
        if index:
            console.print()
        for renderable in block:
            console.print(renderable)


def to_markdown(sections: Iterable[Section], level: int = 2) -> str:
    """The sections as Markdown; ``level`` is that of their headings."""
    blocks = [block for section in sections for block in section.markdown(level) if block]
    return "\n\n".join("\n".join(block).rstrip() for block in blocks) + "\n"


def write_report(path: str, sections: Iterable[Section], data: Any) -> Path:
    """Write a file: the sections if its name ends in ``.md``, otherwise all numbers as JSON."""
    file = Path(path).expanduser()
    text = to_markdown(sections) if file.suffix == ".md" else to_json(data, indent=1) + "\n"
    write_output(file, text)
    return file


def in_text(lines: Iterable[ReportLine]) -> list[str]:
    """The lines without columns: ``Real: mcqa > cot +.29 [.20, .39] p < .001``."""
    return [
        (f"{line.label}: " if line.label else "") + " ".join(line.text.split()) for line in lines
    ]


def _line(line: ReportLine, width: int) -> RenderableType:
    return _Hanging(line, width) if line.label is not None else Paragraph("", line.text)


class _Hanging:
    """A line after a label, which may have a colour of its own; its later lines indented to match."""

    def __init__(self, line: ReportLine, width: int) -> None:
        self._label = line.label or ""
        self._paragraph = Paragraph(f"{self._label:{width - 1}} ", line.text)

    def __rich_console__(self, console: Console, options: Any) -> Iterator[RenderableType]:
        for index, text in enumerate(self._paragraph.__rich_console__(console, options)):
            if not index and self._label in _STYLES:
                text.stylize(_STYLES[self._label], 0, len(self._label))  # type: ignore[union-attr]
            yield text  # type: ignore[misc]
