"""Timers: one heap, one sleeper."""

import asyncio

import pytest

from taskyard.clock import Clock

pytestmark = pytest.mark.hurried


async def test_the_clock_rings_in_order_and_only_the_latest_timer_of_a_key() -> None:
    rung: list[str] = []
    clock = Clock(rung.append)
    running = asyncio.create_task(clock.run())
    clock.set("late", 0.06)
    clock.set("early", 0.01)
    clock.set("moved", 0.02)
    clock.set("moved", 0.04)
    clock.set("cancelled", 0.03)
    clock.set("cancelled", None)
    await asyncio.sleep(0.1)
    clock.set("at once", 0.0)
    await asyncio.sleep(0.01)
    running.cancel()
    assert rung == ["early", "moved", "late", "at once"]


async def test_a_timer_among_ten_thousand_rings_alone_and_not_early() -> None:
    loop, rung = asyncio.get_running_loop(), dict[str, float]()

    def ring(uid: str) -> None:
        rung[uid] = loop.time()

    clock = Clock(ring)
    running = asyncio.create_task(clock.run())
    for number in range(10_000):
        clock.set(f"later {number}", 300.0 + number)
    due = loop.time() + 0.1
    clock.set("now", 0.1)
    await asyncio.sleep(1)
    running.cancel()
    assert list(rung) == ["now"]
    assert rung["now"] >= due - 0.001
