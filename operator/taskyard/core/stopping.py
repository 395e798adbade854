"""Stopping a run without losing its evidence: why, and then how.

First the reason goes into the status. Then, for a pod that has a node, its own time limit is lowered to the
least: the kubelet sends SIGTERM, SIGKILL after the grace period, and the pod stays, with exit code and logs.
That does not hold a pod without a node: there the Job is suspended, which takes the pod back. Where another attempt
follows it is deleted, when it says that nothing of it is left.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from taskyard.core import clocks, duplicates, kueue, say, text, verdict
from taskyard.core.actions import Decision, DeleteJob, DeletePod, EndPod, Look, SuspendJob
from taskyard.core.model import Job, Pod, Snapshot, Status, Stop, Task, Wait
from taskyard.core.words import Reason, State, StopReason

SHORTEST_LIMIT: Final = 1
"""Seconds; a pod's time limit may be lowered, never raised or made 0."""

FIRST_QUESTION: Final = timedelta(seconds=1)
LAST_PAUSE: Final = timedelta(minutes=1)

PATIENCE: Final = timedelta(seconds=30)
"""Beyond its grace period, for a pod to end after its task's deadline. Then the task is resolved all the same."""

SHORT_PATIENCE: Final = timedelta(seconds=10)
"""The same for a pod that a taint has driven away: often its node is silent, and more is known sooner."""

SILENCE_IS_NEWS_AFTER: Final = timedelta(minutes=1)
"""Of the node of a run that may go on: most of them come back, or their pods are told to end."""

EVIDENCE_LAGS: Final = timedelta(seconds=3)
"""Behind the phase of a pod: its kubelet may say that it has failed a moment before it says how, or that it was its
doing: an eviction."""

KILLED: Final = frozenset({137, 143})
OUT_OF_MEMORY: Final = "OOMKilled"

BY_TAINT: Final = "DeletionByTaintManager"

LINGERING: Final = "the main container has ended, and others linger"

QUOTA: Final = "exceeded quota"
"""How the API server says that others must make room first."""

KEEPS_ITS_WORDS: Final = frozenset(
    {
        StopReason.REPLACED,
        StopReason.MALFORMED_PAYLOAD,
        StopReason.SCHEDULE_TIMEOUT,
        StopReason.NO_CAPACITY,
        StopReason.START_TIMEOUT,
        StopReason.LOST,
    }
)
"""Whose message in the status becomes the message of the verdict."""

FOR_WANT_OF_A_START: Final = frozenset(
    {
        StopReason.EXPIRED,
        StopReason.SCHEDULE_TIMEOUT,
        StopReason.NO_CAPACITY,
        StopReason.START_TIMEOUT,
    }
)
"""Which a live look precedes: the start may be known to the API server, and not yet to the cache."""

FOR_WANT_OF_A_NODE: Final = frozenset({StopReason.SCHEDULE_TIMEOUT, StopReason.NO_CAPACITY})

FOR_GOOD: Final = frozenset(
    {StopReason.CANCELLED, StopReason.REPLACED, StopReason.DEADLINE_EXCEEDED, StopReason.EXPIRED}
)
"""After which no run is to follow, of whatever Job."""

Why = tuple[StopReason, str]


def why(task: Task, pod: Pod | None, now: datetime, complaint: str | None = None) -> Why | None:
    """Whether the current attempt must be stopped now, and for what reason: the most final one first.

    `complaint` is what the Job's controller says of a pod that it could not make.
    """
    is_too_late = clocks.has_struck(clocks.deadline(task), now)
    if pod is not None and (ended := clocks.linger_until(task, pod)) is not None:
        is_due = task.spec.cancel or task.replaced_by is not None or is_too_late or now >= ended
        return (StopReason.MAIN_CONTAINER_ENDED, LINGERING) if is_due else None
    if task.spec.cancel:
        return StopReason.CANCELLED, "`cancel` is set"
    if (replacement := duplicates.replacement(task)) is not None:
        return StopReason.REPLACED, replacement
    if is_too_late:
        return StopReason.DEADLINE_EXCEEDED, "its `deadline` has passed"
    started_at = _started_at(task, pod)
    if started_at is None:
        return _why_unstarted(task, pod, now, complaint)
    if task.status.state is State.CLAIMED and clocks.has_struck(clocks.good_until(task), started_at):
        return StopReason.EXPIRED, "it started after its `goodUntil`"
    if clocks.has_struck(clocks.timeout_at(task, started_at), now):
        return StopReason.TIMEOUT, "its `timeoutSeconds` have passed"
    return None


