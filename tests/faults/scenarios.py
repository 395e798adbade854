"""What the operator is killed in the middle of: lives of one Task that pass every write there is, and how each ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from taskyard.core.manifest import (
    ANNOTATION_PLACEHOLDER,
    DO_NOT_DISTURB,
    LABEL_ATTEMPT,
    LABEL_ON_SHUTDOWN,
    LABEL_UID,
    SHIELD_NAME,
)
from taskyard.failpoint import Write
from tests.kube import JSON, UNTIL_TOLD, Kubectl, definition, nowhere, of_run, report, task

TASK: Final = "it"
FORGED: Final = "forged"
FIRST: Final = "first"
QUEUE: Final = "queue"
DEFINITION: Final = "definition"


@dataclass(frozen=True)
class Outcome:
    """All that a restart must not change."""

    state: str
    reason: str | None = None
    runs: tuple[tuple[int, int, str], ...] = ()
    """Of each its number, its attempt and its state."""
    attempt: int = 1
    retries: int = 0
    losses: int = 0
    start_failures: int = 0


def outcome_of(status: JSON) -> Outcome:
    return Outcome(
        state=status["state"],
        reason=status.get("reason"),
        runs=tuple(
            (number, attempt, state)
            for number, attempt, state in of_run(status, "number", "attempt", "state")
        ),
        attempt=status.get("attempt", 0),
        retries=status.get("retryCount", 0),
        losses=status.get("lossCount", 0),
        start_failures=status.get("startFailures", 0),
    )


def nothing(_: Kubectl) -> None:
    pass


@dataclass(frozen=True)
class Scenario:
    """One Task, what is done to it, and what becomes of it."""

    name: str
    script: str
    outcome: Outcome | None
    """None: the Task is deleted by its time to live."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    fits_nowhere: bool = False
    settings: Mapping[str, str | float] = field(default_factory=dict)
    prepare: Callable[[Kubectl], None] = nothing
    """Before there is an operator."""
    meddle: Callable[[Kubectl], None] = nothing
    """While the first one works."""
    finish: Callable[[Kubectl], None] = nothing
    """While the last one works."""
    verify: Callable[[Kubectl], None] = nothing
    """What else must hold at the end."""
    events: tuple[str, ...] = ()
    pods: int = 1

    def manifest(self) -> JSON:
        made = task(TASK, self.script, **self.spec)
        return nowhere(made) if self.fits_nowhere else made


def _cancel(kubectl: Kubectl) -> None:
    kubectl.until(TASK, "Running")
    kubectl.edit(TASK, cancel=True)


def _release(kubectl: Kubectl) -> None:
    kubectl.until(TASK, "Suspended", ".status.reason")
    kubectl.edit(TASK, suspend=False)


def _create_queue(kubectl: Kubectl) -> None:
    queue = {"apiVersion": "taskyard.dev/v1alpha1", "kind": "TaskQueue", "metadata": {"name": QUEUE}}
    kubectl.create(queue | {"spec": {"maxConcurrent": 1}})


def _create_definition(kubectl: Kubectl) -> None:
    kubectl.create(definition(DEFINITION, ("v1", report('{"ok": "as defined"}'))))


def _expect_what_it_says(kubectl: Kubectl) -> None:
    status = kubectl.status(TASK)
    assert (status["result"]["ok"], status["definition"]["version"]) == ("as defined", "v1")


def _create_first(kubectl: Kubectl) -> None:
    """What the Task waits for; it never has a pod."""
    kubectl.create(task(FIRST, "true", suspend=True))


def _end_first(kubectl: Kubectl) -> None:
    kubectl.until(TASK, "DependencyPending", ".status.reason")
    kubectl.edit(FIRST, cancel=True)


def _close_circle(kubectl: Kubectl) -> None:
    """The other one is held: it is not resolved before somebody lets it go."""
    wants: JSON = {"dependencies": [TASK], "onDependencyFailure": "Wait", "suspend": True}
    kubectl.create(task(FIRST, "true", **wants))


def _release_first(kubectl: Kubectl) -> None:
    kubectl.edit(FIRST, suspend=False)


