"""What a task file of EleutherAI's harness asks about given rows, for the scripts that write goldens.

Imported by the Python of an environment that holds EleutherAI's lm_eval and nothing of ours.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

PEER = "0.4.13"


def check_peer() -> None:
    """Refuse another release than the goldens come from, and silence the one that is here."""
    version = importlib.metadata.version("lm_eval")
    if version != PEER:
        sys.exit(f"This environment holds lm_eval {version}; the goldens come from {PEER}.")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")


def requests(peer: str, rows: dict[str, Any], shots: int) -> list[list[Any]]:
    """What the peer asks about the rows, after the first of the examples."""
    import lm_eval
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks._yaml_loader import load_yaml

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
