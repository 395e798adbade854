"""Ends that are refused: the user is told by whom and why, and they are asked for again, less and less often."""

from dataclasses import replace
from datetime import datetime

from taskyard.core import clocks, say, text
from taskyard.core.actions import Decision, DeleteJob, DeletePod, EndPod, SuspendJob
from taskyard.core.model import Snapshot, Wait
from taskyard.core.words import ACTIVE_STATES, Reason


def is_denied(snapshot: Snapshot, what: str, now: datetime) -> bool:
    """Whether it was refused a moment ago to end this."""
    denial = snapshot.denial
    return denial is not None and denial.what == what and now < denial.until


def in_place_of(decision: Decision, snapshot: Snapshot, now: datetime) -> Decision:
    """That decision; but where just that was refused, its user is told, and time passes."""
    denial = snapshot.denial
    if denial is None or now >= denial.until:
        return decision
    if what_ends(decision) != denial.what:
        return replace(decision, wake_at=clocks.next_of(now, (decision.wake_at, denial.until)))
    status = snapshot.task.status
    said = f"`{denial.what}` may not be ended: "
    # A webhook may put it in other words each time.
    is_told = any(each.message.startswith(said) for each in status.waiting)
    if status.state not in ACTIVE_STATES or is_told:
        return Decision(wake_at=denial.until)
    return say.waits(snapshot, (Wait(Reason.STOPPING, text.cut(said + denial.message)),), denial.until)


def what_ends(decision: Decision) -> str | None:
    """The name of what this decision would end."""
    match decision.action:
        case EndPod(pod=pod) | DeletePod(pod=pod):
            return pod.name
        case SuspendJob(job=job) | DeleteJob(job=job):
            return job.name
        case _:
            return None
