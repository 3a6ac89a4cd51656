"""Which files of a data set belong to which split: by its README, by their names, or as converted.

In: the paths of a repository and its README. Out: ``ConfigFiles``, the files of one configuration by
split. Everything here is about names; it uses neither network nor disk.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from lm_eval.data.files import CANONICAL, NOT_DATA, READERS, SPLIT_WORDS, file_type
from lm_eval.errors import DataError, did_you_mean, listing

CONVERTED = "refs/convert/parquet"
"""The branch on which the hub keeps Parquet copies: ``{config}/{split}/NNNN.parquet``."""
DEFAULT = "default"
_SEPARATORS = r"[-._ 0-9]"
_WORDS = "|".join(sorted(CANONICAL, key=len, reverse=True))
_IN_FOLDER = re.compile(rf"(?:^|.*{_SEPARATORS})(?P<word>{_WORDS})(?:{_SEPARATORS}.*)?")
_IN_NAME = re.compile(rf"(?:^|.*{_SEPARATORS})(?P<word>{_WORDS}){_SEPARATORS}.*")
_SHARD = re.compile(r"(?P<split>\w+(?:\.\w+)*)-\d{5}-of-\d{5}.*\..+")
_SHARD_COUNT = re.compile(r"(?P<before>.*?-)(?P<number>\d{5})-of-(?P<count>\d{5})")
_CONFIGS_BLOCK = re.compile(r"^configs:.*\n(?:(?:[ \t#-].*)?\n)*", re.MULTILINE)
_PREFERRED = ("parquet", "arrow", "json", "csv", "tsv", "text")
_MAX_PATTERN = 500


@dataclass(frozen=True)
class ConfigFiles:
    """The data files of one configuration, by split, in the order in which they are read."""

    name: str
    splits: Mapping[str, tuple[str, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the file type that the README states, such as ``sep``."""
    is_stated: bool = True
    """Whether the names of the splits were stated, not inferred from file names."""
    is_default: bool = False
    """Whether the README makes it the default, for tasks that name no configuration."""


def stated_configs(readme: str, paths: Sequence[str]) -> dict[str, ConfigFiles]:
    """The configurations that a README's front matter lists (``configs:``)."""
    named = [(str(e.get("config_name") or DEFAULT), e) for e in _configs_block(readme)]
    return {name: _stated(name, entry, paths) for name, entry in named}


def _configs_block(readme: str) -> list[Mapping[str, Any]]:
    """The entries of ``configs:``; the rest of the front matter can be long and is not parsed."""
    if not readme.startswith("---"):
        return []
    end = re.search(r"^---\s*$", readme[3:], re.MULTILINE)
    block = _CONFIGS_BLOCK.search(readme[: end.start() + 3] + "\n" if end else "")
    if block is None:
        return []
    import yaml

    from lm_eval.config.yaml import SafeLoader

    try:
        entries = yaml.load(block[0], Loader=SafeLoader)["configs"]
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, KeyError):
        return []
    listed = entries if isinstance(entries, list) else [entries]
    return [entry for entry in listed if isinstance(entry, Mapping)]


def _stated(name: str, entry: Mapping[str, Any], paths: Sequence[str]) -> ConfigFiles:
    folder = str(entry.get("data_dir") or "").strip("/")
    below = within(paths, folder) if folder else paths
    options = {key: value for key, value in entry.items() if key in _OPTIONS}
    data_files, is_default = entry.get("data_files"), entry.get("default") is True
    if data_files is None:
        splits = inferred_splits(below, folder)
        return ConfigFiles(name, splits, options, is_stated=False, is_default=is_default)
    splits = {
        split: matching(patterns, paths, folder)
        for split, patterns in data_file_patterns(data_files).items()
    }
    return ConfigFiles(name, splits, options, is_default=is_default)


_OPTIONS = frozenset(option for reader in READERS.values() for option in reader.options)


def data_file_patterns(data_files: Any) -> dict[str, list[str]]:
    """``data_files`` of a README or a task, in any of its spellings, as split → patterns."""
    if isinstance(data_files, Mapping):
        return {str(split): _texts(entry) for split, entry in data_files.items()}
    if isinstance(data_files, list) and all(isinstance(file, Mapping) for file in data_files):
        splits: dict[str, list[str]] = {}
        for entry in data_files:
            split = str(entry.get("split") or "train")
            splits.setdefault(split, []).extend(_texts(entry.get("path")))
        return splits
    return {"train": _texts(data_files)}


def _texts(entry: Any) -> list[str]:
    texts = entry if isinstance(entry, list) else [entry]
    return [str(text) for text in texts if text is not None]


def matching(patterns: Iterable[str], paths: Sequence[str], folder: str = "") -> tuple[str, ...]:
    """The paths that match patterns, in the order of the patterns, each once."""
    chosen: dict[str, None] = {}
    for written in patterns:
        pattern = f"{folder}/{written}" if folder else written
        pattern = re.sub(r"^(?:\./|/)+", "", pattern)
        if "://" in pattern or len(pattern) > _MAX_PATTERN:
            continue
        if pattern in paths:
            chosen[pattern] = None
            continue
        shows_hidden = any(part.startswith((".", "__")) for part in pattern.split("/"))
        matched = filter(_glob(pattern).match, sorted(paths))
        chosen.update(dict.fromkeys(p for p in matched if shows_hidden or not is_hidden(p)))
    return tuple(chosen)


