"""Tasks that wait for each other, with the loop and the cache: what an end, a deletion or a circle means to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskyard.cluster import TASKS
from taskyard.core import dependencies
from taskyard.core.model import Dependency, Task
from tests.unit.build import snapshot, task
from tests.unit.world import NAMESPACE, Operator, World

A = Dependency("a", "uid-a")


async def complete(world: World, operator: Any) -> None:
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.pod_ends()
    await operator.settle()


async def test_a_pipeline_runs_in_order() -> None:
    world = World()
    await world.submit("second", dependencies=["first"])
    operator = await world.operator()
    await operator.settle()
    assert world.status("second")["message"] == "waiting for `first` (not created yet)"
    await world.submit("first")
    await operator.settle()
    assert (world.status("first")["state"], world.status("second")["state"]) == ("Claimed", "Unscheduled")
    await complete(world, operator)
    assert (world.status("first")["state"], world.status("second")["state"]) == ("Completed", "Claimed")


async def test_a_dependency_that_completed_and_was_deleted_stays_completed() -> None:
    """Deleted by its time to live, at once; and the other waits for one more."""
    world = World()
    await world.submit("first", ttlSecondsAfterFinished=0)
    await world.submit("second", dependencies=["first", "later"])
    operator = await world.operator()
    await operator.settle()
    await complete(world, operator)
    world.later(2)
    operator.mark_all()
    await operator.settle()
    assert [each["metadata"]["name"] for each in world.cluster.all(TASKS)] == ["second"]
    assert world.status("second")["message"] == "waiting for `later` (not created yet)"
    heir = await world.operator("op-2")
    await world.submit("later")
    await heir.settle()
    await complete(world, heir)
    assert world.status("second")["state"] == "Claimed"


async def test_a_dependency_that_is_deleted_unresolved_fails_those_that_wait() -> None:
    world = World()
    await world.submit("first", suspend=True)
    await world.submit("second", dependencies=["first"])
    operator = await world.operator()
    await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.settle()
    status = world.status("second")
    assert (status["state"], status["reason"]) == ("Exception", "DependencyFailed")
    assert status["message"] == "its dependency `first` was deleted before it was resolved"


async def after_an_end_that_one_knows() -> tuple[World, Operator]:
    """`first` has ended and is deleted; somebody saw that, and still waits for another."""
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True)
    await world.submit("knows-it", dependencies=["first", "never"], requires="AllResolved")
    await operator.settle()
    world.edit_spec("first", cancel=True)
    await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.settle()
    return world, operator


async def test_who_comes_after_a_deletion_does_not_depend_on_what_is_gone() -> None:
    """Somebody still waits who knew it; that helps nobody else."""
    world, operator = await after_an_end_that_one_knows()
    await world.submit("comes-later", dependencies=["first"], requires="AllResolved")
    await operator.settle()
    assert world.status("comes-later")["message"] == "waiting for `first` (not created yet)"
    assert world.status("knows-it")["message"] == "waiting for `never` (not created yet)"


async def test_the_end_of_a_namesake_is_no_end() -> None:
    world, operator = await after_an_end_that_one_knows()
    await world.submit("first", suspend=True)
    await world.submit("comes-later", dependencies=["first"], requires="AllResolved")
    await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.settle()
    said = "its dependency `first` was deleted before it was resolved"
    assert (world.status("comes-later")["state"], world.status("comes-later")["message"]) == (
        "Exception",
        said,
    )


@pytest.mark.parametrize("policy", ["Fail", "Wait"])
@pytest.mark.parametrize("size", [2, 6])
async def test_nobody_hangs_in_a_circle(policy: str, size: int) -> None:
    world = World()
    operator = await world.operator()
    for number in range(size):
        other = f"task-{(number + 1) % size}"
        await world.submit(f"task-{number}", dependencies=[other], onDependencyFailure=policy)
        await operator.settle()
    for number in range(size):
        status = world.status(f"task-{number}")
        assert (status["state"], status["reason"]) == ("Exception", "DependencyFailed")
        assert f"form a circle: `task-{number}` → " in status["message"]


async def test_whoever_holds_one_of_a_circle_may_mend_it() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("held", dependencies=["other"], suspend=True)
    await world.submit("other", dependencies=["held"])
    await operator.settle()
    assert (world.status("held")["state"], world.status("other")["state"]) == ("Unscheduled", "Exception")
    world.cluster.remove(TASKS, NAMESPACE, "other")
    await operator.settle()
    await world.submit("other", suspend=True)
    await operator.settle()
    world.edit_spec("held", suspend=False)
    await operator.settle()
    assert world.status("held")["reason"] == "DependencyPending"


@pytest.mark.parametrize("order", [("held", "other"), ("other", "held")])
async def test_one_that_is_held_is_in_a_circle_whoever_came_first(order: tuple[str, str]) -> None:
    """The other says so; the one that is held is given time to be mended, or says so when it is let go."""
    world = World()
    operator = await world.operator()
    for name in order:
        [other] = {*order} - {name}
        await world.submit(name, dependencies=[other], suspend=name == "held", onDependencyFailure="Wait")
        await operator.settle()
    assert (world.status("held")["state"], world.status("other")["state"]) == ("Unscheduled", "Exception")
    world.edit_spec("held", suspend=False)
    await operator.settle()
    assert world.status("held")["message"] == "its dependencies form a circle: `held` → `other` → `held`"


async def test_whoever_finds_a_circle_tells_those_too_that_wait_for_one_that_is_held() -> None:
    world = World()
    operator = await world.operator()
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        await world.submit(name, dependencies=[other], suspend=name == "b", onDependencyFailure="Wait")
        await operator.settle()
    assert [world.status(name)["state"] for name in "abc"] == ["Exception", "Unscheduled", "Exception"]


async def test_what_was_a_circle_is_none_when_one_of_it_was_made_again() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("held", dependencies=["other"], suspend=True, onDependencyFailure="Wait")
    await world.submit("other", dependencies=["held"])
    await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "other")
    await world.submit("other", suspend=True)
    world.edit_spec("held", suspend=False)
    await operator.loop.step(world.task("held")["metadata"]["uid"])
    assert world.status("held")["reason"] == "DependencyPending", (
        "before anybody has looked for the first one"
    )
    await operator.settle()
    assert world.status("held")["reason"] == "DependencyPending"


async def test_what_was_a_circle_is_none_when_one_of_it_is_released() -> None:
    world = World()
    operator = await world.operator()
    for name, other in (("a", "b"), ("b", "a")):
        await world.submit(name, dependencies=[other], suspend=True)
    await operator.settle()
    world.edit_spec("b", suspend=False, release=True)
    await operator.settle()
    world.edit_spec("a", suspend=False)
    await operator.settle()
    assert (world.status("a")["reason"], world.status("b")["state"]) == ("DependencyPending", "Claimed")


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "wants",
    [
        pytest.param({"requires": "AllResolved"}, id="AllResolved"),
        pytest.param({"onDependencyFailure": "Wait"}, id="Wait"),
        pytest.param({}, id="Fail"),
    ],
)
async def test_an_operator_that_ends_between_two_verdicts_leaves_nobody_in_a_circle(
    wants: dict[str, str], size: int
) -> None:
    """Each of them dies as soon as it has resolved one; and what it resolved is enough for the next to go on."""
    world = World()
    operator = await world.operator()
    names = "abc"[:size]
    for number, name in enumerate(names):
        await world.submit(name, dependencies=[names[(number + 1) % size]], **wants)
        if number < size - 1:
            await operator.settle()
    for life in range(size):
        if life:
            operator.is_deaf = True
            operator = await world.operator(f"op-{life + 1}")
        ended = sum(world.status(name).get("state") == "Exception" for name in names)
        while sum(world.status(name).get("state") == "Exception" for name in names) == ended:
            assert not operator.cache.dirty.is_idle, "somebody is left in it"
            uid = await operator.cache.dirty.take()
            await operator.loop.step(uid)
            operator.cache.dirty.done(uid)
    said = [world.status(name)["message"] for name in names]
    assert said[0] == f"its dependencies form a circle: {' → '.join(f'`{each}`' for each in names + 'a')}"
    assert all("form a circle" in each for each in said)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often it was asked, by its name, what a task leads to."""
    found = Counter[str]()
    leads_to = dependencies.leads_to

    def counted(task: Task, named: Callable[[str], Task | None]) -> Iterator[Task]:
        found[task.name] += 1
        return leads_to(task, named)

    monkeypatch.setattr(dependencies, "leads_to", counted)
    return found


