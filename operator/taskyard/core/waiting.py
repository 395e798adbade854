"""Why an unclaimed task does not run: everything that holds it now, in order."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from taskyard.core import clocks, say, stopping, text
from taskyard.core.model import Decision, Pod, Snapshot, SuspendJob, Task, Wait
from taskyard.core.spec import Definition
from taskyard.core.words import Reason, State

DEFINITION_GRACE: Final = timedelta(seconds=60)
"""In which a definition may still arrive after a task that names it."""

WAITS_FOR_A_RETRY: Final = frozenset({Reason.RETRY_DELAY, Reason.GIVEN_BACK})

STATE_OF: Final = {
    Reason.SUSPENDED: State.UNSCHEDULED,
    Reason.NOT_BEFORE: State.DELAYED,
    Reason.RETRY_DELAY: State.DELAYED,
    Reason.GIVEN_BACK: State.DELAYED,
}
"""Where a task waits, by the first of its reasons; for all others it is eligible: Pending."""


def holds(snapshot: Snapshot, now: datetime) -> tuple[Wait, ...]:
    """Everything that keeps the task from being claimed, the most deliberate first."""
    return tuple(replace(each, message=text.cut(each.message)) for each in _holds(snapshot, now))


def _holds(snapshot: Snapshot, now: datetime) -> Iterator[Wait]:
    task, spec = snapshot.task, snapshot.task.spec
    not_before = clocks.not_before(task)
    if spec.suspend:
        yield Wait(Reason.SUSPENDED, "`suspend` is set")
    if not_before is not None and now < not_before:
        yield _delay(task, not_before)
    if alive := earlier_pods(snapshot):  # one pod at a time
        yield Wait(Reason.EARLIER_POD, stopping.still_there(alive[0], now))
    if spec.definition is not None and not snapshot.definition_found:
        yield Wait(Reason.DEFINITION_NOT_FOUND, _missing(spec.definition))
    if snapshot.hold is not None:
        yield Wait(snapshot.hold.reason, snapshot.hold.message)


def earlier_pods(snapshot: Snapshot) -> list[Pod]:
    """Those that may still run something, by their names."""
    return sorted((pod for pod in snapshot.pods if pod.is_alive), key=lambda pod: pod.name)


def _delay(task: Task, until: datetime) -> Wait:
    """Not yet. Before a retry the status says already what is waited for, and why there is one."""
    if task.status.next_retry_at != until:
        return Wait(Reason.NOT_BEFORE, f"not before {clocks.said(until)}")
    said = next((each for each in task.status.waiting if each.reason in WAITS_FOR_A_RETRY), None)
    return said or Wait(Reason.RETRY_DELAY, f"the next run is not before {clocks.said(until)}")


def _missing(wanted: Definition) -> str:
    return f"no version `{wanted.version}` of a {wanted.kind} `{wanted.name}` is registered"


def dropped_at(snapshot: Snapshot, reasons: tuple[Wait, ...], now: datetime) -> datetime | None:
    """When a task that waits for its definition first of all is given up."""
    if reasons[0].reason is not Reason.DEFINITION_NOT_FOUND:
        return None
    return eligible_since(snapshot, now) + DEFINITION_GRACE


def put_to_rest(snapshot: Snapshot, now: datetime) -> Decision | None:
    """The next step until the Job of the run before can make no pod any more; None when it cannot.

    Its own was taken away uncounted; or it was made late, by a request that nobody waited for any more. Where its
    pod is over and there to be counted, there will be no other.
    """
    task, job = snapshot.task, snapshot.live.job if snapshot.live is not None else None
    if job is None or not job.belongs_to(task) or job.is_over or job.is_placeholder:
        return None
    if any(pod.owner == job.name and pod.is_over and not pod.gone for pod in snapshot.pods):
        return None
    if not job.suspend:
        return Decision(SuspendJob(job))
    if not job.is_suspended:  # its controller may not know yet, and make a pod
        return say.acknowledge(snapshot, now + stopping.FIRST_QUESTION)
    return None


def stay(snapshot: Snapshot, reasons: tuple[Wait, ...], now: datetime) -> Decision:
    """Wait, and say for what; said once, not again and again."""
    task, first = snapshot.task, reasons[0]
    state = State.PENDING
    if first.reason in STATE_OF:
        state = STATE_OF[first.reason]
    status = replace(
        task.status,
        state=state,
        reason=first.reason,
        message=first.message,
        waiting=reasons,
        enqueued_at=eligible_since(snapshot, now) if state is State.PENDING else None,
    )
    strikes = [clocks.not_before(task), clocks.good_until(task), clocks.deadline(task)]
    for pod in earlier_pods(snapshot):
        strikes += [stopping.overdue_at(pod), stopping.unreachable_until(task, pod)]
    wake_at = clocks.next_of(now, (*strikes, dropped_at(snapshot, reasons, now)))
    if status == task.status:
        return say.acknowledge(snapshot, wake_at)
    return say.write(snapshot, status, wake_at)


def eligible_since(snapshot: Snapshot, now: datetime) -> datetime:
    """When it became this task's turn to wait for nothing but a slot."""
    task, status = snapshot.task, snapshot.task.status
    if status.enqueued_at is not None:
        return status.enqueued_at
    if status.state is State.UNSCHEDULED:
        return now
    since = (clocks.counted_from(task), clocks.not_before(task))
    return max((each for each in since if each is not None), default=now)
