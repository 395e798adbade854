"""What a TaskQueue is told of itself, and what the counts are made of."""

from __future__ import annotations

from typing import Any

from taskyard.cluster import QUEUES, TASKS, Kind, Unavailable
from taskyard.report import Report
from tests.unit.test_line import end, queue, submit
from tests.unit.world import NAMESPACE, Operator, World


def report_of(world: World, operator: Operator) -> Report:
    return Report(world.cluster, operator.cache, lambda: world.now)


def status(world: World, name: str = "q") -> dict[str, Any]:
    return next(
        dict(each["status"]) for each in world.cluster.all(QUEUES) if each["metadata"]["name"] == name
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
