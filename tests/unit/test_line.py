"""Queues, with the loop and the cache: who is claimed, who waits, and what is said of that."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from taskyard.cluster import DEFINITIONS, JOBS, PODS, QUEUES, TASKS, Kind, Rejected, Unavailable
from taskyard.core.words import DefinitionKind
from tests.unit.contract import TEMPLATE, new_task
from tests.unit.world import NAMESPACE, Operator, World

NAMESPACED = DEFINITIONS[DefinitionKind.TASK_DEFINITION]


def queue(name: str = "q", **spec: Any) -> dict[str, Any]:
    """As the API server has it, defaults included."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": f"uid-of-{name}"}
    spec = {"paused": False, "ageing": {"secondsPerPoint": 60}} | spec
    return {"kind": "TaskQueue", "metadata": metadata, "spec": spec}


async def submit(world: World, *names: str, team: str | None = None, **spec: Any) -> None:
    for name in names:
        task = new_task(name, NAMESPACE)
        task["metadata"] |= {"labels": {"team": team}} if team is not None else {}
        await world.cluster.create(
            TASKS, NAMESPACE, task | {"spec": task["spec"] | {"queueName": "q"} | spec}
        )


def states(world: World) -> dict[str, int]:
    return dict(Counter(each["status"]["state"] for each in world.cluster.all(TASKS)))


def claimed(world: World) -> set[str]:
    return {
        each["metadata"]["name"] for each in world.cluster.all(TASKS) if each["status"]["state"] == "Claimed"
    }


def waits(world: World, name: str) -> list[tuple[str, str]]:
    return [(each["reason"], each["message"]) for each in world.status(name).get("waiting", [])]


async def end(world: World, operator: Operator, name: str) -> None:
    """That one runs, and completes."""
    world.make_pods()
    uid = world.task(name)["metadata"]["uid"]
    ended = {"exitCode": 0, "startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T00:00:10Z"}
    for pod in world.cluster.all(PODS):
        if pod["metadata"]["labels"]["taskyard.dev/task-uid"] == uid:
            containers = [{"name": "main", "state": {"terminated": ended}}]
            world.cluster.put(PODS, pod | {"status": {"phase": "Succeeded", "containerStatuses": containers}})
    await operator.settle(rounds=500)
    assert world.status(name)["state"] == "Completed"


async def test_as_many_run_as_there_are_slots_and_the_next_goes_when_one_ends() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=2))
    operator = await world.operator()
    for name in "abcd":
        await submit(world, name)
        await operator.settle()
    assert claimed(world) == {"a", "b"}
    assert waits(world, "c") == [("QueueLimit", "the queue `q` has 2 of 2 at work; number 1 in the queue")]
    assert waits(world, "d") == [("QueueLimit", "the queue `q` has 2 of 2 at work; number 2 in the queue")]
    await end(world, operator, "a")
    assert claimed(world) == {"b", "c"}
    assert world.status("d")["message"].endswith("number 2 in the queue"), (
        "a place is no reason to write again"
    )


async def test_a_task_that_has_a_slot_at_once_costs_no_write_more() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=2))
    operator = await world.operator()
    world.cluster.calls.clear()
    await submit(world, "a")
    await operator.settle()
    assert [call for call in world.cluster.calls if call[0] != "create"] == [("patch_status", "tasks")]


async def test_after_a_restart_the_limit_holds_still() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=2))
    operator = await world.operator()
    await submit(world, *"abcde")
    await operator.settle()
    operator.is_deaf = True
    heir = await world.operator("op-2")
    await heir.settle(rounds=500)
    assert len(claimed(world)) == 2


@pytest.mark.parametrize("limit", [1, 0])
async def test_a_limit_that_is_lowered_stops_nothing_and_drains(limit: int) -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=3))
    operator = await world.operator()
    await submit(world, *"abcde")
    await operator.settle()
    world.cluster.put(QUEUES, queue(maxConcurrent=limit))
    await operator.settle()
    assert states(world) == {"Claimed": 3, "Pending": 2}
    for name in sorted(claimed(world))[:2]:
        await end(world, operator, name)
    assert states(world) == {"Completed": 2, "Claimed": 1, "Pending": 2}
    world.cluster.put(QUEUES, queue())
    await operator.settle()
    assert states(world) == {"Completed": 2, "Claimed": 3}, "without a limit all go"


async def test_a_queue_that_is_missing_or_paused_is_waited_for_and_said_to_be() -> None:
    """Also of those that wait for something else."""
    world = World()
    operator = await world.operator()
    await submit(world, "a")
    await submit(world, "held", suspend=True)
    await operator.settle()
    assert waits(world, "a") == [("QueueNotFound", "there is no queue `q`; number 1 in the queue")]
    assert [reason for reason, _ in waits(world, "held")] == ["Suspended", "QueueNotFound"]
    world.cluster.put(QUEUES, queue(paused=True))
    await operator.settle()
    assert waits(world, "a") == [("QueuePaused", "the queue `q` is paused; number 1 in the queue")]
    assert [reason for reason, _ in waits(world, "held")] == ["Suspended", "QueuePaused"]
    world.cluster.put(QUEUES, queue())
    await operator.settle()
    assert world.status("a")["state"] == "Claimed"
    assert [reason for reason, _ in waits(world, "held")] == ["Suspended"]
    world.cluster.remove(QUEUES, NAMESPACE, "q")
    await operator.settle()
    assert world.status("a")["state"] == "Claimed", "what is claimed goes on"
    assert [reason for reason, _ in waits(world, "held")] == ["Suspended", "QueueNotFound"]


