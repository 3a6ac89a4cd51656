"""The classes that scripts and task helpers use: models, instances, tasks, the registry."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_eval import evaluator
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, StreamingLM, TemplateLM
from lm_eval.api.registry import (
    get_aggregation,
    get_metric,
    get_metric_aggregation,
    get_model,
    is_higher_better,
    register_group,
    register_model,
    register_task,
)
from lm_eval.api.task import ConfigurableTask
from lm_eval.cli import parse
from lm_eval.errors import ConfigError, UsageError
from lm_eval.registry import MODELS, TASK_GROUPS, TASKS, Registry
from lm_eval.reports.results_file import RunInfo
from lm_eval.run.plan import Outcome, Run, run_of
from lm_eval.simple import simple_evaluate
from lm_eval.tasks import TaskManager, get_task_dict

ROWS = [{"q": f"{n} + 1?", "options": [str(n), str(n + 1)], "a": 1} for n in range(7)]


def sums(**changes: Any) -> dict[str, Any]:
    return {
        "task": "sums",
        "custom_dataset": lambda **_: {"test": ROWS},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{q}}",
        "doc_to_choice": "options",
        "doc_to_target": "a",
        **changes,
    }


# Models


class Letters(TemplateLM):
    """One token for each character."""

    eot_token_id = 0

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        return [ord(letter) for letter in string]

    def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> Any:
        self.asked += requests
        return [(-1.0, False)] * len(requests)


@pytest.mark.parametrize(
    ("context", "continuation", "tokens"),
    [
        ("ab ", " c", ("ab", "  c")),  # blanks go to the continuation
        ("", "x", ("\0", "x")),
        ("", "\0x", ("\0", "x")),  # the prefix is there already
        ("", "", ("\0", "")),
        ("a", "", ("a", "")),
        ("  ", "x", ("", "  x")),
    ],
)
def test_pairs_are_encoded(context: str, continuation: str, tokens: tuple[str, str]) -> None:
    for backend in ("causal", "seq2seq"):
        model = Letters()
        model.backend = backend  # type: ignore[assignment]
        instance = Instance("loglikelihood", {}, (context, continuation), 0)
        assert model.loglikelihood([instance]) == [(-1.0, False)]
        ((_, before, after),) = model.asked
        assert ("".join(map(chr, before)), "".join(map(chr, after))) == tokens


def test_tokens_may_merge_at_the_seam() -> None:
    class Pairs(Letters):
        def tok_encode(self, string: str, *_: Any, **__: Any) -> list[int]:
            return [ord(string[place]) for place in range(0, len(string), 2)]

    assert Pairs()._encode_pair("abc", "d") == ([97, 99], [])


def test_a_template_lm_needs_its_methods() -> None:
    class Half(TemplateLM):
        eot_token_id = 0

    with pytest.raises(TypeError, match="_loglikelihood_tokens"):
        Half()  # type: ignore[abstract]


def test_capabilities_follow_from_methods() -> None:
    class Writes(LM):
        def generate_until(self, requests: Any) -> list[str]:
            return ["" for _ in requests]

    class Chats(Writes):
        def apply_chat_template(self, chat_history: Any, add_generation_prompt: bool = True) -> str:
            return ""

    class Streams(StreamingLM):
        def stream(self, requests: Any) -> Iterator[tuple[int, Any]]:
            yield from ()

    class SaysSo(Chats):
        capabilities = Writes.capabilities

    class Inherits(SaysSo):
        pass

    assert not Writes.capabilities.loglikelihood
    assert Writes.capabilities.generation
    assert Letters.capabilities.loglikelihood
    assert not Letters.capabilities.generation
    assert (Writes.capabilities.chat_template, Chats.capabilities.chat_template) == (False, True)
    assert Streams.capabilities.loglikelihood
    assert not Inherits.capabilities.chat_template


def test_models_are_made_from_strings() -> None:
    class Model(LM):
        def __init__(self, name: str, size: int = 1, batch_size: int = 1) -> None:
            self.given = (name, size, batch_size)

    made = Model.create_from_arg_string("name=x,size=3", {"batch_size": 2, "device": None})
    assert isinstance(made, Model)
    assert made.given == ("x", 3, 2)
    assert (made.rank, made.world_size, made.tokenizer_name) == (0, 1, "")
    made.cache_hook.add_partial("generate_until", (), "x")


def test_a_model_for_the_harness_reads_requests_like_instances() -> None:
    seen = []

    class Model(LM):
        def loglikelihood(self, requests: Any) -> Any:
            seen.extend(requests)
            return [(0.0, True)] * len(requests)

    from lm_eval import simple_evaluate

    simple_evaluate(Model(), tasks=[sums()], limit=1)
    first, second = seen
    assert first.args == ("0 + 1?", " 0") == first.arguments
    assert (second.idx, second.doc_id, second.task_name, second.repeats) == (1, 0, "sums", 1)
    assert (second.request_type, second.doc) == ("loglikelihood", ROWS[0])
    assert second.metadata == ("sums", 0, 1)


# Tasks


def test_build_all_requests_shares_docs_among_ranks() -> None:
    task = ConfigurableTask(sums())
    ids = []
    for rank in range(3):
        task.build_all_requests(limit=6, rank=rank, world_size=3)
        assert all(isinstance(one, Instance) for one in task.instances)
        ids.append(sorted({one.doc_id for one in task.instances}))
    assert ids == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(UsageError, match="rank 3"):
        task.build_all_requests(rank=3, world_size=3)
    task.build_all_requests(limit=1, cache_requests=True)  # makes no difference
    assert {one.doc_id for one in task.instances} == {0}
    with pytest.raises(UsageError, match=r"lm\.apply_chat_template"):
        task.build_all_requests(apply_chat_template=True)


def test_a_task_class_is_made_with_the_harness_s_arguments() -> None:
    class Own(ConfigurableTask):
        def __init__(
            self, data_dir: Any = None, cache_dir: Any = None, mode: Any = None, config: Any = None
        ) -> None:
            super().__init__(data_dir, cache_dir, mode, config)

    for made in (Own(config=sums(**{"class": Own})), ConfigurableTask(sums(), "x", "y")):
        assert made.config.get("task") == "sums"
        assert made.config.get("metric_list", []) == []


def test_examples_as_programs_get_at_them() -> None:
    class Own(ConfigurableTask):
        def fewshot_docs(self) -> Any:
            return ROWS[:2]

    task, own = ConfigurableTask(sums()), Own(sums())
    assert list(task.fewshot_docs()) == ROWS
    first, second = (task.sampler.sample(3, eval_doc=ROWS[0]) for _ in range(2))
    assert (len(first), ROWS[0] in first) == (3, False)
    assert first != second
    task.set_fewshot_seed(task.seed)
    assert task.sampler.sample(3, eval_doc=ROWS[0]) == first
    assert {own.shots_for(doc, 1) for doc in ROWS[2:]} == {(0,), (1,)}
    shuffled = task.dataset.shuffle(seed=3)["test"]
    assert shuffled.to_list() == task.dataset["test"].shuffle(seed=3).to_list() != ROWS


def test_under_a_format_requests_can_be_built_but_not_scored_by_hand() -> None:
    task = ConfigurableTask(sums(target_type="index"), format_name="mcqa")
    task.build_all_requests(limit=1)
    assert [one.args[1] for one in task.instances] == [" A", " B"]
    assert task.fewshot_context(ROWS[0], 0) == task.instances[0].args[0]
    with pytest.raises(UsageError, match=r"lm_eval\.evaluate"):
        task.process_results(ROWS[0], [])


def test_set_config_takes_effect() -> None:
    task = ConfigurableTask(sums())
    assert task.fewshot_context(ROWS[0], 0) == "0 + 1?"
    task.set_config("doc_to_text", "Q: {{q}}")
    task.set_config("metadata", {"a": 1})
    task.override_config("metadata", {"b": 2}, update=True)
    task.override_metric("acc_norm")
    assert task.fewshot_context(ROWS[0], 0) == "Q: 0 + 1?"
    assert task.get_config("metadata") == {"a": 1, "b": 2}
    assert list(task.aggregation()) == ["acc_norm"]
    assert task.dump_config()["doc_to_text"] == "Q: {{q}}"
    with pytest.raises(ConfigError, match="Did you mean 'doc_to_text'"):
        task.set_config("doc_to_txt", "")


def test_a_subclass_can_call_what_it_overrides() -> None:
    class Shouting(ConfigurableTask):
        def fewshot_context(self, doc: Any, num_fewshot: int, *args: Any, **kwargs: Any) -> Any:
            return f"{super().fewshot_context(doc, num_fewshot, *args, **kwargs)}!"

        def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
            return super().construct_requests(doc, ctx, **kwargs)[1:]

    task = Shouting(sums())
    task.build_all_requests(limit=1)
    assert [one.args for one in task.instances] == [("0 + 1?!", " 1")]


# TaskManager


def test_loads_mappings_and_tasks() -> None:
    manager = TaskManager()
    task = ConfigurableTask(sums(task="object"))
    found = manager.load([sums(), task, {"task": "demo_mcq@mcqa", "num_fewshot": 3}])["tasks"]
    assert list(found) == ["sums", "object", "demo_mcq@mcqa"]
    assert found["object"] is task
    assert found["demo_mcq@mcqa"].config.num_fewshot == 3
    group = {"group": "both", "task": ["demo_mcq", "demo_short"]}
    assert manager.load(group)["group_map"] == {"both": ["demo_mcq", "demo_short"]}


def test_get_task_dict_is_nested() -> None:
    found = get_task_dict(["demo"])
    ((group, members),) = found.items()
    assert group.name == "demo"
    assert list(members) == [member.name for member in group.members]


def test_all_names() -> None:
    manager = TaskManager(verbosity="WARNING")
    assert (
        set(manager.all_tasks)
        == {
            *manager.all_subtasks,
            *manager.all_groups,
            *manager.all_tags,
        }
        == set(manager.task_index)
    )
    assert manager.match_tasks(["demo_m*", "nothing"]) == ["demo_mcq"]


# Registry


@pytest.fixture
def own_tasks() -> Iterator[None]:
    yield
    for name in ("mine", "yours"):
        TASKS._entries.pop(name, None)
    TASK_GROUPS.clear()


@pytest.mark.usefixtures("own_tasks")
def test_registered_task_classes() -> None:
    @register_group("ours")
    @register_task("mine")
    class Mine(ConfigurableTask):
        def __init__(self, config: Any = None) -> None:
            super().__init__(sums(task="mine"))

    assert isinstance(TaskManager().load(["mine"])["tasks"]["mine"], Mine)
    assert list(TaskManager().load("ours")["tasks"]) == ["mine"]
    with pytest.raises(ConfigError, match="is not a registered task"):
        register_group("ours")(ConfigurableTask)


def test_metric_facts() -> None:
    assert get_metric_aggregation("acc") is get_aggregation("mean")
    assert (is_higher_better("acc"), is_higher_better("word_perplexity")) == (True, False)
    assert get_metric("exact_match")(references=["a"], predictions=["a"]) == {"exact_match": 1.0}


@pytest.mark.usefixtures("own_registries")
def test_registered_model() -> None:
    @register_model("one", "another")
    class Model(LM):
        pass

    assert get_model("one") is Model is MODELS.get("another")


def test_an_object_and_the_string_that_names_it_are_no_clash() -> None:
    class Thing:
        pass

    module = types.ModuleType("plugin_of_a_test")
    Thing.__module__, Thing.__qualname__ = module.__name__, "Thing"
    module.Thing = Thing  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        for first, second in ((Thing, "plugin_of_a_test:Thing"), ("plugin_of_a_test:Thing", Thing)):
            registry: Registry[Any] = Registry("thing")
            registry.register("x", first)
            registry.register("x", second, place="a package (plugin_of_a_test:Thing)")
            assert registry.get("x") is Thing
            with pytest.raises(ConfigError, match="registered twice"):
                registry.register("x", "plugin_of_a_test:Other")
    finally:
        del sys.modules[module.__name__]


# One run, asked for in three ways

SPELLINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "prompts": (
        {"num_fewshot": 3, "system_instruction": "Be brief.", "permute": "cyclic"},
        ["--num_fewshot=3", "--system_instruction=Be brief.", "--permute=cyclic"],
    ),
    "chat": (
        {"apply_chat_template": True, "fewshot_as_multiturn": False},
        ["--apply_chat_template=true", "--fewshot_as_multiturn=false"],
    ),
    "docs": ({"limit": 0.5}, ["--limit=0.5"]),
    "samples": ({"samples": {"sums": [0, 2]}}, ['--samples={"sums": [0, 2]}']),
    "model": (
        {"model_args": "reply=B", "batch_size": 4, "max_batch_size": 8, "device": "cpu"},
        ["--model_args=reply=B", "--batch_size=4", "--max_batch_size=8", "--device=cpu"],
    ),
    "answers": (
        {"gen_kwargs": "temperature=0.5", "use_cache": "answers.db"},
        ["--gen_kwargs=temperature=0.5", "--use_cache=answers.db"],
    ),
    "seeds": (
        {
            "random_seed": 1,
            "numpy_random_seed": 2,
            "torch_random_seed": 3,
            "fewshot_random_seed": 4,
        },
        ["--seed=1,2,3,4"],
    ),
    "no seed": ({"fewshot_random_seed": None}, ["--seed=0,1234,1234,none"]),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_python_the_command_line_and_an_option_file_ask_for_the_same_run(
    spelling: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keywords, flags = SPELLINGS[spelling]
    runs: list[Run] = []

    def remember(run: Run, *_: Any, **__: Any) -> Outcome:
        runs.append(run)
        return Outcome([], [], RunInfo(model="dummy"))

    monkeypatch.setattr(evaluator, "execute", remember)
    simple_evaluate("dummy", tasks=[sums()], **keywords)
    runs.append(run_of(vars(parse(["run", "--model", "dummy", *flags]))))
    pairs = [flag.removeprefix("--").partition("=") for flag in flags]
    options = {"model": "dummy", **{name: value for name, _, value in pairs}}
    if "apply_chat_template" in options:
        options["apply_chat_template"] = True
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(options))
    runs.append(run_of(vars(parse(["run", "--config", str(file)]))))
    by_python, *others = [replace(run, command=()) for run in runs]
    for other in others:
        max_failed = other.options.max_failed  # an option of the command line alone, as text
        assert max_failed == "0"
        prompt = other.options.prompt
        prompt = replace(prompt, as_chat=bool(prompt.as_chat))  # None: a flag was not given
        options = replace(other.options, max_failed=0, prompt=prompt)
        assert replace(other, options=options) == by_python
