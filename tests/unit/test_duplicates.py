"""Tasks with one `idempotencyKey`: one of them is at work at a time, and the others do as they say."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from taskyard.cluster import JOBS, TASKS
from taskyard.core import duplicates, parse
from taskyard.core.actions import Ask, Decision, WriteStatus
from taskyard.core.decide import decide
from taskyard.core.model import Rival
from taskyard.core.words import OnDuplicate, Reason, State
from tests.unit.build import NOW, snapshot, task
from tests.unit.contract import new_task
from tests.unit.world import NAMESPACE, World

FIRST, LATER = NOW - timedelta(hours=1), NOW + timedelta(hours=1)
A_SECOND = timedelta(seconds=1)


def rival(state: State, submitted_at: Any = FIRST, **changes: Any) -> Rival:
    return Rival(**{"name": "other", "uid": "uid-0", "state": state, "submitted_at": submitted_at, **changes})


def keyed(policy: OnDuplicate, state: State = State.PENDING, **wants: Any) -> Any:
    return task(state, submitted_at=NOW, wants={"idempotency_key": "k", "on_duplicate": policy, **wants})


@pytest.mark.parametrize(
    ("other", "said"),
    [
        pytest.param(rival(State.COMPLETED), "has completed", id="completed"),
        pytest.param(rival(State.COMPLETED, LATER), "has completed", id="completed, whoever came first"),
        pytest.param(rival(State.RUNNING, LATER), "runs", id="runs"),
        pytest.param(rival(State.CLAIMED), "came first", id="claimed, and came first"),
        pytest.param(rival(State.UNSCHEDULED), "came first", id="waits, and came first"),
        pytest.param(rival(State.PENDING, LATER), None, id="waits, and came later"),
        pytest.param(rival(State.CLAIMED, LATER), None, id="claimed: that may be taken back"),
        pytest.param(rival(State.FAILED), None, id="failed"),
        pytest.param(rival(State.DROPPED), None, id="dropped"),
        pytest.param(rival(State.PENDING, NOW, uid="uid-0"), "came first", id="in one second, by uid"),
        pytest.param(rival(State.PENDING, NOW, uid="uid-9"), None, id="in one second, by uid: this one"),
    ],
)
def test_one_too_many_is_dropped_after_a_look(other: Rival, said: str | None) -> None:
    found = snapshot(keyed(OnDuplicate.SKIP), rivals=(other,))
    if said is None:
        assert duplicates.of(found) is None
        return
    assert decide(found, NOW) == Decision(Ask(rivals=True))
    found = snapshot(keyed(OnDuplicate.SKIP), rivals=(other,), has_seen_rivals=True)
    action = decide(found, NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.DROPPED, "Duplicate")
    assert action.status.message == f"`other` has the same `idempotencyKey`, and {said}"


@pytest.mark.parametrize(
    ("others", "one"),
    [
        pytest.param((rival(State.PENDING), rival(State.RUNNING, LATER, name="it")), "it", id="who runs"),
        pytest.param(
            (rival(State.CLAIMED), rival(State.COMPLETED, LATER, name="it")), "it", id="who has run"
        ),
        pytest.param(
            (rival(State.PENDING), rival(State.PENDING, FIRST - A_SECOND, name="it")), "it", id="first"
        ),
    ],
)
def test_who_is_one_too_many_names_the_one_that_is_not(others: tuple[Rival, ...], one: str) -> None:
    """And not another that is one too many itself."""
    for rivals in (others, others[::-1]):
        error = duplicates.of(snapshot(keyed(OnDuplicate.SKIP), rivals=rivals))
        assert error is not None
        assert error.message.startswith(f"`{one}` ")


@pytest.mark.parametrize("policy", list(OnDuplicate))
def test_nobody_runs_beside_one_that_was_claimed_whoever_came_first(policy: OnDuplicate) -> None:
    action = decide(snapshot(keyed(policy), rivals=(rival(State.CLAIMED, LATER),)), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.PENDING, Reason.DUPLICATE)


@pytest.mark.parametrize("policy", [OnDuplicate.QUEUE, OnDuplicate.REPLACE])
def test_who_came_first_is_waited_for(policy: OnDuplicate) -> None:
    action = decide(snapshot(keyed(policy), rivals=(rival(State.DELAYED),)), NOW).action
    assert isinstance(action, WriteStatus)
    assert (
        action.status.message
        == "another task with the same `idempotencyKey` is to end first; now it is `other`"
    )
    action = decide(
        snapshot(keyed(policy), rivals=(rival(State.COMPLETED), rival(State.PENDING, LATER))), NOW
    ).action
    assert isinstance(action, WriteStatus)
    assert action.status.state is State.CLAIMED


def test_one_that_is_replaced_is_cancelled_and_says_by_whom() -> None:
    assert (
        duplicates.replaced_by(keyed(OnDuplicate.SKIP), (rival(State.PENDING, LATER, replaces=True),))
        == "other"
    )
    assert (
        duplicates.replaced_by(keyed(OnDuplicate.SKIP), (rival(State.PENDING, FIRST, replaces=True),)) is None
    )
    assert (
        duplicates.replaced_by(keyed(OnDuplicate.SKIP), (rival(State.FAILED, LATER, replaces=True),)) is None
    )


# With the loop and the cache.


def real_jobs(world: World) -> list[Any]:
    return [each for each in world.cluster.all(JOBS) if not parse.job(each).is_placeholder]


async def submit(world: World, *names: str, **spec: Any) -> None:
    for name in names:
        made = new_task(name, NAMESPACE)
        made["spec"] = made["spec"] | {"idempotencyKey": "k"} | spec
        await world.cluster.create(TASKS, NAMESPACE, made)
        world.later(1)


async def complete(world: World, operator: Any, code: int = 0) -> None:
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.pod_ends(code)
    await operator.settle()


def states(world: World, *names: str) -> list[str]:
    return [world.status(name)["state"] for name in names]


async def test_skip_runs_once_while_the_one_that_ran_is_there() -> None:
    world = World()
    operator = await world.operator()
    await submit(world, "a", "b")
    await operator.settle()
    assert states(world, "a", "b") == ["Claimed", "Dropped"]
    assert world.status("b")["message"] == "`a` has the same `idempotencyKey`, and came first"
    await complete(world, operator)
    await submit(world, "c")
    await operator.settle()
    assert states(world, "a", "c") == ["Completed", "Dropped"]
    world.cluster.remove(TASKS, NAMESPACE, "a")
    await operator.settle()
    await submit(world, "d")
    await operator.settle()
    assert states(world, "d") == ["Claimed"], "what is gone is forgotten"


async def test_skip_runs_again_after_a_failure() -> None:
    world = World()
    operator = await world.operator()
    await submit(world, "a")
    await operator.settle()
    await complete(world, operator, code=3)
    await submit(world, "b")
    await operator.settle()
    assert states(world, "a", "b") == ["Failed", "Claimed"]


async def test_queue_runs_one_after_another_in_their_order() -> None:
    world = World()
    operator = await world.operator()
    await submit(world, "a", "b", "c", onDuplicate="Queue")
    await operator.settle()
    assert states(world, "a", "b", "c") == ["Claimed", "Pending", "Pending"]
    await complete(world, operator)
    assert states(world, "a", "b", "c") == ["Completed", "Claimed", "Pending"]
    await complete(world, operator)
    assert states(world, "b", "c") == ["Completed", "Claimed"]


async def test_replace_stops_the_one_before_and_waits_for_its_end() -> None:
    world = World()
    operator = await world.operator()
    await submit(world, "a")
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    await submit(world, "b", "c", onDuplicate="Replace")
    await operator.settle()
    assert states(world, "a", "b", "c") == ["Running", "Cancelled", "Pending"]
    assert world.status("a")["stop"]["reason"] == "Replaced"
    world.pod_ends(143)
    await operator.settle()
    assert states(world, "a", "c") == ["Cancelled", "Claimed"]
    assert world.status("a")["reason"] == "TaskReplaced"
    assert world.status("a")["message"] in {
        f"the task was replaced by `{name}`, which has the same `idempotencyKey`" for name in "bc"
    }


@pytest.mark.parametrize("policy", ["Skip", "Queue", "Replace"])
@pytest.mark.parametrize("seed", range(8))
async def test_two_operators_that_know_nothing_of_each_other_make_one_pod_at_a_time(
    policy: str, seed: int
) -> None:
    """Each has seen another one of two Tasks only, and both claim; whatever is interleaved."""
    world = World()
    one, other = await world.operator("op-1"), await world.operator("op-2")
    one.is_deaf = other.is_deaf = True
    await submit(world, "a", "b", onDuplicate=policy)
    one.cache.see_task(world.task("a"))
    other.cache.see_task(world.task("b"))
    for number in range(12):
        operator = (one, other)[(seed >> (number % 3)) & 1 ^ (number & 1)]
        if not operator.cache.dirty.is_idle:
            uid = await operator.cache.dirty.take()
            await operator.loop.step(uid)
            operator.cache.dirty.done(uid)
    one.is_deaf = other.is_deaf = False
    for operator in (one, other):
        for name in "ab":
            operator.cache.see_task(world.task(name))
    await asyncio.gather(one.settle(), other.settle())
    assert len(real_jobs(world)) == 1
    assert Counter(states(world, "a", "b"))["Claimed"] == 1
    await complete(world, one)
    await asyncio.gather(one.settle(), other.settle())
    if policy == "Queue":
        assert len(real_jobs(world)) == 2
        assert sorted(states(world, "a", "b")) == ["Claimed", "Completed"]
    else:
        assert len(real_jobs(world)) == 1
        assert "Completed" in states(world, "a", "b")


async def test_one_that_has_completed_meanwhile_is_found_between_the_claim_and_the_job() -> None:
    """This operator's watch is behind by more than the other took from its claim to the end."""
    world = World()
    one, other = await world.operator("op-1"), await world.operator("op-2")
    other.is_deaf = True
    await submit(world, "a")
    await one.settle()
    await complete(world, one)
    one.is_deaf = True
    await submit(world, "b")
    other.cache.see_task(world.task("b"))
    other.is_deaf = False
    await other.settle()
    assert states(world, "a", "b") == ["Completed", "Dropped"]
    assert len(real_jobs(world)) == 1
    assert world.status("b")["message"] == "`a` has the same `idempotencyKey`, and has completed"


