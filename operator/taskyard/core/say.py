"""How a decision is said: each function makes one, and none of them decides anything."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from taskyard.core import text
from taskyard.core.actions import Decision, WriteStatus
from taskyard.core.model import Snapshot, Status, Wait
from taskyard.core.words import Reason

NOTHING: Final = Decision()


def noted(snapshot: Snapshot, decision: Decision) -> Decision:
    """That decision; but where it is only to wait, an edit of the spec is noted."""
    return decision if decision.action is not None else acknowledge(snapshot, decision.wake_at)


def acknowledge(snapshot: Snapshot, wake_at: datetime | None = None) -> Decision:
    """Nothing to do, but an edit of the spec is noted: `kubectl wait` ignores a status that lags behind."""
    if snapshot.task.status.observed_generation != snapshot.task.generation:
        return write(snapshot, snapshot.task.status, wake_at)
    return Decision(wake_at=wake_at)


def explain(
    snapshot: Snapshot, reason: Reason | None, message: str | None, wake_at: datetime | None
) -> Decision:
    """Say in the status what the task waits for, or that it is nothing any more; once, not again and again."""
    status = snapshot.task.status
    # As it comes back, or it would differ for ever.
    message = None if message is None else text.cut(message)
    if (status.reason, status.message) == (reason, message):
        return acknowledge(snapshot, wake_at)
    waiting = (Wait(reason, message or ""),) if reason is not None else ()
    return write(snapshot, replace(status, reason=reason, message=message, waiting=waiting), wake_at)


def waits(snapshot: Snapshot, waiting: tuple[Wait, ...], wake_at: datetime | None) -> Decision:
    """Say just what is waited for, beside a reason that stands; once, not again and again."""
    status = snapshot.task.status
    if status.waiting == waiting:
        return Decision(wake_at=wake_at)
    return write(snapshot, replace(status, waiting=waiting), wake_at)


def write(snapshot: Snapshot, status: Status, wake_at: datetime | None = None) -> Decision:
    """This status, said to be derived from the spec of now."""
    task = snapshot.task
    status = replace(status, observed_generation=task.generation, observed_rerun=task.spec.rerun)
    return Decision(WriteStatus(status), wake_at)
