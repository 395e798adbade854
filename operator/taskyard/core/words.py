"""The words of Taskyard: the one list of states, and every other closed list that users meet.

The CRD takes its enums from here, and so does the documentation.
"""

from enum import StrEnum
from typing import Final

RUNS_KEPT: Final = 10
"""Of the history in `status.runs`."""

MESSAGE_LIMIT: Final = 4096
"""Characters of any message in a status."""

CODE_LIMIT: Final = 128
"""Characters of an error code that a task reports itself."""

LOG_LIMIT: Final = 8 * 1024
"""Bytes of a log that are kept in a status: the last ones."""

DEPENDENCIES_LIMIT: Final = 64
"""Of one Task."""

VERSIONS_LIMIT: Final = 32
"""Of one definition."""

INPUT_LIMIT: Final = 100 * 1024
"""Bytes of `input` as JSON: a single variable of a process may have 128 KiB."""


class State(StrEnum):
    """Where a Task is in its life. The only list of states."""

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


class ErrorCode(StrEnum):
    """What went wrong, for programs; published, and closed but for what a task reports itself."""

    EXIT_CODE = "ExitCode"
    SIGNAL = "Signal"
    OOM_KILLED = "OOMKilled"
    STORAGE_EXCEEDED = "StorageExceeded"
    TIMEOUT = "Timeout"
    UNHANDLED_ERROR = "UnhandledError"
    MALFORMED_PAYLOAD = "MalformedPayload"
    INTERNAL_ERROR = "InternalError"
    SHUTDOWN = "Shutdown"
    WORKER_LOST = "WorkerLost"
    START_FAILED = "StartFailed"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    TASK_EXPIRED = "TaskExpired"
    TASK_CANCELLED = "TaskCancelled"
    DEPENDENCY_FAILED = "DependencyFailed"
    DEFINITION_NOT_FOUND = "DefinitionNotFound"
    DEFINITION_RETIRED = "DefinitionRetired"
    DUPLICATE = "Duplicate"
    TASK_REPLACED = "TaskReplaced"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS: Final = {
    ErrorCode.EXIT_CODE: "the main container, or an init container, ended with an exit code other than 0",
    ErrorCode.SIGNAL: "the main container was ended by a signal (an exit code of 128 and the signal's number)",
    ErrorCode.OOM_KILLED: "the main container needed more memory than its limit",
    ErrorCode.STORAGE_EXCEEDED: "the run wrote more to ephemeral storage, or to an emptyDir, than its limit",
    ErrorCode.TIMEOUT: "the run took longer than `timeoutSeconds`, or than its pod's own limit",
    ErrorCode.UNHANDLED_ERROR: "the task reported an error without a code",
    ErrorCode.MALFORMED_PAYLOAD: "no pod can be made of the Task, or the task reported that it cannot"
    " understand its input; never retried",
    ErrorCode.INTERNAL_ERROR: "the task reported a fault that is not its payload's",
    ErrorCode.SHUTDOWN: "the run was ended by a drain of its node, or the task reported so",
    ErrorCode.WORKER_LOST: "what carried the run went away under it: pod deleted, node lost, preempted",
    ErrorCode.START_FAILED: "the main container could not be started, `startLimit` times",
    ErrorCode.DEADLINE_EXCEEDED: "the task was not resolved by its `deadline`",
    ErrorCode.TASK_EXPIRED: "the task had not started by its `goodUntil`",
    ErrorCode.TASK_CANCELLED: "`cancel` was set",
    ErrorCode.DEPENDENCY_FAILED: "a dependency did not end as it must, was deleted before its end, or depends on"
    " this task itself",
    ErrorCode.DEFINITION_NOT_FOUND: "`definitionRef` names what is not registered, or not any more",
    ErrorCode.DEFINITION_RETIRED: "`definitionRef` names a version that starts no new tasks",
    ErrorCode.DUPLICATE: "another task with the same `idempotencyKey` has completed, runs, or came first",
    ErrorCode.TASK_REPLACED: "another task with the same `idempotencyKey` took its place",
}


