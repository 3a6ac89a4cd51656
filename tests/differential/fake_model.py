"""A model made of hashes: the same question gets the same answer, in either harness.

Pure standard library and no harness in sight. Scores come in steps of a quarter, so that ties occur;
replies now and then repeat a name, a number or a sentence of the prompt, so that some are right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

NAMES = re.compile(r"\b[A-Z][\w']*(?: [A-Z][\w']*)?")
COMMON = ("A", "Answer", "Background", "Capital", "It", "Q", "Question", "The", "Title")


def loglikelihood(context: str, continuation: str) -> tuple[float, bool]:
    """``(log-probability, is_greedy)`` of a continuation."""
    number = _number("score 20", context, continuation)
    return -(1 + number % 24) / 4, number // 24 % 3 == 0


def rolling(text: str) -> float:
    """The log-probability of a whole text, about one nat for every two characters."""
    return -(len(text) / 2 + _number("rolling", text) % 40 / 4)


def generate(context: str, until: Sequence[str], repeat: int = 0) -> str:
    """A reply that ends before the first stop string. ``repeat`` counts sendings of one request."""
    number = _number("generate 236", context, str(repeat))
    reply = _reply(context, number)
    for stop in until:
        if stop:
            reply = reply.split(stop)[0]
    return reply


def chat_text(messages: Sequence[dict[str, Any]], add_generation_prompt: bool = True) -> str:
    """A simple chat template. Without a generation prompt the last message is left open."""
    text = "".join(f"<|{m['role']}|>\n{m['content']}<|end|>\n" for m in messages)
    return text + "<|assistant|>\n" if add_generation_prompt else text.removesuffix("<|end|>\n")


def _number(*parts: str) -> int:
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big")


def _reply(context: str, number: int) -> str:
    """A reply of a kind that fits the question, or, one time in five, of any kind."""
    pieces = re.split(r"\n\n|<\|user\|>\n", context.rstrip())
    asked = next((piece for piece in reversed(pieces) if len(piece) > 24), context)
    numbers = [int(digits.replace(",", "")) for digits in re.findall(r"\d[\d,]*", asked)]
    total = sum(numbers) if len(numbers) > 1 else sum(numbers, 1)
    names = [name for name in NAMES.findall(context[-200:]) if name not in COMMON][-3:] or [
        "Nobody"
    ]
    name = names[number // 97 % len(names)]
    letter = "ABC"[number // 89 % 3]
    options = re.findall(r"\([A-D]\) (.*)", asked) or ["this one"]
    option = options[number // 79 % len(options)]
    truth = ("True", "False")[number // 83 % 2]
    line = max(asked.splitlines() or [""], key=len).partition(": ")[2] or asked
    of_numbers = (
        f" We add them up: {numbers[:1]} and the rest make {total}.\n#### {total}",
        f" That is {total:,}. The answer is {total:,}.",
        f"{total}",
        f"{total}",
        f" #### {total}.\n\nQuestion: is it $1,750?",
    )
    of_letters = (
        f" ({letter})",
        f"{letter}",
        f"{letter}",
        f" So the answer is ({letter}). No, wait: the answer is {letter}!",
        f"I would say {line.lower()}: ({letter})",
        f"It must be {option}, no?",
        f"My choice: {letter}",
    )
    of_truths = (f" Let us see. So the answer is {truth}.", f"So the answer is {truth}!", truth)
    of_lines = (line, f" {line}", f" {' '.join(line.split()[:-1])} Straße", line.title())
    of_names = (name, name, name, f" {name}", f"{name}.\nAnd so on.", f"The {name}")
    others = ("", " I don't know,\n\nQuestion: #### 12", f"PER: {name} $$ loc : {name}, none ")
    if number % 5 == 0:
        kind = (of_numbers + of_letters + of_truths + of_lines + of_names)[3::2] + others
    elif re.search(r"\bphrase:|LOC:", asked):
        kind = (*of_lines, *others[1:]) if "LOC:" in asked else of_lines
    elif re.search(r"True|False", asked):
        kind = of_truths
    elif re.search(r"\([A-D]\)|\bA, B\b", asked):
        kind = of_letters
    else:
        kind = of_numbers if numbers else of_names
    return kind[number // 5 % len(kind)]
