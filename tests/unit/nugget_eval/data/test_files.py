"""Files of a nugget evaluation come back as they were, and what is wrong is named with its line."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.errors import DataError, OutputError
from nugget_eval.data import files as runs
from nugget_eval.data.records import (
    Answer,
    Assignment,
    Block,
    Gold,
    Nugget,
    PassageAssignment,
    Sentence,
    Topic,
    nugget_ids,
    with_labels,
)
from tests.support.paths import DATA, SHARED

SAMPLES = DATA / "nuggets/samples"
TREC = SHARED / "data"
Read = Callable[[Path], Iterator[Any]]

# As nuggetizer writes them: its keys in its order, and its words for what failed.
LINES: dict[str, tuple[Read, list[str]]] = {
    "nuggets": (
        runs.read_topics,
        [
            '{"query": "caf\\u00e9 opening hours", "qid": "7", "nuggets": [{"text": "opens at 8", '
            '"importance": "vital"}, {"text": "opens at 8", "importance": "okay"}]}',
            '{"qid": 8, "query": "", "nuggets": [], "reasoning_traces": ["x"]}',
            '{"nuggets": [{"importance": "failed", "text": "t", "trace": {"usage": null}}], "qid":"9"}',
        ],
    ),
    "answers": (
        runs.read_answers,
        [
            '{"run_id": "r", "topic_id": "7", "topic": "q", "references": ["d1", "d2"], '
            '"response_length": 4, "answer": [{"text": "At 8.", "citations": [0, 1]}]}',
            '{"topic_id": "q1", "answer": [{"text": "no citations here"}]}',
            '{"qid": 5, "run_id": 3, "answer": [], "references": null, "note": {"a": [1.50, 1e3]}}',
        ],
    ),
    "assignments": (
        runs.read_assignments,
        [
            '{"query": "q", "qid": "7", "answer_text": "a", "response_length": 1, "run_id": "r", '
            '"nuggets": [{"text": "n", "importance": "vital", "assignment": "support"}, '
            '{"text": "m", "importance": "okay", "assignment": "failed", "reasoning": "…"}]}',
            '{"text": "q", "qid": "7", "candidate_text": "c", "docid": "d#1", "nuggets": '
            '[{"text": "n", "importance": "vital", "assignment": null}]}',
        ],
    ),
    "blocks": (
        runs.read_labelled,
        [
            '{"qid": "7", "query": "q", "block": ["passage", "title"], "block_nuggets_assignment": '
            '[{"text": "n", "assignment": "error"}]}',
        ],
    ),
    "gold": (
        runs.read_labelled,
        ['{"qid": "7", "global_nuggets_assignment": [{"text": "n", "assignment": "support"}]}'],
    ),
}


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def objects(path: Path) -> list[str]:
    """The objects of a file, with the order of their keys."""
    return [json.dumps(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def test_objects_come_back_as_they_were(tmp_path: Path) -> None:
    for kind, (read, lines) in LINES.items():
        source = written(tmp_path / f"{kind}.jsonl", *lines)
        runs.write_records(tmp_path / "out.jsonl", read(source))
        assert objects(tmp_path / "out.jsonl") == objects(source)


def test_the_samples_come_back(tmp_path: Path) -> None:
    answers = list(runs.read_answers(SAMPLES / "answers.jsonl"))
    assert [answer.qid for answer in answers] == ["h-1", "h-2", "h-3"]
    assert all(answer.text and answer.response_length for answer in answers)
    topics = list(runs.read_topics(SAMPLES / "topics.jsonl"))
    assert (topics[0].qid, topics[0].query) == ("12", "")
    assert {nugget.importance for nugget in topics[0].nuggets} == {"vital", "okay"}
    for name, records in (("answers", answers), ("topics", topics)):
        runs.write_records(tmp_path / "out.jsonl", records)
        assert objects(tmp_path / "out.jsonl") == objects(SAMPLES / f"{name}.jsonl")


@pytest.mark.skipif(not TREC.is_dir(), reason="the TREC samples are not beside the project")
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("trec_rag24_answers_gpt4o", runs.read_answers),
        ("trec_rag24_answers_llama31_70b", runs.read_answers),
        ("trec_rag25_dev_nuggets", runs.read_topics),
    ],
)
def test_trec_files_round_trip(name: str, read: Any, tmp_path: Path) -> None:
    source = TREC / f"{name}.jsonl"
    runs.write_records(tmp_path / "out.jsonl", read(source))
    assert objects(tmp_path / "out.jsonl") == objects(source)


def test_labels_put_into_read_nuggets_keep_the_other_keys(tmp_path: Path) -> None:
    topic = next(runs.read_topics(SAMPLES / "topics.jsonl"))
    labels = [None, *["support" for _ in topic.nuggets[1:]]]
    item = Assignment("q", topic.qid, "a", 1, "r", with_labels(topic.nuggets, labels))
    runs.write_records(tmp_path / "out.jsonl", [item])
    row = json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8"))
    assert list(row) == ["query", "qid", "answer_text", "response_length", "run_id", "nuggets"]
    assert row["nuggets"][0]["assignment"] is None  # nuggetizer reads the key of every nugget
    assert row["nuggets"][1]["assignment"] == "support"
    assert row["nuggets"][0]["source"] == "original"
    assert next(runs.read_assignments(tmp_path / "out.jsonl")) == item


def test_new_records_have_the_keys_of_nuggetizer() -> None:
    nuggets = (Nugget("n", "okay", "support"),)
    assert json.dumps(Assignment("q", "7", "a", 2, "r", nuggets).to_row()) == (
        '{"query": "q", "qid": "7", "answer_text": "a", "response_length": 2, "run_id": "r", '
        '"nuggets": [{"text": "n", "importance": "okay", "assignment": "support"}]}'
    )
    passage = PassageAssignment("q", "7", "c", "d", nuggets)
    assert list(passage.to_row()) == ["text", "qid", "candidate_text", "docid", "nuggets"]
    assert Topic("7", "q", (Nugget("n"),)).to_row() == {
        "query": "q",
        "qid": "7",
        "nuggets": [{"text": "n", "importance": "vital"}],
    }
    answer = Answer("r", "7", "q", ("d",), 1, (Sentence("s", (0,)), Sentence("t")))
    assert answer.text == "s t"
    assert list(answer.to_row()) == [
        *("run_id", "topic_id", "topic", "references", "response_length", "answer"),
    ]
    assert answer.to_row()["answer"] == [
        {"text": "s", "citations": [0]},
        {"text": "t", "citations": []},
    ]


def test_a_changed_record_keeps_the_rest_of_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "in.jsonl", '{"extra": "ü", "qid": 8, "query": "alt", "nuggets": []}')
    topic = replace(next(runs.read_topics(path)), query="neu")
    runs.write_records(path, [topic])
    assert objects(path) == ['{"extra": "\\u00fc", "qid": 8, "query": "neu", "nuggets": []}']


def test_a_file_can_be_rewritten_while_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "in.jsonl", *LINES["nuggets"][1])
    before = objects(path)
    runs.write_records(path, runs.read_topics(path))
    assert objects(path) == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_what_stood_there(tmp_path: Path) -> None:
    path = written(tmp_path / "out.jsonl", "before")
    broken = written(tmp_path / "in.jsonl", LINES["gold"][1][0], "{")
    with pytest.raises(DataError, match=r"in\.jsonl, line 2"):
        runs.write_records(path, runs.read_labelled(broken))
    assert path.read_text(encoding="utf-8") == "before\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]
    with pytest.raises(OutputError, match="cannot be written"):
        runs.write_records(path / "below" / "a-file.jsonl", [])


GOOD = '{"qid": "1", "nuggets": []}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"qid": "2", ', r"line 3, column \d+: broken JSON: .*Correct this line, or remove it"),
        ("[1]", r"line 3: each line must be a JSON object, but this one is \[1\]"),
        ('{"qid": "2", "qid": "3"}', "line 3: the key 'qid' occurs twice"),
        ("[" * 100_000, "line 3: nested too deeply|line 3, column"),
        ('{"qd": "2"}', "line 3: the key 'qid' is missing. Did you mean 'qd'"),
        ('{"qid": " "}', "line 3: 'qid' must be an id"),
        ('{"qid": true}', "line 3: 'qid' must be an id"),
        ('{"qid": "2"}', "line 3: the key 'nuggets' is missing"),
        ('{"qid": "2", "nuggets": 3}', "must be a list of objects, not 3"),
        (
            '{"qid": "2", "nuggets": ["a"]}',
            r"nuggets\[1\]: must be an object",
        ),
        (
            '{"qid": "2", "nuggets": [{"text": 1}]}',
            "'text' must be a text, not 1",
        ),
        (GOOD, r"line 3: '1' is already there \(.*line 1\)"),
    ],
)
def test_a_wrong_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "nuggets.jsonl", GOOD, "", line)
    found = runs.read_topics(path)
    assert next(found).qid == "1"  # what comes before is there: files are read line by line
    with pytest.raises(DataError, match=message):
        next(found)


@pytest.mark.parametrize(
    ("label", "nearest"),
    [
        ("suport", "support"),
        ("Supported", "support"),
        ("Not Supported", "not_support"),
        ("partial", "partial_support"),
        ("SUPPORT", "support"),
        ("not-support", "not_support"),
    ],
)
def test_an_unknown_label_is_refused_with_the_nearest(
    label: str, nearest: str, tmp_path: Path
) -> None:
    nuggets = [{"text": "a", "assignment": "support"}, {"text": "b", "assignment": label}]
    row = {"qid": "1", "global_nuggets_assignment": nuggets}
    path = written(tmp_path / "gold.jsonl", json.dumps(row))
    with pytest.raises(DataError) as caught:
        list(runs.read_labelled(path))
    assert f"line 1, global_nuggets_assignment[2]: unknown assignment {label!r}".replace(
        "'", '"'
    ) in str(caught.value)
    assert f"Did you mean {nearest!r}" in str(caught.value)


@pytest.mark.parametrize("value", ["Vital", 1, ["vital"]])
def test_an_unknown_importance_is_refused(value: Any, tmp_path: Path) -> None:
    row = {"qid": "1", "nuggets": [{"text": "a", "importance": value}]}
    path = written(tmp_path / "nuggets.jsonl", json.dumps(row))
    with pytest.raises(DataError, match=r"nuggets\[1\]: unknown importance .*Valid: vital, okay"):
        list(runs.read_topics(path))


@pytest.mark.parametrize("value", [None, "", "failed", "error"])
def test_a_failed_judgement_is_a_missing_label(value: Any, tmp_path: Path) -> None:
    row = {"qid": "1", "global_nuggets_assignment": [{"text": "a", "assignment": value}]}
    (gold,) = runs.read_labelled(written(tmp_path / "gold.jsonl", json.dumps(row)))
    assert gold.nuggets == (Nugget("a", None, None),)
    assert gold.to_row() == row
    labelled = replace(gold, nuggets=with_labels(gold.nuggets, ["support"]))
    assert labelled.to_row()["global_nuggets_assignment"] == [
        {"text": "a", "assignment": "support"}
    ]


def test_other_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing\.jsonl cannot be read: No such file"):
        list(runs.read_topics(tmp_path / "nothing.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes(b'\n{"qid": "\xe9"}\n')
    with pytest.raises(DataError, match="line 2: not UTF-8"):
        list(runs.read_topics(tmp_path / "latin.jsonl"))
    path = written(tmp_path / "run.jsonl", '{"topic_id": "1", "answer": [], "response_length": -1}')
    with pytest.raises(DataError, match="'response_length' must be a whole number, not -1"):
        list(runs.read_answers(path))
    path = written(tmp_path / "run.jsonl", '{"topic_id": "1", "answer": [], "references": [null]}')
    with pytest.raises(DataError, match="'references' must be a list"):
        list(runs.read_answers(path))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *("qid", "topic_id", "query", "text", "nuggets", "answer", "docid", "run_id", "references"),
        *("response_length", "vital_score", "block", "block_nuggets_assignment"),
        *("global_nuggets_assignment", "importance", "assignment", "citations"),
    ]
)
NEARLY = st.fixed_dictionaries(
    {"text": st.text()},
    optional={
        "importance": st.sampled_from(["vital", "okay", "failed", None, 0]),
        "assignment": st.sampled_from(["support", "not_support", "error", None, "", False]),
        "citations": st.lists(st.integers() | st.text(), max_size=2) | st.none(),
        "other": JSON,
    },
)
LISTS = st.lists(NEARLY, max_size=3)
ROWS = st.dictionaries(KEYS, JSON | LISTS) | st.fixed_dictionaries(
    {"qid": st.text(min_size=1) | st.integers()},
    optional={
        **dict.fromkeys(("nuggets", "answer", "global_nuggets_assignment"), LISTS),
        **dict.fromkeys(("query", "text", "topic", "candidate_text"), st.text() | st.none()),
        **dict.fromkeys(("run_id", "docid", "topic_id"), st.text() | st.integers() | st.none()),
        **dict.fromkeys(("references", "block"), st.lists(st.text(), max_size=2) | st.none()),
        "block_nuggets_assignment": LISTS,
        "response_length": st.integers(-1, 5) | st.none(),
        "vital_score": st.sampled_from([0, 1, 0.5, None]),
        "": JSON,
    },
)
READERS = [*(read for read, _ in LINES.values()), runs.read_labelled]


def _read_or_refused(read: Read, path: Path) -> tuple[list[Any], str]:
    try:
        return list(read(path)), ""
    except DataError as error:
        return [], str(error)


@given(ROWS, st.sampled_from(READERS))
def test_any_object_is_read_and_comes_back_or_is_refused(row: Any, read: Read) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "in.jsonl", json.dumps(row))
        found, refusal = _read_or_refused(read, path)
        assert (refusal == "") == bool(found)
        if not found:
            assert "in.jsonl, line 1" in refusal
            return
        (record,) = found
        assert json.dumps(record.to_row()) == json.dumps(row)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        path.write_bytes(content)
        with contextlib.suppress(DataError):
            list(runs.read_labelled(path))


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b"\r\n\r\n")
    assert [gold.qid for gold in runs.read_labelled(path)] == ["1"]


def test_any_file_with_labels_is_recognised(tmp_path: Path) -> None:
    lines = [*LINES["assignments"][1], *LINES["blocks"][1], *LINES["gold"][1]]
    found = list(runs.read_labelled(written(tmp_path / "any.jsonl", *lines)))
    assert [type(item) for item in found] == [Assignment, PassageAssignment, Block, Gold]
    assert [item.unit for item in found] == ["r", "d#1", "", ""]


def test_equal_nuggets_have_their_own_ids() -> None:
    nuggets = [Nugget("a"), Nugget("b"), Nugget("a")]
    ids = nugget_ids("1", nuggets)
    assert len(set(ids)) == 3
    assert ids[0] == "6e5e8fbca452f578"  # never changes: files refer to it
    assert nugget_ids("1", [Nugget("b"), Nugget("a", "okay", "support")]) == [ids[1], ids[0]]
    assert not set(nugget_ids("2", nuggets)) & set(ids)


@given(st.text(), st.text(), st.text(), st.text())
def test_ids_do_not_run_together(qid: str, text: str, qid2: str, text2: str) -> None:
    same = nugget_ids(qid, [Nugget(text)]) == nugget_ids(qid2, [Nugget(text2)])
    assert same == ((qid, text) == (qid2, text2))


def test_topics_of_two_files() -> None:
    notes = runs.match_topics(["1", "2", "3"], ["3", "2", "9"], names=("n.jsonl", "a.jsonl"))
    assert notes == [
        "1 topic of n.jsonl not in a.jsonl: 1.",
        "1 topic of a.jsonl not in n.jsonl: 9.",
    ]
    with pytest.raises(
        DataError, match=r"n\.jsonl and a\.jsonl have no topic in common.* has 1; .*9"
    ):
        runs.match_topics(["1"], ["9"], names=("n.jsonl", "a.jsonl"))


def block(*labels: Any, qid: str = "1") -> Block:
    texts = ["same", "same", "other"]
    nuggets = (Nugget(t, None, label) for t, label in zip(texts, labels, strict=False))
    return Block(qid, "q", ("text",), tuple(nuggets))


def test_the_best_label_over_blocks() -> None:
    blocks = [
        block("not_support", "support", "partial_support"),
        block("not_support", "not_support", "not_support"),
        block("partial_support"),
        block("support", qid="2"),
    ]
    first, second = runs.best_over_passages(blocks)
    labels = [nugget.assignment for nugget in first.nuggets]
    assert labels == ["partial_support", "support", "partial_support"]  # equal texts stay apart
    assert (second.qid, second.nuggets[0].assignment) == ("2", "support")


def test_a_missing_label_of_a_block_is_not_taken_for_a_worse_one() -> None:
    blocks = [block("support", "partial_support", None), block(None, None, None)]
    labels = [nugget.assignment for nugget in runs.best_over_passages(blocks)[0].nuggets]
    assert labels == ["support", None, None]
