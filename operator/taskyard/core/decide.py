"""What to do about one Task: the product.

A pure function of a snapshot and the time. Read it from the top: each rung is a rule, the first that applies
wins, and each decision holds at most one write. The order of writes is therefore the order of the rungs,
every place where the operator may die is a state that is handled here, and deciding again after a write finds
the next rung, or nothing.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from taskyard.core import manifest, verdict
from taskyard.core.model import (
    ACTIVE_STATES,
    CreateJob,
    Decision,
    Error,
    ErrorCode,
    Look,
    Pod,
    Reason,
    Refusal,
    Run,
    Snapshot,
    State,
    Status,
    StopPod,
    WriteStatus,
)

FIRST_LOOK: Final = timedelta(seconds=5)
LONGEST_WAIT_FOR_A_LOOK: Final = timedelta(minutes=5)
REFUSED_AGAIN_AFTER: Final = timedelta(seconds=10)
RUNS_KEPT: Final = 10

NOTHING: Final = Decision()


def decide(snapshot: Snapshot, now: datetime) -> Decision:
    """The next step of one Task."""
    if snapshot.vanished and snapshot.live is None:
        return Decision(Look())
    if (pod := stray(snapshot)) is not None:
        # Only the API server knows which attempt is current: the cache may lag behind another's claim.
        return Decision(Look()) if snapshot.live is None else Decision(StopPod(pod))
    state = snapshot.task.status.state
    if state.is_terminal:
        return acknowledge(snapshot)
    if state in ACTIVE_STATES:
        return follow(snapshot, now)
    return wait(snapshot, now)


def stray(snapshot: Snapshot) -> Pod | None:
    """A pod that runs without being the current run of an active task."""
    for pod in snapshot.pods:
        if pod.is_alive and not pod.deleting and not is_of_run(pod, snapshot.task.status):
            return pod
    return None


def is_of_run(pod: Pod, status: Status) -> bool:
    """Whether this pod is the current run. A run has one pod: the one that was recorded when it started.

    A Job makes a second one if the first vanishes uncounted, its finalizer stripped: backoffLimit 0 or not.
    """
    if status.state not in ACTIVE_STATES or pod.attempt != status.attempt:
        return False
    recorded = recorded_run(status)
    return recorded is None or recorded.attempt != status.attempt or recorded.pod in {None, pod.name}


def wait(snapshot: Snapshot, now: datetime) -> Decision:
    """Unclaimed: claim it when it may go."""
    if snapshot.task.deleting:
        return NOTHING
    if any(pod.is_alive for pod in snapshot.pods):
        return acknowledge(snapshot)  # one pod at a time: first goes the one that is being stopped
    if snapshot.admitted:
        return claim(snapshot, now)
    return acknowledge(snapshot)


def claim(snapshot: Snapshot, now: datetime) -> Decision:
    """Reserve the task: from here on this attempt, and no other, may have a Job."""
    status = replace(
        snapshot.task.status,
        state=State.CLAIMED,
        reason=None,
        message=None,
        attempt=snapshot.task.status.attempt + 1,
        claimed_at=now,
        claimed_by=snapshot.claimer,
    )
    return write(snapshot, status)


def follow(snapshot: Snapshot, now: datetime) -> Decision:
    """Claimed or running: go by the pods of the current run."""
    task = snapshot.task
    pods = [pod for pod in snapshot.pods if is_of_run(pod, task.status)]
    alive = [pod for pod in pods if pod.is_alive]
    if alive:
        return begin(snapshot, min(alive, key=_age))
    over = [pod for pod in pods if pod.is_over]
    if over:
        ending = verdict.of_pod(max(over, key=_age), task.main_container)
        assert ending is not None
        return resolve(snapshot, ending, now)
    if task.status.state is State.CLAIMED and not pods:
        return launch(snapshot, now)
    if any(pod.is_alive for pod in snapshot.pods):
        return acknowledge(snapshot)  # a stray is being stopped: nothing is over while it lives
    # There was a pod and none is known. Only a live look may say so: a quiet cache proves nothing.
    if snapshot.live is None:
        return Decision(Look())
    return resolve(snapshot, verdict.without_pod(snapshot.live.job), now)


def begin(snapshot: Snapshot, pod: Pod) -> Decision:
    """The run has a pod: say so when the user's code starts, otherwise let it be."""
    task = snapshot.task
    started_at = verdict.main_started_at(pod, task.main_container)
    if task.status.state is State.RUNNING:
        return acknowledge(snapshot)
    if started_at is None:
        return await_start(snapshot, pod)
    run = Run(
        number=task.status.run,
        attempt=task.status.attempt,
        state=State.RUNNING,
        job=manifest.job_name(task),
        pod=pod.name,
        node=pod.node,
        started_at=started_at,
    )
    status = replace(
        with_run(task.status, run),
        state=State.RUNNING,
        reason=None,
        message=None,
        started_at=task.status.started_at or started_at,
    )
    return write(snapshot, status)


