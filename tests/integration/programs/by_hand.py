"""Calls around an evaluation: timed methods, requests made by hand, some docs only, side data."""

import json

import lm_eval
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager, get_task_dict
from lm_eval.utils import handle_non_serializable

SIDE = ("eot_token_id", "max_length", "tokenizer_bos_token", "tokenizer_eos_token")


def main(folder):
    lm = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=2)
    manager = TaskManager(include_path="tasks", include_defaults=False)
    return {
        "timed": timed(lm, manager),
        "asked": asked(lm, manager),
        "chosen": chosen(lm, manager),
        "configured": configured(lm, manager),
        "predicted": predicted(lm, manager),
    }


def timed(lm, manager):
    """A profiler that puts its own functions in the place of a model's methods."""
    counts = {}

    def counted(method, kind):
        def call(requests, *args, **kwargs):
            counts[kind] = counts.get(kind, 0) + len(requests)
            return method(requests, *args, **kwargs)

        return call

    before = lm.loglikelihood, lm.generate_until
    lm.loglikelihood = counted(lm.loglikelihood, "loglikelihood")
    lm.generate_until = counted(lm.generate_until, "generate_until")
    results = lm_eval.simple_evaluate(
        model=lm, tasks=["arc", "gsm8k"], limit=2, bootstrap_iters=100, task_manager=manager
    )
    lm.loglikelihood, lm.generate_until = before
    return {"counts": counts, "scores": scores(results), "n-shot": results["n-shot"]}


def asked(lm, manager):
    """One doc of a task, asked and scored step by step."""
    task = get_task_dict(["arc"], manager)["arc"]
    doc = next(iter(task.test_docs() if task.has_test_docs() else task.validation_docs()))
    context = task.fewshot_context(doc, 0)
    requests = task.construct_requests(doc=doc, ctx=context, metadata=("arc", 0, 1))
    answers = lm.loglikelihood(requests)
    metrics = task.process_results(doc, answers)
    return {
        "context": context,
        "arguments": [list(request.args) for request in requests],
        "logprobs": [logprob for logprob, _ in answers],
        "metrics": {name: float(value) for name, value in metrics.items()},
        "target": task.doc_to_target(doc),
        "type": task.OUTPUT_TYPE,
    }


def chosen(lm, manager):
    results = lm_eval.simple_evaluate(
        model=lm, tasks=["arc"], samples={"arc": [1, 3]}, task_manager=manager, log_samples=True
    )
    text = json.dumps(results, default=handle_non_serializable)
    return {
        "ids": [sample["doc_id"] for sample in results["samples"]["arc"]],
        "counts": results["n-samples"],
        "scores": scores(results),
        "side": {name: json.loads(text)[name] for name in SIDE},
        "size": results["config"]["model_num_parameters"],
        "sha": results["config"]["model_sha"],
    }


def configured(lm, manager):
    tasks = get_task_dict(["arc", "gsm8k"], manager)
    for task in tasks.values():
        task.set_config(key="num_fewshot", value=1)
        task.set_fewshot_seed(seed=7)
    results = evaluate(lm=lm, task_dict=tasks, limit=2, bootstrap_iters=0)
    return scores(results)


def predicted(lm, manager):
    results = lm_eval.simple_evaluate(
        model=lm,
        tasks=["gsm8k"],
        limit=2,
        predict_only=True,
        gen_kwargs={"max_gen_toks": 8},
        task_manager=manager,
    )
    samples = results["samples"]["gsm8k"]
    return [[sample["doc_id"], sample["filter"], sample["resps"]] for sample in samples]


def scores(results):
    return {
        task: {name: value for name, value in values.items() if isinstance(value, float)}
        for task, values in results["results"].items()
    }
