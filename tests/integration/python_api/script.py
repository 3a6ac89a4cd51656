"""What a script does with lm_eval, written so that it runs under ours and under EleutherAI's 0.4.13.

Run with the Python of an environment that holds the peer, it writes ``golden.json`` anew:

    /tmp/peer/bin/python tests/integration/python_api/script.py
"""

from __future__ import annotations

import json
import os
import sys
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "differential"
sys.path.insert(0, str(FOLDER))

import fake_model  # noqa: E402

import lm_eval  # noqa: E402
from lm_eval import evaluator  # noqa: E402
from lm_eval.api.model import LM, TemplateLM  # noqa: E402
from lm_eval.tasks import TaskManager, get_task_dict  # noqa: E402


class FakeLM(LM):
    """Everything a model needs, from hashes."""

    tokenizer_name = "fake"

    def __init__(self):
        super().__init__()
        self.seen = []

    def loglikelihood(self, requests):
        self.seen += [told(request) for request in requests]
        return [fake_model.loglikelihood(*request.args) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [fake_model.rolling(*request.args) for request in requests]

    def generate_until(self, requests):
        self.seen += [told(request) for request in requests]
        return [fake_model.generate(r.args[0], r.args[1]["until"]) for r in requests]

    def apply_chat_template(self, chat_history, add_generation_prompt=True):
        return fake_model.chat_text(chat_history, add_generation_prompt)

    def chat_template(self, chat_template=False):
        return "fake"


class LetterLM(TemplateLM):
    """One token for each character; a token is likely if it is the one before it."""

    eot_token_id = 0

    def tok_encode(self, string, add_special_tokens=None, **kwargs):
        return [ord(letter) for letter in string]

    def _loglikelihood_tokens(self, requests, **kwargs):
        scores = []
        for _, context, continuation in requests:
            tokens = context[-1:] + continuation
            same = [one == other for one, other in pairwise(tokens)]
            scores.append((float(sum(same) - len(same) - len(context) / 1000), all(same)))
        return scores

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        return [-float(len(request.args[0])) for request in requests]

    def generate_until(self, requests, disable_tqdm=False):
        return ["" for _ in requests]


def told(request):
    return {
        "args": list(request.args),
        "doc": request.doc,
        "doc_id": request.doc_id,
        "idx": request.idx,
        "repeats": request.repeats,
        "request_type": request.request_type,
        "task_name": request.task_name,
    }


def outcomes():
    """Name → what came out, as JSON holds it. Runs in the folder of the differential test."""
    manager = TaskManager(include_path="tasks", include_defaults=False)
    found = {}

    def run(name, **arguments):
        lm = FakeLM()
        found[name] = lm_eval.simple_evaluate(
            model=lm, task_manager=manager, bootstrap_iters=100, **arguments
        )
        found[f"{name}: seen"] = lm.seen

    run("two tasks", tasks=["arc", "gsm8k"], limit=3, num_fewshot=2)
    run("chat", tasks=["arc", "gsm8k"], limit=2, apply_chat_template=True, num_fewshot=1)
    run(
        "one turn",
        tasks=["arc"],
        apply_chat_template=True,
        num_fewshot=1,
        limit=2,
        fewshot_as_multiturn=False,
        system_instruction="Be brief.",
        fewshot_random_seed=5,
    )
    run("group", tasks=["mmlu"], limit=2)
    run("gen_kwargs", tasks=["gsm8k"], gen_kwargs="temperature=0.5,do_sample=true", limit=1)
    run("samples", tasks=["boolq"], samples={"boolq": [0, 1, 2]}, log_samples=False)
    tasks = manager.load(["boolq", "lambada"])
    found["evaluate"] = lm_eval.evaluate(lm=FakeLM(), task_dict=tasks, limit=3, bootstrap_iters=0)
    nested = get_task_dict(["boolq"], manager)
    found["nested"] = evaluator.evaluate(lm=FakeLM(), task_dict=nested, limit=2, bootstrap_iters=9)
    found["tokens"] = evaluator.simple_evaluate(
        model=LetterLM(), tasks=["arc", "wikitext"], task_manager=manager, bootstrap_iters=0
    )
    found["by hand"] = by_hand(manager)
    found["names"] = {
        "tasks": manager.all_subtasks,
        "groups": manager.all_groups,
        "tags": manager.all_tags,
        "all": manager.all_tasks,
        "matching": manager.match_tasks(["ar*", "mmlu_*", "boolq"]),
        "map": manager.load(["mmlu"])["group_map"],
    }
    return json.loads(json.dumps(found, default=str))


def by_hand(manager):
    """Build, ask, filter and score without the evaluator."""
    found = {}
    for name in ("arc", "gsm8k", "winogrande_jinja", "gen_prefix_bare", "majority_vote", "boolq"):
        task = manager.load([name])["tasks"][name]
        task.set_fewshot_seed(1234)
        task.build_all_requests(limit=5, rank=1, world_size=2)
        second = [told(instance) for instance in task.instances]
        task.set_fewshot_seed(1234)
        task.build_all_requests(
            samples=[0, 1],
            apply_chat_template=True,
            fewshot_as_multiturn=True,
            chat_template=fake_model.chat_text,
            system_instruction="Be brief.",
        )
        chat = [told(instance) for instance in task.instances]
        for instance in task.instances:
            given = instance.args
            ask = fake_model.loglikelihood
            if instance.request_type == "generate_until":
                given, ask = (given[0], given[1]["until"]), fake_model.generate
            instance.resps.extend(ask(*given) for _ in range(instance.repeats))
        task.apply_filters()
        doc = task.eval_docs[0]
        first = [i for i in task.instances if i.doc_id == 0]
        filters = list(first[0].filtered_resps)
        task.set_fewshot_seed(1234)
        found[name] = {
            "rank 1 of 2": second,
            "chat": chat,
            "filtered": [[i.filtered_resps[one] for one in filters] for i in task.instances],
            "scores": {
                one: task.process_results(doc, [i.filtered_resps[one] for i in first])
                for one in filters
            },
            "aggregation": {key: f.__name__ for key, f in task.aggregation().items()},
            "higher_is_better": task.higher_is_better(),
            "version": task.VERSION,
            "prompt": task.fewshot_context(doc, 0),
            "shots": task.fewshot_context(doc, 2, system_instruction="Be brief."),
            "text": task.doc_to_text(doc),
            "target": task.doc_to_target(doc),
            "output_type": task.get_config("output_type"),
            "has docs": [
                task.has_training_docs(),
                task.has_validation_docs(),
                task.has_test_docs(),
            ],
            "test docs": len(list(task.test_docs())) if task.has_test_docs() else None,
        }
    return found


if __name__ == "__main__":
    os.chdir(FOLDER)
    golden = {"peer": "lm_eval 0.4.13", "outcomes": outcomes()}
    text = json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / "golden.json").write_text(text + "\n", encoding="utf-8")
