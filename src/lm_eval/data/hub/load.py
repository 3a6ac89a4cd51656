"""A task's ``dataset_path`` on the hub → its splits: by this package, or by the ``datasets`` library."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lm_eval.data.files import CANONICAL, READERS, file_type
from lm_eval.data.splits import HUB_ONLY, FileLoader, Splits
from lm_eval.data.table import Table
from lm_eval.errors import DataError, LmEvalWarning, MissingExtraError, did_you_mean

if TYPE_CHECKING:
    from lm_eval.data.hub.opening import HubData


def splits_on_hub(
    path: str, name: str | None, kwargs: dict[str, Any], *, has_media: bool
) -> Splits:
    """The splits of a data set of the hub; its data is fetched when a split is read."""
    if _needs_library(kwargs, has_media=has_media):
        return _from_library(path, name, kwargs)
    from lm_eval.data.hub.opening import open_data

    say_that_code_is_not_run(path, kwargs)
    _say_what_has_no_effect(path, kwargs)
    options = {key: value for key, value in kwargs.items() if key not in HUB_ONLY}
    data_files, folder = options.pop("data_files", None), options.pop("data_dir", None)
    type_name = None
    if path in READERS:
        data, type_name = _data_at(data_files), path
        if data is None:
            return _from_library(path, name, kwargs)
    else:
        revision = kwargs.get("revision")
        data = open_data(path, name, revision=revision, files=data_files, folder=folder)
    _check_hub_options(data, options, type_name)
    loaders = {
        split: FileLoader(partial(data.fetch, split), _options_of(data, options), type_name)
        for split in data.splits
    }
    if isinstance(data_files, (str, list)):  # whichever split the task names
        splits = Splits({}, data.source, any_name=next(iter(loaders.values())))
    else:
        splits = Splits(loaders, data.source, synonyms=not data.config.is_stated)
    splits.origin = data
    return splits


def is_cached(
    path: str,
    name: str | None,
    kwargs: Mapping[str, Any] | None,
    *,
    revision: str | None,
    files: Any,
    split: str | None,
) -> bool:
    """Whether a split of a data set of the hub is on this machine; the network is not used."""
    from lm_eval.data.hub.opening import open_data
    from lm_eval.data.hub.settings import hub_settings

    options = dict(kwargs or {})
    if path in READERS or split is None or _needs_library(options, has_media=False):
        return False
    settings = replace(hub_settings(), offline="it is not asked")
    try:
        data = open_data(
            path,
            name,
            revision=revision or options.get("revision"),
            files=files or options.get("data_files"),
            folder=options.get("data_dir"),
            settings=settings,
        )
        name_there = split if split in data.config.splits else CANONICAL.get(split, split)
        return all(map(data.repo.is_here, data.files_of(name_there)))
    except DataError:
        return False


def _say_what_has_no_effect(path: str, kwargs: Mapping[str, Any]) -> None:
    instead = {"cache_dir": "set HF_HUB_CACHE", "token": "set HF_TOKEN"}
    for name in instead.keys() & kwargs.keys():
        warnings.warn(
            f"{path}: {name} in dataset_kwargs has no effect; {instead[name]}, or write `loader: "
            "datasets` beside it.",
            LmEvalWarning,
            stacklevel=2,
        )


LOADERS = ("hub", "datasets")
_LIBRARY_ONLY = frozenset(("split", "streaming"))
"""Options that only the ``datasets`` library supports."""


def _needs_library(kwargs: dict[str, Any], *, has_media: bool) -> bool:
    """Whether the ``datasets`` library must read a data set: on request, or because only it can."""
    loader = kwargs.pop("loader", None)
    if loader is not None and loader not in LOADERS:
        raise DataError(
            f"dataset_kwargs: loader cannot be {loader!r}.{did_you_mean(str(loader), LOADERS)} It is "
            f"hub (the default) or datasets, the library of that name."
        )
    known = {"data_files", "data_dir", *HUB_ONLY}
    known |= {option for reader in READERS.values() for option in reader.options}
    others = [key for key in kwargs if key not in known]
    if loader is None:
        return has_media or bool(others) or bool(_LIBRARY_ONLY & kwargs.keys())
    if loader == "hub" and others:
        raise DataError(
            f"dataset_kwargs has {others[0]!r}, which only the `datasets` library takes. Leave it out, "
            f"or write `loader: datasets` beside it."
        )
    return bool(loader == "datasets")


def _check_hub_options(data: HubData, options: Mapping[str, Any], type_name: str | None) -> None:
    if options:
        kinds = (
            {type_name}
            if type_name
            else {file_type(path) for paths in data.config.splits.values() for path in paths}
        )
        for kind in sorted(kind for kind in kinds if kind):
            READERS[kind].check_options(options, kind)


def _options_of(data: HubData, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a task, and those of the data set's README that fit its files."""
    paths = [path for paths in data.config.splits.values() for path in paths]
    takes = READERS[file_type(paths[0]) or "json"].options if paths else ()
    stated = {key: value for key, value in data.config.options.items() if key in takes}
    return {**stated, **options}