async def test_one_that_has_run_is_not_dropped_for_the_sake_of_one_that_was_dropped_for_its() -> None:
    """`b` came later and runs, so `a` is one too many; `b` is lost, and back in its queue while `a` is still there."""
    ran = rival(State.PENDING, NOW, started_at=NOW)
    assert duplicates.of(snapshot(keyed(OnDuplicate.SKIP), rivals=(ran,))) is not None
    back = task(State.PENDING, submitted_at=NOW, started_at=NOW, wants={"idempotency_key": "k"})
    assert duplicates.of(snapshot(back, rivals=(rival(State.PENDING),))) is None


def test_one_that_is_being_deleted_is_waited_for_and_takes_nobodys_place() -> None:
    going = rival(State.PENDING, deleting=True)
    assert isinstance(decide(snapshot(keyed(OnDuplicate.SKIP), rivals=(going,)), NOW).action, WriteStatus)
    at_work = rival(State.RUNNING, deleting=True)
    action = decide(snapshot(keyed(OnDuplicate.SKIP), rivals=(at_work,)), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.PENDING, Reason.DUPLICATE)


async def test_the_pod_of_one_that_was_deleted_is_waited_for() -> None:
    world = World()
    operator = await world.operator()
    await submit(world, "a")
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "a")
    await operator.settle()
    await submit(world, "b")
    await operator.settle()
    assert world.status("b")["message"].endswith("is to end first; now it is `a`")
    world.remove_pods()
    await operator.settle()
    assert states(world, "b") == ["Claimed"]


