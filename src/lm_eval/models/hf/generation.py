"""Text from prompts with ``transformers``, several at a time, each as if it were alone.

``model.generate`` runs the model; which token comes next and where a text ends is decided here, row by
row: a sampled text has a random stream of its own, and stop strings are looked for in the text, so that
they are found wherever tokens begin and end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, cast

from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.hf.forward import find_rope_switch, forget_lengths, virtual_tokens
from lm_eval.models.hf.shared_prefix import GAP, SharedPrefix, error_behind_a_gap
from lm_eval.models.hf.tokens import Tokens
from lm_eval.models.local.enforcer import Constraint
from lm_eval.models.local.model import Job, batched
from lm_eval.requests import Reply
from lm_eval.requests.options import cut_at_stop

_LOOK_AHEAD = 128
_TOKENS_PER_CHARACTER = 4  # a character can be four byte tokens
_MARGIN = 8
_GROWTH = 256
"""Generated tokens that are counted in where it is tried whether padding changes anything."""


@dataclass(frozen=True)
class BatchJob(Job):
    """One prompt to continue, beside others."""

    stop_tokens: frozenset[int] = frozenset()
    """Special tokens among the stop strings; text never shows them."""
    penalties: tuple[tuple[str, Any], ...] = ()
    """Arguments of ``transformers`` that count the tokens before, such as ``repetition_penalty``."""


@dataclass(frozen=True)
class Endings:
    """Where texts end, for one model, and the mark behind which an answer begins."""

    tokens: frozenset[int]
    """Tokens that end a text or a turn."""
    special: Mapping[str, int]
    """Special tokens by their text."""
    eos_text: str | None
    think_end: str | int | None

    @classmethod
    def of(cls, model: Any, tokenizer: Any, think_end: str | int | None) -> Endings:
        """By the model's and the tokenizer's own settings."""
        special = {
            str(text): int(token)
            for text, token in zip(
                tokenizer.convert_ids_to_tokens(tokenizer.all_special_ids),
                tokenizer.all_special_ids,
                strict=True,
            )
        }
        if isinstance(think_end, str):  # decoding leaves out special tokens: look for the token
            think_end = special.get(think_end, think_end)
        return cls(ending_tokens(model, tokenizer), special, tokenizer.eos_token, think_end)

    def stops(self, until: Sequence[str]) -> tuple[str, ...]:
        """The stop strings of a request: those given, and the text of EOS."""
        stops = [*until, *([self.eos_text] if self.eos_text else [])]
        return tuple(dict.fromkeys(stop for stop in stops if stop))

    def stop_tokens(self, until: Sequence[str]) -> frozenset[int]:
        """The special tokens among the stop strings: decoded text never shows them."""
        return frozenset(self.special[stop] for stop in until if stop in self.special)


@dataclass(eq=False)
class GrowingRow:
    """One text as it grows."""

    job: BatchJob
    tokens: Tokens
    endings: Endings
    ids: list[int] = field(default_factory=list)
    finish: Literal["stop", "length"] | None = None
    _visible: list[int] = field(default_factory=list)
    _is_thinking: bool = field(init=False)
    constraint: Constraint | None = field(init=False)

    def __post_init__(self) -> None:
        self.constraint = self.job.constrain() if self.job.constrain else None
        self._is_thinking = self.endings.think_end is not None and self.constraint is None
        self._hidden = frozenset(self.endings.special.values())
        longest = max(map(len, self.job.until), default=0)
        if isinstance(self.endings.think_end, str):
            longest = max(longest, len(self.endings.think_end))
        self._tail = _TOKENS_PER_CHARACTER * longest + _MARGIN

    def add(self, token: int) -> bool:
        """Take the next token; True if the text ends with it."""
        if token in self.endings.tokens or token in self.job.stop_tokens:
            self.finish = "stop"
            return True
        self.ids.append(token)
        if token not in self._hidden:
            self._visible.append(token)
        is_whole = self.constraint is not None and self.constraint.is_complete
        if is_whole or self._is_stopped(token):
            self.finish = "stop"
        elif len(self.ids) >= self.job.max_gen_toks:
            self.finish = "length"
        return self.finish is not None

    def _is_stopped(self, token: int) -> bool:
        """Whether a stop string is complete. Inside the reasoning none counts."""
        if self._is_thinking:
            self._is_thinking = not self._ends_thinking(token)
            return False
        if not self.job.until:
            return False
        tail = self.tokens.decode(self._visible[-self._tail :])
        # The tail shows that a stop string may be there; the text as a whole decides.
        return any(stop in tail for stop in self.job.until) and self._answer_has_stop()

    def _ends_thinking(self, token: int) -> bool:
        mark = self.endings.think_end
        if isinstance(mark, int):
            return token == mark
        return mark is not None and mark in self.tokens.decode(self._visible[-self._tail :])

    def _answer_has_stop(self) -> bool:
        answer = self._split()[1]
        return any(stop in answer for stop in self.job.until)

    def reply(self) -> Reply:
        """The text, without its reasoning, before the first stop string."""
        reasoning, answer = self._split()
        text = self.job.said + cut_at_stop(answer, self.job.until)
        return Reply(text, finish=self.finish, reasoning=reasoning)

    def _split(self) -> tuple[str | None, str]:
        """``(reasoning, answer)``; reasoning is None where it does not end.

        What is held to a grammar is an answer; its reasoning is that of the text it goes on behind.
        """
        if self.constraint is not None:
            return self.job.reasoning, self.tokens.decode(self.ids)
        mark = self.endings.think_end
        if isinstance(mark, int) and mark in self.ids:
            last = len(self.ids) - 1 - self.ids[::-1].index(mark)
            before, after = self.ids[:last], self.ids[last + 1 :]
            return self.tokens.decode(before), self.tokens.decode(after).lstrip()
        text = self.tokens.decode(self.ids)
        if isinstance(mark, str) and mark in text:
            before_text, _, after_text = text.rpartition(mark)
            return before_text, after_text.lstrip()
        return None, text


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
        """Jobs with what goes on behind their replies."""
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
        for places in self._prefix.groups([job.prompt for job in together]):
            yield from self._answered([together[place] for place in places])
        for job in alone:
            yield from self._answered([job])

    def _answered(self, jobs: Sequence[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        for part in self._unpadded(jobs):
            for _, done in self._batch.passes(part, attrgetter("cells"), self._run):
                yield from done

    def _unpadded(self, jobs: Sequence[BatchJob]) -> Iterator[Sequence[BatchJob]]:
        """The jobs; where padding would change a reply, in parts that need none."""
        by_length: dict[int, list[BatchJob]] = {}
        for job in jobs:
            by_length.setdefault(len(job.prompt), []).append(job)
        if len(by_length) > 1 and not self._sees_padding:
            self._try_padding(max(jobs, key=_tried_length))
        yield from by_length.values() if self._sees_padding else [jobs]

    def _try_padding(self, longest: BatchJob) -> None:
        """See whether padding counts, again whenever texts get longer: it may from a length on."""
        length = _tried_length(longest)
        if length > self._tried:
            self._tried = length
            text = itertools.cycle(longest.prompt)
            some_tokens = list(itertools.islice(text, max(1, length - GAP)))
            self._sees_padding = error_behind_a_gap(self._model, some_tokens) > 0

    def _goes_alone(self, job: BatchJob) -> bool:
        """Whether others beside it would change its text.

        Penalties count padding as well, an adapter puts its own tokens before the padding, and models
        that carry a state mix up those of a batch (RWKV does).
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
        return self  # adapters copy what they hand on; the rows are those to be answered


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
        for place, row in enumerate(self._rows):
            if row.finish is not None or not _is_chosen(row):
                continue
            token = self._chosen(row, scores[place])
            if token is None:
                row.finish = "stop"
                continue
            scores[place] = float("-inf")
            scores[place, token] = 0.0
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
    """Whether the row does not take what is likeliest."""
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
    """Leave a model only those settings for generation that it cannot do without, for a while.

    ``generate`` fills in what a request does not say from them, such as a ``repetition_penalty``
    that then changes greedy replies unseen.
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


def ending_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text or a turn, by the model and by its tokenizer."""
    ends: set[Any] = set()
    config = getattr(model, "generation_config", None)
    for holder in (config, getattr(model, "config", None), tokenizer):
        value = getattr(holder, "eos_token_id", None)
        ends.update(value if isinstance(value, list | tuple) else [value])
    return frozenset(int(token) for token in ends - {None})