async def test_a_circle_of_hundreds_costs_each_of_them_a_look_and_a_sentence(
    looks: Counter[str],
) -> None:
    """One way to find it for all of them: as long a way kept for each would be more than an operator has."""
    world = World()
    for number in range(400):
        await world.submit(f"task-{number}", dependencies=[f"task-{(number + 1) % 400}"])
    operator = await world.operator()
    await operator.settle(rounds=4000)
    messages = [world.status(f"task-{number}")["message"] for number in range(400)]
    assert all("form a circle: `task-" in each and " more … " in each for each in messages)
    assert max(len(each) for each in messages) < 200
    assert looks.total() <= 2 * 400


async def test_what_was_submitted_while_nobody_acted_is_searched_once(
    looks: Counter[str],
) -> None:
    """A long chain, and each of it new: nobody walks all the way for each of them."""
    world = World()
    for number in range(300):
        depends = {"dependencies": [f"task-{number - 1}"]} if number else {"suspend": True}
        await world.submit(f"task-{number}", **depends)
    operator = await world.operator()
    await operator.settle(rounds=3000)
    assert {world.status(f"task-{number}")["state"] for number in range(300)} == {"Unscheduled"}
    assert max(looks.values()) == 1


async def test_in_a_circle_nobody_runs_however_others_end() -> None:
    world = World()
    operator = await world.operator()
    for number in range(5):
        other = f"task-{(number + 1) % 5}"
        await world.submit(f"task-{number}", dependencies=[other], requires="AllResolved")
        await operator.settle()
    assert {world.status(f"task-{number}")["state"] for number in range(5)} == {"Exception"}


