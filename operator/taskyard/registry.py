"""Who listens to whom: what is told of one object may be news for Tasks that wait for it.

Queues and definitions are kept here too, whole: there are few of them, and a launch needs the templates.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from taskyard.core import definitions, parse, parse_spec
from taskyard.core.choose import Key, type_of
from taskyard.core.model import Task, Unregistered, Version
from taskyard.core.words import ACTIVE_STATES, DefinitionKind

logger = logging.getLogger(__name__)

TASK = "Task"

QUEUE = "TaskQueue"

T = TypeVar("T")


def key_of_task(namespace: str, name: str) -> Key:
    return TASK, namespace, name


def listens_to(task: Task) -> frozenset[Key]:
    """What a Task must think about again when it changes."""
    state, spec = task.status.state, task.spec
    if state.is_terminal:
        return frozenset()
    waits = state not in ACTIVE_STATES and not spec.release
    names = spec.dependencies if waits else ()
    keys = {key_of_task(task.namespace, name) for name in names if name != task.name}
    if spec.definition is not None:
        keys.add(type_of(spec.definition, task.namespace))
    return frozenset(keys)


def tasks_of(keys: Iterable[Key]) -> frozenset[Key]:
    """Those of them that are Tasks."""
    return frozenset(key for key in keys if key[0] == TASK)


class Listeners:
    """For each object, the uids of the Tasks that listen to it. No news makes anybody look at all Tasks."""

    def __init__(self) -> None:
        self._uids: defaultdict[Key, set[str]] = defaultdict(set)

    def of(self, key: Key) -> Iterable[str]:
        return self._uids.get(key, ())

    def move(self, uid: str, before: frozenset[Key], after: frozenset[Key]) -> None:
        """A Task listens to other objects than before."""
        for key in after - before:
            self._uids[key].add(uid)
        for key in before - after:
            self._uids[key].discard(uid)
            if not self._uids[key]:
                del self._uids[key]


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition, as far as the operator needs it."""

    versions: Mapping[str, Version] | None
    """None: nobody can read them."""
    max_concurrent: int | None = None


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    uid: str
    resource_version: int
    what: T


class Registry(Generic[T]):
    """All objects of a kind that there are few of, by the same door for lists, events and reads: what is not newer is
    ignored. `changed` is told when one says something else: its key, what it said before, and what it says now."""

    def __init__(
        self, read: Callable[[parse.Json], T], changed: Callable[[Key, T | None, T | None], None]
    ) -> None:
        self._known: dict[Key, _Known[T]] = {}
        self._read = read
        self._changed = changed

    def __getitem__(self, key: Key) -> T | None:
        known = self._known.get(key)
        return known.what if known is not None else None

    def version_of(self, key: Key) -> int | None:
        """The resourceVersion of what is known."""
        known = self._known.get(key)
        return known.resource_version if known is not None else None

    def all(self) -> Iterator[tuple[Key, T]]:
        return ((key, known.what) for key, known in self._known.items())

    def see(self, obj: parse.Json) -> None:
        key, known = _key(obj), self._known.get(_key(obj))
        if known is not None and parse.version(obj) <= known.resource_version:
            return
        what = self._read(obj)
        self._known[key] = _Known(parse.uid(obj), parse.version(obj), what)
        if known is None or known.what != what:
            self._changed(key, known.what if known is not None else None, what)

    def miss(self, obj: parse.Json) -> None:
        """It is said to be deleted; another one of its name stays."""
        known = self._known.get(_key(obj))
        if known is not None and known.uid == parse.uid(obj):
            self._forget(_key(obj))

    def not_found(self, key: Key, version: int | None) -> None:
        """A read found none. What was known before it is gone; what has come since may be newer than the answer."""
        if self.version_of(key) == version:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        if (known := self._known.pop(key, None)) is not None:
            self._changed(key, known.what, None)

    def keep_only(self, found: set[str], kind: str, namespace: str | None, moment: int) -> None:
        """A list of that moment showed these uids; what it should have shown and did not is gone."""
        for key, known in list(self._known.items()):
            in_scope = key[0] == kind and namespace in {None, key[1]}
            if in_scope and known.uid not in found and known.resource_version <= moment:
                self._forget(key)


def found(there: Registry[Definition], task: Task) -> Version | Unregistered | None:
    """What a Task's `definitionRef` leads to, if it has one."""
    ref = task.spec.definition
    if ref is None:
        return None
    definition = there[type_of(ref, task.namespace)]
    if definition is None:
        others = (kind for kind in DefinitionKind if kind is not ref.kind)
        namesakes = (kind for kind in others if there[type_of(replace(ref, kind=kind), task.namespace)])
        return definitions.missing(ref, next(namesakes, None))
    if definition.versions is None:
        return Unregistered(f"the {ref.kind} `{ref.name}` cannot be read")
    return definitions.found(ref, definition.versions, definitions.claimed_with(task.status))


def read_definition(obj: parse.Json) -> Definition:
    try:
        return Definition(parse_spec.versions(obj), obj["spec"].get("maxConcurrent"))
    except parse.UNREADABLE as exc:
        metadata = obj["metadata"]
        told = {"namespace": metadata.get("namespace"), "object": metadata["name"], "why": repr(exc)}
        logger.error("cannot read a definition", extra=told)
        return Definition(None)


def _key(obj: parse.Json) -> Key:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]
