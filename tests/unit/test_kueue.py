"""Jobs that Kueue holds: queued and not stale; and one that it suspends after its start is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskyard.cluster import JOBS, PODS, TASKS
from tests.unit.contract import new_task
from tests.unit.world import NAMESPACE, Operator, World

LABELS = {"kueue.x-k8s.io/queue-name": "team-a", "kueue.x-k8s.io/priority-class": "high", "other": "label"}


async def submitted(**spec: Any) -> tuple[World, Operator]:
    world = World()
    task = new_task("hello", NAMESPACE)
    task["metadata"]["labels"] = LABELS
    await world.cluster.create(TASKS, NAMESPACE, task | {"spec": task["spec"] | spec})
    operator = await world.operator()
    await operator.settle()
    return world, operator


def only_job(world: World) -> dict[str, Any]:
    [job] = world.cluster.all(JOBS)
    return dict(job)


async def later(world: World, operator: Operator, seconds: float) -> None:
    world.later(seconds)
    operator.mark_all()
    await operator.settle()


def let_go(world: World) -> None:
    """As Kueue does when there is quota."""
    job = only_job(world)
    started = {"startTime": world.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
    world.cluster.put(JOBS, job | {"spec": job["spec"] | {"suspend": False}, "status": started})


def suspend(world: World) -> None:
    """As Kueue does to make room; the Job's controller then deletes the pod."""
    job = only_job(world)
    status = {"conditions": [{"type": "Suspended", "status": "True"}]}
    world.cluster.put(JOBS, job | {"spec": job["spec"] | {"suspend": True}, "status": status})


async def test_an_empty_name_of_a_queue_is_none_to_kueue() -> None:
    world = World()
    task = new_task("hello", NAMESPACE)
    task["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": ""}
    await world.cluster.create(TASKS, NAMESPACE, task)
    await (await world.operator()).settle()
    assert not only_job(world)["spec"].get("suspend", False)


async def test_a_job_that_kueue_holds_is_queued_and_no_clock_of_a_start_runs() -> None:
    world, operator = await submitted(scheduleTimeoutSeconds=10, startLimit=1)
    job = only_job(world)
    assert job["spec"]["suspend"] is True
    assert {key: job["metadata"]["labels"].get(key) for key in LABELS} == LABELS | {"other": None}
    status = world.status()
    assert (status["state"], status["reason"]) == ("Claimed", "JobSuspended")
    assert [each["reason"] for each in status["waiting"]] == ["JobSuspended"]
    assert "until Kueue lets it go from its queue `team-a`" in status["message"]
    await later(world, operator, 3600)
    assert (world.status()["state"], world.status()["reason"]) == ("Claimed", "JobSuspended")
    let_go(world)
    await later(world, operator, 9)
    assert world.status()["state"] == "Claimed", "its time counts from here"
    await later(world, operator, 300)
    assert (world.status()["state"], world.status()["reason"]) == ("Exception", "StartFailed")
    assert "no pod was made within 10 s" in world.status()["message"]


async def test_one_that_is_let_go_runs() -> None:
    world, operator = await submitted()
    let_go(world)
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    assert world.status()["state"] == "Running"
    world.pod_ends()
    await operator.settle()
    assert world.status()["state"] == "Completed"


async def test_one_that_is_suspended_while_it_runs_was_preempted_and_its_job_goes_before_the_next() -> None:
    world, operator = await submitted()
    let_go(world)
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    suspend(world)
    [pod] = world.cluster.all(PODS)
    metadata = pod["metadata"] | {
        "deletionTimestamp": "2026-01-01T00:01:05Z",
        "deletionGracePeriodSeconds": 5,
    }
    ended = {"exitCode": 143, "startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T00:01:02Z"}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
    world.cluster.put(PODS, pod | {"metadata": metadata, "status": status})
    await operator.settle()
    [run] = world.status()["runs"]
    assert (run["state"], run["reason"]) == ("Exception", "WorkerLost")
    assert run["message"] == "preempted: its Job was suspended while it ran"
    world.remove_pods()
    await later(world, operator, 2)
    jobs = [each["metadata"]["name"][-1] for each in world.cluster.all(JOBS)]
    assert jobs == ["2"], "the one before is gone, so that nobody resumes it"
    assert (world.status()["state"], world.status()["lossCount"], world.status()["retryCount"]) == (
        "Claimed",
        1,
        0,
    )


