"""What to do about one Task: the product.

A pure function of a snapshot and the time. Read it from the top: each rung is a rule, the first that applies
wins, and each decision holds at most one write. The order of writes is therefore the order of the rungs,
every place where the operator may die is a state that is handled here, and deciding again after a write finds
the next rung, or nothing.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from taskyard.core import (
    clocks,
    definitions,
    denied,
    dependencies,
    duplicates,
    kueue,
    launch,
    logs,
    manifest,
    outcome,
    resting,
    say,
    stopping,
    verdict,
    waiting,
)
from taskyard.core.actions import Ask, Decision, DeleteJob, DeletePod, Look, ReadLog, Unshield
from taskyard.core.model import Error, Job, Pod, Run, Snapshot, Status, Task, Wait
from taskyard.core.words import ACTIVE_STATES, ErrorCode, Reason, State, StopReason

UNCOUNTED: Final = "its Job was suspended under it, and let its pod go uncounted"
ORPHANED: Final = StopReason.LOST, "its Job was deleted and the pod left behind, an orphan"


def decide(snapshot: Snapshot, now: datetime) -> Decision:
    """The next step of one Task."""
    return denied.in_place_of(next_step(snapshot, now), snapshot, now)


def next_step(snapshot: Snapshot, now: datetime) -> Decision:
    """The same, whoever may refuse it."""
    if snapshot.vanished and snapshot.live is None:
        return Decision(Look())
    if (pod := stray(snapshot)) is not None and not denied.is_denied(snapshot, pod.name, now):
        # Only the API server knows which attempt is current: the cache may lag behind another's claim.
        if snapshot.live is None:
            return Decision(Look())
        if is_orphan_of_claim(snapshot, pod):
            return stopping.request(snapshot, ORPHANED, now)
        return Decision(DeletePod(pod))
    state = snapshot.task.status.state
    if state.is_terminal:
        return resting.of_resolved(snapshot, now)
    if state in ACTIVE_STATES:
        return follow(snapshot, now)
    return wait(snapshot, now)


def stray(snapshot: Snapshot) -> Pod | None:
    """A pod that runs without being the current run of an active task."""
    for pod in snapshot.pods:
        if pod.is_alive and not pod.deleting and not is_of_run(pod, snapshot.task):
            return pod
    return None


def is_orphan_of_claim(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether a stray is what is left of a claim whose Job was deleted without it. It may have run: that is a loss."""
    status = snapshot.task.status
    assert snapshot.live is not None
    is_claim = status.state is State.CLAIMED and status.stop is None and status.recorded_run is None
    is_jobless = snapshot.live.job is None or snapshot.live.job.deleting
    return is_claim and is_jobless and pod.attempt == status.attempt and pod.owner is None


def is_of_run(pod: Pod, task: Task) -> bool:
    """Whether this pod is the current run: the one that was recorded when it started; until then, one of the Job's.

    A label can be put on any pod by anybody. And a Job makes a second one if the first vanishes uncounted, its
    finalizer stripped: backoffLimit 0 or not.
    """
    status, recorded = task.status, task.status.recorded_run
    if status.state not in ACTIVE_STATES or pod.attempt != status.attempt:
        return False
    if recorded is None or recorded.attempt != status.attempt or recorded.pod is None:
        return pod.owner == manifest.job_name(task)
    return pod.name == recorded.pod


# Waiting.


def wait(snapshot: Snapshot, now: datetime) -> Decision:
    """Unclaimed: claim it when nothing holds it any more."""
    task = snapshot.task
    is_busy = any(pod.is_alive for pod in snapshot.pods)
    if kueue.queues(task) and task.status.attempt > 0 and not is_busy:
        # A Job that was taken back is Kueue's to resume, at any time: it goes before anything else is decided.
        if snapshot.live is None:
            return Decision(Look())
        if (step := waiting.put_to_rest(snapshot, now)) is not None:
            return step
    if task.spec.cancel and not is_busy:
        return end(snapshot, outcome.cancelled(task, verdict.NO_EVIDENCE, now))
    if (said := duplicates.replacement(task)) is not None and not is_busy and not task.deleting:
        return end(snapshot, outcome.replaced(task, said, verdict.NO_EVIDENCE, now))
    if clocks.has_struck(clocks.deadline(task), now):
        return end(snapshot, outcome.deadline_exceeded(task, verdict.NO_EVIDENCE, now))
    if clocks.has_struck(clocks.good_until(task), now):
        return end(snapshot, outcome.expired(task, verdict.NO_EVIDENCE, now))
    if task.deleting:
        return waiting.stay(snapshot, waiting.holds(snapshot, now), now)
    lost = next((pod for pod in snapshot.pods if pod.is_alive and is_unreachable(pod, task, now)), None)
    if lost is not None:
        return abandon(snapshot, lost, now)
    if (error := duplicates.of(snapshot)) is not None and not is_busy:
        return skip(snapshot, error, now)
    if (ask := dependencies.to_ask(snapshot)) is not None:
        return Decision(ask)
    if (error := dependencies.failure(snapshot)) is not None and not is_busy:
        return doom(snapshot, error, now)
    reasons = waiting.holds(snapshot, now)
    if reasons and clocks.has_struck(waiting.dropped_at(snapshot, reasons, now), now):
        return drop(snapshot, reasons[0], now)
    if reasons:
        return waiting.stay(snapshot, reasons, now)
    if task.status.attempt > 0 and snapshot.live is None:
        return Decision(Look())  # a second pod would be the worst that could happen: no cache is asked here
    if (step := waiting.put_to_rest(snapshot, now)) is not None:
        return step
    return claim(snapshot, now)


