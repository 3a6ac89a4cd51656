"""Rows are those of the ``datasets`` library, where it is installed to be compared with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_hub_data import LAYOUTS, jsonl, parquet, readme
from tests.support.paths import ROOT, SOURCE

pytestmark = pytest.mark.skipif(
    find_spec("datasets") is None, reason="needs the datasets library to compare with"
)

TYPES = [
    {
        "text": "a\nb", "n": 2**40, "x": 0.5, "flag": True, "none": None, "list": ["a", None],
        "struct": {"text": ["u"], "label": [1]}, "structs": [{"a": 1, "b": "x"}], "empty": [],
    },
    {
        "text": "", "n": -1, "x": None, "flag": None, "none": None, "list": [], "struct": None,
        "structs": [], "empty": [],
    },
]  # fmt: skip
CSV = b'question,n,x,flag\n"a, b",1,0.5,True\nc,2,1.5,False\n'
MORE: dict[str, tuple[dict[str, bytes], str | None, str]] = {
    "types-parquet": ({"test.parquet": parquet(TYPES)}, None, "test"),
    "csv": ({"test.csv": CSV}, None, "test"),
    "csv-with-sep": (
        {
            "README.md": readme(
                {
                    "config_name": "default",
                    "data_files": [{"split": "test", "path": "x.csv"}],
                    "sep": ";",
                }
            ),
            "x.csv": b"a;b\n1;x\n",
        },
        None,
        "test",
    ),
    "words": (
        {"foo_testing.jsonl": jsonl([{"a": 1}]), "latest.jsonl": b'{"a": 2}\n'},
        None,
        "test",
    ),
    "order": ({f"data/test/{n}.jsonl": b'{"a": %d}\n' % n for n in (10, 9, 1)}, None, "test"),
}


def test_rows_are_those_of_the_library(tmp_path: Path) -> None:
    repos: dict[str, Any] = {}
    for layout, (files, keys) in LAYOUTS.items():
        is_stated = "README.md" in files or keys.get("dataset_name") is None
        if layout == "README, the default":  # the library wants one file type in all configurations
            continue
        if is_stated and not {"dataset_path", "dataset_files"} & keys.keys():
            name = f"org/{re.sub(r'[^a-z]+', '-', layout.lower())}"
            split = keys.get("test_split", "test")
            repos[name] = ({"main": _hex(files)}, keys.get("dataset_name"), split)
    for name, (files, config, split) in MORE.items():
        repos[f"org/{name}"] = ({"main": _hex(files)}, config, split)
    written = tmp_path / "repos.json"
    written.write_text(json.dumps(repos))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.library_rows", str(tmp_path), str(written)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE), str(ROOT)))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}


def _hex(files: dict[str, bytes]) -> dict[str, str]:
    return {path: data.hex() for path, data in files.items()}
