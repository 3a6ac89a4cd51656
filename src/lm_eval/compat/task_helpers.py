"""Helpers of EleutherAI's task folders that other people's programs import.

``lm_eval.tasks.hellaswag.utils`` and the ``utils`` of the MATH tasks are addresses for these.
"""

from __future__ import annotations

import re
from typing import Any

_MARK = re.compile(r"\[.*?\]")
_BOXES = ("\\boxed", "\\fbox")


def preprocess(text: str) -> str:
    """A text of HellaSwag without the marks that its WikiHow part has, such as ``[header]``."""
    return _MARK.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def process_docs(dataset: Any) -> Any:
    """HellaSwag with the columns that its task asks: ``query``, ``choices``, ``gold``."""

    def with_question(doc: dict[str, Any]) -> dict[str, Any]:
        question = f"{doc['activity_label']}: {doc['ctx_a']} {doc['ctx_b'].capitalize()}"
        endings = [preprocess(ending) for ending in doc["endings"]]
        return {"query": preprocess(question), "choices": endings, "gold": int(doc["label"])}

    return dataset.map(with_question)


def last_boxed_only_string(string: str) -> str | None:
    r"""The last ``\boxed{…}`` of a text, else the last ``\fbox{…}``; None if there is none."""
    if "\\boxed " in string:
        return "\\boxed " + string.rpartition("\\boxed ")[2].partition("$")[0]
    start = next((at for at in map(string.rfind, _BOXES) if at >= 0), None)
    if start is None:
        return None
    depth = 0
    for at in range(start, len(string)):
        depth += (string[at] == "{") - (string[at] == "}")
        if string[at] == "}" and depth == 0:
            return string[start : at + 1]
    return None


def remove_boxed(string: str) -> str:
    r"""What is in ``\boxed{…}`` or behind ``\boxed``; AssertionError if the text is neither."""
    if "\\boxed " in string:
        assert string.startswith("\\boxed ")
        return string.removeprefix("\\boxed ")
    assert string.startswith("\\boxed{")
    assert string.endswith("}")
    return string[len("\\boxed{") : -1]
