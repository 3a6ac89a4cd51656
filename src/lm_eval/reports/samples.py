"""Scored docs → samples, and the lines of their file, in the shape of EleutherAI's harness.

A sample has everything needed to see what happened on a doc: the exact prompt, the answers, how they
were read. ``write_out`` prints the prompts of a run before it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.formats.assemble import Chat, Context
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.requests import DocRequests, Reply, Request, RollingRequest
from lm_eval.scoring.metrics import PICKS, ChoiceOutcome, TextOutcome, is_right
from lm_eval.scoring.score import ScoredDoc
from lm_eval.support.encode import doc_hash, prompt_hash, target_hash
from lm_eval.support.secrets import redacted
from lm_eval.support.terminal import visible

if TYPE_CHECKING:
    from lm_eval.harness.scorer import FilteredDoc
    from lm_eval.orders.scoring import DocInOrder
    from lm_eval.tasks.task import ConfigurableTask


Show = Callable[[Context], Any]
"""A context as the model saw it: text, or messages if the server renders them."""


def format_sample(task: ConfigurableTask, doc: ScoredDoc, show: Show) -> dict[str, Any]:
    """One doc of a task under a format."""
    sample = {
        **_asked(task, doc.requests, show),
        "resps": [list(doc.answers)] if doc.replies else [[answer] for answer in doc.answers],
        "filtered_resps": list(doc.answers),
        "filter": "none",
        "metrics": list(doc.values),
        **doc.values,
        **_how_read(task, doc),
        **_reasoning(doc.answers),
        **_choice_order(doc, show),
        "fewshot_docs": list(doc.requests.shots),
    }
    return hidden(sample) if task.hides_docs else sample


def harness_sample(task: ConfigurableTask, doc: FilteredDoc, show: Show) -> dict[str, Any]:
    """One doc of a harness task under one of its filters."""
    sample = {
        **_asked(task, doc.doc, show),
        "resps": [list(response) for response in doc.responses],
        "filtered_resps": list(doc.filtered),
        "filter": doc.filter,
        "metrics": list(doc.values),
        **doc.values,
        **_scored_plain(doc),
        **_reasoning(doc.answers),
        "fewshot_docs": list(doc.doc.shots),
    }
    return hidden(sample) if task.hides_docs else sample


def missing_sample(
    task: ConfigurableTask, doc: DocRequests, answers: Sequence[Any], why: str, show: Show
) -> dict[str, Any]:
    """One doc with a request that failed: what was asked, and why there is no score."""
    sample = {
        **_asked(task, doc, show),
        "resps": [[answer] for answer in answers if answer is not None],
        "filtered_resps": [],
        "filter": "none",
        "metrics": [],
        "missing": why,
        "fewshot_docs": list(doc.shots),
    }
    return hidden(sample) if task.hides_docs else sample


HIDDEN = "[redacted]"


def hidden(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample of a task that says ``redact``: without the doc's texts, the prompt and the answer.

    Hashes stay, so that runs can be compared, and so do the model's replies and scores.
    """
    kept = {
        **sample,
        "redacted": True,
        "doc": dict.fromkeys(sample["doc"], HIDDEN),
        "target": HIDDEN,
    }
    kept |= _hidden_exchange(sample)
    kept.pop("read_with", None)
    if "enforced" in sample:
        kept["enforced"] = {"regex": HIDDEN}
    if "choice_order" in sample:
        orders = [
            {**order, **_hidden_exchange(order)} for order in sample["choice_order"]["orders"]
        ]
        kept["choice_order"] = {**sample["choice_order"], "orders": orders}
    return kept


