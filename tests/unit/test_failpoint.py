"""Where the operator can be made to die: each of its writes has a name, and no other place has one."""

from dataclasses import replace
from typing import Any

import pytest

from taskyard import failpoint
from taskyard.cluster import BUDGETS, JOBS, PODS, TASKS, Kind
from taskyard.core import manifest, outcome, record
from taskyard.core.model import Status, Stop, Task
from taskyard.core.words import State, StopReason
from taskyard.failpoint import Doomed, Write
from tests.unit.build import NOW, task
from tests.unit.contract import TEMPLATE
from tests.unit.fake import FakeCluster

FOR_KUEUE = replace(task(State.CLAIMED), labels={"kueue.x-k8s.io/queue-name": "team-a"})
PAYLOAD = manifest.Payload(TEMPLATE, None)


@pytest.mark.parametrize(
    ("verb", "kind", "body", "expected"),
    [
        ("create", JOBS, manifest.job(task(State.CLAIMED), PAYLOAD, NOW), Write.CREATE_JOB),
        ("create", JOBS, manifest.job(FOR_KUEUE, PAYLOAD, NOW), Write.CREATE_JOB),
        ("create", JOBS, manifest.placeholder(task(State.CLAIMED), PAYLOAD, NOW), Write.PLACEHOLDER),
        ("create", JOBS, manifest.placeholder(FOR_KUEUE, PAYLOAD, NOW), Write.PLACEHOLDER),
        ("create", BUDGETS, manifest.shield(), Write.SHIELD),
        ("patch", PODS, manifest.unshielded(), Write.UNSHIELD),
        ("patch", PODS, {"spec": {"activeDeadlineSeconds": 1}}, Write.END_POD),
        ("patch", JOBS, {"spec": {"suspend": True}}, Write.SUSPEND_JOB),
        ("delete", JOBS, {}, Write.DELETE_JOB),
        ("delete", PODS, {}, Write.DELETE_POD),
        ("delete", TASKS, {}, Write.TTL),
    ],
)
def test_a_write_of_an_object_has_its_name(
    verb: str, kind: Kind, body: dict[str, Any], expected: Write
) -> None:
    assert failpoint.of_object(verb, kind, body) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (task(), Status(state=State.CLAIMED, claimed_by="op"), Write.CLAIM),
        (task(State.CLAIMED), Status(state=State.RUNNING), Write.RUNNING),
        (
            task(State.RUNNING),
            Status(state=State.RUNNING, stop=Stop(StopReason.CANCELLED, NOW)),
            Write.STOP,
        ),
        (task(State.CLAIMED), outcome.unclaimed(task(State.CLAIMED), "gone", NOW), Write.REQUEUE),
        (task(State.RUNNING), Status(state=State.FAILED), Write.VERDICT),
        (task(), Status(reason="QueueNotFound"), Write.NOTE),
    ],
)
def test_a_write_of_a_status_has_its_name(before: Task, after: Status, expected: Write) -> None:
    assert failpoint.of_status(record.status_patch(before, after, NOW)) is expected


@pytest.mark.parametrize(("point", "is_written"), [("before:delete-job", False), ("after:delete-job", True)])
async def test_it_dies_before_or_after_the_write(
    point: str, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    monkeypatch.setattr(failpoint, "die", die)
    cluster = FakeCluster()
    created = await cluster.create(JOBS, "default", {"metadata": {"name": "j"}, "spec": {}})
    doomed = Doomed(cluster, point)
    with pytest.raises(Death):
        await doomed.delete(JOBS, "default", "j", created["metadata"]["uid"])
    assert (cluster.all(JOBS) == []) is is_written
