"""What a Task takes from its definition, and what is said when there is none to take it from."""

from collections.abc import Mapping
from dataclasses import replace

from taskyard.core import parse_spec
from taskyard.core.model import Bound, Snapshot, Status, Task, Unregistered, Version
from taskyard.core.spec import DefinitionRef
from taskyard.core.words import DefinitionKind


def missing(ref: DefinitionRef, namesake: DefinitionKind | None) -> Unregistered:
    """What is said of a name that nothing has; `namesake`: the kind of a definition that could have been meant."""
    said = f"there is no {ref.kind} `{ref.name}`"
    if namesake is not None:
        said += f"; there is a {namesake} of that name, for which `definitionRef.kind` must be `{namesake}`"
    return Unregistered(said)


def found(ref: DefinitionRef, versions: Mapping[str, Version], bound: Bound | None) -> Version | Unregistered:
    """What a reference leads to. What a Task was claimed with holds for all its runs: it must say the same still."""
    named = f"version `{ref.version}` of the {ref.kind} `{ref.name}`"
    if ref.version not in versions:
        there = ", ".join(_offered(each) for each in versions.values())
        return Unregistered(f"there is no {named}; there is {there}")
    version = versions[ref.version]
    if bound is not None and version.digest != bound.digest:
        return Unregistered(f"{named} is another one than the task was first claimed with")
    if version.is_retired and bound is None:
        return Unregistered(f"{named} is retired: it starts no new tasks", retired=version)
    return version


def _offered(version: Version) -> str:
    return f"`{version.version}` (retired)" if version.is_retired else f"`{version.version}`"


def claimed_with(status: Status) -> Bound | None:
    """What all runs are made of. Before the first claim a record only tells what the definition said last."""
    return status.definition if status.attempt else None


def applied(task: Task, definition: Version | Unregistered | None) -> Task:
    """The Task with what its definition says now, until it is claimed; where that is gone, with what it said last."""
    version = _inherited_from(definition)
    if task.written is None or version is None:
        return task
    return replace(task, spec=parse_spec.spec(task.written, version))


def _inherited_from(definition: Version | Unregistered | None) -> Version | None:
    """A version that starts no new tasks has its say about those that wait: their clocks, and what becomes of them."""
    return definition.retired if isinstance(definition, Unregistered) else definition


def bound(snapshot: Snapshot) -> Bound | None:
    """What is to be on record of the definition: what it says, until the first claim, and what it said from then on.

    While a task waits too: its clocks must strike, and its end be as it says, also when it is gone by then.
    """
    status, version = snapshot.task.status, _inherited_from(snapshot.definition)
    if claimed_with(status) is not None or version is None:
        return status.definition
    return Bound(
        kind=version.kind,
        uid=version.uid,
        version=version.version,
        digest=version.digest,
        main_container=version.main_container,
        grace_seconds=version.grace_seconds,
        defaults=version.defaults,
    )
