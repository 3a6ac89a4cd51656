"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lm_eval.support.files import remove_abandoned, replacing, write_whole


def test_a_file_and_its_folders_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a/b/c.json"
    write_whole(path, "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert os.listdir(path.parent) == ["c.json"]


def test_an_error_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    write_whole(path, "old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.writelines(["half of the new", None])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["c.json"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "target", tmp_path / "link"
    path.write_text("old")
    link.symlink_to(path)
    write_whole(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_a_device_is_written_through() -> None:
    write_whole(Path(os.devnull), "text")
    assert not Path(os.devnull).is_file()


def test_a_folder_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "text")


def test_one_file_is_written_twice_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    with replacing(path) as first, replacing(path) as second:
        first.write("first")
        second.write("second")
    assert path.read_text() == "first", "the last to end"
    assert os.listdir(tmp_path) == ["c.json"]


# Other processes that clear the folder


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "c.json.123.partial").write_text("half")
    (tmp_path / "c.json.123.4.partial").write_text("half")
    (tmp_path / "mine.partial").write_text("of somebody else")
    remove_abandoned(tmp_path)
    assert os.listdir(tmp_path) == ["mine.partial"]


def test_a_file_is_never_taken_for_abandoned_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def cleared_and_replaced(source: Path, target: Path) -> None:
        remove_abandoned(tmp_path)
        replace(source, target)

    monkeypatch.setattr(os, "replace", cleared_and_replaced)
    write_whole(tmp_path / "c.json", "new")
    assert (tmp_path / "c.json").read_text() == "new"
