"""One stored sample → what the pages show of it: a row of a list, or everything.

In: a line of a samples file, of ours or of EleutherAI's harness. Out: plain values for JSON. Positions
in texts are counted as JavaScript counts them, in UTF-16 units.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

WORDS = 140
"""Characters of a question or reply in a row."""
SHORT = 40
"""Characters of an answer, or of a field that items can be grouped by."""
QUESTION_FIELDS = (
    *("question", "query", "problem", "goal", "ctx", "sentence", "prompt", "input", "premise"),
    *("text", "nugget", "passage", "context"),
)
NOT_GROUPING = {"id", "doc_id", "idx", "index", "answer", "answerkey", "label", "target", "gold"}
"""Fields that tell items apart or say what is right: items are not grouped by them."""
GROUPING_DOCS = 256
"""Number of docs searched for fields that items can be grouped by."""


# Rows


def text_row(sample: Mapping[str, Any]) -> dict[str, Any]:
    """What a list shows of one sample besides its score."""
    is_scored = "reading" not in sample and bool(scored_choices(sample))
    reply = None if is_scored else first_reply(sample)
    reading = _mapping(sample.get("reading"))
    missing = sample.get("missing")
    question, gold = question_of(sample), gold_of(sample)
    return {
        "doc": _whole(sample.get("doc_id")),
        "q": cut(question, WORDS),
        "r": cut(reply or "", WORDS),
        "n": len(reply or ""),
        "a": cut(answer_of(sample), SHORT),
        "g": "" if gold == question else cut(gold, SHORT),
        "why": cut(str(missing or reading.get("no_answer") or ""), 80),
        "rule": str(reading.get("rule") or ""),
        "filter": str(sample.get("filter", "none")),
    }


def question_of(sample: Mapping[str, Any]) -> str:
    """The doc's question, or else its longest text; if the doc has no text, the end of the prompt."""
    doc = sample.get("doc")
    if isinstance(doc, Mapping):
        for name in QUESTION_FIELDS:
            if isinstance(doc.get(name), str) and doc[name].strip():
                return " ".join(doc[name][: 4 * WORDS].split())
        texts = [value for value in doc.values() if isinstance(value, str)]
        if texts:
            return " ".join(max(texts, key=len)[: 4 * WORDS].split())
    elif isinstance(doc, str):
        return " ".join(doc[: 4 * WORDS].split())
    prompts = prompts_of(sample)
    return " ".join(str(prompts[0]["prompt"])[-WORDS:].split()) if prompts else ""


def first_reply(sample: Mapping[str, Any]) -> str | None:
    """The first reply, if the model wrote any text."""
    for response in sample.get("resps") or ():
        for reply in response if isinstance(response, list) else [response]:
            if isinstance(reply, str):
                return reply
    return None


def answer_of(sample: Mapping[str, Any]) -> str:
    """What was read from the reply, or the choice that scored highest; empty if neither is known."""
    reading = sample.get("reading")
    if isinstance(reading, Mapping):
        if reading.get("no_answer") is not None:
            return ""
        return _label_of(sample, reading)
    scored = scored_choices(sample)
    picked = next((choice for choice in scored if choice["picked"]), None)
    if picked is not None:
        return str(picked["text"]).strip()
    filtered = sample.get("filtered_resps")
    if not scored and isinstance(filtered, list) and filtered:
        first = filtered[0][0] if isinstance(filtered[0], list) and filtered[0] else filtered[0]
        return first.strip() if isinstance(first, str) else ""
    return ""


def _label_of(sample: Mapping[str, Any], reading: Mapping[str, Any]) -> str:
    """The label of a choice that was read, else the answer."""
    labels = _mapping(sample.get("read_with")).get("labels")
    value = reading.get("value")
    if isinstance(labels, list) and type(value) is int and 0 <= value < len(labels):
        return str(labels[value])
    answer = reading.get("answer")
    return answer if isinstance(answer, str) else _text(answer if answer is not None else value)


def gold_of(sample: Mapping[str, Any]) -> str:
    """The right answer, as short as the sample has it."""
    read_with = _mapping(sample.get("read_with"))
    gold, labels = read_with.get("gold"), read_with.get("labels")
    if isinstance(gold, list) and gold:
        if isinstance(labels, list):
            known = [labels[at] for at in gold if type(at) is int and 0 <= at < len(labels)]
            if known:
                return " or ".join(map(str, known))
        return " or ".join(map(_text, gold))
    target = sample.get("target")
    choices = scored_choices(sample)
    if type(target) is int and 0 <= target < len(choices):
        return str(choices[target]["text"]).strip()
    return _text(target)