def await_start(snapshot: Snapshot, pod: Pod) -> Decision:
    """The pod is there and the user's code does not run yet: pass on what the cluster complains of."""
    hindrance = pod.hindrance
    if hindrance is None:
        return explain(snapshot, None, None)
    if hindrance.reason is Reason.IMAGE_PULL and snapshot.task.status.reason == Reason.IMAGE_PULL:
        return acknowledge(
            snapshot
        )  # the kubelet alternates between the error and "back-off": the first said more
    return explain(snapshot, hindrance.reason, hindrance.message)


def launch(snapshot: Snapshot, now: datetime) -> Decision:
    """Claimed, and no pod was ever seen: see to it that there is a Job, then that it comes to something."""
    task, job, live = snapshot.task, snapshot.job, snapshot.live
    if job is None:
        return create_job(snapshot, now)
    due = next_look(task.status.claimed_at or now, snapshot.looked_at)
    if live is None:
        if not job.belongs_to(task) and task.status.reason != Reason.JOB_NAME_TAKEN:
            return name_taken(snapshot)
        if job.is_over or now >= due:
            return Decision(Look())
        return acknowledge(snapshot, wake_at=due)
    if live.job is None and not job.belongs_to(task):
        return create_job(snapshot, now)
    if live.job is None or (live.job.belongs_to(task) and live.job.is_over):
        return resolve(snapshot, verdict.without_pod(live.job), now)
    if not live.job.belongs_to(task):
        return acknowledge(snapshot, wake_at=due)
    message = f"the Job `{live.job.name}` has made no pod so far; `kubectl describe job` shows its events"
    return explain(snapshot, Reason.NO_POD, message, wake_at=due)


def create_job(snapshot: Snapshot, now: datetime) -> Decision:
    """Create the Job, unless the API server has just refused it."""
    refusal = snapshot.refusal
    if snapshot.task.deleting:
        return NOTHING
    if refusal is None:
        return Decision(CreateJob())
    if refusal.malformed:
        return reject(snapshot, refusal, now)
    again_at = refusal.at + REFUSED_AGAIN_AFTER
    if now >= again_at:
        return Decision(CreateJob())
    return explain(snapshot, Reason.JOB_REFUSED, refusal.message, wake_at=again_at)


def name_taken(snapshot: Snapshot) -> Decision:
    """A Job of the right name is not ours; with a hash of the uid in its name that is no accident."""
    name = manifest.job_name(snapshot.task)
    message = f"a Job `{name}` exists that is not this task's; waiting until it is gone"
    return explain(snapshot, Reason.JOB_NAME_TAKEN, message)


def reject(snapshot: Snapshot, refusal: Refusal, now: datetime) -> Decision:
    """The API server will never take this Job: no run, no retry."""
    status = replace(
        snapshot.task.status,
        state=State.EXCEPTION,
        reason=ErrorCode.MALFORMED_PAYLOAD,
        message=refusal.message,
        completed_at=now,
        error=Error(ErrorCode.MALFORMED_PAYLOAD, refusal.message),
    )
    return write(snapshot, status)