async def test_a_circle_that_was_made_while_all_were_held_is_found_when_they_are_let_go() -> None:
    world = World()
    operator = await world.operator()
    for name, other in (("a", "b"), ("b", "a")):
        await world.submit(name, dependencies=[other], suspend=True, onDependencyFailure="Wait")
    await operator.settle()
    for name in "ab":
        world.edit_spec(name, suspend=False)
        await operator.settle()
    assert [world.status(name)["state"] for name in "ab"] == ["Exception", "Exception"]


async def test_an_end_that_was_met_counts_though_another_has_the_name_before_anybody_looked() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True)
    await world.submit("second", dependencies=["first", "never"], requires="AllResolved")
    await operator.settle()
    world.edit_spec("first", cancel=True)
    uid = world.task("first")["metadata"]["uid"]
    await operator.loop.step(uid)
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.loop.step(uid)
    await world.submit("first", suspend=True)
    await operator.settle()
    assert world.status("second")["dependencies"][0] == {"name": "first", "uid": uid, "state": "Cancelled"}


async def test_a_failure_that_is_to_be_run_again_is_none() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True, cancel=True)
    await operator.settle()
    world.edit_spec("first", rerun=1, cancel=False)
    await world.submit("second", dependencies=["first"])
    [second] = [each.uid for each in operator.cache.tasks() if each.name == "second"]
    await operator.loop.step(second)
    assert world.status("second")["reason"] == "DependencyPending"


async def test_a_released_task_asks_for_nobody() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True)
    await world.submit("second", dependencies=["first"], queueName="none")
    await operator.settle()
    world.edit_spec("second", release=True)
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.settle()
    asked = dependencies.to_ask(
        snapshot(task(wants={"dependencies": ("a",), "release": True}, dependencies=(A,)))
    )
    assert asked is None
    assert world.status("second")["reason"] == "QueueNotFound"


