"""The words of Taskyard: the one list of states, and the records that everything else passes around.

Records are frozen and slotted: the cache holds one for every Task in the cluster, and nobody changes one in
place.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a Task is in its life. The only list of states; the CRD takes its enum from here."""

    UNSCHEDULED = "Unscheduled"
    DELAYED = "Delayed"
    PENDING = "Pending"
    CLAIMED = "Claimed"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    EXCEPTION = "Exception"
    CANCELLED = "Cancelled"
    EXPIRED = "Expired"
    STALLED = "Stalled"
    DROPPED = "Dropped"

    @property
    def is_terminal(self) -> bool:
        """Whether the Task is resolved: only a rerun leads out of such a state."""
        return self in TERMINAL_STATES

    @property
    def phase(self) -> "Phase":
        """The coarse view of this state, for field selectors."""
        if self.is_terminal:
            return Phase.FINISHED
        return Phase.ACTIVE if self in ACTIVE_STATES else Phase.WAITING


class Phase(StrEnum):
    """Every state in three words."""

    WAITING = "Waiting"
    ACTIVE = "Active"
    FINISHED = "Finished"


ACTIVE_STATES: Final = frozenset({State.CLAIMED, State.RUNNING})
TERMINAL_STATES: Final = frozenset(
    {
        State.COMPLETED,
        State.FAILED,
        State.EXCEPTION,
        State.CANCELLED,
        State.EXPIRED,
        State.STALLED,
        State.DROPPED,
    }
)


class Reason(StrEnum):
    """Why a Task is in its state, in one word. The reason of a failure is its error code."""

    RESULT_UNKNOWN = "ResultUnknown"
    JOB_REFUSED = "JobRefused"
    JOB_NAME_TAKEN = "JobNameTaken"
    NO_POD = "NoPod"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL = "ImagePull"
    CONTAINER_WAITING = "ContainerWaiting"


class ErrorCode(StrEnum):
    """What went wrong, for programs; published, and closed but for what a task reports itself."""

    EXIT_CODE = "ExitCode"
    SIGNAL = "Signal"
    OOM_KILLED = "OOMKilled"
    TIMEOUT = "Timeout"
    WORKER_LOST = "WorkerLost"
    MALFORMED_PAYLOAD = "MalformedPayload"


@dataclass(frozen=True, slots=True)
class Error:
    """What went wrong: one word for programs, one sentence for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Run:
    """One entry of `status.runs`: a run that started, or may have."""

    number: int
    attempt: int
    state: State
    reason: str | None = None
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
    run: int = 0
    attempt: int = 0
    run_count: int = 0
    submitted_at: datetime | None = None
    claimed_at: datetime | None = None
    claimed_by: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    error: Error | None = None
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """What the operator remembers of a Task: not its template, which only a launch needs.

    Of a resolved Task the status is cut down to what can still matter; see `parse.task`.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int
    created_at: datetime
    deleting: bool
    main_container: str
    status: Status


class PodPhase(StrEnum):
    """The phases of a pod, as Kubernetes has them."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


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


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What keeps a pod from starting, in the cluster's own words."""

    reason: Reason
    message: str


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
    gone: bool = False
    node: str | None = None
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

    @property
    def is_over(self) -> bool:
        """Whether it will make no more pods."""
        return self.succeeded or self.failed

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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that `decide` may know: one Task, what belongs to it, and facts about the rest of the world."""

    task: Task
    claimer: str
    admitted: bool
    pods: tuple[Pod, ...] = ()
    job: Job | None = None
    refusal: Refusal | None = None
    looked_at: datetime | None = None
    vanished: bool = False
    live: Live | None = None


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Make the Task's status this one, if the Task is still the one that was decided upon."""

    status: Status


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of the current attempt. Creating it twice is fine: its name is fixed."""


@dataclass(frozen=True, slots=True)
class StopPod:
    """Delete a pod that has no right to run."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Look:
    """Read the Task, its pods and its Job from the API server, then decide again. Not a write."""


Action = WriteStatus | CreateJob | StopPod | Look


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now (at most one write), and when to think again even if nothing happens."""

    action: Action | None = None
    wake_at: datetime | None = None
