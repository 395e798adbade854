"""What a Task waits for: other Tasks of its namespace, by name, as far as they were seen.

What was seen is on record in `status.dependencies`, by uid: one that ended as it must stays so, whatever becomes of it
afterwards. A record moves only when a dependency is first seen, comes to its end, or is another one of that name.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from taskyard.core.actions import Ask
from taskyard.core.model import Dependency, Error, Snapshot, Task, Wait
from taskyard.core.words import ACTIVE_STATES, ErrorCode, OnDependencyFailure, Reason, Requires, State

NAMED_AT_MOST: Final = 8
"""In one sentence; all of them are in `status.dependencies`."""


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
        path = " → ".join(f"`{name}`" for name in snapshot.cycle)
        return Error(ErrorCode.DEPENDENCY_FAILED, f"its dependencies form a circle: {path}")
    failed = _failures(snapshot)
    if not failed or spec.on_dependency_failure is OnDependencyFailure.WAIT:
        return None
    return Error(ErrorCode.DEPENDENCY_FAILED, _joined(failed.values(), len(failed)))


def has_waited(task: Task) -> bool:
    """Whether it has waited for others before, as its status says."""
    return task.status.reason in {Reason.DEPENDENCY_PENDING, Reason.DEPENDENCY_FAILED}


def circles(start: str, waits_for: Callable[[str], Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """For each task in any circle with this one: a way from it, by those that each waits for, back to it.

    One that names itself is held: that is no circle.
    """
    awaited_by = defaultdict[str, list[str]](list)

    def onwards(name: str) -> list[str]:
        others = [other for other in waits_for(name) if other != name]
        for other in others:
            awaited_by[other].append(name)
        return others

    came_from = _reached(start, onwards)
    leads_to = _reached(start, lambda name: awaited_by[name])
    found = {}
    for name in leads_to:
        there = _way(name, start, leads_to)
        back = _way(name, start, came_from) if name != start else [start]
        found[name] = (*there, *reversed(back[:-1]))
    return found


def _reached(start: str, onwards: Callable[[str], Iterable[str]]) -> dict[str, str]:
    """Whatever can be reached, and from where it was; the start too, if a way leads back to it."""
    reached: dict[str, str] = {}
    ahead = [start]
    while ahead:
        name = ahead.pop()
        for other in onwards(name):
            if other not in reached:
                reached[other] = name
                if other != start:
                    ahead.append(other)
    return reached


def _way(name: str, end: str, by: dict[str, str]) -> list[str]:
    """Step by step to that end, at least one step."""
    way = [name, by[name]]
    while way[-1] != end:
        way.append(by[way[-1]])
    return way


def waits_for(task: Task) -> Iterable[str]:
    """Whose end a task waits for, as far as it knows."""
    state = task.status.state
    if state.is_terminal or state in ACTIVE_STATES or task.spec.release:
        return ()
    met = {each.name for each in task.status.dependencies if is_met(each, task.spec.requires)}
    return [name for name in task.spec.dependencies if name not in met]


def kept(dependencies: tuple[Dependency, ...], requires: Requires) -> tuple[Dependency, ...]:
    """What a rerun starts from: what ended as it must. The rest is looked at anew."""
    return tuple(each for each in dependencies if is_met(each, requires))


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


def is_stuck(task: Task, other: str) -> bool:
    """Whether a task waits for that other one; or had to give up waiting."""
    if task.status.state.is_terminal:
        return task.status.state is State.EXCEPTION
    return other in waits_for(task)