def _expect_a_circle(kubectl: Kubectl) -> None:
    """Whoever resolved the Task may be gone: the other one does not wait for ever."""
    said = kubectl.wait(FIRST)["status"]["message"]
    assert said == f"its dependencies form a circle: `{FIRST}` → `{TASK}` → `{FIRST}`"


def _forge(kubectl: Kubectl) -> None:
    """A pod that says it is the Task's, and is not; without a node, so that it costs nothing."""
    uid = kubectl.get("task", TASK)["metadata"]["uid"]
    pod = nowhere(task(FORGED, "true"))["spec"]["template"]
    labels = {LABEL_UID: uid, LABEL_ATTEMPT: "7"}
    kubectl.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": FORGED, "labels": labels}, **pod})


def _expect_no_forgery(kubectl: Kubectl) -> None:
    assert all(pod["metadata"]["name"] != FORGED for pod in kubectl.get("pods")["items"])


def _expect_no_shield(kubectl: Kubectl) -> None:
    """The budget stays for others; this pod has had its time."""
    assert [each["metadata"]["name"] for each in kubectl.get("pdb")["items"]] == [SHIELD_NAME]
    assert not any(is_shielded(pod) for pod in kubectl.get("pods")["items"])


def _expect_nothing_left(kubectl: Kubectl) -> None:
    kubectl.eventually("Job and pod go with their Task", lambda: not kubectl.get("jobs,pods")["items"])


def is_shielded(pod: JSON) -> bool:
    """Whether a budget or an autoscaler would keep it from being evicted."""
    labels, annotations = pod["metadata"]["labels"], pod["metadata"].get("annotations", {})
    return labels[LABEL_ON_SHUTDOWN] == "Continue" or bool(DO_NOT_DISTURB.keys() & annotations.keys())


ONCE: Final = ((0, 1, "Completed"),)

SUCCESS: Final = Scenario("success", "sleep 2", Outcome("Completed", runs=ONCE))
HELD: Final = Scenario(
    "held", "true", Outcome("Completed", runs=ONCE), spec={"suspend": True}, finish=_release
)
EXPIRED: Final = Scenario(
    "expired",
    "true",
    Outcome("Expired", "TaskExpired", attempt=0),
    spec={"suspend": True, "goodForSeconds": 20},
    events=("TaskExpired",),
    pods=0,
)
FAILURE: Final = Scenario(
    "failure",
    "exit 3",
    Outcome("Failed", "ExitCode", ((0, 1, "Failed"), (1, 2, "Failed")), attempt=2, retries=1),
    spec={"retry": {"limit": 1, "delaySeconds": 1}},
    events=("Retrying", "TaskFailed"),
    pods=2,
)
CANCELLED: Final = Scenario(
    "cancelled",
    UNTIL_TOLD,
    Outcome("Cancelled", "TaskCancelled", ((0, 1, "Cancelled"),)),
    meddle=_cancel,
    events=("TaskCancelled",),
)
TIMED_OUT: Final = Scenario(
    "timed out",
    UNTIL_TOLD,
    Outcome("Failed", "Timeout", ((0, 1, "Failed"),)),
    spec={"timeoutSeconds": 1},
    events=("TaskFailed",),
)
UNSCHEDULABLE: Final = Scenario(
    "unschedulable",
    "true",
    Outcome("Exception", "StartFailed", start_failures=1),
    spec={"scheduleTimeoutSeconds": 1, "startLimit": 1},
    fits_nowhere=True,
    events=("TaskException",),
)
DEPENDENT: Final = Scenario(
    "dependent",
    "true",
    Outcome("Completed", runs=ONCE),
    spec={"dependencies": [FIRST], "requires": "AllResolved"},
    prepare=_create_first,
    meddle=_end_first,
)
DEFINED: Final = Scenario(
    "defined",
    "",
    Outcome("Completed", runs=ONCE),
    spec={
        "template": None,
        "definitionRef": {"kind": "TaskDefinition", "name": DEFINITION, "version": "v1"},
    },
    prepare=_create_definition,
    verify=_expect_what_it_says,
)
CIRCLE: Final = Scenario(
    "circle",
    "true",
    Outcome("Exception", "DependencyFailed", attempt=0),
    spec={"dependencies": [FIRST], "onDependencyFailure": "Wait"},
    prepare=_close_circle,
    finish=_release_first,
    verify=_expect_a_circle,
    events=("TaskException",),
    pods=0,
)
QUEUED: Final = Scenario(
    "queued",
    "sleep 2",
    Outcome("Completed", runs=ONCE),
    spec={"queueName": QUEUE},
    prepare=_create_queue,
)
SHORT_LIVED: Final = Scenario(
    "short lived", "true", None, spec={"ttlSecondsAfterFinished": 1}, verify=_expect_nothing_left
)
FORGERY: Final = Scenario(
    "forgery", "true", Outcome("Completed", runs=ONCE), prepare=_forge, verify=_expect_no_forgery
)
SHIELDED: Final = Scenario(
    "shielded",
    "sleep 5",
    Outcome("Completed", runs=ONCE),
    spec={"onShutdown": "Continue"},
    settings={"continue_seconds": 1},
    verify=_expect_no_shield,
)
ABANDONED: Final = Scenario(
    "abandoned",
    "true",
    Outcome("Completed", runs=((0, 2, "Completed"),), attempt=2),
    events=("ClaimGivenBack",),
)
"""Its claimer is killed before it has made the Job, and another one comes."""


