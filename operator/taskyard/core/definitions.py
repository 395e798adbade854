"""What a Task takes from its definition, and what is said when there is none to take it from."""

from collections.abc import Mapping
from dataclasses import replace

from taskyard.core import parse_spec
from taskyard.core.model import Bound, Snapshot, Task, Unregistered, Version
from taskyard.core.spec import DefinitionRef


def found(
    ref: DefinitionRef, versions: Mapping[str, Version] | None, bound: Bound | None
) -> Version | Unregistered:
    """What a reference leads to. What a Task was claimed with holds for all its runs: it must say the same still."""
    if versions is None:
        return Unregistered(f"there is no {ref.kind} `{ref.name}`")
    named = f"version `{ref.version}` of the {ref.kind} `{ref.name}`"
    if ref.version not in versions:
        there = ", ".join(_offered(each) for each in versions.values())
        return Unregistered(f"there is no {named}; there is {there}")
    version = versions[ref.version]
    if bound is not None and version.digest != bound.digest:
        return Unregistered(f"{named} is another one than the task was first claimed with")
    if version.is_retired and bound is None:
        return Unregistered(f"{named} is retired: it starts no new tasks", is_retired=True)
    return version


def _offered(version: Version) -> str:
    return f"`{version.version}` (retired)" if version.is_retired else f"`{version.version}`"


def applied(task: Task, definition: Version | Unregistered | None) -> Task:
    """The Task with its definition's defaults, as long as they are not on record in its status."""
    if task.written is None or not isinstance(definition, Version):
        return task
    return replace(task, spec=parse_spec.spec(task.written, definition))


def bound(snapshot: Snapshot) -> Bound | None:
    """What a claim puts on record of the definition, if there is one; what is there already stays."""
    version = snapshot.definition
    if snapshot.task.status.definition is not None or not isinstance(version, Version):
        return snapshot.task.status.definition
    return Bound(
        kind=version.kind,
        uid=version.uid,
        version=version.version,
        digest=version.digest,
        main_container=version.main_container,
        grace_seconds=version.grace_seconds,
        defaults=version.defaults,
    )
