"""Files of data sets on this disk: shared with the hub's own tools, filled by one process at a time."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.data.hub.cache import (
    RepoFile,
    RepoFolder,
    checked_name,
    checked_path,
    checked_revision,
    digests_of,
)
from lm_eval.errors import DataError
from tests.support.servers.data_hub import git_sha1

DATA = b'{"q": 1}\n'
SHA256 = hashlib.sha256(DATA).hexdigest()
FILE = RepoFile("data/test.jsonl", len(DATA), sha256=SHA256)
COMMIT = "c" * 40


def test_digests(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(DATA)
    assert digests_of(path) == (SHA256, git_sha1(DATA))


def test_what_is_here_is_found_by_the_tools_of_the_hub(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    folder = RepoFolder(tmp_path, "o/n")
    folder.add(COMMIT, FILE, lambda partial: partial.write_bytes(DATA) and None)
    folder.remember("main", COMMIT)
    found = hub.try_to_load_from_cache("o/n", FILE.path, cache_dir=tmp_path, repo_type="dataset")
    assert Path(found).read_bytes() == DATA
    scan = hub.scan_cache_dir(tmp_path)
    assert [(repo.repo_id, repo.repo_type) for repo in scan.repos] == [("o/n", "dataset")]
    assert not scan.warnings


def test_a_content_is_kept_once_for_all_commits(tmp_path: Path) -> None:
    folder = RepoFolder(tmp_path, "o/n")
    fills = []

    def fill(partial: Path) -> None:
        fills.append(partial)
        partial.write_bytes(DATA)

    first = folder.add(COMMIT, FILE, fill)
    second = folder.add("d" * 40, FILE, fill)
    assert first != second
    assert first.read_bytes() == second.read_bytes() == DATA
    assert len(fills) == 1


def test_a_copy_holds_plain_files(tmp_path: Path) -> None:
    folder = RepoFolder(tmp_path, "o/n", is_copy=True)
    path = folder.add(COMMIT, FILE, lambda partial: partial.write_bytes(DATA) and None)
    assert not path.is_symlink()
    assert not (folder.folder / "blobs").exists()


def test_a_fill_that_fails_leaves_its_beginning(tmp_path: Path) -> None:
    folder = RepoFolder(tmp_path, "o/n")

    def fill(partial: Path) -> None:
        partial.write_bytes(DATA[:4])
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        folder.add(COMMIT, FILE, fill)
    assert not folder.path_at(COMMIT, FILE).exists()
    seen = []
    folder.add(COMMIT, FILE, lambda partial: seen.append(partial.read_bytes()) or None)  # type: ignore[func-returns-value]
    assert seen == [DATA[:4]]


def _fill_slowly(cache: str, log: str) -> None:
    def fill(partial: Path) -> None:
        with Path(log).open("a") as file:
            file.write("begin\n")
        time.sleep(0.3)
        partial.write_bytes(DATA)
        with Path(log).open("a") as file:
            file.write("end\n")

    RepoFolder(Path(cache), "o/n").add(COMMIT, FILE, fill)


def test_two_processes_never_fill_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    several = [
        context.Process(target=_fill_slowly, args=(str(tmp_path / "cache"), str(log)))
        for _ in range(3)
    ]
    for one in several:
        one.start()
    for one in several:
        one.join(120)
    assert [one.exitcode for one in several] == [0, 0, 0]
    assert log.read_text() == "begin\nend\n"


def test_a_new_cache_may_be_made_by_two_processes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "home" / "hub"
    exists = Path.exists

    def exists_a_moment_later(path: Path, **options: bool) -> bool:
        found = exists(path, **options)
        if not found and path in (cache.parent, cache):
            path.mkdir()  # by the other process
        return found

    monkeypatch.setattr(Path, "exists", exists_a_moment_later)
    path = RepoFolder(cache, "o/n").add(COMMIT, FILE, lambda new: new.write_bytes(DATA) and None)
    assert path.read_bytes() == DATA


@pytest.mark.parametrize("noted", ["", "no commit", "../../x", "e" * 39])
def test_a_ref_that_is_not_a_commit_is_not_known(noted: str, tmp_path: Path) -> None:
    folder = RepoFolder(tmp_path, "o/n")
    (folder.folder / "refs").mkdir(parents=True)
    (folder.folder / "refs" / "main").write_text(noted)
    assert folder.commit_of("main") is None


@pytest.mark.parametrize(
    "listed",
    [
        "",
        "{",
        "[]",
        '{"files": [{"path": "a", "sha256": "../../b"}]}',
        '{"files": [{"x": 1}]}',
        '{"files": 3}',
        "null",
    ],
)
def test_a_broken_list_is_asked_for_again(listed: str, tmp_path: Path) -> None:
    folder = RepoFolder(tmp_path, "o/n")
    folder.remember_files(COMMIT, [FILE])
    assert folder.files_at(COMMIT) == [FILE]
    next((folder.folder / "lm-eval").iterdir()).write_text(listed)
    assert folder.files_at(COMMIT) is None


def test_a_list_written_by_someone_else_cannot_lead_out(tmp_path: Path) -> None:
    folder = RepoFolder(tmp_path, "o/n")
    folder.remember_files(COMMIT, [FILE])
    wrong = {"files": [{"path": "../../evil", "size": 1, "sha256": None, "git_sha1": None}]}
    next((folder.folder / "lm-eval").iterdir()).write_text(json.dumps(wrong))
    with pytest.raises(DataError, match="not a path inside it"):
        folder.files_at(COMMIT)


@given(st.text(max_size=30))
def test_no_path_leads_out(text: str) -> None:
    try:
        path = checked_path(text, "o/n")
    except DataError:
        return
    base = Path("/cache/base")
    assert (base / path).resolve().is_relative_to(base)
    assert (base / path).resolve() != base


@given(st.text("ab./-_0 %", max_size=12))
def test_no_name_or_revision_leads_out(text: str) -> None:
    for check in (checked_name, checked_revision):
        try:
            check(text)
        except DataError:
            continue
        assert ".." not in text
        assert not text.startswith("/")


@pytest.mark.parametrize("name", ["openai/gsm8k", "gsm8k", "TIGER-Lab/MMLU-Pro", "a/b_c.d"])
def test_names_of_the_hub(name: str) -> None:
    assert checked_name(name) == name
