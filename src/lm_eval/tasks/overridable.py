"""The methods that tasks written as Python classes override, under the names the harness gave them.

A class in a helper module subclasses ``ConfigurableTask`` and replaces some of these. What it replaces
is used; everything else comes from its YAML, as for any task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask

Doc = Mapping[str, Any]


class HarnessMethods:
    """Hooks with the harness's names. Each default does what the task's YAML says."""

    VERSION: ClassVar[Any] = None
    DATASET_PATH: ClassVar[str | None] = None
    DATASET_NAME: ClassVar[str | None] = None
    OUTPUT_TYPE: ClassVar[str | None] = None

    @property
    def _task(self) -> ConfigurableTask:
        return cast("ConfigurableTask", self)

    def overrides(self, name: str) -> bool:
        """Whether a subclass brings this method itself."""
        return getattr(type(self), name) is not getattr(HarnessMethods, name)

    # Docs

    @property
    def dataset(self) -> Mapping[str, Any]:
        """Split name → rows."""
        return self._task.splits

    def has_training_docs(self) -> bool:
        return self._task.config.training_split is not None

    def has_validation_docs(self) -> bool:
        return self._task.config.validation_split is not None

    def has_test_docs(self) -> bool:
        return self._task.config.test_split is not None

    def training_docs(self) -> Iterable[Doc]:
        return self._task.split_docs(self._task.config.training_split)

    def validation_docs(self) -> Iterable[Doc]:
        return self._task.split_docs(self._task.config.validation_split)

    def test_docs(self) -> Iterable[Doc]:
        return self._task.split_docs(self._task.config.test_split)

    # Fields

    def doc_to_text(self, doc: Doc) -> Any:
        return self._task.prompts.text(doc)

    def doc_to_target(self, doc: Doc) -> Any:
        return self._task.prompts.target(doc)

    def doc_to_choice(self, doc: Doc) -> Any:
        return self._task.prompts.scored(doc)

    # Requests and scores

    def fewshot_context(self, doc: Doc, num_fewshot: int, **kwargs: Any) -> Any:
        """The whole prompt of a doc; only called where a subclass brings it."""
        raise NotImplementedError("fewshot_context is called where a subclass brings it")

    def construct_requests(self, doc: Doc, ctx: str, **kwargs: Any) -> Any:
        """``Instance`` objects for a doc; only called where a subclass brings it."""
        raise NotImplementedError("construct_requests is called where a subclass brings it")

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any]:
        """Metric → value for one doc."""
        from lm_eval.scoring.harness_task import HarnessScorer

        return HarnessScorer(self._task).values_of(doc, list(results))

    def aggregation(self) -> Mapping[str, Callable[..., float]]:
        """Metric → how its values are combined; empty: as the metric list says."""
        return {}

    def higher_is_better(self) -> Mapping[str, bool]:
        """Metric → direction; empty: as the metric list says."""
        return {}

    def download(self, *args: Any, **kwargs: Any) -> None:
        """Fetch data; nothing to do, as splits are read when they are asked for."""
