"""What an operator does that is told to end: whom it sees off, what it finishes, and what it leaves alone."""

import asyncio
from typing import Any

import pytest

from taskyard import main
from taskyard.cluster import BUDGETS, EVENTS, JOBS, PODS, TASKS, Kind, Rejected, Unavailable
from taskyard.core.clocks import said
from taskyard.freshness import Freshness
from taskyard.loop import CLOSES_WITHIN
from taskyard.metrics import Metrics
from taskyard.settings import load
from taskyard.watch import Watch
from tests.unit.build import seconds
from tests.unit.contract import new_task
from tests.unit.world import World

EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
BY_KUBELET = EVICTED | {"reason": "TerminationByKubelet"}


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


@pytest.mark.parametrize(
    ("told", "grace", "condition", "elsewhere", "is_seen_off"),
    [
        pytest.param(None, 0, None, False, False, id="nobody has told it to end"),
        pytest.param(0, 5, EVICTED, False, True, id="evicted a moment ago"),
        pytest.param(0, 600, EVICTED, False, True, id="it may use its long grace, and mostly does not"),
        pytest.param(20, 600, EVICTED, False, False, id="it uses its long grace"),
        pytest.param(20, 30, EVICTED, False, True, id="it uses its grace, of which little is left"),
        pytest.param(7200, 30, EVICTED, False, False, id="its node is silent"),
        pytest.param(None, 0, BY_KUBELET, False, True, id="ended by its kubelet"),
        pytest.param(7200, 30, BY_KUBELET, False, False, id="ended by a kubelet that is silent since"),
        pytest.param(0, 5, EVICTED, True, False, id="a pod of another namespace, whatever its labels"),
    ],
)
async def test_the_end_of_a_pod_is_waited_for_where_it_is_near(
    told: int | None, grace: int, condition: dict[str, str] | None, elsewhere: bool, is_seen_off: bool
) -> None:
    """Meanwhile nothing is claimed, also where somebody stands by."""
    world = World()
    await world.submit()
    operator = await world.operator(look_around=seconds(0))
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    [pod] = world.cluster.all(PODS)
    when: dict[str, Any] = {}
    if told is not None:
        gone_by = world.now - seconds(told) + seconds(grace)
        when = {"deletionTimestamp": said(gone_by), "deletionGracePeriodSeconds": grace}
    forged = {"namespace": "elsewhere", "uid": "forged"} if elsewhere else {}
    since = {"lastTransitionTime": said(world.now - seconds(told or 0))}
    conditions = [condition | since] if condition is not None else []
    status = pod["status"] | {"conditions": conditions}
    world.cluster.put(PODS, pod | {"metadata": pod["metadata"] | when | forged, "status": status})
    await operator.settle()
    retiring = asyncio.create_task(operator.loop.retire())
    await asyncio.sleep(0.1)
    assert retiring.done() is not is_seen_off
    retiring.cancel()


async def test_nothing_is_kept_of_namespaces_that_were_shielded_long_ago() -> None:
    world = World()
    operator = await world.operator()
    writes = operator.loop._writes
    for number in range(20):
        world.later(10)
        namespace = f"of-{number}"
        task = new_task("hello", namespace)
        await world.cluster.create(
            TASKS, namespace, task | {"spec": task["spec"] | {"onShutdown": "Continue"}}
        )
        await operator.settle()
        assert writes.is_shielded(namespace)
    assert len(world.cluster.all(BUDGETS)) == 20
    assert len(writes._shielded_at) <= 7
