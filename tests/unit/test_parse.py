"""From the API server's JSON to records, and back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskyard.core import parse
from taskyard.core.manifest import status_patch
from taskyard.core.model import Container, Error, Exit, Hindrance, PodPhase, Reason, Run, State, Status
from tests.unit.build import CLAIMED, ENDED, NOW, STARTED, SUBMITTED

TASK: dict[str, Any] = {
    "metadata": {
        "namespace": "default",
        "name": "hello",
        "uid": "task-uid",
        "resourceVersion": "1000000007",
        "generation": 2,
        "creationTimestamp": "2026-01-01T11:50:00Z",
    },
    "spec": {"template": {"spec": {"containers": [{"name": "first"}, {"name": "second"}]}}},
}
POD: dict[str, Any] = {
    "metadata": {
        "namespace": "default",
        "name": "hello-1-abcde",
        "uid": "pod-uid",
        "resourceVersion": "12",
        "creationTimestamp": "2026-01-01T11:55:00Z",
        "labels": {"taskyard.dev/task-uid": "task-uid", "taskyard.dev/attempt": "3"},
    },
    "spec": {"nodeName": "node-1"},
    "status": {"phase": "Running"},
}


def merged(target: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(target)
    for key, value in changes.items():
        result[key] = merged(result.get(key, {}), value) if isinstance(value, dict) else value
    return result


def test_a_new_task_is_pending_and_submitted_when_it_was_created() -> None:
    task = parse.task(TASK)
    assert task.resource_version == 1000000007
    assert task.main_container == "first"
    assert task.status == Status(submitted_at=SUBMITTED)
    assert not task.deleting


def test_the_main_container_can_be_named() -> None:
    assert parse.task(merged(TASK, {"spec": {"mainContainer": "second"}})).main_container == "second"


def test_a_task_with_a_deletion_timestamp_is_being_deleted() -> None:
    assert parse.task(merged(TASK, {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})).deleting


def test_what_is_written_is_read_back() -> None:
    status = Status(
        state=State.RUNNING,
        reason="R",
        message="m",
        observed_generation=2,
        run=1,
        attempt=2,
        run_count=2,
        submitted_at=SUBMITTED,
        claimed_at=CLAIMED,
        claimed_by="op",
        started_at=STARTED,
        error=Error("C", "m"),
        runs=(
            Run(0, 1, State.FAILED, "ExitCode", "j", "p", "n", STARTED, ENDED, 3, None, "m"),
            Run(1, 2, State.RUNNING, signal=9),
        ),
    )
    patch = status_patch(parse.task(TASK), status, NOW)
    assert parse.task(merged(TASK, {"status": patch["status"]})).status == status


def test_a_resolved_task_keeps_only_what_can_still_matter() -> None:
    status = {
        "state": "Failed",
        "message": "long",
        "observedGeneration": 2,
        "attempt": 4,
        "run": 1,
        "runCount": 2,
        "completedAt": "2026-01-01T12:00:00Z",
        "runs": [{"number": 0}, {"number": 1}],
        "result": {"error": {"code": "ExitCode", "message": "long"}},
    }
    assert parse.task(merged(TASK, {"status": status})).status == Status(
        state=State.FAILED, observed_generation=2, run=1, attempt=4, run_count=2, completed_at=NOW
    )


@pytest.mark.parametrize(
    ("state", "container"),
    [
        ({}, Container("main")),
        ({"waiting": {"reason": "ImagePullBackOff"}}, Container("main")),
        ({"running": {"startedAt": "2026-01-01T11:56:00Z"}}, Container("main", STARTED)),
        (
            {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": "2026-01-01T11:56:00Z"}},
            Container("main", STARTED, Exit(3, "Error", None, None)),
        ),
        (
            {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None}},
            Container("main", None, Exit(137, "ContainerStatusUnknown", None, None)),
        ),
    ],
)
def test_containers(state: dict[str, Any], container: Container) -> None:
    pod = parse.pod(merged(POD, {"status": {"containerStatuses": [{"name": "main", "state": state}]}}))
    assert pod.containers == (container,)


def test_a_pod_of_a_task() -> None:
    pod = parse.pod(POD)
    assert (pod.task_uid, pod.attempt, pod.node, pod.phase) == ("task-uid", 3, "node-1", PodPhase.RUNNING)
    assert (pod.deleting, pod.gone, pod.disruption) == (False, False, None)


@pytest.mark.parametrize("label", ["", "x", "-1", "²"])
def test_a_pod_with_a_broken_label_belongs_to_no_attempt(label: str) -> None:
    assert parse.pod(merged(POD, {"metadata": {"labels": {"taskyard.dev/attempt": label}}})).attempt == -1


@pytest.mark.parametrize(("status", "disruption"), [("True", "EvictionByEvictionAPI"), ("False", None)])
def test_a_disruption_is_a_condition_that_is_true(status: str, disruption: str | None) -> None:
    conditions = [{"type": "DisruptionTarget", "status": status, "reason": "EvictionByEvictionAPI"}]
    assert parse.pod(merged(POD, {"status": {"conditions": conditions}})).disruption == disruption


@pytest.mark.parametrize(
    ("status", "succeeded", "failed"),
    [
        pytest.param({}, False, False, id="at work"),
        pytest.param({"conditions": [{"type": "Complete", "status": "True"}]}, True, False, id="complete"),
        pytest.param({"conditions": [{"type": "Failed", "status": "True"}]}, False, True, id="failed"),
        pytest.param({"succeeded": 1}, True, False, id="its pod is counted, the condition is to come"),
        pytest.param(
            {"uncountedTerminatedPods": {"succeeded": ["uid"]}},
            True,
            False,
            id="its pod is about to be counted",
        ),
        pytest.param({"uncountedTerminatedPods": {"failed": ["uid"]}}, False, False, id="its pod has failed"),
    ],
)
def test_how_a_job_stands(status: dict[str, Any], succeeded: bool, failed: bool) -> None:
    job = parse.job({"metadata": {"name": "j", "uid": "u"}, "status": status})
    assert (job.succeeded, job.failed) == (succeeded, failed)


def test_whose_a_job_is() -> None:
    owners = [{"uid": "other"}, {"uid": "task-uid", "controller": True}]
    metadata = {"name": "j", "uid": "u", "ownerReferences": owners, "labels": {"taskyard.dev/attempt": "2"}}
    job = parse.job({"metadata": metadata})
    assert (job.owner_uid, job.attempt) == ("task-uid", 2)
    stranger = parse.job({"metadata": {"name": "j", "uid": "u"}})
    assert (stranger.owner_uid, stranger.attempt) == (None, None)


def test_times_with_fractions_and_offsets_are_understood() -> None:
    task = parse.task(merged(TASK, {"status": {"claimedAt": "2026-01-01T13:00:00.5+01:00"}}))
    assert task.status.claimed_at == datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(seconds=0.5)


@pytest.mark.parametrize(
    ("status", "hindrance"),
    [
        pytest.param({}, None, id="nothing holds it"),
        pytest.param(
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
                ]
            },
            Hindrance(Reason.UNSCHEDULABLE, "0/2 nodes are available"),
            id="no node",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
            None,
            id="on its way",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
                ]
            },
            Hindrance(Reason.IMAGE_PULL, "container `main`: ErrImagePull: not found"),
            id="no image",
        ),
        pytest.param(
            {
                "initContainerStatuses": [
                    {
                        "name": "init",
                        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "m"}},
                    }
                ]
            },
            Hindrance(Reason.CONTAINER_WAITING, "container `init`: CreateContainerConfigError: m"),
            id="an init container that cannot be made",
        ),
    ],
)
def test_what_holds_a_pod(status: dict[str, Any], hindrance: Hindrance | None) -> None:
    assert parse.pod(merged(POD, {"status": status})).hindrance == hindrance
