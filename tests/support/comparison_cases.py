"""Measurements of known behaviour, for the words and tables of comparisons."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lm_eval.lab.compare.statistics import Options, compare
from lm_eval.lab.compare.values import ComparisonReport
from lm_eval.lab.stored.measurement import Measurement

FAST = Options(resamples=1000)


def row(
    format_name: str,
    scores: Sequence[float],
    *,
    read: Sequence[bool] | None = None,
    model: str = "tiny",
    task: str = "quiz",
    **more: Any,
) -> Measurement:
    """One measurement; item k has the doc id k."""
    return Measurement(
        run="",
        model=model,
        task=task,
        format=format_name,
        name=f"{task}@{format_name}",
        metric=more.pop("metric", "acc"),
        higher_is_better=more.pop("higher_is_better", True),
        items=tuple(more.pop("items", (f"{k}:{k:04x}" for k in range(len(scores))))),
        scores=np.array(scores, dtype=float),
        is_read=None if read is None else np.array(read, dtype=bool),
        **more,
    )


def right(n: int, share: float, seed: int, *, noise: float = 0.25) -> list[int]:
    """Right or wrong on n items whose difficulty is the same for every seed."""
    difficulty = random.Random(7)
    luck = random.Random(seed)
    hard = [difficulty.random() for _ in range(n)]
    return [int(one + noise * (luck.random() - 0.5) < share) for one in hard]


def unread(scores: Sequence[int], share: float, seed: int) -> tuple[list[int], list[bool]]:
    """The scores with a share of the answers not read, which are then not right."""
    luck = random.Random(seed)
    read = [luck.random() >= share for _ in scores]
    return [score * is_read for score, is_read in zip(scores, read, strict=True)], read


def clear() -> list[Measurement]:
    """mcqa is better than cloze; cot is as good as mcqa where it can be read."""
    plain = right(200, 0.6, 1)
    cot, read = unread(right(200, 0.6, 4), 0.4, 5)
    generate, all_read = unread(right(200, 0.58, 3), 0.02, 6)
    return [
        row("mcqa", plain),
        row("cloze", right(200, 0.42, 2)),
        row("generate", generate, read=all_read),
        row("cot", cot, read=read),
    ]


def noise() -> list[Measurement]:
    """Four formats without any effect on 60 items."""
    return [row(name, right(60, 0.5, seed)) for seed, name in enumerate(("a", "b", "c", "d"), 1)]


def unclear() -> list[Measurement]:
    """Formats that differ, though no two of them stand out."""
    return [row(name, right(60, 0.5, seed)) for seed, name in enumerate(("a", "b", "c", "d"), 11)]


def two() -> list[Measurement]:
    """Two formats, one better."""
    return [row("mcqa", right(120, 0.7, 1)), row("cloze", right(120, 0.45, 2))]


def two_alike() -> list[Measurement]:
    """Two formats that luck can explain."""
    return [row("mcqa", right(120, 0.55, 1)), row("cloze", right(120, 0.52, 2))]


def equal() -> list[Measurement]:
    """Three formats that agree on every item."""
    scores = right(50, 0.5, 1)
    return [row(name, scores) for name in ("mcqa", "cloze", "generate")]


def constant() -> list[Measurement]:
    """All right under both."""
    return [row("mcqa", [1] * 40), row("cloze", [1] * 40)]


def one_unread() -> list[Measurement]:
    """No answer of cot could be read."""
    return [row("mcqa", right(80, 0.6, 1)), row("cot", [0] * 80, read=[False] * 80)]


def all_unread() -> list[Measurement]:
    """No answer could be read at all."""
    return [row(name, [0] * 30, read=[False] * 30) for name in ("generate", "cot")]


def three_items() -> list[Measurement]:
    """Too few to tell."""
    return [row("mcqa", [1, 1, 1]), row("cloze", [0, 0, 0]), row("generate", [1, 0, 0])]


def clustered() -> list[Measurement]:
    """Forty passages with five questions each."""
    clusters = tuple(f"p{k // 5}" for k in range(200))
    return [
        row("mcqa", right(200, 0.65, 1), clusters=clusters),
        row("cloze", right(200, 0.45, 2), clusters=clusters),
        row("generate", right(200, 0.64, 3), clusters=clusters),
    ]


def losses() -> list[Measurement]:
    """A metric of which less is better, not between 0 and 1."""
    luck = random.Random(3)
    base = [2 + 4 * luck.random() for _ in range(40)]
    return [
        row("short", base, metric="ppl", higher_is_better=False),
        row(
            "long",
            [x + 0.5 + luck.random() for x in base],
            metric="ppl",
            higher_is_better=False,
        ),
    ]


def many() -> list[Measurement]:
    """Nine formats: each is set against the first."""
    return [row(f"f{k}", right(150, 0.4 + 0.05 * (k % 5), k + 20)) for k in range(9)]


def models() -> list[Measurement]:
    """Two models under one format."""
    return [
        row("mcqa", right(150, 0.7, 1), model="large"),
        row("mcqa", right(150, 0.5, 2), model="small"),
    ]


def grid() -> list[Measurement]:
    """Three models under three formats; cloze ranks them the other way round."""
    shares = {
        "large": (0.75, 0.35, 0.7),
        "medium": (0.6, 0.5, 0.55),
        "small": (0.45, 0.65, 0.4),
    }
    return [
        row(name, right(200, share, 10 * len(model) + k), model=model)
        for model, of_model in shares.items()
        for k, (name, share) in enumerate(zip(("mcqa", "cloze", "generate"), of_model, strict=True))
    ]


CASES: dict[str, Callable[[], list[Measurement]]] = {
    case.__name__: case
    for case in (
        *(
            clear,
            noise,
            unclear,
            two,
            two_alike,
            equal,
            constant,
            one_unread,
            all_unread,
            three_items,
        ),
        *(clustered, losses, many, models, grid),
    )
}


def comparison(case: str) -> ComparisonReport:
    """The comparison of a case."""
    return compare(CASES[case](), FAST)
