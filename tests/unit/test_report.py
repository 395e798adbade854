"""What a TaskQueue is told of itself, and what the counts are made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from taskyard.cluster import QUEUES, TASKS, Json, Kind, Rejected, Unavailable
from taskyard.report import AT_ONCE, Report
from tests.unit.fake import FakeCluster, Object
from tests.unit.test_line import end, queue, submit
from tests.unit.world import NAMESPACE, Operator, World


def report_of(world: World, operator: Operator) -> Report:
    return Report(world.cluster, operator.cache, lambda: world.now)


def status(world: World, name: str = "q") -> dict[str, Any]:
    return next(
        dict(each.get("status", {})) for each in world.cluster.all(QUEUES) if each["metadata"]["name"] == name
    )


async def test_a_queue_says_what_is_in_it() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    report = report_of(world, operator)
    await report.tell()
    assert (status(world)["pending"], status(world)["claimed"]) == (0, 0), "an empty one too"
    for name in "abc":
        await submit(world, name)
        await operator.settle()
        world.later(10)
    await submit(world, "held", suspend=True)
    await submit(world, "later", startDelaySeconds=600)
    await operator.settle()
    await report.tell()
    found = status(world)
    assert {name: found[name] for name in ("unscheduled", "delayed", "pending", "claimed", "finished")} == {
        "unscheduled": 1,
        "delayed": 1,
        "pending": 2,
        "claimed": 1,
        "finished": 0,
    }
    assert found["oldestPendingAt"] == "2026-01-01T00:01:10Z"
    await end(world, operator, "a")
    await report.tell()
    found = status(world)
    assert (found["pending"], found["finished"], found["finishedLastMinutes"]) == (1, 1, 1)
    assert found["oldestPendingAt"] == "2026-01-01T00:01:20Z"
    world.cluster.remove(TASKS, NAMESPACE, "a")
    await operator.settle()
    world.later(600)
    await report.tell()
    assert (status(world)["finished"], status(world)["finishedLastMinutes"]) == (0, 0)


async def test_since_when_one_waits_is_told_also_if_it_was_counted_before_anybody_said_so() -> None:
    """A Task is Pending by a default, and `enqueuedAt` comes with the first write of the operator."""
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=0))
    operator = await world.operator()
    report = report_of(world, operator)
    await submit(world, "a")
    await report.tell()
    assert "oldestPendingAt" not in status(world)
    await operator.settle()
    await report.tell()
    assert status(world)["oldestPendingAt"] == world.status("a")["enqueuedAt"]


async def test_nothing_is_written_that_is_known() -> None:
    world = World()
    world.cluster.put(QUEUES, queue())
    operator = await world.operator()
    report = report_of(world, operator)
    await report.tell()
    world.cluster.calls.clear()
    await report.tell()
    world.later(61)
    await report.tell()
    await submit(world, "elsewhere", queueName="default")
    await operator.settle()
    world.cluster.calls.clear()
    await report.tell()
    assert world.cluster.calls == []


async def test_a_paused_queue_is_not_active() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(paused=True))
    operator = await world.operator()
    report = report_of(world, operator)
    await report.tell()
    [condition] = status(world)["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "Paused")
    world.later(5)
    world.cluster.put(QUEUES, queue())
    await report.tell()
    [condition] = status(world)["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", "2026-01-01T00:01:05Z")


async def test_nothing_is_kept_of_a_queue_in_which_nothing_is_left() -> None:
    """Anybody can invent names of queues: what was told of one goes, whether there is an object or not."""
    world = World()
    operator = await world.operator()
    report, tally = report_of(world, operator), operator.cache.tally
    for number in range(20):
        await submit(world, f"task-{number}", queueName=f"q{number}")
        world.cluster.put(QUEUES, queue(f"q{number}"))
        await operator.settle()
        await end(world, operator, f"task-{number}")
        world.cluster.remove(QUEUES, NAMESPACE, f"q{number}")
        await report.tell()
    for number in range(19):
        world.cluster.remove(TASKS, NAMESPACE, f"task-{number}")
    await operator.settle()
    world.later(360)
    await report.tell()
    assert list(tally.queues()) == [(NAMESPACE, "q19")], "of that one there is a Task"
    assert not tally.changed
    world.later(60)
    await report.tell()
    assert not tally.changed, "a queue without news has none when a minute begins"


async def test_a_new_operator_goes_on_with_what_is_on_record() -> None:
    """What ended a moment ago did so whoever counts it, and a condition has the time of its transition."""
    world = World()
    world.cluster.put(QUEUES, queue())
    operator = await world.operator()
    await submit(world, *"abc")
    await operator.settle()
    for name in "abc":
        await end(world, operator, name)
    await report_of(world, operator).tell()
    before = status(world)
    operator.is_deaf = True
    world.later(20)
    heir = await world.operator("op-2")
    world.cluster.calls.clear()
    await report_of(world, heir).tell()
    assert (status(world), before["finishedLastMinutes"]) == (before, 3)
    assert world.cluster.calls == [("get", "taskqueues")], "so there is nothing to write"
    world.cluster.put(QUEUES, queue(paused=True) | {"status": before})
    await report_of(world, heir).tell()
    [condition] = status(world)["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("False", "2026-01-01T00:01:20Z")


async def test_ends_that_are_listed_in_any_order_count_as_of_their_minute() -> None:
    world = World()
    world.cluster.put(QUEUES, queue())
    operator = await world.operator()
    for name in "cab":
        await submit(world, name)
        await operator.settle()
        await end(world, operator, name)
        world.later(120)
    heir = await world.operator("op-2")
    report = report_of(world, heir)
    found = []
    for _ in range(5):
        await report.tell()
        found.append(status(world)["finishedLastMinutes"])
        world.later(120)
    assert found == [2, 1, 0, 0, 0]


async def test_what_cannot_be_written_is_made_good_and_delays_no_other() -> None:
    world = World()
    for name in ("q", "r"):
        world.cluster.put(QUEUES, queue(name))
    operator = await world.operator()
    report, refused = report_of(world, operator), list[Kind]()

    def fail_once(verb: str, kind: Kind) -> None:
        if verb == "patch_status" and not refused:
            refused.append(kind)
            raise Unavailable("no answer")

    world.cluster.before_call = fail_once
    await report.tell()
    assert status(world, "r")["pending"] == 0
    await report.tell()
    assert status(world, "q")["pending"] == 0


class Slow(FakeCluster):
    """Does not answer for the queues of some names until it is let go."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.let_go = asyncio.Event()
        self.written: list[str] = []

    async def patch_status(self, kind: Kind, namespace: str, name: str, operations: Sequence[Json]) -> Object:
        if name in self.names:
            await self.let_go.wait()
        self.written.append(name)
        return await super().patch_status(kind, namespace, name, operations)


