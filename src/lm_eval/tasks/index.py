"""An index of task names and the files that define them, kept between runs.

``lm-eval ls`` lists them and ``TaskManager`` loads them. A file is read again only if its size or time,
or that of a file it includes, has changed. The index is one JSON file for each folder in the user's
cache; deleting it costs one slow listing, nothing else.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from lm_eval.errors import ConfigError, LmEvalError, LmEvalWarning, UsageError, did_you_mean
from lm_eval.support.files import cache_folder

FileKind = Literal["task", "group", "family"]
Stamp = tuple[int, int]
"""Modification time in nanoseconds, and size."""

_KEYS = (
    *("task", "group", "class", "tag", "each", "areas"),
    *("metadata", "doc_to_choice", "template", "formats", "output_type", "num_fewshot"),
    *("dataset_path", "task_alias", "primary_metric"),
)
"""Keys of a task file that its names and facts are made of."""


@dataclass(frozen=True)
class TaskFacts:
    """A task or family in a list. ``counts`` and ``languages``: one for all tasks, or one per task."""

    summary: str = ""
    kind: str = "text"
    """``choices``, ``text``, ``python`` for a task that is a class, ``suite`` for a group of tasks."""
    format: str = ""
    """The default format; empty if the file has its own prompt."""
    shots: int = 0
    licence: str = ""
    is_gated: bool = False
    dataset: str = ""
    counts: tuple[int | None, ...] = (None,)
    languages: tuple[str, ...] = ("",)
    total: int | None = None
    """The docs of a family whose file does not state them per task."""

    def docs(self, tasks: int) -> int | None:
        """The number of docs of all tasks; None if the file does not state it."""
        if self.total is not None:
            return self.total
        counts = [*self.counts] * (tasks if len(self.counts) == 1 else 1)
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def of_member(self, index: int) -> TaskFacts:
        """The facts of one task of a family."""
        count = self.counts[index if len(self.counts) > 1 else 0]
        language = self.languages[index if len(self.languages) > 1 else 0]
        return replace(self, counts=(count,), languages=(language,), total=None)


@dataclass(frozen=True)
class IndexedFile:
    """What one YAML file defines; ``kind`` is None for a template that others include."""

    path: str
    stamp: Stamp
    includes: tuple[tuple[str, Stamp], ...]
    """The files that it includes, as they were when it was read."""
    kind: FileKind | None
    name: str
    tags: tuple[str, ...]
    facts: TaskFacts
    members: tuple[str, ...] = ()
    """The tasks of a family, whose name is that of their group."""
    areas: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The other groups of a family, and their tasks."""

    def entries(self) -> list[Entry]:
        """Every name that the file defines."""
        if self.kind is None:
            return []
        if self.kind != "family":
            return [Entry(self.name, self.kind, self.path)]
        groups = {self.name: self.members, **self.areas}
        return [
            *(
                Entry(group, "group", self.path, tasks, family=self.name)
                for group, tasks in groups.items()
            ),
            *(Entry(task, "task", self.path, family=self.name) for task in self.members),
        ]


@dataclass(frozen=True)
class _Index:
    """The file that keeps an index."""

    format: Literal[5]
    files: list[IndexedFile]


def index_folder(root: Path) -> tuple[list[IndexedFile], list[LmEvalError]]:
    """Every task file below ``root`` in sorted order, and the errors of those that cannot be read."""
    remembered = _load(root)
    reader = _FileReader()
    files: list[IndexedFile] = []
    problems: list[LmEvalError] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LmEvalWarning)  # repeated when the task is loaded
        for path, stamp in _yaml_files(root, problems):
            try:
                known = remembered.get(path)
                is_current = known is not None and reader.is_current(known, stamp)
                files.append(known if known and is_current else reader.read(path, stamp))
            except LmEvalError as error:
                problems.append(error)
    if files != list(remembered.values()):
        _save(root, files)
    return files, problems


