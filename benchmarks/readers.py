"""How well replies are read that nobody who wrote a reader has seen: by kind, right, wrong or refused.

    python benchmarks/readers.py [--failures] [--json OUT.json] [--readings OUT.jsonl] [FILE …]
    python benchmarks/readers.py --judge_rules   # what each rule of the judge's reader decides
    PYTHONPATH=/path/to/another/checkout/src python benchmarks/readers.py

The files are JSON lines in `tests/data`: replies to `generate` (letters), to `cot`, numbers and
`classification`, and a judge's replies, each with what a careful person reads in it. A reply is
*right* if that is what is read (for `no_answer`: if nothing is), *silently wrong* if a definite
answer is read that is not the expected one, else *refused* wrongly. `--failures` lists the rows that
are not right. `--readings` counts what `peer_readers.py` wrote: how other harnesses read these replies.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lm_eval.api.template import PromptFormat

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
FILES = (
    DATA / "replies" / "letters.jsonl",
    DATA / "replies" / "free_text.jsonl",
    DATA / "nuggets" / "heldout.jsonl",
    DATA / "replies" / "fresh_letters.jsonl",
    DATA / "replies" / "fresh_free_text.jsonl",
    DATA / "nuggets" / "fresh.jsonl",
    DATA / "nuggets" / "kinds.jsonl",
    DATA / "nuggets" / "blind.jsonl",
)
REAL = DATA.parents[2] / "shared" / "data" / "real" / "wice_judge_replies.jsonl.gz"
NOTHING = "no_answer"

Row = Mapping[str, Any]
Outcome = Literal["right", "wrong", "refused"]


@dataclass
class Tally:
    """Replies of one kind, counted by how they were read."""

    n: int = 0
    right: int = 0
    wrong: int = 0
    refused: int = 0

    def add(self, outcome: Outcome) -> None:
        self.n += 1
        setattr(self, outcome, getattr(self, outcome) + 1)


def load(path: Path) -> list[Row]:
    """The rows of a file of replies."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def tallied(judged: Iterable[tuple[Row, Outcome]]) -> dict[str, Tally]:
    """The counts by kind, in the order of the file."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for row, outcome in judged:
        tallies[row["kind"]].add(outcome)
    return dict(tallies)


def total(tallies: Mapping[str, Tally]) -> Tally:
    """The counts of all kinds together."""
    parts = tallies.values()
    return Tally(
        *(sum(getattr(t, name) for t in parts) for name in ("n", "right", "wrong", "refused"))
    )


# Our readers


def outcomes(rows: Iterable[Row]) -> Iterator[tuple[Row, Outcome, Any]]:
    """Each row with how our reader reads it, and what was read."""
    for row in rows:
        yield row, *(_judge_outcome(row) if "nuggets" in row else _reply_outcome(row))


def prefix_changes(rows: Iterable[Row]) -> tuple[list[Row], int]:
    """The rows read differently if the phrase is prefilled or part of the reply; of how many."""
    pairs = [(row, other) for row in rows if (other := _other_start(row)) is not None]
    changed = [row for row, other in pairs if _reply_outcome(row)[0] != _reply_outcome(other)[0]]
    return changed, len(pairs)


def _other_start(row: Row) -> Row | None:
    """The row with its prefill as the start of the reply, or the other way round."""
    if row.get("prefix"):
        return {**row, "prefix": None, "reply": row["prefix"] + row["reply"]}
    if row.get("format") == "generate" and row["reply"].startswith(row["phrase"]):
        return {**row, "prefix": row["phrase"], "reply": row["reply"].removeprefix(row["phrase"])}
    return None


def recorded_outcomes(
    rows: Iterable[Row], answers: Mapping[str, str | None]
) -> Iterator[tuple[Row, Outcome, Any]]:
    """Each row with how another reader, whose ``answers`` have the rows' ids, reads it."""
    for row in rows:
        answer = answers[row["id"]]
        yield row, _outcome(row, answer), answer


