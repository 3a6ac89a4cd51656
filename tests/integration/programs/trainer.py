"""A training loop that evaluates the model it trains, with one HFLM for all steps."""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager, get_task_dict

TEXT = "Question: What is the capital of France? Answer: Paris. Which animal barks? a dog."


def main(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=4)
    tasks = get_task_dict(["arc", "wikitext"], TaskManager(include_path="tasks"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    history = []
    for _ in range(3):
        model.eval()
        results = evaluate(lm=lm, task_dict=tasks, limit=4, bootstrap_iters=0)
        history.append(
            {
                "perplexity": results["results"]["wikitext"]["byte_perplexity,none"],
                "logprobs": [
                    [response[0][0] for response in sample["resps"]]
                    for sample in results["samples"]["arc"]
                ],
            }
        )
        model.train()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return history
