"""Jobs that are needed no more: which, and when."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from taskyard.cluster import JOBS, PODS, TASKS, Kind, Rejected
from taskyard.sweep import Sweep
from tests.unit.world import NAMESPACE, Operator, World

KEPT_FOR = 600


async def resolved(world: World, operator: Operator, name: str = "hello", code: int = 0) -> None:
    await world.submit(name)
    await operator.settle()
    world.make_pods()
    world.pod_ends(code)
    await operator.settle()
    assert world.status(name)["phase"] == "Finished"


async def sweep(world: World, operator: Operator) -> None:
    kept_for = timedelta(seconds=KEPT_FOR)
    await Sweep(world.cluster, operator.cache, [], lambda: world.now, kept_for=kept_for, pause=0).sweep()


async def test_a_job_goes_some_time_after_the_verdict_and_not_before() -> None:
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    world.later(KEPT_FOR - 1)
    await sweep(world, operator)
    assert len(world.jobs()) == 1
    world.later(1)
    await sweep(world, operator)
    assert world.jobs() == []
    assert world.status()["state"] == "Completed"


async def test_whoever_comes_after_a_restart_sweeps_what_is_left() -> None:
    world = World()
    await resolved(world, await world.operator())
    world.later(KEPT_FOR)
    await sweep(world, await world.operator("op-2"))
    assert world.jobs() == []


async def test_the_jobs_of_earlier_runs_go_with_the_last() -> None:
    world = World()
    operator = await world.operator()
    await resolved(world, operator, code=1)
    world.edit_spec("hello", rerun=1)
    await operator.settle()
    world.later(2 * KEPT_FOR)
    await sweep(world, operator)
    assert len(world.jobs()) == 2, "the second run is not over"
    world.make_pods()
    world.pod_ends()
    await operator.settle()
    await sweep(world, operator)
    assert len(world.jobs()) == 2
    world.later(KEPT_FOR)
    await sweep(world, operator)
    assert world.jobs() == []


async def test_a_task_that_is_to_run_again_keeps_its_job_for_now() -> None:
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    world.later(KEPT_FOR)
    world.edit_spec("hello", rerun=1)
    await sweep(world, operator)
    assert len(world.jobs()) == 1


async def test_a_job_with_a_pod_at_work_stays() -> None:
    """A task past its deadline is resolved, though its pod may be on a node that does not answer."""
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    [pod] = world.cluster.all(PODS)
    pod["metadata"] |= {"name": "another", "uid": "another"}
    world.cluster.put(PODS, pod | {"status": {"phase": "Running"}})
    world.later(KEPT_FOR)
    await sweep(world, operator)
    assert len(world.jobs()) == 1


async def test_the_jobs_of_others_are_nobodys_business() -> None:
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    [job] = world.cluster.all(JOBS)
    metadata = job["metadata"] | {"name": "foreign", "uid": "foreign", "ownerReferences": []}
    world.cluster.put(JOBS, job | {"metadata": metadata})
    world.cluster.put(JOBS, {"metadata": {"name": "plain", "namespace": NAMESPACE, "uid": "plain"}})
    world.later(KEPT_FOR)
    await sweep(world, operator)
    assert world.jobs() == ["foreign", "plain"]


async def test_a_task_of_another_namespace_owns_no_job_here() -> None:
    """Owner references name no namespace: anybody could write any uid there."""
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    [job] = world.cluster.all(JOBS)
    world.cluster.put(JOBS, job | {"metadata": job["metadata"] | {"namespace": "elsewhere", "uid": "forged"}})
    world.later(KEPT_FOR)
    await sweep(world, operator)
    assert [each["metadata"]["namespace"] for each in world.cluster.all(JOBS)] == ["elsewhere"]


async def test_a_task_that_is_gone_takes_its_jobs_along_by_itself() -> None:
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    world.cluster.remove(TASKS, NAMESPACE, "hello")
    await operator.settle()
    world.later(KEPT_FOR)
    await sweep(world, operator)
    assert len(world.jobs()) == 1, "Kubernetes collects it"


async def test_an_operator_that_knows_nothing_of_a_rerun_leaves_its_job_alone() -> None:
    """Jobs are listed, and Tasks are known by a watch that may lag: two operators, and no lease."""
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    other = await world.operator("op-2")
    other.is_deaf = True
    world.later(KEPT_FOR)
    world.edit_spec("hello", rerun=1)
    await operator.settle()
    world.make_pods()
    first, second = world.jobs()
    await sweep(world, other)
    assert world.jobs() == [second], "and that of the run that is over goes"
    assert first.endswith("-1")


async def test_a_job_whose_log_is_still_to_be_read_stays() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("hello", logs="Always")
    await operator.settle()
    world.make_pods()
    world.pod_ends()
    world.later(1)
    [uid] = [each.uid for each in operator.cache.tasks()]
    await operator.loop.step(uid)
    assert world.status()["state"] == "Completed"
    world.later(KEPT_FOR)
    await sweep(world, operator)
    assert len(world.jobs()) == 1
    await operator.settle()
    await sweep(world, operator)
    assert world.jobs() == []


async def test_a_job_that_is_going_is_not_asked_to_go_again() -> None:
    world = World()
    operator = await world.operator()
    await resolved(world, operator)
    [job] = world.cluster.all(JOBS)
    deleted_at = {"deletionTimestamp": "2026-01-01T00:00:30Z", "finalizers": ["foregroundDeletion"]}
    world.cluster.put(JOBS, job | {"metadata": job["metadata"] | deleted_at})
    world.later(KEPT_FOR)
    heard = list[str]()
    world.cluster.watch(lambda kind, event, _: heard.append(f"{event} {kind.plural}"))
    await sweep(world, operator)
    assert heard == []


async def test_one_job_that_may_not_be_deleted_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    operator = await world.operator()
    for name in ("a", "b", "c"):
        await world.submit(name)
    await operator.settle()
    world.make_pods()
    world.pod_ends()
    await operator.settle()
    delete = world.cluster.delete

    async def protect(kind: Kind, namespace: str, name: str, *more: Any, **options: Any) -> dict[str, Any]:
        if name.startswith("a-"):
            raise Rejected("a policy says no", malformed=False)
        return await delete(kind, namespace, name, *more, **options)

    monkeypatch.setattr(world.cluster, "delete", protect)
    world.later(KEPT_FOR)
    await sweep(world, operator)
    [left] = world.jobs()
    assert left.startswith("a-")


async def test_the_first_sweep_comes_soon_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that is replaced every few minutes would never come to it."""
    world = World()
    operator = await world.operator()
    pauses = list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", pause)
    kept_for = timedelta(seconds=KEPT_FOR)
    with pytest.raises(asyncio.CancelledError):
        await Sweep(world.cluster, operator.cache, [], lambda: world.now, kept_for=kept_for).run()
    first, *others = pauses
    assert first < 15
    assert all(200 < each < 400 for each in others)
