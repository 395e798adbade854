"""Why an unclaimed task does not run: everything that holds it now, in order."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from taskyard.core import clocks, definitions, dependencies, duplicates, kueue, say, stopping, text
from taskyard.core.actions import Decision, DeleteJob, SuspendJob
from taskyard.core.model import Pod, Snapshot, Task, Unregistered, Wait
from taskyard.core.words import ACTIVE_STATES, Reason, State

DEFINITION_GRACE: Final = timedelta(seconds=60)
"""In which a definition may still arrive after a task that names it."""

TAKEN: Final = re.compile(r"\d+ (?=of \d+ at work$)")

WAITS_FOR_A_RETRY: Final = frozenset({Reason.RETRY_DELAY, Reason.GIVEN_BACK})

STATE_OF: Final = {
    Reason.BEING_DELETED: State.UNSCHEDULED,
    Reason.SUSPENDED: State.UNSCHEDULED,
    Reason.DEPENDENCY_FAILED: State.UNSCHEDULED,
    Reason.DEPENDENCY_PENDING: State.UNSCHEDULED,
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
    if task.deleting:
        yield Wait(
            Reason.BEING_DELETED, "it is being deleted, and a finalizer keeps it; it is not started any more"
        )
        return
    if spec.suspend:
        yield Wait(Reason.SUSPENDED, "`suspend` is set")
    yield from dependencies.holds(snapshot)
    yield from duplicates.holds(snapshot)
    if not_before is not None and now < not_before:
        yield _delay(task, not_before)
    if alive := earlier_pods(snapshot):  # one pod at a time
        yield Wait(Reason.EARLIER_POD, stopping.still_there(task, alive[0], now))
    if isinstance(missing := snapshot.definition, Unregistered):
        reason = Reason.DEFINITION_RETIRED if missing.retired else Reason.DEFINITION_NOT_FOUND
        yield Wait(reason, missing.message)
    yield from snapshot.holds


def is_ready(snapshot: Snapshot, now: datetime) -> bool:
    """Whether it would be claimed now, if it were its turn."""
    task = snapshot.task
    state = task.status.state
    if state.is_terminal or state in ACTIVE_STATES or task.spec.cancel:
        return False
    if any(clocks.has_struck(each, now) for each in (clocks.deadline(task), clocks.good_until(task))):
        return False
    is_wanted = dependencies.failure(snapshot) is None and duplicates.of(snapshot) is None
    return is_wanted and task.replaced_by is None and not holds(snapshot, now)


def earlier_pods(snapshot: Snapshot) -> list[Pod]:
    """Those that may still run something, by their names."""
    return sorted((pod for pod in snapshot.pods if pod.is_alive), key=lambda pod: pod.name)


def _delay(task: Task, until: datetime) -> Wait:
    """Not yet. Before a retry the status says already what is waited for, and why there is one."""
    if task.status.next_retry_at != until:
        return Wait(Reason.NOT_BEFORE, f"not before {clocks.said(until)}")
    said = next((each for each in task.status.waiting if each.reason in WAITS_FOR_A_RETRY), None)
    return said or Wait(Reason.RETRY_DELAY, f"the next run is not before {clocks.said(until)}")


def dropped_at(snapshot: Snapshot, reasons: tuple[Wait, ...], now: datetime) -> datetime | None:
    """When a task that waits for its definition first of all is given up. One that is retired does not come back.

    Another one may come in its stead: it is given time from when it was first missed.
    """
    match reasons[0].reason:
        case Reason.DEFINITION_NOT_FOUND if _misses_definition(snapshot):
            return eligible_since(snapshot, now) + DEFINITION_GRACE
        case Reason.DEFINITION_RETIRED:
            return now
        case _:
            return None


def put_to_rest(snapshot: Snapshot, now: datetime) -> Decision | None:
    """The next step until the Job of the run before can make no pod any more; None when it cannot.

    Its own was taken away uncounted; or it was made late, by a request that nobody waited for any more. Where its
    pod is over and there to be counted, there will be no other.
    """
    task, job = snapshot.task, snapshot.live.job if snapshot.live is not None else None
    if job is None or not job.belongs_to(task) or job.is_over or job.is_placeholder:
        return None
    if kueue.queues(task):
        return Decision(DeleteJob(job))  # suspended, it would be resumed
    if any(pod.owner == job.name and pod.is_over and not pod.gone for pod in snapshot.pods):
        return None
    if not job.suspend:
        return Decision(SuspendJob(job))
    if not job.is_suspended:  # its controller may not know yet, and make a pod
        return say.acknowledge(snapshot, now + stopping.FIRST_QUESTION)
    return None if job.is_idle else Decision(SuspendJob(job))  # somebody else suspended it, and may resume it


def stay(snapshot: Snapshot, reasons: tuple[Wait, ...], now: datetime) -> Decision:
    """Wait, and say for what; said once, not again and again."""
    task = snapshot.task
    reasons = _as_told(reasons, task.status.waiting)
    first, state = reasons[0], State.PENDING
    if first.reason in STATE_OF:
        state = STATE_OF[first.reason]
    status = replace(
        task.status,
        state=state,
        reason=first.reason,
        message=first.message,
        dependencies=dependencies.seen(snapshot),
        definition=definitions.bound(snapshot),
        waiting=reasons,
        enqueued_at=_enqueued_at(snapshot, state, first, now),
    )
    strikes = [clocks.not_before(task), clocks.good_until(task), clocks.deadline(task), snapshot.turn_at]
    for pod in earlier_pods(snapshot):
        strikes += [*stopping.worries_at(task, pod), stopping.unreachable_until(task, pod)]
    wake_at = clocks.next_of(now, (*strikes, dropped_at(snapshot, reasons, now)))
    if status == task.status:
        return say.acknowledge(snapshot, wake_at)
    return say.write(snapshot, status, wake_at)


def _as_told(reasons: tuple[Wait, ...], told: tuple[Wait, ...]) -> tuple[Wait, ...]:
    """The reasons, in the words that are told already where only the moment is another."""
    known = {_but_for_its_moment(each): each for each in told}
    keys = ((_but_for_its_moment(each), each) for each in reasons)
    return tuple(known[key] if key in known and not each.is_news else each for key, each in keys)


def _but_for_its_moment(reason: Wait) -> tuple[Reason, str]:
    """What does not change by itself: whatever follows on a semicolon does, and how many of how many are at work."""
    return reason.reason, TAKEN.sub("", reason.message.partition(";")[0])


def _misses_definition(snapshot: Snapshot) -> bool:
    return snapshot.task.status.reason == Reason.DEFINITION_NOT_FOUND


def _enqueued_at(snapshot: Snapshot, state: State, first: Wait, now: datetime) -> datetime | None:
    """Since when it waits for nothing but a slot; or for its definition, which must be there before that."""
    if state is not State.PENDING:
        return None
    is_missed_now = first.reason == Reason.DEFINITION_NOT_FOUND and not _misses_definition(snapshot)
    return now if is_missed_now else eligible_since(snapshot, now)


def eligible_since(snapshot: Snapshot, now: datetime) -> datetime:
    """When it became this task's turn to wait for nothing but a slot."""
    task, status = snapshot.task, snapshot.task.status
    if status.enqueued_at is not None:
        return status.enqueued_at
    if status.state is State.UNSCHEDULED:
        return now
    since = (clocks.counted_from(task), clocks.not_before(task))
    return max((each for each in since if each is not None), default=now)
