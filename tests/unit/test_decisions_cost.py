"""What an event costs does not grow with those who wait: counted in calls, because time depends on the machine."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from bench.decisions import Shape, Yard

EVENTS = 3


async def cost(shape: Shape) -> tuple[int, int]:
    """Steps, and calls of Python's functions, of one event: the least of some."""
    yard = Yard(shape, events=EVENTS)
    await yard.fill()
    found = []
    for _ in range(EVENTS):
        happen = await yard.event()
        calls, steps = 0, yard.steps

        def count(frame: FrameType, event: str, arg: object) -> None:
            nonlocal calls
            calls += event in {"call", "c_call"}

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            await happen()
        finally:
            sys.setprofile(before)
        found.append((yard.steps - steps, calls))
    return min(found)


@pytest.mark.parametrize(
    ("size", "is_rated"),
    [pytest.param(10_000, False, id="for a slot"), pytest.param(1_000, True, id="for a rate")],
)
async def test_an_event_costs_as_much_with_many_waiting_as_with_a_hundred(size: int, is_rated: bool) -> None:
    few, many = [await cost(Shape(each, is_rated=is_rated)) for each in (100, size)]
    assert many[0] == few[0]
    assert many[1] <= 1.05 * few[1]


@pytest.mark.parametrize("is_rated", [False, True])
async def test_with_many_tenants_nobody_else_thinks_and_each_is_looked_at_once(is_rated: bool) -> None:
    one, many = [await cost(Shape(500, tenants, is_rated)) for tenants in (1, 500)]
    assert many[0] == one[0]
    assert many[1] <= one[1] + 500 * 30
