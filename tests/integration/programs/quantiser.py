"""A quantiser's evaluation loop: linear layers of ``lm._model`` are replaced, at several widths."""

import torch

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager


class RoundedLinear(torch.nn.Module):
    """A linear layer whose weights are rounded to few bits, row by row."""

    def __init__(self, layer, bits):
        super().__init__()
        most = 2 ** (bits - 1) - 1
        scale = layer.weight.abs().amax(1, keepdim=True) / most
        self.register_buffer("rounded", torch.round(layer.weight.data / scale).to(torch.int8))
        self.register_buffer("scale", scale.detach())

    def forward(self, hidden):
        return torch.nn.functional.linear(hidden, self.rounded * self.scale)


def quantise(module, bits):
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear) and name != "lm_head":
            setattr(module, name, RoundedLinear(child, bits))
        else:
            quantise(child, bits)


def main(folder):
    manager = TaskManager(include_path="tasks")
    table = {}
    for bits in (16, 4, 2):
        lm = HFLM(pretrained=folder, batch_size=2, device="cpu")
        if bits < 16:
            quantise(lm._model, bits)
        lm._max_length = 128
        results = lm_eval.simple_evaluate(
            model=lm,
            tasks=["wikitext", "arc"],
            num_fewshot=0,
            task_manager=manager,
            limit=4,
            bootstrap_iters=0,
        )
        table[str(bits)] = {
            "perplexity": results["results"]["wikitext"]["word_perplexity,none"],
            "acc": results["results"]["arc"]["acc,none"],
            "acc_norm": results["results"]["arc"]["acc_norm,none"],
        }
    return table
