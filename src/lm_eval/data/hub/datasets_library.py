"""Data sets of the hub through the optional ``datasets`` library, for what only it can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lm_eval.data.table import Table
from lm_eval.errors import DataError, MissingExtraError


def load_from_hub(
    path: str, name: str | None, kwargs: Mapping[str, Any]
) -> dict[str, Callable[[], Table]] | Callable[[], Table]:
    """Split name → a function that makes its table; a bare function where there is one split.

    Rows become plain Python values only when a split is asked for.
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
    """Say that a data set's own code is not run, if the task would allow it."""
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
