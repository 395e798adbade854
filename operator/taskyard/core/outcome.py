"""What becomes of a Task when its run has ended: another run, or one of the terminal states.

Each way a run can end has one function. A run that is followed by another is resolved in the history only:
the Task never passes through a terminal state on the way.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from taskyard.core import clocks, manifest, retry, text, verdict
from taskyard.core.model import Error, Result, Run, Status, Task, Wait
from taskyard.core.words import RUNS_KEPT, ErrorCode, Flaw, OnShutdown, Reason, State, StopReason

REJECTED_AGAIN_AFTER: Final = timedelta(seconds=10)
"""A node that refuses a pod at once would otherwise be asked again and again."""

REPORTED_EXCEPTIONS: Final = frozenset({ErrorCode.MALFORMED_PAYLOAD, ErrorCode.INTERNAL_ERROR})
"""What a task may report of itself without being at fault; `Shutdown` is a loss like others."""


def of(task: Task, ending: verdict.Ending, now: datetime) -> Status:
    """The status after a run that ended so."""
    match ending:
        case verdict.Succeeded():
            return completed(task, ending, now)
        case verdict.Failed():
            return failed(task, ending, now)
        case verdict.Lost():
            return lost(task, ending, now)
        case verdict.Drained():
            return drained(task, ending, now)
        case verdict.NotStarted():
            return not_started(task, ending, now)
        case verdict.Stopped():
            return stopped(task, ending, now)
        case _:
            assert_never(ending)


def completed(task: Task, ending: verdict.Succeeded, now: datetime) -> Status:
    unknown = "the Job completed, but its pod was gone before its result could be read"
    status = replace(
        task.status,
        state=State.COMPLETED,
        reason=Reason.RESULT_UNKNOWN if ending.is_result_unknown else None,
        message=unknown if ending.is_result_unknown else None,
        result=ending.result,
    )
    return resolved(with_ended_run(task, status, ending.evidence), now)


def failed(task: Task, ending: verdict.Failed, now: datetime) -> Status:
    """The task's own failure: retried as often as `retry` allows, if it is one of those worth it."""
    error, evidence = ending.error, ending.evidence
    if error.is_reported and error.code == ErrorCode.SHUTDOWN:
        return lost(task, verdict.Lost(evidence, f"the task reported a shutdown: {error.message}"), now)
    is_exception = error.is_reported and error.code in REPORTED_EXCEPTIONS
    state = State.EXCEPTION if is_exception else State.FAILED
    why_not = retry.why_not(task, error, evidence.exit_code, ending.retryable, now)
    if why_not is None:
        status = with_ended_run(task, with_error(task.status, state, error), evidence, error)
        start, spent = retry.next_start(task, now), task.status.retry_count + 1
        said = f"retry {spent} of {task.spec.retry.limit}"
        said += f", not before {clocks.said(start)}, after" if start > now else ", after"
        reason = Reason.RETRY_DELAY if start > now else Reason.RETRY
        again = requeued(status, now, start, reason, f"{said}: {error.message}")
        return replace(again, retry_count=spent)
    if why_not:
        error = replace(error, message=text.joined(error.message, f"; not retried: {why_not}"))
    flaws = ending.result.flaws if ending.result is not None else ()
    return ended(task, state, error, evidence, now, flaws=flaws, is_recorded=True)


def lost(task: Task, ending: verdict.Lost, now: datetime) -> Status:
    """Not the task's fault: made good from a budget of its own."""
    limit, spent = task.spec.retry.infrastructure_limit, task.status.loss_count + 1
    error = Error(ErrorCode.WORKER_LOST, ending.message)
    if limit == 0:
        return ended(task, State.EXCEPTION, error, ending.evidence, now, is_recorded=True)
    why_not = f"all {limit} losses of `infrastructureLimit` are spent" if spent > limit else None
    why_not = why_not or clocks.too_late_for(task, now)
    if why_not is not None:
        error = replace(error, message=text.joined(error.message, f"; not run again: {why_not}"))
        return ended(task, State.EXCEPTION, error, ending.evidence, now, is_recorded=True)
    status = with_error(task.status, State.EXCEPTION, error)
    status = with_ended_run(task, status, ending.evidence)
    again = requeued(status, now, now, Reason.RUN_LOST, f"loss {spent} of {limit}: {ending.message}")
    return replace(again, loss_count=spent)