def _from_library(path: str, name: str | None, kwargs: dict[str, Any]) -> Splits:
    if path == "tsv":  # a spelling of ours; the library knows csv with another separator
        kwargs = {"sep": "\t", **kwargs}
    loaded = load_from_hub({"jsonl": "json", "tsv": "csv"}.get(path, path), name, kwargs)
    source = f"The dataset {path!r}" + (f" ({name})" if name else "")
    if isinstance(loaded, Mapping):
        return Splits(loaded, source)
    return Splits({}, source, any_name=loaded)


# ``data_files`` that are addresses of the hub


def _data_at(data_files: Any) -> HubData | None:
    """The data behind ``hf://`` addresses, all of one data set; None for any other ``data_files``."""
    from lm_eval.data.hub.layout import data_file_patterns
    from lm_eval.data.hub.opening import open_data

    patterns = data_file_patterns(data_files)
    files: dict[str, list[str]] = {split: [] for split in patterns}
    sources = set()
    for split, addresses in patterns.items():
        for address in addresses:
            parsed = _parse_address(address)
            if parsed is None:
                return None
            repo_id, revision, path = parsed
            sources.add((repo_id, revision))
            files[split].append(path)
    if len(sources) != 1:
        return None
    ((repo_id, revision),) = sources
    return open_data(repo_id, revision=revision, files=files)


def _parse_address(address: str) -> tuple[str, str | None, str] | None:
    """``hf://datasets/owner/name@revision/path`` → name, revision and path; None for others."""
    if not address.startswith("hf://datasets/"):
        return None
    owner, _, inside = address.removeprefix("hf://datasets/").partition("/")
    name, _, path = inside.partition("/")
    name, _, revision = name.partition("@")
    if not (owner and name and path):
        return None
    return f"{owner}/{name}", revision.replace("%2F", "/") or None, path


# The optional ``datasets`` library, for data that only it can read


def load_from_hub(
    path: str, name: str | None, kwargs: Mapping[str, Any]
) -> dict[str, Callable[[], Table]] | Callable[[], Table]:
    """Split name → a function that makes its table; a bare function where there is one split.

    Rows become plain Python values only when a split is read.
    """
    datasets = _import_datasets(path)
    options = {key: value for key, value in kwargs.items() if key != "trust_remote_code"}
    say_that_code_is_not_run(path, kwargs)
    try:
        loaded = datasets.load_dataset(path, name, **options)
    except Exception as error:
        raise DataError(_failed(path, name, error)) from error
    if isinstance(loaded, Mapping):
        return {str(split): _maker(rows) for split, rows in loaded.items()}
    return _maker(loaded)


def say_that_code_is_not_run(path: str, kwargs: Mapping[str, Any]) -> None:
    """Warn that a data set's own code is not run, if the task would allow it."""
    if "trust_remote_code" in kwargs:
        import logging

        logging.getLogger(__name__).warning(
            "%s: trust_remote_code is ignored; loading scripts are not run, and `datasets` no longer "
            "runs them either.",
            path,
        )


def _maker(rows: Any) -> Callable[[], Table]:
    def make() -> Table:
        return Table.owning([dict(row) for row in rows], getattr(rows, "column_names", None) or ())

    return make


def _import_datasets(path: str) -> Any:
    try:
        import datasets

        if getattr(datasets, "IS_STAND_IN", False):  # ours, for the helpers of tasks
            raise ImportError
    except ImportError:
        raise MissingExtraError(
            f"dataset_path {path!r} is not a local file or folder, so it is a name on the Hugging "
            f"Face hub. For local data write `dataset_path: ./file.jsonl`, or `dataset_path: json` "
            f"with `dataset_kwargs: {{data_files: {{test: file.jsonl}}}}`. The hub needs the "
            f"`datasets` library, which is not installed.",
            install="pip install 'lm-eval-formats[datasets]'",
        ) from None
    return datasets


def _failed(path: str, name: str | None, error: Exception) -> str:
    what = f"{path!r}" + (f" (dataset_name {name!r})" if name else "")
    hint = "Check the name and the network, or save the data locally and name the file."
    if "script" in str(error).lower():
        hint = (
            "This dataset needs a loading script, which `datasets` no longer runs. Use a copy of "
            "it in Parquet or JSON."
        )
    return f"The dataset {what} cannot be loaded: {type(error).__name__}: {error}. {hint}"
