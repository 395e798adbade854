"""What a person should notice, as a Kubernetes Event: retries, losses, refusals, an unsuccessful end.

Nothing on the happy path, and nothing terminal before the end. Reasons are constants; names are fixed, so
that an announcement made twice is one Event.
"""

import hashlib
from datetime import datetime
from typing import Any, Final

from taskyard.core import clocks
from taskyard.core.manifest import API_VERSION
from taskyard.core.model import Status, Task
from taskyard.core.text import cut
from taskyard.core.words import ACTIVE_STATES, Reason, State

REPORTER: Final = "taskyard"
MESSAGE_LIMIT: Final = 1024
"""Of an Event's message, as the API server has it."""

NAME_LIMIT: Final = 253

REQUEUED: Final = {
    Reason.RETRY: "Retrying",
    Reason.RETRY_DELAY: "Retrying",
    Reason.RUN_LOST: "RunLost",
    Reason.DRAINED: "RunDrained",
    Reason.GIVEN_BACK: "ClaimGivenBack",
}
REFUSED: Final = {Reason.JOB_REFUSED: "JobRefused", Reason.JOB_NAME_TAKEN: "JobNameTaken"}


def reason_for(before: Status, after: Status) -> str | None:
    """The reason of the Event that this step deserves, if any."""
    if after.state.is_terminal:
        is_news = not before.state.is_terminal and after.state is not State.COMPLETED
        return f"Task{after.state}" if is_news else None
    if before.state in ACTIVE_STATES and after.state not in ACTIVE_STATES:
        return next((said for reason, said in REQUEUED.items() if after.reason == reason), None)
    if after.reason != before.reason:
        return next((said for reason, said in REFUSED.items() if after.reason == reason), None)
    return None


def event(task: Task, after: Status, now: datetime) -> dict[str, Any] | None:
    """The Event about the step from the task's status to this one; None if nobody need notice."""
    reason = reason_for(task.status, after)
    if reason is None:
        return None
    moment = clocks.said(now)
    # One of each kind for an attempt; an end without an attempt, for a rerun.
    step = hashlib.sha256(f"{task.uid}/{after.attempt}/{after.observed_rerun}/{reason}".encode())
    suffix = f".{step.hexdigest()[:16]}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": task.name[: NAME_LIMIT - len(suffix)].rstrip("-.") + suffix,
            "namespace": task.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "Task",
            "namespace": task.namespace,
            "name": task.name,
            "uid": task.uid,
            "resourceVersion": str(task.resource_version),
        },
        "type": "Normal" if after.state is State.CANCELLED else "Warning",
        "reason": reason,
        "message": cut(after.message or str(after.reason or after.state), MESSAGE_LIMIT),
        "source": {"component": REPORTER},
        "reportingComponent": REPORTER,
        "reportingInstance": REPORTER,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
