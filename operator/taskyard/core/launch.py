"""From a claim to its pod: see to it that there is a Job, then that it comes to something."""

from datetime import datetime, timedelta
from typing import Final

from taskyard.core import clocks, duplicates, kueue, manifest, outcome, say, stopping, verdict
from taskyard.core.actions import Ask, CreateJob, Decision, Look, Shield
from taskyard.core.model import Error, Job, Json, Pod, Snapshot, Status, Unregistered, Version
from taskyard.core.refusals import Refusal
from taskyard.core.words import ErrorCode, OnShutdown, Reason, State

FIRST_LOOK: Final = timedelta(seconds=5)
LONGEST_WAIT_FOR_A_LOOK: Final = timedelta(minutes=5)
REFUSED_AGAIN_AFTER: Final = timedelta(seconds=10)


def of_claim(snapshot: Snapshot, now: datetime) -> Decision | None:
    """The next step of a claim whose pod was never seen; None when its Job is gone or over: the run is."""
    task, job, live = snapshot.task, snapshot.job, snapshot.live
    complaint = live.complaint if live is not None else None
    if job is not None and job.is_placeholder and job.belongs_to(task):
        return say.write(snapshot, unclaimed(snapshot, now))
    why = stopping.why(task, None, now, complaint)
    is_unasked = job is None and snapshot.refusal is None and not task.deleting
    if why is not None and why[0] in stopping.FOR_WANT_OF_A_NODE and is_unasked:
        return give_back(snapshot)  # nobody was there to ask for a pod: that is no fault of the task's
    if why is not None and why[0] in stopping.FOR_WANT_OF_A_NODE and kueue.queues(task):
        if live is None:
            return Decision(Look())
        by = kueue.schedule_by(task, live.job)
        is_early = kueue.is_new(task, live.job) or (by is not None and now < by)
        if kueue.holds(task, live.job) or is_early:
            why = None
    if why is not None:
        return stopping.request(snapshot, why, now)
    clock = clocks.next_of(now, (*stopping.strikes(task, None), kueue.schedule_by(task, job)))
    if job is None:
        return create_job(snapshot, now, clock)
    if live is None and kueue.holds(task, job) and task.status.reason != Reason.JOB_SUSPENDED:
        return held(snapshot, job, next_look(task.status.claimed_at or now, snapshot.looked_at))
    due = next_look(task.status.claimed_at or now, snapshot.looked_at)
    wake_at = clocks.next_of(now, (due, clock))
    if live is None:
        if not job.belongs_to(task) and task.status.reason != Reason.JOB_NAME_TAKEN:
            return name_taken(snapshot, wake_at)
        if job.is_over or now >= due:
            return Decision(Look())
        return say.acknowledge(snapshot, wake_at)
    if live.job is None and not job.belongs_to(task):
        return create_job(snapshot, now, clock)
    if live.job is None or (live.job.belongs_to(task) and live.job.is_over):
        return None
    if not live.job.belongs_to(task):
        return say.acknowledge(snapshot, wake_at)
    if kueue.holds(task, live.job):
        return held(snapshot, live.job, wake_at)
    return no_pod(snapshot, live.job, wake_at)


def no_pod(snapshot: Snapshot, job: Job, wake_at: datetime | None) -> Decision:
    """There is a Job, and it makes no pod; its controller may have said why."""
    complaint = snapshot.live.complaint if snapshot.live is not None else None
    if job.suspend:
        paused = f"the Job `{job.name}` is suspended, and not by Taskyard; it makes a pod when it is resumed"
        return say.explain(snapshot, Reason.JOB_SUSPENDED, paused, wake_at)
    if complaint is None:
        silent = f"the Job `{job.name}` has made no pod so far; `kubectl describe job` shows its events"
        return say.explain(snapshot, Reason.NO_POD, silent, wake_at)
    reason = Reason.QUOTA_EXCEEDED if stopping.QUOTA in complaint else Reason.POD_DENIED
    return say.explain(snapshot, reason, complaint, wake_at)


def await_start(snapshot: Snapshot, pod: Pod, now: datetime, wake_at: datetime | None) -> Decision:
    """The pod is there and the user's code does not run yet: pass on what the cluster complains of."""
    hindrance, reason = pod.hindrance, snapshot.task.status.reason
    if hindrance is None and pod.node is not None and not pod.has_started:
        return await_container(snapshot, pod, now, wake_at)
    if hindrance is None:
        return say.explain(snapshot, None, None, wake_at)
    if hindrance.reason is Reason.IMAGE_PULL and reason == Reason.IMAGE_PULL:
        # The kubelet alternates between the error and "back-off": the first said more.
        return say.acknowledge(snapshot, wake_at)
    return say.explain(snapshot, hindrance.reason, hindrance.message, wake_at)


