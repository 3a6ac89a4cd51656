"""Requests through vLLM's step loop: as many wait as its scheduler can use, answers leave as they end.

A continuation of one token is read from the logits after its context: all letters of a doc are one
prompt of one step. A longer one is part of the prompt, and its log-probs are those of the prompt.
vLLM does not use its prefix cache there, because cached tokens have no log-probs; here it is used, and
a prompt is asked again without it if more than its context was cached.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, cast

from lm_eval.errors import ModelError, first_line
from lm_eval.formats.grammar import Grammar
from lm_eval.models.local.model import Job
from lm_eval.models.local.token_tree import Span
from lm_eval.models.sampling import split_reasoning
from lm_eval.requests import Reply
from lm_eval.requests.options import cut_at_stop

MOST_LETTERS = 64
"""Next tokens that one prompt is asked about; vLLM takes up to 128."""
_AHEAD = 2
"""How many times as many prompts the scheduler gets as it runs at once."""


@dataclass(frozen=True)
class Ask:
    """One prompt for the engine, and what it is asked for."""

    prompt: list[int]
    params: Any
    spans: Sequence[Span] = ()
    target: int = 0
    """Which target of its spans follows the prompt, unless the prompt itself is scored."""
    job: VllmJob | None = None


@dataclass(frozen=True)
class VllmJob(Job):
    """One prompt to continue, with vLLM's own arguments for it."""

    params: Any = None
    think_end: str | int | None = None
    grammar: Grammar | None = None
    """The grammar to which ``params`` hold the reply."""


