"""How many tasks there are in each state, by queue and type: counted as they change, so that nobody counts them all.

What happens to them (claims, ends) is told to whoever listens, once, as this operator sees it happen.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from taskyard.core.choose import QueueKey
from taskyard.core.model import Task
from taskyard.core.words import DefinitionKind, State

WINDOW_MINUTES: Final = 5

STALE: Final = 1000
"""Entries of a heap that are no news any more, beside those that are."""

A_MINUTE: Final = timedelta(minutes=1)

Sort = tuple[str, str, str]
"""Tasks are counted by namespace, queue, and the name of their type (none: empty)."""


class Listener(Protocol):
    """Told of what happens, not of what is found at the start."""

    def claimed(self, task: Task, waited: timedelta) -> None: ...

    def ended(self, task: Task, ran: timedelta | None) -> None: ...

    def there_are(self, found: Set[Sort], now: datetime) -> None:
        """Told once a minute: the sorts of which there are Tasks."""


@dataclass(slots=True)
class _Queue:
    counts: Counter[tuple[str, State]] = field(default_factory=Counter)
    """By the name of the type (none: empty) and state."""
    pending: list[tuple[datetime, str]] = field(default_factory=list)
    """A heap of those that were Pending, since when; those that are not any more go when they come first."""
    minutes: Counter[datetime] = field(default_factory=Counter)
    """How many ended in each minute; what is older than the window goes when the next minute begins."""


class Tally:
    """Counts of all Tasks in the cache."""

    def __init__(self) -> None:
        self._queues = defaultdict[QueueKey, _Queue](_Queue)
        self._pending_since: dict[str, datetime] = {}
        self.changed: set[QueueKey] = set()
        """Queues whose counts are others than when somebody last took this away."""
        self.listeners: list[Listener] = []

    def see(self, before: Task | None, task: Task | None) -> None:
        """A Task is another one than before; or it is new, or gone."""
        old, new = _mark(before), _mark(task)
        if old != new:
            if before is not None and old is not None:
                self._add(before, old, -1)
            if task is not None and new is not None:
                self._add(task, new, +1)
        if before is not None and task is not None:
            self._tell(before, task)
        elif task is not None:
            self._note_end(task)  # it ended before this operator knew of it, perhaps a moment ago
        if task is not None:
            self._note_pending(task)
        elif before is not None:
            self._pending_since.pop(before.uid, None)

    def count(self, queue: QueueKey) -> Counter[State]:
        found = Counter[State]()
        if queue in self._queues:
            for (_, state), number in self._queues[queue].counts.items():
                found[state] += number
        return found

    def all(self) -> Iterator[tuple[QueueKey, str, State, int]]:
        """Queue, type, state, and how many."""
        for key, queue in self._queues.items():
            for (kind, state), number in queue.counts.items():
                yield key, kind, state, number

    def oldest_pending(self, queue: QueueKey) -> datetime | None:
        """Since when the one that waits longest waits for its turn."""
        heap = self._queues[queue].pending if queue in self._queues else []
        while heap and self._pending_since.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def ended_lately(self, queue: QueueKey, now: datetime) -> int:
        """How many ended in the last minutes, whole ones and the one that has begun."""
        minutes = self._queues[queue].minutes if queue in self._queues else {}
        return sum(number for minute, number in minutes.items() if minute >= _window(now))

    def a_minute_has_passed(self, now: datetime) -> None:
        """What ended lately may be another number now; and queues in which nothing is left are forgotten."""
        for key, queue in list(self._queues.items()):
            for minute in [each for each in queue.minutes if each < _window(now)]:
                del queue.minutes[minute]
                self.changed.add(key)
            if not queue.counts and not queue.minutes:
                del self._queues[key]
        found = {(*key, kind) for key, kind, _, _ in self.all()}
        for each in self.listeners:
            each.there_are(found, now)

    def queues(self) -> Iterable[QueueKey]:
        return self._queues.keys()

    def _add(self, task: Task, mark: tuple[str, State], number: int) -> None:
        key = task.namespace, task.spec.queue
        counts = self._queues[key].counts
        counts[mark] += number
        if not counts[mark]:
            del counts[mark]
        self.changed.add(key)

    def _note_pending(self, task: Task) -> None:
        since = task.status.enqueued_at if task.status.state is State.PENDING else None
        if self._pending_since.get(task.uid) == since:
            return
        self.changed.add((task.namespace, task.spec.queue))
        if since is None:
            self._pending_since.pop(task.uid, None)
            return
        self._pending_since[task.uid] = since
        queue = self._queues[task.namespace, task.spec.queue]
        heapq.heappush(queue.pending, (since, task.uid))
        if len(queue.pending) > STALE + 2 * len(self._pending_since):
            queue.pending = [each for each in queue.pending if self._pending_since.get(each[1]) == each[0]]
            heapq.heapify(queue.pending)

    def _tell(self, before: Task, task: Task) -> None:
        was, now = before.status, task.status
        if now.attempt > was.attempt and now.claimed_at is not None and now.enqueued_at is not None:
            for each in self.listeners:
                each.claimed(task, now.claimed_at - now.enqueued_at)
        if now.state.is_terminal and not was.state.is_terminal and now.completed_at is not None:
            self._note_end(task)
            ran = now.completed_at - now.started_at if now.started_at is not None else None
            for each in self.listeners:
                each.ended(task, ran)

    def _note_end(self, task: Task) -> None:
        at = task.status.completed_at
        if task.status.state.is_terminal and at is not None:
            self._queues[task.namespace, task.spec.queue].minutes[_minute(at)] += 1


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _window(now: datetime) -> datetime:
    """Since when an end counts as one of late."""
    return _minute(now) - WINDOW_MINUTES * A_MINUTE


def type_of(task: Task) -> str:
    """What its definition is called; one for all namespaces may have the name of another one."""
    ref = task.spec.definition
    if ref is None:
        return ""
    return f"{ref.kind}/{ref.name}" if ref.kind is DefinitionKind.CLUSTER_TASK_DEFINITION else ref.name


def _mark(task: Task | None) -> tuple[str, State] | None:
    return (type_of(task), task.status.state) if task is not None else None