def grouping_fields(docs: Sequence[Any]) -> list[str]:
    """The fields whose values are short and recur: subject, language, level."""
    values: dict[str, list[str]] = {}
    docs = [doc for doc in docs if isinstance(doc, Mapping)]
    for doc in docs:
        for name, value in doc.items():
            if str(name).lower() in NOT_GROUPING:
                continue
            if isinstance(value, str | int | bool) and len(str(value)) <= SHORT:
                values.setdefault(name, []).append(str(value))
    return [
        name
        for name, column in values.items()
        if len(column) == len(docs) and 1 < len(set(column)) <= max(2, len(column) // 3)
    ]


# Everything about one sample


def whole_sample(sample: Mapping[str, Any], delimiter: str = "\n\n") -> dict[str, Any]:
    """All that the item page shows. ``delimiter`` separates the few-shot examples of a prompt."""
    shots = sample.get("fewshot_docs")
    num_shots = len(shots) if isinstance(shots, list) else 0
    return {
        "doc": _whole(sample.get("doc_id")),
        "fields": _fields(sample.get("doc")),
        "target": _text(sample.get("target")),
        "gold": gold_of(sample),
        "answer": answer_of(sample),
        "filter": str(sample.get("filter", "none")),
        "missing": _optional_text(sample.get("missing")),
        "redacted": bool(sample.get("redacted")),
        "metrics": [
            [str(name), _number(sample.get(name))] for name in _list(sample.get("metrics"))
        ],
        "shots": num_shots,
        "prompts": [
            _shown_prompt(one["prompt"], sample, num_shots, delimiter) for one in prompts_of(sample)
        ],
        "settings": _settings(sample),
        "choices": scored_choices(sample),
        "replies": _replies(sample),
        "options": [_text(choice) for choice in _options(sample)],
        "started": _text(_mapping(sample.get("read_with")).get("prefix") or ""),
    }


def prompts_of(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each prompt once, with the numbers of the requests that begin with it."""
    prompts: list[dict[str, Any]] = []
    for number, arguments in enumerate(_requests(sample)):
        prompt = arguments[0] if arguments else ""
        for known in prompts:
            if known["prompt"] == prompt:
                known["requests"].append(number)
                break
        else:
            prompts.append({"prompt": prompt, "requests": [number]})
    return prompts


def _requests(sample: Mapping[str, Any]) -> list[list[Any]]:
    """The arguments of each request: a dict of dicts as we write it, or lists as older files have it."""
    arguments = sample.get("arguments")
    if isinstance(arguments, Mapping):
        parts = [value for value in arguments.values() if isinstance(value, Mapping)]
        return [list(part.values()) for part in parts]
    return [list(part) for part in _list(arguments) if isinstance(part, list | tuple)]


def scored_choices(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The texts whose log-likelihood was asked for; empty if the model wrote a reply."""
    requests, responses = _requests(sample), _list(sample.get("resps"))
    if not requests or len(requests) != len(responses):
        return []
    rows: list[dict[str, Any]] = []
    tokens = _list(sample.get("tokens"))
    for number, (arguments, response) in enumerate(zip(requests, responses, strict=True)):
        score = _log_likelihood(response, is_whole=len(arguments) == 1)
        if score is None:
            return []
        text = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], str) else ""
        count = tokens[number] if number < len(tokens) else None
        rows.append({"text": text, "logprob": score[0], "greedy": score[1], "tokens": count})
    is_gold = _gold_places(sample, [str(row["text"]) for row in rows])
    known = _mapping(sample.get("scored")).get("picked")
    picked = known if type(known) is int else _picked(sample, rows, is_gold)
    return [
        {**row, "gold": number in is_gold, "picked": number == picked}
        for number, row in enumerate(rows)
    ]


def _log_likelihood(response: Any, *, is_whole: bool) -> tuple[float, bool | None] | None:
    """``[["-1.5", "False"]]`` or ``[-1.5]`` → the number, and whether greedy decoding gives it.

    A text is a reply, unless the log-likelihood of a whole text was asked for: ``["-1.5"]``.
    """
    value = response[0] if isinstance(response, list) and len(response) == 1 else response
    if isinstance(value, list) and len(value) == 2:
        number = _number(value[0])
        return None if number is None else (number, str(value[1]) == "True" or value[1] is True)
    if isinstance(value, str) and not is_whole:
        return None
    number = _number(value)
    return None if number is None else (number, None)


def _gold_places(sample: Mapping[str, Any], texts: Sequence[str]) -> set[int]:
    target = sample.get("target")
    if type(target) is int:
        return {target}
    wanted = target if isinstance(target, list) else [target]
    places = {value for value in wanted if type(value) is int}
    names = {str(value).strip() for value in wanted if isinstance(value, str)}
    if (
        isinstance(target, str)
        and target.isdigit()
        and not names & {text.strip() for text in texts}
    ):
        return {int(target)}  # EleutherAI's files have the place of the right choice as text
    return places | {number for number, text in enumerate(texts) if text.strip() in names}


def _picked(
    sample: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], gold: set[int]
) -> int | None:
    """The choice that the first metric takes as the answer, for samples that do not record it.

    If the right choice is known, this is checked against that metric's value: None rather than a
    choice that the score contradicts.
    """
    if len(rows) < 2:
        return None
    metric = next((str(name) for name in _list(sample.get("metrics"))), "acc")
    scores = [row["logprob"] / _length(metric, row) for row in rows]
    best = max(range(len(rows)), key=lambda place: (scores[place], -place))
    value = _number(sample.get(metric))
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


