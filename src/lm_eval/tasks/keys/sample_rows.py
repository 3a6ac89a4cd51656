"""``sample_rows``: invented rows in the schema of a data set, to look at prompts before it is fetched.

In: the key ``sample_rows`` of a task file, a file of JSON lines beside it. Out: splits that hold these
rows under the names that the task uses. Only commands that call no model use them; they never give a
score.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lm_eval.config.fields import compile_field
from lm_eval.data.files import read_file
from lm_eval.data.splits import Splits, type_of
from lm_eval.data.table import Table
from lm_eval.errors import DataError

if TYPE_CHECKING:
    from lm_eval.tasks.config import TaskConfig

SampleUse = Literal["never", "if_absent", "always"]
"""When invented rows replace the data; ``if_absent``: if the data is not on this machine."""

MORE_ROWS = 64
"""The number of rows of other splits: enough to draw examples from."""


def sample_splits(config: TaskConfig, folder: Path | None) -> Splits:
    """The invented rows as each split that the task names.

    In a family, ``{{ name }}`` in a row is replaced by the task's value of that variable of ``each``.
    The split that is asked has each row once. The others begin with the second row and repeat the rows
    as often as examples may need them; with two rows or more, no doc is its own example.
    """
    spec = config.sample_rows
    named, values = (spec["file"], spec.get("values")) if isinstance(spec, Mapping) else (spec, {})
    path = (folder or Path()) / named
    if not path.is_file():
        raise DataError(
            f"sample_rows names {named!r}, and there is no file {path}. Correct the name, or write the "
            "file: a JSON object in each line."
        )
    asked = config.test_split or config.validation_split
    others = {config.training_split, config.validation_split, config.fewshot_split}
    others |= {(config.fewshot_config or {}).get("split")} - {asked}
    loaders = {
        split: partial(_table, path, values or {}, is_asked=split == asked)
        for split in dict.fromkeys([asked, *others])
        if isinstance(split, str)
    }
    splits = Splits(loaders, f"{path} (sample_rows)")
    splits.columns = config.columns
    return splits


def without_numbers(skip_docs: Mapping[str, Any]) -> dict[str, Any]:
    """``skip_docs`` without docs named by number or id, which invented rows do not have."""
    return {reason: named for reason, named in skip_docs.items() if not isinstance(named, list)}


def _table(path: Path, values: Mapping[str, Any], *, is_asked: bool) -> Table:
    read = read_file(path, type_of(path), {})
    rows = [_filled(row, values) if values else row for row in read.to_list()]
    if is_asked or not rows:
        return Table.from_list(rows)
    rotated = [*rows[1:], rows[0]]
    return Table.from_list(rotated * -(-MORE_ROWS // len(rotated)))


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A value of a row with the family's values filled in, also in column names."""
    if isinstance(value, Mapping):
        return {_filled(key, values): _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return compile_field(value)(values) if isinstance(value, str) and "{{" in value else value
