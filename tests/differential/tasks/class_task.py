"""Tasks written as Python classes."""

import json

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask, Task


class CapitalTask(ConfigurableTask):
    """A configured task that overrides how it asks and scores."""

    VERSION = 3

    def __init__(self, config=None):
        super().__init__(
            config={
                "task": "class_task",
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": {"test": "data/qa_test.jsonl"}},
                "test_split": "test",
                "output_type": "generate_until",
                "doc_to_text": "{{q}}",
                "doc_to_target": "{{a}}",
                "generation_kwargs": {"until": ["\n"]},
                "metric_list": [{"metric": "exact_match"}],
                "metadata": {"version": self.VERSION},
            }
        )

    def process_results(self, doc, results):
        return {"exact_match": float(doc["a"] in results[0])}


class PlainTask(Task):
    """A task with nothing but the abstract methods."""

    VERSION = 1
    OUTPUT_TYPE = "loglikelihood"

    def download(self, data_dir=None, cache_dir=None, download_mode=None):
        with open("data/qa_test.jsonl", encoding="utf-8") as lines:
            self.rows = [json.loads(line) for line in lines]

    def has_training_docs(self):
        return False

    def has_validation_docs(self):
        return False

    def has_test_docs(self):
        return True

    def test_docs(self):
        return self.rows

    def doc_to_text(self, doc):
        return doc["q"]

    def doc_to_target(self, doc):
        return " " + doc["a"]

    def fewshot_context(self, doc, num_fewshot, **kwargs):
        return self.doc_to_text(doc)

    def construct_requests(self, doc, ctx, **kwargs):
        kwargs.pop("apply_chat_template", None)
        kwargs.pop("chat_template", None)
        return [
            Instance("loglikelihood", doc, (ctx, answer), index, **kwargs)
            for index, answer in enumerate((" yes", self.doc_to_target(doc)))
        ]

    def process_results(self, doc, results):
        (other, _), (right, is_greedy) = results
        return {"acc": float(right > other), "greedy": float(is_greedy)}

    def aggregation(self):
        return {"acc": mean, "greedy": mean}

    def higher_is_better(self):
        return {"acc": True, "greedy": True}