def await_container(snapshot: Snapshot, pod: Pod, now: datetime, wake_at: datetime | None) -> Decision:
    """It has a node and no complaint. Of a volume that does not come only the pod's Events tell: somebody looks."""
    has_node_since = max(
        pod.scheduled_at or pod.created_at, snapshot.task.status.claimed_at or pod.created_at
    )
    due = next_look(has_node_since + FIRST_LOOK, snapshot.looked_at)
    if snapshot.live is None and now >= due:
        return Decision(Look())
    wake_at = clocks.next_of(now, (wake_at, due))
    if snapshot.live is not None and snapshot.live.complaint is not None:
        return say.explain(snapshot, Reason.CONTAINER_WAITING, snapshot.live.complaint, wake_at)
    if snapshot.live is None and snapshot.task.status.reason == Reason.CONTAINER_WAITING:
        return say.acknowledge(snapshot, wake_at)  # until somebody looks again
    return say.explain(snapshot, None, None, wake_at)


def held(snapshot: Snapshot, job: Job, wake_at: datetime | None) -> Decision:
    """Kueue has not let it go yet; no clock of a start runs meanwhile."""
    queue = snapshot.task.labels[kueue.QUEUE_NAME]
    said = f"the Job `{job.name}` is suspended until Kueue lets it go from its queue `{queue}`"
    return say.explain(snapshot, Reason.JOB_SUSPENDED, said, wake_at)


def create_job(snapshot: Snapshot, now: datetime, clock: datetime | None) -> Decision:
    """Create the Job, unless the API server has just refused it."""
    refusal = snapshot.refusal
    if snapshot.task.deleting:
        return Decision(wake_at=clock)
    if refusal is None:
        return take_name(snapshot, now, clock)
    if refusal.malformed:
        return reject(snapshot, refusal, now)
    waited = refusal.at - (snapshot.task.status.claimed_at or refusal.at)
    again_at = refusal.at + min(max(waited, REFUSED_AGAIN_AFTER), LONGEST_WAIT_FOR_A_LOOK)
    if now >= again_at and is_said_to_be_refused(snapshot) and not is_of_an_earlier_life(snapshot):
        # From here on there may be one, as far as whoever comes next can tell.
        return say.explain(snapshot, None, None, clock)
    if now >= again_at:
        return take_name(snapshot, now, clock)
    wake_at = clocks.next_of(now, (again_at, clock))
    if snapshot.task.status.reason == Reason.JOB_REFUSED:
        return say.acknowledge(snapshot, wake_at)  # a webhook may put it in other words each time
    return say.explain(snapshot, Reason.JOB_REFUSED, refusal.message, wake_at)


def take_name(snapshot: Snapshot, now: datetime, clock: datetime | None) -> Decision:
    """The Job of one's own claim at once. Of another's claim only after a look, and after some time if he is there."""
    status = snapshot.task.status
    claimed_at = status.claimed_at or now
    is_own, is_old = status.claimed_by == snapshot.claimer, is_of_an_earlier_life(snapshot)
    if not (is_own or is_old) and now < claimed_at + FIRST_LOOK:
        return Decision(wake_at=clocks.next_of(now, (claimed_at + FIRST_LOOK, clock)))
    is_once_at_most = snapshot.task.spec.retry.infrastructure_limit == 0
    if is_old and (not is_own or is_once_at_most):
        return give_back(snapshot)
    if not is_own and snapshot.live is None:
        return Decision(Look())
    if isinstance(snapshot.definition, Unregistered):
        return give_back(snapshot)
    if snapshot.task.spec.idempotency_key is not None:
        if not snapshot.has_seen_rivals:
            return Decision(Ask(rivals=True))
        # One may have run, from its claim to its end, while nobody told this operator.
        if duplicates.contender(snapshot) is not None or duplicates.of(snapshot) is not None:
            return give_back(snapshot)
    if snapshot.task.spec.on_shutdown is OnShutdown.CONTINUE and not snapshot.is_shielded:
        return Decision(Shield())
    return Decision(CreateJob(template_of(snapshot)))


