"""The end of an operator: what kopf is waited for, and what it does not wait for. No cluster: nobody logs in."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kopf._core.reactor import observation

from taskyard import hosting, lease, main
from taskyard.cluster import TASKS
from taskyard.settings import load
from tests.unit.world import World

SOON = 2.0
"""Well under the five seconds that kopf gives to all that is younger than itself."""


async def forever(*_: Any, **__: Any) -> None:
    await asyncio.Event().wait()


async def nothing() -> None:
    pass


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for observer in ("resource_observer", "namespace_observer"):
        monkeypatch.setattr(observation, observer, forever)
    monkeypatch.setattr(hosting, "_log_in", forever)


@asynccontextmanager
async def hosted(farewell: Callable[[], Awaitable[None]]) -> AsyncIterator[asyncio.Task[None]]:
    """Under way: it hears SIGTERM."""
    hosting_ = asyncio.create_task(hosting.host([TASKS], [], lambda *_: None, farewell))
    async with asyncio.timeout(10):
        while signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:  # noqa: ASYNC110 - kopf tells nobody
            await asyncio.sleep(0.01)
    yield hosting_
    hosting_.cancel()


async def test_an_end_waits_for_the_farewell_and_for_nothing_that_is_not_of_kopf() -> None:
    """A queue that is being told of, or a connection of Prometheus: both are younger than kopf."""
    may_go = asyncio.Event()

    async def farewell() -> None:
        await may_go.wait()

    async with hosted(farewell) as hosting_:
        younger = asyncio.create_task(forever())
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert not hosting_.done()
        may_go.set()
        async with asyncio.timeout(SOON):
            await hosting_
        assert not younger.done()
        younger.cancel()


async def test_a_farewell_that_fails_is_told_and_ends_it_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def farewell() -> None:
        raise RuntimeError("this was not foreseen")

    async with hosted(farewell) as hosting_:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(SOON):
            await hosting_
    assert "this was not foreseen" in caplog.text


async def test_a_kopf_that_does_not_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hosting, "ENDS_WITHIN", 0.2)
    may_go = asyncio.Event()

    async def stubborn(**_: Any) -> None:
        while not may_go.is_set():
            try:
                await may_go.wait()
            except asyncio.CancelledError:
                continue

    monkeypatch.setattr(observation, "namespace_observer", stubborn)
    async with hosted(nothing) as hosting_:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(SOON):
            await hosting_
    may_go.set()
    assert "kopf does not end" in caplog.text


async def test_what_kopf_cannot_recover_from_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(**_: Any) -> None:
        await asyncio.sleep(0.1)
        raise RuntimeError("this was not foreseen")

    monkeypatch.setattr(observation, "namespace_observer", fails)
    async with hosted(nothing) as hosting_:
        with pytest.raises(RuntimeError):
            async with asyncio.timeout(SOON):
                await hosting_


def test_whatever_cannot_be_cancelled_is_left_behind_when_all_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes: list[int] = []
    left: list[asyncio.Task[None]] = []
    monkeypatch.setattr(hosting, "ENDS_WITHIN", 0.1)
    monkeypatch.setattr(os, "_exit", codes.append)

    async def stubborn() -> None:
        while not codes:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    @asynccontextmanager
    async def connected() -> AsyncIterator[object]:
        yield World().cluster

    async def lead(*_: Any) -> None:
        left.append(asyncio.create_task(stubborn()))
        await asyncio.sleep(0.3)
        assert not codes, "nobody is cut short while there is work"

    monkeypatch.setattr(main, "connect", connected)
    monkeypatch.setattr(lease, "lead", lead)
    asyncio.run(main.run(load({"health_port": "0"}, {})))
    assert codes == [1]