def end(snapshot: Snapshot, status: Status) -> Decision:
    """Resolved without a claim. What its definition gave it counts for what is still to come: its time to live."""
    return say.write(snapshot, replace(status, definition=definitions.bound(snapshot)))


def doom(snapshot: Snapshot, error: Error, now: datetime) -> Decision:
    """What it depends on came to nothing, and it is not to wait for more."""
    status = outcome.ended(snapshot.task, State.EXCEPTION, error, verdict.NO_EVIDENCE, now)
    return end(snapshot, replace(status, dependencies=dependencies.seen(snapshot)))


def skip(snapshot: Snapshot, error: Error, now: datetime) -> Decision:
    """Another one has its key: it is one too many, for certain."""
    if not snapshot.has_seen_rivals:
        return Decision(Ask(rivals=True))
    return end(snapshot, outcome.ended(snapshot.task, State.DROPPED, error, verdict.NO_EVIDENCE, now))


def drop(snapshot: Snapshot, why: Wait, now: datetime) -> Decision:
    """What it names to run is not there, for certain, and nobody brought it."""
    if not snapshot.asked:
        return Decision(Ask(definition=True))
    error = Error(ErrorCode(why.reason), why.message)
    return end(snapshot, outcome.ended(snapshot.task, State.DROPPED, error, verdict.NO_EVIDENCE, now))


def claim(snapshot: Snapshot, now: datetime) -> Decision:
    """Reserve the task: from here on this attempt, and no other, may have a Job."""
    status = snapshot.task.status
    status = replace(
        status,
        state=State.CLAIMED,
        reason=None,
        message=None,
        attempt=status.attempt + 1,
        enqueued_at=waiting.eligible_since(snapshot, now),
        next_retry_at=None,
        claimed_at=now,
        claimed_by=snapshot.claimer,
        dependencies=dependencies.seen(snapshot),
        definition=definitions.bound(snapshot),
        waiting=(),
    )
    return say.write(snapshot, status)


# Claimed or running.


def follow(snapshot: Snapshot, now: datetime) -> Decision:
    """Claimed or running: go by the pods of the current run."""
    task = snapshot.task
    pods = [pod for pod in snapshot.pods if is_of_run(pod, task)]
    alive = [pod for pod in pods if pod.is_alive]
    over = [pod for pod in pods if pod.is_over]
    if alive:
        return attend(snapshot, min(alive, key=_age), now)
    if over:
        return finish(snapshot, max(over, key=_age), now)
    if any(pod.is_alive for pod in snapshot.pods):
        return outlive(snapshot, now)
    if task.status.state is State.CLAIMED and not pods and task.status.stop is None:
        step = launch.of_claim(snapshot, now)
        return step if step is not None else close(snapshot, None, now)
    # There was a pod and none is known. Only a live look may say so: a quiet cache proves nothing.
    if snapshot.live is None:
        return Decision(Look())
    return close(snapshot, max(pods, key=_age, default=None), now)


