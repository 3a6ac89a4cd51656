"""Calls in the style of public programs, by names of EleutherAI's harness; the same file runs there.

With a Python that has the harness 0.4.13, ``python tests/support/peer_calls.py
tests/data/peer_calls.json`` stores what it answers.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from types import SimpleNamespace
from typing import Any


def tables() -> list[Any]:
    """``make_table`` of results of many shapes."""
    from lm_eval.utils import make_table

    rng = random.Random(5)
    shown = []
    for _ in range(60):
        names = [
            rng.choice(["arc", "hellaswag", "a|b", "日本語", "2024"]) + str(i) * (i % 2)
            for i in range(rng.randint(0, 5))
        ]
        results = {
            name: {"alias": rng.choice([name, f" - {name}"]), **_scores(rng), "sample_len": 3}
            for name in names
        }
        versions = [0, 1, 1.0, 2.5, "Yaml", None, "1.0"]
        whole = {
            "results": results,
            "versions": {n: rng.choice(versions) for n in results if rng.random() < 0.9},
            "n-shot": {n: rng.choice([0, 5, 25]) for n in results if rng.random() < 0.9},
            "higher_is_better": {n: {"acc": True, "ppl": False} for n in results},
        }
        if results and rng.random() < 0.5:
            first, *others = results
            whole["group_subtasks"] = {first: others}
            whole["groups"] = {first: results[first]}
            shown.append(make_table(whole, "groups"))
        shown.append(make_table(whole, sort_results=rng.random() < 0.3))
    return shown


def _scores(rng: random.Random) -> dict[str, Any]:
    values = [
        rng.random(),
        100 * rng.random(),
        0.0,
        1.0,
        0.5,
        float("nan"),
        3,
        "N/A",
        1e-5,
        12345.6,
    ]
    scores: dict[str, Any] = {}
    for metric in rng.sample(["acc", "acc_norm", "ppl", "f1"], rng.randint(0, 3)):
        filter_name = rng.choice(["none", "strict-match", "7"])
        scores[f"{metric},{filter_name}"] = rng.choice(values)
        if rng.random() < 0.7:
            scores[f"{metric}_stderr,{filter_name}"] = rng.choice(["N/A", rng.random(), 0.0, 0.01])
    return scores


def windows() -> list[Any]:
    """Rolling windows over texts of every length, and as contexts and continuations."""
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

    found = []
    for length in range(0, 14):
        for max_seq_len in range(1, 7):
            for context_len in range(1, max_seq_len + 1):
                pairs = list(
                    get_rolling_token_windows(
                        token_list=list(range(length)),
                        prefix_token=99,
                        max_seq_len=max_seq_len,
                        context_len=context_len,
                    )
                )
                found.append([pairs, list(map(make_disjoint_window, pairs))])
    return found


def truncations() -> list[Any]:
    from lm_eval.models.utils import maybe_truncate, truncate_tokens

    tokens = list(range(10))
    cut = [truncate_tokens(tokens, n, side=s) for n in (1, 4, 5, 12) for s in SIDES]
    for max_gen_toks in (2, 6):
        for window in (3, 7, 11, 16):
            for side in SIDES:
                for shrink in (False, True):
                    cut.append(
                        maybe_truncate(
                            tokens,
                            max_gen_toks,
                            window,
                            2,
                            side,
                            shrink_gen_toks=shrink,
                            verbose=False,
                        )
                    )
    return [
        *cut,
        _error(truncate_tokens, tokens, 3, "top"),
        _error(maybe_truncate, tokens, 4, 2, 3, "left", True),
    ]


SIDES = ("left", "middle", "right")


def gen_kwargs() -> list[Any]:
    from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs

    given: list[dict[str, Any]] = [
        {},
        {"until": "\n", "temperature": 0.7},
        {"until": ["a", "b"], "do_sample": False, "temperature": 0.5},
        {"do_sample": True, "max_new_tokens": "17", "top_p": 0.9},
        {"max_gen_toks": 5, "max_tokens": 9, "max_completion_tokens": 11},
        {"max_completion_tokens": 11, "temperature": 0},
        {"until": None, "max_tokens": 8},
    ]
    made: list[Any] = [normalize_gen_kwargs(kwargs, 33) for kwargs in given]
    made.append(given)  # not changed
    for eos in (None, "</s>"):
        made.extend(handle_stop_sequences(until, eos) for until in (None, "x", ["x"], ["</s>"]))
    return [*made, _error(handle_stop_sequences, 7, eos=None)]


def texts() -> list[Any]:
    from lm_eval import utils
    from lm_eval.models.utils import (
        _add_special_kwargs,
        has_bos_prefix,
        postprocess_generated_text,
        replace_placeholders,
    )

    reply = "so</think> it is </think>\n 42\n\nQ: next"
    files = ["m/results_2024-01-01.json", "m/samples_arc_easy_2024-02-02.jsonl", "m/other.txt"]
    return [
        *[
            postprocess_generated_text(reply, stop, end)
            for stop in (None, "\n\n", ["Q:", ""], [])
            for end in (None, "</think>", "never")
        ],
        *[has_bos_prefix("<s>text", bos) for bos in (None, "<s>", "<b>", ["<b>", "<s>"])],
        *[
            replace_placeholders("a<i>b<i>c", "<i>", to, n)
            for to in ("<i>", "#")
            for n in (0, 1, 5)
        ],
        *[_add_special_kwargs(a, b) for a in (None, True, False) for b in (None, True, False)],
        utils.get_results_filenames(files),
        utils.get_sample_results_filenames(files),
        [utils.get_file_task_name("samples_arc_easy_T.jsonl"), utils.get_file_datetime(files[1])],
        utils.get_latest_filename(["a_2023", "b_2025", "c_2024"]),
        utils.sanitize_list([1, (2, [None])]),
        utils.handle_arg_string("1e-3"),
        utils.simple_parse_args_string("pretrained=gpt2,dtype=float32,x=True,y=None,z=0.5"),
        utils.apply_template("{{q}}!{{ q | regex_replace('a', 'b') }}", {"q": "banana"}),
        utils.convert_bytes_to_hash(b"abc"),
        utils.wrap_text("word " * 60, width=40),
        list(utils.create_iterator(range(20), rank=1, world_size=3, limit=12)),
    ]


def batches() -> list[Any]:
    """What a backend does with ``Collator``: sort, batch, answer, and put the answers back."""
    from lm_eval.models.utils import Collator, Grouper, chunks, undistribute
    from lm_eval.utils import Reorderer

    rng = random.Random(3)
    made: list[Any] = []
    for size in (0, 1, 7, 20):
        words = ["w" * rng.randint(1, 9) + str(i % 3) for i in range(size)]
        order = Collator(words, sort_fn=lambda w: -len(w))
        groups = list(order.get_batched(n=4))
        made += [
            len(order),
            groups,
            order.get_original([w.upper() for group in groups for w in group]),
        ]
        by_size = Collator(words, sort_fn=len)
        made.append(
            list(by_size.get_batched(n=0, batch_fn=lambda i, items: 2 if i < 5 else len(items)))
        )
        asked = [(w, {"until": [w[-1]], "temperature": 0.0}) for w in words]
        grouped = Collator(
            asked, sort_fn=lambda r: len(r[0]), group_fn=lambda r: r[1], group_by="gen_kwargs"
        )
        groups = list(grouped.get_batched(n=3))
        made += [groups, grouped.get_original([w for group in groups for w, _ in group])]
        reordered = Reorderer(words, len)
        made += [reordered.get_reordered(), reordered.get_original(reordered.get_reordered())]
        kinds = Grouper(words, lambda w: w[-1])
        made += [kinds.get_grouped(), kinds.get_original(kinds.get_grouped())]
        made += [list(chunks(words, n=3)), undistribute([words[0::2], words[1::2]])]
    return [*made, *_shared_contexts(Collator)]


class _Logits:
    """Stands for a tensor: one row for each request."""

    def __init__(self, rows: int = 1) -> None:
        self.rows = rows

    def __str__(self) -> str:
        return "one row"

    def expand(self, rows: int, *_: int) -> _Logits:
        return _Logits(rows)

    def chunk(self, rows: int) -> list[str]:
        return [f"row {row} of {self.rows}" for row in range(rows)]


def _shared_contexts(collator: Any) -> list[Any]:
    """Continuations of one context, answered together."""
    asked = [
        (("a", "x"), [1, 2], [3]),
        (("a", "y"), [1, 2], [4]),
        (("b", "z"), [5], [6, 7]),
        (("a", "v"), [1, 2], [8]),
    ]
    order = collator(
        asked,
        sort_fn=lambda r: -len(r[1]),
        group_fn=lambda r: r[-2] + r[-1][:-1],
        group_by="contexts",
    )
    answers = []
    for group in order.get_batched(n=2):
        for strings, context, continuation in group:
            for each in order.get_cache(strings, context, continuation, _Logits()):
                answers.append([each[0], each[1], str(each[2])])
    return [answers, order.get_original(answers)]


def lengths() -> list[Any]:
    from lm_eval.models.utils import configure_pad_token, resolve_max_length

    inner = SimpleNamespace(max_position_embeddings=512)
    configs = [
        None,
        SimpleNamespace(n_positions=1024),
        SimpleNamespace(n_ctx=77, max_position_embeddings=99),
        SimpleNamespace(max_position_embeddings=1200, text_config=inner),
    ]
    tokenizers = [
        None,
        SimpleNamespace(model_max_length=333),
        SimpleNamespace(model_max_length=int(1e30)),
    ]
    made: list[Any] = [resolve_max_length(c, t) for c in configs for t in tokenizers]
    made.append(resolve_max_length(None, default=5))
    for known in (
        {"pad_token_id": 0},
        {"unk_token": "u", "unk_token_id": 4},
        {"eos_token": "e", "eos_token_id": 2},
    ):
        made.append(
            vars(configure_pad_token(SimpleNamespace(pad_token=None, **known)))["pad_token_id"]
        )
    return made


def samplers() -> list[Any]:
    from lm_eval.api.samplers import ContextSampler, FirstNSampler, get_sampler

    pool = [{"q": i % 6} for i in range(12)]
    drawn: list[Any] = []
    sampler = get_sampler("default")(pool, rnd=42)
    for n in (0, 1, 3, 5):
        drawn += [sampler.sample(n), sampler.sample(n, eval_doc=pool[2])]
    drawn += [sampler.set_rnd(1).sample(2), sampler.replace_df(pool[6:]).sample(2)]
    drawn.append(ContextSampler(pool, rnd=7, fewshot_indices=[1, 3, 5]).sample(2))
    drawn.append(ContextSampler.rm_eval_doc(pool[0], pool))
    drawn.append(get_sampler("first_n")(pool).sample(3, eval_doc=pool[1]))
    return [*drawn, FirstNSampler(pool).sample(2), _error(get_sampler, "nope")]


def registries() -> list[Any]:
    import lm_eval.api.metrics  # noqa: F401  # registers them
    from lm_eval.api import registry

    names = ["acc", "exact_match", "perplexity", "f1"]
    return [
        [callable(registry.METRIC_REGISTRY[name]) for name in names],
        [registry.HIGHER_IS_BETTER_REGISTRY[name] for name in names],
        [registry.is_higher_better(name) for name in names],
        registry.METRIC_AGGREGATION_REGISTRY["acc"]([1.0, 2.0]),
        registry.get_aggregation("mean")([1, 2, 3]),
        {name: list(metrics) for name, metrics in registry.DEFAULT_METRIC_REGISTRY.items()},
        "hf" in registry.MODEL_REGISTRY or "hf is registered by lm_eval.models",
        registry.FILTER_REGISTRY.get("no such filter", "default"),
        _error(registry.get_model, "no such model"),
        _error(registry.get_filter, "no such filter"),
    ]


def configs() -> list[Any]:
    from argparse import Namespace

    from lm_eval.config.evaluate_config import EvaluatorConfig

    typed = Namespace(
        command="run",
        model="dummy",
        tasks="a,b",
        model_args="x=1",
        seed=[7],
        limit=3.0,
        output_path=None,
    )
    made = EvaluatorConfig.from_cli(typed)
    shown = (
        "model",
        "model_args",
        "tasks",
        "seed",
        "limit",
        "batch_size",
        "metadata",
        "log_samples",
    )
    chat = EvaluatorConfig.from_cli(
        Namespace(tasks="a", apply_chat_template=True, samples='{"a": [1]}')
    )
    return [
        {name: getattr(made, name) for name in shown},
        [chat.fewshot_as_multiturn, chat.samples],
        _error(EvaluatorConfig.from_cli, Namespace(tasks="a", log_samples=True)),
        _error(EvaluatorConfig.from_cli, Namespace(tasks="a", fewshot_as_multiturn=True)),
        _error(EvaluatorConfig.from_cli, Namespace(tasks="a", samples="{}x", limit=3)),
        _error(EvaluatorConfig.from_cli, Namespace(tasks="a", seed=[1, 2])),
        _error(EvaluatorConfig.from_config, "no such file.yaml"),
    ]


def groups() -> list[Any]:
    from lm_eval.api.group import ConfigurableGroup, Group

    outer, inner = Group("outer", alias="Outer", metadata={"version": 2}), Group("inner")
    outer.add(inner)
    made = ConfigurableGroup(config={"group": "g", "task": ["a", "b"], "metadata": {"version": 3}})
    return [
        [outer.name, outer.alias, outer.version, outer.has_aggregation, outer.child_names],
        [len(outer), "inner" in outer, "other" in outer, [g.name for g in outer]],
        [[g.name for g in outer.get_all_groups()], outer.get_all_tasks()],
        [outer.get("other"), outer.pop("inner") is inner, len(outer), outer.pop("inner")],
        [made.group, made.group_alias, made.version, made.group_name],
    ]


TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: q
doc_to_choice: choices
doc_to_target: gold
num_fewshot: 1
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
metadata: {{version: 2.0}}
"""
GROUP = """
group: even
task: [even_a, even_b]
aggregate_metric_list: [{metric: acc}]
metadata: {version: 1.0}
"""


