"""The rows of data sets as the ``datasets`` library and as this package read them, from one hub.

In a process of its own, because that library reads the hub's address when it is imported. Prints one
JSON object: data set → what differs; nothing where the rows are the same.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support.servers.data_hub import DataHub


def rows_of_library(name: str, config: str | None, split: str) -> Any:
    from datasets import load_dataset  # type: ignore[import-not-found, unused-ignore]

    try:
        return [dict(row) for row in load_dataset(name, config)[split]]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def differences(base: Path, repos: dict[str, Any]) -> dict[str, Any]:
    """``repos``: name → files (as hexadecimal digits), configuration and split."""
    os.environ |= {"HF_HOME": str(base / "library"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    with DataHub() as hub:
        os.environ["HF_ENDPOINT"] = hub.url
        for name, (branches, _, _) in repos.items():
            hub.repos[name] = {
                branch: {path: bytes.fromhex(data) for path, data in files.items()}
                for branch, files in branches.items()
            }
        from lm_eval.data import load_splits

        found = {}
        for name, (_, config, split) in repos.items():
            os.environ["HF_HUB_CACHE"] = str(base / "ours")
            ours = load_splits(name, config)[split].to_list()
            theirs = rows_of_library(name, config, split)
            if ours != theirs:
                found[name] = [repr(ours)[:2000], repr(theirs)[:2000]]
    return found


if __name__ == "__main__":
    print(json.dumps(differences(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))))
