"""Who has a slot: whatever is at work, or may be in a moment, and nothing that somebody only says is."""

from __future__ import annotations

from typing import Any

import pytest

from taskyard.cluster import DEFINITIONS, PODS, QUEUES, TASKS
from taskyard.core.words import DefinitionKind
from tests.unit.contract import TEMPLATE
from tests.unit.test_line import claimed, queue, submit, waits
from tests.unit.world import NAMESPACE, TIME, Operator, World

REPORT = {"kind": "TaskDefinition", "name": "report", "version": "v1"}


async def one_of_one(**limits: Any) -> tuple[World, Operator]:
    """There is room for one, and it is there."""
    world = World()
    world.cluster.put(QUEUES, queue(**limits or {"maxConcurrent": 1}))
    operator = await world.operator()
    await submit(world, "a")
    await operator.settle()
    return world, operator


async def start(world: World, operator: Operator) -> dict[str, Any]:
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    [pod] = world.cluster.all(PODS)
    return dict(pod)


async def test_a_pod_of_another_namespace_keeps_no_slot_whatever_its_labels() -> None:
    world, operator = await one_of_one()
    pod = await start(world, operator)
    world.cluster.put(PODS, pod | {"metadata": pod["metadata"] | {"namespace": "evil", "uid": "evil"}})
    await operator.settle()
    ended = {"exitCode": 0, "startedAt": TIME, "finishedAt": TIME}
    status = {"phase": "Succeeded", "containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
    world.cluster.put(PODS, pod | {"status": status})
    await operator.settle()
    await submit(world, "b")
    await operator.settle()
    assert claimed(world) == {"b"}


async def test_pods_of_tasks_that_never_were_take_no_slots() -> None:
    world = World()
    operator = await world.operator()
    operator.cache.limit(1, {})
    metadata = {"namespace": "evil", "creationTimestamp": TIME, "ownerReferences": []}
    owners: tuple[list[dict[str, Any]], ...] = (
        [],
        [{"kind": "Job", "name": "hello-0-1", "controller": True}],
    )
    for number, owned in enumerate(owners):
        labels = {"taskyard.dev/task-uid": f"invented-{number}", "taskyard.dev/attempt": "1"}
        named = {"name": f"e{number}", "uid": f"e{number}", "labels": labels, "ownerReferences": owned}
        world.cluster.put(PODS, {"metadata": metadata | named, "spec": {}, "status": {"phase": "Running"}})
    await world.submit("b")
    await operator.settle()
    assert claimed(world) == {"b"}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("kind", "limit", "reason"),
    [("type", {"maxConcurrent": 1}, "TypeLimit"), ("tenant", {"maxConcurrentPerKey": 1}, "KeyLimit")],
)
async def test_a_pod_that_outlives_its_task_has_all_its_slots_after_a_restart_too(
    kind: str, limit: dict[str, int], reason: str, restarts: bool
) -> None:
    world = World()
    metadata = {"name": "report", "namespace": NAMESPACE, "uid": "uid-of-report"}
    offered: dict[str, Any] = {"versions": [{"version": "v1", "template": TEMPLATE}]}
    fairness: dict[str, Any] = {"labelKey": "team"}
    (offered if kind == "type" else fairness).update(limit)
    registered = {"kind": "TaskDefinition", "metadata": metadata, "spec": offered}
    world.cluster.put(DEFINITIONS[DefinitionKind.TASK_DEFINITION], registered)
    world.cluster.put(QUEUES, queue(fairness=fairness))
    operator = await world.operator()
    await submit_report(world, "a", deadlineSeconds=30)
    await operator.settle()
    await start(world, operator)
    for seconds in (31, 5, 60):
        world.later(seconds)
        operator.mark_all()
        await operator.settle()
    assert world.status("a")["reason"] == "DeadlineExceeded"
    if restarts:
        operator.is_deaf = True
        operator = await world.operator("op-2")
    await submit_report(world, "b")
    await operator.settle()
    assert [each for each, _ in waits(world, "b")] == [reason]
    world.remove_pods()
    await operator.settle()
    assert claimed(world) == {"b"}


async def submit_report(world: World, name: str, **spec: Any) -> None:
    """Of a definition, by a tenant."""
    task = {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"team": "x"}},
        "spec": {"queueName": "q", "definitionRef": REPORT} | spec,
    }
    await world.cluster.create(TASKS, NAMESPACE, task)


@pytest.mark.parametrize("makes_it_in_time", [True, False])
async def test_a_claim_whose_task_is_deleted_keeps_its_slot_while_its_job_may_make_a_pod(
    makes_it_in_time: bool,
) -> None:
    world, operator = await one_of_one()
    await submit(world, "b")
    world.cluster.remove(TASKS, NAMESPACE, "a")
    await operator.settle()
    assert claimed(world) == set()
    if makes_it_in_time:
        world.make_pods()
    await pass_time(world, operator)
    assert claimed(world) == (set() if makes_it_in_time else {"b"})
    world.remove_pods()
    await operator.settle()
    assert claimed(world) == {"b"}
    assert operator.cache.line.holders() == {world.task("b")["metadata"]["uid"]}


async def pass_time(world: World, operator: Operator) -> None:
    """As much as a deleted Job takes, and whoever has a clock wakes up."""
    gone = operator.cache.line.holders()
    world.later(6)
    for uid in gone:
        operator.cache.dirty.mark(uid)
    await operator.settle()
