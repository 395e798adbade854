"""Row K10 of the feature list: a Task is at home in kubectl. `docs/parity.md` names this test."""

from __future__ import annotations

import json

from tests.kube import Kubectl, task


def test_k10_wait_selectors_columns_events_and_validation(kubectl: Kubectl) -> None:
    nobody = {"name": "resize", "version": "v1"}
    kubectl.create(
        task("good", "exit 0"),
        task("bad", "exit 3"),
        task("queued", "exit 0", queueName="night"),
        task("defined", "", template=None, definitionRef=nobody, suspend=True),
    )
    waits(kubectl, "good", "Succeeded")
    waits(kubectl, "bad", "Succeeded=false")
    kubectl.edit("good", priority=7)
    kubectl.edit("bad", ttlSecondsAfterFinished=7200)
    waits(kubectl, "good", "Succeeded", "Finished")
    waits(kubectl, "bad", "Succeeded=false", "Finished")
    kubectl.until("queued", "QueueNotFound", ".status.reason")
    kubectl.until("defined", "Unscheduled")

    selections = {
        "status.state=Failed": ["bad"],
        "status.state=Unscheduled": ["defined"],
        "status.phase=Finished": ["bad", "good"],
        "status.phase=Waiting": ["defined", "queued"],
        "spec.queueName=night": ["queued"],
        "spec.definitionRef.name=resize": ["defined"],
        "spec.queueName=default,status.state!=Completed": ["bad", "defined"],
    }
    for selector, expected in selections.items():
        found = kubectl("get", "tasks", f"--field-selector={selector}", "-o", "name").split()
        assert found == [f"task.taskyard.dev/{name}" for name in expected], selector

    header, *rows = kubectl("get", "tsk").splitlines()
    assert header.split() == ["NAME", "STATE", "REASON", "QUEUE", "RUN", "AGE"]
    assert [row.split()[:4] for row in rows] == [
        ["bad", "Failed", "ExitCode", "default"],
        ["defined", "Unscheduled", "Suspended", "default"],
        ["good", "Completed", "default", "0"],
        ["queued", "Pending", "QueueNotFound", "night"],
    ]
    # The category has definitions in it too, and those of the whole cluster may be other tests'.
    assert {f"task.taskyard.dev/{name}" for name in ("bad", "defined", "good", "queued")} <= set(
        kubectl("get", "taskyard", "-o", "name").split()
    )
    wide = kubectl("get", "tasks", "-o", "wide").splitlines()[0].split()
    assert wide[6:] == ["POD", "NODE", "RETRIES", "STARTED", "FINISHED"]

    kubectl.eventually("its end is told", lambda: kubectl.events("bad"))
    (event,) = kubectl.events("bad")
    assert (event["reason"], event["type"], event["source"]["component"]) == (
        "TaskFailed",
        "Warning",
        "taskyard",
    )
    assert "exited with code 3" in event["message"]
    assert "TaskFailed" in kubectl("describe", "task", "bad")
    assert kubectl.events("good") == []

    assert "Jitter" in kubectl("explain", "task.spec.retry.backoff")
    refused = task("refused", "exit 0", retry={"limit": -1}, timeoutSeconds=0)
    answer = kubectl.ask("create", "-f", "-", stdin=json.dumps(refused))
    assert answer.code != 0
    for path in ("spec.retry.limit: Invalid value: -1", "spec.timeoutSeconds: Invalid value: 0"):
        assert path in answer.error


def waits(kubectl: Kubectl, name: str, *conditions: str) -> None:
    """`kubectl wait` comes back, and says so."""
    for condition in conditions:
        answer = kubectl("wait", f"--for=condition={condition}", f"task/{name}", "--timeout=120s")
        assert answer.strip() == f"task.taskyard.dev/{name} condition met"