class Unscanned(dict[str, Any]):
    """Whoever asks for one gets it; nobody asks for all."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a scan")

    values = items = keys = __iter__  # type: ignore[assignment]


async def test_a_fan_in_of_500_costs_one_thought_each_and_no_scan() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True)
    for number in range(500):
        await world.submit(f"other-{number}", dependencies=["first"])
    for number in range(20):
        await world.submit(f"bystander-{number}", suspend=True)
    await operator.settle(rounds=2000)
    operator.thoughts.clear()
    world.edit_spec("first", priority=3)
    await operator.settle()
    assert operator.thoughts.keys() == {world.task("first")["metadata"]["uid"]}, (
        "an edit of it is no news for those that wait"
    )
    operator.thoughts.clear()
    operator.cache._entries = Unscanned(operator.cache._entries)
    world.edit_spec("first", cancel=True)
    await operator.settle(rounds=2000)
    waiting = [world.status(f"other-{number}") for number in range(500)]
    assert {each["reason"] for each in waiting} == {"DependencyFailed"}
    bystanders = {world.task(f"bystander-{number}")["metadata"]["uid"] for number in range(20)}
    assert not bystanders & operator.thoughts.keys()
    assert max(operator.thoughts.values()) <= 3, "one for the news, and one for the echo of the answer to it"


def states(world: World, names: str) -> str:
    """Of Tasks with one letter each, what they are said to be: `Exception` for all of them, or one after another."""
    return " ".join(sorted({world.status(name)["state"] for name in names}))


@pytest.mark.parametrize(
    "wants",
    [
        pytest.param({"requires": "AllResolved"}, id="AllResolved"),
        pytest.param({"onDependencyFailure": "Wait"}, id="Wait"),
        pytest.param({}, id="Fail"),
    ],
)
@pytest.mark.parametrize(
    "edges",
    [
        pytest.param({"b": "a", "c": "a", "a": "bc"}, id="two circles that share a task"),
        pytest.param({"a": "b", "d": "b", "c": "ad", "b": "c"}, id="two circles that share a way"),
    ],
)
async def test_nobody_runs_and_nobody_hangs_in_circles_that_meet(
    edges: dict[str, str], wants: dict[str, str]
) -> None:
    world = World()
    operator = await world.operator()
    for name, others in edges.items():
        await world.submit(name, dependencies=list(others), **wants)
        await operator.settle()
    assert states(world, "".join(edges)) == "Exception"


async def test_a_circle_is_found_though_one_of_it_was_released_for_a_moment() -> None:
    """Whoever came last took it for released; when that is taken back, it has begun to wait again."""
    world = World()
    operator = await world.operator()
    await world.submit("c", suspend=True)
    await world.submit("a", dependencies=["b", "c"])
    await operator.settle()
    world.edit_spec("a", release=True)
    await world.submit("b", dependencies=["a"])
    await operator.loop.step(world.task("b")["metadata"]["uid"])
    world.edit_spec("a", release=False)
    await operator.settle()
    assert states(world, "ab") == "Exception"


@pytest.mark.parametrize("restarts", [False, True])
async def test_one_of_a_circle_that_is_run_again_waits_as_any_other(restarts: bool) -> None:
    world = World()
    operator = await world.operator()
    await world.submit("a", dependencies=["b"], onDependencyFailure="Wait")
    await world.submit("b", dependencies=["a"], onDependencyFailure="Wait")
    await operator.settle()
    assert states(world, "ab") == "Exception"
    if restarts:
        operator.is_deaf = True
        operator = await world.operator("op-2")
    world.edit_spec("a", rerun=1)
    await operator.settle()
    assert (world.status("a")["state"], world.status("a")["reason"]) == ("Unscheduled", "DependencyFailed")


async def test_an_end_counts_though_its_name_was_taken_before_it_was_forgotten() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("first")
    await world.submit("second", dependencies=["first"])
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.pod_ends()
    await operator.loop.step(world.task("first")["metadata"]["uid"])
    assert world.status("first")["state"] == "Completed"
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await world.submit("first", suspend=True)
    await operator.settle()
    assert world.status("second")["state"] == "Claimed"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_seen", [True, False])
async def test_an_end_that_is_on_record_does_not_come_back(is_seen: bool, restarts: bool) -> None:
    """The first was cancelled, the second deleted before its end: that is what is said of it."""
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True)
    await world.submit("second", dependencies=["first"], onDependencyFailure="Wait")
    await operator.settle()
    world.edit_spec("first", cancel=True)
    uid = world.task("first")["metadata"]["uid"]
    await operator.loop.step(uid)
    if is_seen:
        await operator.settle()
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.loop.step(uid)
    await operator.settle()
    assert world.status("second")["message"].startswith("its dependency `first` ended as `Cancelled`")
    await world.submit("first", suspend=True)
    await operator.settle()
    if restarts:
        operator.is_deaf = True
        operator = await world.operator("op-2")
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.settle()
    assert world.status("second")["message"] == "its dependency `first` was deleted before it was resolved"


@pytest.mark.parametrize("others", [False, True])
async def test_a_rerun_does_not_meet_an_end_that_is_over_and_done(others: bool) -> None:
    """Whether somebody else waits still makes no difference."""
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True)
    await world.submit("second", dependencies=["first"])
    if others:
        await world.submit("third", dependencies=["first"], onDependencyFailure="Wait")
    await operator.settle()
    world.edit_spec("first", cancel=True)
    uid = world.task("first")["metadata"]["uid"]
    await operator.loop.step(uid)
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.loop.step(uid)
    await operator.settle()
    assert world.status("second")["reason"] == "DependencyFailed"
    world.edit_spec("second", rerun=1)
    await operator.settle()
    assert world.status("second")["message"] == "waiting for `first` (not created yet)"


@pytest.mark.parametrize("names", ["abc", "cba"])
async def test_a_rerun_of_a_whole_pipeline_runs_it_in_order(names: str) -> None:
    """Asked for one after the other, what others wait for first; in the other order the old results count."""
    world = World()
    operator = await world.operator()
    for name, others in (("a", []), ("b", ["a"]), ("c", ["b"])):
        await world.submit(name, dependencies=others)
    await operator.settle()
    for _ in "abc":
        await complete(world, operator)
    assert states(world, "abc") == "Completed"
    for name in names:
        world.edit_spec(name, rerun=1)
        await operator.settle()
    in_order = names == "abc"
    assert states(world, "bc") == ("Unscheduled" if in_order else "Claimed")
    for _ in "abc":
        await complete(world, operator)
    assert states(world, "abc") == "Completed"
    assert [world.status(name)["runCount"] for name in "abc"] == [2, 2, 2]


async def test_a_rerun_does_not_ask_for_what_had_completed_and_is_gone() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("first")
    await world.submit("second", dependencies=["first"])
    await operator.settle()
    for _ in range(2):
        await complete(world, operator)
    world.cluster.remove(TASKS, NAMESPACE, "first")
    await operator.settle()
    world.edit_spec("second", rerun=1)
    await operator.settle()
    assert world.status("second")["state"] == "Claimed"


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        pytest.param(["cancel"], {"a": "Cancelled", "b": "Exception", "c": "Exception"}, id="only cancelled"),
        pytest.param(
            ["suspend", "cancel"], {"a": "Cancelled", "b": "Cancelled", "c": "Cancelled"}, id="held first"
        ),
    ],
)
async def test_a_chain_is_cancelled_whole_if_it_is_held_first(
    edits: list[str], expected: dict[str, str]
) -> None:
    """As the guide has it: otherwise the end of the first is a verdict on the others, before they are asked to stop."""
    world = World()
    operator = await world.operator()
    await world.submit("a", startDelaySeconds=3600)
    await world.submit("b", dependencies=["a"])
    await world.submit("c", dependencies=["b"])
    await operator.settle()
    for edit in edits:
        for name in "abc":
            world.edit_spec(name, **{edit: True})
            await operator.settle()
    assert {name: world.status(name)["state"] for name in "abc"} == expected


async def test_what_is_waited_for_outlives_its_time_until_its_end_is_on_record() -> None:
    world = World()
    operator = await world.operator()
    await world.submit("first", suspend=True, ttlSecondsAfterFinished=0)
    await world.submit("second", dependencies=["first", "never"], requires="AllResolved")
    await operator.settle()
    world.edit_spec("first", cancel=True)
    uids = {name: world.task(name)["metadata"]["uid"] for name in ("first", "second")}
    await operator.loop.step(uids["first"])
    await operator.loop.step(uids["first"])
    assert world.status("first")["state"] == "Cancelled", "it would be deleted by now"
    await operator.loop.step(uids["second"])
    await operator.loop.step(uids["first"])
    assert [each["metadata"]["name"] for each in world.cluster.all(TASKS)] == ["second"]
