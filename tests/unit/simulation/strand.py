"""Coroutines that are driven by hand: each goes on when told, from one call of the cluster to the next.

So the simulation decides who moves, what happens in between, and where an operator dies; and a history can be
repeated exactly, because no event loop has a say in it.
"""

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


@types.coroutine
def pause() -> Generator[None, None, None]:
    """Here somebody else may move first."""
    yield None


class Strand:
    """One coroutine, up to where it last stopped: at a `pause`, or waiting for something that is to happen."""

    def __init__(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.name = name
        self._work = work
        self._awaited: asyncio.Future[Any] | None = None
        self.is_over = False
        self.is_begun = False

    @property
    def can_move(self) -> bool:
        return not self.is_over and (self._awaited is None or self._awaited.done())

    @property
    def is_busy(self) -> bool:
        """Whether it is in the middle of something."""
        return self.is_begun and not self.is_over and self._awaited is None

    def move(self) -> None:
        """Go on to the next stop."""
        self.is_begun = True
        try:
            stopped_at = self._work.send(None)
        except StopIteration:
            self.is_over = True
        else:
            self._awaited = stopped_at if asyncio.isfuture(stopped_at) else None

    def end(self) -> None:
        """As if the process had been killed: nothing after the last stop happens."""
        self.is_over = True
        self._work.close()
