"""An event loop that synchronous code runs step by step, and whose clock stops in between."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Collection, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_SETTLE_S = 5.0
_PATIENCE_S = 0.002


class _PausedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock rests between steps: no time-out runs while the caller is at work."""

    away_s = 0.0

    def time(self) -> float:
        return super().time() - self.away_s


class Stepper:
    """An event loop, made on first use, that synchronous code advances step by step.

    ``step`` runs the loop in the calling thread until something calls ``stop``. If that thread is
    already inside a loop (a notebook), the step runs in a helper thread while the caller waits: either
    way only one thread is ever at work, so nothing here needs a lock.
    """

    def __init__(self) -> None:
        self._loop: _PausedLoop | None = None
        self._helper: ThreadPoolExecutor | None = None
        self._left_at = time.monotonic()
        self._is_interrupted = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = _PausedLoop()
            self._left_at = time.monotonic()
        return self._loop

    @property
    def is_running(self) -> bool:
        """Whether a step is under way; then no other can begin."""
        return self._loop is not None and self._loop.is_running()

    def stop(self) -> None:
        """End the step after everything that is ready now has run. Called from inside the loop."""
        self.loop.stop()

    def step(self) -> None:
        """Run the loop until ``stop``. Ctrl-C leaves the loop whole and is raised afterwards."""
        if self.is_running:
            raise RuntimeError("this loop is at work: await the coroutine instead of running it")
        if self._loop is not None:
            self._loop.away_s += time.monotonic() - self._left_at
        try:
            if _is_inside_a_loop():
                self._step_in_helper()
            elif _catches_ctrl_c():
                self._step_with_ctrl_c()
            else:
                self.loop.run_forever()
        finally:
            self._left_at = time.monotonic()
        if self._is_interrupted:
            self._is_interrupted = False
            raise KeyboardInterrupt

    def pump(self) -> None:
        """Let what is ready run, without waiting for anything."""
        # Three turns of the loop: jobs become tasks, tasks begin, what they write is sent.
        self.loop.call_soon(self.loop.call_soon, self.loop.call_soon, self.loop.stop)
        self.step()

    @property
    def is_due(self) -> bool:
        """Whether the caller has kept the loop waiting for more than two milliseconds."""
        return time.monotonic() - self._left_at > _PATIENCE_S

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns; everything else in the loop moves on meanwhile."""
        if self.is_running:
            coroutine.close()
            raise RuntimeError("this loop is at work: await the coroutine instead of running it")
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(self.loop.create_task(coroutine))
            tasks[0].add_done_callback(lambda _: self.stop())

        # Inside the loop, where Ctrl-C cannot come between the coroutine and its task.
        handle = self.loop.call_soon(start)
        try:
            while not (tasks and tasks[0].done()):
                self.step()
        finally:
            handle.cancel()
            self.cancel(tasks)
            if not tasks:
                coroutine.close()
        if tasks[0].exception() is not None:
            self.pump()  # abandoned sockets are closed one turn of the loop later
        return tasks[0].result()

    def cancel(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        """Cancel the tasks and wait, a few seconds at most, until they and their sockets are gone."""
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        if not left or self.is_running:  # the garbage collector may call from inside the loop
            return
        waiting = self.loop.create_task(_settle(left))
        waiting.add_done_callback(lambda _: self.stop())
        while not waiting.done():
            self.step()

    def close(self) -> None:
        """End the loop and the helper thread; whatever still runs is cancelled."""
        if self._loop is not None:
            self.cancel(asyncio.all_tasks(self._loop))
            self._loop.close()
            self._loop = None
        if self._helper is not None:
            self._helper.shutdown()
            self._helper = None

    def _step_with_ctrl_c(self) -> None:
        # A KeyboardInterrupt inside the loop would lose the callback it hits, and a task waiting for
        # that callback would never end. So the signal stops the loop, and is raised outside it.
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            self.loop.run_forever()
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        del signum, frame
        if self._is_interrupted:  # the second Ctrl-C does not wait for anything
            raise KeyboardInterrupt
        self._is_interrupted = True
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _step_in_helper(self) -> None:
        if self._helper is None:
            self._helper = ThreadPoolExecutor(1, thread_name_prefix="lm-eval-http")
        done: Future[None] = self._helper.submit(self.loop.run_forever)
        try:
            done.result()
        except BaseException:
            self.loop.call_soon_threadsafe(self.loop.stop)
            done.result()
            raise


async def _settle(tasks: Collection[asyncio.Task[Any]]) -> None:
    done, _ = await asyncio.wait(tasks, timeout=_SETTLE_S)
    for task in done:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it later
    await asyncio.sleep(0)  # sockets are closed one turn of the loop after their task


def _is_inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _catches_ctrl_c() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt in this thread; a program's own handler is left alone."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
