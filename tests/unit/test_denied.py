"""What may not be ended, because a policy or a webhook says no: its user is told, and it is tried again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from taskyard.cluster import JOBS, PODS, TASKS, Kind, Rejected
from taskyard.core.refusals import Denial
from tests.unit.build import NOW
from tests.unit.world import Operator, World, running

NO = 'admission webhook "guard" denied the request: no pod may be changed'


class Guard:
    """Says no to all changes and deletions of a kind, and counts how often it was asked."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, guarded: Kind) -> None:
        self.asked = 0
        self.is_on = True
        patch, delete = world.cluster.patch, world.cluster.delete

        def ask(kind: Kind) -> None:
            if kind == guarded and self.is_on:
                self.asked += 1
                raise Rejected(f"{NO} ({self.asked})", malformed=False)

        async def guarded_patch(kind: Kind, *names: str) -> Mapping[str, Any]:
            ask(kind)
            return await patch(kind, *names)  # type: ignore[arg-type]

        async def guarded_delete(kind: Kind, *names: str, **options: Any) -> Mapping[str, Any]:
            ask(kind)
            return await delete(kind, *names, **options)

        monkeypatch.setattr(world.cluster, "patch", guarded_patch)
        monkeypatch.setattr(world.cluster, "delete", guarded_delete)


async def later(world: World, operator: Operator, seconds: float) -> None:
    world.later(seconds)
    operator.mark_all()
    await operator.settle()


async def test_a_stop_that_is_refused_is_told_and_tried_again_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, operator = await running()
    guard = Guard(world, monkeypatch, PODS)
    world.edit_spec("hello", cancel=True)
    await operator.settle()
    [pod] = world.cluster.all(PODS)
    waiting = world.status()["waiting"]
    assert [each["reason"] for each in waiting] == ["Stopping"]
    assert waiting[0]["message"] == f"`{pod['metadata']['name']}` may not be ended: {NO} (1)"
    version = world.task("hello")["metadata"]["resourceVersion"]
    for _ in range(600):
        await later(world, operator, 1)
    assert 10 < guard.asked < 20, "it doubles up to a minute"
    assert world.status()["state"] == "Running"
    assert world.task("hello")["metadata"]["resourceVersion"] == version, "and it is told once"
    guard.is_on = False
    await later(world, operator, 61)
    assert world.cluster.all(PODS)[0]["spec"]["activeDeadlineSeconds"] == 1
    assert not any("may not be ended" in each["message"] for each in world.status()["waiting"])
    world.pod_ends(143)
    await operator.settle()
    assert world.status()["state"] == "Cancelled"


async def test_a_job_that_may_not_be_suspended_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    guard = Guard(world, monkeypatch, JOBS)
    world.edit_spec("hello", cancel=True)
    await operator.settle()
    [job] = world.jobs()
    assert world.status()["waiting"][0]["message"].startswith(f"`{job}` may not be ended: ")
    guard.is_on = False
    await later(world, operator, 61)
    await world.let_jobs_rest(operator)
    await operator.settle()
    assert world.status()["state"] == "Cancelled"


async def test_a_stray_that_may_not_be_deleted_holds_up_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    world, operator = await running()
    guard = Guard(world, monkeypatch, PODS)
    [pod] = world.cluster.all(PODS)
    metadata = pod["metadata"] | {"name": "stray", "uid": "stray"}
    world.cluster.put(PODS, pod | {"metadata": metadata})
    await operator.settle()
    assert guard.asked == 1
    ended = {"exitCode": 0, "startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T00:00:11Z"}
    statuses = [{"name": "main", "state": {"terminated": ended}}]
    over = {"phase": "Succeeded", "containerStatuses": statuses}
    world.cluster.put(PODS, world.cluster.all(PODS)[0] | {"status": over})
    await operator.settle()
    assert world.status()["state"] == "Completed"
    guard.is_on = False
    await later(world, operator, 61)
    [stray] = [each for each in world.cluster.all(PODS) if each["metadata"]["name"] == "stray"]
    assert "deletionTimestamp" in stray["metadata"]


@pytest.mark.parametrize(
    ("asked_for", "pause"),
    [
        pytest.param(0, 1, id="a second at first"),
        pytest.param(1, 1, id="then"),
        pytest.param(8, 8, id="as long as it has lasted"),
        pytest.param(900, 60, id="a minute at the most"),
    ],
)
def test_the_pauses_grow(asked_for: float, pause: float) -> None:
    first = Denial.of("pod", "no", NOW, None)
    again = Denial.of("pod", "no", NOW + timedelta(seconds=asked_for), first)
    assert again.until == again.at + timedelta(seconds=pause)


def test_another_denial_begins_anew() -> None:
    first = Denial.of("pod", "no", NOW, None)
    assert Denial.of("job", "no", NOW + timedelta(hours=1), first).since == NOW + timedelta(hours=1)


@pytest.mark.parametrize(
    ("spec", "edit", "seconds", "state"),
    [
        pytest.param({"suspend": True}, {"cancel": True}, 0, "Cancelled", id="a cancel"),
        pytest.param({"suspend": True, "deadlineSeconds": 30}, {}, 31, "Exception", id="a deadline"),
        pytest.param({"suspend": True, "goodForSeconds": 30}, {}, 31, "Expired", id="an expiry"),
    ],
)
async def test_a_task_that_a_finalizer_keeps_from_its_deletion_is_resolved_all_the_same(
    spec: dict[str, Any], edit: dict[str, Any], seconds: float, state: str
) -> None:
    world = World()
    operator = await world.operator()
    await world.submit(**spec)
    await operator.settle()
    held = {"finalizers": ["example.com/audit"], "deletionTimestamp": "2026-01-01T00:00:20Z"}
    found = world.task("hello")
    world.cluster.put(TASKS, found | {"metadata": found["metadata"] | held})
    await operator.settle()
    if edit:
        world.edit_spec("hello", **edit)
    await later(world, operator, seconds)
    assert world.status()["state"] == state


async def test_a_task_that_is_being_deleted_is_claimed_no_more() -> None:
    world = World()
    operator = await world.operator()
    await world.submit(suspend=True)
    await operator.settle()
    held = {"finalizers": ["example.com/audit"], "deletionTimestamp": "2026-01-01T00:00:20Z"}
    found = world.task("hello")
    world.cluster.put(TASKS, found | {"metadata": found["metadata"] | held})
    world.edit_spec("hello", suspend=False)
    await operator.settle()
    assert world.jobs() == []
    assert (world.status()["state"], world.status()["reason"]) == ("Unscheduled", "BeingDeleted")
