"""What ``nugget-eval`` wrote into one folder, nugget by nugget: label, gold, score and reply.

``reread_folder`` reads the stored replies again with another reader.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from lm_eval.errors import ComparisonError, UsageError
from lm_eval.formats.readers import BoundReader, read
from lm_eval.lab.reread.items import ReadAgain, Rereading, Verdict
from nugget_eval.data.files import read_labelled
from nugget_eval.data.rows import read_rows
from nugget_eval.files import ASSIGNMENTS, REPLIES, SUMMARY
from nugget_eval.judge.voting import combine, median_label
from nugget_eval.prompts.catalogue import get_output_format
from nugget_eval.reading.spellings import LABELS, Label
from nugget_eval.scores.measures import GAIN

ACCURACY, GAIN_METRIC = "accuracy", "gain"
Key = tuple[int, int]
"""The index of an item in its file, and of a nugget in its item."""


@dataclass(frozen=True)
class JudgedNugget:
    """One nugget of one text, as it was judged."""

    number: int
    """Its index among all nuggets of the run."""
    key: Key
    qid: str
    unit: str
    text: str
    label: Label | None
    gold: Label | None
    score: float
    row: Mapping[str, Any] | None
    """The reply that decided its label, or the last one if none did."""


class JudgedFolder:
    """The files of one run of ``nugget-eval``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.summary: Mapping[str, Any] = _summary(folder / SUMMARY)
        self._settings: Mapping[str, Any] = self.summary["config"]["model"]

    @property
    def name(self) -> str:
        """``data@prompt_type×format_type``."""
        data = self.summary["config"]["data"]
        files = [data.get("nuggets"), *(data.get("items") or ())]
        task = next((Path(str(file)).stem for file in files if file), "nuggets")
        return f"{task}@{self.format()['format']}"

    @property
    def model(self) -> str:
        """The judges."""
        return "+".join(str(judge["name"]) for judge in self.summary["judges"])

    @property
    def prompt(self) -> Mapping[str, Any]:
        """Version and fingerprint of the prompt; of the first one if topics have different prompts."""
        return next(iter(self.summary.get("prompts", {}).values()), {})

    @property
    def prompt_key(self) -> str:
        """What the prompts were made from; equal keys give equal prompts for one item."""
        prints = [str(prompt.get("fingerprint")) for prompt in self.summary["prompts"].values()]
        return f"{self.format()['format']} ({', '.join(prints)})"

    @cached_property
    def metric(self) -> str:
        """``accuracy`` if any nugget has a gold label, else ``gain``."""
        return ACCURACY if any(self._gold.values()) else GAIN_METRIC

    def format(self) -> dict[str, Any]:
        """The prompt and format type as a results file says what a format is."""
        name = f"{self._settings['prompt_type']}×{self._settings['format_type']}"
        if self._settings.get("constrain") == "evidence":
            name = "evidence"  # which has a prompt of its own
        return {
            "format": name,
            "fingerprint": self.prompt.get("fingerprint"),
            "version": self.prompt.get("version"),
            "yaml": None,
            "reader": f"nugget_labels (format_type: {self._settings['format_type']!r})",
        }

    def config(self) -> dict[str, Any]:
        """The settings that can change a label, as the config of a task."""
        config = self.summary["config"]
        elsewhere = ("backend", "model_args", "prompt_type", "format_type", "gen_kwargs", "seed")
        asked = {k: v for k, v in self._settings.items() if k not in elsewhere}
        evaluation = {k: v for k, v in config["evaluation"].items() if k != "use_cache"}
        return {"output_type": "generate_until", **asked, **evaluation, **config["data"]}

    def notes(self) -> list[str]:
        """What the score is, and what it was made without."""
        if self.metric == GAIN_METRIC:
            return [
                "no gold labels: a nugget scores the gain of its label, not whether it is right"
            ]
        return ["a nugget scores 1 if its label is that of the gold"]

    def usage(self) -> dict[str, Any]:
        """What all judges cost together."""
        total: dict[str, Any] = {}
        for judge in self.summary["judges"]:
            for key, value in (judge.get("usage") or {}).items():
                if isinstance(value, int | float):
                    total[key] = total.get(key, 0) + value
        return total

    def counted(self) -> tuple[int, float]:
        """How many nuggets have a score, and its sum."""
        scores = [nugget.score for nugget in self.nuggets()]
        return len(scores), sum(scores)

    def nuggets(self) -> Iterator[JudgedNugget]:
        """Every nugget that has a score, in the order of the file."""
        numbers = count()
        for item, record in enumerate(read_labelled(self.folder / ASSIGNMENTS)):
            for position, nugget in enumerate(record.nuggets):
                number, key = next(numbers), (item, position)
                gold, label = self._gold.get(key), nugget.assignment
                if self.metric == ACCURACY and gold is None:
                    continue
                yield JudgedNugget(
                    number,
                    key,
                    record.qid,
                    record.unit,
                    nugget.text,
                    label,
                    gold,
                    self.score(label, gold),
                    self._deciding.get(key),
                )

    def score(self, label: Label | None, gold: Label | None) -> float:
        """What a label is worth; 0 if it is missing."""
        if label is None:
            return 0.0
        return float(label == gold) if self.metric == ACCURACY else GAIN[label]

    def replies(self, *needed: str) -> Iterator[dict[str, Any]]:
        """The rows of the replies file, each with the index of its ``item`` and what is ``needed``."""
        indices: dict[tuple[str, str], int] = {}
        for row in read_rows(self.folder / REPLIES):
            values = dict(row.values)
            if "item" not in values:  # written by an older version
                indices = indices or self._item_indices()
                values["item"] = indices.get((str(values.get("qid")), str(values.get("unit", ""))))
            lacking = next((name for name in needed if values.get(name) is None), None)
            if flaw := lacking or _flaw(values):
                raise ComparisonError(
                    f"{row.place} is damaged: `{flaw}` is not what a judge writes there. Run it again."
                )
            yield values

    def keys_of(self, row: Mapping[str, Any]) -> list[Key]:
        """The nuggets that a reply is about."""
        return [(int(row["item"]), int(number) - 1) for number in row["nuggets"]]

    @cached_property
    def _gold(self) -> dict[Key, Label]:
        gold: dict[Key, Label] = {}
        for row in self.replies():
            for key, label in zip(self.keys_of(row), row.get("gold") or (), strict=False):
                if label in LABELS:
                    gold[key] = label
        return gold

    @cached_property
    def _deciding(self) -> dict[Key, dict[str, Any]]:
        """Nugget → the first reply that gave it a label, else the last one about it."""
        deciding: dict[Key, dict[str, Any]] = {}
        labelled: set[Key] = set()
        for row in self.replies():
            for key, label in zip(self.keys_of(row), row["labels"], strict=True):
                if key not in labelled:
                    deciding[key] = row
                if label is not None:
                    labelled.add(key)
        return deciding

    def _item_indices(self) -> dict[tuple[str, str], int]:
        indices: dict[tuple[str, str], int] = {}
        for index, record in enumerate(read_labelled(self.folder / ASSIGNMENTS)):
            if (record.qid, record.unit) in indices:
                raise ComparisonError(
                    f"{self.folder / REPLIES} does not say which text of topic {record.qid!r} a reply "
                    "is about. It was written by an older version: run it again."
                )
            indices[record.qid, record.unit] = index
        return indices


