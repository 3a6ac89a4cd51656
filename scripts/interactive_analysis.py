"""How stored replies were read, one by one, by kind of failure. Needs no model.

python scripts/interactive_analysis.py                     a small file made up for showing
python scripts/interactive_analysis.py out/replies.jsonl   the replies of a run

On a terminal it asks what to show; otherwise it prints the summary and the first reply of each kind.
Every reply is read again by the reader of this version, so a change of the reader shows.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.errors import DataError, LmEvalError
from lm_eval.support.terminal import visible
from nugget_eval.common import LabelReading, read_labels
from nugget_eval.data.rows import read_rows

READ = "read"
LONGEST_SHOWN = 1500
COMMANDS = "number of a kind, Enter or n: next reply, p: previous, s: summary, q: quit"
MADE_UP: tuple[dict[str, Any], ...] = (
    {"qid": "1", "nuggets": [1, 2], "reply": '["support", "not_support"]', "format_type": "json"},
    {
        "qid": "2",
        "nuggets": [1, 2, 3],
        "reply": "1. support\n3. not_support",
        "format_type": "json",
    },
    {"qid": "3", "nuggets": [1, 2], "reply": "I am sorry, I cannot help.", "format_type": "json"},
    {
        "qid": "4",
        "nuggets": [1, 2],
        "reply": "support, probably, not_support",
        "format_type": "csv",
    },
    {"qid": "5", "nuggets": [1, 2], "reply": "", "format_type": "json"},
    {
        "qid": "6",
        "nuggets": [1, 2],
        "reply": '<think>["support","support"]</think>\n["support","partial_support"]',
        "format_type": "json",
    },
)


@dataclass(frozen=True)
class Stored:
    """A reply from a file, and how it is read now."""

    row: dict[str, Any]
    reading: LabelReading

    @property
    def kind(self) -> str:
        """Why labels are missing; ``read`` where none is."""
        return self.reading.error_type or READ


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("file", nargs="?", help="replies.jsonl of a run")
    options.add_argument("--kind", help="show every reply of this kind, and end")
    chosen = options.parse_args()
    try:
        kinds = by_kind(list(stored(chosen.file)))
    except LmEvalError as error:
        print(f"interactive_analysis: error: {error}", file=sys.stderr)
        return 1
    print_summary(kinds)
    if chosen.kind is not None:
        if chosen.kind not in kinds:
            print(f"There is no reply of kind {chosen.kind!r}.", file=sys.stderr)
            return 1
        for one in kinds[chosen.kind]:
            print_reply(one)
    elif sys.stdin.isatty():
        walk(kinds)
    else:
        for replies in kinds.values():
            print_reply(replies[0])
    return 0


def stored(path: str | None) -> Iterator[Stored]:
    """The replies of a file, each read again; without a file, a few made-up ones."""
    rows = MADE_UP if path is None else (dict(row.values) for row in read_rows(path))
    for number, row in enumerate(rows, 1):
        text, nuggets = row.get("reply"), row.get("nuggets")
        if not isinstance(text, str) or not isinstance(nuggets, list):
            raise DataError(
                f"{path}, reply {number}: the keys 'reply' and 'nuggets' are needed. Give the "
                "replies.jsonl of `nugget-eval run --output_path`."
            )
        count = row.get("expected_count") or len(nuggets)
        yield Stored(row, read_labels(text, count, format_type=row.get("format_type")))


def by_kind(replies: Sequence[Stored]) -> dict[str, list[Stored]]:
    """Kind → its replies; failures first, most frequent first."""
    found: dict[str, list[Stored]] = defaultdict(list)
    for one in replies:
        found[one.kind].append(one)
    order = sorted(found, key=lambda kind: (kind == READ, -len(found[kind]), kind))
    return {kind: found[kind] for kind in order}


def print_summary(kinds: dict[str, list[Stored]]) -> None:
    """How many replies there are of each kind, and how many are read otherwise than before."""
    total = sum(map(len, kinds.values()))
    print(f"{total} replies")
    for number, (kind, replies) in enumerate(kinds.items(), 1):
        print(f"{number:3}. {kind:18} {len(replies):6}  {100 * len(replies) / total:5.1f} %")
    changed = [one for own in kinds.values() for one in own if is_changed(one)]
    if changed:
        print(f"{len(changed)} replies are read otherwise than when they were stored.")
    formats: dict[str, int] = defaultdict(int)
    for own in kinds.values():
        for one in own:
            formats[one.reading.format_used] += 1
    print("formats: " + ", ".join(f"{name} {n}" for name, n in sorted(formats.items())))


def is_changed(one: Stored) -> bool:
    """Whether the reader says something else than when the reply was stored."""
    return "error_type" in one.row and one.row["error_type"] != one.reading.error_type


def print_reply(one: Stored) -> None:
    """One reply with everything about its reading; its text is data and is shown as such."""
    row, reading = one.row, one.reading
    where = " ".join(str(row[key]) for key in ("judge", "unit", "qid", "stage") if row.get(key))
    print(f"── {one.kind}: {visible(where)}, nuggets {row['nuggets']}")
    text = row["reply"]
    print(visible(text, LONGEST_SHOWN, keep="\n") if text.strip() else "(nothing)")
    print(f"   labels: {', '.join(str(label) for label in reading.labels)}")
    print(f"   format: {reading.format_used} (asked: {visible(str(row.get('format_type')))})")
    if reading.span is not None:
        print(f"   rule: {reading.rule}, characters {reading.span[0]} to {reading.span[1]}")
    if reading.reason:
        print(f"   why: {visible(reading.reason)}")


def walk(kinds: dict[str, list[Stored]]) -> None:
    """Ask what to show until there is nothing more to ask."""
    names, kind, place = list(kinds), next(iter(kinds), READ), -1
    while True:
        try:
            said = input(f"[{kind}] {COMMANDS}> ").strip().lower()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if said == "q":
            return
        if said == "s":
            print_summary(kinds)
            continue
        if said.isdigit() and 1 <= int(said) <= len(names):
            kind, place = names[int(said) - 1], 0
        elif said in ("", "n", "p"):
            place += -1 if said == "p" else 1
        else:
            print(f"Not understood: {visible(said)}")
            continue
        place = max(0, min(place, len(kinds[kind]) - 1))
        print(f"{place + 1} of {len(kinds[kind])}")
        print_reply(kinds[kind][place])


if __name__ == "__main__":
    sys.exit(main())