def finish(snapshot: Snapshot, pod: Pod, now: datetime) -> Decision:
    """The run's pod is over. It has its verdict, when nobody can have another made by resuming its Job.

    A Job that somebody suspends, or scales to none, takes its pod away uncounted: such a pod is being deleted. It may
    have been resumed since, and is about to make another.
    """
    task = snapshot.task
    if (told_by := stopping.evidence_until(task, pod, now)) is not None:
        return say.acknowledge(snapshot, told_by)
    ending = verdict.of_pod(pod, task)
    is_lost = isinstance(ending, verdict.Lost)
    if snapshot.live is None and (pod.deleting or (is_lost and kueue.queues(task))):
        return Decision(Look())
    job = stopping.unfinished_job(snapshot)
    if is_lost and kueue.holds(task, job):
        ending = kueue.preempted(task, pod, ending.evidence)
    is_taken_back = kueue.queues(task) and isinstance(ending, verdict.NotStarted)  # `put_to_rest` comes next
    is_forgotten = job is not None and not (pod.is_tracked or job.has_counted)
    if job is None or not (job.suspend or job.is_idle or is_forgotten) or is_taken_back:
        return resolve(snapshot, ending, now, pod)
    if task.status.stop is None and not isinstance(ending, verdict.NotStarted):
        # On record first: whoever finds a claim without a Job takes it for one that was never launched.
        said = ending.message if isinstance(ending, verdict.Lost) else UNCOUNTED
        return stopping.request(snapshot, (StopReason.LOST, said), now)
    return Decision(DeleteJob(job))


def outlive(snapshot: Snapshot, now: datetime) -> Decision:
    """A stray is being stopped: nothing is over while it lives, but clocks go on."""
    task = snapshot.task
    given_up_at = stopping.given_up_at(task)
    if clocks.has_struck(given_up_at, now):
        ending = verdict.Stopped(verdict.NO_EVIDENCE, StopReason.DEADLINE_EXCEEDED)
        return close(snapshot, None, now, ending) if snapshot.live else Decision(Look())
    if task.status.stop is None and (why := stopping.why(task, None, now)) is not None:
        return stopping.request(snapshot, why, now)
    strays = [pod for pod in snapshot.pods if pod.is_alive]
    worries = (moment for pod in strays for moment in stopping.worries_at(task, pod))
    wake_at = clocks.next_of(now, (*stopping.strikes(task, None), given_up_at, *worries))
    if task.status.stop is not None:
        return say.acknowledge(snapshot, wake_at)  # the reason of the stop is said already
    said = stopping.still_there(task, min(strays, key=_age), now)
    return say.explain(snapshot, Reason.EARLIER_POD, said, wake_at)


def attend(snapshot: Snapshot, pod: Pod, now: datetime) -> Decision:
    """The run has a pod that lives: stop it if it must be, say so when the user's code starts, or let it be."""
    task, status = snapshot.task, snapshot.task.status
    if clocks.has_struck(stopping.given_up_at(task), now):
        return give_up(snapshot, pod, now)
    lost_at = stopping.unreachable_until(task, pod)
    if clocks.has_struck(lost_at, now):
        return abandon(snapshot, pod, now)
    worries_at = stopping.worries_at(task, pod)
    if status.stop is not None:
        step = stopping.of_pod(snapshot, pod, now)
        wake_at = clocks.next_of(now, (step.wake_at, lost_at, *worries_at))
        return say.noted(snapshot, stopping.wait_for_node(snapshot, pod, replace(step, wake_at=wake_at), now))
    if (why := stopping.why(task, pod, now)) is not None:
        return stopping.request(snapshot, why, now)
    shielded_until = unshield_at(snapshot, pod)
    ownerless_until = now + launch.FIRST_LOOK if pod.owner is None else None
    strikes = (*stopping.strikes(task, pod), lost_at, *worries_at, shielded_until, ownerless_until)
    wake_at = clocks.next_of(now, strikes)
    if pod.owner is None and not pod.deleting and (orphaned := adopt(snapshot, now)) is not None:
        return orphaned
    if clocks.has_struck(shielded_until, now):
        return Decision(Unshield(pod), wake_at)
    started_at = verdict.main_started_at(pod, task.spec.main_container)
    if status.state is State.CLAIMED and started_at is not None:
        return begin(snapshot, pod, started_at)
    if (said := stopping.worry(task, pod, now)) is not None:
        return say.explain(snapshot, said.reason, said.message, wake_at)
    if status.state is State.CLAIMED:
        return launch.await_start(snapshot, pod, now, wake_at)
    return say.explain(snapshot, None, None, wake_at)  # its node may have been silent for a time


def give_up(snapshot: Snapshot, pod: Pod, now: datetime) -> Decision:
    """Past its deadline a task is resolved, though its pod lives. After that no other may be made of its Job, and one
    without a node must not be given one."""
    if snapshot.live is None:
        return Decision(Look())
    if (job := stopping.unfinished_job(snapshot)) is not None:
        return Decision(DeleteJob(job))
    if pod.node is None and not pod.deleting:
        return Decision(DeletePod(pod))
    return resolve(snapshot, verdict.of_living(pod, snapshot.task), now)