@pytest.mark.parametrize("between", [0, 1, 3])
async def test_who_came_first_and_waits_for_another_of_its_key_lets_that_one_go_before_it(
    between: int,
) -> None:
    """They would wait for each other for ever; and so they would by way of others."""
    world = World()
    operator = await world.operator()
    names = ["first", *(f"between-{number}" for number in range(between)), "second"]
    for name, other in pairwise(names):
        key = {"idempotencyKey": "k", "onDuplicate": "Queue"} if name == "first" else {}
        made = new_task(name, NAMESPACE)
        made["spec"] |= {"dependencies": [other]} | key
        await world.cluster.create(TASKS, NAMESPACE, made)
        world.later(1)
        await operator.settle()
    await submit(world, "second", onDuplicate="Queue")
    await operator.settle()
    assert states(world, "first", "second") == ["Unscheduled", "Claimed"]
    for _ in names:
        await complete(world, operator)
    assert states(world, *names) == ["Completed"] * len(names)


async def test_who_came_first_and_waits_for_somebody_else_is_waited_for() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("other", suspend=True)
    await submit(world, "first", onDuplicate="Queue", dependencies=["other"])
    await submit(world, "second", onDuplicate="Queue")
    await world.submit("listener", dependencies=["second"])
    await operator.settle()
    assert states(world, "first", "second") == ["Unscheduled", "Pending"]


async def test_keys_that_cross_dependencies_hang_nobody() -> None:
    """Each of four waits for the next: by its dependency, or for its turn."""
    world = World()
    operator = await world.operator()
    for name, key, others in (("a", "p", ["b"]), ("c", "q", ["d"]), ("b", "q", []), ("d", "p", [])):
        await submit(world, name, idempotencyKey=key, onDuplicate="Queue", dependencies=others)
        await operator.settle()
    for _ in range(4):
        await complete(world, operator)
    assert states(world, *"abcd") == ["Completed"] * 4
