"""Answers come back as they went in, whatever happened to the file in between."""

from __future__ import annotations

import math
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lm_eval
from lm_eval.answers.keys import checksum, decode, encode
from lm_eval.answers.store import AnswerStore, StoreInUseError
from lm_eval.errors import StoreError
from lm_eval.requests import Reply
from lm_eval.requests.values import Usage
from lm_eval.support.secrets import hiding

COUNT = 300


def key(number: int) -> bytes:
    """Spread over all keys, as digests are."""
    return (number * 2654435761 % 2**32).to_bytes(4, "big") + bytes(12)


def answer(number: int) -> Any:
    if number % 3 == 0:
        return Reply(f"reply {number} " * (number % 50), finish="stop", reasoning="hm\ud800")
    return (-number / 7, True) if number % 3 == 1 else -number / 3


def put(store: AnswerStore, key: bytes, answer: Any, **usage: Usage) -> Any:
    """Add an answer and write it; ``usage`` is what tasks have cost."""
    added = store.add(key, answer)
    store.commit(usage)
    return added


def filled(path: Path, count: int = COUNT) -> AnswerStore:
    store = AnswerStore(path)
    for number in range(count):
        put(store, key(number), answer(number))
    return store


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that was closed in order."""
    path = tmp_path_factory.mktemp("whole") / "s.db"
    filled(path).close()
    return path


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a store in the middle of its life: half of it is in the log."""
    folder = tmp_path_factory.mktemp("dying")
    store = filled(folder / "live.db", COUNT // 2)
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(COUNT // 2, COUNT):
        put(store, key(number), answer(number))
    for suffix in ("", "-wal"):
        shutil.copy(folder / f"live.db{suffix}", folder / f"s.db{suffix}")
    store.close()
    assert (folder / "s.db-wal").stat().st_size > 1000
    return folder / "s.db"


# What goes in comes out


@given(
    st.one_of(
        st.floats(),
        st.tuples(st.floats(), st.booleans()),
        st.text(st.characters()),
        st.builds(
            Reply,
            st.text(st.characters()),
            finish=st.sampled_from(["stop", "length", "refused", None]),
            reasoning=st.none() | st.text(),
        ),
    )
)
def test_an_answer_is_the_same_after_writing_and_reading(given_answer: Any) -> None:
    back = decode(encode(given_answer))
    assert type(back) is type(given_answer)
    assert repr(back) == repr(given_answer)  # NaN is NaN, -0.0 is -0.0
    if isinstance(given_answer, Reply):
        assert isinstance(back, Reply)
        assert vars(back) == vars(given_answer)


class _Scalar:
    """As numpy's numbers are."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


def test_put_returns_what_get_will(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path / "s.db")
    for number, given_answer in enumerate(
        [(_Scalar(-1.5), _Scalar(True)), [-2.5, False], _Scalar(3.5), -math.inf, "text", Reply("x")]
    ):
        kept = put(store, key(number), given_answer)
        assert kept == store.get(key(number))
        assert type(kept) in (tuple, float, str, Reply)
    unwritable = object()
    assert put(store, key(99), unwritable) is unwritable
    assert store.get(key(99)) is None
    store.close()


def test_an_answer_is_there_for_others_at_once(tmp_path: Path) -> None:
    ours, theirs = AnswerStore(tmp_path / "s.db"), AnswerStore(tmp_path / "s.db")
    for number in range(10):
        put(ours, key(number), answer(number))
        assert theirs.get(key(number)) == answer(number)
    ours.close()
    theirs.close()


def test_costs_of_other_processes_add_up(tmp_path: Path) -> None:
    for requests in (3, 4):
        store = AnswerStore(tmp_path / "s.db")
        for so_far in range(1, requests + 1):
            usage = Usage(requests=so_far, wall_s=so_far / 2, tokens_thought=2 * so_far)
            put(store, key(so_far), 1.0, t=usage)
        earlier = store.earlier_usage()
        store.close()
    assert earlier == {"t": Usage(requests=3, wall_s=1.5, tokens_thought=6)}


def test_secrets_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", 'in"the-environment')
    with hiding({"auth_token": "in-arguments"}):
        store = AnswerStore(tmp_path / "s.db")
    for answer in (
        'a in"the-environment b',
        "b in-arguments",
        Reply("c", reasoning="in-arguments"),
    ):
        assert put(store, b"k", answer) is answer  # as it came, for the scores
        assert store.get(b"k") is None  # it would be asked for again
    store.close()
    data = (tmp_path / "s.db").read_bytes()
    assert b"the-environment" not in data
    assert b"in-arguments" not in data


# Several processes


def test_a_store_for_one_process_is_refused_to_a_second(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first = AnswerStore(path, alone=True)
    put(first, key(1), 1.0)
    with pytest.raises(StoreInUseError, match="another process holds it"):
        AnswerStore(path, alone=True)
    assert first.get(key(1)) == 1.0
    first.close()
    second = AnswerStore(path, alone=True)
    assert second.get(key(1)) == 1.0
    second.delete()
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys
from lm_eval.answers.store import AnswerStore
path, first = sys.argv[1], int(sys.argv[2])
store = AnswerStore(path)
for number in range(first, first + 200):
    store.add(number.to_bytes(16, "big"), float(number))
    store.commit()
    assert store.get(number.to_bytes(16, "big")) == float(number)
store.close()
"""
OPENING_WRITER = """
import sys
from lm_eval.answers.store import AnswerStore
path, first = sys.argv[1], int(sys.argv[2])
for number in range(first, first + 200):
    store = AnswerStore(path)
    store.add(number.to_bytes(16, "big"), float(number))
    store.commit()
    store.close()  # the last to close removes the log, while others open the store
"""


@pytest.mark.parametrize("program", [WRITER, OPENING_WRITER], ids=["once", "again and again"])
def test_processes_share_a_store(tmp_path: Path, program: str) -> None:
    path = tmp_path / "s.db"
    source = str(Path(lm_eval.__file__).parents[1])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), str(first)], env={"PYTHONPATH": source}
        )
        for first in (0, 100, 1000)  # two of them write the same answers
    ]
    assert [writer.wait(timeout=240) for writer in writers] == [0, 0, 0]
    store = AnswerStore(path)
    assert len(store) == 500
    assert store.get((1199).to_bytes(16, "big")) == 1199.0
    store.close()


