"""Whole real splits as the hub has them: the files of ``../shared/data/full`` under their hub names.

For tests that run tasks of the library on real rows; they are skipped where the folder is absent. A
split of examples that is not there is the split that is asked.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.support.paths import SHARED
from tests.support.servers.data_hub import Files

FULL = SHARED / "data" / "full"
REASON = "needs the whole splits of ../shared/data/full, which are not part of the project"


def text_of(name: str) -> bytes:
    return gzip.decompress((FULL / f"{name}.jsonl.gz").read_bytes())


def by_column(name: str, column: str) -> dict[str, bytes]:
    """The lines of a file by their value in a column."""
    lines: defaultdict[str, list[bytes]] = defaultdict(list)
    for line in text_of(name).splitlines(keepends=True):
        lines[json.loads(line)[column]].append(line)
    return {value: b"".join(same) for value, same in lines.items()}


def folders(configs: dict[str, dict[str, bytes]]) -> Files:
    """Configuration → split → lines, as files with the README that names them."""
    files: Files = {}
    stated = []
    for config, splits in configs.items():
        named = []
        for split, lines in splits.items():
            path = f"{config}/{split}.jsonl"
            files[path] = lines
            named.append({"split": split, "path": path})
        stated.append({"config_name": config, "data_files": named})
    files["README.md"] = f"---\n{json.dumps({'configs': stated})}\n---\n".encode()
    return files


@cache
def real_repos() -> dict[str, dict[str, Files]]:
    """What a ``DataHub`` serves: repository → branch → files."""
    tests, shots = by_column("mmlu_test", "subject"), by_column("mmlu_dev", "subject")
    pro = text_of("mmlupro_test")
    bbh = {path.name.removeprefix("bbh_").removesuffix(".jsonl.gz"): path for path in bbh_files()}
    configs: dict[str, dict[str, dict[str, bytes]]] = {
        "cais/mmlu": {name: {"test": tests[name], "dev": shots[name]} for name in tests},
        "TIGER-Lab/MMLU-Pro": {"default": {"test": pro, "validation": pro}},
        "allenai/ai2_arc": {
            "ARC-Challenge": {"test": text_of("arc_test"), "train": text_of("arc_validation")}
        },
        "tau/commonsense_qa": {
            "default": {split: text_of("csqa_validation") for split in ("train", "validation")}
        },
        "openai/gsm8k": {"main": {s: text_of(f"gsm8k_{s}") for s in ("train", "test")}},
        "google-research-datasets/nq_open": {
            "nq_open": {split: text_of("nq_validation") for split in ("train", "validation")}
        },
        "oskarvanderwal/bbq": {"All": {"test": text_of("bbq_age")}},
        "google/IFEval": {"default": {"train": text_of("ifeval")}},
        "juletxara/mgsm": {
            code: {split: text_of(f"mgsm_{code}") for split in ("train", "test")}
            for code in ("de", "en", "ja")
        },
        "SaylorTwift/bbh": {
            name: {"test": gzip.decompress(path.read_bytes())} for name, path in bbh.items()
        },
    }
    return {repo: {"main": folders(parts)} for repo, parts in configs.items()}


def bbh_files() -> list[Path]:
    return sorted((FULL / "bbh").glob("bbh_*.jsonl.gz"))
