"""What servers are asked before a run: what they can score, and whether several serve one model.

``probe`` scores a few texts that differ in their last word. The log-probs of what they have in common
must be equal, and those of the first token that differs must not. This exposes a server that ignores
``echo``, or whose log-probs are shifted by a token, whatever its model.

``ServerCheck`` asks several servers the same few questions. The first that answers is the reference. One
that replies differently is refused by name before anything is scored; one that cannot be reached is
taken out, and checked again before it gets requests.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lm_eval.errors import ModelError, RequestError
from lm_eval.formats.assemble import Prompt
from lm_eval.models.api.calls import ServerCaller, is_parsed, with_lead
from lm_eval.models.api.replies import NextTokens, ReportedError
from lm_eval.models.api.scoring import Ability
from lm_eval.models.http.failures import BrokenBody
from lm_eval.models.http.servers import ONLY, Server
from lm_eval.support.secrets import shown_address

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI

# Many words could end this sentence, so no log-prob is close to 0; those of these four differ widely.
_START = "Of all the words that could end this sentence I choose"
TEXTS = tuple(f"{_START} {word}" for word in ("green", "the", "seven", "quickly"))
_TOP_SIZES = (100, 20, 5)
_WIDEST = 1000
"""Asked for if a label that is not among the likeliest tokens could not be scored otherwise."""
_SAME = 0.2
"""Half-precision servers give a token slightly different log-probs in different batches."""
_UNREADABLE = (ModelError, KeyError, IndexError, TypeError, ValueError, AttributeError)
_REFUSED = (400, 413, 415, 422, 500, 501)
_CANNOT = (200, *_REFUSED)
"""Also if every reply to a request lacks what was asked for."""
NO_ECHO = (
    "Log-likelihoods need a completions endpoint that returns the log-probs of the prompt: vLLM, SGLang "
    "or OpenAI's older models do; llama.cpp's server and `transformers serve` do not. Use such a server "
    "or a local model (--model hf, --model gguf), or ask for text with a format such as @generate."
)


def probe(caller: ServerCaller, model: TemplateAPI, task: str) -> Ability:
    """What the server can do; an error if it cannot score. The costs count for ``task``."""
    if caller.style == "harness":  # it returns scores, not replies to be inspected
        return Ability(echo=True, batch=model.batch_size > 1)
    if len(model.addresses) == 1:
        ability = _Probe(caller, model, task).run()
    else:
        ability = _shared(caller, model, task)
    if not ability.echo and not ability.top:
        raise ModelError(ability.why_no_echo)
    if ability.echo and not ability.batch and model.batch_size > 1:
        raise RequestError(
            f"{shown_address(model.base_url)} takes one prompt in a request, but batch_size is "
            f"{model.batch_size}. Set batch_size=1; num_concurrent sends several requests at a time.",
            stops_run=True,
        )
    return ability


def _shared(caller: ServerCaller, model: TemplateAPI, task: str) -> Ability:
    """What all servers that answer can do; an error if their scores differ."""
    first: tuple[str, _Probe] | None = None
    abilities: list[Ability] = []
    servers = caller.transport.servers
    for server in [server for server in servers.all if server.is_in]:
        probe = _Probe(caller, model, task)
        try:
            with only(server.number):
                abilities.append(probe.run())
        except RequestError as error:
            servers.take_out(server, str(error))
            if not any(other.is_in for other in servers.all):
                raise
            continue
        if first is None:
            first = server.shown, probe
        elif not first[1].agrees_with(probe) or abilities[0].lead != abilities[-1].lead:
            raise ModelError(
                f"{server.shown} serves another model than {first[0]}, or with other settings: its "
                "log-probs of the same texts differ. Several addresses in base_url must serve one "
                "model: leave this one out, or evaluate it on its own."
            )
    weakest = min(abilities, key=lambda ability: ability.echo)
    return replace(
        weakest,
        top=min(ability.top for ability in abilities),
        batch=all(ability.batch for ability in abilities),
    )


TokenScores = dict[int, list[list[float]]]
"""By how many tokens the server may put before a text: the scores of each text's tokens."""