def template_of(snapshot: Snapshot) -> Json | None:
    """What to run, if it is not in the Task itself."""
    match snapshot.definition:
        case None:
            return None
        case Version(template=template):
            return template
        case Unregistered():
            return manifest.nothing_to_run(snapshot.task)


def unclaimed(snapshot: Snapshot, now: datetime) -> Status:
    """What becomes of a claim whose Job nobody has made; or none that is left. Of an old one nobody can tell, and
    whoever wants it at most once gets it so."""
    task, definition = snapshot.task, snapshot.definition
    if task.status.claimed_by == snapshot.claimer and not is_of_an_earlier_life(snapshot):
        if isinstance(definition, Unregistered):
            return outcome.unclaimed(task, definition.message, now)
        if task.spec.idempotency_key is not None:
            said = "another task with the same `idempotencyKey` was claimed at the same time, or before"
            return outcome.unclaimed(task, said, now)
        if definition is not None:
            return outcome.unclaimed(task, "its definition was not there for a moment", now)
        return outcome.unclaimed(task, "another operator took its claimer for gone", now)
    claimer = f"its claimer `{task.status.claimed_by}` is gone"
    if is_said_to_be_refused(snapshot):
        return outcome.unclaimed(task, f"{claimer}, and its Job had been refused: {task.status.message}", now)
    if task.spec.retry.infrastructure_limit == 0:
        lost = verdict.Lost(verdict.NO_EVIDENCE, f"{claimer}, and nobody knows whether it ran")
        return outcome.lost(task, lost, now)
    return outcome.unclaimed(task, f"{claimer}, and had made no Job", now)


def is_said_to_be_refused(snapshot: Snapshot) -> bool:
    """Whether, of a task that is to run at most once, it is on record that the API server's last word was no."""
    task = snapshot.task
    return task.spec.retry.infrastructure_limit == 0 and task.status.reason == Reason.JOB_REFUSED


def is_of_an_earlier_life(snapshot: Snapshot) -> bool:
    """Whether the claim is older than this operator: whoever made it acts no more, or not as who he was."""
    claimed_at, since = snapshot.task.status.claimed_at, snapshot.acting_since
    return claimed_at is not None and since is not None and claimed_at < since


def give_back(snapshot: Snapshot) -> Decision:
    """Take the name of a Job that nobody has made.

    Its claimer may be late and not gone: no clock and no lease can tell. So a claim is given back by way of a Job
    that holds its name and makes no pod. Whoever comes late finds the name taken.
    """
    return Decision(Look()) if snapshot.live is None else take_for_nobody(snapshot)


def take_for_nobody(snapshot: Snapshot) -> Decision:
    return Decision(CreateJob(template_of(snapshot), is_placeholder=True))


def is_unfenced(snapshot: Snapshot) -> bool:
    """Whether a claim is to end, and a Job of it could still be made by a request that is on its way.

    Where the API server refuses such Jobs, it refuses the late one too. What is given back had a Job: see `give_back`.
    """
    assert snapshot.live is not None
    status = snapshot.task.status
    is_for_good = status.stop is not None and status.stop.reason in stopping.FOR_GOOD
    is_unmade = snapshot.live.job is None and snapshot.refusal is None
    return status.state is State.CLAIMED and is_for_good and is_unmade and not snapshot.task.deleting


def name_taken(snapshot: Snapshot, wake_at: datetime | None) -> Decision:
    """A Job of the right name is not ours; with a hash of the uid in its name that is no accident."""
    name = manifest.job_name(snapshot.task)
    message = f"a Job `{name}` exists that is not this task's; waiting until it is gone"
    return say.explain(snapshot, Reason.JOB_NAME_TAKEN, message, wake_at)


def reject(snapshot: Snapshot, refusal: Refusal, now: datetime) -> Decision:
    """The API server will never take this Job: no run, no retry."""
    error = Error(ErrorCode.MALFORMED_PAYLOAD, refusal.message)
    return say.write(snapshot, outcome.ended(snapshot.task, State.EXCEPTION, error, verdict.NO_EVIDENCE, now))


def next_look(since: datetime, looked_at: datetime | None) -> datetime:
    """When to look at a Job whose pod does not appear: after 5 s, then whenever the wait has doubled."""
    if looked_at is None or looked_at < since + FIRST_LOOK:
        return since + FIRST_LOOK
    return looked_at + min(looked_at - since, LONGEST_WAIT_FOR_A_LOOK)
