"""What reviews of rates and limits found, with the loop and the cache: windows, clocks, and limits that are changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NoReturn

import pytest

from taskyard.cluster import QUEUES, TASKS, Kind, Unavailable
from taskyard.core.choose import AT_ONCE, Lane, Limits, Queue
from taskyard.core.rate import Rate
from taskyard.line import Line
from taskyard.loop import CONFLICTS_AT_ONCE
from tests.unit.test_line import claimed, queue, submit, waits
from tests.unit.world import Operator, World

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def operator_with(**spec: Any) -> tuple[World, Operator]:
    world = World()
    world.cluster.put(QUEUES, queue(**spec))
    return world, await world.operator()


async def steps(operator: Operator, count: int) -> None:
    for _ in range(count):
        uid = await operator.cache.dirty.take()
        await operator.loop.step(uid)
        operator.cache.dirty.done(uid)


async def count_steps(operator: Operator) -> int:
    """How many it takes until there is nothing to think about."""
    operator.thoughts.clear()
    await operator.settle(rounds=5000)
    return operator.thoughts.total()


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        pytest.param({"maxConcurrent": 1}, 3, id="a limit"),
        pytest.param({"maxConcurrent": 5}, 5, id="a limit that leaves room for some of them"),
        pytest.param({"rateLimit": {"tasks": 1, "perSeconds": 3600}}, 3, id="a rate"),
        pytest.param(
            {"rateLimit": {"tasks": 4, "perSeconds": 3600}}, 4, id="a rate that leaves room for one"
        ),
        pytest.param({"fairness": {"labelKey": "team", "maxConcurrentPerKey": 1}}, 3, id="a tenant's limit"),
    ],
)
async def test_what_is_limited_holds_for_those_who_were_chosen_before(
    spec: dict[str, Any], most: int
) -> None:
    world, operator = await operator_with(paused=True)
    await submit(world, *(f"task-{number}" for number in range(50)))
    await operator.settle(rounds=500)
    world.cluster.put(QUEUES, queue())
    await steps(operator, 3)
    assert len(claimed(world)) == 3
    world.cluster.put(QUEUES, queue(**spec))
    await operator.settle(rounds=500)
    assert len(claimed(world)) == most


async def test_a_start_counts_from_the_instant_and_not_from_its_second() -> None:
    """`claimedAt` has no fraction of it."""
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 1})
    world.later(0.9)
    await submit(world, "a", "b")
    await operator.settle()
    for milliseconds, count in ((100, 1), (800, 1), (100, 2)):
        world.later(milliseconds / 1000)
        operator.mark_all()
        await operator.settle()
        assert len(claimed(world)) == count


async def test_after_a_restart_a_start_counts_to_the_end_of_its_second() -> None:
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 1})
    world.later(0.9)
    await submit(world, "a", "b")
    await operator.settle()
    operator.is_deaf = True
    world.later(0.2)
    heir = await world.operator("op-2")
    await heir.settle()
    assert len(claimed(world)) == 1
    world.later(1)
    heir.mark_all()
    await heir.settle()
    assert len(claimed(world)) == 2


async def test_a_longer_window_has_the_starts_in_it_that_the_shorter_one_had_left() -> None:
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 10})
    await submit(world, *"abcdef")
    for _ in range(4):
        await operator.settle()
        world.later(11)
        operator.mark_all()
    assert len(claimed(world)) == 4
    world.cluster.put(QUEUES, queue(rateLimit={"tasks": 5, "perSeconds": 3600}))
    operator.mark_all()
    await operator.settle()
    assert len(claimed(world)) == 5, "each of the four counts, and none of them twice"


async def test_a_clock_that_is_set_back_delays_a_start_by_one_window() -> None:
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 10})
    await submit(world, "a", "b")
    await operator.settle()
    world.later(-3600)
    for seconds, count in ((0, 1), (9, 1), (2, 2)):
        world.later(seconds)
        operator.mark_all()
        await operator.settle()
        assert len(claimed(world)) == count


async def test_who_waits_for_a_rate_is_told_its_own_time() -> None:
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 60})
    for name in "abcd":
        await submit(world, name)
        await operator.settle()
        world.later(1)
    said = "the queue `q` starts 1 in 60 s; this one not before 2026-01-01T00:0{}:00Z; number {} in the queue"
    assert [waits(world, name)[0][1] for name in "bcd"] == [said.format(n + 1, n) for n in (1, 2, 3)]
    world.later(55)
    await submit(world, "first", priority=9)
    await operator.settle()
    world.later(1)
    operator.mark_all()
    await operator.settle()
    assert "first" in claimed(world)
    assert waits(world, "b")[0][1] == said.format(2, 1), "another time is no reason to write again"


async def test_whose_time_has_passed_is_told_another_one() -> None:
    """Only whoever is first, and not before that second is over: the others' have not."""
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 60})
    for name in "abcd":
        await submit(world, name)
        await operator.settle()
    await submit(world, "first", priority=9)
    await operator.settle()
    said = "the queue `q` starts 1 in 60 s; this one not before 2026-01-01T00:0{}:00Z; number {} in the queue"
    assert waits(world, "b")[0][1] == said.format(2, 1)
    world.later(60)
    operator.cache.dirty.mark(world.task("first")["metadata"]["uid"])
    await operator.settle()
    operator.cache.line.stir(world.now)
    await operator.settle()
    assert "first" in claimed(world)
    world.later(0.9)
    operator.cache.line.stir(world.now)
    await operator.settle()
    assert waits(world, "b")[0][1] == said.format(2, 1)
    world.later(0.1)
    operator.cache.line.stir(world.now)
    await operator.settle()
    assert waits(world, "b")[0][1] == said.format(3, 1)
    assert waits(world, "c")[0][1] == said.format(3, 2)