class _Probe:
    """The probe's texts, and what is known about them so far."""

    def __init__(self, caller: ServerCaller, model: TemplateAPI, task: str) -> None:
        self._caller = caller
        self._model = model
        self._task = task
        self.texts: list[list[int]] = model.encode_texts(list(TEXTS))
        self.seam = _common(self.texts)
        self.known: list[tuple[int, float]] = []
        """For each text the first token that is its own, with its score."""
        self._problem = ""
        self._leads = (0,) if model.tokenized_requests else (0, 1)

    def run(self) -> Ability:
        ability = self._echo()
        wanted = self._model.top_logprobs  # None: as many as the server returns
        can_top = self._model.defines("parse_top_logprobs") and not self._caller.is_overridden
        if can_top and wanted != 0:
            sizes: tuple[int, ...] = _TOP_SIZES if ability.echo else (_WIDEST, *_TOP_SIZES)
            sizes = sizes if wanted is None else (wanted,)
            ability = replace(ability, top=self._top(sizes, ability))
        return ability

    def agrees_with(self, other: _Probe) -> bool:
        """Whether another server gives the texts the same scores, as far as both score them."""
        pairs = zip(self.known, other.known, strict=False)
        return all(abs(ours[1] - theirs[1]) <= _SAME for ours, theirs in pairs)

    # -- log-probs of the prompt -----------------------------------------------------------------

    def _echo(self) -> Ability:
        try:
            alone = self._ask_echo(self.texts[:1])
        except RequestError as error:
            if error.status not in _CANNOT or (error.status == 200 and not self._problem):
                raise
            refused = f"it refused the request: {str(error).rstrip('.')}"
            return self._without(self._problem if error.status == 200 else refused)
        scores, has_batch = self._ask_all(alone)
        problems = []
        for lead in [lead for lead in alone if lead in scores]:
            problem = self._misfit(alone[lead] + scores[lead])
            if problem is None:
                return Ability(echo=True, batch=has_batch, lead=lead)
            problems.append(problem)
        if problems:  # nothing else that such a server returns can be trusted
            raise ModelError(self._without(problems[0]).why_no_echo)
        return self._without(self._problem)

    def _ask_all(self, alone: TokenScores) -> tuple[TokenScores, bool]:
        """The scores of all texts, and whether one request gave them."""
        try:
            return self._ask_echo(self.texts), True
        except RequestError as error:
            if error.status not in _CANNOT:
                raise
        scores = alone
        for text in self.texts[1:]:
            more = self._ask_echo([text])
            scores = {lead: scores[lead] + more[lead] for lead in scores if lead in more}
        return scores, False

    def _ask_echo(self, prompts: list[list[int]]) -> TokenScores:
        """The scores of the tokens of prompts, under each lead with which the reply can be read."""

        def read(outputs: Any) -> TokenScores:
            found, problems = {}, []
            for lead in self._leads:
                try:
                    found[lead] = self._token_scores(outputs, prompts, lead)
                except ReportedError as error:
                    self._problem = ""
                    raise BrokenBody(str(error), error.advice) from error
                except _UNREADABLE as error:
                    problems.append(str(error).rstrip(".") or type(error).__name__)
            if not found:
                self._problem = problems[0]
                raise BrokenBody(self._problem, wait_s=0.0)
            return found

        ctxlens = [1] * len(prompts)
        return self._caller.run(
            self._caller.ask(self._task, self._sent(prompts), read, generate=False, ctxlens=ctxlens)
        )

    def _sent(self, prompts: list[list[int]]) -> list[Any]:
        if self._model.tokenized_requests:
            return [list(prompt) for prompt in prompts]
        return [self._model.tok_decode(prompt) for prompt in prompts]

    def _token_scores(self, outputs: Any, prompts: list[list[int]], lead: int) -> list[list[float]]:
        """The log-prob of each token but the first, from the differences of sums."""
        if is_parsed(outputs):
            raise ModelError("the subclass gives scores where replies were expected")
        sums = []
        for start in range(1, max(map(len, prompts))):
            ctxlens = [min(start, len(prompt)) for prompt in prompts]
            arguments = with_lead(prompts, ctxlens, lead)
            scores = self._model.parse_logprobs(outputs=outputs, **arguments)
            if len(scores) != len(prompts):
                raise ModelError(f"it answered {len(scores)} of {len(prompts)} prompts")
            sums.append([score for score, _ in scores])
        sums.append([0.0] * len(prompts))
        return [
            [sums[at][n] - sums[at + 1][n] for at in range(len(prompt) - 1)]
            for n, prompt in enumerate(prompts)
        ]

    def _misfit(self, scores: list[list[float]]) -> str | None:
        """What is wrong with the scores of the first text, and then of all; None if nothing."""
        seam = self.seam - 1  # scores begin with the second token
        if not all(math.isfinite(number) and number <= 1e-6 for text in scores for number in text):
            return "some of its log-probs are not logarithms of probabilities"
        columns = [[text[at] for text in scores] for at in range(seam + 1)]
        spreads = [max(column) - min(column) for column in columns]
        if max(spreads[:seam]) > _SAME or spreads[seam] <= _SAME:
            return (
                "its log-probs are not aligned with its tokens: texts that differ only in their "
                "last word have different scores before that word, or equal ones at it. Some "
                "servers are one token off when a prompt has no BOS token; add_bos_token=True may "
                "help"
            )
        self.known = [
            (tokens[self.seam], text[seam])
            for tokens, text in zip(self.texts, scores[1:], strict=True)
        ]
        return None

    def _without(self, problem: str) -> Ability:
        return Ability(
            echo=False,
            why_no_echo=f"{shown_address(self._model.base_url)} cannot score text (echo with "
            f"logprobs): {problem}. {NO_ECHO}",
        )

    # -- likeliest next tokens -------------------------------------------------------------------

    def _top(self, sizes: Sequence[int], ability: Ability) -> int:
        """How many likeliest tokens the server returns; 0 if they disagree with the scores."""
        start = self.texts[0][: self.seam]
        for size in sizes:
            ask = self._caller.likeliest(self._task, self._sent([start]), size, wait_s=0.0)
            try:
                (likeliest,) = self._caller.run(ask)
            except RequestError as error:
                if error.status == 200:
                    return 0
                if error.status not in _REFUSED:
                    raise
                continue
            return size if self._agrees(likeliest, ability) else 0
        return 0

    def _agrees(self, likeliest: NextTokens, ability: Ability) -> bool:
        total = sum(math.exp(score) for _, _, score in likeliest.entries)
        if total > 1.01 or likeliest.entries[0][2] > math.log(0.999):
            return False  # not the model's probabilities, but what a sampler made of them
        if not ability.echo:
            return True
        found = [
            (entry[0], score)
            for token, score in self.known
            if (entry := likeliest.find(token, self._model.only_text(token))) is not None
        ]
        found = found or self._best_by_echo(likeliest, ability)
        return bool(found) and all(abs(ours - theirs) <= _SAME for ours, theirs in found)

    def _best_by_echo(self, likeliest: NextTokens, ability: Ability) -> list[tuple[float, float]]:
        """The two scores of one of the tokens that were returned, the first that is sure to be meant."""
        for text, number, _ in likeliest.entries:
            tokens = self._model.tok_encode(text) if number is None else [number]
            entry = likeliest.find(tokens[0], self._model.only_text(tokens[0])) if tokens else None
            if len(tokens) == 1 and entry is not None:
                scores = self._ask_echo([[*self.texts[0][: self.seam], *tokens]])
                return [(entry[0], scores[ability.lead][0][-1])]
        return []


