"""The operator against the fake cluster: whole lives of Tasks, and what interrupts them."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from taskyard import loop as loop_module
from taskyard import writes as writes_module
from taskyard.cluster import EVENTS, JOBS, PODS, TASKS, Conflict, Kind, Rejected, Unavailable
from taskyard.core import manifest, parse
from taskyard.watch import Watch
from tests.unit.world import NAMESPACE, Operator, World, running

WRITES = {"create", "patch", "patch_status", "delete"}
NO_LOSS: dict[str, Any] = {"infrastructureLimit": 0}


class Crash(BaseException):
    """The operator's process dies here; no `except` of its own may notice."""


async def carry_through(world: World, operator: Operator, code: int = 0) -> None:
    await operator.settle()
    world.make_pods()
    await operator.settle()
    world.pod_runs()
    await operator.settle()
    world.pod_ends(code)
    await operator.settle()


def writes(world: World) -> list[tuple[str, str]]:
    return [call for call in world.cluster.calls if call[0] in WRITES]


async def test_a_task_goes_from_pending_to_completed() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    assert world.status()["state"] == "Claimed"
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    assert world.status()["state"] == "Running"
    world.pod_ends()
    await operator.settle()
    assert world.status()["state"] == "Completed"
    assert world.status()["runs"][0]["exitCode"] == 0


async def test_a_task_that_exits_3_fails_with_the_evidence() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await carry_through(world, operator, code=3)
    status = world.status()
    assert (status["state"], status["reason"], status["runs"][0]["exitCode"]) == ("Failed", "ExitCode", 3)


async def test_the_log_of_a_failure_is_kept_and_one_that_cannot_be_read_is_not_waited_for() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("told")
    await world.submit("untold")
    await operator.settle()
    world.make_pods()
    names = [each["metadata"]["name"] for each in world.cluster.all(PODS)]
    (told,) = (name for name in names if name.startswith("told"))
    world.cluster.logs[told] = "last words"

    def refuse(verb: str, kind: Kind) -> None:
        if verb == "read_log" and world.status("told")["state"] == "Failed":
            raise Unavailable("the kubelet does not answer")

    world.cluster.before_call = refuse
    world.pod_ends(3)
    await operator.settle()
    assert (world.status("told")["state"], world.status("told")["logTail"]) == ("Failed", "last words")
    assert (world.status("untold")["state"], world.status("untold")["logTail"]) == ("Failed", "")


async def test_the_log_of_a_success_is_kept_when_asked_for() -> None:
    world = World()
    operator = await world.operator()
    await world.submit(logs="Always")
    await operator.settle()
    world.make_pods()
    world.cluster.logs[world.cluster.all(PODS)[0]["metadata"]["name"]] = "all is well"
    world.pod_ends()
    await operator.settle()
    assert (world.status()["state"], world.status()["logTail"]) == ("Completed", "all is well")


async def test_a_whole_life_costs_four_writes_and_no_read() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    world.cluster.calls.clear()
    await carry_through(world, operator)
    assert world.cluster.calls == [
        ("patch_status", "tasks"),
        ("create", "jobs"),
        ("patch_status", "tasks"),
        ("patch_status", "tasks"),
    ]


async def test_deciding_again_about_everything_writes_nothing() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    events: list[Callable[[], Any]] = [lambda: None, world.make_pods, world.pod_runs, world.pod_ends]
    for happens in events:
        happens()
        await operator.settle()
        before = writes(world)
        operator.mark_all()
        await operator.settle()
        assert writes(world) == before


async def test_a_claim_that_meets_an_edit_looks_again_and_claims() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    operator.is_deaf = True
    world.edit_task(labels={"edited": "meanwhile"})
    await operator.settle()
    assert (world.status()["state"], world.status()["attempt"]) == ("Claimed", 1)
    assert len(world.jobs()) == 1


async def test_of_two_operators_one_claims_and_the_other_sees_it() -> None:
    world = World()
    await world.submit()
    first, second = await world.operator("op-1"), await world.operator("op-2")
    second.is_deaf = True
    await first.settle()
    await second.settle()
    assert (world.status()["claimedBy"], world.status()["attempt"]) == ("op-1", 1)
    assert len(world.jobs()) == 1


async def test_a_task_that_is_being_deleted_is_not_claimed() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    operator.is_deaf = True
    world.edit_task(deletionTimestamp="2026-01-01T00:00:20Z")
    await operator.settle()
    assert (world.status()["state"], world.status()["reason"]) == ("Unscheduled", "BeingDeleted")


async def test_a_deleted_task_is_forgotten_after_a_live_read() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "hello")
    await operator.settle()
    assert list(operator.cache.tasks()) == []


async def test_a_deletion_that_did_not_happen_is_not_believed() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    operator.cache.miss_task(world.task()["metadata"]["uid"])
    await operator.settle()
    assert len(list(operator.cache.tasks())) == 1
    assert ("get", "tasks") in world.cluster.calls


async def test_a_task_recreated_under_its_name_is_another_task() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await carry_through(world, operator)
    world.cluster.remove(TASKS, NAMESPACE, "hello")
    await world.submit()
    await operator.settle()
    assert world.status()["state"] == "Claimed"
    assert len(set(world.jobs())) == 2