class Reason(StrEnum):
    """Why a Task is in its state, in one word. A failure's is its error code, unless the task made that up."""

    BEING_DELETED = "BeingDeleted"
    SUSPENDED = "Suspended"
    DEPENDENCY_FAILED = "DependencyFailed"
    DEPENDENCY_PENDING = "DependencyPending"
    DUPLICATE = "Duplicate"
    NOT_BEFORE = "NotBefore"
    RETRY_DELAY = "RetryDelay"
    RETRY = "Retry"
    RUN_LOST = "RunLost"
    DRAINED = "Drained"
    GIVEN_BACK = "GivenBack"
    EARLIER_POD = "EarlierPod"
    QUEUE_NOT_FOUND = "QueueNotFound"
    QUEUE_PAUSED = "QueuePaused"
    QUEUE_LIMIT = "QueueLimit"
    KEY_LIMIT = "KeyLimit"
    TYPE_LIMIT = "TypeLimit"
    RATE_LIMIT = "RateLimit"
    OPERATOR_LIMIT = "OperatorLimit"
    DEFINITION_NOT_FOUND = "DefinitionNotFound"
    DEFINITION_RETIRED = "DefinitionRetired"
    JOB_SUSPENDED = "JobSuspended"
    JOB_REFUSED = "JobRefused"
    JOB_NAME_TAKEN = "JobNameTaken"
    NO_POD = "NoPod"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_DENIED = "PodDenied"
    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL = "ImagePull"
    CONTAINER_WAITING = "ContainerWaiting"
    NODE_UNREACHABLE = "NodeUnreachable"
    STOPPING = "Stopping"
    RESULT_UNKNOWN = "ResultUnknown"
    ERROR_RESULT = "ErrorResult"
    STARTED_LATE = "StartedLate"


class StopReason(StrEnum):
    """Why a run is being stopped. It is recorded before anything is stopped."""

    CANCELLED = "Cancelled"
    REPLACED = "Replaced"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    EXPIRED = "Expired"
    TIMEOUT = "Timeout"
    SCHEDULE_TIMEOUT = "ScheduleTimeout"
    NO_CAPACITY = "NoCapacity"
    START_TIMEOUT = "StartTimeout"
    MALFORMED_PAYLOAD = "MalformedPayload"
    MAIN_CONTAINER_ENDED = "MainContainerEnded"
    LOST = "Lost"


class Backoff(StrEnum):
    """How the delay grows from retry to retry."""

    CONSTANT = "Constant"
    LINEAR = "Linear"
    EXPONENTIAL = "Exponential"
    EXPONENTIAL_JITTER = "ExponentialJitter"


class Requires(StrEnum):
    """What the dependencies of a task must come to before it may run."""

    ALL_COMPLETED = "AllCompleted"
    ALL_RESOLVED = "AllResolved"


class OnDependencyFailure(StrEnum):
    """What becomes of a task whose dependency did not end as it must."""

    FAIL = "Fail"
    WAIT = "Wait"


class OnDuplicate(StrEnum):
    """What becomes of a task when there is another with its `idempotencyKey`."""

    SKIP = "Skip"
    REPLACE = "Replace"
    QUEUE = "Queue"


class OnShutdown(StrEnum):
    """What becomes of a run whose node is drained."""

    RESUBMIT = "Resubmit"
    STOP = "Stop"
    CONTINUE = "Continue"


class DeadLetterPolicy(StrEnum):
    """Whether a task that did not succeed outlives its TTL."""

    NONE = "None"
    SAVE = "Save"


class LogPolicy(StrEnum):
    """Of which runs the end of the log is kept in the status."""

    NONE = "None"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"


class DefinitionKind(StrEnum):
    """Where a definition is registered: in the namespace, or for all of them."""

    TASK_DEFINITION = "TaskDefinition"
    CLUSTER_TASK_DEFINITION = "ClusterTaskDefinition"


class Flaw(StrEnum):
    """What had to be done to a task's own words before they could be kept."""

    NOT_JSON = "NotJson"
    TRUNCATED = "Truncated"
    INVALID_UTF8 = "InvalidUtf8"
    CONTROL_CHARACTERS = "ControlCharacters"


class PodPhase(StrEnum):
    """The phases of a pod, as Kubernetes has them."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


BY_KUBELET: Final = "TerminationByKubelet"
"""The disruption of a pod that its own kubelet ended: short of something, or about to go down."""