def _common(texts: Sequence[Sequence[int]]) -> int:
    """The index of the first token in which the texts differ; there must be two before it."""
    indices = enumerate(zip(*texts, strict=False))
    seam = next((index for index, tokens in indices if len(set(tokens)) > 1), 0)
    if seam < 2:
        raise ModelError(
            "The tokenizer gives the probe's texts no tokens that they share and then differ in, so "
            "the server's log-probs cannot be checked. Is it the tokenizer of this model? Name it "
            "with tokenizer=…"
        )
    return seam


# Several servers of one model

# Many replies are possible, so no two models give the same reply to most of them.
QUESTIONS = (
    "Write one unusual sentence about a lighthouse keeper.",
    "My favourite three words, in no particular order, are",
    "Continue this story: The machine had one lever, and",
)
_REPLY_TOKENS = 12
_ENOUGH = 2
"""How many replies must be equal: one may differ by rounding."""


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

    def __init__(self, caller: ServerCaller, model: TemplateAPI, task: str) -> None:
        self._caller = caller
        self._model = model
        self._task = task
        self._reference: tuple[str, list[str]] | None = None

    def run(self) -> None:
        """Compare all servers; those that cannot be reached are taken out."""
        servers, errors = self._caller.transport.servers, []
        for server in servers.all:
            server.shown = shown_address(self._model.addresses[server.number])
            try:
                wrong = self._caller.run(self.check(server))
            except RequestError as error:
                if error.status is not None and not error.retryable:
                    raise  # a wrong key or path: it would be wrong again
                errors.append(error)
                servers.take_out(server, str(error))
                continue
            if wrong is not None:
                raise ModelError(
                    f"{wrong} Several addresses in base_url must serve one model: leave this one "
                    "out, or evaluate it on its own."
                )
        if self._reference is None:
            raise errors[0]
        servers.check = self.check

    async def check(self, server: Server) -> str | None:
        """What is wrong with a server's replies; None if they are like those of the first server."""
        with only(server.number):
            replies = await self._replies()
            if self._reference is None:
                self._reference = (server.shown, replies)
            first, known = self._reference
            enough = min(_ENOUGH, len(known))
            if sum(map(str.__eq__, known, replies)) < enough:
                replies = await self._replies()  # once more: it may have been busy with others
        if sum(map(str.__eq__, known, replies)) >= enough:
            return None
        theirs, ours = next((a, b) for a, b in zip(known, replies, strict=True) if a != b)
        return (
            f"{server.shown} serves another model than {first}, or with other settings: the same "
            f"question is answered {theirs[:60]!r} there and {ours[:60]!r} here."
        )

    async def _replies(self) -> list[str]:
        if self._model.always_samples:  # nothing to compare, but does it answer?
            return [str(bool(await self._reply(QUESTIONS[0])))]
        return list(await asyncio.gather(*map(self._reply, QUESTIONS)))

    async def _reply(self, question: str) -> str:
        model = self._model
        prompt: Any = model.messages(Prompt((question,))) if model.is_chat else question
        options = {"until": [], "max_gen_toks": _REPLY_TOKENS, "temperature": 0.0}
        reply = await self._caller.reply(self._task, prompt, options)
        return f"{reply.reasoning or ''}{reply}".strip()