async def test_a_pod_that_vanishes_is_a_loss_only_after_a_live_look() -> None:
    world = World()
    operator = await world.operator()
    await world.submit(retry=NO_LOSS)
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.remove_pods()
    await operator.settle()
    assert ("list", "pods") in world.cluster.calls
    assert world.status()["stop"]["reason"] == "Lost"
    await world.let_jobs_rest(operator)
    assert (world.status()["state"], world.status()["reason"]) == ("Exception", "WorkerLost")


async def test_a_pod_that_is_wrongly_said_to_be_gone_runs_on() -> None:
    world, operator = await running()
    for pod in list(operator.cache.pods()):
        operator.cache.miss_pod(pod)
    await operator.settle()
    assert world.status()["state"] == "Running"


async def test_pod_gone_and_job_complete_is_completed_with_an_unknown_result() -> None:
    world, operator = await running()
    operator.is_deaf = True
    world.pod_ends()
    world.set_job_status(succeeded=1)
    world.remove_pods()
    restarted = await world.operator()
    await restarted.settle()
    assert (world.status()["state"], world.status()["reason"]) == ("Completed", "ResultUnknown")


async def test_a_pod_of_another_attempt_is_stopped() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    world.make_pods()
    old = world.cluster.all(PODS)[0]
    labels = old["metadata"]["labels"] | {"taskyard.dev/attempt": "7"}
    world.cluster.put(
        PODS, old | {"metadata": old["metadata"] | {"name": "stray", "uid": "stray", "labels": labels}}
    )
    await operator.settle()
    deleting = {
        each["metadata"]["name"]
        for each in world.cluster.all(PODS)
        if "deletionTimestamp" in each["metadata"]
    }
    assert deleting == {"stray"}
    assert world.cluster.calls.count(("delete", "pods")) == 1


async def test_a_look_asks_for_the_job_of_the_attempt_that_it_finds() -> None:
    world, operator = await running()
    operator.is_deaf = True
    world.set_job_status(succeeded=1)
    world.remove_pods()
    task = world.task()
    world.cluster.put(
        TASKS, task | {"status": task["status"] | {"attempt": 2, "state": "Claimed", "runs": []}}
    )
    await Watch(world.cluster, operator.cache, []).list_everything()
    await operator.settle()
    assert (world.status()["state"], world.status()["attempt"]) == ("Claimed", 2)
    assert len(world.jobs()) == 2


async def test_a_foreign_job_is_shown_and_waited_out() -> None:
    world = World()
    await world.submit()
    operator = await world.operator()

    def somebody_is_faster(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("patch_status", TASKS):
            world.cluster.after_call = lambda verb, kind: None
            name = _job_name(world)
            metadata = {"name": name, "namespace": NAMESPACE, "uid": "foreign"}
            world.cluster.put(JOBS, {"metadata": metadata})

    world.cluster.after_call = somebody_is_faster
    await operator.settle()
    assert (world.status()["state"], world.status()["reason"]) == ("Claimed", "JobNameTaken")
    world.cluster.remove(JOBS, NAMESPACE, world.jobs()[0])
    world.later(120)
    operator.mark_all()
    await operator.settle()
    await carry_through(world, operator)
    assert (world.status()["state"], world.status().get("reason")) == ("Completed", None)


@pytest.mark.parametrize(
    ("malformed", "state", "reason"),
    [
        pytest.param(True, "Exception", "MalformedPayload", id="a Job that can never be made ends the task"),
        pytest.param(False, "Claimed", "JobRefused", id="a Job that is refused for now is tried again"),
    ],
)
async def test_a_refused_job(malformed: bool, state: str, reason: str) -> None:
    world = World()
    operator = await world.operator()
    await world.submit()

    def refuse(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("create", JOBS):
            raise Rejected("no", malformed=malformed)

    world.cluster.before_call = refuse
    await operator.settle()
    assert (world.status()["state"], world.status()["reason"]) == (state, reason)
    world.cluster.before_call = lambda verb, kind: None
    world.later(11)
    operator.mark_all()
    await operator.settle()
    assert len(world.jobs()) == (0 if malformed else 1)


async def test_after_a_slow_create_the_task_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes_module, "SLOW_CREATE", -1.0)
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    calls = world.cluster.calls
    assert ("get", "tasks") in calls[calls.index(("create", "jobs")) :]


def crash_at(number: int, when: str) -> Callable[[World], None]:
    """Let the operator die at its n-th write: just before it reaches the cluster, or just after."""

    def arm(world: World) -> None:
        count = 0

        def maybe(verb: str, kind: Kind) -> None:
            nonlocal count
            if verb in WRITES:
                count += 1
                if count == number:
                    raise Crash

        if when == "before":
            world.cluster.before_call = maybe
        else:
            world.cluster.after_call = maybe

    return arm


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("heir", ["op-1", "op-2"])
async def test_killed_at_any_write_a_new_operator_goes_on(
    number: int, when: str, code: int, heir: str
) -> None:
    """As itself, started again, or as another. The one difference is a claim without a Job: another gives it back."""
    world = World()
    await world.submit()
    crash_at(number, when)(world)
    lives = 1
    operator = await world.operator("op-1")
    events: list[Callable[[], Any]] = [
        lambda: None,
        world.make_pods,
        world.pod_runs,
        lambda: world.pod_ends(code),
    ]
    for happens in events:
        happens()
        try:
            await operator.settle()
        except Crash:
            world.cluster.unwatch()
            lives += 1
            world.later(1)
            operator = await world.operator(heir)
            await operator.settle()
    status = world.status()
    assert lives == 2
    assert status["state"] == ("Failed" if code else "Completed")
    is_given_back = heir != "op-1" and (number, when) in {(1, "after"), (2, "before")}
    attempts = 2 if is_given_back else 1
    assert (status["attempt"], status["runCount"], len(status["runs"])) == (attempts, 1, 1)
    assert status["runs"][0]["exitCode"] == code
    assert len(world.jobs()) == attempts
    assert len(world.cluster.all(PODS)) == 1


async def test_a_pod_that_ended_while_nobody_looked_is_judged_at_the_start() -> None:
    world = World()
    await world.submit()
    first = await world.operator()
    await first.settle()
    world.cluster.unwatch()
    world.make_pods()
    world.pod_ends(3)
    second = await world.operator("op-2")
    await second.settle()
    assert world.status()["state"] == "Failed"


async def test_one_bad_key_stops_nobody_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "FIRST_BACKOFF", 0.01)
    world = World()
    await world.submit("bad")
    await world.submit("good")
    operator = await world.operator()
    bad, failures = (
        world.task("bad")["metadata"]["uid"],
        iter([RuntimeError("bug"), Unavailable("busy"), None]),
    )
    step = operator.loop.step

    async def sometimes(uid: str) -> None:
        if uid == bad and (failure := next(failures, None)) is not None:
            raise failure
        await step(uid)

    monkeypatch.setattr(operator.loop, "step", sometimes)
    running = asyncio.create_task(operator.loop.run())
    async with asyncio.timeout(5):
        await until(lambda: world.status("bad").get("state") == "Claimed" and len(world.jobs()) == 2)
    running.cancel()
    assert world.status("good")["state"] == "Claimed"


