"""A script that runs a model by name and reads numbers out of the dict, as continuous checks do."""

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager


class Polite(HFLM):
    """Reads every prompt in lower case, and ends its replies at a full stop."""

    def tok_encode(self, string, add_special_tokens=None, left_truncate_len=None, **kwargs):
        return super().tok_encode(
            string.lower(),
            add_special_tokens=add_special_tokens,
            left_truncate_len=left_truncate_len,
            **kwargs,
        )

    @property
    def eot_token_id(self):
        return self.tokenizer.encode(".", add_special_tokens=False)[0]

    @property
    def max_gen_toks(self):
        return 8

    @property
    def max_length(self):
        return 256


def main(folder):
    manager = TaskManager(include_path="tasks")
    lines = []
    for name, model in (("hf", "hf"), ("polite", Polite(pretrained=folder, device="cpu"))):
        results = lm_eval.simple_evaluate(
            model=model,
            model_args=f"pretrained={folder},dtype=float32,device=cpu" if model == "hf" else None,
            tasks=["arc", "triviaqa"],
            num_fewshot=1,
            task_manager=manager,
            batch_size=1,
            limit=4,
            gen_kwargs="max_gen_toks=8",
        )
        for task, scores in sorted(results["results"].items()):
            higher = results["higher_is_better"][task]
            for key, value in sorted(scores.items()):
                metric, _, pipeline = key.partition(",")
                if metric not in higher:
                    continue
                stderr = scores[f"{metric}_stderr,{pipeline}"]
                lines.append(
                    {
                        "model": name,
                        "task": task,
                        "metric": metric,
                        "filter": pipeline,
                        "value": value,
                        "stderr": stderr,
                        "higher_is_better": higher[metric],
                        "shots": results["n-shot"][task],
                        "version": results["versions"][task],
                        "docs": results["n-samples"][task]["effective"],
                    }
                )
        lines.append([sample["resps"][0][0] for sample in results["samples"]["triviaqa"]])
    return lines
