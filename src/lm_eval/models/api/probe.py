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
from lm_eval.models.api.scoring import Ability, Score
from lm_eval.models.http.failures import BrokenBody
from lm_eval.models.http.servers import ONLY
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
    with caller.counting(task):
        ability = (
            _Probe(caller, model).run() if len(model.addresses) == 1 else _shared(caller, model)
        )
    if not ability.echo and not ability.top:
        raise ModelError(ability.why_no_echo)
    if ability.echo and not ability.batch and model.batch_size > 1:
        raise RequestError(
            f"{shown_address(model.base_url)} takes one prompt in a request, but batch_size is "
            f"{model.batch_size}. Set batch_size=1; num_concurrent sends several requests at a time.",
            stops_run=True,
        )
    return ability


def _shared(caller: ServerCaller, model: TemplateAPI) -> Ability:
    """What all servers that answer can do; an error if their scores differ."""
    first: tuple[str, _Probe] | None = None
    abilities: list[Ability] = []
    for server in caller.transport.servers.all:
        if not server.is_in:
            continue
        shown = shown_address(model.addresses[server.number])
        try:
            with only(server.number):
                probe = _Probe(caller, model)
                abilities.append(probe.run())
        except RequestError as error:
            caller.transport.servers.take_out(server, str(error))
            if not any(other.is_in for other in caller.transport.servers.all):
                raise
            continue
        if first is None:
            first = shown, probe
        elif not first[1].agrees_with(probe) or abilities[0].lead != abilities[-1].lead:
            raise ModelError(
                f"{shown} serves another model than {first[0]}, or with other settings: its log-probs "
                "of the same texts differ. Several addresses in base_url must serve one model: leave "
                "this one out, or evaluate it on its own."
            )
    weakest = min(abilities, key=lambda ability: ability.echo)
    return replace(
        weakest,
        top=min(ability.top for ability in abilities),
        batch=all(ability.batch for ability in abilities),
    )


class _Probe:
    """The probe's texts, and what is known about them so far."""

    def __init__(self, caller: ServerCaller, model: TemplateAPI) -> None:
        self._caller = caller
        self._model = model
        self.texts: list[list[int]] = model.encode_texts(list(TEXTS))
        self.seam = _common(self.texts)
        self.known: list[tuple[int, float]] = []
        self.others: list[Any] | None = None
        self.is_misplaced = True
        self.problem = ""
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

    # -- requests --------------------------------------------------------------------------------

    def _ask_echo(self, prompts: list[list[int]]) -> Any:
        """The raw reply to a request for the log-probs of prompts."""
        ctxlens = [1] * len(prompts)

        def read(outputs: Any) -> Any:
            problems = []
            for lead in self._leads:
                try:
                    self._scores(outputs, prompts, ctxlens, lead)
                except ReportedError as error:
                    self.problem = ""
                    raise BrokenBody(str(error), error.advice) from error
                except _UNREADABLE as error:
                    problems.append(str(error).rstrip(".") or type(error).__name__)
                else:
                    return outputs
            self.problem = problems[0]
            raise BrokenBody(self.problem, wait_s=0.0)

        ask = self._caller.ask(self._sent(prompts), read, generate=False, ctxlens=ctxlens)
        return self._caller.transport.run(ask)

    def _ask_top(self, prompt: list[int], size: int) -> NextTokens:
        ask = self._caller.likeliest(self._sent([prompt]), size, wait_s=0.0)
        return self._caller.transport.run(ask)[0]

    def _sent(self, prompts: list[list[int]]) -> list[Any]:
        if self._model.tokenized_requests:
            return [list(prompt) for prompt in prompts]
        return [self._model.tok_decode(prompt) for prompt in prompts]

    def _scores(
        self, outputs: Any, prompts: list[list[int]], ctxlens: list[int], lead: int
    ) -> list[Score]:
        if is_parsed(outputs):
            raise ModelError("the subclass gives scores where replies were expected")
        scores = self._model.parse_logprobs(outputs=outputs, **with_lead(prompts, ctxlens, lead))
        if len(scores) != len(prompts):
            raise ModelError(f"it answered {len(scores)} of {len(prompts)} prompts")
        return scores

    # -- log-probs of the prompt -----------------------------------------------------------------

    def _echo(self) -> Ability:
        try:
            self.alone = self._ask_echo(self.texts[:1])
        except RequestError as error:
            if error.status not in _CANNOT or (error.status == 200 and not self.problem):
                raise
            refused = f"it refused the request: {str(error).rstrip('.')}"
            return self._without(self.problem if error.status == 200 else refused)
        self.together = self._tried(self.texts)
        problems = []
        for lead in self._leads:
            try:
                alone = self._token_scores(self.alone, self.texts[:1], lead)
                scores, has_batch = self._all_scores(lead)
                problem = self._misfit(alone + scores)
            except _UNREADABLE as error:
                problem = str(error).rstrip(".") or type(error).__name__
                self.is_misplaced = False
            if problem is None:
                return Ability(echo=True, batch=has_batch, lead=lead)
            problems.append(problem)
        if self.is_misplaced:  # nothing else that such a server returns can be trusted
            raise ModelError(self._without(problems[0]).why_no_echo)
        return self._without(problems[0])

    def _tried(self, prompts: list[list[int]]) -> Any:
        """The reply to prompts that the server may refuse; None if it does."""
        try:
            return self._ask_echo(prompts)
        except RequestError as error:
            if error.status not in _CANNOT:
                raise
            return None

    def _all_scores(self, lead: int) -> tuple[list[list[float]], bool]:
        """The scores of all texts, and whether one request gave them."""
        if self.together is not None:
            try:
                return self._token_scores(self.together, self.texts, lead), True
            except _UNREADABLE:  # it answered the first prompt only, or read all as one
                self.together = None
        if self.others is None:
            self.others = [self._ask_echo([text]) for text in self.texts[1:]]
        replies = zip([self.alone, *self.others], self.texts, strict=True)
        return [self._token_scores(reply, [text], lead)[0] for reply, text in replies], False

    def _token_scores(self, outputs: Any, prompts: list[list[int]], lead: int) -> list[list[float]]:
        """The log-prob of each token but the first, from the differences of sums."""
        longest = max(map(len, prompts))
        sums = []
        for start in range(1, longest):
            ctxlens = [min(start, len(prompt)) for prompt in prompts]
            sums.append([score for score, _ in self._scores(outputs, prompts, ctxlens, lead)])
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
        spreads = [_spread([text[at] for text in scores]) for at in range(seam + 1)]
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
        for size in sizes:
            try:
                likeliest = self._ask_top(self.texts[0][: self.seam], size)
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
        compared = [self._compare(likeliest, token, score) for token, score in self.known]
        if all(agrees is None for agrees in compared):
            compared = [self._compare_best(likeliest, ability)]
        return all(agrees is not False for agrees in compared) and any(compared)

    def _compare(self, likeliest: NextTokens, token: int, score: float) -> bool | None:
        entry = likeliest.find(token, self._model.only_text(token))
        return None if entry is None else abs(entry[0] - score) <= _SAME

    def _compare_best(self, likeliest: NextTokens, ability: Ability) -> bool | None:
        """Score one of the tokens that were returned; None if none is certain to be meant."""
        for text, number, _ in likeliest.entries:
            tokens = self._model.tok_encode(text) if number is None else [number]
            if len(tokens) == 1 and likeliest.find(tokens[0], self._model.only_text(tokens[0])):
                prompt = [*self.texts[0][: self.seam], tokens[0]]
                outputs = self._ask_echo([prompt])
                ((score, _),) = self._scores(outputs, [prompt], [self.seam], ability.lead)
                return self._compare(likeliest, tokens[0], score)
        return None