def strikes(task: Task, pod: Pod | None) -> tuple[datetime | None, ...]:
    """Every moment at which `why` may answer otherwise."""
    if pod is not None and (lingers_until := clocks.linger_until(task, pod)) is not None:
        return clocks.deadline(task), lingers_until
    started_at = _started_at(task, pod)
    if started_at is not None:
        return clocks.deadline(task), clocks.timeout_at(task, started_at)
    if pod is None or pod.node is None:
        return clocks.deadline(task), clocks.good_until(task), clocks.schedule_by(task, pod)
    return clocks.deadline(task), clocks.good_until(task), clocks.start_by(task, pod)


def _started_at(task: Task, pod: Pod | None) -> datetime | None:
    """When the user's code began to run. A start on record stands: what is known of the pod may be older."""
    recorded = task.status.recorded_run
    if pod is not None and (seen := verdict.main_started_at(pod, task.spec.main_container)) is not None:
        return seen
    return recorded.started_at if recorded is not None else None


def _why_unstarted(task: Task, pod: Pod | None, now: datetime, complaint: str | None) -> Why | None:
    """The main container does not run yet, and may not wait for ever."""
    hindrance = pod.hindrance if pod is not None else None
    if hindrance is not None and hindrance.is_final:
        return StopReason.MALFORMED_PAYLOAD, hindrance.message
    if clocks.has_struck(clocks.good_until(task), now):
        return StopReason.EXPIRED, "its `goodUntil` has passed"
    heard = hindrance.message if hindrance is not None else complaint or task.status.message
    said = f": {heard}" if heard else ""
    if pod is not None and pod.node is not None:
        waited = f"the container had not started within {task.spec.start_timeout.total_seconds():.0f} s{said}"
        is_due = clocks.has_struck(clocks.start_by(task, pod), now)
        return (StopReason.START_TIMEOUT, waited) if is_due else None
    if not clocks.has_struck(clocks.schedule_by(task, pod), now):
        return None
    what = "pod was made" if pod is None else "node was found"
    waited = f"no {what} within {task.spec.schedule_timeout.total_seconds():.0f} s{said}"
    lacks_room = hindrance.is_capacity if hindrance is not None else QUOTA in said
    return (StopReason.NO_CAPACITY if lacks_room else StopReason.SCHEDULE_TIMEOUT), waited


def request(snapshot: Snapshot, why: Why, now: datetime) -> Decision:
    """Put the reason on record, after a look where one is needed."""
    if why[0] in FOR_WANT_OF_A_START and snapshot.live is None:
        return Decision(Look())
    return say.write(snapshot, requested(snapshot.task.status, *why, now))


def requested(status: Status, reason: StopReason, message: str, now: datetime) -> Status:
    """The reason, on record before anything is stopped."""
    said = message if reason in KEEPS_ITS_WORDS else f"stopping: {message}"
    stop = Stop(reason, now)
    return replace(status, reason=Reason.STOPPING, message=text.cut(said), stop=stop, waiting=())


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
    if kueue.queues(snapshot.task):
        return Decision(DeleteJob(job))  # suspended, it would be resumed
    if not job.suspend:
        return Decision(SuspendJob(job))
    return Decision(wake_at=ask_again_at(snapshot.task, now))


