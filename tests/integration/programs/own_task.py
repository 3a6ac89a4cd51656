"""A task that a program changes: methods (in a subclass, on the object), keys of its config, docs."""

from lm_eval.api.registry import get_aggregation, get_metric, is_higher_better
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager, get_task_dict


def first_prompt(results, task):
    arguments = results["samples"][task][0]["arguments"]
    return arguments["gen_args_0"]["arg_0"] if isinstance(arguments, dict) else arguments[0][0]


def main(folder):
    lm = HFLM(pretrained=folder, device="cpu", batch_size=2)
    manager = TaskManager(include_path="tasks")
    found = {}

    base = get_task_dict(["arc"], manager)["arc"]

    class Hinted(type(base)):
        """Says a hint first, and counts how often the gold is the first choice."""

        def doc_to_text(self, doc, doc_to_text=None):
            return "Hint: think. " + super().doc_to_text(doc, doc_to_text)

        def process_results(self, doc, results):
            scores = super().process_results(doc, results)
            return {**scores, "first": float(self.doc_to_target(doc) == 0)}

        def aggregation(self):
            return {**super().aggregation(), "first": get_aggregation("mean")}

        def higher_is_better(self):
            return {**super().higher_is_better(), "first": True}

    hinted = Hinted(config=base.config.to_dict())
    results = evaluate(lm=lm, task_dict={"arc": hinted}, limit=4, bootstrap_iters=0)
    found["subclass"] = [results["results"]["arc"], first_prompt(results, "arc")]

    patched = get_task_dict(["arc"], manager)["arc"]
    plain = patched.doc_to_text
    before = plain(next(iter(patched.test_docs())))
    patched.doc_to_text = lambda doc, *_: plain(doc).upper()
    results = evaluate(lm=lm, task_dict={"arc": patched}, limit=4, bootstrap_iters=0)
    found["object"] = [results["results"]["arc"], before, first_prompt(results, "arc")]

    shorter = get_task_dict(["arc"], manager)["arc"]
    shorter.dataset["test"] = shorter.dataset["test"].select(range(3))
    results = evaluate(lm=lm, task_dict={"arc": shorter}, bootstrap_iters=0)
    found["docs"] = [results["results"]["arc"]["acc,none"], results["n-samples"]["arc"]]

    assigned = get_task_dict(["arc"], manager)["arc"]
    config = assigned.config
    before = assigned.doc_to_text(next(iter(assigned.test_docs())))
    config.doc_to_text = "Q: {{question}}\nA:"
    config.description = "Think first.\n\n"
    results = evaluate(lm=lm, task_dict={"arc": assigned}, limit=4, bootstrap_iters=0)
    found["assigned"] = [results["results"]["arc"], before, first_prompt(results, "arc")]
    found["attributes"] = [assigned.OUTPUT_TYPE, lm.vocab_size, lm.rank, lm.world_size]

    unknown = ("no_such_metric", "no_such_aggregation")
    found["unknown"] = [get_metric(unknown[0]), is_higher_better(unknown[0])]
    found["unknown"].append(get_aggregation(unknown[1]))
    return found