def _spread(numbers: Sequence[float]) -> float:
    return max(numbers) - min(numbers)


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

    def __init__(self, caller: ServerCaller, model: TemplateAPI) -> None:
        self._caller = caller
        self._model = model
        self._reference: tuple[str, list[str]] | None = None

    def run(self, task: str) -> None:
        """Compare all servers; those that cannot be reached are taken out. Costs count for ``task``."""
        caller, errors = self._caller, []
        for server, address in zip(
            caller.transport.servers.all, self._model.addresses, strict=True
        ):
            server.shown = shown_address(address)
            try:
                with caller.counting(task):
                    wrong = caller.transport.run(self.check(server.number))
            except RequestError as error:
                if error.status is not None and not error.retryable:
                    raise  # a wrong key or path: it would be wrong again
                errors.append(error)
                caller.transport.servers.take_out(server, str(error))
                continue
            if wrong is not None:
                raise ModelError(
                    f"{wrong} Several addresses in base_url must serve one model: leave this one "
                    "out, or evaluate it on its own."
                )
        if self._reference is None:
            raise errors[0]
        caller.transport.servers.check = self.check

    async def check(self, number: int) -> str | None:
        """What is wrong with a server's replies; None if they are like those of the first server."""
        with only(number):
            replies = await self._replies()
            shown = shown_address(self._model.addresses[number])
            if self._reference is None:
                self._reference = (shown, replies)
            if not self._are_alike(replies):
                replies = await self._replies()  # once more: it may have been busy with others
            return None if self._are_alike(replies) else self._difference(shown, replies)

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
        assert self._reference is not None
        known = self._reference[1]
        equal = sum(map(str.__eq__, known, replies))
        return equal >= min(_ENOUGH, len(known))

    def _difference(self, shown: str, replies: Sequence[str]) -> str:
        assert self._reference is not None
        first, known = self._reference
        ours, theirs = next((a, b) for a, b in zip(known, replies, strict=True) if a != b)
        return (
            f"{shown} serves another model than {first}, or with other settings: the same question "
            f"is answered {theirs[:60]!r} there and {ours[:60]!r} here."
        )
