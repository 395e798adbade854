"""What a Task waits for, and what becomes of it when that comes to nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from taskyard.core.actions import Ask, Decision, DeleteTask, WriteStatus
from taskyard.core.decide import decide
from taskyard.core.model import Dependency, Snapshot, Status
from taskyard.core.words import OnDependencyFailure, Reason, Requires, State
from tests.unit.build import NOW, live, seconds, snapshot, task

WAIT = {"on_dependency_failure": OnDependencyFailure.WAIT}
RESOLVED = {"requires": Requires.ALL_RESOLVED}

A = Dependency("a", "uid-a")
DONE = Dependency("a", "uid-a", State.COMPLETED)
FAILED = Dependency("a", "uid-a", State.FAILED)
ANOTHER = Dependency("a", "uid-z")


def held(
    *there: Dependency,
    known: tuple[Dependency, ...] = (),
    wants: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Snapshot:
    """A task that waits for `a`, with what is there of it, and what is on record."""
    of = task(State.UNSCHEDULED, wants={"dependencies": ("a",), **(wants or {})}, dependencies=known)
    return snapshot(of, dependencies=there, **facts)


def written(decision: Decision) -> Status:
    assert isinstance(decision.action, WriteStatus), decision
    return decision.action.status


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(held(), "waiting for `a` (not created yet)", id="not created yet"),
        pytest.param(held(A), "waiting for `a`", id="not resolved yet"),
        pytest.param(held(A, wants=RESOLVED), "waiting for `a`", id="not resolved yet, however it ends"),
        pytest.param(
            held(ANOTHER, known=(A,)),
            "waiting for `a` (another one of that name: the first was deleted)",
            id="deleted and created anew",
        ),
        pytest.param(held(A, known=(FAILED,), wants=WAIT), "waiting for `a`", id="failed, and run again"),
        pytest.param(
            held(wants={"dependencies": ("hello",)}),
            "waiting for `release`: it names itself",
            id="itself: until it is released",
        ),
        pytest.param(
            held(wants={"dependencies": tuple(f"d{number}" for number in range(64))}),
            "waiting for "
            + ", ".join(f"`d{number}` (not created yet)" for number in range(8))
            + " and 56 more",
            id="many of them",
        ),
    ],
)
def test_it_waits_and_says_for_whom(found: Snapshot, said: str) -> None:
    status = written(decide(found, NOW))
    assert (status.state, status.reason, status.message) == (
        State.UNSCHEDULED,
        Reason.DEPENDENCY_PENDING,
        said,
    )
    assert [each.name for each in status.dependencies] == list(found.task.spec.dependencies)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(held(DONE), id="it has completed"),
        pytest.param(held(known=(DONE,)), id="it had completed, and was deleted"),
        pytest.param(held(ANOTHER, known=(DONE,)), id="it had completed, and another one has its name"),
        pytest.param(held(A, known=(DONE,)), id="it had completed, and runs again"),
        pytest.param(held(FAILED, wants=RESOLVED), id="it has failed, and any end will do"),
        pytest.param(held(A, wants={"release": True}), id="it runs, and the task is released"),
        pytest.param(held(FAILED, wants={"release": True}), id="it has failed, and the task is released"),
        pytest.param(held(wants={"release": True, "dependencies": ("hello",)}), id="itself, and released"),
    ],
)
def test_it_is_claimed_when_all_is_as_it_must_be(found: Snapshot) -> None:
    status = written(decide(found, NOW))
    assert (status.state, status.enqueued_at) == (State.CLAIMED, NOW)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(held(FAILED), "its dependency `a` ended as `Failed`", id="it has failed"),
        pytest.param(
            held(known=(A,), absent=frozenset({"a"})),
            "its dependency `a` was deleted before it was resolved",
            id="it was deleted unresolved",
        ),
        pytest.param(
            held(known=(A,), absent=frozenset({"a"}), wants=RESOLVED),
            "its dependency `a` was deleted before it was resolved",
            id="it was deleted unresolved: that is no end",
        ),
        pytest.param(
            held(A, cycle=("hello", "a", "hello"), wants=WAIT),
            "its dependencies form a circle: `hello` → `a` → `hello`",
            id="a circle is never waited for",
        ),
        pytest.param(
            held(A, cycle=("hello", "a", 4996, "z", "hello"), wants=WAIT),
            "its dependencies form a circle: `hello` → `a` → … 4,996 more … → `z` → `hello`",
            id="a circle of thousands",
        ),
    ],
)
def test_it_is_an_exception_when_that_can_never_be(found: Snapshot, said: str) -> None:
    status = written(decide(found, NOW))
    assert (status.state, status.reason, status.message) == (State.EXCEPTION, "DependencyFailed", said)
    assert status.runs == ()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        pytest.param(held(FAILED, wants=WAIT), "its dependency `a` ended as `Failed`", id="failed"),
        pytest.param(
            held(known=(FAILED,), absent=frozenset({"a"}), wants=WAIT),
            "its dependency `a` ended as `Failed` and was deleted",
            id="failed and deleted",
        ),
    ],
)
def test_or_it_waits_for_a_better_end(found: Snapshot, said: str) -> None:
    status = written(decide(found, NOW))
    assert (status.state, status.reason, status.message) == (
        State.UNSCHEDULED,
        Reason.DEPENDENCY_FAILED,
        said,
    )


def test_what_was_there_and_is_not_is_asked_for() -> None:
    """No cache is asked whether something is gone."""
    assert decide(held(known=(A,)), NOW) == Decision(Ask(tasks=("a",)))


def test_a_suspended_task_is_held_whatever_its_dependencies_came_to() -> None:
    status = written(decide(held(FAILED, wants={"suspend": True}), NOW))
    assert [each.reason for each in status.waiting] == [Reason.SUSPENDED, Reason.DEPENDENCY_FAILED]
    assert status.dependencies == (FAILED,), "on record all the same"


def test_cancel_and_deadline_come_first() -> None:
    assert written(decide(held(FAILED, wants={"cancel": True}), NOW)).state is State.CANCELLED
    late = {"dependencies": ("hello",), "deadline": NOW}
    assert written(decide(held(wants=late), NOW)).reason == "DeadlineExceeded"


def test_what_changes_nothing_is_not_written_again() -> None:
    first = written(decide(held(A), NOW))
    of = task(State.UNSCHEDULED, wants={"dependencies": ("a",)})
    assert decide(snapshot(replace(of, status=first), dependencies=(A,)), NOW + seconds(9)).action is None


def test_its_end_is_kept_until_those_that_wait_have_it_on_record() -> None:
    over = task(State.COMPLETED, completed_at=NOW - seconds(10), wants={"ttl": seconds(10)})
    assert decide(snapshot(over, is_awaited=True), NOW) == Decision(wake_at=NOW + seconds(1))
    assert decide(snapshot(over), NOW).action == DeleteTask()
    assert decide(snapshot(over, is_awaited=True), NOW + seconds(60)).action == DeleteTask(), (
        "but not for ever"
    )


B = Dependency("b", "uid-b")


@pytest.mark.parametrize(
    ("there", "wants", "kept"),
    [
        pytest.param((), {}, (DONE,), id="it had completed, and is gone"),
        pytest.param((ANOTHER,), {}, (DONE,), id="it had completed, and another one has its name"),
        pytest.param((DONE,), {}, (DONE,), id="it has completed"),
        pytest.param((A,), {}, (A,), id="it had completed, and is to run again, or does"),
        pytest.param((FAILED,), {}, (FAILED,), id="it had completed, and has failed when it ran again"),
        pytest.param((FAILED,), RESOLVED, (FAILED, replace(B, state=State.FAILED)), id="any end will do"),
        pytest.param((A, B), RESOLVED, (A, B), id="any end will do, and both run again"),
    ],
)
def test_a_rerun_keeps_what_was_met_but_of_those_that_are_there_it_knows_what_they_are_now(
    there: tuple[Dependency, ...], wants: dict[str, Any], kept: tuple[Dependency, ...]
) -> None:
    known = (DONE, replace(B, state=State.FAILED))
    over = task(State.EXCEPTION, wants={"dependencies": ("a", "b"), "rerun": 1, **wants}, dependencies=known)
    assert written(decide(snapshot(over, dependencies=there), NOW)).dependencies == kept


def test_what_was_released_is_released_when_it_runs_again() -> None:
    """A second approval is asked for by `release: false` in the edit that asks for the rerun."""
    for release, state in ((True, State.CLAIMED), (False, State.UNSCHEDULED)):
        wants = {"dependencies": ("hello",), "rerun": 1, "release": release}
        over = task(State.COMPLETED, wants=wants, completed_at=NOW)
        again = written(decide(snapshot(over), NOW))
        assert written(decide(snapshot(replace(over, status=again), live=live(None)), NOW)).state is state
