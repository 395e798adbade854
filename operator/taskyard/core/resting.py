"""What is still to come of a task that is resolved: its log, another run, the end of its time to live."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from taskyard.core import clocks, dependencies, logs, say
from taskyard.core.actions import Decision, DeleteTask, ReadLog
from taskyard.core.model import Job, Snapshot, Status, Task
from taskyard.core.words import State

KEPT_FOR_OTHERS: Final = timedelta(minutes=1)
"""How long a Task may outlive its time to live, until all that wait for it have put its end on record."""

ASK_OTHERS_AGAIN_AFTER: Final = timedelta(seconds=1)


def of_resolved(snapshot: Snapshot, now: datetime) -> Decision:
    """Resolved: only a rerun leads out, and the time to live ends it."""
    task = snapshot.task
    if task.deleting:
        return say.NOTHING
    if task.spec.rerun > task.status.observed_rerun:
        return say.write(snapshot, run_again(snapshot, now))
    if logs.is_awaited(task.spec, task.status):
        return keep_log(snapshot)
    delete_at = clocks.delete_at(task)
    if delete_at is None or now < delete_at:
        return say.acknowledge(snapshot, wake_at=delete_at)
    if snapshot.is_awaited and now < delete_at + KEPT_FOR_OTHERS:
        return Decision(wake_at=now + ASK_OTHERS_AGAIN_AFTER)
    return Decision(DeleteTask())


def keep_log(snapshot: Snapshot) -> Decision:
    """A success has its verdict already; now there is time for its log."""
    status = snapshot.task.status
    if snapshot.log is None:
        return Decision(ReadLog(str(logs.pod_of(status))))
    return say.write(snapshot, replace(status, log_tail=snapshot.log.tail))


def run_again(snapshot: Snapshot, now: datetime) -> Status:
    """As new, but for its identity, its history, what it is made of, and dependencies that ended as they must."""
    status = snapshot.task.status
    return Status(
        state=State.PENDING,
        run=status.run + (status.recorded_run is not None),
        attempt=status.attempt,
        run_count=status.run_count,
        submitted_at=status.submitted_at,
        rerun_at=now,
        dependencies=dependencies.kept(snapshot),
        definition=status.definition,
        runs=status.runs,
    )


def may_lose(task: Task, job: Job, kept_for: timedelta, now: datetime) -> bool:
    """Whether a Job of a resolved task is needed no more, and its pod neither: all that they tell is in the status.

    What is known of the Task may be old. A Job of a later attempt than it knows is that of a rerun, and at work.
    """
    status = task.status
    is_settled = task.spec.rerun <= status.observed_rerun and not logs.is_awaited(task.spec, status)
    is_known = job.attempt is not None and job.attempt <= status.attempt
    if not (status.state.is_terminal and is_settled and is_known) or job.deleting:
        return False
    return status.completed_at is not None and status.completed_at + kept_for <= now
