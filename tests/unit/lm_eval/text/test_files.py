"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lm_eval.text.files import replacing, write_whole


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
