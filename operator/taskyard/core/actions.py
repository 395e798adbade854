"""What may be done about a Task, and a decision to do one of these things: at most one, and when to look again."""

from dataclasses import dataclass
from datetime import datetime

from taskyard.core.model import Job, Json, Pod, Status


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Make the Task's status this one, if the Task is still the one that was decided upon."""

    status: Status


@dataclass(frozen=True, slots=True)
class CreateJob:
    """Create the Job of the current attempt. Creating it twice is fine: its name is fixed.

    `template`: that of its definition; None: its own. `is_placeholder`: one that never runs anything, to take the name
    from whoever may still try.
    """

    template: Json | None = None
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
    """Let a Job make no more pods, not even if somebody resumes it, and take back the one that has no node."""

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
class Ask:
    """Read live what the Task depends on, or who has its `idempotencyKey`, then decide again. Not a write."""

    tasks: tuple[str, ...] = ()
    definition: bool = False
    rivals: bool = False


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
    | Ask
    | ReadLog
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now (at most one write), and when to think again even if nothing happens."""

    action: Action | None = None
    wake_at: datetime | None = None
