"""The methods that tasks written as Python classes override, under the harness's names.

A class in a helper module subclasses ``ConfigurableTask`` and overrides some of these; everything else
comes from its YAML, as for any task. Only this module of the package uses the harness's rules in
``lm_eval.harness``: its imports are late, because those rules build on tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

from lm_eval.errors import UsageError

if TYPE_CHECKING:
    from lm_eval.harness.scorer import HarnessScorer
    from lm_eval.tasks.config import TaskConfig
    from lm_eval.tasks.fewshot import ContextSampler
    from lm_eval.tasks.prompts import Prompts, RawFields
    from lm_eval.tasks.task import ConfigurableTask

Doc = Mapping[str, Any]


class HarnessMethods:
    """Hooks with the harness's names. Each default does what the task's YAML says."""

    VERSION: Any = None
    """The task's version: ``metadata.version`` of its YAML if there is one."""
    DATASET_PATH: ClassVar[str | None] = None
    DATASET_NAME: ClassVar[str | None] = None
    OUTPUT_TYPE: str | None = None

    @property
    def _task(self) -> ConfigurableTask:
        return cast("ConfigurableTask", self)

    # Docs

    @property
    def dataset(self) -> Mapping[str, Any]:
        """Split name → rows. ``task.dataset["test"] = rows`` asks other docs."""
        return self._task.splits

    @dataset.setter
    def dataset(self, splits: Mapping[str, Any]) -> None:
        self._task.replace_splits(splits)

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

    def fewshot_docs(self) -> Iterable[Doc]:
        """The docs that examples are drawn from."""
        return self._task._shot_docs()

    @cached_property
    def sampler(self) -> ContextSampler:
        """Draws examples for a program; the task's own examples come from a stream of its own."""
        from lm_eval.tasks.fewshot import get_sampler

        settings = self._task.config.fewshot_config or {}
        kind = settings.get("sampler", "default")
        made = get_sampler(kind) if isinstance(kind, str) else kind
        return cast("ContextSampler", made(self._task.shot_pool, rnd=self._task.seed))

    def doc_iterator(
        self,
        *,
        rank: int = 0,
        limit: int | None = None,
        world_size: int = 1,
        samples: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Doc]]:
        """``(number, doc)`` of the docs asked: of the first ``limit``, or of ``samples``, every
        ``world_size``-th from ``rank`` on.
        """
        docs = self._task.eval_docs
        if samples:
            numbers = sorted(set(samples))
            if numbers[0] < 0 or numbers[-1] >= len(docs):
                raise UsageError(
                    f"Task {self._task.name!r} has docs 0 to {len(docs) - 1}; samples asks for "
                    f"{numbers[-1] if numbers[0] >= 0 else numbers[0]}."
                )
        else:
            numbers = list(range(len(docs) if not limit else min(int(limit), len(docs))))
        return ((number, docs[number]) for number in numbers[rank::world_size])

    # Fields

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> Any:
        """The question of a doc by the YAML, or by another value of that key."""
        return self._yaml_prompts(text=doc_to_text).text(doc)

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        return self._yaml_prompts(target=doc_to_target).target(doc)

    def doc_to_choice(self, doc: Doc, doc_to_choice: Any = None) -> Any:
        return self._yaml_prompts(choice=doc_to_choice).scored(doc)

    def _yaml_prompts(self, **fields: Any) -> Prompts:
        """Prompts by the task's YAML alone, for overriding methods that call ``super()``."""
        changed = {name: value for name, value in fields.items() if value is not None}
        if not changed:
            return self._unchanged_prompts
        task = self._task
        raw = replace(task.config.raw, **changed)
        return task._prompts_for(raw, task.config.gen_prefix, by_yaml=True)

    @cached_property
    def _unchanged_prompts(self) -> Prompts:
        task = self._task
        if not any(map(task.overrides, ("doc_to_text", "doc_to_target", "doc_to_choice"))):
            return task.prompts
        return task._prompts_for(task.config.raw, task.config.gen_prefix, by_yaml=True)

    def _harness_prompts(self, raw: RawFields, gen_prefix: Any) -> Prompts:
        """Turns docs into turns of a prompt by the harness's rules, without a format."""
        from lm_eval.harness.instances import HarnessPrompts

        task = self._task
        return HarnessPrompts(
            raw,
            output_type=task.output_type,
            columns=frozenset(task.eval_docs[0]),
            gen_prefix=gen_prefix,
            parity=task.parity,
        )

    def _media_of(self, doc: Doc, spec: Any, key: str) -> Any:
        """A doc's images or audio; ``key`` is the task's key that holds ``spec``."""
        from lm_eval.harness.instances import media_of

        return media_of(doc, spec, key)

    # Requests and scores

    def fewshot_context(
        self,
        doc: Doc,
        num_fewshot: int,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., str] | None = None,
        gen_prefix: str | None = None,
    ) -> str | list[str]:
        """The whole prompt of a doc; a list if each choice is part of the question.

        Examples come from the task's one stream, so call it in the order of the docs.
        """
        from lm_eval.harness.instances import ChatSettings, build_context

        chat = ChatSettings(
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
        )
        return build_context(self._task, doc, num_fewshot, chat, gen_prefix=gen_prefix)

    def construct_requests(
        self,
        doc: Doc,
        ctx: Any,
        *,
        metadata: Any = (None, None, None),
        apply_chat_template: bool = False,
        chat_template: Any = None,  # noqa: ARG002 (the harness passes it)
    ) -> Any:
        """``Instance`` objects for a doc whose prompt is ``ctx``."""
        from lm_eval.harness.instances import construct

        return construct(
            self._task, doc, ctx, metadata=metadata, apply_chat_template=apply_chat_template
        )

    def build_all_requests(
        self,
        *,
        limit: float | None = None,
        samples: Sequence[int] | None = None,
        rank: int = 0,
        world_size: int = 1,
        cache_requests: bool = False,  # noqa: ARG002 (requests are built anew, which is faster)
        rewrite_requests_cache: bool = False,  # noqa: ARG002
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., str] | None = None,
        tokenizer_name: str = "",  # noqa: ARG002 (part of a cache's key there)
    ) -> None:
        """Fill ``instances``, with docs ``rank``, ``rank + world_size``, … of those chosen."""
        from lm_eval.harness.instances import ChatSettings, build_instances

        chat = ChatSettings(
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            fewshot_as_multiturn=fewshot_as_multiturn,
            chat_template=chat_template,
        )
        self._task.instances = build_instances(
            self._task, chat, limit=limit, samples=samples, rank=rank, world_size=world_size
        )

    def apply_filters(self) -> list[Any]:
        """Store what each filter leaves of every instance's ``resps`` in its ``filtered_resps``."""
        instances = self._task.instances
        for pipeline in self.harness_scorer.pipelines:
            left = pipeline.apply(
                [instance.resps for instance in instances], [instance.doc for instance in instances]
            )
            for instance, kept in zip(instances, left, strict=True):
                instance.filtered_resps[pipeline.name] = kept
        return instances

    def process_results(self, doc: Doc, results: Sequence[Any]) -> Mapping[str, Any]:
        """Metric → value for one doc."""
        return self.harness_scorer.values_of(doc, list(results))

    def aggregation(self) -> Mapping[str, Callable[..., float]]:
        """Metric → how its values are combined."""
        metrics = self.harness_scorer.metrics
        return {name: metrics.aggregation_of(name) for name in metrics.names}

    def higher_is_better(self) -> Mapping[str, bool]:
        """Metric → whether more is better."""
        directions = self.harness_scorer.metrics.higher_is_better()
        return {name: True if better is None else better for name, better in directions.items()}

    @cached_property
    def harness_scorer(self) -> HarnessScorer:
        """Filters and scores the answers by the harness's rules."""
        from lm_eval.harness.scorer import HarnessScorer

        if self._task.format is not None:
            raise UsageError(
                f"Task {self._task.name!r} is asked under a format, which reads and scores its "
                "answers itself. Run it with lm_eval.evaluate."
            )
        return HarnessScorer(self._task)

    # What a subclass overrides

    @property
    def has_own_scoring(self) -> bool:
        return self._task.overrides("process_results")

    @property
    def own_process_results(self) -> Callable[..., Any] | None:
        """The function that scores a doc, if the YAML or a subclass has one."""
        if self.has_own_scoring:
            return self.process_results
        function: Callable[..., Any] | None = self._task.config.process_results
        return function

    @property
    def own_aggregation(self) -> Mapping[str, Callable[..., float]]:
        """Metric → aggregation, if a subclass defines it."""
        return self.aggregation() if self._task.overrides("aggregation") else {}

    @cached_property
    def has_several_targets(self) -> bool:
        """Whether any of a list of targets is right; the first doc decides for all."""
        return isinstance(self._task.prompts.target(self._task.eval_docs[0]), list)

    @classmethod
    def _class_settings(cls) -> dict[str, Any]:
        """The settings that a Python task gives as class attributes instead of YAML keys."""
        settings = {
            "dataset_path": cls.DATASET_PATH,
            "dataset_name": cls.DATASET_NAME,
            "output_type": cls.OUTPUT_TYPE,
        }
        return {key: value for key, value in settings.items() if value is not None}

    def _own_fields(self, raw: RawFields) -> RawFields:
        """The field specs, replaced by the methods that a subclass overrides."""
        return replace(
            raw,
            text=self.doc_to_text if self._task.overrides("doc_to_text") else raw.text,
            choice=self.doc_to_choice if self._task.overrides("doc_to_choice") else raw.choice,
            target=self.doc_to_target if self._task.overrides("doc_to_target") else raw.target,
        )

    # Config

    @property
    def _config(self) -> TaskConfig:
        return self._task.config

    @_config.setter
    def _config(self, config: TaskConfig) -> None:
        self._task.replace_config(config)

    @property
    def _instances(self) -> list[Any]:
        return self._task.instances

    def get_config(self, key: str) -> Any:
        """The value of a key of the task's YAML, or None."""
        return getattr(self._task.config, key, None)

    def override_config(self, key: str, value: Any, update: bool = False) -> None:
        """Another name for ``set_config``."""
        self._task.set_config(key, value, update)

    def override_metric(self, metric_name: str) -> None:
        """Score by this metric only."""
        self._task.set_config("metric_list", [{"metric": metric_name}])

    def dump_config(self) -> dict[str, Any]:
        """The config as a dict: set keys only."""
        return self._task.config.to_dict()

    def download(self, *args: Any, **kwargs: Any) -> None:
        """Fetch data; does nothing, because splits are read on first use."""
