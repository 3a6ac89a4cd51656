"""All tasks are asked as one stream, and how it flows changes no result."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval.answers.ask import AnswerCache
from lm_eval.answers.keys import RequestKeys
from lm_eval.answers.store import AnswerStore
from lm_eval.errors import ConfigError, ModelError
from lm_eval.evaluator import RunOptions, run_all
from lm_eval.harness.instances import Instance
from lm_eval.models.dummy import DummyLM
from lm_eval.requests import Answer, PromptOptions, Request
from lm_eval.run.plan import Prepared
from lm_eval.run.prepare import prepare
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.task import ConfigurableTask

OPTIONS = RunOptions(shows_progress=False, prompt=PromptOptions(num_fewshot=2))
DOCS = 40
FORMATS = ("mcqa", "cot", "generate", None)


def config(folder: Path, **keys: Any) -> TaskConfig:
    path = folder / "d.jsonl"
    rows = [{"q": f"Q{n}?", "c": ["w", "x", "y"], "a": n % 3} for n in range(DOCS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    fields = {"doc_to_text": "q", "doc_to_choice": "c", "doc_to_target": "a"}
    given = {"task": "t", "dataset_path": str(path), "test_split": "test", **fields}
    return TaskConfig.from_mapping({**given, "output_type": "multiple_choice", **keys})


def tasks(folder: Path) -> list[ConfigurableTask]:
    generating = config(
        folder,
        task="gen",
        output_type="generate_until",
        filter_list=[
            {"name": name, "filter": [{"function": "regex", "regex_pattern": pattern}, first]}
            for name, pattern in (("letter", "([A-D])"), ("number", r"(\d+)"))
            for first in [{"function": "take_first"}]
        ],
        repeats=2,
    )
    made = [ConfigurableTask(config(folder), format_name=name) for name in FORMATS]
    return [*made, ConfigurableTask(generating)]


class Watched(DummyLM):
    """Counts its streams, and reads as far ahead as told; answers in an order of its own."""

    def __init__(self, ahead: int = 1, **more: Any) -> None:
        super().__init__(**more)
        self.ahead = ahead
        self.kinds: list[str] = []

    def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answer]]:
        held: list[tuple[int, Request]] = []
        order = random.Random(7)
        self.kinds.append("")
        for place, request in enumerate(requests):
            self.kinds[-1] = request.kind
            held.append((place, request))
            if len(held) >= self.ahead:
                yield self._one(held, order)
        while held:
            yield self._one(held, order)

    def _one(self, held: list[tuple[int, Request]], order: random.Random) -> tuple[int, Answer]:
        place, request = held.pop(order.randrange(len(held)))
        return place, self._answer(request)


def told(
    folder: Path, model: DummyLM, *, held_docs: int = 10**6, kept: AnswerCache | None = None
) -> Any:
    samples: dict[str, list[Any]] = {}
    prepared = [prepare(task, OPTIONS, held_docs=held_docs) for task in tasks(folder)]
    results = run_all(
        prepared,
        model,
        OPTIONS,
        on_sample=lambda name, sample: samples.setdefault(name, []).append(sample),
        kept=kept,
    )
    for result in results:
        assert result.usage is not None
        result.usage = None
    ordered = {
        name: sorted(some, key=lambda sample: (sample["doc_id"], sample["filter"]))
        for name, some in samples.items()
    }
    return results, ordered


def test_neither_order_nor_memory_changes_a_result(tmp_path: Path) -> None:
    plain = told(tmp_path, DummyLM())
    assert len(plain[1]["gen"]) == 2 * DOCS
    assert len({str(sample["fewshot_docs"]) for sample in plain[1]["t@cot"]}) > 5
    for ahead, held_docs in ((1, 0), (7, 10**6), (10**6, 0)):
        assert told(tmp_path, Watched(ahead), held_docs=held_docs) == plain


def test_one_stream_for_each_kind_of_request(tmp_path: Path) -> None:
    model = Watched()
    told(tmp_path, model)
    assert model.kinds == ["loglikelihood", "generate_until"]


def test_requests_are_made_as_the_model_reads_them(tmp_path: Path) -> None:
    made: list[int] = []

    class Counting(ConfigurableTask):
        def doc_to_text(self, doc: Any) -> str:
            made.append(1)
            return str(doc["q"])

    read_ahead: list[int] = []

    class Slow(DummyLM):
        def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answer]]:
            made.clear()
            for place, request in enumerate(requests):
                read_ahead.append(len(made) - place)
                yield place, self._answer(request)

    task = Counting(config(tmp_path, output_type="generate_until"))
    options = RunOptions(shows_progress=False)
    run_all([prepare(task, options, held_docs=0)], Slow(), options)
    assert len(read_ahead) == DOCS
    assert max(read_ahead) <= 2


class Mixed(ConfigurableTask):
    """Asks each doc in two ways."""

    def construct_requests(self, doc: Any, ctx: str, **kwargs: Any) -> Any:
        kinds = {"generate_until": (ctx, {"until": []}), "loglikelihood": (ctx, " x")}
        return [
            Instance(kind, doc, arguments, index, kwargs["metadata"])
            for index, (kind, arguments) in enumerate(kinds.items())
        ]

    def process_results(self, doc: Any, results: Any) -> Any:
        reply, (logprob, _) = results
        return {"seen": float(isinstance(reply, str) and logprob < 0)}

    def aggregation(self) -> Any:
        return {"seen": lambda values: sum(values) / len(values)}

    def higher_is_better(self) -> Any:
        return {"seen": True}


@pytest.mark.parametrize("held_docs", [0, 1000])
def test_a_doc_may_be_asked_in_two_ways(tmp_path: Path, held_docs: int) -> None:
    task = Mixed(config(tmp_path, output_type="generate_until"))
    options = RunOptions(shows_progress=False)
    [result] = run_all([prepare(task, options, held_docs=held_docs)], Watched(), options)
    assert (result.metrics["seen"].value, result.num_docs) == (1.0, DOCS)


def test_a_shared_store_changes_no_result(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        model = Watched(5)
        store = AnswerStore(tmp_path / "s.db")
        # The dummy's replies differ by place, so only a store that keeps places apart is exact.
        kept = AnswerCache(store, RequestKeys(model.identity(), by_place=True), is_shared=True)
        found.append(told(tmp_path, model, kept=kept))
        store.close()
    assert found[0] == found[1] == told(tmp_path, DummyLM())
    assert (kept.added, kept.found, model.kinds) == (0, (3 + 1 + 1 + 3 + 2) * DOCS, [])


def test_what_goes_wrong_with_kept_answers_is_said_in_its_own_words(tmp_path: Path) -> None:
    def broken(doc: Any, replies: Any) -> Any:
        if doc["q"] == "Q9?":
            raise KeyError("lost")
        return {"m": 1.0}

    options = RunOptions(shows_progress=False)
    model = DummyLM()
    for process_results in (lambda doc, replies: {"m": 1.0}, broken):
        keys = {"output_type": "generate_until", "process_results": process_results}
        task = ConfigurableTask(config(tmp_path, **keys))
        store = AnswerStore(tmp_path / "s.db")
        kept = AnswerCache(store, RequestKeys({}, by_place=False), is_shared=True)
        try:
            if process_results is broken:
                with pytest.raises(ConfigError, match=r"doc 9: process_results failed: KeyError"):
                    run_all([prepare(task, options)], model, options, kept=kept)
            else:
                run_all([prepare(task, options)], model, options, kept=kept)
        finally:
            store.close()


@pytest.mark.parametrize(
    ("places", "said"),
    [([0, 1, 2], "left 37 requests without"), ([0, 0], "request 0"), ([99], "request 99")],
)
def test_a_backend_that_miscounts_is_an_error(tmp_path: Path, places: list[int], said: str) -> None:
    class Miscounts(DummyLM):
        def stream(self, requests: Iterable[Request]) -> Iterator[tuple[int, Answer]]:
            list(requests)
            for place in places:
                yield place, "x"

    task = ConfigurableTask(config(tmp_path), format_name="cot")
    with pytest.raises(ModelError, match=said):
        run_all([prepare(task, OPTIONS)], Miscounts(), OPTIONS)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("held_docs", [10**6, 5])
def test_without_prefill_docs_are_those_of_a_run_that_never_had_it(
    tmp_path: Path, name: str | None, held_docs: int
) -> None:
    def prepared(can_prefill: bool) -> Prepared:
        prompt = PromptOptions(num_fewshot=2, as_chat=True, can_prefill=can_prefill)
        task = ConfigurableTask(config(tmp_path), format_name=name)
        return prepare(task, RunOptions(prompt=prompt), held_docs=held_docs)

    before, wanted = prepared(can_prefill=True), prepared(can_prefill=False)
    found = before.without_prefill()
    assert (found.docs, found.prompt, found.counts) == (wanted.docs, wanted.prompt, wanted.counts)
    assert list(found.asked()) == list(wanted.asked())
    is_same = all(one is other for one, other in zip(found.docs, before.docs, strict=True))
    assert is_same == (held_docs > DOCS and name != "generate")  # built again only where it matters