def drained(task: Task, ending: verdict.Drained, now: datetime) -> Status:
    """The node goes: the run stops for good, or moves elsewhere and spends no budget."""
    error = Error(ErrorCode.SHUTDOWN, ending.message)
    if task.spec.on_shutdown is OnShutdown.STOP:
        return ended(task, State.STALLED, error, ending.evidence, now)
    if (why_not := clocks.too_late_for(task, now)) is not None:
        error = Error(ErrorCode.WORKER_LOST, f"{ending.message}; not run again: {why_not}")
        return ended(task, State.EXCEPTION, error, ending.evidence, now)
    status = task.status
    if ending.evidence.has_started or status.recorded_run is not None:
        status = with_ended_run(task, with_error(status, State.STALLED, error), ending.evidence)
    return requeued(status, now, now, Reason.DRAINED, ending.message)


def not_started(task: Task, ending: verdict.NotStarted, now: datetime, *, at_once: bool = False) -> Status:
    """The claim is given back: no run, no retry spent; so often, and no more."""
    failures = task.status.start_failures + (not ending.is_capacity)
    if failures >= task.spec.start_limit and not ending.is_capacity:
        error = Error(ErrorCode.START_FAILED, ending.message)
        return replace(ended(task, State.EXCEPTION, error, ending.evidence, now), start_failures=failures)
    start = now if at_once else clocks.whole_second(now + REJECTED_AGAIN_AFTER)
    again = requeued(task.status, now, start, Reason.GIVEN_BACK, ending.message)
    return replace(again, start_failures=failures)


def unclaimed(task: Task, why: str, now: datetime) -> Status:
    """Back in the queue as if nobody had claimed it."""
    return requeued(task.status, now, now, Reason.GIVEN_BACK, why)


def stopped(task: Task, ending: verdict.Stopped, now: datetime) -> Status:
    """Stopped on purpose: the reason on record is the verdict."""
    evidence, said = ending.evidence, task.status.message or f"it was stopped ({ending.reason})"
    match ending.reason:
        case StopReason.CANCELLED:
            return cancelled(task, evidence, now)
        case StopReason.REPLACED:
            return replaced(task, task.status.message or "replaced", evidence, now)
        case StopReason.DEADLINE_EXCEEDED:
            return deadline_exceeded(task, evidence, now)
        case StopReason.EXPIRED:
            return expired(task, evidence, now)
        case StopReason.TIMEOUT:
            return failed(task, verdict.Failed(evidence, verdict.timed_out(task)), now)
        case StopReason.MALFORMED_PAYLOAD:
            error = Error(ErrorCode.MALFORMED_PAYLOAD, said)
            return ended(task, State.EXCEPTION, error, evidence, now)
        case StopReason.LOST:
            return lost(task, verdict.Lost(evidence, said), now)
        case StopReason.MAIN_CONTAINER_ENDED:
            return lost(task, verdict.Lost(evidence, "the pod was gone before its verdict was read"), now)
        case StopReason.SCHEDULE_TIMEOUT | StopReason.NO_CAPACITY | StopReason.START_TIMEOUT:
            if evidence.has_started or evidence.is_start_unknown:
                return lost(task, verdict.Lost(evidence, f"{said}; some code of it may have run"), now)
            is_capacity = ending.reason is StopReason.NO_CAPACITY
            # For want of room it is not counted, so it must not come back at once for ever.
            not_yet = verdict.NotStarted(evidence, said, is_capacity)
            return not_started(task, not_yet, now, at_once=not is_capacity)
        case _:
            assert_never(ending.reason)


def cancelled(task: Task, evidence: verdict.Evidence, now: datetime) -> Status:
    error = Error(ErrorCode.TASK_CANCELLED, "the task was cancelled: `cancel` was set")
    return ended(task, State.CANCELLED, error, evidence, now)


def replaced(task: Task, said: str, evidence: verdict.Evidence, now: datetime) -> Status:
    return ended(task, State.CANCELLED, Error(ErrorCode.TASK_REPLACED, f"the task was {said}"), evidence, now)


def deadline_exceeded(task: Task, evidence: verdict.Evidence, now: datetime) -> Status:
    moment = clocks.deadline(task)
    by = f", {clocks.said(moment)}" if moment is not None else ""
    error = Error(ErrorCode.DEADLINE_EXCEEDED, f"the task was not resolved by its `deadline`{by}")
    return ended(task, State.EXCEPTION, error, evidence, now)


