"""Time for tests that only sleep: as many seconds as they ask for, and none of ours."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping

import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class _Hurried(selectors.SelectSelector):
    """Never waits: the time that it was to wait has passed."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is left that could happen"
        self.skipped += max(timeout, 0.0)
        return super().select(0)


class HurriedLoop(asyncio.SelectorEventLoop):
    """Its clock moves only when everybody sleeps, and then to the next who wakes up: a busy machine changes nothing."""

    def __init__(self) -> None:
        self._hurried = _Hurried()
        super().__init__(self._hurried)

    def time(self) -> float:
        return self._hurried.skipped


@pytest.hookimpl(optionalhook=True)  # the mutants run tables without plugins
def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, LoopFactory]:
    if item.get_closest_marker("hurried") is not None:
        return {"hurried": HurriedLoop}
    return {"real": asyncio.new_event_loop}