async def test_the_workers_carry_many_tasks_and_each_once() -> None:
    world = World()
    for number in range(100):
        await world.submit(f"task-{number}")
    operator = await world.operator()
    running = asyncio.create_task(operator.loop.run())
    async with asyncio.timeout(10):
        await until(lambda: len(world.jobs()) == 100)
        world.make_pods()
        world.pod_ends()
        await until(lambda: all(each["status"]["state"] == "Completed" for each in world.cluster.all(TASKS)))
    running.cancel()
    assert {each["status"]["attempt"] for each in world.cluster.all(TASKS)} == {1}


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the fake has no event for everything
        await asyncio.sleep(0.01)


def _job_name(world: World) -> str:
    return manifest.job_name(parse.task(world.task()))


async def test_an_object_that_makes_no_sense_stops_nobody() -> None:
    world = World()
    await world.submit("bogus")
    await world.submit("fine")
    world.cluster.put(TASKS, world.task("bogus") | {"status": {"state": "OfALaterVersion"}})
    operator = await world.operator()
    await operator.settle()
    assert world.status("fine")["state"] == "Claimed"
    assert world.status("bogus")["state"] == "OfALaterVersion"


async def test_a_conflict_that_does_not_pass_is_not_fought_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.submit()
    operator = await world.operator()

    async def conflict(*_: Any) -> Any:
        raise Conflict("somebody is faster")

    monkeypatch.setattr(world.cluster, "patch_status", conflict)
    with pytest.raises(Unavailable, match="changes faster"):
        await operator.settle()


async def test_why_a_job_has_no_pod_is_read_from_its_events() -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    (job,) = world.cluster.all(JOBS)
    about = {"uid": job["metadata"]["uid"]}
    metadata = {"name": "e", "namespace": NAMESPACE, "uid": "e"}
    event = {
        "metadata": metadata,
        "involvedObject": about,
        "reason": "FailedCreate",
        "message": "exceeded quota: q",
    }
    world.cluster.put(EVENTS, event)
    world.later(6)
    operator.mark_all()
    await operator.settle()
    assert (world.status()["reason"], world.status()["message"]) == ("QuotaExceeded", "exceeded quota: q")


async def test_whoever_is_claimed_has_its_job_before_the_next_one_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many wait for a worker: what a crash in between can cost is a claim for each worker, and not for all."""
    monkeypatch.setattr(loop_module, "WORKERS", 1)
    world = World()
    for number in range(5):
        await world.submit(f"task-{number}")
    operator = await world.operator()
    running = asyncio.create_task(operator.loop.run())
    async with asyncio.timeout(5):
        await until(lambda: len(world.jobs()) == 5)
    running.cancel()
    assert [verb for verb, kind in writes(world) if kind in {"tasks", "jobs"}][-10:] == [
        "patch_status",
        "create",
    ] * 5
