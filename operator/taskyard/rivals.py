"""Tasks with an `idempotencyKey` in common, kept in their order: nobody looks at all of them to know whose turn it is.

What one of them may do follows from few others: those at work, the first that waits, the last that replaces those
before it, one that has completed, and one whose pod lingers. And news means something to few: to whoever waits first,
and, of one that replaces others, to those before it. All this is kept here; what it means is said in
`core.duplicates`.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from taskyard.core import duplicates
from taskyard.core.model import Rival, Task

_Key = tuple[str, str]
"""Namespace and `idempotencyKey`."""

_Place = tuple[duplicates.Order, Rival]

_ORDER: Final = itemgetter(0)


@dataclass(slots=True)
class _Group:
    """All with one key that mean something to the others: nobody waits for one that has failed."""

    waiting: list[_Place] = field(default_factory=list)
    """Those that may still run and are not at work, in their order."""
    replacing: list[_Place] = field(default_factory=list)
    """Those of them that replace others."""
    at_work: dict[str, Rival] = field(default_factory=dict)
    completed: dict[str, Rival] = field(default_factory=dict)
    lingering: dict[str, str] = field(default_factory=dict)
    """The names of those that wait, are resolved or gone, and may have a pod at work."""

    @property
    def first(self) -> str | None:
        """Who waits for nobody but those at work."""
        return self.waiting[0][1].uid if self.waiting else None

    @property
    def last(self) -> duplicates.Order | None:
        """All before it are replaced."""
        at_work = (duplicates.order(each) for each in self.at_work.values() if each.replaces)
        return max((*at_work, *map(_ORDER, self.replacing[-1:])), default=None)

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.at_work or self.completed or self.lingering)

    def put(self, rival: Rival) -> None:
        if duplicates.is_at_work(rival):
            self.at_work[rival.uid] = rival
        elif duplicates.is_open(rival):
            place = duplicates.order(rival), rival
            insort(self.waiting, place, key=_ORDER)
            if rival.replaces:
                insort(self.replacing, place, key=_ORDER)
        else:
            self.completed[rival.uid] = rival

    def remove(self, rival: Rival) -> None:
        self.at_work.pop(rival.uid, None)
        self.completed.pop(rival.uid, None)
        order = duplicates.order(rival)
        for places in (self.waiting, self.replacing):
            at = bisect_left(places, order, key=_ORDER)
            if at < len(places) and places[at][0] == order:
                del places[at]

    def told(self, uid: str) -> Iterator[Rival]:
        """Those that decide what this one may do."""
        yield from (each for each in self.at_work.values() if each.uid != uid)
        for places in (self.waiting, reversed(self.replacing)):
            others = (each for _, each in places if each.uid != uid)
            yield from _first_of(others)
        yield from _first_of(each for each in self.completed.values() if each.uid != uid)


class Rivals:
    """Every Task with an `idempotencyKey`. `mark`: this one is to think again."""

    def __init__(self, mark: Callable[[str], None]) -> None:
        self._mark = mark
        self._groups: dict[_Key, _Group] = {}
        self._known: dict[str, Rival] = {}
        """As they stand in their group."""
        self._lingering: dict[str, _Key] = {}

    def see(self, task: Task) -> None:
        """A Task as it is now."""
        if (key := _key_of(task)) is not None:
            rival = duplicates.as_rival(task)
            matters = duplicates.is_open(rival) or duplicates.has_completed(rival)
            self._put(key, task.uid, rival if matters else None)

    def forget(self, task: Task) -> None:
        """There is no such Task any more."""
        if (key := _key_of(task)) is not None:
            self._put(key, task.uid, None)

    def linger(self, task: Task) -> None:
        """It is neither claimed nor runs, and a pod of it may be at work."""
        key = _key_of(task)
        if key is not None and task.uid not in self._lingering:
            self._lingering[task.uid] = key
            self._groups.setdefault(key, _Group()).lingering[task.uid] = task.name
            self._tell_first(key)

    def rest(self, uid: str) -> None:
        """No pod of it is at work beside its claim or run."""
        if (key := self._lingering.pop(uid, None)) is not None:
            del self._groups[key].lingering[uid]
            self._tell_first(key)

    def of(self, task: Task) -> tuple[Rival, ...]:
        """Those others with its key that decide what it may do. One that is resolved asks for none."""
        group = self._group_of(task)
        return tuple({each.uid: each for each in group.told(task.uid)}.values()) if group is not None else ()

    def lingering(self, task: Task) -> str | None:
        """The name of another with its key that neither is claimed nor runs, and may have a pod at work."""
        group = self._group_of(task)
        names = group.lingering.items() if group is not None else ()
        return next((name for uid, name in names if uid != task.uid), None)

    def _group_of(self, task: Task) -> _Group | None:
        key = _key_of(task)
        return self._groups.get(key) if key is not None and not task.status.state.is_terminal else None

    def _put(self, key: _Key, uid: str, rival: Rival | None) -> None:
        before = self._known.get(uid)
        if rival == before:
            return
        group = self._groups.setdefault(key, _Group())
        first, last = group.first, group.last
        if before is not None:
            group.remove(before)
            del self._known[uid]
        if rival is not None:
            group.put(rival)
            self._known[uid] = rival
        if first is not None and first != group.first:
            self._mark(first)
        if group.last is not None and (last is None or last < group.last):
            self._tell_those_before(group, group.last)
        self._tell_first(key)

    def _tell_first(self, key: _Key) -> None:
        group = self._groups[key]
        if group.first is not None:
            self._mark(group.first)
        if group.is_empty:
            del self._groups[key]

    def _tell_those_before(self, group: _Group, order: duplicates.Order) -> None:
        for _, each in group.waiting[: bisect_left(group.waiting, order, key=_ORDER)]:
            self._mark(each.uid)
        for uid in group.at_work:
            self._mark(uid)


def _first_of(rivals: Iterator[Rival]) -> Iterator[Rival]:
    if (first := next(rivals, None)) is not None:
        yield first


def _key_of(task: Task) -> _Key | None:
    key = task.spec.idempotency_key
    return (task.namespace, key) if key is not None else None
