"""How many rows go through a model at a time: what fits, found while working.

The size grows with every pass that succeeds and halves with every one that runs out of memory; the
rows of a failed pass are run again in smaller passes. The size that was found holds for all later
passes. How rows are put together changes how fast answers come, never the answers.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lm_eval.errors import ModelError

T = TypeVar("T")
R = TypeVar("R")

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "failed to allocate",
    "alloc_failed",
)


class AutoBatch:
    """The size of passes. ``size`` fixes the rows of each; None finds how many tokens fit.

    ``start`` and ``most`` are padded tokens per pass, rows times the longest, and apply only if ``size``
    is None; ``most_rows`` then limits the rows. ``frees`` gives memory back after a failure.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        most_rows: int = 64,
        start: int = 1024,
        most: int = 4096,
        frees: Callable[[], None] = lambda: None,
    ) -> None:
        self.rows = size or most_rows
        self.tokens = None if size else min(start, most)
        self.shrunk = 0
        """How often a pass ran out of memory."""
        self._most = most
        self._frees = frees

    def passes(
        self, items: Sequence[T], length: Callable[[T], int], run: Callable[[Sequence[T]], R]
    ) -> Iterator[tuple[Sequence[T], R]]:
        """``(items, what run returned for them)`` in passes that fit; the longest items come first."""
        items = sorted(items, key=length, reverse=True)
        start = 0
        while start < len(items):
            longest = max(1, length(items[start]))
            part = items[start : start + self._fitting(longest)]
            ran, result = self._attempt(part, run)
            if not ran:
                self._shrink(len(part), longest)
                continue
            self._grow(len(part) * longest)
            start += len(part)
            yield part, result[0]

    def _fitting(self, longest: int) -> int:
        if self.tokens is None:
            return self.rows
        return max(1, min(self.rows, self.tokens // longest))

    @staticmethod
    def _attempt(part: Sequence[T], run: Callable[[Sequence[T]], R]) -> tuple[bool, list[R]]:
        """Whether it ran, and its result. The error and the memory it holds are gone on return."""
        try:
            return True, [run(part)]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return False, []

    def _grow(self, tokens: int) -> None:
        if self.tokens is not None and tokens > self.tokens // 2:
            self.tokens = min(2 * self.tokens, self._most)

    def _shrink(self, rows: int, longest: int) -> None:
        gc.collect()
        self._frees()
        if rows == 1:
            raise ModelError(
                f"Out of memory with a single text of {longest} tokens: it cannot be made smaller. "
                "Give a smaller max_length, a dtype of fewer bits (dtype=bfloat16), or another "
                "device in --model_args, or use a smaller model."
            )
        self.shrunk += 1
        if self.tokens is None:
            self.rows = max(1, rows // 2)
        else:
            self.tokens = max(1, rows * longest // 2)
            self._most = self.tokens  # what failed once is not tried again


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error says that memory ran out, on whatever device."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in text for sign in _OUT_OF_MEMORY)
