"""Stopping a run without losing its evidence: why, and then how.

First the reason goes into the status. Then, for a pod that has a node, its own time limit is lowered to the
least: the kubelet sends SIGTERM, SIGKILL after the grace period, and the pod stays, with exit code and logs.
That does not hold a pod without a node: there the Job is suspended, which takes the pod back, and deleted
when it says that nothing of it is left.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from taskyard.core import clocks, text, verdict
from taskyard.core.model import (
    Decision,
    DeleteJob,
    DeletePod,
    EndPod,
    Look,
    Pod,
    Snapshot,
    Status,
    Stop,
    SuspendJob,
    Task,
)
from taskyard.core.words import Reason, State, StopReason

SHORTEST_LIMIT: Final = 1
"""Seconds; a pod's time limit may be lowered, never raised or made 0."""

FIRST_LOOK: Final = timedelta(seconds=1)
LONGEST_WAIT_FOR_A_LOOK: Final = timedelta(minutes=1)

PATIENCE: Final = timedelta(seconds=30)
"""Beyond its grace period, for a pod to end after its task's deadline. Then the task is resolved all the same."""

LINGERING: Final = "the main container has ended, and others linger"

Why = tuple[StopReason, str]


def why(task: Task, pod: Pod | None, now: datetime) -> Why | None:
    """Whether the current attempt must be stopped now, and for what reason: the most final one first."""
    is_too_late = clocks.has_struck(clocks.deadline(task), now)
    if pod is not None and (ended := clocks.linger_until(task, pod)) is not None:
        is_due = task.spec.cancel or is_too_late or now >= ended
        return (StopReason.MAIN_CONTAINER_ENDED, LINGERING) if is_due else None
    if task.spec.cancel:
        return StopReason.CANCELLED, "`cancel` is set"
    if is_too_late:
        return StopReason.DEADLINE_EXCEEDED, "its `deadline` has passed"
    if pod is None or not pod.has_started:
        return _why_not_started(task, pod, now)
    started_at = verdict.main_started_at(pod, task.spec.main_container)
    if started_at is None:
        return _why_not_begun(task, pod, now)
    if task.status.state is State.CLAIMED and clocks.has_struck(clocks.good_until(task), started_at):
        return StopReason.EXPIRED, "it started after its `goodUntil`"
    if clocks.has_struck(clocks.timeout_at(task, started_at), now):
        return StopReason.TIMEOUT, "its `timeoutSeconds` have passed"
    return None


def strikes(task: Task, pod: Pod | None) -> tuple[datetime | None, ...]:
    """Every moment at which `why` may answer otherwise."""
    if pod is None or pod.node is None:
        return clocks.deadline(task), clocks.good_until(task), clocks.schedule_by(task)
    started_at = verdict.main_started_at(pod, task.spec.main_container)
    if started_at is None:
        return clocks.deadline(task), clocks.good_until(task), clocks.start_by(task, pod)
    return clocks.deadline(task), clocks.timeout_at(task, started_at), clocks.linger_until(task, pod)


def _why_not_started(task: Task, pod: Pod | None, now: datetime) -> Why | None:
    hindrance = pod.hindrance if pod is not None else None
    if hindrance is not None and hindrance.is_final:
        return StopReason.MALFORMED_PAYLOAD, hindrance.message
    return _why_not_begun(task, pod, now)


def _why_not_begun(task: Task, pod: Pod | None, now: datetime) -> Why | None:
    if clocks.has_struck(clocks.good_until(task), now):
        return StopReason.EXPIRED, "its `goodUntil` has passed"
    hindrance = pod.hindrance if pod is not None else None
    said = f": {hindrance.message}" if hindrance is not None else _said_before(task.status)
    if pod is None or pod.node is None:
        if not clocks.has_struck(clocks.schedule_by(task), now):
            return None
        waited = f"no node was found within {task.spec.schedule_timeout.total_seconds():.0f} s{said}"
        lacks_room = hindrance is not None and hindrance.is_capacity
        return (StopReason.NO_CAPACITY if lacks_room else StopReason.SCHEDULE_TIMEOUT), waited
    if clocks.has_struck(clocks.start_by(task, pod), now):
        waited = f"the container had not started within {task.spec.start_timeout.total_seconds():.0f} s{said}"
        return StopReason.START_TIMEOUT, waited
    return None


def _said_before(status: Status) -> str:
    """What the status says of the claim that is given back: the cluster's own words, read a moment ago."""
    return f": {status.message}" if status.message else ""


def requested(status: Status, reason: StopReason, message: str, now: datetime) -> Status:
    """The reason, on record before anything is stopped."""
    said = message if reason in KEEPS_ITS_WORDS else f"stopping: {message}"
    stop = Stop(reason, now)
    return replace(status, reason=Reason.STOPPING, message=text.cut(said), stop=stop, waiting=())


KEEPS_ITS_WORDS: Final = frozenset(
    {
        StopReason.MALFORMED_PAYLOAD,
        StopReason.SCHEDULE_TIMEOUT,
        StopReason.NO_CAPACITY,
        StopReason.START_TIMEOUT,
    }
)
"""Whose message in the status becomes the message of the verdict."""


def of_pod(snapshot: Snapshot, pod: Pod, now: datetime) -> Decision:
    """The next step towards the end of a pod that lives."""
    if pod.deleting:
        return Decision(wake_at=given_up_at(snapshot.task))
    if pod.node is not None:
        is_asked = pod.active_deadline == SHORTEST_LIMIT
        return Decision(wake_at=given_up_at(snapshot.task)) if is_asked else Decision(EndPod(pod))
    if snapshot.live is None:
        return Decision(Look())
    job = snapshot.live.job
    if job is None or not job.belongs_to(snapshot.task) or job.is_over:
        return Decision(DeletePod(pod))  # nobody else will: its Job is gone, or does not count it any more
    if not job.suspend:
        return Decision(SuspendJob(job))
    return Decision(wake_at=next_look(snapshot.task, now))


def of_job(snapshot: Snapshot, now: datetime) -> Decision | None:
    """The next step towards the end of a Job without a pod; None when there is nothing left of it."""
    assert snapshot.live is not None
    job = snapshot.live.job
    if job is None or not job.belongs_to(snapshot.task) or job.is_over:
        return None
    if not job.suspend:
        return Decision(SuspendJob(job))
    if not job.is_suspended:
        return Decision(wake_at=next_look(snapshot.task, now))
    return Decision(DeleteJob(job))


def next_look(task: Task, now: datetime) -> datetime:
    """When to ask again whether a suspended Job has let its pod go: after 1 s, then whenever the wait has doubled."""
    assert task.status.stop is not None
    waited = now - task.status.stop.requested_at
    return now + min(max(waited, FIRST_LOOK), LONGEST_WAIT_FOR_A_LOOK)


def given_up_at(task: Task) -> datetime | None:
    """When a task past its deadline is resolved, even though its pod does not end: its node may never return."""
    stop = task.status.stop
    if stop is None or stop.reason is not StopReason.DEADLINE_EXCEEDED:
        return None
    return stop.requested_at + task.spec.grace + PATIENCE