def _glob(pattern: str) -> re.Pattern[str]:
    """A pattern as ``datasets`` reads it: ``*`` stays in its folder, ``**`` does not."""
    from fsspec.utils import glob_translate  # comes with huggingface_hub

    try:
        return re.compile(glob_translate(pattern))
    except ValueError:  # `a**b` is no pattern, and matches nothing
        return re.compile(r"(?!)")


def is_hidden(path: str) -> bool:
    return any(part.startswith((".", "__")) for part in path.split("/"))


def within(paths: Sequence[str], folder: str) -> list[str]:
    """The paths below a folder, unchanged."""
    return [path for path in paths if path.startswith(f"{folder}/")]


def inferred_config(paths: Sequence[str], name: str | None) -> ConfigFiles | None:
    """The files of a configuration that is not stated: a folder of its name, or the repository."""
    folder = ""
    if name is not None and name != DEFAULT:
        folders = [folder for folder in (name, f"data/{name}") if within(paths, folder)]
        if not folders:
            return None
        folder = folders[0]
    splits = inferred_splits(within(paths, folder) if folder else paths, folder)
    return ConfigFiles(name or DEFAULT, splits, is_stated=False) if splits else None


def inferred_splits(paths: Sequence[str], folder: str = "") -> dict[str, tuple[str, ...]]:
    """Split → files, by the first of the hub's rules that finds any:

    ``data/{split}-00000-of-00002.parquet``; a folder with a split word in its name (``test/…``,
    ``en.dev/…``); a file with one (``my-test-v2.jsonl``); else everything is ``train``.
    """
    data = _data_only(path for path in paths if not is_hidden(path))
    cut = len(folder) + 1 if folder else 0
    for rule in (_by_shard, _by_folder, _by_name):
        splits: dict[str, list[str]] = {}
        for path in sorted(data):
            split = rule(PurePosixPath(path[cut:]))
            if split is not None:
                splits.setdefault(split, []).append(path)
        if splits:
            order = [*SPLIT_WORDS, *splits]
            names = sorted(splits, key=order.index)
            return {name: tuple(_of_one_type(splits[name])) for name in names}
    return {"train": tuple(_of_one_type(sorted(data)))} if data else {}


def _by_shard(path: PurePosixPath) -> str | None:
    match = _SHARD.fullmatch(path.name)
    is_in_place = path.parent.name == "data" or path.parent == PurePosixPath(".")
    if match is None or not is_in_place or match["split"] == "data":
        return None
    return match["split"]


def _by_folder(path: PurePosixPath) -> str | None:
    words = [match["word"] for part in path.parts[:-1] if (match := _IN_FOLDER.fullmatch(part))]
    return CANONICAL[words[0]] if words else None


def _by_name(path: PurePosixPath) -> str | None:
    match = _IN_NAME.fullmatch(path.name)
    return CANONICAL[match["word"]] if match else None


def _data_only(paths: Iterable[str]) -> list[str]:
    """The data files; texts (a licence, notes) only if there is nothing else."""
    known = [p for p in paths if file_type(p) and PurePosixPath(p).name not in NOT_DATA]
    return [path for path in known if file_type(path) != "text"] or known


def _of_one_type(paths: Sequence[str]) -> list[str]:
    """The files of the most frequent type: a data set often comes in several, with the same rows."""
    counts = Counter(str(file_type(path)) for path in paths)
    best = max(counts, key=lambda kind: (counts[kind], -_PREFERRED.index(kind)))
    return [path for path in paths if file_type(path) == best]


def converted_configs(paths: Sequence[str]) -> dict[str, ConfigFiles]:
    """The configurations of the converted branch."""
    splits: dict[str, dict[str, list[str]]] = {}
    for path in sorted(paths):
        parts = path.split("/")
        if len(parts) == 3 and parts[2].endswith(".parquet"):
            splits.setdefault(parts[0], {}).setdefault(parts[1], []).append(path)
    return {
        name: ConfigFiles(name, {split: tuple(files) for split, files in by_split.items()})
        for name, by_split in splits.items()
    }


def has_script(paths: Sequence[str], repo_id: str) -> bool:
    """Whether a data set comes with a loading script, which is never run."""
    return f"{repo_id.rpartition('/')[2]}.py" in paths


def chosen_config(configs: Mapping[str, ConfigFiles], name: str | None, source: str) -> ConfigFiles:
    """The configuration of that name; without a name the default, or the only one."""
    if name is not None and name in configs:
        return configs[name]
    if name is None:
        flagged = [files for files in configs.values() if files.is_default]
        if flagged or DEFAULT in configs or len(configs) == 1:
            return [*flagged, configs.get(DEFAULT, next(iter(configs.values())))][0]
        raise DataError(
            f"{source} has several configurations: {listing(configs)}. Name one with dataset_name."
        )
    raise DataError(
        f"{source} has no configuration {name!r}.{did_you_mean(name, configs)} Configurations: "
        f"{listing(configs)}."
    )


def check_shards(paths: Sequence[str], source: str) -> None:
    """Refuse ``…-00000-of-00003`` without its other shards: rows would be missing."""
    groups: dict[tuple[str, str], set[int]] = {}
    for path in paths:
        match = _SHARD_COUNT.match(path)
        if match:
            groups.setdefault((match["before"], match["count"]), set()).add(int(match["number"]))
    for (before, count), numbers in groups.items():
        missing = sorted({*range(min(int(count), 100_000))} - numbers)
        if missing:
            raise DataError(
                f"{source}: {len(missing)} of {int(count)} files of {before}… are missing, the first "
                f"is number {missing[0]}. Fetch them, or name the files to use in dataset_files."
            )