@asynccontextmanager
async def running(report: Report) -> AsyncIterator[None]:
    """It runs meanwhile, a hundred times as fast."""
    task = asyncio.create_task(report.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_queue_that_waits_for_an_answer_delays_no_other_and_is_asked_once() -> None:
    world = World()
    world.cluster = cluster = Slow("slow")
    for name in ("a", "slow", "z"):
        world.cluster.put(QUEUES, queue(name))
    operator = await world.operator()
    async with running(Report(world.cluster, operator.cache, lambda: world.now, every=0.01)):
        await until(lambda: cluster.written == ["a", "z"])
        for number in range(3):
            await submit(world, f"task-{number}", queueName="z")
            await submit(world, f"slow-{number}", queueName="slow")
            await operator.settle()
            await until(partial(has_claimed, world, "z", number + 1))
        assert "slow" not in cluster.written
        cluster.let_go.set()
        await until(lambda: status(world, "slow").get("claimed") == 3)
    assert cluster.written.count("slow") == 2, "what was on its way, and what is so now"


async def test_a_write_of_many_queues_goes_a_few_at_a_time() -> None:
    world = World()
    names = [f"q{number}" for number in range(3 * AT_ONCE)]
    world.cluster = cluster = Slow(*names)
    for name in names:
        world.cluster.put(QUEUES, queue(name))
    operator = await world.operator()
    under_way = asyncio.create_task(report_of(world, operator).tell())
    await until(lambda: world.cluster.calls.count(("get", "taskqueues")) == AT_ONCE)
    await asyncio.sleep(0)
    assert world.cluster.calls.count(("get", "taskqueues")) == AT_ONCE
    cluster.let_go.set()
    await under_way
    assert sorted(cluster.written) == sorted(names)


async def test_who_is_refused_asks_less_and_less_often_and_others_go_on() -> None:
    world = World()
    for name in ("q", "r"):
        world.cluster.put(QUEUES, queue(name))
    operator = await world.operator()
    asked = list[Kind]()

    def refuse(verb: str, kind: Kind) -> None:
        if verb == "patch_status":
            asked.append(kind)
            raise Rejected("you may not", malformed=False)

    world.cluster.before_call = refuse
    async with running(Report(world.cluster, operator.cache, lambda: world.now, every=0.01)):
        await asyncio.sleep(0.6)
        assert 4 <= len(asked) <= 20, "sixty times each, at the usual pace"
        world.cluster.before_call = lambda verb, kind: None
        await until(lambda: status(world, "q") and status(world, "r"))


def has_claimed(world: World, name: str, many: int) -> bool:
    return bool(status(world, name)["claimed"] == many)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - what the world says
            await asyncio.sleep(0.005)


async def test_who_is_held_by_other_reasons_than_before_is_told_once_they_have_lasted() -> None:
    """The queue has room again, but the tenant has not."""
    world = World()
    fairness = {"labelKey": "team", "maxConcurrentPerKey": 1}
    world.cluster.put(QUEUES, queue(maxConcurrent=2, fairness=fairness))
    operator = await world.operator()
    report = report_of(world, operator)
    await submit(world, "a", team="a")
    await submit(world, "b", team="b")
    await operator.settle()
    await submit(world, "waits", team="a")
    await operator.settle()
    await report.tell()
    reasons = [each["reason"] for each in world.status("waits")["waiting"]]
    assert reasons == ["QueueLimit", "KeyLimit"]
    await end(world, operator, "b")
    for _ in range(2):
        await report.tell()
        await operator.settle()
    assert [each["reason"] for each in world.status("waits")["waiting"]] == ["KeyLimit"]
    assert world.status("waits")["message"].startswith("`team: a` has 1 of 1 at work")
