"""Write ``golden.json`` anew: the prompts of EleutherAI's own task files, on the rows of our cases.

Run it with the Python of an environment that holds EleutherAI's lm_eval 0.4.13 and nothing of ours:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install 'lm_eval[hf,math]==0.4.13'
    /tmp/peer/bin/python tests/differential/conventions/regenerate.py

Each case names a task file of that release. Its fields, helpers and delimiters stay as they are;
only its data are replaced by the rows of the case, and its examples by the first of these rows.
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

import yaml

HERE = Path(__file__).parent
PEER = "0.4.13"


def main() -> None:
    version = importlib.metadata.version("lm_eval")
    if version != PEER:
        sys.exit(f"This environment holds lm_eval {version}; the goldens come from {PEER}.")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    cases = yaml.safe_load((HERE / "cases.yaml").read_text(encoding="utf-8"))
    golden = {
        name: {str(shots): requests(case, shots) for shots in case.get("shots", (0, 2))}
        for name, case in cases.items()
        if "peer" in case
    }
    text = json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / "golden.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(golden)} cases written. Read the diff before committing it.")


def requests(case: dict[str, Any], shots: int) -> list[list[Any]]:
    """What the peer asks about the last rows of a case, after examples from its first rows."""
    from lm_eval.tasks._yaml_loader import load_yaml

    import lm_eval
    from lm_eval.api.task import ConfigurableTask

    file = Path(lm_eval.__file__).parent / "tasks" / case["peer"]
    config = dict(load_yaml(file, resolve_func=True))
    rows, kept = case["rows"], case.get("examples", 2)
    with tempfile.TemporaryDirectory() as folder:
        data = {"train": rows[:kept], "test": rows[kept:]}
        for name, part in data.items():
            lines = "".join(f"{json.dumps(row)}\n" for row in part)
            (Path(folder) / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        config.update(
            dataset_path="json",
            dataset_name=None,
            dataset_kwargs={
                "data_files": {name: f"{folder}/{name}.jsonl" for name in data},
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
    main()
