"""What an operator does that is told to end: whom it sees off, what it finishes, and what it leaves alone."""

import asyncio
from typing import Any

import pytest

from taskyard import main
from taskyard.cluster import EVENTS, JOBS, Kind, Rejected, Unavailable
from taskyard.freshness import Freshness
from taskyard.loop import CLOSES_WITHIN
from taskyard.metrics import Metrics
from taskyard.settings import load
from taskyard.watch import Watch
from tests.unit.world import World


@pytest.mark.parametrize("refusals", [0, 1, 2])
async def test_whoever_is_told_to_end_makes_the_job_of_a_claim_also_after_an_answer_that_was_none(
    refusals: int,
) -> None:
    """A moment of `429` at the end: to the next operator a claim without a Job would be a loss."""
    world = World()
    await world.submit("once", retry={"limit": 0, "infrastructureLimit": 0})
    operator = await world.operator()
    await operator.loop.step(world.task("once")["metadata"]["uid"])
    assert (world.status("once")["state"], world.jobs()) == ("Claimed", [])
    left = refusals

    def busy(verb: str, kind: Kind) -> None:
        nonlocal left
        if (verb, kind) == ("create", JOBS) and left:
            left -= 1
            raise Unavailable("too many requests", is_over=True)

    world.cluster.before_call = busy
    working = asyncio.create_task(operator.loop.run())
    await operator.loop.close()
    working.cancel()
    assert len(world.jobs()) == 1
    world.later(3)
    heir = await world.operator("heir")
    await heir.settle()
    assert world.status("once")["state"] == "Claimed"


async def test_whoever_is_told_to_end_does_not_wait_for_a_job_that_is_refused() -> None:
    world = World()
    await world.submit()
    operator = await world.operator()
    await operator.loop.step(world.task()["metadata"]["uid"])

    def refuse(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("create", JOBS):
            raise Rejected("exceeded quota: q", malformed=False)

    world.cluster.before_call = refuse
    working = asyncio.create_task(operator.loop.run())
    async with asyncio.timeout(CLOSES_WITHIN / 2):
        await operator.loop.close()
    working.cancel()


async def test_whoever_is_told_to_end_tells_first_what_is_to_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.submit()
    operator = await world.operator()
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    create = world.cluster.create

    async def slow(kind: Kind, *what: Any) -> Any:
        if kind == EVENTS:
            await asyncio.sleep(0.2)
        return await create(kind, *what)

    monkeypatch.setattr(world.cluster, "create", slow)
    working = asyncio.create_task(operator.loop.run())
    world.pod_ends(3)
    while world.status()["phase"] != "Finished":  # noqa: ASYNC110 - a worker makes it true
        await asyncio.sleep(0)
    await operator.loop.close()
    working.cancel()
    assert [each["reason"] for each in world.cluster.all(EVENTS)] == ["TaskFailed"]


@pytest.mark.parametrize("failure", [None, RuntimeError("a watch failed")])
async def test_what_is_in_hand_is_finished_however_the_watches_end(
    failure: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    await world.submit()
    left = 1

    def busy(verb: str, kind: Kind) -> None:
        nonlocal left
        if (verb, kind) == ("create", JOBS) and left:
            left -= 1
            raise Unavailable("not now", is_over=True)

    async def ends(*_: Any) -> None:
        while left:  # noqa: ASYNC110 - a worker makes it true
            await asyncio.sleep(0)
        assert world.status()["state"] == "Claimed"
        if failure is not None:
            raise failure

    world.cluster.before_call = busy
    monkeypatch.setattr(Watch, "run", ends)
    found = None
    try:
        await main.operate(world.cluster, load({}, {}), Freshness(), Metrics())
    except ExceptionGroup as exc:
        found = main.only_cause(exc)
    assert found is failure
    assert len(world.jobs()) == 1
