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

    def why_not_enforceable(self, grammar: Grammar) -> str | None:
        """Why the server cannot hold replies to a grammar; None if it can."""
        if (grammar.texts is not None) not in self._known:
            self._find(_PATTERNED if grammar.texts is None else _LISTED)
        dialect = self._dialect(grammar)
        if dialect is None:
            where, tried = shown_address(self._model.base_url), ", ".join(self._model.enforced_by)
            return f"{where} ignored or refused every request to enforce a reply ({tried})"
        if fields(dialect, grammar, is_chat=self._model.is_chat) is None:
            return f"`{dialect}` cannot express a regular expression"
        return None

    def _dialect(self, grammar: Grammar) -> Dialect | None:
        """The name under which the server holds replies to such grammars."""
        return self._known[grammar.texts is not None]

    def _find(self, grammar: Grammar) -> None:
        """Note the first name under which the server replies as the grammar allows."""
        message: Any = [{"role": "user", "content": _PROMPT}] if self._model.is_chat else _PROMPT
        if not self._model.is_chat and self._model.tokenized_requests:
            (message,) = self._model.encode_texts([_PROMPT])
        options = {"until": [], "max_gen_toks": 64, "temperature": 0.0}
        job = GenerationJob("", (0,), [message], options, self._model.seed, (), grammar)
        is_listed = grammar.texts is not None
        for dialect in self._model.enforced_by:
            if fields(dialect, grammar, is_chat=self._model.is_chat) is None:
                continue
            self._known[is_listed] = dialect
            try:
                self._caller.run(self._caller.generate(job))
            except RequestError as error:
                if error.status not in _REFUSED:
                    raise
            else:
                return
        self._known[is_listed] = None

    def gen_kwargs(self, job: GenerationJob, grammar: Grammar) -> dict[str, Any]:
        """The arguments of a request whose reply is held to a grammar."""
        dialect = self._dialect(grammar)
        assert dialect is not None, "checked before anything is asked"
        held_by = fields(dialect, grammar, is_chat=self._model.is_chat) or {}
        gen_kwargs = {**job.gen_kwargs, **held_by}
        if not grammar.is_open or dialect == "response_format":
            gen_kwargs["until"] = []
        if dialect == "response_format":
            gen_kwargs["max_gen_toks"] += _WRAPPING
        return gen_kwargs

    def read(self, reply: Reply, grammar: Grammar) -> Reply:
        """What a server replied; an error if the grammar does not allow it."""
        dialect = self._dialect(grammar)
        assert dialect is not None, "checked before anything is asked"
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

    async def reply_in_two(self, job: GenerationJob, grammar: Grammar, opening: str) -> Reply:
        """The reply to a job: free reasons up to ``opening``, then the answer, held to the grammar.

        In a chat, the words that announce the answer are the user's next turn, because few servers
        continue a started reply.
        """
        until = [opening, *job.gen_kwargs["until"]]
        options = {**job.gen_kwargs, "until": until}
        free = replace(job, grammar=None, gen_kwargs=options, stops=(*until, *job.stops))
        (reasons,) = await self._caller.generate(free)
        before = grammar.before_answer(str(reasons))
        limited = {**job.gen_kwargs, "max_gen_toks": min(grammar.longest, 256)}
        behind = [self._behind(job.messages[0], str(reasons), before, opening)]
        gap, held = "", replace(grammar, opening=None, may_lead=False)
        if self._model.is_chat:
            gap, held = grammar.behind_opening()
        job = replace(job, messages=behind, gen_kwargs=limited, grammar=held)
        (answer,) = await self._caller.generate(job)
        return Reply(f"{before}{gap}{answer}", finish=answer.finish, reasoning=reasons.reasoning)

    def _behind(self, prompt: Any, reasons: str, before: str, opening: str) -> Any:
        """The prompt for the answer: the first prompt, followed by the reasons."""
        if isinstance(prompt, str):
            return prompt + before
        if prompt and isinstance(prompt[0], Mapping):
            turns = [{"role": "assistant", "content": reasons or "…"}]
            return [*prompt, *turns, {"role": "user", "content": opening}]
        (tokens,) = self._model.encode_texts([before], add_special_tokens=False)
        return [*prompt, *tokens]
