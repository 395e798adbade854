"""Who waits for whom, among Tasks: kept as they come and go, so that no news makes anybody look at all of them.

It is told of every Task that enters the cache, and knows names, ends and circles. It decides nothing: what an end means
to those that wait is said in `core.dependencies`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from taskyard.core import circles, dependencies
from taskyard.core.choose import Key
from taskyard.core.model import Dependency, Task
from taskyard.registry import Listeners, key_of_task, listens_to, tasks_of

FAR_ENOUGH: Final = 1000
"""Tasks, from one to those that it waits for, and so on, until a search is given up."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """The end of a Task that is gone, and those that have waited for it and have not put it on record yet."""

    end: Dependency
    owed_to: frozenset[str]


@dataclass(slots=True, eq=False)
class _Found:
    """A circle of uids, as long as it is one, and those in it that are not resolved yet."""

    circle: circles.Circle
    open: set[str]


class Relations:
    """What the cache knows of Tasks beside each other. `mark`: this one is to think again."""

    def __init__(self, task_of: Callable[[str], Task | None], mark: Callable[[str], None]) -> None:
        self._task_of = task_of
        self._mark = mark
        self._uids: dict[tuple[str, str], str] = {}
        """Of the Task that has a name now."""
        self._listeners = Listeners()
        self._ended: dict[Key, _Ended] = {}
        self._left = Listeners()
        """By the uid of a Task, those that ended because they form a circle, and waited for it."""
        self._circles: dict[str, _Found] = {}
        """For each Task of a circle, until all of them are resolved."""
        self._unsearched: dict[str, None] = {}
        """Tasks that have begun to wait for others, and may have closed a circle; in that order."""

    def named(self, namespace: str, name: str) -> Task | None:
        """The Task that has this name now."""
        return self._task_of(self._uids.get((namespace, name), ""))

    def tell(self, key: Key, mark: Callable[[str], None]) -> None:
        """There is news of this object, for those that name it."""
        for uid in self._listeners.of(key):
            mark(uid)

    def see(self, before: Task | None, task: Task) -> None:
        """A Task as it is now; those that wait for it think again when it matters to them."""
        listened = listens_to(before) if before is not None else frozenset[Key]()
        listens = listens_to(task)
        if listened or listens:
            self._listen(task, listened, listens)
        if before is not None and task.uid in self._circles:
            self._see_in_circle(before, task)
        if tasks_of(listens - listened):
            # As a new one, by a rerun, or by an edit. Whoever does so last closes a circle: nobody else has to look.
            self._unsearched[task.uid] = None
        self._left.move(task.uid, _left_by(before), _left_by(task))
        name = task.namespace, task.name
        if before is None:
            namesake = self.named(*name)
            if namesake is not None and namesake.resource_version > task.resource_version:
                return
            if namesake is not None:
                self._keep_end(namesake)
                self._break_circle(namesake.uid)
            self._uids[name] = task.uid
        if before is None or dependencies.as_seen(before) != dependencies.as_seen(task):
            self.tell(key_of_task(*name), self._mark)

    def forget(self, task: Task) -> None:
        """There is no such Task any more."""
        self._listen(task, listens_to(task), frozenset())
        self._left.move(task.uid, _left_by(task), frozenset())
        self._break_circle(task.uid)
        self._unsearched.pop(task.uid, None)
        if self._uids.get((task.namespace, task.name)) == task.uid:
            del self._uids[task.namespace, task.name]
            self._keep_end(task)
            self.tell(key_of_task(task.namespace, task.name), self._mark)

    def dependencies_of(self, task: Task) -> tuple[Dependency, ...]:
        """What is there now of those that a Task waits for, or is to wait for again."""
        if task.status.state.is_terminal and task.spec.rerun <= task.status.observed_rerun:
            return ()
        found = (self._dependency(task, name) for name in task.spec.dependencies)
        return tuple(each for each in found if each is not None)

    def is_awaited(self, task: Task) -> bool:
        """Whether somebody waits for this Task, and has not put its end on record yet."""
        return task.status.state.is_terminal and bool(self._owed(task))

    def awaits(self, uid: str, task: Task, in_turn: Callable[[Task], Iterable[str]]) -> bool:
        """Whether one waits for this Task in the end, by dependencies or for its turn among those with its key.

        What cannot be found out soon enough is not so.
        """
        if not self._listeners.of(key_of_task(task.namespace, task.name)):
            return False
        found, look_at = {uid}, [uid]
        while look_at and len(found) < FAR_ENOUGH:
            uid = look_at.pop()
            waiting = self._task_of(uid)
            before = in_turn(waiting) if waiting is not None else ()
            others = {*self._leads_to(uid), *before} - found
            if task.uid in others:
                return True
            found |= others
            look_at += others
        return False

    def circle_of(self, task: Task) -> tuple[str | int, ...]:
        """The circle that a Task is in, by names, if it waits for itself in the end."""
        if task.uid in self._unsearched:
            self._search()
        found = self._circles.get(task.uid)
        if found is None or task.uid not in found.open:
            return ()
        return tuple(self._name_of(each) for each in found.circle.told_by(task.uid))

    def _name_of(self, each: str | int) -> str | int:
        task = self._task_of(each) if isinstance(each, str) else None
        return task.name if task is not None else each

    def _search(self) -> None:
        """Look for the circles of all that have begun to wait, and tell all that are in one.

        All at once, so that nobody is looked at twice: after an absence everybody has begun to wait.
        """
        starts = [uid for uid in self._unsearched if self._may_be_in_circle(uid)]
        self._unsearched.clear()
        for circle in circles.find(starts, self._leads_to):
            waiting = [uid for uid in circle.members if self._is_waiting(uid)]
            found = _Found(circle, set(waiting))
            for uid in circle.members if waiting else ():
                self._circles[uid] = found
            for uid in waiting:
                self._mark(uid)

    def _may_be_in_circle(self, uid: str) -> bool:
        """No circle goes through a Task that nobody waits for: of those that come in order, none is looked at."""
        task = self._task_of(uid)
        if task is None:
            return False
        keys = key_of_task(task.namespace, task.name), key_of_task(task.namespace, uid)
        return bool(self._listeners.of(keys[0])) or bool(self._left.of(keys[1]))

    def _leads_to(self, uid: str) -> Iterable[str]:
        task = self._task_of(uid)
        if task is None:
            return ()
        others = dependencies.leads_to(task, lambda name: self.named(task.namespace, name))
        return (other.uid for other in others)

    def _is_waiting(self, uid: str) -> bool:
        task = self._task_of(uid)
        return task is not None and not task.status.state.is_terminal

    def _see_in_circle(self, before: Task, task: Task) -> None:
        """It has ended because of the circle, which stays one for the others; or it may be none any more."""
        found = self._circles[task.uid]
        if dependencies.gave_up(task):
            found.open.discard(task.uid)
            is_over = not found.open
        else:
            waited_for, waits_for = (list(dependencies.waits_for(each)) for each in (before, task))
            is_over = bool(dependencies.gave_up(before)) or waited_for != waits_for
        if is_over:
            self._break_circle(task.uid)

    def _break_circle(self, uid: str) -> None:
        """Whoever is left of it may be in another one."""
        found = self._circles.get(uid)
        for each in found.circle.members if found is not None else ():
            if self._circles.get(each) is found:
                del self._circles[each]
                if self._is_waiting(each):
                    self._unsearched[each] = None

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


def _left_by(task: Task | None) -> frozenset[Key]:
    """Whom it waited for when it ended in a circle, by their uids."""
    left = dependencies.gave_up(task) if task is not None else ()
    return frozenset(key_of_task(task.namespace, each.uid) for each in left if task and each.uid)