@pytest.mark.parametrize("tenants", [10, 200])
async def test_a_start_behind_a_rate_wakes_one_of_those_who_wait(tenants: int) -> None:
    spec = {"rateLimit": {"tasks": 1, "perSeconds": 10}, "fairness": {"labelKey": "team"}}
    world, operator = await operator_with(**spec)
    for number in range(tenants):
        await submit(world, f"task-{number}", team=f"team-{number}")
    await operator.settle(rounds=5000)
    [waker] = operator.cache.line.wakers()
    world.later(11)
    operator.cache.dirty.mark(waker)
    assert await count_steps(operator) <= 5
    assert len(claimed(world)) == 2
    assert len(operator.cache.line.wakers()) == 1


async def test_who_wakes_up_for_a_rate_hands_that_over_when_it_waits_no_more() -> None:
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 10})
    await submit(world, *"abcd")
    await operator.settle()
    for _ in range(2):
        [waker] = operator.cache.line.wakers()
        name = next(task.name for task in operator.cache.tasks() if task.uid == waker)
        world.edit_spec(name, cancel=True)
        await operator.settle()
    [(waker, at)] = operator.cache.line._wakes.values()
    assert waker in {task.uid for task in operator.cache.tasks() if task.status.reason == "RateLimit"}
    assert at == world.now + timedelta(seconds=10)
    assert operator.loop._clock._due.keys() >= {waker}


def waiting(count: int, tenants: int, call: Callable[[str], None]) -> Line:
    """A queue without a limit that was paused until now, and who waits there."""
    line = Line(call, call)
    line.limit(Limits(queues={("d", "q"): Queue(is_paused=True)}), ())
    for number in range(count):
        uid, lane = f"task-{number:03}", Lane("d", "q", f"tenant-{number % tenants}")
        assert not line.ask(uid, lane, (float(number), 0.0, uid), NOW)
    line.limit(Limits(queues={("d", "q"): Queue()}), ())
    return line


def test_of_many_that_may_go_a_few_are_chosen_at_once_and_nobody_is_forgotten() -> None:
    line = waiting(300, 7, lambda uid: None)
    chosen = [0]
    while len(line._granted) > chosen[-1] or len(chosen) == 1:
        chosen.append(len(line._granted))
        line.settle(NOW)
    assert chosen[-1] == 300
    assert all(after - before <= AT_ONCE for before, after in pairwise(chosen))


def test_who_asks_when_many_may_go_is_told_no_wrong_reason() -> None:
    line = waiting(300, 7, lambda uid: None)
    assert not line.ask("z", Lane("d", "q", "tenant-0"), (1000.0, 0.0, "z"), NOW)
    assert line.waits("z", NOW) == ()


