"""Requests → what asking them would cost, before anything is sent.

In: requests, read one at a time, and a function that counts the tokens of a text. Out: an
``Estimated``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from lm_eval.formats.assemble import Context, Prompt
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request, RollingRequest
from lm_eval.requests.values import Estimated, Usage

CHARS_PER_TOKEN = 4
"""About what English text has; other languages and code have fewer."""

CountTokens = Callable[[Context | str], int]


def guess_tokens(text: Context | str) -> int:
    """About how many tokens a text has, without what a chat template adds."""
    if isinstance(text, str):
        num_chars = len(text)
    elif isinstance(text, Prompt):
        num_chars = sum(map(len, text.parts))
    else:
        num_chars = sum(len(message.content) for message in text.messages)
    return -(-num_chars // CHARS_PER_TOKEN)


def estimated(
    requests: Iterable[Request],
    *,
    max_reply: Callable[[GenerateRequest], int],
    count: CountTokens = guess_tokens,
    counted_with: str | None = None,
    shares_requests: bool = False,
) -> Estimated:
    """What these requests would cost. ``max_reply`` says how many tokens a reply may have.

    ``shares_requests``: a server may score all choices of a doc in one request, and bills a token for
    each answer. A context shared by consecutive requests is counted once.
    """
    total = Estimated(counted_with=counted_with)
    for _, alike in groupby(requests, key=_shared_part):
        same = list(alike)
        least, most = _cost(same, max_reply, count)
        if shares_requests and isinstance(same[0], LoglikelihoodRequest):
            least, most = _shared(same, most, count)
        total.least.add(least)
        total.most.add(most)
    return total


def _shared_part(request: Request) -> tuple[Any, ...]:
    """What requests of one doc and kind have in common if they differ only in what comes after."""
    return (request.kind, request.task, request.doc_id, _before(request))


def _before(request: Request) -> Any:
    return request.text if isinstance(request, RollingRequest) else request.context


def _cost(
    same: Sequence[Request], max_reply: Callable[[GenerateRequest], int], count: CountTokens
) -> tuple[Usage, Usage]:
    """The cost of sending each request by itself, with empty replies and with the longest."""
    tokens_in = len(same) * count(_before(same[0]))
    longest = 0
    for request in same:
        if isinstance(request, LoglikelihoodRequest):
            tokens_in += count(request.continuation)
        elif isinstance(request, GenerateRequest):
            longest += max_reply(request)
    return (
        Usage(requests=len(same), tokens_in=tokens_in),
        Usage(requests=len(same), tokens_in=tokens_in, tokens_out=longest),
    )


def _shared(same: Sequence[Any], alone: Usage, count: CountTokens) -> tuple[Usage, Usage]:
    """The cost of one request for all choices, and of one for each.

    If every choice is one token, a single prompt covers all of them; otherwise each is a prompt.
    """
    one_prompt = len(same) > 1 and all(count(request.continuation) == 1 for request in same)
    together = Usage(
        requests=1,
        tokens_in=count(_before(same[0])) if one_prompt else alone.tokens_in,
        tokens_out=1 if one_prompt else len(same),
    )
    return together, Usage(requests=alone.requests, tokens_in=alone.tokens_in, tokens_out=len(same))