class _FileReader:
    """Reads files that are new or changed, and each included file once."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp] = {}
        self._merged: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {}

    def is_current(self, known: IndexedFile, stamp: Stamp) -> bool:
        """Whether neither the file nor what it includes has changed."""
        return known.stamp == stamp and all(
            self._stamp(path) == included for path, included in known.includes
        )

    def _stamp(self, path: str) -> Stamp:
        if path not in self._stamps:
            self._stamps[path] = _stamp(path) or (0, 0)
        return self._stamps[path]

    def read(self, path: str, stamp: Stamp) -> IndexedFile:
        keys, chain = self._keys(path, ())
        includes = tuple((include, self._stamp(include)) for include in chain)
        kind, tags = _kind(keys), _tags(keys.get("tag"), path)
        if kind != "family":
            name = str(keys[kind]) if kind else ""
            return IndexedFile(path, stamp, includes, kind, name, tags, facts_of(keys))
        from lm_eval.tasks.families import Family, filled

        family = Family.from_mapping(keys, source=path)
        facts = facts_of(keys, family.members.values(), filled)
        file = IndexedFile(path, stamp, includes, kind, family.name, tags, facts)
        return replace(file, members=tuple(family.members), areas=dict(family.areas))

    def _keys(self, path: str, above: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The keys that decide a file's names and facts, includes merged, and the included files."""
        if path in self._merged:
            return self._merged[path]
        from lm_eval.config.yaml import read_yaml_file  # late: most often no file has changed

        data = read_yaml_file(path, run_code=False)
        merged: dict[str, Any] = {}
        chain: list[str] = []
        written = data.get("include") or []
        if not isinstance(written, list):  # what is no name is an error when the task is loaded
            written = [written] if isinstance(written, str) else []
        for include in written:
            target = os.path.normpath(os.path.join(os.path.dirname(path), str(include)))
            if target in above:
                break  # loading the task raises the error
            inherited, below = self._keys(target, (*above, path))
            merged.update(inherited)
            chain += [target, *below]
        merged.update({key: data[key] for key in _KEYS if key in data})
        if above:  # only includes are read again
            self._merged[path] = merged, tuple(chain)
        return merged, tuple(chain)


def _kind(keys: Mapping[str, Any]) -> FileKind | None:
    if "each" in keys and "task" in keys:
        return "family"
    if "class" in keys and isinstance(keys.get("task"), str):
        return "task"
    if isinstance(keys.get("group"), str):
        return "group"
    return "task" if isinstance(keys.get("task"), str) else None


def _tags(written: Any, path: str) -> tuple[str, ...]:
    tags = [written] if isinstance(written, str) else written or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        from lm_eval.config.fields import shorten

        raise ConfigError(
            f"{path}: tag must be a name or a list of names, not {shorten(written)}.", path=path
        )
    return tuple(tags)


def _yaml_files(root: Path, problems: list[LmEvalError]) -> Iterator[tuple[str, Stamp]]:
    """``*.yaml`` below a folder, sorted, with their stamps; links to folders are not followed.

    Folders that cannot be read, and links to nothing, are added to ``problems``.
    """
    if root.is_file():
        yield str(root), _stamp(str(root)) or (0, 0)
        return
    files: list[tuple[str, Stamp]] = []
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            problems.append(_unreadable(folder, str(error.strerror)))
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.name.endswith(".yaml"):
                stamp = _stamp(entry.path)
                if stamp is None:
                    problems.append(_unreadable(entry.path, "it is a link to nothing"))
                else:
                    files.append((entry.path, stamp))
    yield from sorted(files)


def _unreadable(path: str, why: str) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {why}.", path=path)


def _stamp(path: str) -> Stamp | None:
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _memory(root: Path) -> Path:
    digest = hashlib.sha256(str(root.resolve()).encode("utf-8", "surrogatepass")).hexdigest()
    return cache_folder() / f"index-{digest[:16]}.json"