def _summary(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ComparisonError(f"{path} cannot be read: {error}.") from None
    if not isinstance(content, dict) or not {"config", "judges", "prompts"} <= set(content):
        raise ComparisonError(
            f"{path} is not a summary of `nugget-eval`: it lacks config, judges or prompts."
        )
    if not _is_summary(content):
        raise ComparisonError(
            f"{path} is damaged: `config`, `judges` or `prompts` is not what a run writes there. Run it "
            "again, or leave the folder out."
        )
    return content


def _is_summary(content: Mapping[str, Any]) -> bool:
    config, judges, prompts = (content[name] for name in ("config", "judges", "prompts"))
    if (
        not isinstance(config, dict)
        or not isinstance(judges, list)
        or not isinstance(prompts, dict)
    ):
        return False
    parts = [config.get(name) for name in ("model", "data", "evaluation")]
    return (
        all(isinstance(part, dict) for part in (*parts, *judges, *prompts.values()))
        and {"prompt_type", "format_type"} <= set(config["model"])
        and isinstance(config["data"].get("items") or [], list)
        and all("name" in judge for judge in judges)
        and all(isinstance(judge.get("usage") or {}, dict) for judge in judges)
    )


def _flaw(row: Mapping[str, Any]) -> str | None:
    """Which part of a reply's row is not what it should be."""
    numbers, labels, span = row.get("nuggets"), row.get("labels"), row.get("span")
    whole = ("item", "permutation", "expected_count")
    wrong = next((name for name in whole if not isinstance(row.get(name, 0), int)), None)
    if wrong is not None:
        return wrong
    if not isinstance(row.get("texts", []), list):
        return "texts"
    if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
        return "nuggets"
    if not isinstance(labels, list) or len(labels) != len(numbers):
        return "labels"
    is_span = isinstance(span, list) and [type(end) for end in span] == [int, int]
    return None if span is None or is_span else "span"


# Reading the replies again


READER_NAME = "nugget_labels"
VOIDED_BY = {"absent": "support", "verbatim": "not_support"}
"""Earlier versions could put nuggets of known labels into a batch (``canaries``): kind → the label
that voids the reply."""


def reread_folder(folder: JudgedFolder, reader: BoundReader) -> Rereading:
    """Every nugget with its label before and after."""
    notes = list(folder.notes())
    if len(folder.summary["judges"]) > 1:
        notes.append("several judges: their labels are combined as before, by the new readings")
    return Rereading(folder.metric, _items(folder, reader), folder.format()["reader"], notes)


def _items(folder: JudgedFolder, reader: BoundReader) -> Iterator[ReadAgain]:
    votes: dict[Key, dict[tuple[str, int], Label]] = defaultdict(dict)
    asked: dict[Key, set[tuple[str, int]]] = defaultdict(set)
    verdicts: dict[Key, Verdict] = {}
    for row in folder.replies("judge", "permutation", "expected_count", "texts"):
        labels, how = _labels(row, reader)
        voter = (str(row["judge"]), int(row["permutation"]))
        for key, label in zip(folder.keys_of(row), labels, strict=True):
            asked[key].add(voter)
            if label is not None:
                votes[key].setdefault(voter, label)
            if key not in verdicts or not verdicts[key].is_read:
                verdicts[key] = how if label is None else replace(how, answer=label, reason=None)
    after = _combined(folder, asked, votes)
    for nugget in folder.nuggets():
        how = verdicts.get(nugget.key, Verdict(0.0, None, reason="missing"))
        yield _item(folder, nugget, after.get(nugget.key), how)


def _item(
    folder: JudgedFolder, nugget: JudgedNugget, label: Label | None, how: Verdict
) -> ReadAgain:
    row = nugget.row or {}
    span = row.get("span")
    score = folder.score(label, nugget.gold)
    return ReadAgain(
        f"topic {nugget.qid}, {nugget.unit} nugget {nugget.key[1] + 1}".replace(",  ", ", "),
        nugget.number,
        str(row.get("reply", "")),
        nugget.gold or "unknown",
        Verdict(
            nugget.score,
            nugget.label,
            row.get("format_used"),
            None if span is None else (int(span[0]), int(span[1])),
            None if nugget.label is not None else str(row.get("problem") or "missing"),
        ),
        Verdict(score, None, reason=how.reason or "missing")
        if label is None
        else replace(how, score=score, answer=label, reason=None),
        nugget.qid,
    )


def _labels(row: Mapping[str, Any], reader: BoundReader) -> tuple[list[Label | None], Verdict]:
    """The labels of a reply, one per nugget it was asked about, and how they were read."""
    canaries = {canary["place"]: canary["kind"] for canary in row.get("canaries") or ()}
    count = int(row["expected_count"])
    reply = str(row.get("reply") or "")
    if reader.name == READER_NAME:
        asked_for = get_output_format(dict(reader.options).get("format_type") or "adaptive")
        reading = asked_for.read(reply, count, list(map(str, row["texts"])))
        labels: Sequence[Any] = reading.labels
        how = Verdict(0.0, None, reading.format_used, reading.span, reading.error_type)
    else:
        labels, how = _by_other(row, reader, count, reply)
    if any(labels[place] == VOIDED_BY[kind] for place, kind in canaries.items()):
        return [None] * len(row["nuggets"]), Verdict(0.0, None, reason="canary")
    kept = [label for index, label in enumerate(labels) if index not in canaries]
    if row.get("problem") == "snippet":  # a label that its snippet did not bear out stays void
        kept = [None if was is None else now for was, now in zip(row["labels"], kept, strict=True)]
    return kept, how


def _by_other(
    row: Mapping[str, Any], reader: BoundReader, count: int, reply: str
) -> tuple[list[Any], Verdict]:
    """The labels by any other reader, which must give a list of labels."""
    reading = read(reply, (reader,), choices=list(row["texts"]), finish=row.get("finish"))
    value = reading.value
    if not reading.is_answer:
        return [None] * count, Verdict(0.0, None, reason=reading.reason)
    if not isinstance(value, list) or any(label not in LABELS for label in value):
        raise UsageError(
            f"Reader {reader.name!r} gives {value!r}, which is not a list of labels. The replies of "
            f"judges are read by --scorer {READER_NAME}, or --scorer {READER_NAME},format_type=csv."
        )
    padded = [*value, *[None] * count][:count]
    return padded, Verdict(0.0, None, reading.rule, reading.span)


def _combined(
    folder: JudgedFolder,
    asked: Mapping[Key, set[tuple[str, int]]],
    votes: Mapping[Key, Mapping[tuple[str, int], Label]],
) -> dict[Key, Label | None]:
    """The label of each nugget: the median over orders, then combined over judges as in the run."""
    judges = [str(described["name"]) for described in folder.summary["judges"]]
    keys = sorted(asked)
    table = [
        [
            median_label(
                [votes.get(key, {}).get(voter) for voter in sorted(asked[key]) if voter[0] == judge]
            )
            for judge in judges
        ]
        for key in keys
    ]
    how = str(folder.summary["config"]["evaluation"].get("combine", "median"))
    labels = [row[0] for row in table] if len(judges) == 1 else combine(table, how)
    return dict(zip(keys, labels, strict=True))