def is_placeholder(job: JSON) -> bool:
    return bool(job["metadata"].get("annotations", {}).get(ANNOTATION_PLACEHOLDER) == "true")


def is_written(kubectl: Kubectl, write: Write) -> bool:
    """Whether the cluster shows this write."""
    if write in {Write.TTL, Write.DELETE_POD, Write.DELETE_JOB}:
        return _is_deleted(kubectl, write)
    return _IN_STATUS[write](kubectl.status(TASK)) if write in _IN_STATUS else _is_in_others(kubectl, write)


_IN_STATUS: Final[Mapping[Write, Callable[[JSON], bool]]] = {
    Write.NOTE: lambda status: status.get("reason") == "Suspended",
    Write.CLAIM: lambda status: status["state"] == "Claimed",
    Write.RUNNING: lambda status: status["state"] == "Running",
    Write.STOP: lambda status: "stop" in status,
    Write.REQUEUE: lambda status: status.get("attempt") == 1 and "claimedBy" not in status,
    Write.VERDICT: lambda status: status["phase"] == "Finished",
}


def _is_deleted(kubectl: Kubectl, write: Write) -> bool:
    match write:
        case Write.TTL:
            left = kubectl.get("tasks")["items"]
        case Write.DELETE_JOB:
            left = kubectl.get("jobs")["items"]
        case _:
            left = [pod for pod in kubectl.get("pods")["items"] if pod["metadata"]["name"] == FORGED]
    return all("deletionTimestamp" in each["metadata"] for each in left)


def _is_in_others(kubectl: Kubectl, write: Write) -> bool:
    match write:
        case Write.CREATE_JOB:
            return any(not is_placeholder(job) for job in kubectl.get("jobs")["items"])
        case Write.PLACEHOLDER:
            return any(is_placeholder(job) for job in kubectl.get("jobs")["items"])
        case Write.SUSPEND_JOB:
            return any(job["spec"].get("suspend") for job in kubectl.get("jobs")["items"])
        case Write.END_POD:
            return any(pod["spec"].get("activeDeadlineSeconds") == 1 for pod in kubectl.get("pods")["items"])
        case Write.SHIELD:
            return bool(kubectl.get("pdb")["items"])
        case Write.UNSHIELD:
            return not any(is_shielded(pod) for pod in kubectl.get("pods")["items"])
        case Write.ANNOUNCE:
            return bool(kubectl.events(TASK))
        case Write.REPORT:
            return "status" in kubectl.get("taskqueue", QUEUE)
        case Write.LEASE:
            return bool(kubectl.get("leases")["items"])
        case _:
            raise AssertionError(f"nothing says how {write} shows")
