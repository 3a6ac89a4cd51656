"""Weights are told apart by every byte, and large files are read once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from lm_eval.errors import ModelError
from lm_eval.models.local import weights
from lm_eval.models.local.weights import check_gguf

AN_HOUR_AGO = 3600


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose digest is kept, last changed an hour ago."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "KEPT_FROM_BYTES", 1000)
    monkeypatch.setattr(weights, "_SETTLED_S", 0.0)  # ctime cannot be set back
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(300_000))
    backdate(path)
    return path


def backdate(path: Path) -> None:
    past = path.stat().st_mtime - AN_HOUR_AGO
    os.utime(path, (past, past))


def kept(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").rglob("digests/*.json"))


def test_the_digest_is_that_of_the_whole_file(large: Path) -> None:
    expected = f"sha256:{hashlib.sha256(large.read_bytes()).hexdigest()}"
    assert weights.file_digest(large) == expected
    assert weights.file_digest(large) == expected


@pytest.mark.parametrize("place", [0, 1, 12_345, 150_001, 299_999])
def test_one_changed_byte_is_another_model(large: Path, place: int) -> None:
    before = weights.file_digest(large)
    stat = large.stat()
    with large.open("r+b") as file:
        file.seek(place)
        file.write(b"\x01")
    os.utime(large, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as a tool that keeps times would
    assert weights.file_digest(large) != before


def test_a_file_that_did_not_change_is_not_read_again(large: Path, tmp_path: Path) -> None:
    first = weights.file_digest(large)
    (note,) = kept(tmp_path)
    note.write_text(note.read_text().replace(first, "sha256:as-kept"))
    assert weights.file_digest(large) == "sha256:as-kept"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"size": 1}', "not JSON"])
def test_a_damaged_note_is_made_anew(large: Path, tmp_path: Path, content: str) -> None:
    first = weights.file_digest(large)
    (note,) = kept(tmp_path)
    note.write_text(content)
    assert weights.file_digest(large) == first
    assert first in note.read_text()


def test_a_file_that_has_just_changed_is_not_kept(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "_SETTLED_S", 3600.0)
    weights.file_digest(large)
    assert not kept(tmp_path)


def test_small_files_are_read_every_time(large: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    small.write_text("{}")
    assert weights.file_digests([small, large]) == {
        path: f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" for path in (small, large)
    }
    assert len(kept(tmp_path)) == 1


def test_paths_without_a_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("hello")
    (tmp_path / "empty").mkdir()
    wrong = {
        ".": "is a folder, not a GGUF file. It holds text.gguf.",
        "empty": "is a folder, not a GGUF file. It holds no .gguf file.",
        "nowhere.gguf": "nowhere.gguf. Check the path given with --model_args path=",
        "text.gguf": "is not a GGUF file (it begins with b'hell')",
    }
    said = {}
    for name in wrong:
        with pytest.raises(ModelError) as raised:
            check_gguf(tmp_path / name, "path")
        said[name] = str(raised.value)
    assert not {name: said[name] for name, words in wrong.items() if words not in said[name]}