def evaluations() -> list[Any]:
    """A trainer's evaluation: a model object, tasks from a folder, other docs, the printed table."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        docs = [{"q": f"Is {i} even?", "choices": ["yes", "no"], "gold": i % 2} for i in range(7)]
        Path(folder, "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
        for name in ("even_a", "even_b"):
            Path(folder, f"{name}.yaml").write_text(TASK.format(name=name, folder=folder))
        Path(folder, "group.yaml").write_text(GROUP)
        return _evaluated(folder)


def _evaluated(folder: str) -> list[Any]:
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager, get_task_dict
    from lm_eval.utils import handle_non_serializable, make_table

    class ShortestWins(LM):
        def loglikelihood(self, requests: Any) -> list[Any]:
            return [(-float(len(r.args[1])) - len(r.args[0]) % 7 / 9, False) for r in requests]

        def loglikelihood_rolling(self, requests: Any) -> list[Any]:
            return [-1.0 for _ in requests]

        def generate_until(self, requests: Any) -> list[Any]:
            return ["yes" for _ in requests]

    manager = TaskManager("INFO", include_path=folder, include_defaults=False)
    found: list[Any] = [manager.all_tasks, manager.all_groups, manager.match_tasks(["even_*"])]
    tasks = get_task_dict(["even_a"], manager)
    task = tasks["even_a"]
    found += [list(task.doc_iterator(limit=2)), list(task.doc_iterator(rank=1, world_size=3))]
    found += [task.config["task"], task._config.num_fewshot, task.task_name]
    task.dataset["test"] = task.dataset["test"].select(range(5))
    task.set_config(key="num_fewshot", value=0)
    found += [len(task.eval_docs), task.dataset["test"].num_rows]
    results = lm_eval.evaluate(lm=ShortestWins(), task_dict=tasks)
    found += [make_table(results), results["n-samples"]]
    task.build_all_requests(limit=2, rank=0, world_size=1)
    found.append([[i.request_type, list(i.arguments), i.doc_id] for i in task._instances])
    whole = lm_eval.simple_evaluate(
        model=ShortestWins(), tasks=["even"], task_manager=manager, limit=4, log_samples=False
    )
    found += [make_table(whole), make_table(whole, "groups"), whole["config"]["batch_sizes"]]
    found.append(len(json.dumps(whole, default=handle_non_serializable)) > 100)
    group = manager.load(["even"])["groups"]["even"]
    about = group.to_dict()
    found += [group.child_names, [t.task_name for t in group.get_all_tasks()], group.version]
    return [*found, {key: about[key] for key in ("group", "task", "aggregate_metric_list")}]


def task_classes() -> list[Any]:
    """A task that is a class with everything of its own: config, docs, requests and scores."""
    from statistics import fmean

    from lm_eval import simple_evaluate
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.api.task import Task, TaskConfig

    class Lengths(LM):
        def loglikelihood(self, requests: Any) -> list[Any]:
            return [(-len(r.args[1]) - len(r.args[0]) / 8, True) for r in requests]

        def loglikelihood_rolling(self, requests: Any) -> list[Any]:
            raise NotImplementedError

        def generate_until(self, requests: Any) -> list[Any]:
            raise NotImplementedError

    class Continuations(Task):
        OUTPUT_TYPE = "loglikelihood"

        def __init__(self) -> None:
            super().__init__()
            self._config = TaskConfig(
                task="continuations", output_type="loglikelihood", num_fewshot=0, repeats=1
            )

        def download(self, *_: Any, **__: Any) -> None:
            self.dataset = {"test": [{"a": "A", "b": " B"}, {"a": "CC", "b": " DDD"}]}

        def has_training_docs(self) -> bool:
            return False

        def has_validation_docs(self) -> bool:
            return False

        def has_test_docs(self) -> bool:
            return True

        def test_docs(self) -> Any:
            return self.dataset["test"]

        def doc_to_text(self, doc: Any) -> Any:
            return doc["a"]

        def doc_to_target(self, doc: Any) -> Any:
            return doc["b"]

        def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
            arguments = (ctx, self.doc_to_target(doc))
            return Instance("loglikelihood", doc, arguments, 0, metadata=kwargs["metadata"])

        def process_results(self, doc: Any, results: Any) -> dict[str, Any]:
            [(log_prob, is_greedy)] = results
            return {"log_prob": log_prob, "greedy": float(is_greedy)}

        def aggregation(self) -> dict[str, Any]:
            return {"log_prob": fmean, "greedy": fmean}

        def higher_is_better(self) -> dict[str, Any]:
            return {"log_prob": True, "greedy": True}

    whole = simple_evaluate(model=Lengths(), tasks=[Continuations()], bootstrap_iters=0)
    assert whole is not None
    scores = whole["results"]["continuations"]
    return [
        [scores[f"{metric},none"] for metric in ("log_prob", "greedy")],
        [sample["arguments"] for sample in whole["samples"]["continuations"]],
    ]


def _error(call: Any, *args: Any, **kwargs: Any) -> str:
    """The exception that a program can catch."""
    try:
        return f"no error: {call(*args, **kwargs)!r}"
    except Exception as error:
        kinds = (ValueError, KeyError, FileNotFoundError, TypeError, AssertionError)
        return next(kind.__name__ for kind in kinds if isinstance(error, kind))


CALLS = {
    call.__name__: call
    for call in (
        *(tables, windows, truncations, gen_kwargs, texts, batches, lengths, samplers, registries),
        *(configs, groups, evaluations, task_classes),
    )
}


def answer(name: str) -> Any:
    """What the installed package answers, as JSON data."""
    logging.disable(logging.CRITICAL)
    try:
        return json.loads(json.dumps(CALLS[name]()))
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    stored = {name: answer(name) for name in CALLS}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(stored, file, ensure_ascii=False, separators=(",", ":"))
