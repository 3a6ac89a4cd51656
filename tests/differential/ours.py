"""Our harness on the same files with the same model, told in the words of the golden files.

``run_ours(selector, variant)`` is the one seam of the differential test: what it cannot tell yet it
leaves out, and the test marks the comparison as expected to fail.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import fake_model
from variants import HERE, options_of

from lm_eval.cli.arguments import parse_pairs
from lm_eval.evaluator import Prepared, RunOptions, prepare
from lm_eval.models.base import LM, Capabilities
from lm_eval.requests import GenerateRequest, PromptOptions, Request
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
    """One run of ours in the shape of a golden file, as far as we have got."""
    options = _run_options(variant, parity=parity)
    model = FakeLM()
    with _in_folder(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = _manager().load([selector])
        tasks = {
            name: _told(prepare(task, options), model) for name, task in loaded["tasks"].items()
        }
    return {"tasks": tasks, "task_order": list(tasks)}


@cache
def _manager() -> TaskManager:
    return TaskManager(include_path="tasks", include_defaults=False)


def _run_options(variant: str, *, parity: bool) -> RunOptions:
    given = options_of(variant)
    extra = {"parity": parity} if "parity" in RunOptions.__dataclass_fields__ else {}
    assert not set(given) - OPTIONS, set(given) - OPTIONS
    prompt = PromptOptions(
        num_fewshot=given.get("num_fewshot"),
        as_chat=given.get("apply_chat_template", False),
        multiturn=given.get("fewshot_as_multiturn", True),
        system_instruction=given.get("system_instruction"),
        gen_kwargs=_gen_kwargs(given.get("gen_kwargs")),
    )
    return RunOptions(
        prompt=prompt,
        limit=given["limit"],
        samples=given.get("samples"),
        fewshot_seed=given["fewshot_random_seed"],
        predict_only=True,  # no scores are told yet, so metrics need not be known
        shows_progress=False,
        **extra,
    )


def _gen_kwargs(written: str | None) -> dict[str, Any]:
    return parse_pairs(written, flag="--gen_kwargs")


def _told(prepared: Prepared, model: LM) -> dict[str, Any]:
    docs = []
    for doc in prepared.docs:
        requests = _without_repeats(prepared, doc.requests)
        docs.append({"doc_id": doc.doc_id, "requests": [_args(one, model) for one in requests]})
    return {"docs": docs, "n_shot": prepared.num_fewshot}


def _without_repeats(prepared: Prepared, requests: Sequence[Request]) -> Sequence[Request]:
    """The golden names a repeated request once; its responses are then several."""
    if prepared.task.output_type != "generate_until":
        return requests
    assert len({str(request.args) for request in requests}) == 1
    assert len(requests) == max(prepared.task.config.repeats, 1)
    return requests[:1]


def _args(request: Request, model: LM) -> list[Any]:
    """A request's arguments, with a chat rendered as the model sees it."""
    if request.kind == "loglikelihood_rolling":
        return list(request.args)
    return [model.render(request.context), request.args[1]]  # type: ignore[union-attr]


@contextmanager
def _in_folder() -> Iterator[None]:
    """The task files name their data from here."""
    before = os.getcwd()
    os.chdir(HERE)
    try:
        yield
    finally:
        os.chdir(before)
