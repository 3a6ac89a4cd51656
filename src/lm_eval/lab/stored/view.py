"""One stored sample, of ours or of EleutherAI's harness: what was asked, answered, read and scored.

In: a line of a samples file. Out: its requests, replies, readings and scored choices, whatever the shape
in which the file has them; and all of it as a flat row (``sample_row``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def requests(sample: Mapping[str, Any]) -> list[list[Any]]:
    """The arguments of each request: a dict of dicts as we write it, or lists as older files have it."""
    arguments = sample.get("arguments")
    if isinstance(arguments, Mapping):
        parts = [value for value in arguments.values() if isinstance(value, Mapping)]
        return [list(part.values()) for part in parts]
    return [list(part) for part in items_of(arguments) if isinstance(part, list | tuple)]


def replies(sample: Mapping[str, Any]) -> list[str]:
    """Every text that the model wrote."""
    return [
        reply
        for response in items_of(sample.get("resps"))
        for reply in (response if isinstance(response, list) else [response])
        if isinstance(reply, str)
    ]


def first_reply(sample: Mapping[str, Any]) -> str | None:
    """The first reply, if the model wrote any text."""
    return next(iter(replies(sample)), None)


def readings(sample: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """How each reply to a doc was read; empty if nothing was read from text."""
    known = sample.get("readings") or [sample.get("reading")]
    return [reading for reading in known if isinstance(reading, Mapping)]


def log_likelihoods(sample: Mapping[str, Any]) -> list[tuple[float, bool | None]]:
    """Of each scored text its log-likelihood, and whether greedy decoding gives it.

    Empty if the model wrote a reply.
    """
    asked, responses = requests(sample), items_of(sample.get("resps"))
    if len(asked) != len(responses):
        asked = [[None, None]] * len(responses)
    scores = [
        _log_likelihood(response, is_whole=len(arguments) == 1)
        for arguments, response in zip(asked, responses, strict=True)
    ]
    return [] if None in scores else [score for score in scores if score is not None]


def _log_likelihood(response: Any, *, is_whole: bool) -> tuple[float, bool | None] | None:
    """``[["-1.5", "False"]]`` or ``[-1.5]`` → the number, and whether greedy decoding gives it.

    A text is a reply, unless the log-likelihood of a whole text was asked for: ``["-1.5"]``.
    """
    value = response[0] if isinstance(response, list) and len(response) == 1 else response
    if isinstance(value, list) and len(value) == 2:
        number = finite(value[0])
        return None if number is None else (number, str(value[1]) == "True" or value[1] is True)
    if isinstance(value, str) and not is_whole:
        return None
    number = finite(value)
    return None if number is None else (number, None)


def scored_choices(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The texts whose log-likelihood was asked for; empty if the model wrote a reply."""
    scores, asked = log_likelihoods(sample), requests(sample)
    if len(scores) != len(asked):
        return []
    tokens = items_of(sample.get("tokens"))
    rows: list[dict[str, Any]] = []
    for number, (arguments, (logprob, is_greedy)) in enumerate(zip(asked, scores, strict=True)):
        text = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], str) else ""
        count = tokens[number] if number < len(tokens) else None
        rows.append({"text": text, "logprob": logprob, "greedy": is_greedy, "tokens": count})
    is_gold = _gold_places(sample, [str(row["text"]) for row in rows])
    known = mapping(sample.get("scored")).get("picked")
    picked = known if type(known) is int else _picked(sample, rows, is_gold)
    return [
        {**row, "gold": number in is_gold, "picked": number == picked}
        for number, row in enumerate(rows)
    ]


def _gold_places(sample: Mapping[str, Any], texts: Sequence[str]) -> set[int]:
    target = sample.get("target")
    wanted = target if isinstance(target, list) else [target]
    places = {value for value in wanted if type(value) is int}
    names = {str(value).strip() for value in wanted if isinstance(value, str)}
    stripped = [text.strip() for text in texts]
    if isinstance(target, str) and target.isdigit() and not names & set(stripped):
        return {int(target)}  # EleutherAI's files have the place of the right choice as text
    return places | {number for number, text in enumerate(stripped) if text in names}


def _picked(
    sample: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], gold: set[int]
) -> int | None:
    """The choice that the first metric takes as the answer, for samples that do not record it.

    If the right choice is known, this is checked against that metric's value: None rather than a
    choice that the score contradicts.
    """
    if len(rows) < 2:
        return None
    metric = next((str(name) for name in items_of(sample.get("metrics"))), "acc")
    scores = [row["logprob"] / _length(metric, row) for row in rows]
    best = max(range(len(rows)), key=lambda place: (scores[place], -place))
    value = finite(sample.get(metric))
    if metric.startswith("acc") and gold and value in (0.0, 1.0) and (best in gold) != bool(value):
        return None
    return best


def _length(metric: str, row: Mapping[str, Any]) -> float:
    """What the metric divides a log-likelihood by."""
    text = str(row["text"]).strip()
    if metric == "acc_norm":
        return len(text) or 1
    if metric == "acc_bytes":
        return len(text.encode("utf-8", "replace")) or 1
    return (row["tokens"] or 1) if metric == "acc_tokens" else 1


def sample_row(about: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """One sample: metrics as columns, what was picked or read, the first prompt and reply."""
    scored, reading = mapping(sample.get("scored")), mapping(sample.get("reading"))
    logprobs = (
        scored.get("loglikelihoods") or [score for score, _ in log_likelihoods(sample)] or None
    )
    picked = scored.get("picked", reading.get("value"))
    if not scored and logprobs is not None and "acc" in (sample.get("metrics") or ()):
        likeliest = max(range(len(logprobs)), key=logprobs.__getitem__)
        picked = likeliest if len(logprobs) > 1 else None
    texts = [] if logprobs else replies(sample)
    asked = requests(sample)
    return {
        **about,
        "doc_id": sample.get("doc_id"),
        "filter": sample.get("filter", "none"),
        **{metric: sample.get(metric) for metric in sample.get("metrics") or ()},
        "picked": picked,
        "answer": scored.get("answer", reading.get("answer")),
        "target": sample.get("target"),
        "gold": scored.get("gold", mapping(sample.get("read_with")).get("gold")),
        "no_answer": reading.get("no_answer"),
        "rule": reading.get("rule"),
        "reply": texts[0] if texts else None,
        "replies": texts if len(texts) > 1 else None,
        "finish": sample.get("finish"),
        "loglikelihoods": logprobs,
        "prompt": asked[0][0] if asked and asked[0] else None,
        "missing": sample.get("missing"),
        "doc": sample.get("doc"),
    }


# Values of any kind


def finite(value: Any) -> float | None:
    """A finite number, whether it was written as one or as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items_of(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
