"""Write ``golden.json`` anew: what EleutherAI's task files ask about the invented rows of the library.

Run it with the Python of an environment that holds EleutherAI's lm_eval 0.4.13 and nothing of ours:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install 'lm_eval[hf,math]==0.4.13'
    /tmp/peer/bin/python tests/differential/library/regenerate.py

``rows.json`` has the rows: ``python -m tests.differential.library.ours`` writes it with our package.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
PEER = "0.4.13"


def main(wanted: list[str]) -> None:
    version = importlib.metadata.version("lm_eval")
    if version != PEER:
        sys.exit(f"This environment holds lm_eval {version}; the goldens come from {PEER}.")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    without_scorers()
    pairs = yaml.safe_load((HERE / "pairs.yaml").read_text(encoding="utf-8"))
    rows = json.loads((HERE / "rows.json").read_text(encoding="utf-8"))
    golden = {}
    for name, pair in pairs.items():
        if wanted and name not in wanted:
            continue
        asked = renamed(rows[name], pair.get("columns", {}))
        golden[name] = {
            str(shots): requests(pair["peer"], asked, shots) for shots in pair.get("shots", (0, 5))
        }
    text = json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / "golden.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(golden)} benchmarks written. Read the diff before committing it.")


def renamed(rows: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """The rows with further columns, each the value at a path such as ``context.contexts``."""

    def value(row: Any, path: str) -> Any:
        for name in path.split("."):
            row = row[name]
        return row

    return {
        split: [
            {**row, **{name: value(row, path) for name, path in columns.items()}} for row in part
        ]
        for split, part in rows.items()
    }


def without_scorers() -> None:
    """Stand in for the module of scorers that transformers no longer has; prompts do not use it."""
    for name in ("transformers.data.metrics", "transformers.data.metrics.squad_metrics"):
        sys.modules.setdefault(name, types.ModuleType(name))
    parent = sys.modules["transformers.data.metrics"]
    parent.squad_metrics = sys.modules["transformers.data.metrics.squad_metrics"]


def requests(peer: str, rows: dict[str, Any], shots: int) -> list[list[Any]]:
    """What the peer asks about the rows, after the first of the examples."""
    from lm_eval.tasks._yaml_loader import load_yaml

    import lm_eval
    from lm_eval.api.task import ConfigurableTask

    config = dict(load_yaml(Path(lm_eval.__file__).parent / "tasks" / peer, resolve_func=True))
    with tempfile.TemporaryDirectory() as folder:
        for split, part in rows.items():
            lines = "".join(f"{json.dumps(row)}\n" for row in part)
            (Path(folder) / f"{split}.jsonl").write_text(lines, encoding="utf-8")
        config.update(
            dataset_path="json",
            dataset_name=None,
            dataset_kwargs={
                "data_files": {split: f"{folder}/{split}.jsonl" for split in rows},
                "cache_dir": folder,
            },
            training_split="train",
            validation_split=None,
            test_split="test",
            fewshot_split="train",
            num_fewshot=shots,
        )
        if "samples" not in (config.get("fewshot_config") or {}):
            config["fewshot_config"] = {
                **(config.get("fewshot_config") or {}),
                "sampler": "first_n",
                "split": "train",
            }
        for key in ("tag", "group", "include"):
            config.pop(key, None)
        task = ConfigurableTask(config=config)
        task.build_all_requests(limit=None, rank=0, world_size=1)
        return [[one.doc_id, *map(_plain, one.args[:2])] for one in task.instances]


def _plain(argument: Any) -> Any:
    return argument if isinstance(argument, str) else {"until": argument["until"]}


if __name__ == "__main__":
    main(sys.argv[1:])
