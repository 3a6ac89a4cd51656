"""Ask the hub whether every benchmark of the library is still there with the columns that it reads.

    python scripts/check_hub.py                 the first task of each file
    python scripts/check_hub.py --every         every task, so every configuration
    python scripts/check_hub.py mmlu gsm8k      these

Needs a network and the extra ``hub``, so it is not part of the tests: run it from time to time. Of
Parquet files only the footers are read, of other files only the beginning; nothing is kept. Each data
set that is gone, closed or has other columns is one line, and then the exit code is 1; of one that has
moved it says where to. ``HF_TOKEN`` opens those whose owners must be asked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lm_eval.data.files import file_type, read_file
from lm_eval.data.hub.repository import HubRepo, RepoFile
from lm_eval.data.splits import check_columns
from lm_eval.data.table import Table
from lm_eval.errors import DataError, LmEvalError, LmEvalWarning
from lm_eval.tasks.index import index_folder, task_roots
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask

BEGINNING = 1 << 20
"""Bytes of a text file that are read."""
_VALUES: dict[str, Any] = {
    "string": "",
    "int": 0,
    "float": 0.0,
    "bool": False,
    "list": [],
    "dict": {},
}


def sample_of(repo: HubRepo, file: RepoFile) -> Table:
    """A table with the columns of a file; its rows are good for names and types alone."""
    from huggingface_hub import HfFileSystem

    kind = file_type(file.path)
    files = HfFileSystem(endpoint=repo.run.settings.endpoint, skip_instance_cache=True)
    address = f"datasets/{repo.id}@{repo.commit}/{file.path}"
    remote = files.open(address, block_size=1 << 16)
    if kind == "parquet":
        return _of_schema(remote)
    name = Path(file.path).name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        is_lined = name.endswith((".jsonl", ".csv", ".tsv"))
        data = remote.read(BEGINNING if is_lined else -1)
        if data and is_lined and len(data) < (file.size or 0):
            data = data[: data.rindex(b"\n") + 1]
        path.write_bytes(data or b"")
        return read_file(path, str(kind), {})


def _of_schema(remote: Any) -> Table:
    import pyarrow
    from pyarrow import parquet

    def value(kind: Any) -> Any:
        types = pyarrow.types
        if types.is_dictionary(kind):
            return value(kind.value_type)
        tests = {
            "string": (types.is_string, types.is_large_string),
            "int": (types.is_integer,),
            "float": (types.is_floating,),
            "bool": (types.is_boolean,),
            "list": (types.is_list, types.is_large_list, types.is_fixed_size_list),
            "dict": (types.is_struct,),
        }
        named = (name for name, ask in tests.items() if any(one(kind) for one in ask))
        return _VALUES.get(next(named, ""))

    schema = parquet.read_schema(remote)
    return Table.from_list([{field.name: value(field.type) for field in schema}])


def check(task: ConfigurableTask) -> str:
    """What the hub has for a task; an error where that is not what the task reads."""
    splits = task.splits
    if splits.origin is None:
        raise DataError("the `datasets` library reads it; this script cannot look at its columns.")
    data = splits.origin
    asked = task.split_names(with_shots=True)
    for split in asked:
        first = data.files_of(splits.name_in_origin(split))[0]
        table = sample_of(data.repo, first)
        if task.config.columns:
            check_columns(table, task.config.columns, source=data.source, split=split)
    moved = "" if data.repo.id == task.config.dataset_path else f" (now {data.repo.id})"
    branch = "" if data.repo.revision == "main" else f", {data.repo.revision}"
    commit = f"commit {data.repo.commit[:12]}{branch}"
    return f"{task.config.dataset_path}{moved}: {', '.join(asked)}; {commit}"


def names_of_library(*, every: bool) -> Iterator[str]:
    """The tasks of the library whose data is on the hub, one of each file or all."""
    files, _ = index_folder(Path(task_roots(None)[0]))
    for file in files:
        if file.kind in ("task", "family") and "/demo/" not in file.path:
            members = list(file.members) or [file.name]
            yield from members if every else members[:1]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tasks", nargs="*", help="tasks, groups or tags (default: the library)")
    parser.add_argument("--every", action="store_true", help="every task of each family")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", LmEvalWarning)
    manager = TaskManager(run_code=False)
    wrong = 0
    names = options.tasks or [*names_of_library(every=options.every)]
    for name in names:
        try:
            tasks = [*manager.load([name])["tasks"].values()]
        except LmEvalError as error:
            print(f"wrong  {name}: {error}", flush=True)
            wrong += 1
            continue
        for task in tasks if options.tasks or options.every else tasks[:1]:
            try:
                print(f"ok     {task.name}: {check(task)}", flush=True)
            except (LmEvalError, OSError, ValueError) as error:
                wrong += 1
                print(f"wrong  {task.name}: {error}", flush=True)
    print(
        f"{wrong} of the library's data sets are not as expected." if wrong else "All as expected."
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
