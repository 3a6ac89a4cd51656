"""Replies that a server holds to a grammar: how it is asked to, and whether it does.

Servers know it under different names, and many ignore a name they do not know: status 200 and a free
reply. So each name is tried with a grammar whose answers no model would write by itself, and every
reply of the run is checked against its grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from lm_eval.errors import RequestError
from lm_eval.formats.grammar import NUMBER, Grammar, Hole
from lm_eval.models.api.generation import GenerationJob
from lm_eval.models.http.failures import BrokenBody
from lm_eval.requests import Reply
from lm_eval.requests.options import GenerationOptions
from lm_eval.support.secrets import shown_address

if TYPE_CHECKING:
    from lm_eval.models.api.calls import ServerCaller
    from lm_eval.models.api_models import TemplateAPI

Dialect = Literal["structured_outputs", "grammar", "response_format"]
"""vLLM's field, that of llama.cpp's server, and OpenAI's, which most others know too."""
DIALECTS: tuple[Dialect, ...] = ("structured_outputs", "grammar", "response_format")
_REFUSED = (200, 400, 404, 413, 415, 422, 500, 501)
_LISTED = Grammar((Hole(choices=("qzx7-vjk3", "wkq9-bfm2")),))
_PATTERNED = Grammar(("zq ", NUMBER, " qz"))
_PROMPT = "Say hello."
_WRAPPING = 32
"""Tokens that a JSON object adds around an answer."""


def fields(dialect: Dialect, grammar: Grammar, *, is_chat: bool) -> dict[str, Any] | None:
    """The fields of a request that hold its reply to a grammar; None if the dialect cannot express it.

    After a prompt an answer may begin with a blank; a turn of a chat does not.
    """
    if dialect == "structured_outputs":
        return {dialect: grammar.structured_outputs(may_lead=not is_chat)}
    if dialect == "grammar":
        return None if grammar.gbnf is None else {dialect: grammar.gbnf}
    schema = {"name": "answer", "strict": True, "schema": grammar.schema}
    return {dialect: {"type": "json_schema", "json_schema": schema}}


def held_text(dialect: Dialect, grammar: Grammar, reply: str) -> str | None:
    """The text of a reply if the grammar allows it, else None."""
    if dialect == "response_format":
        return grammar.from_object(reply)
    if dialect == "structured_outputs":
        return grammar.held(reply)
    return reply if grammar.allows(reply) or grammar.allows(reply.rstrip()) else None


def _is_cut(dialect: Dialect, grammar: Grammar, reply: Reply) -> bool:
    """Whether a reply that the grammar does not allow is the beginning of one, or a refusal."""
    if reply.finish != "length":
        return reply.finish == "refused"
    if dialect == "response_format":
        return reply.lstrip().startswith("{")
    return grammar.may_become(reply)


