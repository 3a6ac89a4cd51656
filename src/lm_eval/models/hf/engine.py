"""The scorers, the generator and the batch sizes of one model.

What scorers find out about a model holds as long as it does not change. A program may put another in its
place or change its modules between two runs, so ``fingerprint`` is compared before each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.hf.endings import BatchJob, Endings
from lm_eval.models.hf.forward import PairScorer, PlainScorer
from lm_eval.models.hf.generation import BatchGenerator
from lm_eval.models.hf.options import auto_batch
from lm_eval.models.hf.tokens import Tokens
from lm_eval.models.hf.tree_scoring import TreeScorer
from lm_eval.models.local.token_tree import Span
from lm_eval.requests import Reply

_NEEDED = ("config", "get_input_embeddings", "forward", "dtype", "modules")


@dataclass(frozen=True)
class EngineOptions:
    """How an engine works; ``rows`` per pass, or None for as many as fit, at most ``most_rows``."""

    device: Any
    rows: int | None
    most_rows: int
    reads_apart: bool
    prefix_cache: bool
    kv_budget: int | None


class HFEngine:
    """Scores spans and continues prompts with one model of ``transformers``."""

    def __init__(
        self, model: Any, tokens: Tokens, endings: Endings, options: EngineOptions
    ) -> None:
        self.model = model
        self.tokens = tokens
        self.endings = endings
        self.options = options
        self.scoring = self._batch()
        self.generating = self._batch()
        self._generator: BatchGenerator | None = None

    def _batch(self) -> AutoBatch:
        return auto_batch(self.options.rows, self.options.most_rows, self.options.device)

    @cached_property
    def scorers(self) -> Sequence[PairScorer | PlainScorer | TreeScorer]:
        """The scorer that is used, then the one it falls back to."""
        model, device = self.model, self.options.device
        if self.options.reads_apart:
            return [PairScorer(model, device=device, batch=self.scoring)]
        plain = PlainScorer(model, device=device, batch=self.scoring)
        if not self.options.prefix_cache:
            return [plain]
        budget = self.options.kv_budget
        return [TreeScorer(model, device=device, plain=plain.score, kv_budget=budget), plain]

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, by the fastest scorer that this model allows."""
        return self.scorers[0].score(spans)

    def generate(self, jobs: Iterable[BatchJob]) -> Iterator[tuple[BatchJob, Reply]]:
        """``(job, reply)`` as batches are complete."""
        self._generator = BatchGenerator(
            self.model,
            self.tokens,
            self.endings,
            device=self.options.device,
            batch=self.generating,
            prefix_cache=self.options.prefix_cache,
        )
        return self._generator.generate(jobs)

    @property
    def tokens_counted(self) -> dict[str, int]:
        """How many tokens texts have, and how many of them went through the model."""
        scorer = self.scorers[0]
        if not isinstance(scorer, TreeScorer):
            return {}
        return {"tokens_needed": scorer.tokens_needed, "tokens_pushed": scorer.tokens_pushed}

    @property
    def notes(self) -> list[str]:
        """What a reader of the results should know."""
        notes = []
        if shrunk := self.scoring.shrunk + self.generating.shrunk:
            notes.append(
                f"Memory ran out {shrunk} times and smaller batches were used; scores are the "
                "same. A smaller batch_size saves the time."
            )
        for scorer in self.scorers:
            notes += scorer.notes
        if self._generator is not None:
            notes += self._generator.notes
        return notes


def is_usable(model: Any) -> bool:
    """Whether an engine can work with this: a causal or encoder-decoder model of ``transformers``."""
    return all(hasattr(model, name) for name in _NEEDED)


def fingerprint(model: Any) -> tuple[Any, ...]:
    """Equal as long as a model has the same modules and they compute the same."""
    return (
        id(model),
        *(
            (id(type(module)), len(module._forward_hooks), id(vars(module).get("forward")))
            for module in model.modules()
        ),
    )
