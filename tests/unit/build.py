"""Records and objects for tests, with everything said that the test does not care about."""

from datetime import UTC, datetime, timedelta
from typing import Any

from taskyard.core import manifest
from taskyard.core.model import Container, Exit, Job, Live, Pod, Snapshot, Status, Task, Version
from taskyard.core.spec import DefinitionRef, Retry, Spec
from taskyard.core.words import (
    Backoff,
    DeadLetterPolicy,
    DefinitionKind,
    LogPolicy,
    OnDependencyFailure,
    OnDuplicate,
    OnShutdown,
    PodPhase,
    Requires,
    State,
)

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
SUBMITTED = NOW - timedelta(minutes=10)
CLAIMED = NOW - timedelta(minutes=5)
STARTED = NOW - timedelta(minutes=4)
ENDED = NOW - timedelta(seconds=3)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def retry(**changes: Any) -> Retry:
    """No retry at all, as the CRD has it by default."""
    defaults: dict[str, Any] = {
        "limit": 0,
        "backoff": Backoff.CONSTANT,
        "delay": None,
        "max_delay": seconds(3600),
        "intervals": (),
        "expected": None,
        "infrastructure_limit": 5,
    }
    return Retry(**{**defaults, **changes})


def spec(**changes: Any) -> Spec:
    """Everything by default, as the CRD has it."""
    defaults: dict[str, Any] = {
        "main_container": "main",
        "grace": seconds(5),
        "definition": None,
        "dependencies": (),
        "requires": Requires.ALL_COMPLETED,
        "on_dependency_failure": OnDependencyFailure.FAIL,
        "release": False,
        "queue": "default",
        "priority": 0,
        "run_at": None,
        "start_delay": None,
        "good_until": None,
        "good_for": None,
        "deadline": None,
        "deadline_after": None,
        "schedule_timeout": seconds(900),
        "start_timeout": seconds(600),
        "start_limit": 3,
        "timeout": None,
        "retry": retry(),
        "unreachable_timeout": None,
        "idempotency_key": None,
        "on_duplicate": OnDuplicate.SKIP,
        "suspend": False,
        "cancel": False,
        "rerun": 0,
        "on_shutdown": OnShutdown.RESUBMIT,
        "dead_letter": DeadLetterPolicy.NONE,
        "logs": LogPolicy.ON_FAILURE,
        "ttl": seconds(86400),
    }
    return Spec(**{**defaults, **changes})


def task(state: State = State.PENDING, *, wants: dict[str, Any] | None = None, **changes: Any) -> Task:
    """A task in some state, as the operator itself would have left it; `wants` is what its spec says."""
    own: dict[str, Any] = {
        key: changes.pop(key) for key in ("deleting", "generation", "name", "uid") if key in changes
    }
    status: dict[str, Any] = {"observed_generation": 1, "submitted_at": SUBMITTED}
    if state in {State.CLAIMED, State.RUNNING}:
        status |= {"attempt": 1, "claimed_at": CLAIMED, "claimed_by": "op", "enqueued_at": SUBMITTED}
    if state.is_terminal:
        status |= {"attempt": 1, "completed_at": NOW - seconds(60)}
    return Task(
        **{
            "namespace": "default",
            "name": "hello",
            "uid": "uid-1",
            "resource_version": 7,
            "generation": 1,
            "deleting": False,
            "spec": spec(**(wants or {})),
            **own,
        },
        status=Status(state=state, **{**status, **changes}),
    )


def pod(phase: PodPhase = PodPhase.PENDING, *containers: Container, **changes: Any) -> Pod:
    """A pod that the Job of `task()` made, for the attempt that it is of."""
    attempt = task(State.CLAIMED, attempt=changes.get("attempt", 1))
    return Pod(
        **{
            "namespace": "default",
            "name": "hello-1-abcde",
            "uid": "pod-uid-1",
            "resource_version": 9,
            "task_uid": "uid-1",
            "attempt": 1,
            "created_at": CLAIMED,
            "phase": phase,
            "node": "node-1",
            "owner": manifest.job_name(attempt),
            "containers": containers,
            **changes,
        }
    )


def started(name: str = "main") -> Container:
    return Container(name, started_at=STARTED)


def ended(
    code: int = 0, name: str = "main", reason: str | None = None, message: str | None = None
) -> Container:
    return Container(name, started_at=STARTED, exit=Exit(code, reason, message, ENDED))


def job(**changes: Any) -> Job:
    return Job(**{"name": "job", "uid": "job-uid-1", "owner_uid": "uid-1", "attempt": 1, **changes})


def snapshot(of: Task, *pods: Pod, **facts: Any) -> Snapshot:
    return Snapshot(**{"task": of, "claimer": "op", "pods": pods, **facts})


REF = DefinitionRef(DefinitionKind.TASK_DEFINITION, "report", "v1")


def version(**changes: Any) -> Version:
    """What `REF` leads to."""
    offered: dict[str, Any] = {
        "kind": DefinitionKind.TASK_DEFINITION,
        "uid": "definition-uid",
        "version": "v1",
        "digest": "digest",
        "template": {"spec": {"containers": [{"name": "main", "image": "i"}]}},
        "defaults": {},
        "main_container": "main",
        "grace_seconds": 5,
    }
    return Version(**{**offered, **changes})


def live(found: Job | None = None, complaint: str | None = None) -> Live:
    return Live(job=found, complaint=complaint)