def overdue_at(task: Task, pod: Pod) -> datetime | None:
    """When a pod that is to end should have ended for certain, if its kubelet were there.

    Whoever deletes it by force shortens no grace period that its kubelet has begun to give it.
    """
    stop, grace = task.status.stop, task.spec.grace if pod.node is not None else timedelta()
    asked_at = stop.requested_at if stop is not None else None
    told_at = pod.disturbed_at if pod.deleted_at is not None else None
    ends = [each + grace for each in (asked_at, told_at) if each is not None]
    if pod.deleted_at is not None:
        ends.append(pod.deleted_at)
    return max(ends) + PATIENCE if ends else None


def silent_at(task: Task, pod: Pod) -> datetime | None:
    """When there is evidence, and not only silence, that its node does not answer. A taint is a hint."""
    if pod.node is None:
        return None
    by_mark = pod.silent_since
    if by_mark is not None and not _is_to_end(task, pod):
        by_mark += SILENCE_IS_NEWS_AFTER
    by_taint = pod.deleted_at + SHORT_PATIENCE if pod.deleted_at and pod.disruption == BY_TAINT else None
    return min((each for each in (by_mark, by_taint) if each is not None), default=None)


def worries_at(task: Task, pod: Pod) -> tuple[datetime | None, ...]:
    """Every moment at which `worry` may answer otherwise."""
    return silent_at(task, pod), overdue_at(task, pod)


def worry(task: Task, pod: Pod, now: datetime) -> Wait | None:
    """What there is to say of a pod that does not end, or of its node; nothing while all goes as it should."""
    if clocks.has_struck(silent_at(task, pod), now):
        return Wait(Reason.NODE_UNREACHABLE, text.cut(silence_of(task, pod)))
    if clocks.has_struck(overdue_at(task, pod), now):
        return Wait(Reason.STOPPING, text.cut(_delay_of(task, pod)))
    return None


def _is_to_end(task: Task, pod: Pod) -> bool:
    return pod.deleting or task.status.stop is not None


def unreachable_until(task: Task, pod: Pod) -> datetime | None:
    """When a pod that its kubelet does not end counts as lost, for whoever takes that risk.

    Any taint may be behind it, on a node that is well: so there is time first for a kubelet to end it.
    """
    timeout = task.spec.unreachable_timeout
    if timeout is None or pod.deleted_at is None or pod.disruption != BY_TAINT:
        return None
    return pod.deleted_at + SHORT_PATIENCE + timeout


def evidence_until(task: Task, pod: Pod, now: datetime) -> datetime | None:
    """How long to wait for the rest of what a kubelet has to say of a pod that has failed; None: no more."""
    until = _evidence_by(task, pod)
    # What is to be told much later than soon is the word of a clock that goes wrong.
    latest = now + task.spec.grace + 3 * EVIDENCE_LAGS
    return until if until is not None and now < until <= latest else None


def _evidence_by(task: Task, pod: Pod) -> datetime | None:
    main, stop = pod.container(task.spec.main_container), task.status.stop
    if main is None or main.started_at is None:
        main = verdict.failed_init(pod)
    if pod.gone or main is None or main.started_at is None:
        return None
    if stop is not None and main.exit is None:
        return stop.requested_at + task.spec.grace + EVIDENCE_LAGS
    is_explained = stop is not None or pod.deleting or pod.reason is not None or pod.disruption is not None
    if is_explained or main.exit is None or main.exit.code not in KILLED or main.exit.reason == OUT_OF_MEMORY:
        return None
    # Its time has no fraction of a second.
    return (
        main.exit.finished_at + clocks.A_SECOND + EVIDENCE_LAGS if main.exit.finished_at is not None else None
    )


def still_there(task: Task, pod: Pod, now: datetime) -> str:
    """What is waited for while a pod that should be gone is there."""
    if (said := worry(task, pod, now)) is not None:
        return said.message
    return f"an earlier pod of this task, `{pod.name}`, has not ended yet"


