"""Where a context ends and its continuation begins, in tokens.

A model is given tokens, not text. If the tokenizer joins the end of the context and the beginning
of the continuation into one token, what is scored is not what was written: ``(`` and ``A)`` can become
``(A`` and ``)``, and then every label is scored by the same ``)``. Any backend that can encode text can
ask here; this module knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from lm_eval.config.fields import shorten

Encode = Callable[[str], Sequence[int]]
"""A text's tokens, as the model gets them at the start of a prompt."""

BorderKind = Literal["own", "merged", "empty"]


@dataclass(frozen=True, slots=True)
class Border:
    """A context and a continuation, and the tokens of the two together.

    ``own``: the tokens of both begin with those of the context, and the rest are the continuation's.
    ``merged``: a token covers the border, so what is scored is not the continuation as written.
    ``empty``: no token is left to score.
    """

    context_text: str
    continuation_text: str
    context: tuple[int, ...]
    joined: tuple[int, ...]
    kept: int
    """How many of the context's tokens also begin the joined text."""

    @property
    def kind(self) -> BorderKind:
        if len(self.joined) <= len(self.context):
            return "empty"
        return "own" if self.kept == len(self.context) else "merged"

    @property
    def is_own(self) -> bool:
        return self.kind == "own"

    @property
    def scored(self) -> tuple[int, ...]:
        """The tokens whose log-probs are summed: what follows the context's length."""
        return self.joined[len(self.context) :]

    @property
    def seam(self) -> tuple[int, ...]:
        """The joined tokens from where they depart from the context: the first is the merged token."""
        return self.joined[self.kept :]


def find_border(encode: Encode, context: str, continuation: str) -> Border:
    """The border between two texts. Blanks that end the context belong to the continuation."""
    context, continuation = move_blanks(context, continuation)
    before = tuple(encode(context)) if context else ()
    joined = tuple(encode(context + continuation))
    shorter = min(len(before), len(joined))
    kept = next((at for at in range(shorter) if before[at] != joined[at]), shorter)
    return Border(context, continuation, before, joined, kept)


def move_blanks(context: str, continuation: str) -> tuple[str, str]:
    """The two texts with the blanks that end the first at the start of the second.

    Most tokenizers join a blank to the word behind it.
    """
    stripped = context.rstrip()
    return stripped, context[len(stripped) :] + continuation


def alike(borders: Sequence[Border]) -> list[list[int]]:
    """Indices of continuations of one doc that differ in text but are scored by the same tokens.

    The model cannot tell them apart: whatever it knows, they tie.
    """
    indices: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for index, border in enumerate(borders):
        indices.setdefault((border.context, border.scored), []).append(index)
    return [
        group
        for group in indices.values()
        if len({borders[index].continuation_text for index in group}) > 1
    ]


def describe_border(border: Border, decode: Callable[[Sequence[int]], str] | None = None) -> str:
    """One sentence on what happens at a border, with the merged token if it can be decoded."""
    before = shorten(border.context_text[-20:])
    after = shorten(border.continuation_text)
    if border.is_own:
        return f"{after} after …{before} is {len(border.scored)} tokens of its own."
    if border.kind == "empty":
        return f"{after} after …{before} leaves no token to score."
    merged = border.seam[:1]
    token = shorten(decode(merged)) if decode else f"token {merged[0]}"
    return f"{after} after …{before} begins inside {token}, which covers the border."