def expired(task: Task, evidence: verdict.Evidence, now: datetime) -> Status:
    """Too late to start. A task that ran before has failed then: the retry came too late."""
    moment = clocks.good_until(task)
    by = f", {clocks.said(moment)}" if moment is not None else ""
    last = next((run for run in reversed(task.status.runs) if run.number < task.status.run), None)
    has_run = task.status.started_at is not None or task.status.loss_count > 0
    if has_run and not evidence.has_started and last is not None:
        why_not = f"; not retried: the next run had not started by its `goodUntil`{by}"
        said = text.joined(last.message or "the last run failed", why_not)
        code = last.error_code or last.reason or ErrorCode.WORKER_LOST
        error = Error(code, said, is_reported=last.error_code is not None)
        state = last.state if last.state in {State.FAILED, State.EXCEPTION} else State.EXCEPTION
        return ended(task, state, error, evidence, now)
    if evidence.has_started:
        # It may have started in the very moment: the kubelet tells of a start a little later.
        error = Error(ErrorCode.TASK_EXPIRED, f"no start was known by its `goodUntil`{by}: it was stopped")
        return replace(ended(task, State.EXPIRED, error, evidence, now), reason=Reason.STARTED_LATE)
    error = Error(ErrorCode.TASK_EXPIRED, f"the task had not started by its `goodUntil`{by}")
    return ended(task, State.EXPIRED, error, evidence, now)


def ended(
    task: Task,
    state: State,
    error: Error,
    evidence: verdict.Evidence,
    now: datetime,
    *,
    flaws: tuple[Flaw, ...] = (),
    is_recorded: bool = False,
) -> Status:
    """An unsuccessful end. It leaves a run on record if one started, or may have."""
    status = with_error(task.status, state, error)
    if is_recorded or evidence.has_started or status.recorded_run is not None:
        status = with_ended_run(task, status, evidence, error)
    status = replace(status, result=Result(error=error, flaws=flaws))
    return resolved(status, now)


def resolved(status: Status, now: datetime) -> Status:
    """The one verdict, with its time."""
    return replace(
        status,
        completed_at=now,
        failed_at=now if status.state is State.FAILED else None,
        next_retry_at=None,
        stop=None,
        waiting=(),
    )


def requeued(status: Status, now: datetime, start: datetime, reason: Reason, message: str) -> Status:
    """Back in the queue, from `start` on; the claim is cleared, and the next run has the next number."""
    is_delayed = start > now
    message = text.cut(message)
    return replace(
        status,
        state=State.DELAYED if is_delayed else State.PENDING,
        reason=reason,
        message=message,
        run=status.run + (status.recorded_run is not None),
        enqueued_at=None if is_delayed else now,
        next_retry_at=start if is_delayed else None,
        claimed_at=None,
        claimed_by=None,
        stop=None,
        waiting=(Wait(reason, message),) if is_delayed else (),
        result=None,
    )


def with_error(status: Status, state: State, error: Error) -> Status:
    """An unsuccessful end, whose reason and message are those of its error. A code of the task's own is no reason."""
    is_ours = not error.is_reported or error.code in REPORTED_EXCEPTIONS
    reason = error.code if is_ours else Reason.ERROR_RESULT
    return replace(status, state=state, reason=reason, message=error.message)


def with_ended_run(
    task: Task, status: Status, evidence: verdict.Evidence, error: Error | None = None
) -> Status:
    """The record of the run that ended, with what was known of it before: a lost pod tells nothing more."""
    known = status.recorded_run
    run = Run(
        number=status.run,
        attempt=status.attempt,
        state=status.state,
        reason=status.reason,
        error_code=error.code if error is not None and error.is_reported else None,
        job=manifest.job_name(task),
        pod=evidence.pod or (known.pod if known else None),
        node=evidence.node or (known.node if known else None),
        started_at=evidence.started_at or (known.started_at if known else None),
        finished_at=evidence.finished_at,
        exit_code=evidence.exit_code,
        signal=evidence.signal,
        message=status.message,
    )
    return with_start(with_run(status, run), run)


def with_start(status: Status, run: Run) -> Status:
    """`startedAt` is the first run's; `retriedAt` that of the last one after it."""
    if run.started_at is None:
        return status
    first = status.started_at
    if first is None:
        return replace(status, started_at=run.started_at)
    is_later = any(
        each.number < run.number and each.started_at is not None and each.started_at >= first
        for each in status.runs
    )
    return replace(status, retried_at=run.started_at) if is_later else status


def with_run(status: Status, run: Run) -> Status:
    """The history with this run in it: in its place if it is there already, else as the last."""
    others = tuple(each for each in status.runs if each.number != run.number)
    is_new = len(others) == len(status.runs)
    return replace(status, runs=(*others, run)[-RUNS_KEPT:], run_count=status.run_count + is_new)