def _reply_outcome(row: Row) -> tuple[Outcome, Any]:
    from lm_eval.formats.items import Item

    style = _format(row["format"], tuple(row["labels"] or ()), row["phrase"])
    reading = style.read(
        row["reply"],
        Item({}, row.get("question", ""), tuple(row["choices"] or ()), ()),
        is_prefilled=row["prefix"] is not None,
        finish="length" if row["truncated"] else "stop",
    )
    if not reading.is_answer:
        return _outcome(row, None), reading.reason
    answer = reading.value if row["labels"] is None else row["labels"][reading.value]
    return _outcome(row, str(answer)), answer


def _outcome(row: Row, answer: str | None) -> Outcome:
    """What reading ``answer`` in a row is; texts are compared as ``acc`` compares them."""
    from lm_eval.scoring.metrics import same_answer

    expected = row["expected"]
    if answer is None:
        return "right" if expected == NOTHING else "refused"
    if row["labels"] is not None or expected == NOTHING:
        return "right" if answer == expected else "wrong"
    return "right" if same_answer(answer, expected) else "wrong"


@cache
def _format(name: str, labels: tuple[str, ...], phrase: str) -> PromptFormat:
    """The format that a row's prompt has: a built-in one with the row's labels and phrase."""
    from lm_eval.formats.compile import compile_format

    definition: dict[str, Any] = {"type": name}
    if name == "generate":
        definition |= {"choice_labels": list(labels), "gen_prefix": phrase}
        definition["scorer"] = {"reader": "choice", "phrase": phrase}
    elif name == "number":
        definition |= {"type": "cot", "scorer": {"reader": "number", "phrase": phrase}}
    return compile_format(definition, name="heldout")


def _judge_outcome(row: Row) -> tuple[Outcome, Any]:
    from nugget_eval import read_labels

    count = row["nuggets"]
    expected = [None] * count if row["expected"] == NOTHING else row["expected"]
    labels = list(
        read_labels(row["reply"], count, format_type=row["asked"]).labels or [None] * count
    )
    if labels == expected:
        return "right", labels
    is_wrong = any(
        label not in (None, right) for label, right in zip(labels, expected, strict=True)
    )
    return ("wrong" if is_wrong else "refused"), labels


JUDGE_RULES: dict[str, tuple[str, str, Any]] = {
    "JSON and Python as lines": ("brackets", "as_lines", lambda text: (text, [])),
    "XML and HTML as lines": ("tags", "as_lines", lambda text: text),
    "tables": ("lines", "_table", lambda *_: (None, 1)),
    "labels in a row": ("lines", "_row", lambda *_: None),
    "sentences, by the choice reader": ("prose", "_claim", lambda *_, **__: None),
    "words around a list": ("answers", "_exclusion", lambda *_: None),
    "definitions, other numberings": ("answers", "_about_labels", lambda *_: None),
    "reservations after a label": ("pieces", "is_reserved", lambda *_: False),
    "corrections after a list": ("reader", "_unless_corrected", lambda _, reading, __: reading),
    "later turns, reasoning fields": ("reader", "_own_words", lambda text: text),
}
"""Rule → module, function and what stands in for it."""


def judge_rules(rows: list[Row]) -> str:
    """What is read otherwise without each rule, as a Markdown table."""
    from importlib import import_module

    def measured() -> list[Outcome]:
        for name in ("pieces", "prose"):
            for function in vars(import_module(f"nugget_eval.reading.{name}")).values():
                if name == "pieces" or hasattr(function, "cache_clear"):
                    getattr(function, "cache_clear", lambda: None)()
        return [_judge_outcome(row)[0] for row in rows]

    lines = ["| Rule | Right only with it | Wrong without it |", "| --- | --- | --- |"]
    usual = measured()
    for rule, (module, function, stand_in) in JUDGE_RULES.items():
        home = import_module(f"nugget_eval.reading.{module}")
        kept = getattr(home, function)
        setattr(home, function, stand_in)
        without = list(zip(usual, measured(), strict=True))
        setattr(home, function, kept)
        lost = sum(was == "right" != now for was, now in without)
        wrong = sum(now == "wrong" != was for was, now in without)
        lines.append(f"| {rule} | {lost} | {wrong} |")
    return "\n".join(
        [
            f"{len(rows)} replies, {usual.count('right')} right, {usual.count('wrong')} wrong\n",
            *lines,
        ]
    )


