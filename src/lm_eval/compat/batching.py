"""Lists of requests put into another order, into groups and into batches, and back.

Backends written for the harness sort requests by length, run them in batches, and hand the answers
back in the order of the requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
BatchSize = Callable[[int, Any], int]
"""The size of the batch that the item at an index belongs to."""


def chunks(_iter: Iterable[T], n: int = 0, fn: BatchSize | None = None) -> Iterator[list[T]]:
    """Lists of ``n`` items, or of as many as ``fn(index, items)`` says; the last may be shorter.

    ``n=0`` without ``fn`` gives one list of everything.
    """
    batch: list[T] = []
    for index, item in enumerate(_iter):
        batch.append(item)
        if len(batch) == (fn(index, _iter) if fn else n):
            yield batch
            batch = []
    if batch:
        yield batch


def undistribute(iterable: Iterable[Iterable[Any]]) -> list[Any]:
    """The items of lists that were dealt out in turn, in their first order; ``None`` is left out."""
    rounds = itertools.zip_longest(*map(list, iterable))
    return [item for dealt in rounds for item in dealt if item is not None]


def _restored(size: int, indices: Iterable[int], values: Iterable[T]) -> list[T]:
    """The values in the order of their indices, which must be all of ``range(size)``."""
    by_index = dict(zip(indices, values, strict=True))
    assert len(by_index) == size, f"{len(by_index)} of {size} values came back"
    return [by_index[index] for index in range(size)]


class Reorderer:
    """Items sorted by a function, those of one key together, and results back in the first order."""

    def __init__(self, arr: Sequence[Any], fn: Callable[[Any], Any]) -> None:
        self.size = len(arr)
        by_key: dict[Any, list[int]] = {}
        for index, item in enumerate(arr):
            by_key.setdefault(fn(item), []).append(index)
        # Items with one key are equal to the caller: each is the first of them.
        pairs = [([index], arr[same[0]]) for same in by_key.values() for index in same]
        self.arr = sorted(pairs, key=lambda pair: fn(pair[1]))

    def get_reordered(self) -> list[Any]:
        """The items, sorted."""
        return [item for _, item in self.arr]

    def get_original(self, newarr: Iterable[Any]) -> list[Any]:
        """The results for the sorted items, in the original order."""
        return _restored(self.size, (indices[0] for indices, _ in self.arr), newarr)


class Grouper:
    """Items by the key that a function gives them, and results back in the first order."""

    def __init__(self, arr: Sequence[Any], fn: Callable[[Any], Any]) -> None:
        self.size = len(arr)
        self.arr: dict[Any, list[tuple[int, Any]]] = {}
        for index, item in enumerate(arr):
            self.arr.setdefault(fn(item), []).append((index, item))

    def get_grouped(self) -> dict[Any, list[Any]]:
        """Key → its items."""
        return {key: [item for _, item in pairs] for key, pairs in self.arr.items()}

    def get_original(self, grouped_dict: Mapping[Any, Sequence[Any]]) -> list[Any]:
        """The results for each group, in the original order."""
        assert grouped_dict.keys() == self.arr.keys(), "results for other groups than there are"
        indices = [index for key in grouped_dict for index, _ in self.arr[key]]
        return _restored(self.size, indices, itertools.chain(*grouped_dict.values()))


class Collator(Generic[T]):
    """Requests sorted and batched, and their answers back in the order of the requests.

    ``group_by="gen_kwargs"`` batches only requests whose ``group_fn`` gives the same mapping.
    ``group_by="contexts"`` sends one request for each value of ``group_fn``, the one with the longest
    continuation; ``get_cache`` then hands its logits to every request of that value.
    """

    def __init__(
        self,
        arr: Sequence[T],
        sort_fn: Callable[[T], Any] = lambda x: x,
        group_fn: Callable[[T], Any] = lambda x: x[1],  # type: ignore[index]  # a request is a tuple
        group_by: str | None = None,
    ) -> None:
        self._group_by = group_by
        self._sort_fn = lambda pair: sort_fn(pair[1])
        self._group_fn = lambda pair: group_fn(pair[1])
        self._reorder_indices: list[int] = []
        self._size = len(arr)
        self._arr_with_indices: Any = tuple(enumerate(arr))
        if group_by in ("contexts", "gen_kwargs"):
            self._arr_with_indices = self.group(
                self._arr_with_indices, self._group_fn, group_by=str(group_by)
            )

    def __len__(self) -> int:
        return self._size

    def get_batched(self, n: int = 1, batch_fn: BatchSize | None = None) -> Iterator[list[T]]:
        """Batches of ``n`` requests, or of as many as ``batch_fn`` says, sorted by ``sort_fn``."""
        if self._group_by == "gen_kwargs":
            for group in self._arr_with_indices.values():
                yield from self.get_chunks(self._reorder(group), n=n, fn=batch_fn)
            return
        pairs = self._arr_with_indices
        if self._group_by == "contexts":
            pairs = [max(group, key=lambda pair: len(pair[1][-1])) for group in pairs.values()]
        yield from self.get_chunks(self._reorder(pairs), n=n, fn=batch_fn)

    def _reorder(self, pairs: Iterable[tuple[int, T]]) -> list[T]:
        ordered = sorted(pairs, key=self._sort_fn)
        if self._group_by != "contexts":  # there, get_cache knows whose answers come
            self._reorder_indices.extend(index for index, _ in ordered)
        return [item for _, item in ordered]

    def get_cache(
        self, req_str: Any, cxt_toks: list[int], cont_toks: list[int], logits: Any
    ) -> Iterator[tuple[Any, list[int], Any]]:
        """The requests that these logits answer: ``(its strings, continuation tokens, logits)``."""
        if self._group_by != "contexts":
            yield req_str, cont_toks, logits
            return
        same = self._arr_with_indices.pop(tuple(cxt_toks + cont_toks[:-1]))
        self._reorder_indices.extend(index for index, _ in same)
        if len(same) == 1:
            yield req_str, cont_toks, logits
            return
        for (_, request), row in zip(
            same, logits.expand(len(same), -1, -1).chunk(len(same)), strict=True
        ):
            yield request[0], request[-1], row

    def get_original(self, newarr: Iterable[Any]) -> list[Any]:
        """The answers, given in the order of the batches, in the order of the requests."""
        return _restored(self._size, self._reorder_indices, newarr)

    @staticmethod
    def group(
        arr: Iterable[Any], fn: Callable[[Any], Any], group_by: str = "gen_kwargs"
    ) -> dict[Any, list[Any]]:
        """Items by what ``fn`` gives: a sequence, or a mapping, made hashable."""
        groups: dict[Any, list[Any]] = {}
        for item in arr:
            value = fn(item)
            try:
                key = tuple(value) if group_by == "contexts" else _hashable(value)
                groups.setdefault(key, []).append(item)
            except (TypeError, AttributeError):
                groups.setdefault(tuple(value), []).append(item)
        return groups

    @staticmethod
    def get_chunks(
        _iter: Iterable[Any], n: int = 0, fn: BatchSize | None = None
    ) -> Iterator[list[Any]]:
        """As ``chunks``; ``fn`` gets the items as a tuple."""
        return chunks(tuple(_iter), n, fn)


def _hashable(kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The items of a mapping by name, lists in it as tuples."""
    return tuple(
        (name, tuple(value) if isinstance(value, Iterable) else value)
        for name, value in sorted(kwargs.items())
    )
