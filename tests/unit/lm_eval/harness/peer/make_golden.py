"""Write ``golden.json``: what lm_eval 0.4.13 makes of the cases below. Run where the peer is installed:

    path/to/peer/bin/python tests/unit/lm_eval/harness/peer/make_golden.py

The cases are data of ours; only the answers come from the peer. The test reads the file alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cases

GOLDEN = Path(__file__).with_name("golden.json")


def main() -> None:
    os.environ["DISABLE_MULTIPROC"] = "1"
    golden = {
        "filters": [run_filter(case) for case in cases.FILTERS],
        "choices": [run_task("multiple_choice", case) for case in cases.CHOICE_CASES],
        "loglikelihood": [run_task("loglikelihood", case) for case in cases.LOGLIKELIHOOD],
        "rolling": [run_task("loglikelihood_rolling", case) for case in cases.ROLLING],
        "texts": [run_task("generate_until", case) for case in cases.TEXT_CASES],
        "aggregations": [run_aggregation(case) for case in cases.AGGREGATIONS],
        "groups": [run_group(case) for case in cases.GROUPS],
        "utils": run_utils(cases.UTILS),
    }
    text = json.dumps(golden, ensure_ascii=True, indent=0, default=plain)
    GOLDEN.write_text(text + "\n", encoding="utf-8")


def run_filter(case: dict[str, Any]) -> Any:
    import lm_eval.filters

    class Instance:
        def __init__(self, resps: Any, doc: Any) -> None:
            self.resps, self.doc, self.filtered_resps = resps, doc, {}

    steps = [
        [s["function"], {k: v for k, v in s.items() if k != "function"}] for s in case["steps"]
    ]
    docs = case.get("docs") or [{} for _ in case["resps"]]
    instances = [Instance(r, d) for r, d in zip(case["resps"], docs, strict=True)]
    lm_eval.filters.build_filter_ensemble("x", steps).apply(instances)
    return [instance.filtered_resps["x"] for instance in instances]


def run_task(output_type: str, case: dict[str, Any]) -> Any:
    """``process_results`` of a task that never loads data: only what scoring reads is set."""
    from types import SimpleNamespace

    from lm_eval.api.registry import get_metric
    from lm_eval.api.task import ConfigurableTask

    task = object.__new__(ConfigurableTask)
    task.OUTPUT_TYPE = output_type
    task._config = SimpleNamespace(
        process_results=None, doc_to_choice="choices" if case.get("choices") else None
    )
    task.multiple_input = case.get("multiple_input", 0)
    task.multiple_target = int(case.get("multiple_target", False))
    entries = case["metrics"]
    names = [entry["metric"] for entry in entries]
    task._metric_fn_list = {name: get_metric(name) for name in names}
    task._metric_fn_kwargs = {
        entry["metric"]: {k: v for k, v in entry.items() if k != "metric"} for entry in entries
    }
    task._aggregation_list, task._higher_is_better = {}, {}
    task.doc_to_choice = lambda doc: case.get("choices")
    task.doc_to_text = task.doc_to_target = lambda doc: case["gold"]
    results = case["results"]
    if output_type == "multiple_choice":
        results = [tuple(result) for result in results]
    return task.process_results({}, results)


def run_aggregation(case: dict[str, Any]) -> Any:
    from lm_eval.api.registry import get_aggregation
    from lm_eval.evaluator_utils import _compute_task_aggregations

    class Task:
        task_name = "t"

        def aggregation(self) -> dict[str, Any]:
            return {case["metric"]: get_aggregation(case["aggregation"])}

    values = cases.expand(case["values"])
    raw = {(case["metric"], "none"): values}
    found, n = _compute_task_aggregations(Task(), raw, bootstrap_iters=case["iters"])
    return [*found.values(), n]


def run_group(case: dict[str, Any]) -> Any:
    from lm_eval.api.metrics import (
        aggregate_subtask_metrics,
        pooled_sample_stderr,
        unweighted_mean_stderr,
    )

    scores, errors, sizes = case["scores"], case["errors"], case["sizes"]
    return [
        aggregate_subtask_metrics(scores, sizes, True),
        pooled_sample_stderr(errors, sizes),
        aggregate_subtask_metrics(scores, sizes, False),
        unweighted_mean_stderr(errors),
    ]


def run_utils(some: dict[str, Any]) -> Any:
    from lm_eval import utils
    from lm_eval.api.metrics import acc_all, acc_all_stderr

    return {
        "weighted_f1_score": [utils.weighted_f1_score(cases.expand(v)) for v in some["pairs"]],
        "general_detokenize": [utils.general_detokenize(text) for text in some["texts"]],
        "simple_parse_args_string": [utils.simple_parse_args_string(a) for a in some["arguments"]],
        "handle_arg_string": [utils.handle_arg_string(text) for text in some["values"]],
        "acc_all": [acc_all(v) for v in some["acc_all"]],
        "acc_all_stderr": [acc_all_stderr(v) for v in some["acc_all"]],
    }


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


if __name__ == "__main__":
    main()
