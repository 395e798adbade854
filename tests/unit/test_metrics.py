"""What `/metrics` says."""

from __future__ import annotations

import pytest

from taskyard.cluster import PODS, QUEUES, TASKS, Kind, Rejected
from taskyard.freshness import Freshness
from taskyard.main import operate
from taskyard.metrics import Metrics
from taskyard.report import Report
from taskyard.settings import load
from tests.unit.test_line import end, queue, submit
from tests.unit.world import NAMESPACE, World


async def test_what_waits_runs_and_ends_is_told_by_queue_and_not_by_task() -> None:
    world = World()
    world.cluster.put(QUEUES, queue(maxConcurrent=1))
    operator = await world.operator()
    metrics = Metrics()
    metrics.follow(operator.cache.tally, lambda: world.now)
    for name in ("first-one", "second-one", "third-one"):
        await submit(world, name)
        await operator.settle()
        world.later(10)
    page = metrics.page().decode()
    of_queue = f'namespace="{NAMESPACE}",queue="q"'
    assert f'taskyard_tasks{{definition="",{of_queue},state="Claimed"}} 1.0' in page
    assert f'taskyard_tasks{{definition="",{of_queue},state="Pending"}} 2.0' in page
    assert f"taskyard_queue_oldest_pending_seconds{{{of_queue}}} 20.0" in page
    await end(world, operator, "first-one")
    page = metrics.page().decode()
    ended = f'taskyard_task_outcomes_total{{definition="",{of_queue},reason="",state="Completed"}} 1.0'
    assert ended in page
    assert f'taskyard_task_wait_seconds_count{{definition="",{of_queue}}} 2.0' in page
    assert f'taskyard_task_wait_seconds_sum{{definition="",{of_queue}}} 20.0' in page
    assert f'taskyard_task_duration_seconds_count{{definition="",{of_queue}}} 1.0' in page
    assert "-one" not in page
    for task in world.cluster.all(TASKS):
        world.cluster.remove(TASKS, NAMESPACE, task["metadata"]["name"])
    world.remove_pods()
    await operator.settle()
    page = metrics.page().decode()
    assert "taskyard_tasks{" not in page
    assert ended in page, "a counter does not forget"


async def test_series_go_when_there_has_been_no_task_of_theirs_for_some_time() -> None:
    """Longer than anybody's interval of scraping: the last that is told of a queue is to be seen by all."""
    world = World()
    operator = await world.operator()
    metrics, report = Metrics(), Report(world.cluster, operator.cache, lambda: world.now)
    metrics.follow(operator.cache.tally, lambda: world.now)
    before = metrics.page()
    for name in ("gone", "kept"):
        world.cluster.put(QUEUES, queue(name))
        await submit(world, name, queueName=name)
        await operator.settle()
        await end(world, operator, name)
    world.cluster.remove(TASKS, NAMESPACE, "gone")
    await operator.settle()
    lines = []
    for _ in range(12):
        await report.tell()
        page = metrics.page().decode()
        lines.append((page.count('queue="gone"') > 0, page.count('queue="kept"') > 0))
        world.later(60)
    assert lines == 10 * [(True, True)] + 2 * [(False, True)]
    await submit(world, "again", queueName="gone")
    await operator.settle()
    await end(world, operator, "again")
    counted = f'outcomes_total{{definition="",namespace="{NAMESPACE}",queue="gone",reason="",state="Completed"}} 1.0'
    assert counted in metrics.page().decode()
    for task in world.cluster.all(TASKS):
        world.cluster.remove(TASKS, NAMESPACE, task["metadata"]["name"])
    await operator.settle()
    for _ in range(12):
        await report.tell()
        world.later(60)
    assert metrics.page() == before


async def test_nothing_is_told_before_everything_is_known() -> None:
    """Half of the tasks would make an autoscaler take down what the other half needs; of no answer it knows."""
    world = World()
    await submit(world, "waits")
    metrics, said = Metrics(), list[str]()

    def look(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("list", PODS):  # the last that are listed
            said.append(metrics.page().decode())
            raise Rejected("you may not", malformed=False)

    world.cluster.before_call = look
    with pytest.raises(Rejected):
        await operate(world.cluster, load({}, {}), Freshness(), metrics)
    assert said == [metrics.page().decode()]
    assert "taskyard_tasks" not in said[0]
    assert "taskyard_operator_leads" not in said[0]


async def test_who_leads_says_so_also_when_there_are_no_tasks() -> None:
    """So that a query can tell nothing that waits from nobody who knows."""
    world = World()
    operator, metrics = await world.operator(), Metrics()
    assert "taskyard_operator_leads" not in metrics.page().decode()
    metrics.follow(operator.cache.tally, lambda: world.now)
    assert "\ntaskyard_operator_leads 1.0\n" in metrics.page().decode()


async def test_what_is_found_at_the_start_has_not_just_happened() -> None:
    world = World()
    world.cluster.put(QUEUES, queue())
    first = await world.operator()
    await submit(world, "done")
    await first.settle()
    await end(world, first, "done")
    first.is_deaf = True
    metrics = Metrics()
    heir = await world.operator("op-2")
    metrics.follow(heir.cache.tally, lambda: world.now)
    await heir.settle()
    assert "outcomes_total{" not in metrics.page().decode()


async def test_definitions_of_one_name_and_two_kinds_are_two_series() -> None:
    world = World()
    operator = await world.operator()
    metrics = Metrics()
    metrics.follow(operator.cache.tally, lambda: world.now)
    for kind in ("TaskDefinition", "ClusterTaskDefinition"):
        ref = {"kind": kind, "name": "render", "version": "1"}
        await world.submit(kind.lower(), definitionRef=ref)
    await operator.settle()
    page = metrics.page().decode()
    for name in ("render", "ClusterTaskDefinition/render"):
        assert f'taskyard_tasks{{definition="{name}",' in page
