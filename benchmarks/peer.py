"""Measured inside a process of its own, with EleutherAI's ``lm_eval``; prints one JSON object.

The same as ``ours.py build``: seconds for reading the data and for building all requests.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from time import process_time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks")
    parser.add_argument("--task")
    parser.add_argument("--shots", type=int, default=0)
    args = parser.parse_args()

    from lm_eval.tasks import TaskManager

    logging.disable(logging.WARNING)
    start = process_time()
    manager = TaskManager(include_path=args.tasks, include_defaults=False)
    task = manager.load([args.task])["tasks"][args.task]
    loaded = process_time()
    task.set_config("num_fewshot", args.shots)
    task.set_fewshot_seed(1234)
    task.build_all_requests(rank=0, world_size=1)
    built = process_time()
    assert task.instances
    json.dump({"load_s": loaded - start, "build_s": built - loaded}, sys.stdout)


if __name__ == "__main__":
    main()