def begin(snapshot: Snapshot, pod: Pod, started_at: datetime) -> Decision:
    """The user's code runs: from here on there is a run on record."""
    task = snapshot.task
    run = Run(
        number=task.status.run,
        attempt=task.status.attempt,
        state=State.RUNNING,
        job=manifest.job_name(task),
        pod=pod.name,
        node=pod.node,
        started_at=started_at,
    )
    status = outcome.with_start(outcome.with_run(task.status, run), run)
    return say.write(snapshot, replace(status, state=State.RUNNING, reason=None, message=None, waiting=()))


def is_unreachable(pod: Pod, task: Task, now: datetime) -> bool:
    """Whether its node has been silent for longer than the author of the task waits for it."""
    return clocks.has_struck(stopping.unreachable_until(task, pod), now)


def unshield_at(snapshot: Snapshot, pod: Pod) -> datetime | None:
    """When a pod has kept its node from being drained for as long as the operator's settings allow."""
    if not pod.is_shielded or snapshot.shield_limit is None:
        return None
    return pod.created_at + snapshot.shield_limit


def adopt(snapshot: Snapshot, now: datetime) -> Decision | None:
    """A pod that nothing owns would outlive its Task. None if its Job is there, and will take it back."""
    if snapshot.live is None:
        return Decision(Look())
    if snapshot.live.job is not None and not snapshot.live.job.deleting:
        return None
    return stopping.request(snapshot, ORPHANED, now)


def abandon(snapshot: Snapshot, pod: Pod, now: datetime) -> Decision:
    """Give a pod up for lost. Its Job goes first: it holds a pod that has not ended, even against force."""
    if snapshot.live is None:
        return Decision(Look())
    status = snapshot.task.status
    if status.state in ACTIVE_STATES and status.stop is None:
        unreachable = StopReason.LOST, f"the pod's node `{pod.node}` could not be reached"
        return stopping.request(snapshot, unreachable, now)
    job = snapshot.live.job
    if job is not None and job.belongs_to(snapshot.task) and not job.deleting:
        return Decision(DeleteJob(job))
    return Decision(DeletePod(pod, force=True), wake_at=now + stopping.PATIENCE)


def close(
    snapshot: Snapshot, last_seen: Pod | None, now: datetime, ending: verdict.Ending | None = None
) -> Decision:
    """No pod of the run is left, for certain. What is left of the Job goes first: it could make another."""
    assert snapshot.live is not None
    task, job = snapshot.task, snapshot.live.job
    if task.status.stop is not None:
        if launch.is_unfenced(snapshot):
            return launch.take_for_nobody(snapshot)
        if (step := stopping.of_job(snapshot, now)) is not None:
            return say.noted(snapshot, step)
    elif job is not None and job.belongs_to(task) and not job.is_over:
        return stopping.request(snapshot, why_unfinished(task, job, last_seen), now)
    own = job if job is not None and job.belongs_to(task) else None
    return resolve(snapshot, ending or verdict.without_pod(task, own, last_seen), now)


def why_unfinished(task: Task, job: Job, last_seen: Pod | None) -> stopping.Why:
    """The pod is gone, and its Job is not over: what is the reason to stop it?"""
    if not kueue.holds(task, job):
        return StopReason.LOST, "the pod was gone before the run had ended"
    if task.status.recorded_run is not None:
        return StopReason.LOST, kueue.PREEMPTED
    if last_seen is not None and last_seen.node is None:
        return StopReason.NO_CAPACITY, kueue.TAKEN_BACK
    return StopReason.LOST, kueue.PREEMPTED_UNSEEN


def resolve(snapshot: Snapshot, ending: verdict.Ending, now: datetime, pod: Pod | None = None) -> Decision:
    """The run is over: the task has its verdict, or another run."""
    status = outcome.of(snapshot.task, ending, now)
    if snapshot.log is not None:
        return say.write(snapshot, replace(status, log_tail=snapshot.log.tail))
    is_lost = isinstance(ending, verdict.Lost)  # as its log is: its node may not answer
    if pod is not None and not is_lost and logs.is_wanted(snapshot.task.spec, status, pod):
        return Decision(ReadLog(pod.name))
    return say.write(snapshot, status)


def _age(pod: Pod) -> tuple[datetime, str]:
    return pod.created_at, pod.name