async def test_one_that_is_cancelled_while_kueue_holds_it_leaves_nothing_to_be_let_go() -> None:
    world, operator = await submitted()
    world.set_job_status(conditions=[{"type": "Suspended", "status": "True"}])
    world.edit_spec("hello", cancel=True)
    await operator.settle()
    await later(world, operator, 5)
    assert world.status()["state"] == "Cancelled"
    assert not any(
        "kueue.x-k8s.io/queue-name" in job["metadata"]["labels"] for job in world.cluster.all(JOBS)
    )


def without_node(pod: dict[str, Any]) -> dict[str, Any]:
    return pod | {"spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}


def never_started(pod: dict[str, Any]) -> dict[str, Any]:
    """As a kubelet says of a container that it had no time to start: it ended, with a code that is made up."""
    ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
    metadata = pod["metadata"] | {"deletionTimestamp": "2026-01-01T00:01:05Z"}
    return pod | {"metadata": metadata, "status": status}


@pytest.mark.parametrize("last_seen", [without_node, never_started])
async def test_what_kueue_takes_back_before_it_has_started_costs_nothing_however_often(
    last_seen: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """And its Job goes: resumed it would make a second pod."""
    world, operator = await submitted(retry={"infrastructureLimit": 0}, startLimit=1)
    for number in (1, 2, 3):
        let_go(world)
        world.make_pods()
        [pod] = world.cluster.all(PODS)
        await operator.settle()
        suspend(world)
        world.cluster.put(PODS, last_seen(pod))
        await operator.settle()
        world.remove_pods()
        await operator.settle()
        status = world.status()
        assert (status["state"], status["reason"]) == ("Delayed", "GivenBack")
        assert status["message"] == "its Job was suspended by Kueue before it had started"
        assert (status["runCount"], status["lossCount"], status["startFailures"]) == (0, 0, 0)
        assert world.jobs() == []
        await later(world, operator, 11)
        assert (world.status()["state"], world.status()["attempt"]) == ("Claimed", number + 1)


async def test_what_may_have_run_unseen_when_kueue_took_it_back_was_preempted() -> None:
    world, operator = await submitted()
    let_go(world)
    world.make_pods()
    await operator.settle()
    suspend(world)
    world.remove_pods()
    await operator.settle()
    [run] = world.status()["runs"]
    assert (run["reason"], world.status()["lossCount"]) == ("WorkerLost", 1)
    assert run["message"] == "preempted: its Job was suspended, and some code of it may have run"


async def test_a_preempted_run_leaves_nothing_to_be_resumed_while_its_task_waits() -> None:
    world, operator = await submitted()
    let_go(world)
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.edit_spec("hello", suspend=True)
    suspend(world)
    world.remove_pods()
    await operator.settle()
    await later(world, operator, 5)
    assert world.status()["state"] == "Unscheduled"
    assert world.cluster.all(JOBS) == []


async def test_a_job_that_was_let_go_a_moment_ago_is_not_late() -> None:
    world, operator = await submitted(scheduleTimeoutSeconds=10, startLimit=1)
    await later(world, operator, 3600)
    job = only_job(world)
    world.cluster.put(JOBS, job | {"spec": job["spec"] | {"suspend": False}})
    await later(world, operator, 1)
    assert (world.status()["state"], "stop" in world.status()) == ("Claimed", False)


async def test_a_pod_without_a_node_is_taken_back_with_its_job() -> None:
    """Suspended, Kueue would resume it at once."""
    world, operator = await submitted()
    let_go(world)
    world.make_pods()
    [pod] = world.cluster.all(PODS)
    world.cluster.put(PODS, without_node(pod))
    await operator.settle()
    world.edit_spec("hello", cancel=True)
    await operator.settle()
    assert not any(
        "kueue.x-k8s.io/queue-name" in job["metadata"]["labels"] for job in world.cluster.all(JOBS)
    )