def resolve(snapshot: Snapshot, ending: verdict.Ending, now: datetime) -> Decision:
    """The run is over, and with it the task."""
    match ending:
        case verdict.Succeeded(result_unknown=False):
            outcome = replace(snapshot.task.status, state=State.COMPLETED, reason=None, message=None)
        case verdict.Succeeded():
            outcome = replace(
                snapshot.task.status,
                state=State.COMPLETED,
                reason=Reason.RESULT_UNKNOWN,
                message="the Job completed, but its pod was gone before its result could be read",
            )
        case verdict.Failed(error=error):
            outcome = with_error(snapshot.task.status, State.FAILED, error)
        case verdict.Lost(message=message):
            outcome = with_error(snapshot.task.status, State.EXCEPTION, Error(ErrorCode.WORKER_LOST, message))
        case _:
            assert_never(ending)
    run = ended_run(snapshot, outcome, ending.evidence)
    status = replace(
        with_run(outcome, run),
        started_at=outcome.started_at or run.started_at,
        completed_at=now,
        failed_at=now if outcome.state is State.FAILED else None,
    )
    return write(snapshot, status)


def ended_run(snapshot: Snapshot, outcome: Status, evidence: verdict.Evidence) -> Run:
    """The record of the run that ended, with what was known of it before: a lost pod tells nothing more."""
    known = recorded_run(outcome)
    return Run(
        number=outcome.run,
        attempt=outcome.attempt,
        state=outcome.state,
        reason=outcome.reason,
        job=manifest.job_name(snapshot.task),
        pod=evidence.pod or (known.pod if known else None),
        node=evidence.node or (known.node if known else None),
        started_at=evidence.started_at or (known.started_at if known else None),
        finished_at=evidence.finished_at,
        exit_code=evidence.exit_code,
        signal=evidence.signal,
        message=outcome.message,
    )


def recorded_run(status: Status) -> Run | None:
    """The current run's entry in the history: there once its container has started."""
    return next((run for run in status.runs if run.number == status.run), None)


def with_error(status: Status, state: State, error: Error) -> Status:
    """An unsuccessful end, whose reason and message are those of its error."""
    return replace(status, state=state, reason=error.code, message=error.message, error=error)


def with_run(status: Status, run: Run) -> Status:
    """The history with this run in it: in its place if it is there already, else as the last."""
    others = tuple(each for each in status.runs if each.number != run.number)
    is_new = len(others) == len(status.runs)
    return replace(status, runs=(*others, run)[-RUNS_KEPT:], run_count=status.run_count + is_new)


def acknowledge(snapshot: Snapshot, wake_at: datetime | None = None) -> Decision:
    """Nothing to do, but an edit of the spec is noted: `kubectl wait` ignores a status that lags behind."""
    if snapshot.task.status.observed_generation != snapshot.task.generation:
        return write(snapshot, snapshot.task.status, wake_at)
    return Decision(wake_at=wake_at)


def explain(
    snapshot: Snapshot, reason: Reason | None, message: str | None, wake_at: datetime | None = None
) -> Decision:
    """Say in the status what the task waits for, or that it is nothing any more; once, not again and again."""
    status = snapshot.task.status
    message = (
        None if message is None else manifest.cut(message)
    )  # as it comes back, or it would differ for ever
    if (status.reason, status.message) == (reason, message):
        return acknowledge(snapshot, wake_at)
    return write(snapshot, replace(status, reason=reason, message=message), wake_at)


def write(snapshot: Snapshot, status: Status, wake_at: datetime | None = None) -> Decision:
    """This status, said to be derived from the spec of now."""
    status = replace(status, observed_generation=snapshot.task.generation)
    return Decision(WriteStatus(status), wake_at)


def next_look(since: datetime, looked_at: datetime | None) -> datetime:
    """When to look at a Job whose pod does not appear: after 5 s, then whenever the wait has doubled."""
    if looked_at is None or looked_at < since + FIRST_LOOK:
        return since + FIRST_LOOK
    return looked_at + min(looked_at - since, LONGEST_WAIT_FOR_A_LOOK)


def _age(pod: Pod) -> tuple[datetime, str]:
    return pod.created_at, pod.name
