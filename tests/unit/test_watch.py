"""Listing everything: what is found, and what is missed."""

from taskyard.cache import Cache
from taskyard.cluster import PODS, TASKS
from taskyard.watch import Watch
from tests.unit.contract import new_task
from tests.unit.fake import FakeCluster
from tests.unit.world import NAMESPACE, World


async def test_everything_is_known_before_anything_is_done() -> None:
    world = World()
    for number in range(5):
        await world.submit(f"task-{number}")
    world.cluster.calls.clear()
    operator = await world.operator()
    assert len(list(operator.cache.tasks())) == 5
    assert world.cluster.calls == [("list", "tasks"), ("list", "pods")]


async def test_only_the_named_namespaces_are_listed() -> None:
    world = World()
    for namespace in ("a", "b", "c"):
        await world.cluster.create(TASKS, namespace, new_task("hello", namespace))
    cache = Cache()
    await Watch(world.cluster, cache, ["a", "c"]).list_everything()
    assert {task.namespace for task in cache.tasks()} == {"a", "c"}


async def test_a_relist_finds_the_deletions_that_a_watch_missed() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("stays")
    await world.submit("goes")
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    operator.is_deaf = True
    world.cluster.remove(TASKS, NAMESPACE, "goes")
    world.remove_pods()
    await Watch(world.cluster, operator.cache, []).list_everything()
    await operator.settle()
    await world.let_jobs_rest(operator)
    assert [task.name for task in operator.cache.tasks()] == ["stays"]
    assert (world.status("stays")["lossCount"], world.status("stays")["attempt"]) == (1, 2)
    assert list(operator.cache.pods()) == []


async def test_a_long_list_misses_nobody() -> None:
    world = World()
    world.cluster = FakeCluster(page_size=2)
    for number in range(5):
        await world.submit(f"task-{number}")
    operator = await world.operator()
    await operator.settle()
    await Watch(world.cluster, operator.cache, []).list_everything()
    assert not any(
        snapshot.vanished
        for task in operator.cache.tasks()
        if (snapshot := operator.cache.snapshot(task.uid, claimer="op"))
    )
    assert world.cluster.all(PODS) == []
