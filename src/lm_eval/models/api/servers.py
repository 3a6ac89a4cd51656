"""Whether the servers behind several addresses serve one model: each is asked the same few questions.

The first that answers is the measure. One that replies otherwise is refused by name before anything is
asked for a score; one that cannot be reached is taken out, and asked again before it gets requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.errors import ModelError, RequestError
from lm_eval.formats.assemble import Prompt
from lm_eval.models.api.calls import ServerCaller
from lm_eval.models.api.settings import ServerModel
from lm_eval.models.http.servers import ONLY
from lm_eval.text.secrets import shown_address

# Many replies are possible, so that no two models give the same to most of them.
QUESTIONS = (
    "Write one unusual sentence about a lighthouse keeper.",
    "My favourite three words, in no particular order, are",
    "Continue this story: The machine had one lever, and",
)
_REPLY_TOKENS = 12
_ENOUGH = 2
"""Replies that must be equal: one may differ by rounding."""


@contextmanager
def only(number: int) -> Iterator[None]:
    """Requests inside go to the server of this number."""
    token = ONLY.set(number)
    try:
        yield
    finally:
        ONLY.reset(token)


class ServerCheck:
    """Asks the servers of one model, and remembers how the first of them replied."""

    def __init__(self, caller: ServerCaller, model: ServerModel) -> None:
        self._caller = caller
        self._model = model
        self._measure: tuple[str, list[str]] | None = None

    def run(self, task: str) -> None:
        """Compare all servers; those that cannot be reached are out. Costs count for ``task``."""
        caller, errors = self._caller, []
        for server, address in zip(
            caller.transport.servers.all, self._model.addresses, strict=True
        ):
            server.shown = shown_address(address)
            try:
                with only(server.number), caller.counting(task):
                    wrong = caller.transport.run(self.check(server.number))
            except RequestError as error:
                if error.status is not None and error.status < 500:
                    raise  # a wrong key or path: it would be wrong again
                errors.append(error)
                caller.transport.servers.take_out(server, str(error))
                continue
            if wrong is not None:
                raise ModelError(
                    f"{wrong} Several addresses in base_url must serve one model: leave this one "
                    "out, or evaluate it on its own."
                )
        if self._measure is None:
            raise errors[0]
        caller.transport.servers.check = self.check

    async def check(self, number: int) -> str | None:
        """What is wrong with a server's replies; None if they are those of the first one."""
        token = ONLY.set(number)
        try:
            replies = await self._replies()
            shown = shown_address(self._model.addresses[number])
            if self._measure is None:
                self._measure = (shown, replies)
                return None
            if self._are_alike(replies):
                return None
            replies = await self._replies()  # once more: it may have been busy with others
            return None if self._are_alike(replies) else self._difference(shown, replies)
        finally:
            ONLY.reset(token)

    async def _replies(self) -> list[str]:
        if self._model.always_samples:  # nothing to compare, but does it answer?
            return [str(bool(await self._reply(QUESTIONS[0])))]
        return list(await asyncio.gather(*map(self._reply, QUESTIONS)))

    async def _reply(self, question: str) -> str:
        model = self._model
        prompt: Any = model.messages(Prompt((question,))) if model.is_chat else question
        reply = await self._caller.reply(
            prompt, {"until": [], "max_gen_toks": _REPLY_TOKENS, "temperature": 0.0}
        )
        return f"{reply.reasoning or ''}{reply}".strip()

    def _are_alike(self, replies: Sequence[str]) -> bool:
        assert self._measure is not None
        known = self._measure[1]
        equal = sum(map(str.__eq__, known, replies))
        return equal >= min(_ENOUGH, len(known))

    def _difference(self, shown: str, replies: Sequence[str]) -> str:
        assert self._measure is not None
        first, known = self._measure
        ours, theirs = next((a, b) for a, b in zip(known, replies, strict=True) if a != b)
        return (
            f"{shown} serves another model than {first}, or with other settings: the same question "
            f"is answered {theirs[:60]!r} there and {ours[:60]!r} here."
        )
