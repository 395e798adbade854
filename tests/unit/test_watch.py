"""Listing everything: what is found, what is missed, and when it is done again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from taskyard import backoff
from taskyard.cache import Cache
from taskyard.cluster import PODS, TASKS, Kind, NotFound, Rejected, Unavailable
from taskyard.freshness import Freshness
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
    kinds = ("clustertaskdefinitions", "taskdefinitions", "taskqueues", "tasks", "pods")
    assert world.cluster.calls == [("list", kind) for kind in kinds]


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


async def test_a_list_that_fails_is_tried_again_until_it_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start too: an API server that is busy is no reason to end."""
    waits: list[int] = []

    def note(failures: int, **_: float) -> float:
        waits.append(failures)
        return 0.0

    monkeypatch.setattr(backoff, "delay", note)
    world = World()
    await world.submit()
    world.cluster.before_call = fails("list", PODS, times=3)
    cache = Cache()
    await Watch(world.cluster, cache, []).list_at_last()
    assert [task.name for task in cache.tasks()] == ["hello"]
    assert waits == [1, 2, 3]
    assert world.cluster.calls.count(("list", "tasks")) == 1, "what is listed is not listed again for others"


async def test_a_list_waits_for_as_long_as_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "delay", lambda *_, **__: 0.0)
    world = World()
    world.cluster.before_call = fails("list", PODS, times=1, error=Unavailable("too many", after=0.2))
    before = asyncio.get_running_loop().time()
    await Watch(world.cluster, Cache(), []).list_at_last()
    assert asyncio.get_running_loop().time() - before >= 0.2


@pytest.mark.parametrize("error", [NotFound("no such kind"), Rejected("forbidden", malformed=False)])
async def test_a_list_that_will_never_succeed_is_not_tried_again(error: Exception) -> None:
    world = World()
    world.cluster.before_call = fails("list", TASKS, times=1, error=error)
    with pytest.raises(type(error)):
        await Watch(world.cluster, Cache(), []).list_at_last()


async def test_everything_is_listed_again_and_again_whatever_the_answers() -> None:
    world = World()
    world.cluster.before_call = fails("list", TASKS, times=2, error=Rejected("forbidden", malformed=False))
    async with relisting(world, every=0.01):
        await until(lambda: world.cluster.calls.count(("list", "pods")) >= 3)


async def test_a_watch_that_should_speak_and_does_not_makes_a_list_sooner() -> None:
    world, freshness = World(), Freshness(grace=0.05)
    await world.submit()
    async with relisting(world, every=3600, freshness=freshness) as watch:
        await watch.list_everything()
        await until(lambda: world.cluster.calls.count(("list", "tasks")) >= 3)
    assert freshness.complaint() == "the watch of tasks does not tell what a list shows"


async def test_a_watch_that_has_nothing_to_say_is_left_alone() -> None:
    world, freshness = World(), Freshness(grace=0.02)
    await world.submit()
    async with relisting(world, every=0.01, freshness=freshness) as watch:
        freshness.hear("tasks", 10**9, 0.0)
        await watch.list_everything()
        await until(lambda: world.cluster.calls.count(("list", "tasks")) >= 20)
    assert freshness.complaint() is None


@asynccontextmanager
async def relisting(world: World, every: float, freshness: Freshness | None = None) -> AsyncIterator[Watch]:
    """A watch that relists, until the test is over."""
    watch = Watch(world.cluster, Cache(), [], relist_every=every, freshness=freshness)
    relist = asyncio.create_task(watch.relist())
    yield watch
    assert not relist.done(), "it never ends by itself"
    relist.cancel()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - anything may make it true
            await asyncio.sleep(0.01)


def fails(
    verb: str, kind: Kind, *, times: int, error: Exception | None = None
) -> Callable[[str, Kind], None]:
    """What makes the first so many calls of a verb fail."""
    left = times

    def before_call(each: str, of: Kind) -> None:
        nonlocal left
        if (each, of) == (verb, kind) and left:
            left -= 1
            raise error or Unavailable("not now")

    return before_call
