"""Our harness on the same files with the same model, told in the words of the golden files.

What is told comes from the results dict and the sample lines that a run writes, so that it is these
which are compared.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import fake_model
from regenerate import docs_of, plain
from variants import HERE, options_of

from lm_eval.config.arguments import parse_pairs
from lm_eval.evaluator import RunOptions, adapt, prepare_all, run_all
from lm_eval.models.base import LM, Capabilities
from lm_eval.reports.results_file import RunInfo, results_dict
from lm_eval.reports.samples import written_sample
from lm_eval.requests import GenerateRequest, PromptOptions
from lm_eval.run.groups import check_groups, group_results
from lm_eval.tasks import TaskManager

OPTIONS = {
    "limit",
    "samples",
    "num_fewshot",
    "system_instruction",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "gen_kwargs",
    "fewshot_random_seed",
    "bootstrap_iters",
    "predict_only",
}
RUN = RunInfo(model="fake")
Sample = dict[str, Any]


class FakeLM(LM):
    """The fake model in our clothes."""

    capabilities = Capabilities(chat_template=True)

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        return [fake_model.loglikelihood(self.render(r.context), r.continuation) for r in requests]

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        return [fake_model.rolling(r.text) for r in requests]

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        return [self._reply(request) for request in requests]

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        return fake_model.chat_text(chat_history, add_generation_prompt)

    def _reply(self, request: GenerateRequest) -> str:
        until = request.gen_kwargs["until"]
        until = [until] if isinstance(until, str) else until
        return fake_model.generate(self.render(request.context), until, request.index)


def run_ours(selector: str, variant: str, *, parity: bool = False) -> dict[str, Any]:
    """One run of ours in the shape of a golden file."""
    samples, found = evaluated(selector, variant, parity=parity)
    return told(samples, found)


def evaluated(
    selector: str, variant: str, *, parity: bool = False
) -> tuple[dict[str, list[Sample]], dict[str, Any]]:
    """The samples of each task, and the results dict of the run."""
    options = run_options(variant)
    model = FakeLM()
    samples: dict[str, list[Sample]] = {}
    with in_folder(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = manager(parity).load([selector])
        groups = list(loaded["groups"].values())
        prepared = prepare_all(list(loaded["tasks"].values()), options)
        if not options.predict_only:
            check_groups(groups)
        prepared, options = adapt(prepared, model, options)
        results = run_all(
            prepared,
            model,
            options,
            on_sample=lambda name, sample: samples.setdefault(name, []).append(
                written_sample(sample)
            ),
        )
    found = results_dict(results, run=RUN, groups=group_results(groups, results))
    return samples, found


@cache
def manager(parity: bool = False) -> TaskManager:
    return TaskManager(include_path="tasks", include_defaults=False, parity=parity)


def run_options(variant: str) -> RunOptions:
    given = options_of(variant)
    assert not set(given) - OPTIONS, set(given) - OPTIONS
    prompt = PromptOptions(
        num_fewshot=given.get("num_fewshot"),
        as_chat=given.get("apply_chat_template", False),
        multiturn=given.get("fewshot_as_multiturn", True),
        system_instruction=given.get("system_instruction"),
        gen_kwargs=parse_pairs(given.get("gen_kwargs"), flag="--gen_kwargs"),
    )
    return RunOptions(
        prompt=prompt,
        limit=given["limit"],
        samples=given.get("samples"),
        fewshot_seed=given["fewshot_random_seed"],
        bootstrap_iters=given["bootstrap_iters"],
        predict_only=given.get("predict_only", False),
        shows_progress=False,
    )


def told(samples: dict[str, list[Sample]], found: dict[str, Any]) -> dict[str, Any]:
    """A run in the words of a golden file; what only our files say is left out."""
    tasks = {
        name: {
            "docs": docs_of([_with_arguments(sample) for sample in lines]),
            "filter_order": list(dict.fromkeys(sample["filter"] for sample in lines)),
            "results": _scores(found["results"][name]),
            "n_shot": found["n-shot"][name],
            "higher_is_better": found["higher_is_better"][name],
            "version": plain(found["versions"][name]),
            "n_samples": found["n-samples"][name],
        }
        for name, lines in samples.items()
    }
    groups = [name for name in found["results"] if name not in tasks]
    return {
        "tasks": tasks,
        "task_order": list(samples),
        "result_order": list(found["results"]),
        "groups": {name: _scores(scores) for name, scores in found.get("groups", {}).items()},
        "group_subtasks": found["group_subtasks"],
        "group_results": {name: _scores(found["results"][name]) for name in groups},
        "group_info": {
            key: {name: value for name, value in found[key].items() if name not in tasks}
            for key in ("n-shot", "higher_is_better", "versions")
        },
    }


def _with_arguments(sample: Sample) -> Sample:
    """A sample whose arguments are lists, as they are before the peer writes them."""
    arguments = [list(given.values()) for given in sample["arguments"].values()]
    assert list(sample["arguments"]) == [f"gen_args_{at}" for at in range(len(arguments))]
    return {**sample, "arguments": arguments}


def _scores(scores: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = plain(dict(scores))
    return kept


@contextmanager
def in_folder() -> Iterator[None]:
    """The task files name their data from here."""
    before = os.getcwd()
    os.chdir(HERE)
    try:
        yield
    finally:
        os.chdir(before)
