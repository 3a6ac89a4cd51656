"""Log-probs of token spans by plain forward passes: no cache, nothing shared but equal inputs.

The reference for everything cleverer, and what it falls back to. Rows are padded on the right, where no
earlier token of a causal model can see the padding. Some models see it all the same: the first padded
rows are compared with single passes, and if they differ, texts go one at a time.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lm_eval.errors import ModelError
from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.local.model import batched
from lm_eval.models.local.token_tree import Span

_LOOK_AHEAD = 512
"""How many spans are sorted by length together, so how many an answer may wait for."""
_TOLERANCES = {"torch.float64": 1e-5, "torch.float32": 1e-4, "torch.float16": 0.02}
_COARSE_TOLERANCE = 0.15


class PlainScorer:
    """Scores spans on a causal model of ``transformers``, a batch of distinct inputs at a time.

    ``trials`` is the number of passes that are compared with single ones to see whether padding matters.
    """

    def __init__(self, model: Any, *, device: Any, batch: AutoBatch, trials: int = 4) -> None:
        self.model = model
        self.device = device
        self.batch = batch
        self.tokens_run = 0
        """Tokens that went through the model, padding included."""
        self._takes_positions = takes(model, "logits_to_keep")
        self._switch = find_rope_switch(model.config)
        self._compared = 0
        self._trials = trials
        self._largest_error = 0.0

    @property
    def notes(self) -> list[str]:
        """What a reader of the results may want to know."""
        if not self._largest_error:
            return []
        return [
            "Texts went through the model one at a time, which is slower: beside longer ones, the score "
            f"of one was off by {self._largest_error:.2g}."
        ]

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready."""
        for some in batched(spans, _LOOK_AHEAD):
            yield from self.score_together(some)

    def score_together(self, spans: Iterable[Span]) -> Iterator[Span]:
        """All these spans, sorted by length, so that passes hold little padding; the longest first."""
        groups: dict[tuple[int, ...], list[Span]] = {}
        for span in spans:
            if span.targets:
                groups.setdefault(tuple(span.inputs), []).append(span)
            else:
                yield span
        for part in self._apart(list(groups.values())):
            for _, done in self.batch.passes(part, input_length, self._run):
                yield from done

    def _apart(self, groups: list[list[Span]]) -> Iterator[list[list[Span]]]:
        """Lists of groups whose texts do not change each other's scores."""
        switch = self._switch
        if switch is None:
            yield groups
            return
        yield [group for group in groups if input_length(group) <= switch.length]
        beyond = [group for group in groups if input_length(group) > switch.length]
        for part in [[group] for group in beyond] if switch.grows else [beyond]:
            if switch.grows:
                forget_lengths(self.model)
            yield part

    def _run(self, groups: Sequence[list[Span]]) -> list[Span]:
        """Score spans that are grouped by their inputs, in one pass; the longest inputs come first."""
        if not self._largest_error:
            scores = self._scores(groups)
            if not self._sees_padding(groups, scores):
                return _fill(scores)
        return [span for group in groups for span in _fill(self._scores([group]))]

    def _scores(self, groups: Sequence[list[Span]]) -> list[SpanScores]:
        import torch

        rows = [group[0].inputs for group in groups]
        first = min(span.first_read for group in groups for span in group)
        with torch.inference_mode():
            logits = self._logits(padded(rows, self.device), first)
            return [
                (span, score_rows(span.targets, logits[row, span.first_read - first :]))
                for row, group in enumerate(groups)
                for span in group
            ]

    def _sees_padding(self, groups: Sequence[list[Span]], scores: Sequence[SpanScores]) -> bool:
        """Whether scores of padded rows differ from those they have alone.

        Some rows of the first passes are tried, and again whenever texts get longer: padding may matter
        from some length on.
        """
        longest = input_length(groups[0])
        short = [group for group in groups if input_length(group) < longest]
        if not short or (longest <= self._compared and not self._trials):
            return False
        self._compared = max(longest, self._compared)
        self._trials = max(0, self._trials - 1)
        padded_scores = {id(span): tokens for span, tokens in scores}
        tried = {id(short[at]): short[at] for at in (0, len(short) // 2, -1)}
        errors = [
            score_error(self.model, _total(padded_scores[id(span)]), _total(alone), len(alone))
            for group in tried.values()
            for span, alone in self._scores([group])
        ]
        self._largest_error = max(errors)
        return self._largest_error > 0

    def _logits(self, ids: Any, first: int) -> Any:
        """The logits of all rows from position ``first`` on."""
        import torch

        self.tokens_run += ids.numel()
        if not self._takes_positions:
            logits = self.model(input_ids=ids, use_cache=False).logits
            return logits[:, first - ids.shape[1] :]  # after the tokens that an adapter adds
        positions = torch.arange(first, ids.shape[1], device=ids.device)
        return self.model(input_ids=ids, use_cache=False, logits_to_keep=positions).logits


class PairScorer:
    """Scores spans on an encoder-decoder model: the encoder reads the context, all but the targets."""

    def __init__(self, model: Any, *, device: Any, batch: AutoBatch) -> None:
        self.model = model
        self.device = device
        self.batch = batch
        self.notes: list[str] = []

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready."""
        for some in batched(spans, _LOOK_AHEAD):
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
            logits = self.model(
                input_ids=ids, attention_mask=mask(contexts, self.device), labels=labels
            ).logits
            scores = [
                (span, score_rows(span.targets, logits[row])) for row, span in enumerate(spans)
            ]
        return _fill(scores)


TokenScores = list[tuple[float, bool]]
"""For each target: its log-prob, and whether it is the likeliest."""
SpanScores = tuple[Span, TokenScores]


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


def _fill(scores: Sequence[SpanScores]) -> list[Span]:
    """The spans with their scores, set only once all are known, because a pass may be repeated."""
    for span, tokens in scores:
        for logprob, is_top in tokens:
            span.add(logprob, is_top)
    return [span for span, _ in scores]


def tolerance(model: Any) -> float:
    """How far rounding may move a log-prob from that of an ordinary pass."""
    return _TOLERANCES.get(str(model.dtype), _COARSE_TOLERANCE)


def score_error(model: Any, actual: float, expected: float, tokens: int) -> float:
    """By how much the score of ``tokens`` tokens is off; 0 if rounding explains it."""
    if actual == expected:
        return 0.0
    error = abs(actual - expected)
    if error <= tolerance(model) * max(1.0, tokens**0.5):
        return 0.0
    return math.inf if math.isnan(error) else error


def padded(rows: Sequence[Sequence[int]], device: Any, *, on_left: bool = False) -> Any:
    """Rows of tokens as one tensor; short ones are filled with token 0."""
    import torch

    longest = max(map(len, rows))
    fill = [[0] * (longest - len(row)) for row in rows]
    pairs = zip(fill, rows, strict=True) if on_left else zip(rows, fill, strict=True)
    return torch.tensor([[*first, *second] for first, second in pairs], device=device)


def mask(rows: Sequence[Sequence[int]], device: Any, *, on_left: bool = False) -> Any:
    """Which positions of ``padded`` hold tokens of the rows."""
    return padded([[1] * len(row) for row in rows], device, on_left=on_left)


def takes(model: Any, argument: str) -> bool:
    """Whether a model's forward pass has an argument."""
    return argument in inspect.signature(model.forward).parameters


def virtual_tokens(model: Any) -> int:
    """How many tokens an adapter puts before each text (prompt and prefix tuning)."""
    adapter: Any = getattr(model, "active_peft_config", None)
    return int(adapter.num_virtual_tokens) if getattr(adapter, "is_prompt_learning", False) else 0


def _total(scores: TokenScores) -> float:
    return sum(logprob for logprob, _ in scores)


def input_length(group: list[Span]) -> int:
    return len(group[0].inputs)


def _pair_length(span: Span) -> int:
    return len(span.inputs) + 1


T = TypeVar("T")

_SWITCHING = ("longrope", "dynamic")


@dataclass(frozen=True)
class RopeSwitch:
    """Texts of up to ``length`` tokens encode positions alike; longer ones by length if ``grows``."""

    length: int
    grows: bool


def find_rope_switch(config: Any) -> RopeSwitch | None:
    """Where a model switches its encoding of positions; None if it never does."""
    text = config.get_text_config(decoder=True)
    switches = [_switch_of(rope, text) for rope in _ropes(getattr(text, "rope_parameters", None))]
    return min(
        (switch for switch in switches if switch), key=lambda switch: switch.length, default=None
    )


def _ropes(settings: Any) -> list[Mapping[str, Any]]:
    """The settings of rotary positions: one for the model, or one for each kind of layer."""
    if not isinstance(settings, Mapping):
        return []
    if "rope_type" in settings:
        return [settings]
    return [rope for rope in settings.values() if isinstance(rope, Mapping)]


def _switch_of(rope: Mapping[str, Any], text: Any) -> RopeSwitch | None:
    kind = str(rope.get("rope_type"))
    if not any(name in kind for name in _SWITCHING):
        return None
    grows = "dynamic" in kind
    trained = rope.get("original_max_position_embeddings")
    return RopeSwitch(int(text.max_position_embeddings if grows or not trained else trained), grows)


def forget_lengths(model: Any) -> None:
    """Let a model whose encoding grows with its texts forget those it has seen.

    It keeps the encoding of the longest until a short text comes; some releases keep it for ever.
    """
    for module in model.modules():
        if hasattr(module, "original_inv_freq") and hasattr(module, "max_seq_len_cached"):
            module.inv_freq = module.original_inv_freq.to(module.inv_freq.device)
            module.max_seq_len_cached = module.original_max_seq_len
