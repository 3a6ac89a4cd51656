"""Where a reply of ``transformers`` ends, and where its answer begins: behind the reasoning.

Stop strings are looked for in the text, so that they are found wherever tokens begin and end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lm_eval.models.local.enforcer import Constraint
from lm_eval.models.local.model import Job
from lm_eval.models.local.tokens import Tokens
from lm_eval.models.sampling import split_reasoning
from lm_eval.requests import Reply
from lm_eval.requests.options import cut_at_stop

TOKENS_PER_CHARACTER = 4  # a character can be four byte tokens
MARGIN = 8


@dataclass(frozen=True)
class BatchJob(Job):
    """One prompt to continue, beside others."""

    stop_tokens: frozenset[int] = frozenset()
    """Special tokens among the stop strings; text never shows them."""
    penalties: tuple[tuple[str, Any], ...] = ()
    """Arguments of ``transformers`` that count the tokens before, such as ``repetition_penalty``."""


@dataclass(frozen=True)
class Endings:
    """What ends the texts of one model, and the mark after which an answer begins."""

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
        self._tail = TOKENS_PER_CHARACTER * longest + MARGIN

    def add(self, token: int) -> bool:
        """Add the next token; True if the text ends with it."""
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
        """Whether a stop string is complete. Those inside the reasoning do not count."""
        if self._is_thinking:
            self._is_thinking = not self._ends_thinking(token)
            return False
        if not self.job.until:
            return False
        tail = self.tokens.decode(self._visible[-self._tail :])
        # The tail shows that there may be a stop string; the whole text decides.
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
        text = self.job.reply_start + cut_at_stop(answer, self.job.until)
        return Reply(text, finish=self.finish, reasoning=reasoning)

    def _split(self) -> tuple[str | None, str]:
        """``(reasoning, answer)``; reasoning is None if it does not end.

        What is held to a grammar is an answer; its reasoning is in the text that it continues.
        """
        if self.constraint is not None:
            return self.job.reasoning, self.tokens.decode(self.ids)
        return split_reasoning(self.ids, self.endings.think_end, self.tokens.decode)


def ending_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a text or a turn, by the model and by its tokenizer."""
    ends: set[Any] = set()
    config = getattr(model, "generation_config", None)
    for holder in (config, getattr(model, "config", None), tokenizer):
        value = getattr(holder, "eos_token_id", None)
        ends.update(value if isinstance(value, list | tuple) else [value])
    return frozenset(int(token) for token in ends - {None})
