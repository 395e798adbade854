"""What the operator has been told: one entry a Task, and the set of keys that somebody should think about.

A key is the uid of a Task. Watch events, lists and the answers to the operator's own writes all come in by
the same doors (`see_…`), which ignore what is not newer; a write therefore never races its own echo. Nothing
here decides, and nothing here does I/O.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from taskyard.core import definitions, duplicates, manifest, parse, parse_spec
from taskyard.core.choose import Key, Lane, Limits, Queue, lane_of
from taskyard.core.model import Job, Live, Pod, Rival, Snapshot, Task
from taskyard.core.refusals import Denial, Refusal
from taskyard.core.words import ACTIVE_STATES, OnDuplicate, Phase, State
from taskyard.dirty import Dirty
from taskyard.line import Line
from taskyard.registry import Definition, Registry, found, read_definition
from taskyard.relations import Relations
from taskyard.rivals import Rivals
from taskyard.tally import Tally

LATE_PODS: Final = timedelta(seconds=5)
"""What the garbage collector takes, with time to spare, to delete the Job of a Task that is gone."""


def _counts(pod: Pod, task: Task | None) -> bool:
    """Whether a pod is worth remembering: while it lives, and after that as evidence of a run that has no verdict."""
    if pod.is_alive:
        return True
    return task is not None and not task.status.state.is_terminal and pod.attempt >= task.status.attempt


def _is_of(pod: Pod, task: Task | None) -> bool:
    """Whether a pod with the label of a Task is that one's: a label can be put on any pod by anybody.

    One of another namespace is not. Of a Task that nobody knows, one is that its Job has made; with a Job that is not
    there for a controller, no pod stays.
    """
    if task is not None:
        return pod.namespace == task.namespace
    return pod.owner is not None and manifest.may_be_job_name(pod.owner, pod.task_uid, pod.attempt)


@dataclass(slots=True)
class _Entry:
    task: Task | None = None
    pods: tuple[Pod, ...] = ()
    job: Job | None = None
    refusal: Refusal | None = None
    denial: Denial | None = None
    looked_at: datetime | None = None
    vanished: bool = False
    launches_until: datetime | None = None
    """Of a claim whose Task is gone: until then its Job may make a pod, or have made one that nobody has told of."""

    @property
    def is_at_work(self) -> bool:
        """Whether a pod of it may be."""
        return self.launches_until is not None or any(pod.is_alive for pod in self.own_pods())

    def own_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if _is_of(pod, self.task))


class Cache:
    """Every Task that was seen, with the pods, the Job and the answers that belong to it."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self.dirty = Dirty(self._namespace_of)
        self._relations = Relations(self.task, self.dirty.mark)
        self._rivals = Rivals(self.dirty.mark)
        self.line = Line(self.dirty.mark, self.dirty.mark_at_leisure)
        self.tally = Tally()
        self.definitions = Registry(read_definition, self._definition_changed)
        self.new_queues: set[tuple[str, str]] = set()
        """Since somebody last took this away: what was told to one of that name was told to another."""
        self.queues = Registry(parse_spec.queue, self._queue_changed)

    def snapshot(
        self,
        uid: str,
        *,
        claimer: str,
        live: Live | None = None,
        absent: frozenset[str] = frozenset(),
        asked: bool = False,
        rivals: tuple[Rival, ...] | None = None,
        acting_since: datetime | None = None,
        is_shielded: bool = False,
        shield_limit: timedelta | None = None,
    ) -> Snapshot | None:
        """What is known about one Task; None when there is no such Task."""
        entry = self._entries.get(uid)
        if entry is None or entry.task is None:
            return None
        task, definition = entry.task, found(self.definitions, entry.task)
        others = self._relations.dependencies_of(task)
        known = rivals if rivals is not None else self._rivals.of(task)
        if known:
            known = tuple(each for each in known if not self._relations.awaits(each.uid, task, self._in_turn))
            task = replace(task, replaced_by=duplicates.replaced_by(task, known))
        return Snapshot(
            task=definitions.applied(task, definition),
            rivals=known,
            lingering=self._rivals.lingering(task),
            has_seen_rivals=rivals is not None,
            claimer=claimer,
            definition=definition,
            dependencies=others,
            absent=absent,
            cycle=self._relations.circle_of(task),
            is_awaited=self._relations.is_awaited(task),
            asked=asked,
            acting_since=acting_since,
            is_shielded=is_shielded,
            shield_limit=shield_limit,
            pods=entry.own_pods(),
            job=entry.job,
            refusal=entry.refusal,
            denial=entry.denial,
            looked_at=entry.looked_at,
            vanished=entry.vanished,
            live=live,
        )

    def _in_turn(self, task: Task) -> Iterator[str]:
        """Those with its key that it waits for."""
        if task.status.state.phase is Phase.WAITING and task.spec.on_duplicate is not OnDuplicate.SKIP:
            yield from (each.uid for each in duplicates.before(task, self._rivals.of(task)))

    def named(self, namespace: str, name: str) -> Task | None:
        """The Task that has this name now."""
        return self._relations.named(namespace, name)

    def tasks(self) -> Iterator[Task]:
        return (entry.task for entry in self._entries.values() if entry.task is not None)

    def pods(self) -> Iterator[Pod]:
        return (pod for entry in self._entries.values() for pod in entry.pods if not pod.gone)

    def pods_of_active(self) -> Iterator[tuple[Pod, ...]]:
        """For each Task that is claimed or runs, what is known of the pods that are its own."""
        for uid in self.line.holders():
            entry = self._entries.get(uid)
            if entry is not None and entry.task is not None and entry.task.status.state in ACTIVE_STATES:
                yield entry.own_pods()

    def pods_of(self, uid: str) -> tuple[Pod, ...]:
        entry = self._entries.get(uid)
        return tuple(pod for pod in entry.pods if not pod.gone) if entry is not None else ()

    def see_task(self, obj: parse.Json) -> None:
        """A Task as the API server had it at some moment; ignored if a later moment is known."""
        uid = parse.uid(obj)
        known = self._entries.get(uid)
        before = known.task if known is not None else None
        if before is not None and parse.version(obj) <= before.resource_version:
            return
        task = parse.task(obj)
        entry = self._entries.setdefault(uid, _Entry())
        entry.task, entry.launches_until = task, None
        self.tally.see(before, task)
        self._relations.see(before, task)
        self._rivals.see(task)
        if before is not None and before.status.attempt != task.status.attempt:
            entry.job = entry.refusal = entry.looked_at = None
            entry.pods = tuple(pod for pod in entry.pods if _counts(pod, task))
        if task.status.state.is_terminal:
            # A resolved Task is remembered for long, and the evidence of its end is in its status.
            entry.job = entry.refusal = entry.looked_at = None
            entry.pods = tuple(pod for pod in entry.pods if pod.is_alive)
        has_claimed = before is None or before.status.attempt != task.status.attempt
        if has_claimed and task.status.claimed_at is not None:
            self.line.started(uid, lane_of(task, self.line.limits), task.status.claimed_at)
        self._count(uid)
        self.dirty.mark(uid)

    def limit(self, operator: int | None, namespace_weights: Mapping[str, int]) -> None:
        """How many tasks may be at work at once, in all, and how the namespaces share that."""
        limits = replace(self.line.limits, operator=operator, namespace_weights=namespace_weights)
        self.line.limit(limits, ())

    def _queue_changed(self, key: Key, before: Queue | None, now: Queue | None) -> None:
        """All who wait in it, or have a slot of it, are counted anew: what tells its tenants apart may be another."""
        _, *name = key
        self.tally.changed.add((key[1], key[2]))
        if before is None:
            self.new_queues.add((key[1], key[2]))
        queues = {(of, name): queue for (_, of, name), queue in self.queues.all()}
        self._limit(replace(self.line.limits, queues=queues))
        for task in self.tasks():
            has_slot = self.line.lane_of(task.uid) is not None
            if [task.namespace, task.spec.queue] == name and (has_slot or not task.status.state.is_terminal):
                self._count(task.uid)
                self.dirty.mark_at_leisure(task.uid)

    def _definition_changed(self, key: Key, before: Definition | None, now: Definition | None) -> None:
        if (before and before.versions) != (now and now.versions):
            self._relations.tell(key, self.dirty.mark_at_leisure)
        if (before and before.max_concurrent) != (now and now.max_concurrent):
            types = {
                key: each.max_concurrent
                for key, each in self.definitions.all()
                if each.max_concurrent is not None
            }
            self._limit(replace(self.line.limits, types=types))

    def _limit(self, limits: Limits) -> None:
        claimed = ((lane_of(task, limits), task.status.claimed_at) for task in self.tasks())
        self.line.limit(limits, ((lane, at) for lane, at in claimed if at is not None))

    def _count(self, uid: str) -> None:
        """What is at work has a slot, whatever became of its Task: if that is gone, the one it had, or what its pod
        says."""
        entry = self._entries.get(uid)
        task, is_at_work = (entry.task, entry.is_at_work) if entry is not None else (None, False)
        if task is not None and (is_at_work or task.status.state in ACTIVE_STATES):
            self.line.take(uid, lane_of(task, self.line.limits))
        elif entry is not None and is_at_work:
            of_pods = (Lane(pod.namespace, pod.queue) for pod in entry.own_pods() if pod.is_alive)
            if (lane := self.line.lane_of(uid) or next(of_pods, None)) is not None:
                self.line.take(uid, lane)
        else:
            self.line.free(uid)
        if not is_at_work or (task is not None and task.status.state in ACTIVE_STATES):
            self._rivals.rest(uid)
        elif task is not None:
            self._rivals.linger(task)

    def miss_task(self, uid: str) -> None:
        """A hint that a Task is deleted: to be confirmed by a live look."""
        entry = self._entries.get(uid)
        if entry is not None and entry.task is not None:
            entry.vanished = True
            self.dirty.mark(uid)

    def forget_task(self, uid: str, now: datetime) -> None:
        """A live read found no such Task. What of it may be at work keeps its entry, until that is gone too."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        left = _Entry(
            pods=tuple(pod for pod in entry.pods if pod.is_alive), launches_until=entry.launches_until
        )
        self._entries[uid] = left
        if entry.task is not None:
            if entry.task.status.state is State.CLAIMED and not entry.own_pods():
                left.launches_until = now + LATE_PODS
                self.dirty.mark(uid)
            self._relations.forget(entry.task)
            self._rivals.forget(entry.task)
            if left.is_at_work:
                self._rivals.linger(entry.task)
            self.tally.see(entry.task, None)
        self.line.leave(uid)
        self._drop_if_empty(uid)
        self._count(uid)

    def rest_at(self, uid: str, now: datetime) -> datetime | None:
        """Until when a Task that is gone has a slot without a pod; if that time has come, it has none any more."""
        entry = self._entries.get(uid)
        if entry is None or entry.launches_until is None or now < entry.launches_until:
            return entry.launches_until if entry is not None else None
        entry.launches_until = None
        self._drop_if_empty(uid)
        self._count(uid)
        return None

    def see_pod(self, obj: parse.Json) -> None:
        """A pod as the API server had it at some moment; ignored if a later moment is known."""
        pod = parse.pod(obj)
        entry = self._entries.setdefault(pod.task_uid, _Entry())
        known = next((each for each in entry.pods if each.uid == pod.uid), None)
        if known is None or pod.resource_version > known.resource_version:
            self._put_pod(entry, pod)
        elif known.gone and pod.resource_version == known.resource_version:
            self._put_pod(entry, pod)  # said to be gone, and shown again as it was: it was not gone

    def miss_pod(self, pod: Pod, moment: int | None = None) -> None:
        """A hint that a pod is deleted; its last state stays as evidence until the Task is resolved.

        `moment` is the resourceVersion of the list that did not have it: no older sight of it counts.
        """
        entry = self._entries.setdefault(pod.task_uid, _Entry())
        self._put_pod(entry, replace(pod, gone=True, resource_version=moment or pod.resource_version))

    def see_job(self, uid: str, obj: parse.Json) -> None:
        """The Job of a Task's current attempt, or one that has taken its name."""
        entry = self._entries.get(uid)
        job = parse.job(obj)
        if entry is None or entry.task is None or job == entry.job:
            return
        if job.name == manifest.job_name(entry.task):
            entry.job, entry.refusal = job, None
            self.dirty.mark(uid)

    def _namespace_of(self, uid: str) -> str:
        entry = self._entries.get(uid)
        if entry is None:
            return ""
        return entry.task.namespace if entry.task is not None else next((e.namespace for e in entry.pods), "")

    def task(self, uid: str) -> Task | None:
        entry = self._entries.get(uid)
        return entry.task if entry is not None else None

    def miss_job(self, uid: str) -> None:
        """The Job of a Task's current attempt is said to be gone."""
        if uid in self._entries:
            self._entries[uid].job = None
            self.dirty.mark(uid)

    def see_refusal(self, uid: str, refusal: Refusal) -> None:
        """The API server refused the Job of a Task's current attempt."""
        if uid in self._entries:
            self._entries[uid].refusal = refusal
            self.dirty.mark(uid)

    def see_denial(self, uid: str, what: str, message: str, at: datetime) -> None:
        """The API server refused to let something of a Task be ended."""
        if (entry := self._entries.get(uid)) is not None:
            entry.denial = Denial.of(what, message, at, entry.denial)
            self.dirty.mark(uid)

    def found_task(self, uid: str) -> None:
        """A live read found the Task, whatever an event may have said."""
        if uid in self._entries:
            self._entries[uid].vanished = False

    def looked(self, uid: str, at: datetime) -> None:
        """Everything about the Task was read live."""
        if uid in self._entries:
            self._entries[uid].looked_at = at

    def _put_pod(self, entry: _Entry, pod: Pod) -> None:
        before = entry.pods
        others = tuple(known for known in entry.pods if known.uid != pod.uid)
        entry.pods = (*others, pod) if _counts(pod, entry.task) else others
        self._drop_if_empty(pod.task_uid)
        if entry.pods != before:
            self._count(pod.task_uid)
            self.dirty.mark(pod.task_uid)

    def _drop_if_empty(self, uid: str) -> None:
        entry = self._entries[uid]
        if entry.task is None and not entry.pods and entry.launches_until is None:
            del self._entries[uid]