def held_out_of_judges() -> list[Row]:
    """A judge's replies that no rule was written for, and the real ones if they are there."""
    import gzip

    rows = [row for path in FILES if path.parent.name == "nuggets" for row in load(path)]
    rows = [row for row in rows if row.get("is_kept_back", not row["id"].startswith("judge_"))]
    if not REAL.exists():
        return rows
    labels = {
        "supported": "support",
        "partially_supported": "partial_support",
        "not_supported": "not_support",
    }
    with gzip.open(REAL, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            answer = row["response"].partition("<answer>")[2].partition("</answer>")[0]
            rows.append(
                {
                    "reply": row["response"],
                    "nuggets": 1,
                    "asked": None,
                    "expected": [labels[answer]],
                }
            )
    return rows


# Showing


def table(tallies: Mapping[str, Tally]) -> str:
    """The counts by kind, and in total, as a Markdown table."""
    lines = ["| Kind | n | Right | Silently wrong | Refused |", "| --- | --- | --- | --- | --- |"]
    for kind, tally in tallies.items():
        lines.append(f"| {kind} | {tally.n} | {tally.right} | {tally.wrong} | {tally.refused} |")
    whole = total(tallies)
    shares = " | ".join(
        f"{count} ({count / max(1, whole.n):.1%})"
        for count in (whole.right, whole.wrong, whole.refused)
    )
    return "\n".join([*lines, f"| all | {whole.n} | {shares} |"])


def show(
    title: str, judged: Iterable[tuple[Row, Outcome, Any]], *, failures: bool
) -> dict[str, Tally]:
    """Print the table of one file, with the rows that are not right if wanted."""
    kept = list(judged)
    tallies = tallied((row, outcome) for row, outcome, _ in kept)
    print(f"{title}\n\n{table(tallies)}\n")
    for row, outcome, answer in kept if failures else ():
        if outcome != "right":
            print(
                f"{outcome:8} {row['id']}: {answer!r}, not {row['expected']!r}, in {row['reply']!r}"
            )
    return tallies


def show_prefix_changes(rows: Iterable[Row], *, failures: bool) -> None:
    """Print how many replies are read differently with the phrase as prefill and as text."""
    changed, pairs = prefix_changes(rows)
    if pairs:
        print(
            f"{len(changed)} of {pairs} replies are read differently if the phrase is prefilled.\n"
        )
    for row in changed if failures else ():
        print(f"prefix   {row['id']}: {row['reply']!r}")


def show_recorded(
    path: Path, rows: Iterable[Row], *, failures: bool
) -> dict[str, dict[str, Tally]]:
    """Print a table for each reader and format in a file of readings."""
    answers: dict[str, dict[str, str | None]] = defaultdict(dict)
    for record in load(path):
        answers[record["reader"]][record["id"]] = record["answer"]
    counts = {}
    for reader, known in answers.items():
        for style in ("generate", "cot", "number", "classification"):
            of_style = [row for row in rows if row.get("format") == style and row["id"] in known]
            if of_style:
                title = f"{style}: {reader}"
                judged = recorded_outcomes(of_style, known)
                counts[title] = show(title, judged, failures=failures)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, default=FILES, metavar="FILE")
    parser.add_argument("--failures", action="store_true", help="list the rows that are not right")
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    parser.add_argument("--readings", type=Path, help="what another harness has read")
    parser.add_argument("--judge_rules", action="store_true", help="read without each rule in turn")
    args = parser.parse_args()
    if args.judge_rules:
        print(judge_rules(held_out_of_judges()))
        return
    if args.readings:
        rows = [row for path in args.files for row in load(path)]
        counts = show_recorded(args.readings, rows, failures=args.failures)
    else:
        counts = {}
        for path in args.files:
            rows = load(path)
            counts[path.stem] = show(path.name, outcomes(rows), failures=args.failures)
            show_prefix_changes(rows, failures=args.failures)
    if args.json:
        plain = {name: {k: asdict(t) for k, t in kinds.items()} for name, kinds in counts.items()}
        args.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
