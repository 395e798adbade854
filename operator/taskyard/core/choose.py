"""Who goes next: which of the waiting tasks may be claimed now. Pure, as `decide` is, and it writes nothing.

Tasks wait in lanes. All tasks of a lane take the same slots (of their queue, their tenant, their type, the operator),
so what holds the first of them holds all: no choice looks at more than the first of each lane, however many wait.

Between lanes it goes by turns, three times over: between namespaces, between the queues of a namespace, and between
the tenants of a queue. Each time whoever went least often goes first, by its weight. Slots are compared where they
are short: the last one that is left, of the operator or of a queue, goes to nobody who has its share of them already,
while there is somebody who has not. Anywhere else it does not matter who has how many: a long task takes nothing from
those who wait for a rate, or for a type. Within a tenant the rank decides: see `rank`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from taskyard.core.model import Task
from taskyard.core.rate import Rate, next_start
from taskyard.core.shares import Shares
from taskyard.core.spec import DefinitionRef
from taskyard.core.turns import Group, Rank, Turn
from taskyard.core.words import DefinitionKind, Reason

DEFAULT_QUEUE: Final = "default"
"""Is there without an object."""

AGEING: Final = timedelta(seconds=60)
"""How long a task waits, where its queue does not say, to make up for one point of priority."""

AT_ONCE: Final = 64
"""How many are chosen in one step: many thousands, let go together, are not to hold up everybody else."""

CREDIT: Final = 1.0
"""So many turns may somebody be behind the others, and make up for it. Whoever has its share of slots, and lets others
go first, loses no turn by that; and whoever rested, or was held for long, does not go alone for as long."""

Place = tuple[Rank, str]
QueueKey = tuple[str, str]
"""Namespace and name."""

Key = tuple[str, str, str]
Scope = tuple[str, ...]
"""What has slots: `("queue", namespace, name)` and the like."""

OPERATOR: Final[Scope] = ("operator",)


@dataclass(frozen=True, slots=True)
class Queue:
    """What a TaskQueue asks for. The one without an object asks for nothing."""

    max_concurrent: int | None = None
    is_paused: bool = False
    rate: Rate | None = None
    max_priority: int | None = None
    ageing: timedelta | None = AGEING
    share_label: str | None = None
    """The label of a Task whose value tells the tenants apart."""
    weights: Mapping[str, int] = field(default_factory=dict)
    max_per_share: int | None = None


class Lane(NamedTuple):
    """What a task takes a slot of."""

    namespace: str
    queue: str
    share: str = ""
    type: Key | None = None

    @property
    def queue_key(self) -> QueueKey:
        return self.namespace, self.queue

    @property
    def of_namespace(self) -> Scope:
        return "namespace", self.namespace

    @property
    def of_queue(self) -> Scope:
        return "queue", self.namespace, self.queue

    @property
    def of_share(self) -> Scope:
        return "share", self.namespace, self.queue, self.share

    @property
    def of_type(self) -> Scope | None:
        return ("type", *self.type) if self.type is not None else None

    @property
    def scopes(self) -> tuple[Scope, ...]:
        of_type = self.of_type
        own = (OPERATOR, self.of_namespace, self.of_queue, self.of_share)
        return (*own, of_type) if of_type is not None else own


@dataclass(frozen=True, slots=True)
class Limits:
    """All that bounds how many tasks are at work; what is absent does not limit."""

    queues: Mapping[tuple[str, str], Queue] = field(default_factory=dict)
    types: Mapping[Key, int] = field(default_factory=dict)
    operator: int | None = None
    namespace_weights: Mapping[str, int] = field(default_factory=dict)

    def queue(self, lane: Lane) -> Queue | None:
        found = self.queues.get(lane.queue_key)
        return _NO_LIMITS if found is None and lane.queue == DEFAULT_QUEUE else found

    def window(self, key: QueueKey) -> timedelta:
        """How long the rate of a queue looks back; not at all where it has none."""
        queue = self.queues.get(key)
        return queue.rate.window if queue is not None and queue.rate is not None else timedelta()

    def weights(self, group: Scope, lanes: Sequence[Lane]) -> dict[Scope, int]:
        """Who takes turns for these lanes in their group, and the weight of each there."""
        match group[0]:
            case "operator":
                return {each.of_namespace: self.namespace_weights.get(each.namespace, 1) for each in lanes}
            case "namespace":
                return {each.of_queue: 1 for each in lanes}
            case _:
                queue = self.queue(lanes[0])
                weights = queue.weights if queue is not None else {}
                return {each.of_share: weights.get(each.share, 1) for each in lanes}

    def of(self, scope: Scope, lane: Lane) -> int | None:
        """How many slots there are of one of the scopes of this lane."""
        match scope[0]:
            case "operator":
                return self.operator
            case "queue":
                queue = self.queue(lane)
                return queue.max_concurrent if queue is not None else None
            case "share":
                queue = self.queue(lane)
                return queue.max_per_share if queue is not None else None
            case "type":
                return self.types.get(lane.type) if lane.type is not None else None
            case _:
                return None


_NO_LIMITS: Final = Queue()


@dataclass(frozen=True, slots=True)
class Used:
    """Who has slots, who went how lately, and when tasks of a queue were started within its window."""

    slots: Mapping[Scope, int] = field(default_factory=dict)
    turns: Mapping[Scope, float] = field(default_factory=dict)
    """How often somebody went, by its weight. Nobody counts as more than a turn behind the others."""
    starts: Mapping[tuple[str, str], Sequence[datetime]] = field(default_factory=dict)
    """The latest last."""
    going: Mapping[QueueKey, int] = field(default_factory=dict)
    """Who was chosen in each queue and has not started yet: it may any moment."""


def lane_of(task: Task, limits: Limits) -> Lane:
    """What this task takes slots of."""
    queue, ref = limits.queues.get((task.namespace, task.spec.queue)), task.spec.definition
    label = queue.share_label if queue is not None else None
    return Lane(
        task.namespace,
        task.spec.queue,
        task.labels.get(label, "") if label is not None else "",
        type_of(ref, task.namespace) if ref is not None else None,
    )


def type_of(ref: DefinitionRef, namespace: str) -> Key:
    """What a reference names: kind, namespace (none, where it is for all of them) and name."""
    is_of_all = ref.kind is DefinitionKind.CLUSTER_TASK_DEFINITION
    return ref.kind, "" if is_of_all else namespace, ref.name


def rank(queue: Queue, priority: int, eligible_since: datetime, uid: str) -> Rank:
    """The place of a task among those of its tenant; the least goes first. It does not change while the task waits.

    With ageing a point of priority is worth so much time in the queue: both grow old alike, so that one comes
    before the other for as long as they wait.
    """
    if queue.max_priority is not None:
        priority = min(priority, queue.max_priority)
    since = eligible_since.timestamp()
    if queue.ageing is None:
        return -priority, since, uid
    return since - priority * queue.ageing.total_seconds(), since, uid


def choose(
    waiting: Mapping[Lane, Sequence[Place]], used: Used, limits: Limits, now: datetime, most: int = AT_ONCE
) -> tuple[tuple[str, ...], dict[Scope, float]]:
    """Those that may go now, in their order, as many as there are slots for; and how many turns they have had then.

    Each lane is sorted by rank. No more than `most` at once: if there are so many, there may be more.
    """
    race, chosen = Race(used, limits, now), list[str]()
    contest = _contest(race, waiting)
    while len(chosen) < most and contest.turn() is not None:
        chosen.append(contest.go())
    return tuple(chosen), race.turns


class Race:
    """What is used, and what has been chosen on top of it."""

    def __init__(self, used: Used, limits: Limits, now: datetime) -> None:
        self._used = used
        self._limits = limits
        self._now = now
        self._more = defaultdict[Scope, int](int)
        self.turns: dict[Scope, float] = {}
        self._tenancies: dict[QueueKey, tuple[Queue, bool, float]] = {}
        self._rivals: Mapping[Scope, Sequence[Lane]] = {}
        self._shares: dict[Scope, Shares[Scope]] = {}

    def start(self, lane: Lane) -> None:
        """One of this lane goes."""
        self._tenancies.clear()
        self._shares.clear()
        for scope in lane.scopes:
            self._more[scope] += 1
        for group in (OPERATOR, lane.of_namespace, lane.of_queue):
            [(scope, weight)] = self._limits.weights(group, [lane]).items()
            now_at = self._went(scope, group)
            self.turns[_clock(group)] = max(now_at, self._turn_of(_clock(group)))
            self.turns[scope] = now_at + 1 / weight

    def is_open(self, lane: Lane) -> bool:
        return next(self.closed_by(lane), None) is None

    def closed_by(self, lane: Lane) -> Iterator[Reason]:
        """Why none of this lane may go, the nearest reason first."""
        queue = self._limits.queue(lane)
        if queue is None:
            yield Reason.QUEUE_NOT_FOUND
            return
        if queue.is_paused:
            yield Reason.QUEUE_PAUSED
        if self._is_full(lane.of_queue, lane):
            yield Reason.QUEUE_LIMIT
        if self._is_full(lane.of_share, lane):
            yield Reason.KEY_LIMIT
        if self.next_start(lane) is not None:
            yield Reason.RATE_LIMIT
        if (of_type := lane.of_type) is not None and self._is_full(of_type, lane):
            yield Reason.TYPE_LIMIT
        if self._is_full(OPERATOR, lane):
            yield Reason.OPERATOR_LIMIT

    def has_room(self, scope: Scope, lane: Lane) -> bool:
        """Whether one of the scopes of this lane keeps nobody from going."""
        if scope == lane.of_queue:
            queue = self._limits.queue(lane)
            if queue is None or queue.is_paused or self.next_start(lane) is not None:
                return False
        return not self._is_full(scope, lane)

    def _is_full(self, scope: Scope, lane: Lane, but_for: int = 0) -> bool:
        most = self._limits.of(scope, lane)
        return most is not None and self.slots(scope) + but_for >= most

    def slots(self, scope: Scope) -> int:
        return self._used.slots.get(scope, 0) + self._more.get(scope, 0)

    def next_start(self, lane: Lane, ahead: int = 0) -> datetime | None:
        """When the rate lets another one of this queue go, after so many that go before it; None: now."""
        queue = self._limits.queue(lane)
        if queue is None or queue.rate is None:
            return None
        return next_start(
            queue.rate,
            self._used.starts.get(lane.queue_key, ()),
            self._used.going.get(lane.queue_key, 0) + self._more.get(lane.of_queue, 0) + ahead,
            self._now,
        )

    def turn_of_all(self, anybody: Lane | None) -> Turn | None:
        return () if anybody is not None and self.has_room(OPERATOR, anybody) else None

    def turn_of_namespace(self, lane: Lane) -> Turn:
        """Whose turn it is among the namespaces: the least."""
        went = self._went(lane.of_namespace, OPERATOR)
        if not self._is_last(OPERATOR, lane):
            return 0.0, went
        return self._excess(OPERATOR, lane.of_namespace), went

    def turn_of_queue(self, lane: Lane) -> Turn | None:
        """Among the queues of its namespace. None: it has no room."""
        if not self.has_room(lane.of_queue, lane):
            return None
        excess = self._excess(lane.of_namespace, lane.of_queue) if self._is_last(OPERATOR, lane) else 0.0
        return excess, self._went(lane.of_queue, lane.of_namespace)

    def turn_of_lane(self, lane: Lane) -> Turn | None:
        """Among the tenants of its queue. None: it has no room."""
        queue, is_short, clock = self._tenancy(lane)
        of_share, of_type = lane.of_share, lane.of_type
        if queue.max_per_share is not None and self.slots(of_share) >= queue.max_per_share:
            return None
        if of_type is not None and self._is_full(of_type, lane):
            return None
        excess = self._excess(lane.of_queue, of_share) if is_short else 0.0
        return excess, max(self._turn_of(of_share), clock - CREDIT)

    def _tenancy(self, lane: Lane) -> tuple[Queue, bool, float]:
        """What the tenants of a queue have in common: the queue, whether slots are short, and how far turns are."""
        key = lane.queue_key
        if (known := self._tenancies.get(key)) is None:
            is_short = self._is_last(lane.of_queue, lane) or self._is_last(OPERATOR, lane)
            clock = self._turn_of(_clock(lane.of_queue))
            known = self._tenancies[key] = (self._limits.queue(lane) or _NO_LIMITS, is_short, clock)
        return known

    def compete(self, rivals: Mapping[Scope, Sequence[Lane]]) -> None:
        """Those who wait: of each group, a lane at least of every member."""
        self._rivals = rivals

    def _excess(self, group: Scope, scope: Scope) -> float:
        """How much more than its share somebody would have with one slot more, for its weight."""
        if (shares := self._shares.get(group)) is None:
            weights = self._limits.weights(group, self._rivals[group])
            shares = self._shares[group] = Shares.of(weights, self.slots)
        return shares.excess(scope, self.slots(scope))

    def _is_last(self, scope: Scope, lane: Lane) -> bool:
        """Whether there is one slot left."""
        return self._is_full(scope, lane, but_for=1)

    def _went(self, scope: Scope, group: Scope) -> float:
        return max(self._turn_of(scope), self._turn_of(_clock(group)) - CREDIT)

    def _turn_of(self, scope: Scope) -> float:
        own = self.turns.get(scope)
        return own if own is not None else self._used.turns.get(scope, 0.0)


class _Head:
    """What is left of a lane."""

    __slots__ = ("_at", "_lane", "_race", "_tasks")

    def __init__(self, race: Race, lane: Lane, tasks: Sequence[Place]) -> None:
        self._race = race
        self._lane = lane
        self._tasks = tasks
        self._at = 0

    def turn(self) -> Turn | None:
        turn = self._race.turn_of_lane(self._lane) if self._at < len(self._tasks) else None
        return (*turn, self._tasks[self._at][0]) if turn is not None else None

    def go(self) -> str:
        """The first of it."""
        _, uid = self._tasks[self._at]
        self._at += 1
        self._race.start(self._lane)
        return uid


def _contest(race: Race, waiting: Mapping[Lane, Sequence[Place]]) -> Group:
    """All who wait, as they take turns: by namespace, queue and tenant. Nobody looks into a queue that is closed."""
    queues = defaultdict[Scope, list[Lane]](list)
    for lane in waiting:
        queues[lane.of_queue].append(lane)
    namespaces = defaultdict[Scope, list[Lane]](list)
    for one, *_ in queues.values():
        namespaces[one.of_namespace].append(one)
    of_all = [one for one, *_ in namespaces.values()]
    race.compete({**queues, **namespaces, OPERATOR: of_all})

    def of_queue(any_of_it: Lane) -> Group:
        lanes = queues[any_of_it.of_queue] if race.has_room(any_of_it.of_queue, any_of_it) else []
        heads = (_Head(race, lane, waiting[lane]) for lane in lanes)
        return Group(partial(race.turn_of_queue, any_of_it), heads)

    def of_namespace(lanes: list[Lane]) -> Group:
        return Group(partial(race.turn_of_namespace, lanes[0]), map(of_queue, lanes))

    anybody = next(iter(waiting), None)
    return Group(partial(race.turn_of_all, anybody), map(of_namespace, namespaces.values()))


def _clock(group: Scope) -> Scope:
    """Where the turns of those in a group have come to."""
    return "clock", *group