# Files that were cut off


def held_by(path: Path) -> int | None:
    """How many answers a file that lost a part holds, all of them right; None where it is refused."""
    try:
        store = AnswerStore(path)
        found = [store.get(key(number)) for number in range(COUNT)]
    except StoreError as error:
        refusal = str(error)
        assert refusal.startswith(f"{path} is damaged, as after a full disk")
        return None
    assert all(one is None or one == answer(n) for n, one in enumerate(found))
    for number in range(COUNT):
        put(store, key(number), answer(number))
    store.close()
    again = AnswerStore(path)
    assert [again.get(key(number)) for number in range(COUNT)] == list(map(answer, range(COUNT)))
    again.close()
    return len(found) - found.count(None)


@given(share=st.floats(0, 1))
def test_a_file_that_lost_its_end_is_refused_or_gives_right_answers(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    data = whole.read_bytes()
    path = tmp_path_factory.mktemp("cut") / "s.db"
    size = int(len(data) * share)
    path.write_bytes(data[:size])
    held = held_by(path)
    assert held == COUNT if size == len(data) else held is None or size == 0 or held > COUNT // 2


@given(share=st.floats(0, 1))
def test_a_log_that_lost_its_end_takes_only_the_latest_answers(
    dying: Path, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    """As after a crash of the machine: SQLite takes what is whole of it."""
    folder = tmp_path_factory.mktemp("cut")
    shutil.copy(dying, folder / "s.db")
    log = Path(f"{dying}-wal").read_bytes()
    (folder / "s.db-wal").write_bytes(log[: int(len(log) * share)])
    held = held_by(folder / "s.db")
    assert held is not None
    assert held >= COUNT // 2


def test_a_file_that_is_damaged_while_it_is_open_is_an_error(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    shutil.copy(whole, path)
    store = AnswerStore(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(path.stat().st_size - 4096))
    with pytest.raises(StoreError, match=r"is damaged.*Delete it or name another file"):
        list(map(store.get, map(key, range(COUNT))))
    store.close()


# Files that are not stores


@pytest.mark.parametrize("content", [b"my notes", b"SQLite format 4\0", bytes(5000)])
def test_another_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"does not hold kept answers.*left as it is"):
        AnswerStore(path)
    assert path.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE answers (x)")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="SQLite file of another program"):
        AnswerStore(path)
    db = sqlite3.connect(path)
    assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("answers",)]
    db.close()


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    filled(path, 1).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(StoreError, match=r"form \(9\)"):
        AnswerStore(path)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="Name a file in a folder"):
        AnswerStore(tmp_path / "file" / "s.db")
    with pytest.raises(StoreError, match="is a folder"):
        AnswerStore(tmp_path)


def test_a_store_is_private_to_its_user(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    store = AnswerStore(path)
    put(store, b"k", "an answer")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    store.close()
    assert modes
    assert set(modes.values()) == {0o600}


# The store of one run


def test_the_last_answer_to_a_key_counts_now_and_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first = AnswerStore(path, alone=True)
    assert first.is_empty
    for number in range(1200):
        first.add(key(number), Reply(f"old {number}"))
    first.commit()
    put(first, key(7), Reply("new"))
    first.add(key(1300), Reply("not on disk yet"))
    asked = [key(number) for number in range(2000)]
    assert first.known(asked) == {*asked[:1200], key(1300)}
    assert first.known([]) == set()
    first.close()
    second = AnswerStore(path, alone=True)
    assert (len(second), second.is_empty) == (1200, False)
    assert second.get(key(7)) == "new"
    assert second.get(key(1300)) is None
    second.close()


def test_a_run_goes_on_with_the_tables_of_older_releases(tmp_path: Path) -> None:
    """They appended answers to one table, or kept them by key in another, or both."""
    path = tmp_path / "s.db"
    old = AnswerStore(path)
    for number in range(4):
        put(old, key(number), Reply(f"answer {number}"), t=Usage(requests=number))
    text, process = encode(Reply("appended")), old._process
    for statement in (
        "ALTER TABLE usage DROP COLUMN tokens_thought",
        "CREATE TABLE thought (process TEXT, task TEXT, tokens INTEGER)",
        f"INSERT INTO thought VALUES ('{process}', 't', 5)",
        "CREATE TABLE journal (key BLOB, answer TEXT, checksum INTEGER)",
        "INSERT INTO journal SELECT key, 'x', 0 FROM answers",
        "PRAGMA user_version = 1",
    ):
        old._db.execute(statement)
    for number in (1, 9):
        row = (key(number), text, checksum(key(number), text))
        old._db.execute("INSERT INTO journal VALUES (?, ?, ?)", row)
    old._db.execute("DELETE FROM journal WHERE answer = 'x' AND key <> ?", (key(1),))
    old.close()
    for _ in range(2):
        again = AnswerStore(path, alone=True)
        assert [again.get(key(number)) for number in (0, 1, 2, 3, 9)] == [
            *("answer 0", "appended", "answer 2", "answer 3", "appended"),
        ]
        assert len(again) == 5
        assert again.earlier_usage() == {"t": Usage(requests=3, tokens_thought=5)}
        again.close()
