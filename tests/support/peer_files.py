"""Files as EleutherAI's harness 0.4.13 writes them with ``--log_samples``, made for tests."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STAMP = "2026-01-02T03-04-05.000006"


def write_peer_run(folder: Path, *, replies: Sequence[str], **config: Any) -> Path:
    """A run of task ``g``: what is n plus 1, for n from 1 on; the results file."""
    folder = folder / "model"
    folder.mkdir(parents=True)
    samples = [_sample(number, reply) for number, reply in enumerate(replies)]
    score = sum(one["exact_match"] for one in samples) / len(samples)
    results = {
        "results": {
            "g": {
                "alias": "g",
                "exact_match,strict": score,
                "exact_match_stderr,strict": 0.1,
            }
        },
        "group_subtasks": {"g": []},
        "configs": {"g": _config() | config},
        "versions": {"g": "Yaml"},
        "n-shot": {"g": 0},
        "higher_is_better": {"g": {"exact_match": True}},
        "n-samples": {"g": {"original": len(samples), "effective": len(samples)}},
        "config": {
            "model": "dummy",
            "model_args": {},
            "batch_size": 1,
            "device": "cuda:0",
            "limit": None,
            "gen_kwargs": {},
            "random_seed": 0,
            "numpy_seed": 1234,
            "torch_seed": 1234,
            "fewshot_seed": 1234,
        },
        "git_hash": None,
        "transformers_version": "N/A",
        "lm_eval_version": "0.4.13",
        "task_hashes": {"g": ""},
        "model_source": "dummy",
        "model_name": "model",
        "system_instruction": None,
        "chat_template_sha": None,
        "fewshot_as_multiturn": False,
    }
    lines = "".join(json.dumps(one) + "\n" for one in samples)
    (folder / f"samples_g_{STAMP}.jsonl").write_text(lines, "utf-8")
    path = folder / f"results_{STAMP}.json"
    path.write_text(json.dumps(results), "utf-8")
    return path


def task(data: str) -> dict[str, Any]:
    """The same task for a run of ours, on docs in a file."""
    kept = ("task", "output_type", "doc_to_text", "doc_to_target", "test_split", "filter_list")
    config = {key: value for key, value in _config().items() if key in kept}
    return {
        **config,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": data}},
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }


def docs(count: int) -> list[dict[str, str]]:
    return [{"question": f"What is {n + 1} plus 1?", "answer": str(n + 2)} for n in range(count)]


def _config() -> dict[str, Any]:
    return {
        "task": "g",
        "dataset_path": "json",
        "test_split": "test",
        "doc_to_text": "Q: {{question}}\nA:",
        "doc_to_target": "{{answer}}",
        "unsafe_code": False,
        "description": "",
        "target_delimiter": " ",
        "fewshot_delimiter": "\n\n",
        "fewshot_config": {"sampler": "default", "split": None},
        "num_fewshot": 0,
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "output_type": "generate_until",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
        "repeats": 1,
        "filter_list": [
            {
                "name": "strict",
                "filter": [
                    {"function": "regex", "regex_pattern": "#### (\\d+)"},
                    {"function": "take_first"},
                ],
            }
        ],
        "should_decontaminate": False,
    }


def _sample(number: int, reply: str) -> dict[str, Any]:
    doc = docs(number + 1)[-1]
    found = re.search(r"#### (\d+)", reply)
    left = found[1] if found else "[invalid]"
    prompt = f"Q: {doc['question']}\nA:"
    kwargs = {"until": ["\n"], "max_gen_toks": 8}
    return {
        "doc_id": number,
        "doc": doc,
        "target": doc["answer"],
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": kwargs}},
        "resps": [[reply]],
        "filtered_resps": [left],
        "filter": "strict",
        "metrics": ["exact_match"],
        "exact_match": float(left == doc["answer"]),
    }