async def test_the_limit_of_a_type_holds_over_all_its_queues() -> None:
    world = World()
    metadata = {"name": "report", "namespace": NAMESPACE, "uid": "uid-of-report"}
    version = {"version": "v1", "template": TEMPLATE}
    definition = {"kind": "TaskDefinition", "metadata": metadata}
    world.cluster.put(NAMESPACED, definition | {"spec": {"versions": [version], "maxConcurrent": 1}})
    world.cluster.put(QUEUES, queue())
    operator = await world.operator()
    for name, where in (("a", "q"), ("b", "default")):
        ref = {"kind": "TaskDefinition", "name": "report", "version": "v1"}
        task = new_task(name, NAMESPACE) | {"spec": {"definitionRef": ref, "queueName": where}}
        await world.cluster.create(TASKS, NAMESPACE, task)
        await operator.settle()
    assert claimed(world) == {"a"}
    said = "the TaskDefinition `report` has 1 of 1 at work; number 1 in the queue"
    assert waits(world, "b") == [("TypeLimit", said)]
    world.cluster.put(NAMESPACED, definition | {"spec": {"versions": [version], "maxConcurrent": 2}})
    await operator.settle()
    assert claimed(world) == {"a", "b"}


async def test_a_rate_lets_one_after_another_go_and_says_until_when() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(rateLimit={"tasks": 2, "perSeconds": 60}))
    operator = await world.operator()
    await submit(world, *"abcde")
    await operator.settle()
    assert len(claimed(world)) == 2
    [waiting] = [name for name in "abcde" if "number 1 in" in world.status(name).get("message", "")]
    said = "the queue `q` starts 2 in 60 s; this one not before 2026-01-01T00:02:00Z; number 1 in the queue"
    assert waits(world, waiting) == [("RateLimit", said)]
    world.later(59)
    operator.mark_all()
    await operator.settle()
    assert len(claimed(world)) == 2
    operator.is_deaf = True
    heir = await world.operator("op-2")
    await heir.settle()
    assert len(claimed(world)) == 2, "a restart does not start the window anew"
    world.later(2)
    heir.mark_all()
    await heir.settle()
    assert len(claimed(world)) == 4


async def test_a_late_tenant_goes_within_two_slots() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1, fairness={"labelKey": "team"}))
    operator = await world.operator()
    await submit(world, *(f"a{number}" for number in range(20)), team="a")
    await operator.settle(rounds=500)
    await submit(world, "late", team="b")
    await operator.settle()
    for _ in range(2):
        [name] = claimed(world)
        if name == "late":
            break
        await end(world, operator, name)
    assert claimed(world) == {"late"}


async def test_a_slot_is_held_until_the_pod_of_a_task_that_was_deleted_is_gone() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    await submit(world, "a")
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    await submit(world, "b")
    await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "a")
    await operator.settle()
    assert world.status("b")["reason"] == "QueueLimit"
    operator.is_deaf = True
    heir = await world.operator("op-2")
    await heir.settle()
    assert world.status("b")["reason"] == "QueueLimit", "its pod says where it came from"
    world.remove_pods()
    await heir.settle()
    assert world.status("b")["state"] == "Claimed"


async def test_whoever_waits_no_more_leaves_the_line() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    for name in "abcd":
        await submit(world, name)
        await operator.settle()
    world.edit_spec("b", cancel=True)
    world.edit_spec("c", suspend=True)
    await operator.settle()
    await end(world, operator, "a")
    assert claimed(world) == {"d"}
    world.edit_spec("c", suspend=False)
    await operator.settle()
    assert waits(world, "c")[0][0] == "QueueLimit"


async def test_a_priority_that_is_raised_goes_first() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    for name in "abc":
        await submit(world, name)
        await operator.settle()
    world.edit_spec("c", priority=9)
    await operator.settle()
    await end(world, operator, "a")
    assert claimed(world) == {"c"}


@pytest.mark.parametrize(
    ("error", "others"),
    [
        pytest.param(Rejected("denied", malformed=False), {"b"}, id="a claim that is refused frees its slot"),
        pytest.param(Unavailable("no answer"), set(), id="one without an answer may have been taken"),
        pytest.param(
            Unavailable("failed calling webhook", is_over=True),
            {"b"},
            id="one that was answered, and was not taken, frees its slot until it is tried again",
        ),
    ],
)
async def test_a_claim_that_fails(error: Exception, others: set[str]) -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    await submit(world, "a")
    [first] = [task.uid for task in operator.cache.tasks()]

    def fail(verb: str, kind: Kind) -> None:
        if verb == "patch_status":
            raise error

    world.cluster.before_call = fail
    await operator.cache.dirty.take()
    with pytest.raises(type(error)):
        await operator.loop.step(first)
    operator.cache.dirty.done(first)
    world.cluster.before_call = lambda verb, kind: None
    await submit(world, "b")
    await operator.settle()
    assert claimed(world) == others


async def test_the_operators_own_limit_is_shared_by_the_namespaces() -> None:
    world = World()
    operator = await world.operator()
    operator.cache.limit(operator=3, namespace_weights={})
    for namespace, count in (("one", 5), ("two", 5)):
        for number in range(count):
            await world.cluster.create(TASKS, namespace, new_task(f"task-{number}", namespace))
    await operator.settle(rounds=500)
    assert len(world.cluster.all(JOBS)) == 3
    where = Counter(job["metadata"]["namespace"] for job in world.cluster.all(JOBS))
    assert set(where.values()) <= {1, 2, 3}


async def test_no_news_makes_more_than_one_of_ten_thousand_think() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    await submit(world, "a")
    await operator.settle()
    await submit(world, *(f"b{number}" for number in range(300)))
    await operator.settle(rounds=5000)
    operator.thoughts.clear()
    await end(world, operator, "a")
    assert len(operator.thoughts) <= 3, "who ended, who goes, and who is first now"
