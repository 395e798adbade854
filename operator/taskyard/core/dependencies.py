"""What a Task waits for: other Tasks of its namespace, by name, as far as they were seen.

What was seen is on record in `status.dependencies`, by uid: one that ended as it must stays so, whatever becomes of it
afterwards. A record moves only when a dependency is first seen, comes to its end, or is another one of that name.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from taskyard.core.actions import Ask
from taskyard.core.model import Dependency, Error, Snapshot, Status, Task, Wait
from taskyard.core.words import ACTIVE_STATES, ErrorCode, OnDependencyFailure, Reason, Requires, State

NAMED_AT_MOST: Final = 8
"""In one sentence; all of them are in `status.dependencies`."""

CIRCLE: Final = "its dependencies form a circle: "


def is_met(seen: Dependency, requires: Requires) -> bool:
    """Whether nothing more is wanted of it."""
    if requires is Requires.ALL_COMPLETED:
        return seen.state is State.COMPLETED
    return seen.state is not None


def seen(snapshot: Snapshot) -> tuple[Dependency, ...]:
    """What is to be on record of each dependency: what it is now, or what is known of it from before.

    A task that was released asks for none any more, and is not told of them.
    """
    spec = snapshot.task.spec
    if spec.release:
        return snapshot.task.status.dependencies
    known = {name: Dependency(name) for name in spec.dependencies}
    known |= {each.name: each for each in snapshot.task.status.dependencies if each.name in known}
    there = dict[str, Dependency | None].fromkeys(known)
    there |= {each.name: each for each in snapshot.dependencies}
    return tuple(_seen(known[name], there[name], spec.requires) for name in known)


def _seen(known: Dependency, there: Dependency | None, requires: Requires) -> Dependency:
    if there is None or is_met(known, requires):
        return known
    is_another = known.uid not in {None, there.uid}
    return replace(there, previous_uid=known.uid if is_another else known.previous_uid)


def to_ask(snapshot: Snapshot) -> Ask | None:
    """Those that were there and are not: no cache is asked whether something is gone."""
    if snapshot.task.spec.release:
        return None
    missing = [name for name in _missing(snapshot) if name not in snapshot.absent]
    return Ask(tasks=tuple(missing)) if missing else None


def _missing(snapshot: Snapshot) -> list[str]:
    there = {each.name for each in snapshot.dependencies}
    requires = snapshot.task.spec.requires
    return [
        each.name
        for each in seen(snapshot)
        if each.uid is not None and each.name not in there and not is_met(each, requires)
    ]


def holds(snapshot: Snapshot) -> Iterator[Wait]:
    """What keeps the task from running: dependencies that did not end as they must, and those still to end."""
    if snapshot.task.spec.release:
        return
    failed = _failures(snapshot)
    if failed:
        yield Wait(Reason.DEPENDENCY_FAILED, _joined(failed.values(), len(failed)))
    pending = {
        each.name: _pending(each, snapshot.task) for each in _unmet(snapshot) if each.name not in failed
    }
    if pending:
        yield Wait(Reason.DEPENDENCY_PENDING, "waiting for " + _joined(pending.values(), len(pending)))


def failure(snapshot: Snapshot) -> Error | None:
    """Why the task can never run, if it is not to wait for a better end."""
    spec = snapshot.task.spec
    if spec.release or spec.suspend:
        return None
    if snapshot.cycle:
        path = " → ".join(f"`{x}`" if isinstance(x, str) else f"… {x:,} more …" for x in snapshot.cycle)
        return Error(ErrorCode.DEPENDENCY_FAILED, f"{CIRCLE}{path}")
    failed = _failures(snapshot)
    if not failed or spec.on_dependency_failure is OnDependencyFailure.WAIT:
        return None
    return Error(ErrorCode.DEPENDENCY_FAILED, _joined(failed.values(), len(failed)))


def waits_for(task: Task) -> Iterable[str]:
    """Whose end a task waits for, as far as it knows."""
    state = task.status.state
    if state.is_terminal or state in ACTIVE_STATES or task.spec.release:
        return ()
    met = {each.name for each in task.status.dependencies if is_met(each, task.spec.requires)}
    return [name for name in task.spec.dependencies if name not in met]


def ended_in_circle(status: Status) -> bool:
    """Whether it was resolved because it waited for itself in the end."""
    is_failed = status.state is State.EXCEPTION and status.reason == ErrorCode.DEPENDENCY_FAILED
    return is_failed and (status.message or "").startswith(CIRCLE)


def gave_up(task: Task) -> tuple[Dependency, ...]:
    """Of one that ended in a circle: whom it waited for. Of no other end is that remembered at rest (`parse.task`)."""
    is_over = task.status.state is State.EXCEPTION and task.spec.rerun <= task.status.observed_rerun
    return task.status.dependencies if is_over else ()


def leads_to(task: Task, named: Callable[[str], Task | None]) -> Iterator[Task]:
    """Those that a task waits for; or waited for, when it ended because they form a circle.

    So whoever is left of a circle still finds it, from the Tasks alone. But one that runs again since waits for the
    end of the other as any other does.
    """
    for name in waits_for(task):
        other = named(name)
        if other is not None and other.uid != task.uid:
            yield other
    for each in gave_up(task):
        other = named(each.name)
        if other is not None and other.uid == each.uid != task.uid and not _runs_again_since(other, task):
            yield other


def _runs_again_since(task: Task, end: Task) -> bool:
    began_at, ended_at = task.status.rerun_at, end.status.completed_at
    return began_at is not None and ended_at is not None and began_at >= ended_at


def kept(snapshot: Snapshot) -> tuple[Dependency, ...]:
    """What a rerun starts from: what ended as it must, as it is now where it is still there. The rest is seen anew."""
    requires = snapshot.task.spec.requires
    known = {each.uid: each for each in snapshot.task.status.dependencies if is_met(each, requires)}
    known |= {each.uid: each for each in snapshot.dependencies if each.uid in known}
    return tuple(known.values())


def released_by(task: Task, other: Task) -> bool:
    """Whether the end of that other one is on record, so that nobody need keep it for this task's sake."""
    known = next((each for each in task.status.dependencies if each.name == other.name), None)
    if known is None:
        return False
    return is_met(known, task.spec.requires) or has_on_record(task, as_seen(other))


