"""The beginning that prompts have in common, sent through a model once for all their replies.

Few-shot examples that all docs share are most of a prompt. Their keys and values are kept, and each
batch goes on from a copy. What a model makes of that is first compared with an ordinary pass.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval.models.hf.forward import find_rope_switch, mask, padded, takes, tolerance
from lm_eval.models.hf.tree_forward import looks_everywhere, refusal

_WORTHWHILE = 16
"""Tokens below which a copy of keys and values does not pay."""
_COMPARED = 50
GAP = 3


class SharedPrefix:
    """The tokens that some prompts begin with; none where model or prompts have no use for them."""

    def __init__(self, model: Any, *, device: Any, is_used: bool = True) -> None:
        self._model = model
        self._device = device
        self._tokens: list[int] = []
        self._cache: Any = None
        self._is_used = is_used and refusal(model) is None
        self._obstacle = _obstacle(model)
        self._is_compared = False
        self._is_missed = False

    @property
    def note(self) -> str | None:
        """Why prompts went through the model as a whole though they share a beginning, if they did."""
        if not self._is_missed:
            return None
        return (
            "Prompts of replies went through the model as a whole, although they share a beginning: "
            f"{self._obstacle}. The replies are the same, only slower."
        )

    def groups(self, prompts: Sequence[list[int]]) -> Iterator[list[int]]:
        """Places of prompts that go together. While a group is answered, what it shares is kept.

        What was kept before stays where the next group shares little more.
        """
        if not self._is_used:
            yield list(range(len(prompts)))
            return
        for places, shared in _grouped(prompts):
            self._is_missed |= shared > 0 and self._obstacle is not None
            some = [prompts[place] for place in places]
            is_near = len(self._tokens) > shared - _WORTHWHILE
            if not (self._tokens and is_near and self._fits(some)):
                self._tokens = some[0][:shared] if self._obstacle is None else []
                self._cache = None
            yield places

    def inputs(self, prompts: Sequence[list[int]]) -> dict[str, Any]:
        """What ``generate`` is given for these prompts: padded on the left, behind what is shared."""
        length = len(self._tokens) if self._may_go_on(prompts) else 0
        begun = [prompt[:length] for prompt in prompts]
        rest = [prompt[length:] for prompt in prompts]
        inputs = {
            "input_ids": _joined(begun, padded(rest, self._device, on_left=True)),
            "attention_mask": _joined(
                [[1] * length] * len(prompts), mask(rest, self._device, on_left=True)
            ),
        }
        if length:
            inputs["past_key_values"] = self._copied(len(prompts))
        return inputs

    def _may_go_on(self, prompts: Sequence[list[int]]) -> bool:
        if not self._tokens or not self._fits(prompts):
            return False
        if self._cache is None:
            self._cache = self._keys_and_values()
        if not self._is_compared:
            self._compare(prompts[0])
        return self._obstacle is None

    def _fits(self, prompts: Sequence[list[int]]) -> bool:
        length = len(self._tokens)
        return all(len(prompt) > length and prompt[:length] == self._tokens for prompt in prompts)

    def _keys_and_values(self) -> Any:
        import torch

        with torch.inference_mode():
            ids = torch.tensor([self._tokens], device=self._device)
            return self._model(
                input_ids=ids, use_cache=True, **_last_logits(self._model)
            ).past_key_values

    def _copied(self, rows: int) -> Any:
        cache = copy.deepcopy(self._cache)
        if rows > 1:
            cache.batch_repeat_interleave(rows)
        return cache

    def _compare(self, prompt: list[int]) -> None:
        """Give the beginning up if it changes how likely the next tokens are."""
        self._is_compared = True
        error = error_behind_a_gap(self._model, prompt, len(self._tokens), self._copied(1))
        if error:
            self._obstacle = f"going on from it, a log-prob was off by {error:.2g}"
            self._is_missed, self._tokens, self._cache = True, [], None


def error_behind_a_gap(model: Any, prompt: list[int], begun: int = 0, cache: Any = None) -> float:
    """By how much padding before ``prompt[begun:]`` changes log-probs of likely next tokens, on average.

    ``cache`` has the keys and values of what comes before. 0 if by no more than rounding explains.
    """
    import torch

    rest = prompt[begun:]
    whole, ids, seen = (
        torch.tensor([row], device=model.device)
        for row in (prompt, [0] * GAP + rest, [1] * begun + [0] * GAP + [1] * len(rest))
    )
    places = (seen.cumsum(-1) - 1).clamp(min=0)[:, begun:]
    at = {"position_ids": places} if takes(model, "position_ids") else {}
    go_on = {"past_key_values": cache} if cache is not None else {"use_cache": False}
    fewer = _last_logits(model)
    with torch.inference_mode():
        results = (
            model(input_ids=whole, use_cache=False, **fewer),
            model(input_ids=ids, attention_mask=seen, **at, **go_on, **fewer),
        )
        expected, actual = (result.logits[0, -1].float().log_softmax(-1) for result in results)
        likeliest = expected.topk(min(_COMPARED, len(expected))).indices
        apart = float((expected - actual)[likeliest].abs().mean())
    return 0.0 if apart <= tolerance(model) else apart


def _last_logits(model: Any) -> dict[str, int]:
    """The argument by which a model makes logits after the last token only, if it has one."""
    return {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}


def _obstacle(model: Any) -> str | None:
    """What keeps a model's replies from going on behind a kept beginning, if anything does."""
    if not looks_everywhere(model):
        return "some layers see only part of the text, and gaps in a batch would count"
    if find_rope_switch(model.config) is not None:
        return "positions of long texts are encoded differently from those of short ones"
    return None


def _grouped(prompts: Sequence[list[int]]) -> Iterator[tuple[list[int], int]]:
    """Places of prompts in groups, and how many tokens each group begins with; the rest with 0.

    Sorted, prompts that share a beginning are neighbours. Each group is the one that saves most tokens
    among those that are left.
    """
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    while order:
        start, end, shared = _most_shared([prompts[place] for place in order])
        if shared < _WORTHWHILE:
            yield order, 0
            return
        yield order[start:end], shared
        order = order[:start] + order[end:]


def _most_shared(prompts: Sequence[list[int]]) -> tuple[int, int, int]:
    """``(start, end, tokens)`` of the neighbours that save most by what all of them begin with."""
    shared = [_shared(*pair) for pair in itertools.pairwise(prompts)]
    best = (0, 0, 0, 0)
    for start in range(len(shared)):
        fewest = itertools.accumulate(shared[start:], min)
        for pairs, tokens in enumerate(fewest, start=1):
            best = max(best, (tokens * pairs, start, start + pairs + 1, tokens))
    return best[1:]


def _shared(first: list[int], second: list[int]) -> int:
    """How many tokens both begin with; each keeps a token of its own."""
    most = min(len(first), len(second)) - 1
    return next((at for at in range(most) if first[at] != second[at]), most)


def _joined(begun: Sequence[Sequence[int]], rest: Any) -> Any:
    import torch

    return torch.cat([torch.tensor(begun, dtype=rest.dtype, device=rest.device), rest], dim=1)
