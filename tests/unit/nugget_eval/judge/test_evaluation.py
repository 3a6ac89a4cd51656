"""The folder for a judge's files is checked before any question is asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lm_eval.errors import UsageError
from nugget_eval.judge.evaluation import check_output


def test_a_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = check_output(str(tmp_path / "a" / "b"))
    assert folder == tmp_path / "a" / "b"
    assert os.listdir(folder) == []


def test_judges_that_share_a_folder_do_not_take_each_others_probe_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def unlink_twice(path: Path, **options: bool) -> None:
        unlink(path)  # by the other process
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", unlink_twice)
    assert check_output(str(tmp_path)) == tmp_path


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Choose a folder that you can write to"):
        check_output(str(tmp_path / "file" / "out"))
