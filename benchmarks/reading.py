"""What reading costs: replies per CPU second over the odd answers, and CPU seconds from 1 KB to 1 MB.

    python benchmarks/reading.py [--tables everyday planets …]

The first figure is over the short replies of the collection of odd answers, which are harder than most.
The table has texts of which some once took a reader more than linear time: from column to column, a row
should grow by ten at most.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from importlib import resources
from time import process_time
from typing import Any

import yaml

from lm_eval.formats.readers import bind_reader, read

SHORT = 250
SIZES = (1_000, 10_000, 100_000, 1_000_000)
REPEATS = 5
CHOICE = {"reader": "choice", "phrase": "The best answer is"}
CITIES = ("London", "Berlin", "Paris", "Rome")
MANY = tuple(f"choice number {n} of many" for n in range(1000))
LONG = tuple("a " * 50_000 + end for end in "wxyz")
PROSE = "Lorem ipsum dolor sit amet, consectetur adipiscing elit sed do eiusmod tempor. "

Texts = dict[str, tuple[Any, tuple[str, ...], Callable[[int], str]]]
TEXTS: Texts = {
    "prose": (CHOICE, CITIES, lambda n: PROSE * (n // len(PROSE))),
    "white space behind a label": (CHOICE, CITIES, lambda n: f"The best answer is A{' ' * n}x"),
    "labels": (CHOICE, CITIES, lambda n: "A " * (n // 2)),
    "not A but": (CHOICE, CITIES, lambda n: "not A but " * (n // 10)),
    "cues": (CHOICE, CITIES, lambda n: "the answer is not " * (n // 18)),
    "Chinese cues": (CHOICE, CITIES, lambda n: "答案是" * (n // 3)),
    "1,000 choices": (CHOICE, MANY, lambda n: "choice number of many " * (n // 22)),
    "choices of 100,000 characters": (CHOICE, LONG, lambda n: "a " * (n // 2)),
    "number: 1,1,1,…": ("number", (), lambda n: "1," * (n // 2)),
    "number: 1…1,1": ("number", (), lambda n: f"{'1' * n},1"),
}


def replies(tables: list[str]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The short replies of the collection, with their readers and questions."""
    for file in sorted(
        (resources.files("lm_eval.formats.readers") / "odd_answers").iterdir(), key=str
    ):
        name = file.name.removesuffix(".yaml")
        table = (
            yaml.safe_load(file.read_text(encoding="utf-8")) if not tables or name in tables else {}
        )
        for row in ({**table, **row} for row in table.get("rows", ())):
            given = {key: row.get(key) for key in ("prefix", "finish")}
            question = {key: row.get(key, ()) for key in ("labels", "choices")}
            if len(row["text"]) <= SHORT:
                yield row["text"], [bind_reader(row["reader"])], {**given, **question}


def seconds(call: Callable[[], object]) -> float:
    start = process_time()
    call()
    return process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tables", nargs="*", default=[])
    rows = list(replies(parser.parse_args().tables))

    def read_all() -> None:
        for text, readers, given in rows:
            read(text, readers, **given)

    read_all()  # what is compiled once
    best = min(seconds(read_all) for _ in range(REPEATS))
    print(f"{len(rows)} short odd answers: {len(rows) / best:,.0f} per CPU s\n")
    print(f"{'CPU s':32}" + "".join(f"{size:>12,}" for size in SIZES))
    for name, (spec, choices, make) in TEXTS.items():
        readers = [bind_reader(spec)]
        labels = [str(n + 1) for n in range(len(choices))] if len(choices) > 26 else list("ABCD")
        again = partial(read, readers=readers, labels=labels, choices=choices)
        figures = [seconds(partial(again, make(size))) for size in SIZES]
        print(f"{name:32}" + "".join(f"{figure:>12.4f}" for figure in figures))


if __name__ == "__main__":
    main()
