"""Batches that fit: with a pass that runs out of memory where a device would."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.errors import ModelError
from lm_eval.models.hf.auto_batch import AutoBatch, is_out_of_memory


class Device:
    """Takes passes of up to ``memory`` padded tokens, and notes those it took."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.passes: list[tuple[int, int]] = []
        self.freed = 0

    def run(self, part: Sequence[tuple[int, int]]) -> list[int]:
        longest = max(length for _, length in part)
        if len(part) * longest > self.memory:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        self.passes.append((len(part), longest))
        return [name for name, _ in part]

    def free(self) -> None:
        self.freed += 1


def run_all(batch: AutoBatch, device: Device, lengths: Sequence[int]) -> list[int]:
    items = list(enumerate(lengths))
    done = []
    for part, result in batch.passes(items, lambda item: item[1], device.run):
        assert result == [name for name, _ in part]
        done += result
    return done


def test_auto_grows_on_success_up_to_the_most() -> None:
    device = Device(memory=10**9)
    batch = AutoBatch(None, most_rows=100, start=16, most=64)
    assert sorted(run_all(batch, device, [8] * 40)) == list(range(40))
    assert device.passes[:4] == [(2, 8), (4, 8), (8, 8), (8, 8)]
    assert (batch.tokens, batch.shrunk) == (64, 0)


def test_auto_halves_when_memory_runs_out_and_goes_on() -> None:
    device = Device(memory=100)
    batch = AutoBatch(None, most_rows=100, start=32, most=10**6, frees=device.free)
    assert sorted(run_all(batch, device, [8] * 60)) == list(range(60))
    assert (batch.shrunk, device.freed) == (1, 1)
    before = len(device.passes)
    run_all(batch, device, [8] * 60)  # what was found holds: no second failure
    assert batch.shrunk == 1
    assert max(rows for rows, _ in device.passes[before:]) == 8


def test_a_fixed_size_is_kept_unless_memory_runs_out() -> None:
    device = Device(memory=100)
    assert run_all(AutoBatch(4), device, [5, 9, 7, 1, 3, 2]) == [1, 2, 0, 4, 5, 3]
    assert device.passes == [(4, 9), (2, 2)]
    device = Device(memory=100)
    batch = AutoBatch(16)
    assert sorted(run_all(batch, device, [20] * 20)) == list(range(20))
    assert (batch.rows, batch.shrunk) == (4, 2)


@pytest.mark.parametrize("size", [1, 8, None])
def test_a_text_that_never_fits_is_an_error(size: int | None) -> None:
    with pytest.raises(ModelError, match=r"single text of 50 tokens.*dtype=bfloat16"):
        run_all(AutoBatch(size), Device(memory=30), [50, 50, 50])


def test_other_errors_pass() -> None:
    def broken(part: Sequence[int]) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        list(AutoBatch(2).passes([1], int, broken))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate memory"
        )
    )
    assert not is_out_of_memory(ValueError("out of memory"))


@given(
    st.lists(st.integers(1, 40), max_size=60),
    st.integers(40, 400),
    st.one_of(st.none(), st.integers(1, 64)),
)
def test_every_item_is_answered_once_whatever_the_memory(
    lengths: list[int], memory: int, size: int | None
) -> None:
    done = run_all(AutoBatch(size, start=64, most=2048), Device(memory), lengths)
    assert sorted(done) == list(range(len(lengths)))
