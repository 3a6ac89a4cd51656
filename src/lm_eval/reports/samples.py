"""Scored docs → the lines of a samples file, in the shape that readers of EleutherAI's files know.

Everything needed to see what happened on a doc: the exact prompt, the answers, how they were read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.formats.assemble import Context
from lm_eval.reports.encode import doc_hash, prompt_hash, target_hash
from lm_eval.requests import DocRequests, Reply, Request, RollingRequest
from lm_eval.scoring.harness_task import FilteredDoc
from lm_eval.scoring.outcomes import TextOutcome
from lm_eval.scoring.score import ScoredDoc

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask

Show = Callable[[Context], Any]
"""A context as the model saw it: text, or messages where the server renders them."""


def format_sample(task: ConfigurableTask, doc: ScoredDoc, show: Show) -> dict[str, Any]:
    """One doc of a task under a format."""
    responses = [_response(answer) for answer in doc.answers]
    return {
        **_asked(task, doc.requests, show),
        "resps": [[response] for response in responses],
        "filtered_resps": responses,
        "filter": "none",
        "metrics": list(doc.values),
        **doc.values,
        **_how_read(task, doc),
        "fewshot_docs": list(doc.requests.shots),
    }


def harness_sample(task: ConfigurableTask, doc: FilteredDoc, show: Show) -> dict[str, Any]:
    """One doc of a harness task under one of its filters."""
    return {
        **_asked(task, doc.doc, show),
        "resps": [[_response(one) for one in given] for given in doc.responses],
        "filtered_resps": [_response(left) for left in doc.filtered],
        "filter": doc.filter,
        "metrics": list(doc.values),
        **doc.values,
        "fewshot_docs": list(doc.doc.shots),
    }


def _asked(task: ConfigurableTask, doc: DocRequests, show: Show) -> dict[str, Any]:
    data = dict(task.eval_docs[doc.doc_id])
    target = doc.asked.target
    arguments = _arguments(doc.distinct, show)
    return {
        "doc_id": doc.doc_id,
        "doc": data,
        "target": target,
        "arguments": arguments,
        "doc_hash": doc_hash(data),
        "prompt_hash": prompt_hash(arguments["gen_args_0"]["arg_0"]),
        "target_hash": target_hash(target),
    }


def _arguments(requests: Sequence[Request], show: Show) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    shown: tuple[Context | None, Any] = (None, None)
    for index, request in enumerate(requests):
        if isinstance(request, RollingRequest):
            arguments[f"gen_args_{index}"] = {"arg_0": request.text}
            continue
        if request.context is not shown[0]:  # a doc's requests mostly share one context
            shown = (request.context, show(request.context))
        arguments[f"gen_args_{index}"] = {"arg_0": shown[1], "arg_1": request.args[1]}
    return arguments


def _response(answer: Any) -> Any:
    """A response as these files hold it: scalars as strings."""
    if isinstance(answer, tuple | list):
        return [_response(part) for part in answer]
    return str(answer)


def _how_read(task: ConfigurableTask, doc: ScoredDoc) -> dict[str, Any]:
    fmt = task.format
    if fmt is None:
        return {}
    shown: dict[str, Any] = {"format": fmt.name, "format_fingerprint": fmt.fingerprint}
    outcome = doc.outcome
    if isinstance(outcome, TextOutcome):
        reading = outcome.reading
        shown["reading"] = {
            "value": reading.value,
            "answer": _shown_answer(outcome),
            "rule": reading.rule,
            "span": reading.span,
            "no_answer": reading.reason,
        }
        answer = doc.answers[0]
        if isinstance(answer, Reply):
            shown["finish"] = answer.finish
    return shown


def _shown_answer(outcome: TextOutcome) -> Any:
    value = outcome.reading.value
    if outcome.answers == "choice" and isinstance(value, int):
        return outcome.choices[value]
    if outcome.answers == "order" and value is not None:
        return [outcome.choices[place] for place in value]
    return value
