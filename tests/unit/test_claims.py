"""Whose claim it is, and what becomes of it when its claimer is gone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from taskyard.cluster import PODS, TASKS, Json, Kind, Page
from taskyard.core import manifest
from taskyard.core.actions import CreateJob, Decision, DeletePod, Look, Shield, WriteStatus
from taskyard.core.decide import decide
from taskyard.core.model import Pod, Stop
from taskyard.core.refusals import Refusal
from taskyard.core.words import OnShutdown, PodPhase, Reason, State, StopReason
from taskyard.reads import Reads
from tests.unit.build import CLAIMED, NOW, job, live, pod, retry, seconds, snapshot, started, task
from tests.unit.fake import Object
from tests.unit.world import World

FOREIGN = task(State.CLAIMED, claimed_by="another")
AFTER, BEFORE = CLAIMED + seconds(1), CLAIMED - seconds(1)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({"acting_since": AFTER}, Look(), id="its claimer acts no more: look first"),
        pytest.param(
            {"acting_since": AFTER, "live": live(None)},
            CreateJob(is_placeholder=True),
            id="it had made no Job: take the name",
        ),
        pytest.param({"acting_since": BEFORE}, Look(), id="its claimer acts too, and is slow: look first"),
        pytest.param(
            {"acting_since": BEFORE, "live": live(None)},
            CreateJob(),
            id="its claimer is slow: help, by the same name",
        ),
    ],
)
def test_a_claim_of_another(facts: dict[str, object], expected: object) -> None:
    assert decide(snapshot(FOREIGN, **facts), NOW).action == expected


def test_another_who_acts_at_the_same_time_is_left_to_make_his_job() -> None:
    fresh = task(State.CLAIMED, claimed_by="another", claimed_at=NOW - seconds(2))
    assert decide(snapshot(fresh, acting_since=BEFORE), NOW) == Decision(wake_at=NOW + seconds(3))


def test_an_own_claim_gets_its_job_at_once() -> None:
    assert decide(snapshot(task(State.CLAIMED), acting_since=AFTER), NOW).action == CreateJob()


@pytest.mark.parametrize("claimer", ["op", "another"])
def test_a_claim_without_a_job_is_given_back_however_late(claimer: str) -> None:
    """No operator was there for longer than a node may take to be found: that is no failure to start."""
    late = task(State.CLAIMED, claimed_by=claimer, claimed_at=NOW - seconds(901), wants={"start_limit": 1})
    assert decide(snapshot(late, acting_since=NOW), NOW).action == Look()
    found = snapshot(late, acting_since=NOW, live=live(None))
    assert decide(found, NOW).action == CreateJob(is_placeholder=True)
    placeholder = job(is_placeholder=True, suspend=True)
    action = decide(snapshot(late, acting_since=NOW, job=placeholder), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.start_failures) == (State.PENDING, 0)


def test_whoever_wants_it_at_most_once_gets_no_second_job_of_an_old_claim() -> None:
    """Its Job may have been made, run and deleted while no operator was there."""
    once = {"retry": retry(infrastructure_limit=0)}
    old = task(State.CLAIMED, wants=once)
    assert decide(snapshot(old, acting_since=AFTER), NOW).action == Look()
    assert decide(snapshot(old, acting_since=AFTER, live=live(None)), NOW).action == CreateJob(
        is_placeholder=True
    )
    placeholder = job(is_placeholder=True, suspend=True)
    action = decide(snapshot(old, acting_since=AFTER, job=placeholder), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.EXCEPTION, "WorkerLost")
    assert decide(snapshot(old, acting_since=BEFORE), NOW).action == CreateJob(), (
        "of this life: it was never made"
    )


async def test_a_claim_in_the_middle_of_a_look_leaves_no_stray() -> None:
    """The look has read the Task before, and the pods after the claim: a pod of an attempt that it does not know."""
    world = World()
    await world.submit()
    one, two = await world.operator("one"), await world.operator("two")
    two.is_deaf = True
    pages = world.cluster.pages

    async def pages_after_a_claim(kind: Kind, *where: Any, **how: Any) -> AsyncIterator[Page]:
        if kind == PODS and not world.jobs():
            await one.settle()
            world.make_pods()
        async for page in pages(kind, *where, **how):
            yield page

    world.cluster.pages = pages_after_a_claim  # type: ignore[method-assign]
    [task] = two.cache.tasks()
    reads = Reads(world.cluster, two.cache, lambda: world.now)
    assert await reads.look(task) is None, "it is to look again"
    await two.settle()
    assert len(world.cluster.all(PODS)) == 1
    assert (world.status()["state"], world.status()["claimedBy"]) == ("Claimed", "one")


def test_a_placeholder_gives_the_claim_back_and_spends_nothing() -> None:
    placeholder = job(is_placeholder=True, suspend=True)
    action = decide(snapshot(FOREIGN, job=placeholder, live=live(placeholder)), NOW).action
    assert isinstance(action, WriteStatus)
    after = action.status
    assert (after.state, after.reason) == (State.PENDING, Reason.GIVEN_BACK)
    assert (after.claimed_by, after.claimed_at, after.start_failures, after.retry_count) == (None, None, 0, 0)
    assert after.message == "its claimer `another` is gone, and had made no Job"


async def test_a_claimer_who_comes_late_finds_the_name_taken() -> None:
    """Paused in the middle of its launch for so long that another took over: no second pod comes of it."""
    world = World()
    await world.submit()
    late = await world.operator("late")
    late.is_deaf = True
    uid = world.task()["metadata"]["uid"]
    await late.loop.step(uid)
    assert (world.status()["state"], world.jobs()) == ("Claimed", [])
    world.later(1)
    heir = await world.operator("heir")
    await heir.settle()
    await late.loop.step(uid)
    late.is_deaf = False
    await late.settle()
    world.make_pods()
    await heir.settle()
    assert (world.status()["attempt"], world.status()["claimedBy"]) == (2, "heir")
    assert len(world.jobs()) == 2
    assert len(world.cluster.all(PODS)) == 1


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(pod(PodPhase.RUNNING, started(), owner=None), id="nobody's"),
        pytest.param(pod(PodPhase.RUNNING, started(), owner="another-job"), id="another Job's"),
    ],
)
def test_a_pod_that_the_job_did_not_make_is_not_the_run(forged: Pod) -> None:
    """A label can be put on any pod, by anybody."""
    facts = {"job": job(), "live": live(job())}
    assert decide(snapshot(task(State.CLAIMED), forged, **facts), NOW).action == DeletePod(forged)


def test_a_forged_end_is_no_verdict() -> None:
    forged = pod(PodPhase.SUCCEEDED, owner=None)
    step = decide(snapshot(task(State.CLAIMED), forged, job=job()), NOW)
    assert step.action == Look()


def test_continue_is_launched_behind_a_shield() -> None:
    shy = task(State.CLAIMED, wants={"on_shutdown": OnShutdown.CONTINUE})
    assert decide(snapshot(shy), NOW).action == Shield()
    assert decide(snapshot(shy, is_shielded=True), NOW).action == CreateJob()
    labels = manifest.labels(shy)
    assert manifest.shield()["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_refusal_on_record_is_no_loss_for_whoever_wants_it_at_most_once() -> None:
    """It was answered with a no. Before it is asked for again that is taken back: then nobody knows any more."""
    once = {"retry": retry(infrastructure_limit=0)}
    old = task(State.CLAIMED, wants=once, reason=Reason.JOB_REFUSED, message="exceeded quota: q")
    placeholder = job(is_placeholder=True, suspend=True)
    action = decide(snapshot(old, acting_since=AFTER, job=placeholder), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.loss_count) == (State.PENDING, 0)
    assert str(action.status.message).endswith("and its Job had been refused: exceeded quota: q")
    refused = Refusal(malformed=False, message="exceeded quota: q", at=NOW - seconds(3600))
    action = decide(snapshot(old, acting_since=BEFORE, refusal=refused), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.CLAIMED, None)
    asking = task(State.CLAIMED, wants=once)
    assert decide(snapshot(asking, acting_since=BEFORE, refusal=refused), NOW).action == CreateJob()


def test_what_is_left_of_a_claim_whose_job_was_deleted_without_it_is_a_loss() -> None:
    """An init container may run in it. The reason is on record before the pod goes."""
    orphan = pod(PodPhase.PENDING, owner=None)
    claim = task(State.CLAIMED)
    assert decide(snapshot(claim, orphan), NOW).action == Look()
    action = decide(snapshot(claim, orphan, live=live(None)), NOW).action
    assert isinstance(action, WriteStatus)
    assert action.status.stop == Stop(StopReason.LOST, NOW)
    stopping = task(State.CLAIMED, stop=Stop(StopReason.LOST, NOW))
    assert decide(snapshot(stopping, orphan, live=live(None)), NOW).action == DeletePod(orphan)
    forged = pod(PodPhase.PENDING, owner=None, attempt=7)
    assert decide(snapshot(claim, forged, live=live(None)), NOW).action == DeletePod(forged)


async def test_whoever_is_told_to_end_makes_the_jobs_of_what_it_has_claimed_and_claims_no_more() -> None:
    world = World()
    for number in range(9):
        await world.submit(f"task-{number}")
    operator = await world.operator()
    for task_ in list(operator.cache.tasks())[:4]:
        await operator.loop.step(task_.uid)
    assert (
        len(world.jobs()),
        [each["status"]["state"] for each in world.cluster.all(TASKS)].count("Claimed"),
    ) == (0, 4)
    working = asyncio.create_task(operator.loop.run())
    closing = asyncio.create_task(operator.loop.close())
    await asyncio.sleep(0)
    await closing
    working.cancel()
    claimed = [
        each["metadata"]["name"] for each in world.cluster.all(TASKS) if each["status"]["state"] == "Claimed"
    ]
    assert len(claimed) == len(world.jobs()) < 9


async def test_an_end_waits_for_the_answers_that_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.submit()
    operator = await world.operator()
    create, is_asked = world.cluster.create, asyncio.Event()

    async def slowly(kind: Kind, namespace: str, obj: Json) -> Object:
        is_asked.set()
        await asyncio.sleep(0.2)
        return await create(kind, namespace, obj)

    monkeypatch.setattr(world.cluster, "create", slowly)
    working = asyncio.create_task(operator.loop.run())
    await is_asked.wait()
    await operator.loop.close()
    working.cancel()
    assert len(world.jobs()) == 1


@pytest.mark.parametrize("is_drained", [True, False])
async def test_whoever_is_told_to_end_sees_to_the_end_whose_pod_is_about_to_go(
    is_drained: bool,
) -> None:
    """A drain takes the operator along, and the pod with all that it tells is gone before another one comes."""
    world = World()
    await world.submit("drained")
    operator = await world.operator(look_around=seconds(0.1))
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    await world.submit("waits")
    working = asyncio.create_task(operator.loop.run())
    retiring = asyncio.create_task(operator.loop.retire())
    await asyncio.sleep(0.05)
    [pod] = world.cluster.all(PODS)
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    status = pod["status"] | {"conditions": [evicted]}
    if is_drained:
        world.cluster.put(PODS, pod | {"status": status})
    await asyncio.sleep(0.2)
    assert retiring.done() is not is_drained
    if is_drained:
        world.cluster.put(PODS, pod | {"status": status | {"phase": "Failed"}})
    async with asyncio.timeout(5):
        await retiring
    working.cancel()
    assert world.status("drained")["state"] == ("Pending" if is_drained else "Running")
    assert world.status("waits").get("attempt", 0) == 0, "it claims nothing more"
