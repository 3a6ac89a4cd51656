"""How well choices are read in what real models wrote: by model, right, invented or lost.

    python benchmarks/real_replies.py [--data ../shared/data/real] [--rules] [--failures]
    python benchmarks/real_replies.py --rows OUT.jsonl             # for peer_readers.py
    python benchmarks/real_replies.py --readings READINGS.jsonl    # what peer_readers.py has read

The replies are 2,927 chains of thought of 13 models to MMLU-Pro. Those on which extractions disagree are
over-represented, so shares of errors are about three times those of all replies. `mmlu_pro_labels.csv`
has what 630 of them say, decided by reading them without a look at any extraction: all on which ours
before, the authors' and a plain "answer is X" disagree, and 156 of the others, 155 of which confirm the
authors' reading; so that is taken as the label of the rest. *Invented* is a letter that the reply does
not give, *lost* one that is not read. The models of the measuring part were not looked at.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import ascii_uppercase
from typing import Any

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "../shared/data/real"
LABELS = HERE.parent / "tests/data/replies/mmlu_pro_labels.csv"
LOOKED_AT = (
    "DeepSeek-Coder-V2",
    "Llama-2-70b-hf",
    "Meta-Llama-3-8B",
    "Meta-Llama-3_1-8B-Instruct",
    "Mistral-7B-Instruct-v0.2",
    "Qwen1.5-7B-Chat",
    "Yi-34B",
)
WEIGHT = 0.34
"""What an error here counts among all replies of these models: extractions agree on the replies that are
left out, and of all replies our reader before invented 2.47 % (540 replies labelled elsewhere), of these
7.2 %. By the authors' extraction (1.41 % and 6.6 %) it would be 0.21."""
NOTHING = "no_answer"
PHRASE = "the answer is"

Row = dict[str, Any]


def rows(data: Path = DATA) -> Iterator[Row]:
    """The replies with their labels, as rows of ``readers.py``."""
    with open(LABELS, encoding="utf-8", newline="") as lines:
        labels = {(r["model"], int(r["question_id"])): r["label"] for r in csv.DictReader(lines)}
    with gzip.open(data / "mmlu_pro_replies.jsonl.gz", "rt", encoding="utf-8") as lines:
        for reply in map(json.loads, lines):
            key = reply["model"], reply["question_id"]
            label = labels.get(key, reply["authors_reading"] or "none")
            yield {
                "id": f"{key[0]}:{key[1]}",
                "kind": reply["model"],
                "language": "en",
                "format": "generate",
                "choices": reply["options"],
                "labels": list(ascii_uppercase[: len(reply["options"])]),
                "phrase": PHRASE,
                "prefix": None,
                "reply": reply["reply"],
                "truncated": False,
                "expected": NOTHING if label in ("none", "ambiguous") else label,
                "authors": reply["authors_reading"],
                "answer": reply["answer"],
            }


def read(row: Row) -> tuple[str, str]:
    """The letter that our reader reads, or ``no_answer``; and the rule or the reason."""
    from lm_eval.formats.readers import choice

    reading = choice(row["reply"], labels=row["labels"], choices=row["choices"], phrase=PHRASE)
    if not reading.is_answer:
        return NOTHING, str(reading.reason)
    return row["labels"][reading.value], str(reading.rule)


def outcome(row: Row, letter: str) -> str:
    """``right``, ``invented`` or ``lost``."""
    if letter == row["expected"]:
        return "right"
    return "lost" if letter == NOTHING else "invented"


def tallies(judged: Iterable[tuple[Row, str]]) -> dict[str, Counter[str]]:
    """Counts by part and by model."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row, letter in judged:
        part = "looked at" if row["kind"] in LOOKED_AT else "measuring"
        for name in (part, f"{part}: {row['kind']}"):
            counts[name][outcome(row, letter)] += 1
            counts[name]["score"] += letter == row["answer"]
            counts[name]["score by labels"] += row["expected"] == row["answer"]
    return counts


def table(title: str, counts: dict[str, Counter[str]]) -> str:
    """The counts as a Markdown table; *weighted* is among all replies of the models."""
    head = ("n", "right", "invented", "lost", "weighted: right", "invented", "lost", "score off by")
    lines = [f"| {title} | {' | '.join(head)} |", f"| --- |{' --- |' * len(head)}"]
    for name, count in sorted(counts.items()):
        n = sum(count[kind] for kind in ("right", "invented", "lost"))
        wrong = [count[kind] / n for kind in ("invented", "lost")]
        weighted = [share * WEIGHT for share in wrong]
        shares = (1 - sum(wrong), *wrong, 1 - sum(weighted), *weighted)
        off = (count["score"] - count["score by labels"]) / n * WEIGHT
        cells = (str(n), *(f"{share:.2%}" for share in shares), f"{100 * off:+.1f} points")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rule_table(known: list[Row]) -> str:
    """For each rule, how many replies it alone decides, and how many of these rightly."""
    from lm_eval.formats.readers import choice as _  # noqa: F401  (loads the module)

    module = sys.modules["lm_eval.formats.readers.choice"]
    before = [read(row)[0] for row in known]
    lines = ["| rule | decides alone | of these right |", "| --- | --- | --- |"]
    for rule in (rules := module.RULES):
        module.RULES = tuple(other for other in rules if other is not rule)
        changed = [
            (row, letter)
            for row, letter in zip(known, before, strict=True)
            if letter != read(row)[0]
        ]
        right = sum(letter == row["expected"] for row, letter in changed)
        lines.append(f"| {rule.__name__} | {len(changed)} | {right} |")
    module.RULES = rules
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rules", action="store_true", help="show what each rule decides")
    parser.add_argument("--failures", action="store_true", help="list what is read wrongly")
    parser.add_argument("--rows", type=Path, help="write the rows for peer_readers.py")
    parser.add_argument("--readings", type=Path, help="what peer_readers.py has read")
    args = parser.parse_args()
    known = list(rows(args.data))
    if args.rows:
        args.rows.write_text("".join(json.dumps(row) + "\n" for row in known), encoding="utf-8")
        return
    if args.readings:
        answers: dict[str, dict[str, str | None]] = defaultdict(dict)
        for record in map(json.loads, args.readings.read_text(encoding="utf-8").splitlines()):
            answers[record["reader"]][record["id"]] = record["answer"]
        for reader, letters in answers.items():
            print(table(reader, tallies((row, letters[row["id"]] or NOTHING) for row in known)))
        return
    judged = [(row, *read(row)) for row in known]
    print(table("ours", tallies((row, letter) for row, letter, _ in judged)), "\n")
    print(table("authors", tallies((row, row["authors"] or NOTHING) for row in known)))
    if args.rules:
        print(f"\n{rule_table(known)}")
    for row, letter, rule in judged if args.failures else ():
        if letter != row["expected"] and row["kind"] in LOOKED_AT:
            print(
                f"{row['id']}: {letter} by {rule}, not {row['expected']}: {row['reply'][-200:]!r}"
            )


if __name__ == "__main__":
    main()