@dataclass
class VllmEngine:
    """An ``LLM`` of vLLM, asked through its engine. ``lora`` goes with every request."""

    llm: Any
    lora: Any = None
    tokens_asked: int = 0
    tokens_cached: int = 0
    asked_again: int = 0
    """Prompts that were asked again, because too much of them was cached."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _again: deque[Ask] = field(default_factory=deque)
    """Prompts that come before new ones: asked again, or continuing a reply."""

    def __post_init__(self) -> None:
        from vllm import SamplingParams

        self._params = SamplingParams
        known = set(getattr(SamplingParams, "__struct_fields__", ()))
        self._reads_letters = "logprob_token_ids" in known
        self._optional = {
            name: value
            for name, value in (("skip_reading_prefix_cache", False), ("flat_logprobs", True))
            if name in known
        }

    @property
    def _engine(self) -> Any:
        return self.llm.llm_engine

    @property
    def depth(self) -> int:
        """How many prompts the scheduler has at a time."""
        return _AHEAD * int(self._engine.vllm_config.scheduler_config.max_num_seqs)

    # -- the loop ----------------------------------------------------------------------------

    def run(self, asks: Iterable[Ask]) -> Iterator[tuple[Ask, Any]]:
        """``(what was asked, vLLM's output)`` as outputs are complete."""
        source, waiting = iter(asks), dict[str, Ask]()
        is_read = False
        try:
            while True:
                while len(waiting) < self.depth and (self._again or not is_read):
                    ask = self._again.popleft() if self._again else next(source, None)
                    if ask is None:
                        is_read = True
                    else:
                        waiting[self._add(ask)] = ask
                if not waiting:
                    return
                for output in self._step():
                    if output.finished:
                        ask = waiting.pop(output.request_id)
                        self.tokens_asked += len(ask.prompt)
                        self.tokens_cached += output.num_cached_tokens or 0
                        yield ask, output
        finally:
            self._again.clear()
            if waiting:
                self._engine.abort_request(list(waiting))

    def _add(self, ask: Ask) -> str:
        name = f"lm-eval-{next(self._numbers)}"
        try:
            self._engine.add_request(
                name, {"prompt_token_ids": ask.prompt}, ask.params, lora_request=self.lora
            )
        except Exception as error:  # releases differ in which
            raise ModelError(
                f"vLLM refuses a prompt of {len(ask.prompt)} tokens: {first_line(error)}."
            ) from error
        return name

    def _step(self) -> list[Any]:
        try:
            with ignored_warnings():
                return list(self._engine.step())
        except Exception as error:
            if type(error).__name__ != "EngineDeadError":
                raise
            raise ModelError(
                "vLLM's engine died while it answered. Its own messages are above; the usual cause is "
                "memory: lower gpu_memory_utilization or max_num_seqs, or max_model_len."
            ) from error

    # -- scores ------------------------------------------------------------------------------

    def score(self, spans: Iterable[Span]) -> Iterator[Span]:
        """The spans with their scores, as they are ready."""
        empty: list[Span] = []
        for ask, output in self.run(self._asks(spans, empty)):
            if ask.params.prompt_logprobs is None:
                yield from self._read_letters(ask, output.outputs[0])
            elif (output.num_cached_tokens or 0) > ask.spans[0].first_read:
                self.asked_again += 1
                params = ask.params.clone()
                params.skip_reading_prefix_cache = True
                self._again.append(replace(ask, params=params))
            else:
                yield self._read_prompt(ask.spans[0], output.prompt_logprobs)
        yield from empty

    def _asks(self, spans: Iterable[Span], empty: list[Span]) -> Iterator[Ask]:
        """Spans of one token behind the same text in a row are one prompt."""
        alike: list[Span] = []
        for span in spans:
            if not span.targets:
                empty.append(span)
                continue
            is_letter = self._reads_letters and len(span.targets) == 1
            if alike and not (
                is_letter and len(alike) < MOST_LETTERS and span.inputs == alike[0].inputs
            ):
                yield self._letters(alike)
                alike = []
            if is_letter:
                alike.append(span)
            elif self.lora is not None and self._reads_letters:
                # vLLM takes an adapter for the next token only, not for log-probs of a prompt
                yield from (self._letters([span], index) for index in range(len(span.targets)))
            else:
                yield self._text(span)
        if alike:
            yield self._letters(alike)

    def _letters(self, spans: list[Span], target: int = 0) -> Ask:
        wanted = list(dict.fromkeys(span.targets[target] for span in spans))
        params = self._params(
            temperature=0.0, max_tokens=1, detokenize=False, logprob_token_ids=wanted
        )
        prompt = list(spans[0].inputs[: spans[0].first_read + target + 1])
        return Ask(prompt, params, spans, target)

    def _text(self, span: Span) -> Ask:
        params = self._params(
            temperature=0.0, max_tokens=1, detokenize=False, prompt_logprobs=0, **self._optional
        )
        return Ask([*span.inputs, span.targets[-1]], params, [span])

    @staticmethod
    def _read_letters(ask: Ask, output: Any) -> Iterator[Span]:
        """Add scores to the spans; those that are complete."""
        known, likeliest = output.logprobs[0], output.token_ids[0]
        for span in ask.spans:
            token = span.targets[ask.target]
            if span.add(_finite(known[token].logprob), token == likeliest):
                yield span

    @staticmethod
    def _read_prompt(span: Span, logprobs: Any) -> Span:
        for position, token in enumerate(span.targets, span.first_read + 1):
            known = logprobs[position][token]
            span.add(_finite(known.logprob), known.rank == 1)
        return span

    def check_weights(self, tokens: list[int]) -> None:
        """Refuse weights that were left out: vLLM fills some with zeros and says nothing."""
        span = Span(0, tokens[:-1], tokens[1:])
        rows = [
            [known.logprob for known in output.prompt_logprobs[index].values()]
            for _, output in self.run([self._text(span)])
            for index in range(1, len(tokens))
        ]
        values = [row[0] for row in rows]
        if len(values) > 2 and max(values) - min(values) < 1e-6:
            raise ModelError(
                "Every token of a test sentence has the same log-prob: vLLM did not find some of the "
                "model's weights, and answers would mean nothing. Check the checkpoint's tensor names "
                "with --model hf, which refuses weights that are missing."
            )

    # -- replies -----------------------------------------------------------------------------

    def generate(self, jobs: Iterable[VllmJob]) -> Iterator[tuple[VllmJob, Reply]]:
        """``(job, reply)`` as replies are complete."""
        for ask, output in self.run(Ask(job.prompt, job.params, job=job) for job in jobs):
            assert ask.job is not None
            reply = self._reply(ask.job, output.outputs[0])
            if ask.job.then is None:
                yield ask.job, reply
            else:
                behind = cast(VllmJob, ask.job.then(reply))
                self._again.append(Ask(behind.prompt, behind.params, job=behind))

    def why_not_enforceable(self, params: Any) -> str | None:
        """Why vLLM refuses arguments with a grammar; None if it accepts them."""
        name = f"lm-eval-{next(self._numbers)}"
        try:
            self._engine.add_request(name, {"prompt_token_ids": [0]}, params)
        except Exception as error:  # releases differ in which
            return f"vLLM refuses it: {first_line(error)}"
        self._engine.abort_request([name])
        return None

    def _reply(self, job: VllmJob, output: Any) -> Reply:
        if job.grammar is not None:
            return _held_reply(job, job.grammar, output)
        finish = "length" if output.finish_reason == "length" else "stop"
        if job.think_end is None:
            return Reply(output.text, finish=finish)  # type: ignore[arg-type]
        decode = partial(self.llm.get_tokenizer().decode, skip_special_tokens=True)
        tokens = list(output.token_ids)
        reasoning, text = split_reasoning(tokens, job.think_end, decode, output.text)
        answer = cut_at_stop(text, job.until)
        if len(answer) < len(text):
            finish = "stop"
        return Reply(answer, finish=finish, reasoning=reasoning)  # type: ignore[arg-type]


def _held_reply(job: VllmJob, grammar: Grammar, output: Any) -> Reply:
    """A reply that its grammar allows, or the beginning of one; an error if vLLM did not hold it."""
    is_cut = output.finish_reason == "length"
    text = grammar.held(output.text)
    if text is None and not (is_cut and grammar.may_become(output.text)):
        raise ModelError(
            f"vLLM did not hold a reply to its grammar ({output.text[:80]!r}, "
            f"{output.finish_reason}). Ask without +enforced, or try another "
            "structured_outputs_config in --model_args."
        )
    is_whole = text is not None and not (is_cut and grammar.ends_open)
    answer = output.text if text is None else text
    finish: Literal["stop", "length"] = "stop" if is_whole else "length"
    return Reply(job.reply_start + answer, finish=finish, reasoning=job.reasoning)


def _finite(logprob: float) -> float:
    if math.isnan(logprob):
        raise ModelError(
            "vLLM gave a log-prob that is not a number. Try dtype=bfloat16 or float32 in --model_args: "
            "float16 overflows with some models."
        )
    return float(logprob)


@contextmanager
def ignored_warnings() -> Iterator[None]:
    """Ignore warnings of vLLM and torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
