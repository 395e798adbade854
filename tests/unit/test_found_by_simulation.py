"""Mistakes that random histories found, each as the one decision that was wrong."""

from typing import Any

import pytest

from taskyard.cluster import JOBS, PODS, TASKS
from taskyard.core import manifest
from taskyard.core.actions import Decision, SuspendJob, WriteStatus
from taskyard.core.decide import decide
from taskyard.core.model import Pod, Run
from taskyard.core.words import PodPhase, Reason, State, StopReason
from tests.unit.build import NOW, STARTED, ended, job, live, pod, seconds, snapshot, started, task
from tests.unit.world import World

ON_RECORD = Run(number=0, attempt=1, state=State.RUNNING, pod="hello-1-abcde", started_at=STARTED)


def test_a_timeout_is_not_slept_over_while_a_stray_is_stopped() -> None:
    """The run's own pod is gone, and another, forged, is on its way out: the clock of the run goes on."""
    running = task(State.RUNNING, wants={"timeout": seconds(600)}, runs=(ON_RECORD,), run_count=1)
    forged = pod(PodPhase.RUNNING, started(), name="forged", uid="forged", owner=None, deleting=True)
    found = snapshot(running, forged)
    strikes_at = STARTED + seconds(601)
    assert decide(found, NOW).wake_at == strikes_at
    action = decide(found, strikes_at).action
    assert isinstance(action, WriteStatus)
    assert action.status.stop is not None
    assert action.status.stop.reason is StopReason.TIMEOUT


def test_an_orphan_is_stopped() -> None:
    """Its Job was deleted and the pod left behind: nobody would take it back with its Task."""
    orphan = pod(PodPhase.RUNNING, started(), owner=None)
    running = task(State.RUNNING, runs=(ON_RECORD,), run_count=1)
    action = decide(snapshot(running, orphan, live=live(None)), NOW).action
    assert isinstance(action, WriteStatus)
    assert action.status.stop is not None
    assert action.status.stop.reason is StopReason.LOST


OWN = job(name=manifest.job_name(task(State.CLAIMED)))


@pytest.mark.parametrize("reason", [None, Reason.RETRY, Reason.GIVEN_BACK, Reason.RUN_LOST, Reason.DRAINED])
def test_a_job_that_was_made_late_makes_no_pod_beside_the_next(reason: Reason | None) -> None:
    """Its create had no answer, and nobody found it: the claim was given up, and then it arrived."""
    waiting = task(attempt=1, reason=reason)
    assert decide(snapshot(waiting, live=live(OWN)), NOW).action == SuspendJob(OWN)


@pytest.mark.parametrize(
    ("facts", "pods"),
    [
        pytest.param(
            {"suspend": True, "is_idle": True, "is_suspended": True}, (), id="it is at rest, and says so"
        ),
        pytest.param({"suspend": True, "is_placeholder": True}, (), id="it only holds its name"),
        pytest.param({"failed": True}, (), id="it is over"),
        pytest.param({"owner_uid": "another"}, (), id="it is somebody else's"),
        pytest.param({}, (pod(PodPhase.FAILED, ended(1)),), id="its pod is over, and is being counted"),
    ],
)
def test_a_job_that_makes_no_more_pods_is_left_alone(facts: dict[str, Any], pods: tuple[Pod, ...]) -> None:
    harmless = job(name=OWN.name, **facts)
    action = decide(snapshot(task(attempt=1, reason=Reason.RETRY), *pods, live=live(harmless)), NOW).action
    assert isinstance(action, WriteStatus)
    assert action.status.state is State.CLAIMED


def test_a_job_that_was_asked_to_rest_is_waited_for() -> None:
    """Its controller may not know yet, and make a pod beside that of the next attempt."""
    told = job(name=OWN.name, suspend=True)
    found = snapshot(task(attempt=1, reason=Reason.RETRY), live=live(told))
    assert decide(found, NOW) == Decision(wake_at=NOW + seconds(1))


def test_a_job_that_somebody_else_suspended_is_to_make_no_pod_when_he_resumes_it() -> None:
    theirs = job(name=OWN.name, suspend=True, is_suspended=True)
    found = snapshot(task(attempt=1, reason=Reason.RETRY), live=live(theirs))
    assert decide(found, NOW).action == SuspendJob(theirs)


def test_a_pod_that_is_removed_uncounted_leaves_a_job_that_makes_another() -> None:
    stripped = pod(PodPhase.FAILED, ended(1), gone=True)
    found = snapshot(task(attempt=1, reason=Reason.RETRY), stripped, live=live(OWN))
    assert decide(found, NOW).action == SuspendJob(OWN)


async def test_a_pod_whose_label_was_taken_is_asked_to_end_without_harm() -> None:
    """The answer to that write shows a pod of no task: it is out of sight, and its Job is asked instead."""
    world = World()
    await world.submit()
    operator = await world.operator()
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    operator.is_deaf = True
    for found in world.cluster.all(PODS):
        del found["metadata"]["labels"][manifest.LABEL_UID]
        world.cluster.put(PODS, found)
    cancelled = world.task()
    cancelled["spec"]["cancel"] = True
    world.cluster.put(TASKS, cancelled)
    operator.cache.see_task(world.task())
    await operator.settle()
    assert world.status()["stop"]["reason"] == "Cancelled"
    assert [each["spec"].get("suspend") for each in world.cluster.all(JOBS)] == [True]