def _shown_prompt(
    prompt: Any, sample: Mapping[str, Any], num_shots: int, delimiter: str
) -> dict[str, Any]:
    """A prompt as text or messages, and where its own question starts after the examples."""
    if isinstance(prompt, list):
        messages = [
            {
                "role": str(_mapping(message).get("role", "")),
                "text": _text(_mapping(message).get("content", message)),
            }
            for message in prompt
        ]
        return {"messages": messages}
    text = prompt if isinstance(prompt, str) else _text(prompt)
    start = _own_part(text, sample, delimiter) if num_shots else 0
    return {"text": text, "start": utf16(text, start)}


def _own_part(text: str, sample: Mapping[str, Any], delimiter: str) -> int:
    """Where a prompt's own question starts: after the last delimiter before it; 0 if unsure."""
    doc = sample.get("doc")
    values = [doc.get(name) for name in QUESTION_FIELDS] if isinstance(doc, Mapping) else [doc]
    value = next((value for value in values if isinstance(value, str) and value.strip()), None)
    at = text.rfind(value.strip()[:200]) if value is not None else -1
    if at < 0 or not delimiter:
        return 0
    before = text.rfind(delimiter, 0, at)
    return before + len(delimiter) if before >= 0 else 0


def _replies(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each reply with what was read from it."""
    texts = [
        reply
        for response in _list(sample.get("resps"))
        for reply in (response if isinstance(response, list) else [response])
        if isinstance(reply, str)
    ]
    if scored_choices(sample):
        return []
    readings = _list(sample.get("readings")) or [sample.get("reading")]
    reasoning = sample.get("reasoning")
    finish = sample.get("finish")
    filtered = sample.get("filtered_resps")
    rows = []
    for place, text in enumerate(texts):
        reading = _mapping(readings[place] if place < len(readings) else None)
        rows.append(
            {
                "text": text,
                "span": _span(text, reading.get("span")),
                "rule": _optional_text(reading.get("rule")),
                "answer": _read_answer(sample, reading) if reading else _filtered(filtered, place),
                "no_answer": _optional_text(reading.get("no_answer")),
                "finish": _optional_text(_at(finish, place)),
                "reasoning": _optional_text(_at(reasoning, place)),
            }
        )
    return rows


def _read_answer(sample: Mapping[str, Any], reading: Mapping[str, Any]) -> str | None:
    if reading.get("no_answer") is not None:
        return None
    label, answer = _label_of(sample, reading), reading.get("answer")
    text = _text(answer)
    return label if answer is None or label == text else f"{label} · {text}"


def _filtered(filtered: Any, place: int) -> str | None:
    """What a filter of the harness made of a reply."""
    value = _at(filtered, place)
    return value if isinstance(value, str) else None


def _span(text: str, span: Any) -> list[int] | None:
    """Both ends of what was read, in UTF-16 units; None if they are not positions in the text."""
    if not isinstance(span, list) or len(span) != 2 or not all(type(end) is int for end in span):
        return None
    start, end = span
    if not 0 <= start <= end <= len(text):
        return None
    return [utf16(text, start), utf16(text, end)]


def utf16(text: str, at: int) -> int:
    """A position in a Python string as JavaScript counts it."""
    return at if text.isascii() else at + sum(char > "\uffff" for char in text[:at])


def _settings(sample: Mapping[str, Any]) -> dict[str, str]:
    """How generation was asked for: stop texts, the longest reply, sampling."""
    for arguments in _requests(sample):
        if len(arguments) > 1 and isinstance(arguments[1], Mapping):
            return {str(name): _text(value) for name, value in arguments[1].items()}
    return {}


def _options(sample: Mapping[str, Any]) -> list[Any]:
    """The choices of the doc, with their labels where the prompt has some."""
    read_with = _mapping(sample.get("read_with"))
    choices = _list(read_with.get("choices"))
    labels = _list(read_with.get("labels"))
    if not choices:
        doc = _mapping(sample.get("doc"))
        choices = _list(doc.get("choices")) or _list(_mapping(doc.get("choices")).get("text"))
    if len(labels) == len(choices):
        return [f"{label}. {_text(choice)}" for label, choice in zip(labels, choices, strict=True)]
    return choices


def _fields(doc: Any) -> list[list[str]]:
    if isinstance(doc, Mapping):
        return [[str(name), _text(value)] for name, value in doc.items()]
    return [] if doc is None else [["doc", _text(doc)]]


# Values of any kind


def cut(text: str, limit: int) -> str:
    """The text, or as much of it as fits with an ellipsis, on one line."""
    short = text[: limit + 1].replace("\n", " ").strip()
    return short if len(text) <= limit else f"{short[: limit - 1]}…"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number(value: Any) -> float | None:
    """A finite number, whether it was written as one or as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(values: Any, place: int) -> Any:
    """The entry of a list; a value that is not a list belongs to the first reply."""
    if isinstance(values, list):
        return values[place] if place < len(values) else None
    return values if place == 0 else None