def silence_of(task: Task, pod: Pod) -> str:
    """What is waited for when a node does not answer, and what ends the wait."""
    who = f"the node `{pod.node}` does not answer: the pod `{pod.name}` may still run there"
    if _is_to_end(task, pod):
        who = f"the pod `{pod.name}` is to end, and its node `{pod.node}` does not answer: it may still run"
    return (
        f"{who}. Waiting until the node returns, its Node object is deleted, or it is tainted out-of-service"
    )


def _delay_of(task: Task, pod: Pod) -> str:
    """The same when it is only late, and nobody knows why."""
    if pod.node is None:
        return f"the pod `{pod.name}` is to go, and is still there: it has no node, and Kubernetes is to remove it"
    return (
        f"the pod `{pod.name}` has not ended within its grace period of {task.spec.grace.total_seconds():.0f} s; "
        f"its node `{pod.node}` has not said why. If that machine is gone, delete its Node object, or taint it "
        "out-of-service"
    )


def wait_for_node(snapshot: Snapshot, pod: Pod, step: Decision, now: datetime) -> Decision:
    """The step; but where it is only to wait, for a pod that does not end, the status says so while it is so."""
    if step.action is not None:
        return step
    said = worry(snapshot.task, pod, now)
    return say.waits(snapshot, (said,) if said is not None else (), step.wake_at)


def of_job(snapshot: Snapshot, now: datetime) -> Decision | None:
    """The next step towards the end of a Job without a pod; None when there is nothing left of it."""
    assert snapshot.live is not None
    job = unfinished_job(snapshot)
    if job is None:
        return None
    if kueue.queues(snapshot.task):
        return Decision(DeleteJob(job))
    if not job.suspend:
        return Decision(SuspendJob(job))
    if not job.is_suspended:
        return unconfirmed(snapshot, job, now)
    stop = snapshot.task.status.stop
    if stop is None or stop.reason not in FOR_GOOD:
        return Decision(DeleteJob(job))
    # It stays, and holds its name against whoever is late, until it is swept. Resumed, it must not make a pod.
    return None if job.is_idle else Decision(SuspendJob(job))


def unfinished_job(snapshot: Snapshot) -> Job | None:
    """The Job of the current attempt, if a pod could still be made of it, or will when it is resumed."""
    job = snapshot.live.job if snapshot.live is not None else None
    if job is None or not job.belongs_to(snapshot.task) or job.is_over or job.is_placeholder:
        return None
    return job


def unconfirmed(snapshot: Snapshot, job: Job, now: datetime) -> Decision:
    """Its controller has not said that nothing of a suspended Job is left: it may be away. Past the deadline the Job
    goes without its word: it makes no pod any more, however late that controller is back."""
    task, status = snapshot.task, snapshot.task.status
    assert status.stop is not None
    until = given_up_at(task)
    if clocks.has_struck(until, now):
        return Decision(DeleteJob(job))
    wake_at = clocks.next_of(now, (ask_again_at(task, now), until))
    if now < status.stop.requested_at + SHORT_PATIENCE:
        return Decision(wake_at=wake_at)
    said = f"the Job `{job.name}` is suspended, and its controller has not confirmed yet that no pod of it is left"
    if until is not None:
        said += f"; the task is resolved without that at {clocks.said(until)}"
    return say.waits(snapshot, (Wait(Reason.STOPPING, text.cut(said)),), wake_at)


def ask_again_at(task: Task, now: datetime) -> datetime:
    """When to ask again whether a suspended Job has let its pod go: after 1 s, then whenever the wait has doubled."""
    assert task.status.stop is not None
    waited = now - task.status.stop.requested_at
    return now + min(max(waited, FIRST_QUESTION), LAST_PAUSE)


def given_up_at(task: Task) -> datetime | None:
    """When a task past its deadline is resolved, even though its pod does not end: its node may never return."""
    stop, deadline = task.status.stop, clocks.deadline(task)
    if stop is None or deadline is None:
        return None
    return max(stop.requested_at, deadline) + task.spec.grace + PATIENCE
