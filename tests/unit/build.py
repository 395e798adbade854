"""Records and objects for tests, with everything said that the test does not care about."""

from datetime import UTC, datetime, timedelta
from typing import Any

from taskyard.core.model import Container, Exit, Job, Live, Pod, PodPhase, Snapshot, State, Status, Task

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
SUBMITTED = NOW - timedelta(minutes=10)
CLAIMED = NOW - timedelta(minutes=5)
STARTED = NOW - timedelta(minutes=4)
ENDED = NOW - timedelta(seconds=3)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def task(state: State = State.PENDING, **changes: Any) -> Task:
    """A task in some state, as the operator itself would have left it."""
    own: dict[str, Any] = {
        key: changes.pop(key)
        for key in ("deleting", "generation", "name", "main_container")
        if key in changes
    }
    status: dict[str, Any] = {"observed_generation": 1, "submitted_at": SUBMITTED}
    if state is not State.PENDING:
        status |= {"attempt": 1, "claimed_at": CLAIMED, "claimed_by": "op"}
    return Task(
        **{
            "namespace": "default",
            "name": "hello",
            "uid": "uid-1",
            "resource_version": 7,
            "generation": 1,
            "created_at": SUBMITTED,
            "deleting": False,
            "main_container": "main",
            **own,
        },
        status=Status(state=state, **{**status, **changes}),
    )


def pod(phase: PodPhase = PodPhase.PENDING, *containers: Container, **changes: Any) -> Pod:
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
    return Snapshot(**{"task": of, "claimer": "op", "admitted": True, "pods": pods, **facts})


def live(found: Job | None = None) -> Live:
    return Live(job=found)