def has_on_record(task: Task, end: Dependency) -> bool:
    """Whether it knows of that very end."""
    return any(
        (each.name, each.uid, each.state) == (end.name, end.uid, end.state)
        for each in task.status.dependencies
    )


def _unmet(snapshot: Snapshot) -> list[Dependency]:
    requires = snapshot.task.spec.requires
    return [each for each in seen(snapshot) if not is_met(each, requires)]


def _failures(snapshot: Snapshot) -> dict[str, str]:
    """Each dependency that did not end as it must, or was deleted before its end, with what is said of it."""
    gone = {name for name in _missing(snapshot) if name in snapshot.absent}
    told = {}
    for each in _unmet(snapshot):
        if each.name == snapshot.task.name:
            continue
        if each.state is not None:
            after = " and was deleted" if each.name in gone else ""
            told[each.name] = f"its dependency `{each.name}` ended as `{each.state}`{after}"
        elif each.name in gone:
            told[each.name] = f"its dependency `{each.name}` was deleted before it was resolved"
    return told


def _pending(each: Dependency, task: Task) -> str:
    if each.name == task.name:
        return "`release`: it names itself"
    if each.uid is None:
        return f"`{each.name}` (not created yet)"
    is_another = each.previous_uid is not None
    return (
        f"`{each.name}` (another one of that name: the first was deleted)" if is_another else f"`{each.name}`"
    )


def _joined(parts: Iterable[str], count: int) -> str:
    named = list(parts)[:NAMED_AT_MOST]
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return ", ".join(named) + more


def as_seen(task: Task) -> Dependency:
    """A Task in the eyes of one that waits for it: unresolved, or how it ended. One that is to run again has not."""
    state = task.status.state
    is_over = state.is_terminal and task.spec.rerun <= task.status.observed_rerun
    return Dependency(task.name, task.uid, state if is_over else None)
