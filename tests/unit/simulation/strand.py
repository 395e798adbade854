"""Coroutines that are driven by hand: each goes on when told, from one call of the cluster to the next.

So the simulation decides who moves, what happens in between, and where an operator dies; and a history can be
repeated exactly, because no event loop has a say in it.
"""

import asyncio
import contextvars
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any, cast


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Here somebody else may move first."""
    yield None


class Timers:
    """What sleeps and time limits ask of an event loop; they ring by the simulation's clock, and by no other."""

    def __init__(self) -> None:
        self._due: list[asyncio.TimerHandle] = []

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, asyncio.get_running_loop(), context)
        heappush(self._due, handle)
        return handle

    def ring(self, now: float) -> None:
        while self._due and self._due[0].when() <= now:
            handle = heappop(self._due)
            if not handle.cancelled():
                handle._run()


class Strand:
    """One coroutine, up to where it last stopped: at a `pause`, or waiting for something that is to happen.

    As much of a task as `asyncio.timeout` asks for.
    """

    def __init__(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.name = name
        self._work = work
        self._awaited: asyncio.Future[Any] | None = None
        self.is_over = False
        self.is_begun = False
        self._cancelled = 0
        self._is_to_be_cancelled = False

    @property
    def can_move(self) -> bool:
        is_held = self._awaited is not None and not self._awaited.done()
        return not self.is_over and (self._is_to_be_cancelled or not is_held)

    @property
    def is_busy(self) -> bool:
        """Whether it is in the middle of something."""
        return self.is_begun and not self.is_over and self._awaited is None

    def move(self) -> None:
        """Go on to the next stop."""
        self.is_begun = True
        try:
            with self._as_current_task():
                stopped_at = self._go_on()
        except StopIteration:
            self.is_over = True
        else:
            self._awaited = stopped_at if asyncio.isfuture(stopped_at) else None

    def _go_on(self) -> object:
        if not self._is_to_be_cancelled:
            return self._work.send(None)
        self._is_to_be_cancelled = False
        return self._work.throw(asyncio.CancelledError())

    def end(self) -> None:
        """As if the process had been killed: nothing after the last stop happens."""
        self.is_over = True
        self._work.close()

    # What `asyncio.timeout` asks of the task that it is in.

    def cancel(self) -> bool:
        self._cancelled += 1
        self._is_to_be_cancelled = True
        return True

    def cancelling(self) -> int:
        return self._cancelled

    def uncancel(self) -> int:
        self._cancelled -= 1
        return self._cancelled

    @contextmanager
    def _as_current_task(self) -> Iterator[None]:
        loop, outer = asyncio.get_running_loop(), asyncio.current_task()
        this = cast("asyncio.Task[Any]", self)
        assert outer is not None
        asyncio.tasks._leave_task(loop, outer)
        asyncio.tasks._enter_task(loop, this)
        try:
            yield
        finally:
            asyncio.tasks._leave_task(loop, this)
            asyncio.tasks._enter_task(loop, outer)
