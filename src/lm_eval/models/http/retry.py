"""When a request is sent again, and for how long that goes on.

``send_again`` takes over after a first sending that failed, so that requests that succeed pay nothing
for it. The rules, all in ``Schedule``:

- Waits grow exponentially from half a second to half a minute and are chosen at random between zero and
  that bound, so that requests that failed together do not return together.
- ``Retry-After`` is obeyed up to ten minutes (``pacing.LONGEST_WAIT_S``), and a refusal (429, or 503
  with ``Retry-After``) holds back every request of the transport, not only the one it was for.
- Refusals have a budget of their own: while the server answers others it is merely busy, so they do not
  count. ``max_retries`` of them (ten more where the server said how long to wait) end the request only
  if nothing at all was answered for a minute, or for two time-outs if that is longer. Fifty end it in
  any case, because a request that is refused forever must end some time.
- While nothing has ever answered, connecting is tried for at most fifteen seconds in all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lm_eval.models.http.failures import Failure

T = TypeVar("T")

UNREACHABLE_S = 15.0
_FIRST_WAIT_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_PATIENCE_S = 60.0
_MORE_WHERE_ASKED = 10
_MOST_REFUSALS = 50


class Schedule:
    """Decides, failure by failure, whether and when one request is sent again.

    ``idle_s`` tells for how long no request at all has been answered, infinite if none ever was.
    ``connect_s`` is how long another attempt to connect would take, None once a server has answered.
    """

    def __init__(
        self,
        max_retries: int,
        *,
        begun_at: float,
        timeout_s: float,
        idle_s: Callable[[], float],
        connect_s: Callable[[], float | None],
    ) -> None:
        self._max_retries = max_retries
        self._begun_at = begun_at
        self._patience_s = max(_PATIENCE_S, 2 * timeout_s)
        self._idle_s = idle_s
        self._connect_s = connect_s
        self._faults = 0
        self._refusals = 0

    def next_wait(self, failure: Failure) -> float | None:
        """Seconds to wait before the next sending, or None: this failure was the last."""
        if not failure.can_retry:
            return None
        wait_s = self._after_refusal(failure) if failure.is_refusal else self._after_fault(failure)
        if wait_s is None or self._is_hopeless(failure, wait_s):
            return None
        return wait_s

    def _after_fault(self, failure: Failure) -> float | None:
        self._faults += 1
        if self._faults > self._max_retries:
            return None
        if failure.asked_wait_s is not None:
            return failure.asked_wait_s
        return random.uniform(0, _bound(self._faults))

    def _after_refusal(self, failure: Failure) -> float | None:
        self._refusals += 1
        is_asked = failure.asked_wait_s is not None
        limit = self._max_retries + (_MORE_WHERE_ASKED if is_asked else 0)
        is_stuck = self._refusals > limit and self._idle_s() > self._patience_s
        if is_stuck or self._refusals > _MOST_REFUSALS:
            return None
        if failure.asked_wait_s is not None:
            return failure.asked_wait_s
        bound_s = _bound(self._refusals)  # never at once: the server has just said that it is busy
        return random.uniform(bound_s / 2, bound_s)

    def _is_hopeless(self, failure: Failure, wait_s: float) -> bool:
        """Whether there would be no time for another attempt to connect to a server never met."""
        connect_s = self._connect_s()
        if not failure.is_unreachable or connect_s is None:
            return False
        return time.monotonic() - self._begun_at + wait_s + connect_s > UNREACHABLE_S


def _bound(count: int) -> float:
    return min(_LONGEST_BACKOFF_S, _FIRST_WAIT_S * 2.0 ** min(count - 1, 16))


async def send_again(
    send: Callable[[], Awaitable[T | Failure]],
    first: Failure,
    schedule: Schedule,
    sleep: Callable[[float], Awaitable[None]],
) -> tuple[T | Failure, int]:
    """What comes of sending until the schedule gives up, and how many sendings it took in all."""
    outcome: T | Failure = first
    sendings = 1
    while isinstance(outcome, Failure):
        wait_s = schedule.next_wait(outcome)
        if wait_s is None:
            break
        await sleep(wait_s)
        outcome = await send()
        sendings += 1
    return outcome, sendings
