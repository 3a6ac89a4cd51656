"""One stored sample → what the pages show of it: a row of a list, or everything.

In: a line of a samples file, of ours or of EleutherAI's harness. Out: plain values for JSON. Positions
in texts are counted as JavaScript counts them, in UTF-16 units.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.lab.stored.view import (
    finite,
    first_reply,
    items_of,
    mapping,
    replies,
    requests,
    scored_choices,
)

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
    reading = mapping(sample.get("reading"))
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
    labels = mapping(sample.get("read_with")).get("labels")
    value = reading.get("value")
    if isinstance(labels, list) and type(value) is int and 0 <= value < len(labels):
        return str(labels[value])
    answer = reading.get("answer")
    return answer if isinstance(answer, str) else _text(answer if answer is not None else value)


def gold_of(sample: Mapping[str, Any]) -> str:
    """The right answer, as short as the sample has it."""
    read_with = mapping(sample.get("read_with"))
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
            [str(name), finite(sample.get(name))] for name in items_of(sample.get("metrics"))
        ],
        "shots": num_shots,
        "prompts": [
            _shown_prompt(one["prompt"], sample, num_shots, delimiter) for one in prompts_of(sample)
        ],
        "settings": _settings(sample),
        "choices": scored_choices(sample),
        "replies": _replies(sample),
        "options": [_text(choice) for choice in _options(sample)],
        "started": _text(mapping(sample.get("read_with")).get("prefix") or ""),
    }


def prompts_of(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each prompt once, with the numbers of the requests that begin with it."""
    prompts: list[dict[str, Any]] = []
    for number, arguments in enumerate(requests(sample)):
        prompt = arguments[0] if arguments else ""
        for known in prompts:
            if known["prompt"] == prompt:
                known["requests"].append(number)
                break
        else:
            prompts.append({"prompt": prompt, "requests": [number]})
    return prompts


def _shown_prompt(
    prompt: Any, sample: Mapping[str, Any], num_shots: int, delimiter: str
) -> dict[str, Any]:
    """A prompt as text or messages, and where its own question starts after the examples."""
    if isinstance(prompt, list):
        messages = [
            {
                "role": str(mapping(message).get("role", "")),
                "text": _text(mapping(message).get("content", message)),
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
    if scored_choices(sample):
        return []
    known = items_of(sample.get("readings")) or [sample.get("reading")]
    reasoning = sample.get("reasoning")
    finish = sample.get("finish")
    filtered = sample.get("filtered_resps")
    rows = []
    for place, text in enumerate(replies(sample)):
        reading = mapping(known[place] if place < len(known) else None)
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
    for arguments in requests(sample):
        if len(arguments) > 1 and isinstance(arguments[1], Mapping):
            return {str(name): _text(value) for name, value in arguments[1].items()}
    return {}


def _options(sample: Mapping[str, Any]) -> list[Any]:
    """The choices of the doc, with their labels where the prompt has some."""
    read_with = mapping(sample.get("read_with"))
    choices = items_of(read_with.get("choices"))
    labels = items_of(read_with.get("labels"))
    if not choices:
        doc = mapping(sample.get("doc"))
        choices = items_of(doc.get("choices")) or items_of(mapping(doc.get("choices")).get("text"))
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


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _at(values: Any, place: int) -> Any:
    """The entry of a list; a value that is not a list belongs to the first reply."""
    if isinstance(values, list):
        return values[place] if place < len(values) else None
    return values if place == 0 else None
