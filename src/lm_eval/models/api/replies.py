"""Reads what servers send back in OpenAI's shapes: replies, echoed log-probs, next tokens, usage.

In: the JSON of a reply as plain values. Out: values of this package. A reply that does not fit what was
asked for is an ``UnfitReply`` that says what is wrong with it, never a score or an empty answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lm_eval.errors import ModelError
from lm_eval.formats.readers.reply import find_thinking
from lm_eval.requests import Reply
from lm_eval.requests.values import Usage

Outputs = Mapping[str, Any] | Sequence[Mapping[str, Any]]

_REFUSALS = ("content_filter", "safety", "refusal")
_NOISE = 1e-4
"""How far above 0 rounding may put the log-prob of a token that is certain."""


class UnfitReply(ModelError):
    """A reply with status 200 that does not hold what was asked for."""

    advice = (
        "Look at the server's log. If all its replies look like this, it is not a server for this "
        "endpoint."
    )


class ReportedError(UnfitReply):
    """A server's own error, sent with status 200."""

    advice = "Look at the server's log, or try later."


def choices_of(outputs: Outputs) -> list[Mapping[str, Any]]:
    """The choices of one reply, or of several, in the order of the prompts."""
    replies = [outputs] if isinstance(outputs, Mapping) else list(outputs)
    ordered: list[Mapping[str, Any]] = []
    for reply in replies:
        choices = reply.get("choices") if isinstance(reply, Mapping) else None
        if not isinstance(choices, list):
            raise reported_error(reply) or UnfitReply(f"it has no list of choices: {shown(reply)}")
        for choice in choices:
            if not isinstance(choice, Mapping):
                raise UnfitReply(f"one of its choices is not an object: {shown(choice)}")
            if error := reported_error(choice):
                raise error
        if len(choices) > 1:
            choices = sorted(choices, key=lambda choice: choice.get("index") or 0)
        ordered.extend(choices)
    return ordered


def reported_error(part: Any) -> ReportedError | None:
    """The error that a server reports in a reply with status 200, if it does."""
    error = part.get("error") if isinstance(part, Mapping) else None
    if not error:
        return None
    message = error.get("message") if isinstance(error, Mapping) else None
    return ReportedError(f"it reports an error: {shown(message or error)}")


def shown(value: Any) -> str:
    """The beginning of a reply, for a message."""
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]}…"


# Generated text


def completion_reply(choice: Mapping[str, Any]) -> Reply:
    """A choice of a completions endpoint."""
    if "text" not in choice:
        raise UnfitReply(f"one of its choices has no text: {shown(choice)}")
    return Reply(_text(choice.get("text")), finish=finish_of(choice), reasoning=_reasoning(choice))


def chat_reply(choice: Mapping[str, Any]) -> Reply:
    """A choice of a chat endpoint. Reasoning is kept beside the answer, not in it."""
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise UnfitReply(f"one of its choices has no message: {shown(choice)}")
    finish = "refused" if message.get("refusal") else finish_of(choice)
    return Reply(_text(message.get("content")), finish=finish, reasoning=_reasoning(message))


def finish_of(choice: Mapping[str, Any]) -> Literal["stop", "length", "refused"] | None:
    """Why a text ended."""
    reason = str(choice.get("finish_reason") or "").lower()
    if reason in _REFUSALS:
        return "refused"
    if reason == "length":
        return "length"
    return "stop" if reason else None


def _reasoning(part: Mapping[str, Any]) -> str | None:
    return _text(part.get("reasoning_content") or part.get("reasoning")) or None


def _text(content: Any) -> str:
    """Text, or the texts of a list of parts; null is empty."""
    if isinstance(content, list):
        return "".join(_text(p.get("text") if isinstance(p, Mapping) else p) for p in content)
    return "" if content is None else str(content)


def as_reply(text: Any, outputs: Any, index: int) -> Reply:
    """A parser's text as a ``Reply``; why it ended is known if the reply has OpenAI's shape."""
    finish = None
    if isinstance(outputs, Mapping) and isinstance(outputs.get("choices"), list):
        choices = choices_of(outputs)
        finish = finish_of(choices[index]) if index < len(choices) else None
    return Reply("" if text is None else str(text), finish=finish)


def without_reasoning(reply: Reply, mark: str | None) -> Reply:
    """What follows the last ``mark``; the whole reply if there is none."""
    if not mark or mark not in reply:
        return reply
    reasoning, _, answer = reply.rpartition(mark)
    return Reply(answer.lstrip(), finish=reply.finish, reasoning=reply.reasoning or reasoning)


def cut_reply(reply: Reply, stops: Sequence[str]) -> Reply:
    """The reply up to the first stop string outside of a thought; unchanged if there is none."""
    found = [stop for stop in stops if stop and stop in reply]
    if not found:
        return reply
    text = str(reply)
    thoughts = find_thinking(text).spans
    ends = [end for stop in found if (end := _first_outside(text, stop, thoughts)) is not None]
    return Reply(text[: min(ends)], finish="stop", reasoning=reply.reasoning) if ends else reply


