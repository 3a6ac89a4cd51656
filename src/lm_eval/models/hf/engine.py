"""The scorers, the generator and the batch sizes of one model.

What scorers find out about a model holds as long as it does not change. A program may put another in its
place or change its modules between two runs, so ``fingerprint`` is compared before each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.hf.endings import BatchJob, Endings
from lm_eval.models.hf.forward import PairScorer, PlainScorer
from lm_eval.models.hf.generation import BatchGenerator
from lm_eval.models.hf.options import auto_batch
from lm_eval.models.hf.tree_forward import refusal
from lm_eval.models.hf.tree_scoring import TreeScorer
from lm_eval.models.local.token_tree import Span, set_aside_empty, trees
from lm_eval.models.local.tokens import Tokens
from lm_eval.requests import Reply

_WORTH_A_TREE = 1.1
"""How many times fewer tokens a tree must have than its texts, to be evaluated as one."""
_NEEDED = ("config", "get_input_embeddings", "forward", "dtype", "modules")


@dataclass(frozen=True)
class EngineOptions:
    """How an engine works; ``rows`` per pass, or None for as many as fit, at most ``most_rows``."""

    device: Any
    rows: int | None
    most_rows: int
    is_encoder_decoder: bool
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
        self._unshared = 0

    def _batch(self) -> AutoBatch:
        return auto_batch(self.options.rows, self.options.most_rows, self.options.device)

    @cached_property
    def scorer(self) -> PairScorer | PlainScorer:
        """Scores spans by ordinary passes."""
        model, device = self.model, self.options.device
        if self.options.is_encoder_decoder:
            return PairScorer(model, device=device, batch=self.scoring)
        trials = (
            1 if refusal(model) is None else 4
        )  # what tokens see in other models is less certain
        return PlainScorer(model, device=device, batch=self.scoring, trials=trials)

    @cached_property
    def tree_scorer(self) -> TreeScorer | None:
        """Scores spans that share beginnings; None if each text is to be evaluated by itself."""
        if not self.options.prefix_cache or not isinstance(self.scorer, PlainScorer):
            return None
        return TreeScorer(
            self.model,
            device=self.options.device,
            plain=self.scorer.score_together,
            kv_budget=self.options.kv_budget,
        )

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, by the fastest scorer that this model and they allow.

        In a tree, tokens also look at those of other texts and are told to ignore them, and its first
        scores are compared with another pass: both pay only if texts share something.
        """
        plain, tree_scorer = self.scorer, self.tree_scorer
        if tree_scorer is None or not isinstance(plain, PlainScorer):
            yield from plain.score(spans)
            return
        empty: list[Span] = []
        for tree in trees(set_aside_empty(spans, empty)):
            if tree.size_of_texts < _WORTH_A_TREE * tree.size:
                self._unshared += tree.size
                yield from plain.score_together(tree.spans())
            else:
                yield from tree_scorer.score(tree)
        yield from empty

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
        scorer = self.tree_scorer
        if scorer is None:
            return {}
        return {
            "tokens_needed": self._unshared + scorer.tokens_needed,
            "tokens_pushed": self._unshared + scorer.tokens_pushed,
        }

    @property
    def notes(self) -> list[str]:
        """What a reader of the results should know."""
        notes = []
        if shrunk := self.scoring.shrunk + self.generating.shrunk:
            notes.append(
                f"Memory ran out {shrunk} times and smaller batches were used; scores are the "
                "same. A smaller batch_size saves the time."
            )
        for scorer in (self.tree_scorer, self.scorer):
            notes += scorer.notes if scorer else []
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
