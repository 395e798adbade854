"""Time: one heap with one sleeper, for every clock of every task."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final, Never

LONGEST_SLEEP: Final = 600.0
"""A wall clock may be set while a timer runs by the monotonic one: think again at least this often."""


class Clock:
    """Every timer of every key: one heap, one sleeper. A key has one timer, its latest."""

    def __init__(self, ring: Callable[[str], None]) -> None:
        self._ring = ring
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._earlier = asyncio.Event()

    def set(self, uid: str, delay: float | None) -> None:
        """Ring for this key after so many seconds, and not when it was to ring before; None: not at all."""
        if delay is None:
            self._due.pop(uid, None)
            return
        due = asyncio.get_running_loop().time() + min(max(delay, 0.0), LONGEST_SLEEP)
        self._due[uid] = due
        heapq.heappush(self._heap, (due, uid))
        if self._heap[0] == (due, uid):
            self._earlier.set()

    async def run(self) -> Never:
        while True:
            self._earlier.clear()
            self._ring_all_due()
            next_due = self._heap[0][0] if self._heap else None
            try:
                async with asyncio.timeout_at(next_due):
                    await self._earlier.wait()
            except TimeoutError:
                pass

    def _ring_all_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due, uid = heapq.heappop(self._heap)
            if self._due.get(uid) == due:  # else the timer was moved or taken back
                del self._due[uid]
                self._ring(uid)
