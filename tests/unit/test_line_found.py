"""What reviews of the queues found: slots that were lost, rates that were forgotten, words that came too late."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.cluster import QUEUES, TASKS, Kind, Unavailable
from taskyard.core.choose import Lane, Limits, Queue, rank
from taskyard.core.rate import Rate
from taskyard.line import FEW, Line
from tests.unit.test_line import claimed, end, queue, states, submit, waits
from tests.unit.world import Operator, World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LANES = (Lane("d", "q", "a"), Lane("d", "q", "b"), Lane("d", "default"))
UIDS = "uvwxyz"


def consistent(line: Line) -> None:
    """What is counted as used is what is held, and nobody stands in line who has a slot."""
    held = Counter(scope for lane in line._slots.values() for scope in lane.scopes)
    assert line._used == held
    assert not line._places.keys() & line._slots.keys()
    assert line._granted.keys() <= line._slots.keys()
    assert {uid for places in line._lanes.values() for _, uid in places} == line._places.keys()
    assert sorted(place for places in line._ranks.values() for place in places) == sorted(
        place for _, place in line._places.values()
    )
    assert line._going == Counter(line._slots[uid].queue_key for uid in line._granted)
    assert {uid for uid, _ in line._wakes.values()} <= line._places.keys()


def within_limits(line: Line, lane: Lane, now: datetime) -> None:
    """Whoever may go is one of no more than there are to be, also if there were to be more when it was chosen."""
    for scope in lane.scopes:
        most = line.limits.of(scope, lane)
        assert most is None or line._used[scope] <= most
    queue = line.limits.queue(lane)
    if queue is not None and queue.rate is not None:
        recent = [at for at in line._starts[lane.queue_key] if at > now - queue.rate.window]
        assert len(recent) + line._going[lane.queue_key] <= queue.rate.tasks


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "take", "free", "leave", "refuse", "started", "limit", "settle"]),
        st.sampled_from(UIDS),
        st.sampled_from(LANES),
        st.integers(0, 3),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_slots_are_those_that_are_held(steps: list[Any]) -> None:
    line, now = Line(lambda uid: None, lambda uid: None), NOW
    for what, uid, lane, number in steps:
        now += timedelta(seconds=1)
        match what:
            case "ask":
                if line.ask(uid, lane, (float(number), 0.0, uid), now):
                    within_limits(line, lane, now)
            case "take":
                line.take(uid, lane)
            case "free":
                line.free(uid)
            case "leave":
                line.leave(uid)
            case "refuse":
                line.refuse(uid)
            case "started":
                line.started(uid, lane, now)
            case "limit":
                rate = Rate(2, timedelta(seconds=5)) if number % 2 else None
                line.limit(Limits(queues={("d", "q"): Queue(max_concurrent=number, rate=rate)}), ())
            case _:
                line.settle(now)
        consistent(line)


async def test_a_queue_that_changes_while_a_claim_is_on_its_way_loses_no_slot() -> None:
    world, changed = World(), list[Kind]()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    await submit(world, "a", team="x")

    def change(verb: str, kind: Kind) -> None:
        if verb == "patch_status" and kind == TASKS and not changed:
            changed.append(kind)
            world.cluster.put(QUEUES, queue(maxConcurrent=1, fairness={"labelKey": "team"}))

    world.cluster.before_call = change
    await operator.settle()
    await end(world, operator, "a")
    consistent(operator.cache.line)
    await submit(world, "b", team="x")
    await operator.settle()
    assert claimed(world) == {"b"}


async def behind_a_rate(**spec: Any) -> tuple[World, Operator]:
    """`a` has been started, and `b` waits for the hour to go by."""
    world = World()
    world.cluster.put(QUEUES, queue(rateLimit={"tasks": 1, "perSeconds": 3600}))
    operator = await world.operator()
    await submit(world, "a", **spec)
    await operator.settle()
    await submit(world, "b")
    await operator.settle()
    assert waits(world, "b")[0][0] == "RateLimit"
    return world, operator


async def test_a_restart_does_not_forget_the_start_of_what_has_ended() -> None:
    world, operator = await behind_a_rate()
    await end(world, operator, "a")
    operator.is_deaf = True
    heir = await world.operator("op-2")
    await heir.settle()
    assert states(world) == {"Completed": 1, "Pending": 1}


async def test_another_queue_is_no_reason_to_forget_a_start() -> None:
    world, operator = await behind_a_rate(retry={"limit": 3, "delaySeconds": 600})
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.pod_ends(1)
    await operator.settle()
    world.cluster.put(QUEUES, queue("other"))
    await operator.settle()
    assert states(world) == {"Delayed": 1, "Pending": 1}


async def test_after_an_outage_a_rate_is_kept_too() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(rateLimit={"tasks": 1, "perSeconds": 10}))
    operator = await world.operator()
    await submit(world, *(f"task-{number}" for number in range(6)))

    def fail(verb: str, kind: Kind) -> None:
        if verb == "patch_status":
            raise Unavailable("away")

    world.cluster.before_call = fail
    for _ in range(6):
        for task in list(operator.cache.tasks()):
            with pytest.raises(Unavailable):
                await operator.loop.step(task.uid)
        world.later(11)
    world.cluster.before_call = lambda verb, kind: None
    operator.mark_all()
    await operator.settle(rounds=500)
    assert len(claimed(world)) == 1


async def test_who_was_chosen_does_not_start_once_the_queue_is_paused() -> None:
    world = World()
    world.cluster.put(QUEUES, queue())
    operator = await world.operator()
    await submit(world, "a")
    [task] = operator.cache.tasks()

    def fail(verb: str, kind: Kind) -> None:
        raise Unavailable("away")

    world.cluster.before_call = fail
    with pytest.raises(Unavailable):
        await operator.loop.step(task.uid)
    world.cluster.before_call = lambda verb, kind: None
    world.cluster.put(QUEUES, queue(paused=True))
    await operator.settle()
    assert waits(world, "a")[0][0] == "QueuePaused"


def test_turns_of_those_who_rest_are_forgotten() -> None:
    line = Line(lambda uid: None, lambda uid: None)
    for number in range(5000):
        uid, lane = f"task-{number}", Lane("d", "default", f"tenant-{number}")
        assert line.ask(uid, lane, (0.0, 0.0, uid), NOW)
        line.take(uid, lane)
        line.free(uid)
    assert len(line._turns) < 2000


def test_of_a_crowd_a_few_at_a_look_are_told_of_other_reasons_however_many_tenants_it_has() -> None:
    """Behind a rate and a limit the reasons of all change with every start and end."""
    reminded = Counter[str]()
    line = Line(lambda uid: None, lambda uid: reminded.update([uid]))
    queue = Queue(share_label="team", max_concurrent=0, ageing=None)
    line.limit(Limits(queues={("ns", "q"): queue}), [])
    for number in range(800):
        uid, lane = f"uid-{number:03}", Lane("ns", "q", f"team-{number // 2}")
        assert not line.ask(uid, lane, rank(queue, 0, NOW, uid), NOW)
        line.waits(uid, NOW)
    reminded.clear()
    line.limit(Limits(queues={("ns", "q"): replace(queue, is_paused=True)}), [])
    told = Counter[str]()
    for look in range(100):
        reminded.clear()
        line.stir(NOW + timedelta(seconds=2 * look))
        for uid in reminded:
            line.waits(uid, NOW)
        assert reminded.total() <= (FEW if look >= 30 else 0), "not before that has lasted for a minute"
        told += reminded
    assert told == Counter(f"uid-{number:03}" for number in range(800)), "and each of them once"
