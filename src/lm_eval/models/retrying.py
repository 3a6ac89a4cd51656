"""When a request is sent again, and for how long that goes on.

``send_again`` takes over after a first sending that failed, so that requests that succeed pay nothing
for it. The rules, all in ``Schedule``:

- Waits grow exponentially from half a second to half a minute and are chosen at random between zero and
  that bound, so that requests that failed together do not return together.
- ``Retry-After`` is obeyed up to ten minutes (``pacing.LONGEST_WAIT_S``), and a refusal (429, or 503
  with ``Retry-After``) holds back every request of the transport, not only the one it was for.
- Refusals have a budget of their own. One counts only if no request at all was answered since this
  one's last sending: while the server works through the others it is merely busy. ``max_retries``
  refusals without any progress end the request, ten more where the server said how long to wait; so do
  fifty in all, because a request that is refused forever must end some time.
- While nothing has ever answered, connecting is tried for at most fifteen seconds in all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lm_eval.errors import MissingExtraError
from lm_eval.models.failures import Failure

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

UNREACHABLE_S = 15.0
_FIRST_WAIT_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_MORE_WHERE_ASKED = 10
_MOST_REFUSALS = 50


class Schedule:
    """Decides, failure by failure, whether and when one request is sent again."""

    def __init__(
        self,
        max_retries: int,
        *,
        begun_at: float,
        connect_s: float,
        answers: Callable[[], int],
        was_answered: Callable[[], bool],
    ) -> None:
        self._max_retries = max_retries
        self._begun_at = begun_at
        self._connect_s = connect_s
        self._answers = answers
        self._was_answered = was_answered
        self._faults = 0
        self._refusals = 0
        self._fruitless = 0
        self._answers_before = answers()
        self._wait_s = 0.0

    def next_wait(self, failure: Failure) -> float | None:
        """Seconds to wait before the next sending, or None: this failure was the last."""
        if not failure.can_retry:
            return None
        counted = self._refuse(failure) if failure.is_refusal else self._fail()
        if counted is None:
            return None
        wait_s = failure.asked_wait_s
        if wait_s is None:
            bound_s = min(_LONGEST_BACKOFF_S, _FIRST_WAIT_S * 2 ** (counted - 1))
            wait_s = random.uniform(0, bound_s)
        return None if self._is_hopeless(failure, wait_s) else wait_s

    def _fail(self) -> int | None:
        self._faults += 1
        return self._faults if self._faults <= self._max_retries else None

    def _refuse(self, failure: Failure) -> int | None:
        answers = self._answers()
        self._refusals += 1
        self._fruitless = 1 if answers > self._answers_before else self._fruitless + 1
        self._answers_before = answers
        limit = self._max_retries + (_MORE_WHERE_ASKED if failure.asked_wait_s is not None else 0)
        is_over = self._fruitless > limit or self._refusals > _MOST_REFUSALS
        return None if is_over else self._refusals

    def _is_hopeless(self, failure: Failure, wait_s: float) -> bool:
        """Whether there would be no time for another attempt to connect to a server never met."""
        if not failure.is_unreachable or self._was_answered():
            return False
        used_s = time.monotonic() - self._begun_at
        return used_s + wait_s + self._connect_s > UNREACHABLE_S


async def send_again(
    send: Callable[[], Awaitable[T | Failure]],
    first: Failure,
    schedule: Schedule,
    sleep: Callable[[float], Awaitable[None]],
) -> tuple[T | Failure, int]:
    """What comes of sending until the schedule gives up, and how many sendings it took in all."""
    tenacity = _import_tenacity()
    sendings = 0
    wait_s: float | None = None

    async def attempt() -> T | Failure:
        nonlocal sendings
        sendings += 1
        return first if sendings == 1 else await send()

    def choose_wait(state: RetryCallState) -> float:  # asked before ``stop``
        nonlocal wait_s
        assert state.outcome is not None
        wait_s = schedule.next_wait(state.outcome.result())
        return wait_s or 0.0

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(lambda outcome: isinstance(outcome, Failure)),
        wait=choose_wait,
        stop=lambda _: wait_s is None,
        sleep=sleep,
        retry_error_callback=lambda state: state.outcome.result(),
    )
    return await retrying(attempt), sendings


def _import_tenacity() -> Any:
    try:
        import tenacity
    except ImportError:
        raise MissingExtraError(
            "Models over HTTP need the package tenacity.",
            install="pip install 'lm-eval-formats[api]'",
        ) from None
    return tenacity
