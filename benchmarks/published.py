"""Published scores, reproduced from the stored replies of the models they are about.

    python benchmarks/published.py [--data ../shared/data/real] [--rows]

Replies to BIG-Bench Hard (code-davinci-002, 27 subtasks, direct and step by step), IFEval (GPT-4) and
GSM8K (four models) are read and scored as a run of the library's tasks does. The table has the published
score, ours, and how many verdicts differ; ``--rows`` prints their rows. The data is not in the project.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval.formats.compile import get_format
from lm_eval.formats.items import Item
from lm_eval.formats.readers import NO_ANSWER
from lm_eval.scoring.checks import verdicts
from lm_eval.scoring.metrics import TextOutcome, is_right, is_right_leniently

DATA = Path(__file__).resolve().parents[1] / "../shared/data/real"
TWO_ANSWERS = {
    **dict.fromkeys(("causal_judgement", "navigate", "web_of_lies"), ("Yes", "No")),
    "formal_fallacies": ("valid", "invalid"),
    "boolean_expressions": ("True", "False"),
    "sports_understanding": ("yes", "no"),
}
FORMATS = {
    ("choice", "cot"): "mcq_cot",
    ("choice", "direct"): "generate",
    ("text", "cot"): "cot",
    ("text", "direct"): "qa",
}


@dataclass
class Score:
    """One published number beside ours."""

    benchmark: str
    name: str
    published: float
    ours: float
    n: int
    decimals: int = 3
    differing: list[str] = field(default_factory=list)
    """Rows whose verdict is not the source's, where the source gives verdicts."""
    by_chance: int = 0
    """Rows that the source decides by a random number; they may count or not."""

    @property
    def is_equal(self) -> bool:
        """Whether the published number is ours, as far as it is printed."""
        ways = (round(self.ours - k / self.n, self.decimals) for k in range(self.by_chance + 1))
        return round(self.published, self.decimals) in ways


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


# BIG-Bench Hard


def bbh_verdict(row: dict[str, Any]) -> bool:
    """Whether the library's task would count the reply as right."""
    question, _, listed = row["question"].partition("\nOptions:\n")
    target = row["target"]
    if row["subtask"] in TWO_ANSWERS:
        choices = TWO_ANSWERS[row["subtask"]]
        gold: tuple[Any, ...] = (choices.index(target),)
    elif re.fullmatch(r"\([A-R]\)", target):
        lines = listed.rpartition("\nA:")[0].split("\n")
        choices = tuple(re.sub(r"^\([A-Z]\) ", "", line) for line in lines)
        gold = (ord(target[1]) - ord("A"),)
    else:
        choices, gold = (), (target,)
    kind = "choice" if choices else "text"
    form = get_format(FORMATS[kind, row["method"]])
    item = Item(doc=row, question=question, choices=choices, gold=gold)
    reading = form.read(row["reply"], item, is_prefilled=False)
    return is_right(TextOutcome(row["reply"], reading, gold, form.answers, choices))


def bbh(data: Path) -> list[Score]:
    counts: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0, 0.0])
    for row in rows_of(data / "bbh_code_davinci.jsonl.gz"):
        count = counts[row["subtask"], row["method"]]
        count[0] += bbh_verdict(row)
        count[1] += 1
        count[2] = row["published_accuracy"]
    return [
        Score("BBH", f"{subtask}, {method}", published / 100, right / n, n)
        for (subtask, method), (right, n, published) in sorted(counts.items())
    ]


# IFEval

PAPER = {
    **{"prompt_level_strict_acc": 0.7689, "inst_level_strict_acc": 0.8357},
    **{"prompt_level_loose_acc": 0.7930, "inst_level_loose_acc": 0.8537},
}


def ifeval(data: Path) -> list[Score]:
    """The four scores. To count a sign that is no letter, the authors' code draws a letter."""
    right, total, chance = defaultdict(int), defaultdict(int), defaultdict(int)
    for row in rows_of(data / "ifeval_gpt4.jsonl.gz"):
        instructions = list(zip(row["instruction_id_list"], row["kwargs"], strict=True))
        values = verdicts(row["response"], instructions)
        drawn = [not arguments.get("letter", "a").isalpha() for _, arguments in instructions]
        for name in PAPER:
            value = values[name]
            followed = value if isinstance(value, list) else [bool(value)]
            right[name] += sum(followed)
            total[name] += len(followed)
            chance[name] += any(drawn) and all(followed)
    return [
        Score("IFEval", name, paper, right[name] / total[name], total[name], 4, [], chance[name])
        for name, paper in PAPER.items()
    ]


# GSM8K


def gsm8k(data: Path) -> list[Score]:
    """The metric ``acc_lenient`` of the convention ``gsm8k``, beside the authors' verdicts."""
    models: dict[str, list[tuple[bool, bool, str]]] = defaultdict(list)
    for row in rows_of(data / "gsm8k_replies.jsonl.gz"):
        outcome = TextOutcome(row["reply"], NO_ANSWER, (row["gold"],), "text")
        shown = f"gold {row['gold']}, {row['reply'][-120:]!r}"
        models[row["model"]].append((is_right_leniently(outcome), row["is_correct"], shown))
    return [
        Score(
            "GSM8K",
            model,
            sum(theirs for _, theirs, _ in rows) / len(rows),
            sum(ours for ours, _, _ in rows) / len(rows),
            len(rows),
            4,
            [f"{model}: {shown}" for ours, theirs, shown in rows if ours != theirs],
        )
        for model, rows in models.items()
    ]


def scores(data: Path) -> list[Score]:
    return [*bbh(data), *ifeval(data), *gsm8k(data)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rows", action="store_true", help="print the rows that differ")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(
            f"There is no folder {options.data}. Give the stored replies with --data.",
            file=sys.stderr,
        )
        return 2
    table = scores(options.data)
    print(f"{'':8}{'':46}{'published':>10}{'ours':>10}{'n':>7}  ")
    for score in table:
        notes = "" if score.is_equal else "differs"
        if score.differing:
            equal_rows = 1 - len(score.differing) / score.n
            notes = f"{len(score.differing)} rows differ ({equal_rows:.2%} equal)"
        if score.by_chance:
            notes += f"{score.by_chance} decided by a random letter in the source"
        figures = f"{score.published:10.4f}{score.ours:10.4f}{score.n:7}"
        print(f"{score.benchmark:8}{score.name:46}{figures}  {notes}".rstrip())
    equal = sum(score.is_equal for score in table if score.benchmark == "BBH")
    print(f"\nBBH: {equal} of {sum(score.benchmark == 'BBH' for score in table)} equal.")
    for row in (row for score in table for row in score.differing if options.rows):
        print(row)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