def _load(root: Path) -> dict[str, IndexedFile]:
    """The files of the last run's index; none if it is missing, damaged or of another version."""
    try:
        index = msgspec.json.decode(_memory(root).read_bytes(), type=_Index)
    except (OSError, msgspec.MsgspecError):
        return {}
    return {file.path: file for file in index.files}


def _save(root: Path, files: list[IndexedFile]) -> None:
    """Save the index, by a rename, so that nobody reads half a file; a read-only home is fine."""
    memory = _memory(root)
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=memory.parent, suffix=".partial")
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(_Index(5, files)))
        os.replace(partial, memory)
    except (OSError, UnicodeEncodeError):
        return


Kind = Literal["task", "group", "tag"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and where it is defined."""

    name: str
    kind: Kind
    path: str | None = None
    members: tuple[str, ...] = ()
    """The tasks with a tag, or in a group of a family."""
    family: str | None = None
    """The family of the name, which is also the name of the group of all its tasks."""
    also: str | None = None
    """Another file of the same folder that defines this name."""
    hides: str | None = None
    """The file of the library that defines this name too."""

    @property
    def is_own_group(self) -> bool:
        """Whether this is a group file of a user."""
        return self.kind == "group" and self.family is None and not _in_library(self.path)

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
        self._files: dict[Path, list[IndexedFile]] = {}
        self.entries: dict[str, Entry] = {}
        self.problems: list[LmEvalError] = []
        """Files that could not be indexed; other names can be used nonetheless."""
        for root in roots:
            self._add_root(root)

    def of_kind(self, kind: Kind) -> list[str]:
        """The known names of a kind, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.kind == kind)

    def families(self) -> list[str]:
        """The groups of all tasks of a family."""
        return [name for name, entry in self.entries.items() if entry.family == name]

    def listed(self) -> Iterator[tuple[Path, IndexedFile]]:
        """Every file that defines something, with its facts and its root folder."""
        for root, files in self._files.items():
            yield from ((root, file) for file in files if file.kind is not None)

    def _add_root(self, root: Path) -> None:
        files, problems = index_folder(root)
        self._files[root] = files
        self.problems += problems
        tags: dict[str, list[str]] = {}
        for file in files:
            for entry in file.entries():
                self._add(entry, root)
            for tag in file.tags if file.kind in ("task", "family") else ():
                tags.setdefault(tag, []).append(file.name)
        for tag, members in tags.items():
            known = self.entries.get(tag)
            if known is None or known.kind == "tag":
                both = dict.fromkeys([*(known.members if known else ()), *members])
                self.entries[tag] = Entry(tag, "tag", members=tuple(both))

    def _add(self, entry: Entry, root: Path) -> None:
        """Add a name that one file defines. Of two files with one name, neither is chosen, but a user's
        file replaces a file of the library.

        With ``parity`` the harness's rules apply: the first file of a root, and of two roots the later.
        """
        known = self.entries.get(entry.name)
        is_own = known is not None and _in_library(known.path) and not _in_library(entry.path)
        if known is not None and is_own:
            self.entries[entry.name] = replace(entry, hides=known.path)
        elif known is None or known.kind == "tag" or known.path == entry.path:
            self.entries[entry.name] = entry
        elif not self._parity:
            self.entries[entry.name] = replace(known, also=entry.path)
            self.problems.append(self.entries[entry.name].defined_twice())
        elif not Path(str(known.path)).is_relative_to(root):
            warnings.warn(
                f"{entry.kind.capitalize()} {entry.name!r} of {entry.path} takes the place of the one "
                f"in {known.path}.",
                LmEvalWarning,
                stacklevel=2,
            )
            self.entries[entry.name] = entry


LIBRARY = Path(__file__).parent / "library"
"""The benchmarks that come with the package."""


def _in_library(path: str | None) -> bool:
    return path is not None and Path(path).is_relative_to(LIBRARY)


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
    return [*([LIBRARY] if include_defaults else []), *map(Path, paths)]


