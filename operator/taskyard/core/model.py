"""The records that everything else passes around: frozen, slotted, and changed by copy only.

The cache holds one `Task` for every Task in the cluster, so what a resolved one no longer needs is left out;
see `parse.task`.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from taskyard.core.spec import Spec
from taskyard.core.words import Flaw, PodPhase, Reason, State, StopReason


@dataclass(frozen=True, slots=True)
class Error:
    """What went wrong: one word for programs, one sentence for people.

    `is_reported`: the task said so itself, so its code is user data.
    """

    code: str
    message: str
    traceback: str | None = None
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value, in a box, because `null` is one too."""

    json: Any


@dataclass(frozen=True, slots=True)
class Result:
    """`status.result`: what the task left behind."""

    ok: Value | None = None
    error: Error | None = None
    flaws: tuple[Flaw, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """One entry of `status.waiting`: something that keeps the task from running, now."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Stop:
    """`status.stop`: this run is to end, for that reason."""

    reason: StopReason
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """One entry of `status.runs`: a run that started, or may have."""

    number: int
    attempt: int
    state: State
    reason: str | None = None
    error_code: str | None = None
    """What the task called its error itself; else the reason is the code."""
    job: str | None = None
    pod: str | None = None
    node: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """`Task.status`, less what follows from it (phase, conditions) and less the time of the write.

    A status that was never written has observed no generation.
    """

    state: State = State.PENDING
    reason: str | None = None
    message: str | None = None
    observed_generation: int = 0
    observed_rerun: int = 0
    run: int = 0
    attempt: int = 0
    run_count: int = 0
    retry_count: int = 0
    loss_count: int = 0
    start_failures: int = 0
    submitted_at: datetime | None = None
    rerun_at: datetime | None = None
    enqueued_at: datetime | None = None
    claimed_at: datetime | None = None
    claimed_by: str | None = None
    started_at: datetime | None = None
    retried_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    next_retry_at: datetime | None = None
    stop: Stop | None = None
    waiting: tuple[Wait, ...] = ()
    result: Result | None = None
    log_tail: str | None = None
    runs: tuple[Run, ...] = ()

    @property
    def recorded_run(self) -> Run | None:
        """The current run's entry in the history: there once its container has started."""
        return next((run for run in self.runs if run.number == self.run), None)


@dataclass(frozen=True, slots=True)
class Task:
    """What the operator remembers of a Task."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int
    deleting: bool
    spec: Spec
    status: Status


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    code: int
    reason: str | None
    message: str | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod: not started, started, or ended.

    `exit` without `started_at` is not a container that ran: the kubelet reports such an end, with 137, for
    one that it never started.
    """

    name: str
    started_at: datetime | None = None
    exit: Exit | None = None
    memory_limit: str | None = None
    """Told of one that ran out of memory."""


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What keeps a task or its pod from starting, in the cluster's own words.

    `is_final`: it will not pass by itself. `is_capacity`: it will, when others make room.
    """

    reason: Reason
    message: str
    is_final: bool = False
    is_capacity: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that carries a Task's uid, as last seen. `gone` is a hint: its object is said to be deleted."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    task_uid: str
    attempt: int
    created_at: datetime
    phase: PodPhase
    deleting: bool = False
    deleted_at: datetime | None = None
    """The end of its grace period; a pod that outlives it by far has lost its kubelet."""
    gone: bool = False
    node: str | None = None
    disturbed_at: datetime | None = None
    """When somebody first meant to end it from outside: a disruption, or a deletion."""
    owner: str | None = None
    """The Job that made it; none for one that somebody orphaned, or forged."""
    is_shielded: bool = False
    """Whether it is kept from evictions: `onShutdown: Continue`."""
    scheduled_at: datetime | None = None
    accepted_at: datetime | None = None
    """When its kubelet first saw it; `active_deadline` counts from then."""
    active_deadline: int | None = None
    reason: str | None = None
    message: str | None = None
    disruption: str | None = None
    hindrance: Hindrance | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the phase is terminal. It never changes again: evidence, even of a pod that is gone."""
        return self.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}

    @property
    def is_alive(self) -> bool:
        """Whether it may still run something, as far as anybody told us."""
        return not (self.is_over or self.gone)

    @property
    def has_started(self) -> bool:
        """Whether any code of the user's ran in it, init containers included."""
        return any(each.started_at is not None for each in (*self.containers, *self.init_containers))

    def container(self, name: str) -> Container | None:
        return next((each for each in self.containers if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Job:
    """A Job under the name that an attempt of a Task needs. Not watched: as the last answer had it."""

    name: str
    uid: str
    owner_uid: str | None
    attempt: int | None
    deleting: bool = False
    succeeded: bool = False
    failed: bool = False
    is_placeholder: bool = False
    """Whether it only holds the name, so that a claimer who is gone can make no Job of it any more."""
    suspend: bool = False
    """What was asked of it."""
    is_suspended: bool = False
    """What it says: no pod of it is at work, and none is on its way out."""

    @property
    def is_over(self) -> bool:
        """Whether it will make no more pods."""
        return self.succeeded or self.failed or self.deleting

    def belongs_to(self, task: Task) -> bool:
        """Whether this Job is the current attempt of the task, and not somebody else's that took the name."""
        return self.owner_uid == task.uid and self.attempt == task.status.attempt


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's no to the Job of an attempt."""

    malformed: bool
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Live:
    """What a live read showed a moment ago, less the pods: they are in the snapshot, by way of the cache.

    Its presence in a snapshot means: the Task was read, and every pod with its uid label was listed.
    """

    job: Job | None
    complaint: str | None = None
    """What the Job's controller says of pods that it could not make, in the cluster's own words."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a read of a run's log showed a moment ago: its end, or nothing where there is none any more."""

    tail: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that `decide` may know: one Task, what belongs to it, and facts about the rest of the world."""

    task: Task
    claimer: str
    hold: Hindrance | None = None
    """What keeps an eligible task from being claimed; None: it is admitted."""
    definition_found: bool = False
    acting_since: datetime | None = None
    """Since when this operator acts. Whoever claimed before that, under another name, acts no more."""
    is_shielded: bool = False
    """Whether evictions are refused in this namespace, of pods that ask for it."""
    shield_limit: timedelta | None = None
    """How long a pod may refuse them."""
    pods: tuple[Pod, ...] = ()
    job: Job | None = None
    refusal: Refusal | None = None
    looked_at: datetime | None = None
    vanished: bool = False
    live: Live | None = None
    log: Log | None = None


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Make the Task's status this one, if the Task is still the one that was decided upon."""

    status: Status


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of the current attempt. Creating it twice is fine: its name is fixed.

    `is_placeholder`: one that never runs anything, to take the name from whoever may still try.
    """

    is_placeholder: bool = False


@dataclass(frozen=True, slots=True)
class Shield:
    """See to it that evictions are refused, in the Task's namespace, of pods that ask for it."""


@dataclass(frozen=True, slots=True)
class Unshield:
    """Let a pod be evicted that has refused it for long enough."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class SuspendJob:
    """Let a Job make no more pods, and take back the one that has no node."""

    job: Job


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Remove a Job whose pods are over or gone, so that it makes no more."""

    job: Job


@dataclass(frozen=True, slots=True)
class EndPod:
    """Have the kubelet end a pod and keep what it leaves: SIGTERM, then SIGKILL after its grace period."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod that has no right to run, or that nobody else would end; `force`: without its kubelet."""

    pod: Pod
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Delete a Task whose time to live is over, if it is still the one that was decided upon."""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Task, its pods and its Job from the API server, then decide again. Not a write."""


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read the end of the main container's log, then decide again. Not a write."""

    pod: str


Action = (
    WriteStatus
    | CreateJob
    | Shield
    | Unshield
    | SuspendJob
    | DeleteJob
    | EndPod
    | DeletePod
    | DeleteTask
    | Look
    | ReadLog
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now (at most one write), and when to think again even if nothing happens."""

    action: Action | None = None
    wake_at: datetime | None = None
