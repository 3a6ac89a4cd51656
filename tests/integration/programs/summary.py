"""What scripts do with the dict of results: pair scores with errors, format them, keep them as files."""

import json
import pickle

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable, make_table


def pairs(scores):
    """Every score with its error, found by its name."""
    names = [key for key in scores if "," in key and "_stderr" not in key]
    return [[key, scores[key], scores[key.replace(",", "_stderr,")]] for key in sorted(names)]


def plain_numbers(scores):
    """Every score as text, errors aside, as tables of papers show them."""
    shown = (
        key for key in sorted(scores) if "," in key and not key.split(",")[0].endswith("stderr")
    )
    return [f"{key}: {float(scores[key]):.2f}" for key in shown]


def main(folder):
    lm = HFLM(
        pretrained=folder, device="cpu", batch_size=1, max_length=None, subfolder="", peft=None
    )
    results = lm_eval.simple_evaluate(
        model=lm,
        tasks=["arc", "mmlu", "gsm8k"],
        task_manager=TaskManager(include_path="tasks"),
        limit=3,
        gen_kwargs="max_gen_toks=4",
        verbosity="ERROR",
    )
    kept = json.loads(json.dumps(results, default=handle_non_serializable))
    pickled = pickle.loads(pickle.dumps(results["results"]))
    assert kept["results"] == pickled == results["results"]
    every = {**kept["results"], **{f"group {name}": row for name, row in kept["groups"].items()}}
    best = {
        name: max(row.get("acc,none", 0), row.get("acc_norm,none", 0))
        for name, row in results["results"].items()
    }
    return {
        "pairs": {name: pairs(row) for name, row in every.items()},
        "numbers": {name: plain_numbers(row) for name, row in every.items()},
        "best": best,
        "table": make_table(results),
        "groups": make_table(results, "groups"),
    }
