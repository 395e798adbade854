"""A recorded line has what the checker needs, and no more."""

from __future__ import annotations

import pytest

from taskyard.core import manifest
from tests.history.forged import NOW, SPEC, UID, job, pod, task
from tests.history.slim import BY_HAND, JOB, JSON, POD, TASK, slim
from tests.unit import build

LABELS = {"taskyard.dev/task-uid": UID, "taskyard.dev/run": "0", "taskyard.dev/attempt": "1"}


def metadata(line: JSON, **more: object) -> JSON:
    """As the API server has it, of the object of a line."""
    names = {name: line[name] for name in ("uid", "namespace", "name")}
    return names | {"creationTimestamp": NOW, "resourceVersion": "7"} | more


def owned_by(kind: str, uid: str) -> list[JSON]:
    return [
        {"kind": "Other", "uid": "other", "name": "other"},
        {"kind": kind, "uid": uid, "name": "owner", "controller": True},
    ]


def test_a_task_without_what_makes_it_large() -> None:
    expected = task("Claimed", attempt=1, writer="taskyard")
    fields = [
        {"manager": "kubectl", "operation": "Update"},
        {"manager": "taskyard", "operation": "Update", "subresource": "status"},
    ]
    raw = {
        "metadata": metadata(expected, managedFields=fields, generation=1),
        "spec": SPEC | {"input": "x" * 1000, "template": {}},
        "status": expected["status"] | {"logTail": "x" * 1000},
    }
    assert slim(TASK, {"type": "MODIFIED", "object": raw}) == expected | {"version": 7}
    listed = slim(TASK, {"type": "LISTED", "object": raw, "version": 9})
    assert listed == expected | {"type": "LISTED", "version": 9}, "as of the listing"


def test_what_a_task_is_silent_about_is_its_definitions_and_then_the_built_in_default() -> None:
    line = task("Claimed", definition={"defaults": {"retry": {"limit": 4}, "startLimit": 1}})
    raw = {"metadata": metadata(line), "spec": {"startLimit": 2}, "status": line["status"]}
    asked = slim(TASK, {"type": "MODIFIED", "object": raw})["spec"]
    assert (asked["startLimit"], asked["retry"]["limit"], asked["retry"]["infrastructureLimit"]) == (2, 4, 5)


def test_a_job() -> None:
    expected = job(1, conditions=["Complete"], suspend=True, placeholder=True, byHand=True, deleting=True)
    more = {"ownerReferences": owned_by("Task", UID), "labels": LABELS, "deletionTimestamp": NOW}
    conditions = [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "False"}]
    raw = {
        "metadata": metadata(
            expected, annotations={"taskyard.dev/placeholder": "true", BY_HAND: "true"}, **more
        ),
        "spec": {"suspend": True, "template": {}},
        "status": {"conditions": conditions},
    }
    assert slim(JOB, {"type": "ADDED", "object": raw}) == expected | {"version": 7}


def test_the_jobs_that_the_operator_makes() -> None:
    """Whose they are is read from where the operator writes it."""
    made = build.task(uid=UID)
    payload = manifest.Payload({"spec": {"containers": [{"name": "main"}]}}, None)
    for write, is_placeholder in ((manifest.job, False), (manifest.placeholder, True)):
        written = write(made, payload, build.NOW)
        told = metadata(job(1)) | written["metadata"]
        line = slim(JOB, {"type": "ADDED", "object": written | {"metadata": told}})
        assert line["placeholder"] is is_placeholder
        assert (line["taskUid"], line["owner"]) == (UID, {"kind": "Task", "uid": UID})
        assert line["attempt"] == str(made.status.attempt)


@pytest.mark.parametrize(
    ("state", "started"),
    [
        ({"running": {"startedAt": NOW}}, {"main": NOW}),
        ({"terminated": {"startedAt": NOW, "exitCode": 0}}, {"main": NOW}),
        ({"terminated": {"startedAt": "1970-01-01T00:00:00Z", "exitCode": 128}}, {}),
        ({"terminated": {"startedAt": None, "exitCode": 137}}, {}),
        ({"waiting": {}}, {}),
        ({}, {}),
    ],
)
def test_a_pod(state: JSON, started: JSON) -> None:
    expected = pod(1, "Running", initStarted={"init": NOW}) | {"started": started}
    raw = {
        "metadata": metadata(
            expected,
            annotations={"kubectl.kubernetes.io/default-container": "main"},
            labels=LABELS,
            ownerReferences=owned_by("Job", "job-1"),
        ),
        "spec": {"nodeName": "node1", "containers": []},
        "status": {
            "phase": "Running",
            "initContainerStatuses": [{"name": "init", "state": {"terminated": {"startedAt": NOW}}}],
            "containerStatuses": [{"name": "main", "state": state}],
        },
    }
    assert slim(POD, {"type": "MODIFIED", "object": raw}) == expected | {"version": 7}


def test_what_is_told_of_the_watch_itself() -> None:
    told = {"type": "GAP", "since": 3, "object": {"metadata": {"name": "", "resourceVersion": 9}}}
    assert slim(POD, told) == {"type": "GAP", "kind": "Pod", "since": 3, "version": 9}
