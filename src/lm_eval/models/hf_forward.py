"""Log-probs of token spans by plain forward passes: no cache, nothing shared but equal inputs.

What everything cleverer is measured against, and what it falls back to. Rows are padded on the right,
where no earlier token of a causal model can see the padding; so any architecture will do.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.models.auto_batch import AutoBatch
from lm_eval.models.hf_positions import find_turn, forget_lengths
from lm_eval.models.spans import Span, chunks

_LOOK_AHEAD = 512
"""Spans that are sorted by length together; answers wait for no more than these."""


class PlainScorer:
    """Scores spans on a causal model of ``transformers``, a batch of distinct inputs at a time."""

    def __init__(self, model: Any, *, device: Any = "cpu", batch_size: int | AutoBatch = 1) -> None:
        self.model = model
        self.device = device
        self.batch = batch_size if isinstance(batch_size, AutoBatch) else AutoBatch(batch_size)
        self.tokens_run = 0
        """Tokens that went through the model, padding included."""
        self._takes_positions = takes(model, "logits_to_keep")
        self._turn = find_turn(model.config)

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready."""
        for some in chunks(spans, _LOOK_AHEAD):
            groups: dict[tuple[int, ...], list[Span]] = {}
            for span in some:
                if span.targets:
                    groups.setdefault(tuple(span.inputs), []).append(span)
                else:
                    yield span
            for part in self._apart(list(groups.values())):
                for _, done in self.batch.passes(part, _length, self._run):
                    yield from done

    def _apart(self, groups: list[list[Span]]) -> Iterator[list[list[Span]]]:
        """The groups in lists whose texts do not change each other's scores."""
        if self._turn is None:
            yield groups
            return
        for part in self._turn.apart(groups, _length):
            if self._turn.grows:
                forget_lengths(self.model)
            yield part

    def _run(self, groups: Sequence[list[Span]]) -> list[Span]:
        """Score spans that are grouped by their inputs, in one pass."""
        import torch

        rows = [group[0].inputs for group in groups]
        first = min(span.first_read for group in groups for span in group)
        with torch.inference_mode():
            logits = self._logits(padded(rows, self.device), first)
            scores = [
                (span, score_rows(span.targets, logits[row, span.first_read - first :]))
                for row, group in enumerate(groups)
                for span in group
            ]
        return _fill(scores)

    def _logits(self, ids: Any, first: int) -> Any:
        """The logits of all rows from place ``first`` on."""
        import torch

        self.tokens_run += ids.numel()
        if not self._takes_positions:
            logits = self.model(input_ids=ids, use_cache=False).logits
            return logits[
                :, first - ids.shape[1] :
            ]  # an adapter's own tokens stand before the text's
        places = torch.arange(first, ids.shape[1], device=ids.device)
        return self.model(input_ids=ids, use_cache=False, logits_to_keep=places).logits


class PairScorer:
    """Scores spans on an encoder-decoder model: the encoder reads the context, all but the targets."""

    def __init__(self, model: Any, *, device: Any = "cpu", batch_size: int | AutoBatch = 1) -> None:
        self.model = model
        self.device = device
        self.batch = batch_size if isinstance(batch_size, AutoBatch) else AutoBatch(batch_size)
        self.tokens_run = 0

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready."""
        for some in chunks(spans, _LOOK_AHEAD):
            yield from (span for span in some if not span.targets)
            asked = [span for span in some if span.targets]
            for _, done in self.batch.passes(asked, _pair_length, self._run):
                yield from done

    def _run(self, spans: Sequence[Span]) -> list[Span]:
        import torch

        contexts = [span.inputs[: span.first_read + 1] for span in spans]
        targets = [span.targets for span in spans]
        with torch.inference_mode():
            ids, labels = padded(contexts, self.device), padded(targets, self.device)
            self.tokens_run += ids.numel() + labels.numel()
            logits = self.model(
                input_ids=ids, attention_mask=mask(contexts, self.device), labels=labels
            ).logits
            scores = [
                (span, score_rows(span.targets, logits[row])) for row, span in enumerate(spans)
            ]
        return _fill(scores)


TokenScores = list[tuple[float, bool]]
"""For each target: its log-prob, and whether it is the likeliest."""


def score_rows(tokens: Sequence[int], logits: Any) -> TokenScores:
    """The scores of tokens from the logits before each of them, the first rows of ``logits``."""
    import torch

    logits = logits[: len(tokens)].float()
    targets = torch.tensor(tokens, device=logits.device)
    chosen = logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)
    if not bool(torch.isfinite(chosen).all()):
        raise ModelError(
            "The model's log-probs are not numbers (NaN or infinite). With dtype=float16 values "
            "overflow in some models: use dtype=bfloat16 or dtype=float32 in --model_args. "
            "Otherwise its weights are damaged."
        )
    tops = (logits.argmax(1) == targets).tolist()
    return list(zip(chosen.tolist(), tops, strict=True))


def _fill(scores: Sequence[tuple[Span, TokenScores]]) -> list[Span]:
    """The spans with their scores: only once all are known, because a pass may be repeated."""
    for span, tokens in scores:
        for logprob, is_top in tokens:
            span.add(logprob, is_top)
    return [span for span, _ in scores]


def padded(rows: Sequence[Sequence[int]], device: Any, *, on_left: bool = False) -> Any:
    """Rows of tokens as one tensor; short ones are filled with token 0."""
    import torch

    longest = max(map(len, rows))
    fill = [[0] * (longest - len(row)) for row in rows]
    if on_left:
        return torch.tensor(
            [[*more, *row] for row, more in zip(rows, fill, strict=True)], device=device
        )
    return torch.tensor(
        [[*row, *more] for row, more in zip(rows, fill, strict=True)], device=device
    )


def mask(rows: Sequence[Sequence[int]], device: Any, *, on_left: bool = False) -> Any:
    """Which places of ``padded`` hold tokens of the rows."""
    return padded([[1] * len(row) for row in rows], device, on_left=on_left)


def takes(model: Any, argument: str) -> bool:
    """Whether a model's forward pass has an argument."""
    return argument in inspect.signature(model.forward).parameters


def virtual_tokens(model: Any) -> int:
    """How many tokens of its own an adapter puts before each text (prompt and prefix tuning)."""
    adapter: Any = getattr(model, "active_peft_config", None)
    return int(adapter.num_virtual_tokens) if getattr(adapter, "is_prompt_learning", False) else 0


def _length(group: list[Span]) -> int:
    return len(group[0].inputs)


def _pair_length(span: Span) -> int:
    return len(span.inputs) + 1