def _first_outside(text: str, stop: str, spans: Sequence[tuple[int, int]]) -> int | None:
    """Where ``stop`` first begins in ``text`` outside of the spans."""
    at = text.find(stop)
    while at >= 0:
        inside = next((end for start, end in spans if start <= at < end), None)
        if inside is None:
            return at
        at = text.find(stop, inside)
    return None


# Log-probs


def echoed_scores(
    outputs: Outputs, tokens: Sequence[Sequence[int]] | None, ctxlens: Sequence[int]
) -> list[tuple[float, bool]]:
    """For each prompt: the sum over its tokens from ``ctxlen`` on, and whether each is the likeliest.

    With ``tokens``, the reply must hold a log-prob for each of them, and may hold one more for a
    token that was generated; without ``tokens``, the last log-prob is taken to be that token's.
    """
    choices = choices_of(outputs)
    if len(choices) != len(ctxlens):
        raise UnfitReply(f"it has {len(choices)} choices for {len(ctxlens)} prompts")
    return [
        _echoed_score(choice, None if tokens is None else len(tokens[index]), ctxlens[index])
        for index, choice in enumerate(choices)
    ]


def _echoed_score(choice: Mapping[str, Any], length: int | None, ctxlen: int) -> tuple[float, bool]:
    logprobs = choice.get("logprobs")
    token_logprobs = logprobs.get("token_logprobs") if isinstance(logprobs, Mapping) else None
    if not isinstance(token_logprobs, list):
        raise UnfitReply("it has no log-probs of the prompt (token_logprobs)")
    end = len(token_logprobs) - 1 if length is None else length
    if not end <= len(token_logprobs) <= end + 1:
        raise UnfitReply(
            f"it has {len(token_logprobs)} log-probs for a prompt of {end} tokens, so they cannot "
            "be matched"
        )
    scored = [_log_prob(score) for score in token_logprobs[ctxlen:end]]
    assert isinstance(logprobs, Mapping)
    tops = (logprobs.get("top_logprobs") or [])[ctxlen:end]
    is_greedy = len(tops) == len(scored) and all(
        bool(top) and score >= max(top.values()) for score, top in zip(scored, tops, strict=True)
    )
    return float(sum(scored)), is_greedy


def _log_prob(value: Any) -> float:
    """The value, if it can be the logarithm of a probability."""
    if value is None:
        raise UnfitReply("it has no log-prob for some tokens of the continuation")
    if not isinstance(value, int | float) or isinstance(value, bool) or not value <= _NOISE:
        raise UnfitReply(f"{shown(value)} is not the logarithm of a probability")
    return float(value)


@dataclass(frozen=True, slots=True)
class NextTokens:
    """The likeliest next tokens after a prompt: ``(text, id or None, log-prob)``, best first."""

    entries: tuple[tuple[str, int | None, float], ...]

    def find(self, token: int, text: str | None) -> tuple[float, bool] | None:
        """A token's log-prob and whether it is the likeliest; None if it is not certain to be here.

        Found by its id if the server returns ids, else by its text, which is None if several tokens
        have that text.
        """
        best = self.entries[0][2]
        if all(number is not None for _, number, _ in self.entries):
            scores = [score for _, number, score in self.entries if number == token]
        else:
            scores = [score for entry, _, score in self.entries if entry == text]
        return (scores[0], scores[0] >= best) if len(scores) == 1 else None


def next_tokens(choice: Mapping[str, Any]) -> NextTokens | None:
    """The likeliest first tokens that a choice reports; None if it reports none."""
    logprobs = choice.get("logprobs")
    if not isinstance(logprobs, Mapping):
        return None
    content, tops = logprobs.get("content"), logprobs.get("top_logprobs")
    entries: list[tuple[str, int | None, float]] = []
    if isinstance(content, list) and content:  # the shape of chats, which some servers use for all
        for top in content[0].get("top_logprobs") or ():
            entries.append((str(top.get("token")), top.get("id"), _log_prob(top["logprob"])))
    elif isinstance(tops, list) and tops and isinstance(tops[0], Mapping):
        entries = [(str(text), None, _log_prob(score)) for text, score in tops[0].items()]
    if not entries:
        return None
    return NextTokens(tuple(sorted(entries, key=lambda entry: -entry[2])))


# Costs


def tokens_used(reply: Mapping[str, Any]) -> Usage | None:
    """The tokens that a reply's ``usage`` block counts, under either of the names in use; None if there
    is no such block.
    """
    block = reply.get("usage")
    if not isinstance(block, Mapping):
        return None
    thought = _detail(
        block, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens"
    )
    return Usage(
        tokens_in=count_in(block, "prompt_tokens") or count_in(block, "input_tokens"),
        tokens_out=count_in(block, "completion_tokens") or count_in(block, "output_tokens"),
        tokens_cached=_detail(
            block, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens"
        ),
        tokens_thought=thought,
    )


def _detail(block: Mapping[str, Any], parts: Sequence[str], name: str) -> int:
    for part in parts:
        details = block.get(part)
        if isinstance(details, Mapping):
            return count_in(details, name)
    return 0


def count_in(block: Mapping[str, Any], name: str) -> int:
    """A number of tokens in a reply; 0 if there is none."""
    value = block.get(name)
    return value if isinstance(value, int) and value > 0 else 0