class ServerEnforcer:
    """Holds the replies of one server. ``caller`` sends; which dialect works is found out once."""

    def __init__(self, caller: ServerCaller, model: TemplateAPI) -> None:
        self._caller = caller
        self._model = model
        self._known: dict[bool, Dialect | None] = {}

    @property
    def dialects(self) -> list[str]:
        """The names under which the server holds replies, as far as they were tried."""
        return sorted({dialect for dialect in self._known.values() if dialect is not None})

    def cannot_hold(self, grammar: Grammar) -> str | None:
        """Why the server cannot hold replies to a grammar; None if it can."""
        is_listed = grammar.texts is not None
        if is_listed not in self._known:
            self._known[is_listed] = self._find(_LISTED if is_listed else _PATTERNED)
        dialect = self._known[is_listed]
        if dialect is None:
            where, tried = shown_address(self._model.base_url), ", ".join(self._model.enforced_by)
            return f"{where} ignored or refused every request to enforce a reply ({tried})"
        if self._fields(dialect, grammar) is None:
            return f"`{dialect}` cannot express a regular expression"
        return None

    def _dialect(self, grammar: Grammar) -> Dialect:
        """The name under which the server holds replies to such grammars, once one is known."""
        dialect = self._known[grammar.texts is not None]
        assert dialect is not None, "checked before anything is asked"
        return dialect

    def _fields(self, dialect: Dialect, grammar: Grammar) -> dict[str, Any] | None:
        return fields(dialect, grammar, is_chat=self._model.is_chat)

    def _find(self, grammar: Grammar) -> Dialect | None:
        """The first name under which the server replies as the grammar allows."""
        for dialect in self._model.enforced_by:
            if self._fields(dialect, grammar) is None:
                continue
            try:
                self._caller.run(self._ask(None, self._probe_job(), grammar, dialect))
            except RequestError as error:
                if error.status not in _REFUSED:
                    raise
            else:
                return dialect
        return None

    def _probe_job(self) -> GenerationJob:
        message: Any = [{"role": "user", "content": _PROMPT}] if self._model.is_chat else _PROMPT
        if not self._model.is_chat and self._model.tokenized_requests:
            (message,) = self._model.encode_texts([_PROMPT])
        options = GenerationOptions.from_kwargs({"max_gen_toks": 64})
        return GenerationJob("", (0,), [message], options, self._model.seed, ())

    async def _ask(
        self, task: str | None, job: GenerationJob, grammar: Grammar, dialect: Dialect
    ) -> Reply:
        """The reply to a job's prompt, held to a grammar; an error if the server did not hold it."""
        return await self._caller.ask(
            task,
            job.messages,
            lambda outputs: self._read(outputs, grammar, dialect),
            generate=True,
            gen_kwargs=self._gen_kwargs(job, grammar, dialect),
            seed=job.seed,
        )

    def gen_kwargs(self, job: GenerationJob, grammar: Grammar) -> dict[str, Any]:
        """The arguments of a request whose reply is held to a grammar."""
        return self._gen_kwargs(job, grammar, self._dialect(grammar))

    def _gen_kwargs(self, job: GenerationJob, grammar: Grammar, dialect: Dialect) -> dict[str, Any]:
        gen_kwargs = {**job.gen_kwargs(), **(self._fields(dialect, grammar) or {})}
        if not grammar.is_open or dialect == "response_format":
            gen_kwargs["until"] = []
        if dialect == "response_format":
            gen_kwargs["max_gen_toks"] += _WRAPPING
        return gen_kwargs

    def read(self, outputs: Any, grammar: Grammar) -> Reply:
        """The reply in what a server sent; an error if the grammar does not allow it."""
        return self._read(outputs, grammar, self._dialect(grammar))

    def _read(self, outputs: Any, grammar: Grammar, dialect: Dialect) -> Reply:
        (reply,) = self._caller.read_replies(outputs, 1)
        text = held_text(dialect, grammar, str(reply))
        if text is None and _is_cut(dialect, grammar, reply):
            return reply
        if text is None:
            raise BrokenBody(
                f"the server did not hold its reply ({dialect}): {str(reply)[:80]!r}",
                "Ask without +enforced.",
                wait_s=0.0,
            )
        return Reply(text, finish=reply.finish, reasoning=reply.reasoning)

    async def reply(self, job: GenerationJob, grammar: Grammar) -> Reply:
        """The reply to a job, in one phase or in two.

        In a chat, the words that announce the answer are the user's next turn, because few servers
        continue a started reply.
        """
        dialect = self._dialect(grammar)
        if grammar.opening is None:
            return await self._ask(job.task, job, grammar, dialect)
        until = (grammar.opening, *job.options.until)
        options = replace(job.options, until=until)
        free = replace(job, grammar=None, options=options, stops=(*until, *job.stops))
        (reasons,) = await self._caller.generate(free)
        before = grammar.before_answer(str(reasons))
        limited = replace(job.options, max_gen_toks=min(grammar.longest, 256))
        behind = [self._behind(job.messages[0], str(reasons), before, grammar.opening)]
        gap, held = grammar.behind_opening() if self._model.is_chat else ("", grammar)
        job = replace(job, messages=behind, options=limited)
        answer = await self._ask(job.task, job, held, dialect)
        text = f"{before}{gap}{answer}"
        return Reply(text, finish=answer.finish, reasoning=reasons.reasoning)

    def _behind(self, prompt: Any, reasons: str, before: str, opening: str) -> Any:
        """The prompt for the answer: the first prompt, followed by the reasons."""
        if isinstance(prompt, str):
            return prompt + before
        if prompt and isinstance(prompt[0], Mapping):
            turns = [{"role": "assistant", "content": reasons or "…"}]
            return [*prompt, *turns, {"role": "user", "content": opening}]
        (tokens,) = self._model.encode_texts([before], add_special_tokens=False)
        return [*prompt, *tokens]
