"""Who waits for whom, among Tasks: kept as they come and go, so that no news makes anybody look at all of them.

It is told of every Task that enters the cache, and knows names, ends and circles. It decides nothing: what an end means
to those that wait is said in `core.dependencies`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from taskyard.core import dependencies
from taskyard.core.choose import Key
from taskyard.core.model import Dependency, Task
from taskyard.registry import Listeners, key_of_task, listens_to, tasks_of

_Circle = tuple[tuple[str, str], ...]
"""Names and uids, each waiting for the next, the last one the first."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of a Task that is gone, and those that have waited for it and have not put it on record yet."""

    end: Dependency
    owed_to: frozenset[str]


class Relations:
    """What the cache knows of Tasks beside each other. `mark`: this one is to think again."""

    def __init__(self, task_of: Callable[[str], Task | None], mark: Callable[[str], None]) -> None:
        self._task_of = task_of
        self._mark = mark
        self._uids: dict[tuple[str, str], str] = {}
        """Of the Task that has a name now."""
        self._listeners = Listeners()
        self._ended: dict[Key, _Ended] = {}
        self._circles: dict[str, _Circle] = {}
        """For each Task of a circle that was found: when the first of them is resolved, nobody finds it any more."""
        self._unsearched: set[str] = set()
        """Tasks that have begun to wait for others, and may have closed a circle."""

    def named(self, namespace: str, name: str) -> Task | None:
        """The Task that has this name now."""
        return self._task_of(self._uids.get((namespace, name), ""))

    def tell(self, key: Key) -> None:
        """There is news of this object."""
        for uid in self._listeners.of(key):
            self._mark(uid)

    def see(self, before: Task | None, task: Task) -> None:
        """A Task as it is now; those that wait for it think again when it matters to them."""
        listened = listens_to(before) if before is not None else frozenset[Key]()
        listens = listens_to(task)
        if listened or listens:
            self._listen(task, listened, listens)
        if listens and _has_begun_to_wait(before, task, listens - listened):
            self._unsearched.add(task.uid)
        if task.status.state.is_terminal:
            self._unsearched.discard(task.uid)
            self._circles.pop(task.uid, None)
        name = task.namespace, task.name
        if before is None:
            namesake = self.named(*name)
            if namesake is not None and namesake.resource_version > task.resource_version:
                return
            if namesake is not None:
                self._keep_end(namesake)
            self._uids[name] = task.uid
        if before is None or dependencies.as_seen(before) != dependencies.as_seen(task):
            self.tell(key_of_task(*name))

    def forget(self, task: Task) -> None:
        """There is no such Task any more."""
        self._listen(task, listens_to(task), frozenset())
        self._unsearched.discard(task.uid)
        self._circles.pop(task.uid, None)
        if self._uids.get((task.namespace, task.name)) == task.uid:
            del self._uids[task.namespace, task.name]
            self._keep_end(task)
            self.tell(key_of_task(task.namespace, task.name))

    def dependencies_of(self, task: Task) -> tuple[Dependency, ...]:
        """What is there now of those that a Task waits for."""
        if task.status.state.is_terminal:
            return ()
        found = (self._dependency(task, name) for name in task.spec.dependencies)
        return tuple(each for each in found if each is not None)

    def is_awaited(self, task: Task) -> bool:
        """Whether somebody waits for this Task, and has not put its end on record yet."""
        return task.status.state.is_terminal and bool(self._owed(task))

    def circle_of(self, task: Task, there: Iterable[Dependency]) -> tuple[str, ...]:
        """The circle that a Task is in, by names, if it waits for itself in the end."""
        if task.uid in self._circles:
            if self._is_circle(task.namespace, self._circles[task.uid]):
                return tuple(name for name, _ in self._circles[task.uid])
            del self._circles[task.uid]
        if task.uid not in self._unsearched or task.spec.suspend or all(each.state for each in there):
            return ()
        self._unsearched.discard(task.uid)
        # No circle goes through a Task that nobody waits for: of those that come in order, none is searched for one.
        if not self._listeners.of(key_of_task(task.namespace, task.name)):
            return ()
        return self._search(task)

    def _search(self, task: Task) -> tuple[str, ...]:
        """Look for circles, and tell all that are in one: each is to think of it, from its own place in it."""

        def waits_for(name: str) -> Iterable[str]:
            other = self.named(task.namespace, name)
            return dependencies.waits_for(other) if other is not None else ()

        found = dependencies.circles(task.name, waits_for)
        for name, way in found.items():
            uid = self._uids[task.namespace, name]
            self._circles[uid] = tuple((each, self._uids[task.namespace, each]) for each in way)
            self._mark(uid)
        return found.get(task.name, ())

    def _is_circle(self, namespace: str, circle: _Circle) -> bool:
        """Whether it still is one: each is the Task that it was, and waits for the next, or had to give up."""
        for (name, uid), (other, _) in pairwise(circle):
            task = self._task_of(uid)
            is_itself = self._uids.get((namespace, name)) == uid
            if not is_itself or task is None or not dependencies.is_stuck(task, other):
                return False
        return True

    def _listen(self, task: Task, before: frozenset[Key], after: frozenset[Key]) -> None:
        self._listeners.move(task.uid, before, after)
        for key in tasks_of(before):
            ended = self._ended.get(key)
            if ended is not None and (key not in after or dependencies.has_on_record(task, ended.end)):
                self._settle(key, ended, task.uid)

    def _settle(self, key: Key, ended: _Ended, uid: str) -> None:
        """One of those that an end was kept for needs it no more."""
        owed_to = ended.owed_to - {uid}
        if owed_to:
            self._ended[key] = replace(ended, owed_to=owed_to)
        else:
            del self._ended[key]

    def _keep_end(self, task: Task) -> None:
        """It had come to its end when it went: for those that waited then, and have not heard of it."""
        if task.status.state.is_terminal and (owed_to := self._owed(task)):
            key = key_of_task(task.namespace, task.name)
            self._ended[key] = _Ended(dependencies.as_seen(task), owed_to)

    def _owed(self, task: Task) -> frozenset[str]:
        uids = self._listeners.of(key_of_task(task.namespace, task.name))
        waiting = ((uid, self._task_of(uid)) for uid in uids)
        return frozenset(
            uid for uid, each in waiting if each is not None and not dependencies.released_by(each, task)
        )

    def _dependency(self, task: Task, name: str) -> Dependency | None:
        """What has that name now; but who waited when one ended as it must has that end, whoever came after it."""
        there = self.named(task.namespace, name)
        ended = self._ended.get(key_of_task(task.namespace, name))
        known = ended.end if ended is not None and task.uid in ended.owed_to else None
        if there is None or (known is not None and dependencies.is_met(known, task.spec.requires)):
            return known
        return dependencies.as_seen(there)


def _has_begun_to_wait(before: Task | None, task: Task, news: frozenset[Key]) -> bool:
    """As a new one, by a rerun, or by an edit. Whoever does so last closes a circle: nobody else has to look.

    One that is shown to a new operator, and has waited before, was looked at by the old one.
    """
    if before is None:
        return bool(tasks_of(news)) and not dependencies.has_waited(task)
    return bool(tasks_of(news)) or (before.spec.suspend and not task.spec.suspend)
