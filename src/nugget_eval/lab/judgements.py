"""What the viewer shows of a judged folder: each text with its nuggets, their labels and quotations.

In: a ``JudgedFolder``. Out: plain values for JSON. A quotation is marked in its text if its words
occur there in this order, with only punctuation between them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from lm_eval.support.encode import plain
from lm_eval.viewer.samples import utf16
from nugget_eval.data.files import read_labelled
from nugget_eval.data.items import NuggetItem, item_of
from nugget_eval.data.records import Gold
from nugget_eval.files import ASSIGNMENTS
from nugget_eval.judge.voting import quote_parts, quotes_by_number
from nugget_eval.lab.nuggets import JudgedFolder, Key
from nugget_eval.reading.reasoning import read_reasoning

_WORD = re.compile(r"\w+")


def judgements(folder: JudgedFolder) -> dict[str, Any]:
    """Every text of a run with its nuggets, and the scores of the run."""
    votes, quotes, golds = _replies(folder)
    numbers = count()
    units = []
    for index, record in enumerate(read_labelled(folder.folder / ASSIGNMENTS)):
        if isinstance(record, Gold):  # labels of a whole topic: no text
            continue
        item = item_of(record)
        labels = [nugget.assignment for nugget in record.nuggets]
        keys: list[Key] = [(index, position) for position in range(len(labels))]
        nuggets = [
            {
                "doc": next(numbers),
                "text": nugget.text,
                "importance": nugget.importance,
                "label": label,
                "gold": golds.get(key),
                "votes": votes.get(key, {}),
                **quotes.get(key, _NO_QUOTE),
                "spans": _spans(item.passage, quotes.get(key, _NO_QUOTE)["quote"]),
            }
            for nugget, label, key in zip(item.nuggets, labels, keys, strict=True)
        ]
        units.append(_unit(item, nuggets))
    return {
        "judges": [str(judge["name"]) for judge in folder.summary["judges"]],
        "metric": folder.metric,
        "scores": plain(folder.summary.get("scores") or []),
        "agreement": plain(folder.summary.get("agreement")),
        "coverage": plain(folder.summary.get("coverage")),
        "labels": plain(folder.summary.get("labels") or {}),
        "notes": [str(note) for note in folder.summary.get("notes") or ()],
        "units": units,
    }


def _unit(item: NuggetItem, nuggets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "qid": item.qid,
        "unit": item.unit,
        "query": item.query,
        "passage": item.passage,
        "nuggets": list(nuggets),
    }


_NO_QUOTE: dict[str, Any] = {"quote": None, "verdict": None, "rationale": None}


def _replies(
    folder: JudgedFolder,
) -> tuple[dict[Key, dict[str, str | None]], dict[Key, dict[str, Any]], dict[Key, str]]:
    """Nugget → each judge's label, what was quoted for it, and its gold."""
    votes: dict[Key, dict[str, str | None]] = {}
    quotes: dict[Key, dict[str, Any]] = {}
    golds: dict[Key, str] = {}
    for row in folder.replies():
        judge = str(row.get("judge", ""))
        quoted = _quoted(row)
        gold = row.get("gold") or ()
        for position, key in enumerate(folder.keys_of(row)):
            label = row["labels"][position]
            known = votes.setdefault(key, {})
            if known.get(judge) is None:
                known[judge] = label
            if key not in quotes and label is not None and quoted[position]["quote"]:
                quotes[key] = quoted[position]
            if position < len(gold) and gold[position] is not None:
                golds[key] = gold[position]
    return votes, quotes, golds


def _quoted(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a reply quotes and says about each of its nuggets."""
    reasoned = read_reasoning(str(row.get("reply") or ""))
    total = int(row.get("expected_count") or len(row["nuggets"]))
    taken = {canary["place"] for canary in row.get("canaries") or () if "place" in canary}
    places = [place for place in range(total) if place not in taken]
    snippets = quotes_by_number(reasoned, total)
    rationales = {item.number: item.rationale for item in reasoned}
    verdicts = row.get("snippets") or ()
    return [
        {
            "quote": snippets.get(place + 1),
            "verdict": verdicts[at] if at < len(verdicts) else None,
            "rationale": rationales.get(place + 1),
        }
        for at, place in enumerate(places[: len(row["nuggets"])])
    ] or [dict(_NO_QUOTE)] * len(row["nuggets"])


def _spans(passage: str, quote: str | None) -> list[list[int]]:
    """Where the parts of a quotation are in the passage, in UTF-16 units."""
    spans = []
    for part in quote_parts(quote or ""):
        words = _WORD.findall(part)
        if not words:
            continue
        pattern = r"\W+".join(map(re.escape, words))
        match = re.search(rf"(?<!\w){pattern}(?!\w)", passage, re.IGNORECASE)
        if match is not None:
            spans.append([utf16(passage, match.start()), utf16(passage, match.end())])
    return spans
