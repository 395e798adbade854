"""Every clock of a Task: when each of them strikes, as a function of the Task alone.

All are read from spec and status, so an operator that starts in the middle of one finds it where it was.
Relative times count from the submission, or from the rerun.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from taskyard.core.model import Pod, Task
from taskyard.core.words import DeadLetterPolicy, State

A_SECOND: Final = timedelta(seconds=1)

SETTLES_WITHIN: Final = timedelta(seconds=30)
"""After the end of its last container, for a pod to say that it has ended."""


def counted_from(task: Task) -> datetime | None:
    """Where relative times begin."""
    return task.status.rerun_at or task.status.submitted_at


def not_before(task: Task) -> datetime | None:
    """When the next run may start: `runAt` or its relative form, and the delay before a retry."""
    spec = task.spec
    asked = (spec.run_at, _later(task, spec.start_delay), task.status.next_retry_at)
    return max((each for each in asked if each is not None), default=None)


def good_until(task: Task) -> datetime | None:
    """When it is too late to start."""
    return task.spec.good_until or _later(task, task.spec.good_for)


def deadline(task: Task) -> datetime | None:
    """When it is too late for anything."""
    return task.spec.deadline or _later(task, task.spec.deadline_after)


def may_have_left_a_pod(task: Task) -> bool:
    """Whether it may be resolved and its pod alive: that is so after a deadline only, and then perhaps for long."""
    until, completed_at = deadline(task), task.status.completed_at
    return until is not None and completed_at is not None and completed_at >= until


def schedule_by(task: Task, pod: Pod | None = None) -> datetime | None:
    """When a claim whose pod has no node is given back; its time, too, has lost its fraction of a second.

    A pod that was long in coming is given its time from then on: something else held it.
    """
    claimed_at = task.status.claimed_at
    if claimed_at is None:
        return None
    since = claimed_at if pod is None else max(claimed_at, pod.created_at)
    return since + task.spec.schedule_timeout + A_SECOND


def start_by(task: Task, pod: Pod) -> datetime | None:
    """When a claim whose pod has a node, but no started container, is given back; fractions are lost here, too."""
    found_at = pod.scheduled_at or task.status.claimed_at
    return found_at + task.spec.start_timeout + A_SECOND if found_at is not None else None


def timeout_at(task: Task, started_at: datetime | None) -> datetime | None:
    """When a run has taken too long, for certain: the start that a kubelet tells has lost its fraction of a second."""
    timeout = task.spec.timeout
    return started_at + timeout + A_SECOND if timeout is not None and started_at is not None else None


def linger_until(task: Task, pod: Pod) -> datetime | None:
    """How long other containers may outlive the main one. Where none does, its kubelet is only to say so."""
    main = pod.container(task.spec.main_container)
    if main is None or main.exit is None:
        return None
    is_outlived = any(each.exit is None for each in (*pod.containers, *pod.init_containers))
    ended_at = main.exit.finished_at or main.started_at or pod.created_at
    return ended_at + task.spec.grace + (timedelta() if is_outlived else SETTLES_WITHIN)


def delete_at(task: Task) -> datetime | None:
    """When a resolved Task is deleted; never, if it failed and is to be kept for a redrive."""
    status = task.status
    if status.completed_at is None:
        return None
    went_well = status.state in {State.COMPLETED, State.CANCELLED}
    if task.spec.dead_letter is DeadLetterPolicy.SAVE and not went_well:
        return None
    return status.completed_at + task.spec.ttl


def too_late_for(task: Task, start: datetime) -> str | None:
    """Which clock forbids a run that would start then, as a sentence."""
    for name, moment in (("goodUntil", good_until(task)), ("deadline", deadline(task))):
        if moment is not None and start >= moment:
            return f"the next run could not start before its `{name}`, {said(moment)}"
    return None


def next_of(now: datetime, moments: Iterable[datetime | None]) -> datetime | None:
    """The next one to strike. What has struck already does so no more."""
    return min((each for each in moments if each is not None and each > now), default=None)


def has_struck(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now >= moment


def whole_second(moment: datetime) -> datetime:
    """The first whole second that is not earlier: a status has no finer ones."""
    rest = moment.replace(microsecond=0)
    return rest if rest == moment else rest + A_SECOND


def said(moment: datetime) -> str:
    """As Kubernetes writes times: RFC 3339, UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _later(task: Task, delay: timedelta | None) -> datetime | None:
    since = counted_from(task)
    return since + delay if delay is not None and since is not None else None
