"""Text from prompts with ``transformers``, several at a time, each as if it were alone.

``model.generate`` runs the model; ``BatchGenerator`` decides row by row which token comes next, so that
a sampled text has a random stream of its own, and ``endings`` where it ends.

Few-shot examples that all docs share are most of a prompt. ``SharedPrefix`` sends them through the model
once: their keys and values are kept, and each batch goes on from a copy. What a model makes of that is
first compared with an ordinary pass.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, cast

from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.hf.endings import BatchJob, Endings, GrowingRow
from lm_eval.models.hf.forward import (
    find_rope_switch,
    forget_lengths,
    mask,
    padded,
    takes,
    tolerance,
    virtual_tokens,
)
from lm_eval.models.hf.tree_forward import looks_everywhere, refusal
from lm_eval.models.local.model import batched
from lm_eval.models.local.token_tree import common_length
from lm_eval.models.local.tokens import Tokens
from lm_eval.requests import Reply

_LOOK_AHEAD = 128
_GROWTH = 256
"""Generated tokens that count when it is tested whether padding changes anything."""
_WORTHWHILE = 16
"""Tokens below which a copy of keys and values does not pay."""
_COMPARED = 50
_GAP = 3


class BatchGenerator:
    """Generates on one model, as many texts at a time as ``batch`` allows.

    With ``prefix_cache``, the beginning that prompts share goes through the model once.
    """

    def __init__(
        self,
        model: Any,
        tokens: Tokens,
        endings: Endings,
        *,
        device: Any,
        batch: AutoBatch,
        prefix_cache: bool = True,
    ) -> None:
        self._model = model
        self._tokens = tokens
        self._endings = endings
        self._batch = batch
        self._prefix = SharedPrefix(model, device=device, is_used=prefix_cache)
        self._switch = find_rope_switch(model.config)
        self._sees_padding = False
        self._tried = math.inf if model.config.is_encoder_decoder else 0

    @property
    def notes(self) -> list[str]:
        """What a reader of the results may want to know."""
        notes = [self._prefix.note] if self._prefix.note else []
        if self._sees_padding:
            notes.append(
                "Only prompts of equal length were answered together: padding would change the "
                f"replies of {type(self._model).__name__}. The replies are the same, only slower."
            )
        return notes

    def generate(self, jobs: Iterable[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        """``(job, reply)`` as batches are complete."""
        for some in batched(jobs, _LOOK_AHEAD):
            yield from self._to_the_end(some)

    def _to_the_end(self, jobs: Sequence[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        """The jobs, followed by those that continue their replies."""
        following = []
        for job, reply in self._grouped(jobs):
            if job.then is None:
                yield job, reply
            else:
                following.append(cast(BatchJob, job.then(reply)))
        if following:
            yield from self._to_the_end(following)

    def _grouped(self, jobs: Sequence[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        alone = [job for job in jobs if self._goes_alone(job)]
        together = [job for job in jobs if not self._goes_alone(job)]
        for indices in self._prefix.groups([job.prompt for job in together]):
            yield from self._answered([together[index] for index in indices])
        for job in alone:
            yield from self._answered([job])

    def _answered(self, jobs: Sequence[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        for part in self._unpadded(jobs):
            for _, done in self._batch.passes(part, attrgetter("cells"), self._run):
                yield from done

    def _unpadded(self, jobs: Sequence[BatchJob]) -> Iterator[Sequence[BatchJob]]:
        """The jobs, in parts that need no padding if that would change a reply."""
        by_length: dict[int, list[BatchJob]] = {}
        for job in jobs:
            by_length.setdefault(len(job.prompt), []).append(job)
        if len(by_length) > 1 and not self._sees_padding:
            self._try_padding(max(jobs, key=_tried_length))
        yield from by_length.values() if self._sees_padding else [jobs]

    def _try_padding(self, longest: BatchJob) -> None:
        """See whether padding matters, again whenever texts get longer: it may from some length on."""
        length = _tried_length(longest)
        if length > self._tried:
            self._tried = length
            text = itertools.cycle(longest.prompt)
            some_tokens = list(itertools.islice(text, max(1, length - _GAP)))
            self._sees_padding = _error_behind_a_gap(self._model, some_tokens) > 0

    def _goes_alone(self, job: BatchJob) -> bool:
        """Whether other texts in its batch would change its text.

        Penalties count padding too, an adapter puts its tokens before the padding, and models that
        carry a state mix up those of a batch (RWKV does).
        """
        is_beyond = self._switch is not None and job.cells > self._switch.length
        has_state = getattr(self._model, "_is_stateful", False)
        return bool(job.penalties) or is_beyond or has_state or virtual_tokens(self._model) > 0

    def _run(self, jobs: Sequence[BatchJob]) -> list[tuple[BatchJob, Reply]]:
        import torch

        if self._switch and self._switch.grows:
            forget_lengths(self._model)
        rows = [GrowingRow(job, self._tokens, self._endings) for job in jobs]
        inputs = self._prefix.inputs([job.prompt for job in jobs])
        with torch.inference_mode(), without_settings(self._model):
            self._model.generate(
                **inputs,
                generation_config=self._settings(jobs),
                logits_processor=[_Choose(rows)] if any(map(_is_chosen, rows)) else [],
                stopping_criteria=[_Watch(rows)],
            )
        return [(row.job, row.reply()) for row in rows]

    def _settings(self, jobs: Sequence[BatchJob]) -> Any:
        from transformers import GenerationConfig

        return GenerationConfig(
            do_sample=False,
            max_new_tokens=max(job.max_gen_toks for job in jobs),
            pad_token_id=0,
            **dict(jobs[0].penalties),
        )


class _OfRows:
    """Something that ``generate`` calls for each new token of some rows."""

    def __init__(self, rows: Sequence[GrowingRow]) -> None:
        self._rows = rows

    def __deepcopy__(self, memo: Any) -> _OfRows:
        return self  # adapters copy what they pass on; the rows must stay the same objects


class _Watch(_OfRows):
    """Gives each row its next token, and tells which rows have ended."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002 (its caller's shape)
        import torch

        for row, token in zip(self._rows, input_ids[:, -1].tolist(), strict=True):
            if row.finish is None:
                row.add(token)
        ended = [row.finish is not None for row in self._rows]
        return torch.tensor(ended, device=input_ids.device)