async def test_a_pause_that_ends_lets_everybody_go() -> None:
    world, operator = await operator_with(paused=True)
    await submit(world, *(f"task-{number}" for number in range(3 * AT_ONCE)))
    await operator.settle(rounds=500)
    world.cluster.put(QUEUES, queue())
    await operator.settle(rounds=5000)
    assert len(claimed(world)) == len(world.cluster.all(TASKS))


def test_a_queue_that_is_closed_is_not_looked_into() -> None:
    """However many tenants it has: an event in it costs nothing but the question whether it has room."""
    line = Line(lambda uid: None, lambda uid: None)
    rate = Rate(1, timedelta(seconds=60))
    line.limit(Limits(queues={("d", "q"): Queue(rate=rate)}), ())
    for number in range(100):
        line.ask(f"task-{number}", Lane("d", "q", f"tenant-{number}"), (float(number), 0.0, ""), NOW)
    line.started("task-0", Lane("d", "q", "tenant-0"), NOW)
    assert line._touched
    assert line._waiting_for(line._touched, None, NOW) == {}


async def test_a_claim_that_was_answered_gives_no_slot_away_while_another_may_be_on_its_way() -> None:
    world, operator = await operator_with(maxConcurrent=1)
    await submit(world, "a")
    [task] = operator.cache.tasks()
    line = operator.cache.line

    async def fails(error: Unavailable) -> None:
        def fail(verb: str, kind: Kind) -> None:
            if verb == "patch_status":
                raise error

        world.cluster.before_call = fail
        with pytest.raises(Unavailable):
            await operator.loop.step(task.uid)

    await fails(Unavailable("no answer"))
    world.later(59)
    await fails(Unavailable("failed calling webhook", is_over=True))
    assert line.holders() == {task.uid}
    world.later(1)
    await fails(Unavailable("failed calling webhook", is_over=True))
    assert line.holders() == set()


async def test_a_task_that_is_edited_faster_than_it_can_be_claimed_keeps_no_slot() -> None:
    """A conflict is an answer: nothing of it is on its way."""
    world, operator = await operator_with(maxConcurrent=1)
    await submit(world, "a")
    [task] = operator.cache.tasks()

    def edit(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch_status", TASKS):
            world.edit_task("a", labels={"edited": str(len(world.cluster.calls))})

    world.cluster.before_call = edit
    for _ in range(CONFLICTS_AT_ONCE):
        await operator.loop.step(task.uid)
    with pytest.raises(Unavailable):
        await operator.loop.step(task.uid)
    assert operator.cache.line.holders() == set()


async def test_a_claim_that_was_taken_though_it_was_said_to_have_failed_keeps_its_slot() -> None:
    world, operator = await operator_with(maxConcurrent=1)
    await submit(world, "a")
    [task] = operator.cache.tasks()
    patch = world.cluster.patch_status

    async def taken(*args: Any) -> NoReturn:
        await patch(*args)
        raise Unavailable("500", is_over=True)

    operator.is_deaf = True
    world.cluster.patch_status = taken  # type: ignore[method-assign, assignment]
    with pytest.raises(Unavailable):
        await operator.loop.step(task.uid)
    assert operator.cache.line.holders() == {task.uid}
    assert not operator.cache.line.is_chosen(task.uid)


@pytest.mark.parametrize("fraction", [0.0, 0.001, 0.5, 0.999])
async def test_two_operators_tell_the_same_reasons_whoever_of_them_has_started_a_task(
    fraction: float,
) -> None:
    """One knows the instant of it, and the other one the second: otherwise they would write in turn."""
    world, operator = await operator_with(rateLimit={"tasks": 1, "perSeconds": 5})
    other = await world.operator("op-2")
    world.later(fraction)
    await submit(world, "a")
    await operator.settle()
    world.cluster.put(QUEUES, queue(paused=True, rateLimit={"tasks": 1, "perSeconds": 5}))
    await submit(world, "b")
    for _ in range(70):
        world.later(0.1)
        operator.mark_all()
        for each in (operator, other, operator, other):
            await each.settle()
        assert operator.cache.dirty.is_idle
    assert [reason for reason, _ in waits(world, "b")] == ["QueuePaused"]
