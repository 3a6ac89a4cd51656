"""Attention by the blocks of a tree, against the same attention under the whole mask."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="needs torch: pip install 'lm-eval-formats[hf]'")

from lm_eval.models.hf.tree_forward import _ancestors  # noqa: E402
from lm_eval.models.hf.tree_mask import TreeMask, blocks, tree_mask  # noqa: E402
from lm_eval.models.local.token_tree import Chunk, Limits, Span, TokenTree, chunks  # noqa: E402

attend = torch.nn.functional.scaled_dot_product_attention
HEADS, WIDTH = 3, 8


def make_chunk(positions: list[int], past: int) -> Chunk:
    return Chunk([0] * len(positions), positions, past, [], 0, [])


def make_mask(chunk: Chunk, dtype: Any = None) -> Any:
    values = torch.zeros(len(chunk.tokens), chunk.past + len(chunk.tokens), dtype=dtype)
    return values.masked_fill_(~_ancestors(chunk), torch.finfo(values.dtype).min)[None, None]


def make_states(chunk: Chunk, dtype: Any = None) -> tuple[Any, Any, Any]:
    torch.manual_seed(len(chunk.tokens))
    new, every = len(chunk.tokens), chunk.past + len(chunk.tokens)
    sizes = (new, every, every)
    return tuple(torch.randn(1, HEADS, size, WIDTH).to(dtype) for size in sizes)  # type: ignore[return-value]


def branches(*lengths: int, past: int) -> Chunk:
    return make_chunk([past + at for length in lengths for at in range(length)], past)


def test_branches_are_blocks_and_short_ones_go_together() -> None:
    found = blocks(branches(80, 5, 6, 70, 70, past=9))
    assert [(block.start, block.end, block.is_path) for block in found] == [
        (0, 80, True),
        (80, 161, False),
        (161, 231, True),
    ]


def test_branches_that_leave_the_beginning_earlier_see_less_of_it() -> None:
    found = blocks(make_chunk([4, 5, 6, 2, 3, 4, 0, 1], 4))
    assert [(block.start, block.end, block.seen) for block in found] == [
        (0, 3, 4),
        (3, 6, 2),
        (6, 8, 0),
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_attention_is_that_of_the_whole_mask(dtype: str) -> None:
    kind = getattr(torch, dtype)
    chunk = branches(80, 5, 6, 70, 70, past=9)
    whole = make_mask(chunk, kind)
    mask = tree_mask(whole, chunk)
    assert isinstance(mask, TreeMask)
    states = make_states(chunk, kind)
    expected, actual = (attend(*states, attn_mask=m, scale=0.3) for m in (whole, mask))
    assert type(actual) is torch.Tensor
    torch.testing.assert_close(actual, expected, atol=2e-2 if dtype == "bfloat16" else 1e-5, rtol=0)


def test_pairs_that_are_hidden_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval.models.hf.tree_mask as module

    compared = []
    flash = module._flash

    def counted(query: Any, key: Any, *others: Any, **options: Any) -> Any:
        compared.append(query.shape[2] * key.shape[2])
        return flash(query, key, *others, **options)

    monkeypatch.setattr(module, "_flash", counted)
    chunk = branches(100, 100, 100, past=50)
    attend(*make_states(chunk), attn_mask=tree_mask(make_mask(chunk), chunk))
    assert sum(compared) == 3 * 100 * 100 + 300 * 50


TEXTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=90), min_size=2, max_size=8)


@given(TEXTS, st.integers(20, 200))
@settings(max_examples=40, deadline=None)
def test_every_piece_of_a_tree_is_attended_as_under_the_whole_mask(
    texts: list[list[int]], at_once: int
) -> None:
    tree = TokenTree(Span(place, text, [0]) for place, text in enumerate(texts))
    for chunk in chunks(tree, Limits(at_once)):
        whole = make_mask(chunk)
        states = make_states(chunk)
        expected = attend(*states, attn_mask=whole)
        actual = attend(*states, attn_mask=tree_mask(whole, chunk))
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)


def test_one_branch_and_other_devices_keep_their_mask() -> None:
    chunk = branches(90, past=5)
    assert type(tree_mask(make_mask(chunk), chunk)) is torch.Tensor
    two = branches(90, 90, past=5)
    assert type(tree_mask(make_mask(two).to("meta"), two)) is torch.Tensor


def test_what_else_a_model_does_with_a_mask_is_done_with_its_numbers() -> None:
    chunk = branches(70, 70, past=5)
    whole = make_mask(chunk)
    mask = tree_mask(whole, chunk)
    query, key, value = make_states(chunk)
    scores = query @ key.transpose(2, 3) + mask
    assert type(scores) is torch.Tensor
    torch.testing.assert_close(
        scores.softmax(-1) @ value, attend(query, key, value, whole, scale=1.0)
    )
    cut = mask[..., :-1]
    assert type(cut) is torch.Tensor
    assert torch.equal(cut, whole[..., :-1])
    two = (torch.cat([states, states]) for states in (query, key, value))
    torch.testing.assert_close(
        attend(*two, attn_mask=mask)[1:], attend(query, key, value, attn_mask=whole)
    )