class _Choose(_OfRows):
    """Leaves a sampled row only the token that its own random stream draws, and a row that is held to
    a grammar only one that the grammar allows."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002
        for index, row in enumerate(self._rows):
            if row.finish is not None or not _is_chosen(row):
                continue
            token = self._chosen(row, scores[index])
            if token is None:
                row.finish = "stop"
                continue
            scores[index] = float("-inf")
            scores[index, token] = 0.0
        return scores

    def _chosen(self, row: GrowingRow, scores: Any) -> int | None:
        """The row's next token; None where its reply ends before it."""

        def logits() -> Any:
            return scores.double().cpu().numpy()

        if row.constraint is not None:
            return row.constraint.choose(lambda: int(scores.argmax()), logits, row.job.sample)
        assert row.job.sample is not None
        return row.job.sample(logits())


def _is_chosen(row: GrowingRow) -> bool:
    """Whether the row does not simply continue with the likeliest token."""
    return row.job.sample is not None or row.constraint is not None


def _tried_length(job: BatchJob) -> int:
    return len(job.prompt) + min(job.max_gen_toks, _GROWTH)


_KEPT_SETTINGS = ("decoder_start_token_id", "forced_bos_token_id", "bos_token_id")


def unused_settings(model: Any) -> dict[str, Any]:
    """The model's own settings for generation that replies do not follow."""
    config = getattr(model, "generation_config", None)
    settings = {} if config is None else config.to_diff_dict()
    silent = (*_KEPT_SETTINGS, "transformers_version", "eos_token_id", "pad_token_id")
    return {
        name: value for name, value in settings.items() if name not in silent and name[0] != "_"
    }


@contextmanager
def without_settings(model: Any) -> Iterator[None]:
    """Leave a model only the generation settings that it cannot do without, for a while.

    ``generate`` fills in from them what a request does not set, such as a ``repetition_penalty`` that
    would silently change greedy replies.
    """
    from transformers import GenerationConfig

    saved = model.generation_config
    settings = saved.to_diff_dict()
    kept = {name: settings[name] for name in _KEPT_SETTINGS if name in settings}
    model.generation_config = GenerationConfig(**kept)
    try:
        yield
    finally:
        model.generation_config = saved


# Shared beginnings


