"""A server that really holds replies to grammars, under the names that it is told to know.

The model is an in-process ``gguf``, held token by token. A name that it does not know it ignores, with
status 200 and a free reply, or refuses (``refuses``): both are found in the wild.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from lm_eval.formats.assemble import Chat, Context, Message, Prompt
from lm_eval.formats.grammar import Grammar, Hole
from lm_eval.models.gguf import GgufLM
from lm_eval.requests import GenerateRequest, Reply

NAMES = ("structured_outputs", "grammar", "response_format")


class HeldServer:
    """Answers completions and chats. ``lets_go_after``: from this request on, replies are free."""

    def __init__(
        self,
        lm: GgufLM,
        knows: Collection[str],
        *,
        refuses: bool = False,
        lets_go_after: int | None = None,
    ) -> None:
        self._lm = lm
        self._knows = knows
        self._refuses = refuses
        self._lets_go_after = lets_go_after
        self._lock = threading.Lock()
        self.bodies: list[Any] = []

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        if body is None or "model" not in body:
            return 404, {"error": {"message": "not here"}}
        with self._lock:
            self.bodies.append(body)
            unknown = [name for name in NAMES if name in body and name not in self._knows]
            if unknown and self._refuses:
                return 400, {"error": {"message": f"Unrecognized argument: {unknown[0]}"}}
            reply = self._reply(body)
        is_chat = path.endswith("/chat/completions")
        said = {"message": {"role": "assistant", "content": reply}} if is_chat else {"text": reply}
        choice = {"index": 0, "finish_reason": reply.finish, **said}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}

    def _reply(self, body: Any) -> Reply:
        kwargs = {
            "until": body.get("stop") or [],
            "max_gen_toks": body.get("max_tokens") or body.get("max_completion_tokens"),
        }
        is_holding = self._lets_go_after is None or len(self.bodies) <= self._lets_go_after
        request = GenerateRequest(
            *("t", 0, 0, _context(body), kwargs),
            grammar=self._grammar(body) if is_holding else None,
        )
        return next(answer for _, answer in self._lm.stream([request]))  # type: ignore[return-value]

    def _grammar(self, body: Any) -> Grammar | None:
        for name in NAMES:
            if name in body and name in self._knows:
                return _BY_NAME[name](body[name])
        return None


def _context(body: Any) -> Context:
    if "messages" in body:
        return Chat(tuple(Message(m["role"], m["content"]) for m in body["messages"]))
    return Prompt((body["prompt"] if isinstance(body["prompt"], str) else body["prompt"][0],))


def _structured(value: Any) -> Grammar:
    if "choice" in value:
        return Grammar((Hole(choices=tuple(value["choice"])),), may_lead=False)
    return Grammar((Hole(pattern=value["regex"]),), may_lead=False)


def _schema(value: Any) -> Grammar:
    """An object whose fields are texts: those of a list, or what a pattern allows."""
    parts: list[str | Hole] = []
    before = "{"
    for name, field in value["json_schema"]["schema"]["properties"].items():
        if "enum" in field:
            hole = Hole(choices=tuple(field["enum"]))
        else:
            hole = Hole(pattern=field["pattern"].removeprefix("^").removesuffix("$"))
        parts += [f'{before}"{name}": "', hole]
        before = '", '
    return Grammar((*parts, '"}'), may_lead=False)


_BY_NAME = {"structured_outputs": _structured, "response_format": _schema}