def _hidden_exchange(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Prompts, continuations and the choice that was read, hidden."""
    exchange: dict[str, Any] = {}
    if "arguments" in asked:
        exchange["arguments"] = [
            tuple(part if isinstance(part, dict) else HIDDEN for part in values)
            for values in asked["arguments"]
        ]
    if "reading" in asked:
        exchange["reading"] = {**asked["reading"], "answer": HIDDEN}
    if "scored" in asked and "answer" in asked["scored"]:
        exchange["scored"] = {**asked["scored"], "answer": HIDDEN}
    if "readings" in asked:
        exchange["readings"] = [{**reading, "answer": HIDDEN} for reading in asked["readings"]]
    return exchange


def written_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as its file holds it: arguments by name, targets and responses as strings."""
    written = {
        **sample,
        **_written_exchange(sample),
        "target": str(sample["target"]),
        "filtered_resps": _response(sample["filtered_resps"]),
    }
    if "choice_order" in sample:
        orders = [
            {**order, **_written_exchange(order)} for order in sample["choice_order"]["orders"]
        ]
        written["choice_order"] = {**sample["choice_order"], "orders": orders}
    return written


class _ShownKwargs:
    """Generation arguments without secrets; those of one doc are mostly those of the next."""

    def __init__(self) -> None:
        self._last: tuple[dict[str, Any], Any] = ({}, {})

    def of(self, kwargs: dict[str, Any]) -> Any:
        if kwargs != self._last[0]:
            self._last = (dict(kwargs), redacted(kwargs))
        return self._last[1]


_SHOWN_KWARGS = _ShownKwargs()


def _written_exchange(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, responses as strings."""
    if "arguments" not in asked:
        return {}
    arguments = {
        f"gen_args_{index}": {
            f"arg_{position}": _SHOWN_KWARGS.of(value) if isinstance(value, dict) else value
            for position, value in enumerate(values)
        }
        for index, values in enumerate(asked["arguments"])
    }
    return {"arguments": arguments, "resps": _response(asked["resps"])}


def _asked(task: ConfigurableTask, doc: DocRequests, show: Show) -> dict[str, Any]:
    data = dict(task.eval_docs[doc.doc_id])
    asked = doc.asked
    target = asked.target if asked.target_value is None else asked.target_value
    arguments = _arguments(doc.distinct, show)
    return {
        "doc_id": doc.doc_id,
        "doc": data,
        "target": target,
        "arguments": arguments,
        "doc_hash": doc_hash(data),
        "prompt_hash": prompt_hash(arguments[0][0]),
        "target_hash": target_hash(target),
        **({} if task.config.cluster is None else {"cluster": task.cluster_of(doc.doc_id)}),
        **({} if task.config.score_by is None else {"parts": task.parts_of(doc.doc_id)}),
    }


def _arguments(requests: Sequence[Request], show: Show) -> list[tuple[Any, ...]]:
    arguments: list[tuple[Any, ...]] = []
    shown: tuple[Context | None, Any] = (None, None)
    for request in requests:
        if isinstance(request, RollingRequest):
            arguments.append(request.args)
            continue
        if request.context is not shown[0]:  # a doc's requests mostly share one context
            shown = (request.context, show(request.context))
        arguments.append((shown[1], *request.args[1:2], *_shown_media(request.media)))
    return arguments


def _shown_media(media: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """Images and audio as a file can hold them: texts (paths, names) as they are, others by type."""
    if media is None:
        return ()

    def shown(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [shown(part) for part in value]
        return value if isinstance(value, str) else f"<{type(value).__name__}>"

    return ({name: shown(value) for name, value in media.items()},)


def _response(answer: Any) -> Any:
    """A response as these files hold it: scalars as strings."""
    if not isinstance(answer, str) and isinstance(answer, tuple | list):
        return [_response(part) for part in answer]
    return str(answer)


def _how_read(task: ConfigurableTask, doc: ScoredDoc) -> dict[str, Any]:
    fmt = task.format
    if fmt is None:
        return {}
    shown: dict[str, Any] = {"format": fmt.name, "format_fingerprint": fmt.fingerprint}
    grammar = getattr(doc.requests.requests[0], "grammar", None)
    if grammar is not None:
        shown["enforced"] = grammar.as_data()
    outcome = doc.outcome
    if isinstance(outcome, TextOutcome):
        shown["reading"] = _reading(outcome)
        shown["read_with"] = _read_with(fmt, doc)
        if isinstance(doc.answers[0], Reply):
            shown["finish"] = doc.answers[0].finish
        if doc.replies:
            shown["readings"] = _readings(doc.replies, doc.answers)
    else:
        if None not in outcome.tokens:
            shown["tokens"] = list(outcome.tokens)
        shown["scored"] = _scored(outcome, doc.values)
    return shown


def _scored(outcome: ChoiceOutcome, metrics: Iterable[str]) -> dict[str, Any]:
    """What was picked by the first metric that picks, and the numbers behind it."""
    by = next((metric for metric in metrics if metric in PICKS), None)
    numbers = {"loglikelihoods": list(outcome.logprobs), "greedy": list(outcome.greedy)}
    if by is None or len(outcome.texts) < 2:
        return numbers
    picked = PICKS[by](outcome)
    answer = (outcome.choices or outcome.texts)[picked]
    return {"picked": picked, "by": by, "answer": answer, "gold": list(outcome.gold), **numbers}


def _scored_plain(doc: FilteredDoc) -> dict[str, Any]:
    """The numbers of a plain task whose requests are scored, and the likeliest of its choices."""
    pairs = [answer for answer in doc.answers if isinstance(answer, tuple) and len(answer) == 2]
    if not pairs or len(pairs) != len(doc.answers):
        return {}
    scored: dict[str, Any] = {
        "loglikelihoods": [float(logprob) for logprob, _ in pairs],
        "greedy": [bool(is_greedy) for _, is_greedy in pairs],
    }
    choices = list(doc.doc.asked.choices)
    if len(choices) > 1 and len(pairs) >= len(choices) and "acc" in doc.values:
        logprobs = scored["loglikelihoods"][: len(choices)]
        picked = max(range(len(choices)), key=logprobs.__getitem__)
        scored = {"picked": picked, "by": "acc", "answer": choices[picked], **scored}
    return {"scored": scored}


def _readings(outcomes: Sequence[TextOutcome], answers: Sequence[Any]) -> list[dict[str, Any]]:
    """How each of several replies was read."""
    return [
        {**_reading(outcome), "right": _right(outcome), "finish": getattr(answer, "finish", None)}
        for outcome, answer in zip(outcomes, answers, strict=True)
    ]


def _reading(outcome: TextOutcome) -> dict[str, Any]:
    reading = outcome.reading
    return {
        "value": reading.value,
        "answer": _shown_answer(outcome),
        "rule": reading.rule,
        "span": reading.span,
        "no_answer": reading.reason,
        **({"verdict": _verdict(outcome)} if outcome.program else {}),
    }


def _right(outcome: TextOutcome) -> bool | None:
    """Whether a reply is right; None for a program that was not run."""
    return None if outcome.program and _verdict(outcome) is None else is_right(outcome)


def _verdict(outcome: TextOutcome) -> str | None:
    """What became of a program; None if none was to be run, as with ``--predict_only``."""
    from lm_eval.scoring.programs import VERDICTS

    return None if VERDICTS.runner is None else VERDICTS.of(outcome.program)


def _choice_order(doc: ScoredDoc, show: Show) -> dict[str, Any]:
    """The doc in each order of its choices, that of the data first, and the answer over all orders."""
    if not doc.orders:
        return {}
    answer = doc.answer
    return {
        "choice_order": {
            "left_in_place": doc.requests.left_in_place,
            "debiased": None if answer is None else list(answer.places),
            "probabilities": answer and answer.probabilities,
            "orders": [_in_order(view, show) for view in doc.orders],
        }
    }


def _in_order(view: DocInOrder, show: Show) -> dict[str, Any]:
    """Prompt and answers in one order; the sample itself holds those of the first order."""
    shown: dict[str, Any] = {"order": list(view.order), "picked": view.place}
    if isinstance(view.outcomes[0], TextOutcome):
        shown["no_answer"] = view.outcomes[0].reading.reason
    if view.doc.order:
        shown["arguments"] = _arguments(view.doc.distinct, show)
        replies = list(view.answers)
        shown["resps"] = [replies] if view.doc.repeats > 1 else [[answer] for answer in replies]
        read = [outcome for outcome in view.outcomes if isinstance(outcome, TextOutcome)]
        if read:
            shown["readings"] = _readings(read, replies)
    return shown


def _read_with(fmt: PromptFormat, doc: ScoredDoc) -> dict[str, Any]:
    """What a reader needs besides the reply, so that stored replies can be read again."""
    asked = doc.requests.asked
    labels = () if asked.item is None else fmt.labels(asked.item)
    facts = {
        "answers": fmt.answers,
        "labels": list(labels),
        "choices": list(asked.choices),
        "gold": list(asked.gold),
        "prefix": asked.turn.gen_prefix,
    }
    return {name: value for name, value in facts.items() if value}


def _reasoning(answers: Sequence[Any]) -> dict[str, Any]:
    """What the model thought before each reply, if the server returns it separately."""
    thoughts = [answer.reasoning if isinstance(answer, Reply) else None for answer in answers]
    return {"reasoning": thoughts} if any(thoughts) else {}


def _shown_answer(outcome: TextOutcome) -> Any:
    value = outcome.reading.value
    if outcome.answers == "choice" and isinstance(value, int):
        return outcome.choices[value]
    if outcome.answers == "order" and value is not None:
        return [outcome.choices[index] for index in value]
    return value


RULE = "─" * 78


def prompt_lines(context: Context) -> list[str]:
    """A context for reading: text as it is, chat with a line for each role."""
    if not isinstance(context, Chat):
        return [RULE, visible(str(context), keep="\n\t"), RULE]
    lines = [RULE]
    for index, message in enumerate(context.messages):
        is_open = context.continues_assistant and index == len(context.messages) - 1
        lines.append(f"[{message.role}{', left open' if is_open else ''}]")
        lines.append(visible(message.content, keep="\n\t"))
    return [*lines, RULE]


def write_out(prepared: Iterable[Any]) -> None:
    """Print the first prompt of each prepared task."""
    for each in prepared:
        doc = each.docs[0]
        print(f"── {visible(each.task.name)}, doc {doc.doc_id}")
        print(HIDDEN if each.task.hides_docs else "\n".join(prompt_lines(doc.context)))
