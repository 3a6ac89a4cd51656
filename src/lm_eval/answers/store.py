"""Answers on disk: one SQLite file, to which an answer is written before it is used.

In: a request's key and the model's answer. Out: the same answer, after a crash too: SQLite itself
repairs the file of a run that was killed. A damaged file is an error that says so, and a file that is
something else is never touched.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lm_eval.answers.keys import checksum, decode, encode, is_plain
from lm_eval.errors import StoreError
from lm_eval.requests import Answer
from lm_eval.requests.values import Usage
from lm_eval.support.files import create_private
from lm_eval.support.secrets import known_secrets

APPLICATION_ID = 0x6C6D6576
"""In the file's header: an SQLite file without it belongs to another program."""
VERSION = 2
BUSY_S = 60.0
_LOG_PAGES = 8000
"""Pages of the log after which they go into the file itself: keys are random, so that a long log writes
each page of their index into the file less often."""
_KEYS_AT_ONCE = 500

_SCHEMA = (
    "CREATE TABLE answers (key BLOB PRIMARY KEY, answer TEXT NOT NULL, checksum INTEGER NOT NULL)",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE usage (process TEXT, task TEXT, requests INTEGER, retries INTEGER, "
    "tokens_in INTEGER, tokens_out INTEGER, tokens_cached INTEGER, wall_s REAL, "
    "tokens_thought INTEGER DEFAULT 0, PRIMARY KEY (process, task)) WITHOUT ROWID",
)
_MAGIC = b"SQLite format 3\0"


class StoreInUseError(StoreError):
    """Another process holds this store for itself."""

    retryable = True


def remove(path: Path) -> None:
    """Remove a store and the files beside it; one that is gone already, or held, is left."""
    for suffix in ("-wal", "-shm", "-journal", ""):
        with suppress(OSError):
            os.unlink(f"{path}{suffix}")


class AnswerStore:
    """Kept answers by key. Several processes may share a store, unless one opened it ``alone``.

    ``alone`` is for a store that one run owns: a second process gets ``StoreInUseError``. Known secrets
    never reach the file. Methods may be called from any thread, one at a time.
    """

    def __init__(self, path: str | Path, *, alone: bool = False) -> None:
        self.path = Path(path)
        self._process = os.urandom(16).hex()
        self._secrets = known_secrets()
        self._wait_s = 0.0 if alone else BUSY_S
        self._alone = alone
        self._added: dict[bytes, str] = {}
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._check_is_store()
            create_private(self.path)
            self._db = self._connected()

    # -- answers -----------------------------------------------------------------------------

    def get(self, key: bytes) -> Answer | None:
        """The answer that is kept under this key; None if there is none."""
        if key in self._added:
            return decode(self._added[key])
        for answer, number in self._rows(_SELECT, (key,)):
            if number == checksum(key, answer):
                return decode(answer)
        return None

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of the keys under which something is kept."""
        known = {key for key in keys if key in self._added}
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            marks = ",".join("?" * len(some))
            rows = self._rows(f"SELECT key FROM answers WHERE key IN ({marks})", some)
            known.update([row[0] for row in rows])
        return known

    def add(self, key: bytes, answer: Answer) -> Answer:
        """Take an answer that ``commit`` is to write.

        Returns the answer as ``get`` will give it: the same, unless it held numbers of a kind that JSON
        does not have. An answer that holds a secret is not kept: it would be asked for again.
        """
        try:
            text = encode(answer)
        except TypeError:  # of a kind that cannot be written down: it is asked again
            return answer
        if self._secrets.occur_in(text):
            return answer
        self._added[key] = text
        return answer if is_plain(answer) else decode(text)

    def commit(self, usage: Mapping[str, Usage] | None = None) -> None:
        """Write what was added, and with it what tasks have cost this process so far.

        Commits in one transaction.
        """
        answers = [(key, text, checksum(key, text)) for key, text in self._added.items()]
        counts = [(self._process, task, *costs.counts()) for task, costs in (usage or {}).items()]
        if answers or counts:
            self._write({_INSERT: answers, _COUNT: counts})
            self._added.clear()

    def __len__(self) -> int:
        return sum(int(row[0]) for row in self._rows("SELECT count(*) FROM answers"))

    @property
    def is_empty(self) -> bool:
        return not self._rows("SELECT 1 FROM answers LIMIT 1")

    # -- beside the answers ------------------------------------------------------------------

    def earlier_usage(self) -> dict[str, Usage]:
        """Task → what it cost the processes that used this store before."""
        rows = self._rows(
            "SELECT task, sum(requests), sum(retries), sum(tokens_in), sum(tokens_out), "
            "sum(tokens_cached), sum(wall_s), sum(tokens_thought) FROM usage WHERE process <> ? "
            "GROUP BY task",
            (self._process,),
        )
        return {task: Usage(*counts) for task, *counts in rows}

    def notes(self) -> dict[str, str]:
        """What was noted beside the answers."""
        return dict(self._rows("SELECT name, value FROM notes"))

    def note(self, name: str, value: str | None) -> None:
        """Note a text beside the answers; None: forget it."""
        if value is None:
            self._write({"DELETE FROM notes WHERE name = ?": [(name,)]})
        else:
            self._write({"INSERT OR REPLACE INTO notes VALUES (?, ?)": [(name, value)]})

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Release the file. What was committed is there."""
        with suppress(sqlite3.Error):
            self._db.close()

    def delete(self) -> None:
        """Release the file, and remove it."""
        self.close()
        remove(self.path)

    # -- inside ------------------------------------------------------------------------------

    def _check_is_store(self) -> None:
        """Refuse a file that is not a store, before anything is done to it."""
        if self.path.is_dir():
            raise StoreError(f"{self.path} is a folder. Name a file in it for the answers.")
        start = b""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            start = file.read(len(_MAGIC))
        if start != _MAGIC[: len(start)]:
            raise self._not_a_store("it is a file of another kind")

    def _not_a_store(self, why: str) -> StoreError:
        return StoreError(
            f"{self.path} does not hold kept answers: {why}. It is left as it is. Name another file: "
            "it is created if it does not exist."
        )

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self.path, timeout=self._wait_s, isolation_level=None, check_same_thread=False
        )
        try:
            if self._alone:
                db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _SCHEMA:
                    db.execute(statement)
                _stamp(db)
            if self._checked_version(db) == 1:
                _bring_up_to_date(db)
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db

    def _checked_version(self, db: sqlite3.Connection) -> int:
        if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise self._not_a_store("it is an SQLite file of another program")
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if not 1 <= version <= VERSION:
            raise StoreError(
                f"{self.path} holds answers in a form ({version}) that this release, which writes "
                f"form {VERSION}, cannot read. Name another file, or use the release that made it."
            )
        return version

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with self._explained():
            return self._db.execute(statement, values).fetchall()

    def _write(self, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
        """Run each statement with each of its rows, all or none of them."""
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for statement, values in rows.items():
                    self._db.executemany(statement, values)
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:  # names in it may be garbled
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> StoreError:
        reason = getattr(error, "strerror", None) or str(error)
        if "locked" in reason:
            return StoreInUseError(
                f"Answers cannot be kept in {self.path}: another process holds it. Wait until that "
                "one has ended, or name another file."
            )
        if any(word in reason for word in _DAMAGE):
            return StoreError(
                f"{self.path} is damaged, as after a full disk or an incomplete copy, so its answers "
                "cannot be used. Delete it or name another file, and run again."
            )
        advice = _FULL_ADVICE if "full" in reason else _OTHER_ADVICE
        return StoreError(f"Answers cannot be kept in {self.path}: {reason}. {advice}")


_SELECT = "SELECT answer, checksum FROM answers WHERE key = ?"
_INSERT = "INSERT OR REPLACE INTO answers VALUES (?, ?, ?)"
_COUNT = "INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FULL_ADVICE = "Free some space; what is there already stays, and the same command goes on from it."
_DAMAGE = ("malformed", "not a database", "no such", "has no column", "encrypted", "UTF-8", "codec")
_OTHER_ADVICE = "Name a file in a folder that you can write to."


def _stamp(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def _bring_up_to_date(db: sqlite3.Connection) -> None:
    """Bring what form 1 kept in other tables, if at all, into those of the schema."""
    db.execute("ALTER TABLE usage ADD COLUMN tokens_thought INTEGER DEFAULT 0")
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "thought" in tables:
        db.execute(
            "UPDATE usage SET tokens_thought = ifnull((SELECT tokens FROM thought WHERE "
            "thought.process = usage.process AND thought.task = usage.task), 0)"
        )
        db.execute("DROP TABLE thought")
    if "journal" in tables:  # the last of equal keys counts
        db.execute("INSERT OR REPLACE INTO answers SELECT * FROM journal ORDER BY rowid")
        db.execute("DROP TABLE journal")
    _stamp(db)