class SharedPrefix:
    """The tokens that some prompts share at the start; none if model or prompts do not allow it."""

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
        """Why prompts that share a beginning went through the model as a whole, if they did."""
        if not self._is_missed:
            return None
        return (
            "Prompts of replies went through the model as a whole, although they share a beginning: "
            f"{self._obstacle}. The replies are the same, only slower."
        )

    def groups(self, prompts: Sequence[list[int]]) -> Iterator[list[int]]:
        """Indices of prompts that go together. While a group is answered, what it shares is kept.

        What was kept before stays if the next group shares little more.
        """
        if not self._is_used:
            yield list(range(len(prompts)))
            return
        for indices, shared in _grouped(prompts):
            self._is_missed |= shared > 0 and self._obstacle is not None
            some = [prompts[index] for index in indices]
            is_near = len(self._tokens) > shared - _WORTHWHILE
            if not (self._tokens and is_near and self._fits(some)):
                self._tokens = some[0][:shared] if self._obstacle is None else []
                self._cache = None
            yield indices

    def inputs(self, prompts: Sequence[list[int]]) -> dict[str, Any]:
        """The inputs of ``generate`` for these prompts, padded on the left after what they share."""
        length = len(self._tokens) if self._may_go_on(prompts) else 0
        begun = [prompt[:length] for prompt in prompts]
        remaining = [prompt[length:] for prompt in prompts]
        inputs = {
            "input_ids": _joined(begun, padded(remaining, self._device, on_left=True)),
            "attention_mask": _joined(
                [[1] * length] * len(prompts), mask(remaining, self._device, on_left=True)
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
        """Give the shared beginning up if it changes the log-probs of the next tokens."""
        self._is_compared = True
        error = _error_behind_a_gap(self._model, prompt, len(self._tokens), self._copied(1))
        if error:
            self._obstacle = f"going on from it, a log-prob was off by {error:.2g}"
            self._is_missed, self._tokens, self._cache = True, [], None


def _error_behind_a_gap(model: Any, prompt: list[int], begun: int = 0, cache: Any = None) -> float:
    """By how much padding before ``prompt[begun:]`` changes log-probs of likely next tokens, on average.

    ``cache`` has the keys and values of what comes before. 0 if rounding explains the difference.
    """
    import torch

    remaining = prompt[begun:]
    whole, ids, seen = (
        torch.tensor([row], device=model.device)
        for row in (prompt, [0] * _GAP + remaining, [1] * begun + [0] * _GAP + [1] * len(remaining))
    )
    positions = (seen.cumsum(-1) - 1).clamp(min=0)[:, begun:]
    at = {"position_ids": positions} if takes(model, "position_ids") else {}
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
    """The argument that makes a model compute logits after the last token only, if it has one."""
    return {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}


def _obstacle(model: Any) -> str | None:
    """What keeps a model's replies from continuing a kept beginning, if anything does."""
    if not looks_everywhere(model):
        return "some layers see only part of the text, and gaps in a batch would count"
    if find_rope_switch(model.config) is not None:
        return "positions of long texts are encoded differently from those of short ones"
    return None


def _grouped(prompts: Sequence[list[int]]) -> Iterator[tuple[list[int], int]]:
    """Indices of prompts in groups, and how many tokens each group shares; the last group shares none.

    Sorted, prompts that share a beginning are neighbours. Each group is the one that saves most tokens
    among those that are left.
    """
    order = sorted(range(len(prompts)), key=prompts.__getitem__)
    while order:
        start, end, shared = _most_shared([prompts[index] for index in order])
        if shared < _WORTHWHILE:
            yield order, 0
            return
        yield order[start:end], shared
        order = order[:start] + order[end:]


def _most_shared(prompts: Sequence[list[int]]) -> tuple[int, int, int]:
    """``(start, end, tokens)`` of the neighbours whose shared beginning saves most."""
    shared = [  # each keeps a token of its own
        min(common_length(*pair), *(len(prompt) - 1 for prompt in pair))
        for pair in itertools.pairwise(prompts)
    ]
    best = (0, 0, 0, 0)
    for start in range(len(shared)):
        fewest = itertools.accumulate(shared[start:], min)
        for pairs, tokens in enumerate(fewest, start=1):
            best = max(best, (tokens * pairs, start, start + pairs + 1, tokens))
    return best[1:]


def _joined(begun: Sequence[Sequence[int]], remaining: Any) -> Any:
    import torch

    return torch.cat(
        [torch.tensor(begun, dtype=remaining.dtype, device=remaining.device), remaining], dim=1
    )