def split_selector(selector: str) -> tuple[str, str | None]:
    """``my_task@mcq::gpqa`` → ``("my_task", "mcq::gpqa")``; without ``@``, the format is None."""
    stripped = selector.strip()
    name, at, format_name = stripped.rpartition("@")
    if not at or "/" in format_name or format_name.endswith((".yaml", ".yml")):
        return stripped, None  # an @ in a path is part of it
    if not name or not format_name or ("@" in name and "/" not in name):
        raise UsageError(
            f"{selector!r} is not a task@format: one name belongs on each side of one @, such "
            "as my_task@mcqa, or my_task@* for every format of the task."
        )
    return name, format_name


def _folders_beside(path: Path) -> list[str]:
    parent = path.parent
    return [file.name for file in parent.iterdir() if file.is_dir()] if parent.is_dir() else []


# Facts about a task for lists. None of them is a setting: a file without any is listed too.


_PLAIN = re.compile(r"\{\{\s*([A-Za-z]\w*)\s*\}\}")
_CHOICE_TEMPLATES = ("mcq", "cloze")

Fill = Callable[[str, Any, Mapping[str, Any]], Any]
"""Key, its value in a file, and the values of variables → the value with these filled in."""


def facts_of(
    keys: Mapping[str, Any], members: Iterable[Mapping[str, Any]] = (), fill: Fill | None = None
) -> TaskFacts:
    """The facts of a file; ``members`` are the values of each task of a family, ``fill`` uses them."""
    written = keys.get("metadata")
    metadata = written if isinstance(written, Mapping) else {}
    each = [*members] or [{}]

    def same_for_all(value: Any) -> str:
        texts = {_text(_value(value, values, fill)) for values in each[:2]}
        return texts.pop() if len(texts) == 1 else ""

    return TaskFacts(
        summary=same_for_all(metadata.get("summary")),
        kind=_kind_listed(keys),
        format=_format(keys),
        shots=_count(keys.get("num_fewshot")) or 0,
        licence=same_for_all(metadata.get("licence", metadata.get("license"))),
        is_gated=bool(metadata.get("gated")),
        dataset=same_for_all(keys.get("dataset_path")),
        counts=_shared([_count(_value(metadata.get("n"), values, fill)) for values in each]),
        total=_count(metadata.get("total")),
        languages=_shared(
            [_language(_value(metadata.get("language"), values, fill)) for values in each]
        ),
    )


def _kind_listed(keys: Mapping[str, Any]) -> str:
    if "class" in keys:
        return "python"
    if "group" in keys and "each" not in keys:
        return "suite"
    template = keys.get("template")
    has_choices = (
        keys.get("doc_to_choice") is not None
        or keys.get("output_type") == "multiple_choice"
        or (isinstance(template, str) and template.startswith(_CHOICE_TEMPLATES))
    )
    return "choices" if has_choices else "text"


def _format(keys: Mapping[str, Any]) -> str:
    written = keys.get("formats", keys.get("template"))
    if isinstance(written, list):
        written = written[0] if written else None
    if isinstance(written, Mapping):
        named = written.get("name", written.get("template"))
        written = named if isinstance(named, str) else next(iter(written), None)
    return _text(written)


def _shared(values: Sequence[Any]) -> tuple[Any, ...]:
    """One value if all are alike."""
    return tuple(values[:1] if all(value == values[0] for value in values) else values)


def _language(value: Any) -> str:
    languages = value if isinstance(value, list) else [value]
    return ", ".join(_text(language) for language in languages if language is not None)


def _value(value: Any, values: Mapping[str, Any], fill: Fill | None) -> Any:
    """A value of a file with a family's values filled in; without Jinja if it is a single name."""
    if not values or not isinstance(value, str) or "{" not in value:
        return value
    plain = _PLAIN.fullmatch(value.strip())
    if plain is not None:
        return values.get(plain[1])
    return value if fill is None else fill("metadata", value, values)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
