"""Every known name and the file it comes from: what ``lm-eval ls`` lists and ``TaskManager`` loads.

In: folders of task files. Out: name → ``Entry``. Of a task, only its name, kind and tags are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Literal

from lm_eval.errors import ConfigError, LmEvalError, LmEvalWarning, UsageError, did_you_mean
from lm_eval.tasks.index import IndexedFile, index_folder

Kind = Literal["task", "group", "tag"]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a name comes from."""

    name: str
    kind: Kind
    path: str | None = None
    members: tuple[str, ...] = ()
    """The tasks that carry a tag."""
    also: str | None = None
    """Another file of the same folder that defines this name."""

    def defined_twice(self) -> ConfigError:
        """The error for a name that two files define."""
        return ConfigError(
            f"{self.kind.capitalize()} {self.name!r} is defined twice: in {self.path} and in "
            f"{self.also}. Rename one of the two.",
            path=self.also,
        )


class TaskNames:
    """The names of all tasks, groups and tags below some folders, in the order of the folders.

    ``parity`` chooses between two files of one name as the harness does.
    """

    def __init__(self, roots: Sequence[Path], *, parity: bool = False) -> None:
        self._parity = parity
        self.entries: dict[str, Entry] = {}
        self.problems: list[LmEvalError] = []
        """Files that could not be indexed; the other names are there nonetheless."""
        for root in roots:
            self._add_root(root)

    def of_kind(self, kind: Kind) -> list[str]:
        """The known names of a kind, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.kind == kind)

    def _add_root(self, root: Path) -> None:
        files, problems = index_folder(root)
        self.problems += problems
        tags: dict[str, list[str]] = {}
        for file in files:
            self._add_file(file, root)
            for tag in file.tags if file.kind == "task" else ():
                tags.setdefault(tag, []).append(file.name)
        for tag, members in tags.items():
            known = self.entries.get(tag)
            if known is None or known.kind == "tag":
                both = dict.fromkeys([*(known.members if known else ()), *members])
                self.entries[tag] = Entry(tag, "tag", members=tuple(both))

    def _add_file(self, file: IndexedFile, root: Path) -> None:
        """Note what one file defines. Of two files with one name, neither is chosen.

        With ``parity`` the harness's rules hold: the first of a root, and of two roots the later.
        """
        if file.kind is None:
            return
        known = self.entries.get(file.name)
        entry = Entry(file.name, file.kind, file.path)
        if known is None or known.kind == "tag" or known.path == file.path:
            self.entries[file.name] = entry
        elif not self._parity:
            self.entries[file.name] = replace(known, also=file.path)
            self.problems.append(self.entries[file.name].defined_twice())
        elif not Path(str(known.path)).is_relative_to(root):
            warnings.warn(
                f"{file.kind.capitalize()} {file.name!r} of {file.path} takes the place of the one "
                f"in {known.path}.",
                LmEvalWarning,
                stacklevel=2,
            )
            self.entries[file.name] = entry


def task_roots(
    include_path: str | Path | Sequence[str | Path] | None, *, include_defaults: bool = True
) -> list[Path]:
    """The folders to look in: the built-in library, then those given, which must exist."""
    paths = [include_path] if isinstance(include_path, str | Path) else include_path or []
    for path in paths:
        if not Path(path).exists():
            raise UsageError(
                f"--include_path {str(path)!r} does not exist."
                f"{did_you_mean(Path(path).name, _folders_beside(Path(path)))} "
                "Give a folder with task files."
            )
    library = Path(str(resources.files("lm_eval.tasks"))) / "library"
    return [*([library] if include_defaults else []), *map(Path, paths)]


def split_selector(selector: str) -> tuple[str, str | None]:
    """``my_task@mcq::gpqa`` → ``("my_task", "mcq::gpqa")``; no ``@``, no format."""
    whole = selector.strip()
    name, at, format_name = whole.rpartition("@")
    if not at or "/" in format_name or format_name.endswith((".yaml", ".yml")):
        return whole, None  # an @ in a path is part of it
    if not name or not format_name or ("@" in name and "/" not in name):
        raise UsageError(
            f"{selector!r} is no task@format: one name belongs on each side of one @, such "
            "as my_task@mcqa, or my_task@* for every format of the task."
        )
    return name, format_name


def _folders_beside(path: Path) -> list[str]:
    parent = path.parent
    return [file.name for file in parent.iterdir() if file.is_dir()] if parent.is_dir() else []
