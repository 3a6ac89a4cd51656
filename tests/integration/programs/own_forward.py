"""A subclass of HFLM with a forward and a generation of its own, as papers on decoding write them."""

import torch
import torch.nn.functional as F

from lm_eval import simple_evaluate
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager


@register_model("contrastive")
class ContrastiveLM(HFLM):
    """Logits of the model minus a part of those of an amateur: the model without its last layer."""

    def __init__(self, pretrained, alpha=0.5, **kwargs):
        super().__init__(pretrained=pretrained, **kwargs)
        self.alpha = alpha

    def _logits(self, input_ids):
        output = self.model(input_ids, output_hidden_states=True)
        amateur = self.model.lm_head(self.model.model.norm(output.hidden_states[1]))
        return F.log_softmax(output.logits, -1) - self.alpha * F.log_softmax(amateur, -1)

    def _model_call(self, inps, attn_mask=None, labels=None):
        with torch.no_grad():
            return self._logits(inps)

    def _model_generate(self, context, max_length, stop, **generation_kwargs):
        with torch.no_grad():
            while context.shape[1] < max_length:
                best = self._logits(context)[:, -1].argmax(-1, keepdim=True)
                context = torch.cat([context, best], dim=1)
                if (best == self.eot_token_id).all():
                    break
        return context


def main(folder):
    manager = TaskManager(include_path="tasks")
    scores = {}
    for alpha in (0.0, 0.5):
        results = simple_evaluate(
            model="contrastive",
            model_args={"pretrained": folder, "alpha": alpha},
            batch_size=1,
            device="cpu",
            tasks=["arc", "wikitext", "triviaqa"],
            task_manager=manager,
            limit=4,
            gen_kwargs="max_gen_toks=6",
            bootstrap_iters=0,
        )
        scores[str(alpha)] = {
            "results": results["results"],
            "replies": [sample["resps"][0][0] for sample in results["samples"]["triviaqa"]],
            "logprobs": [
                [response[0][0] for response in sample["resps"]]
                for sample in results["samples"]["arc"]
            ],
        }
    return scores
