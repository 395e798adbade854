"""Who goes next: which of the waiting tasks may be claimed now. Pure, as `decide` is, and it writes nothing.

Tasks wait in lanes. All tasks of a lane take the same slots (of their queue, their tenant, their type, the operator),
so what holds the first of them holds all: no choice looks at more than the first of each lane, however many wait.

Between lanes it goes by turns, three times over: between namespaces, between the queues of a namespace, and between
the tenants of a queue. Each time whoever has the fewest slots for its weight goes first; of those that have as many,
whoever went least lately, by its weight. Within a tenant the rank decides: see `rank`.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from taskyard.core import clocks
from taskyard.core.model import Task, Wait
from taskyard.core.spec import DefinitionRef
from taskyard.core.words import DefinitionKind, Reason

DEFAULT_QUEUE: Final = "default"
"""Is there without an object."""

AGEING: Final = timedelta(seconds=60)
"""How long a task waits, where its queue does not say, to make up for one point of priority."""

Rank = tuple[float, float, str]
QueueKey = tuple[str, str]
"""Namespace and name."""

Key = tuple[str, str, str]
Scope = tuple[str, ...]
"""What has slots: `("queue", namespace, name)` and the like."""

PLACE: Final = "; number "
"""What the place of a task in its queue is told with. It is true when it is written, and no reason to write again."""

OPERATOR: Final[Scope] = ("operator",)


@dataclass(frozen=True, slots=True)
class Rate:
    """`rateLimit`: so many starts in any window of that length."""

    tasks: int
    window: timedelta


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


@dataclass(frozen=True, slots=True)
class Lane:
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


_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_NO_LIMITS: Final = Queue()


@dataclass(frozen=True, slots=True)
class Used:
    """Who has slots, who went how lately, and when tasks of a queue were started within its window."""

    slots: Mapping[Scope, int] = field(default_factory=dict)
    turns: Mapping[Scope, float] = field(default_factory=dict)
    """How often somebody went, by its weight; for whoever rests it counts as if it had gone as often as the others."""
    starts: Mapping[tuple[str, str], Sequence[datetime]] = field(default_factory=dict)
    """The latest last."""


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
    waiting: Mapping[Lane, Sequence[tuple[Rank, str]]], used: Used, limits: Limits, now: datetime
) -> tuple[tuple[str, ...], dict[Scope, float]]:
    """Those that may go now, in their order, as many as there are slots for; and how many turns they have had then.

    Each lane is sorted by rank.
    """
    race = Race(used, limits, now)
    heads = {lane: 0 for lane, tasks in waiting.items() if tasks}
    chosen = []
    while heads:
        heads = {lane: at for lane, at in heads.items() if race.is_open(lane)}
        if not heads:
            break
        lane = min(heads, key=lambda each: race.turn(each, waiting[each][heads[each]][0]))
        chosen.append(waiting[lane][heads[lane]][1])
        race.start(lane)
        heads[lane] += 1
        if heads[lane] == len(waiting[lane]):
            del heads[lane]
    return tuple(chosen), race.turns


class Race:
    """What is used, and what has been chosen on top of it."""

    def __init__(self, used: Used, limits: Limits, now: datetime) -> None:
        self._used = used
        self._limits = limits
        self._now = now
        self._more = defaultdict[Scope, int](int)
        self.turns: dict[Scope, float] = {}

    def start(self, lane: Lane) -> None:
        """One of this lane goes."""
        for scope in lane.scopes:
            self._more[scope] += 1
        queue = self._limits.queue(lane)
        weights = queue.weights if queue is not None else {}
        for group, scope, weight in (
            (OPERATOR, lane.of_namespace, self._limits.namespace_weights.get(lane.namespace, 1)),
            (lane.of_namespace, lane.of_queue, 1),
            (lane.of_queue, lane.of_share, weights.get(lane.share, 1)),
        ):
            now_at = self._went(scope, group)
            self.turns[_clock(group)] = now_at
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

    def _is_full(self, scope: Scope, lane: Lane) -> bool:
        most = self._limits.of(scope, lane)
        return most is not None and self.slots(scope) >= most

    def slots(self, scope: Scope) -> int:
        return self._used.slots.get(scope, 0) + self._more.get(scope, 0)

    def next_start(self, lane: Lane) -> datetime | None:
        """When the rate lets another one of this queue go; None: now."""
        queue = self._limits.queue(lane)
        if queue is None or queue.rate is None:
            return None
        return next_start(
            queue.rate,
            self._used.starts.get(lane.queue_key, ()),
            self._more.get(lane.of_queue, 0),
            self._now,
        )

    def turn(self, lane: Lane, first: Rank) -> tuple[float | Rank, ...]:
        """Whose turn it is: the least."""
        queue = self._limits.queue(lane)
        weights = queue.weights if queue is not None else {}
        return (
            self.slots(lane.of_namespace) / self._limits.namespace_weights.get(lane.namespace, 1),
            self._went(lane.of_namespace, OPERATOR),
            self.slots(lane.of_queue),
            self._went(lane.of_queue, lane.of_namespace),
            self.slots(lane.of_share) / weights.get(lane.share, 1),
            self._went(lane.of_share, lane.of_queue),
            first,
        )

    def _went(self, scope: Scope, group: Scope) -> float:
        return max(self._turn_of(scope), self._turn_of(_clock(group)))

    def _turn_of(self, scope: Scope) -> float:
        own = self.turns.get(scope)
        return own if own is not None else self._used.turns.get(scope, 0.0)


def _clock(group: Scope) -> Scope:
    """Where the turns of those in a group have come to."""
    return "clock", *group


def next_start(rate: Rate, starts: Sequence[datetime], more: int, now: datetime) -> datetime | None:
    """When one more may start, after those that have and those that will now; None: now too."""
    recent = starts[bisect_right(starts, now - rate.window) :]
    surplus = len(recent) + more - rate.tasks
    if surplus < 0:
        return None
    return recent[surplus] + rate.window if surplus < len(recent) else now + rate.window


def waits(lane: Lane, position: int, used: Used, limits: Limits, now: datetime) -> tuple[Wait, ...]:
    """Why a task of this lane does not go, in sentences, with its place in the queue at this moment."""
    race = Race(used, limits, now)
    where = f"{PLACE}{position} in the queue" if position else ""
    return tuple(Wait(each, _sentence(each, lane, race, limits) + where) for each in race.closed_by(lane))


def standing(task: Task, limits: Limits) -> tuple[Wait, ...]:
    """What will keep a task from going when nothing else does: of its queue, what does not change by itself."""
    lane = lane_of(task, limits)
    race = Race(Used(), limits, _NEVER)
    lasting = {Reason.QUEUE_NOT_FOUND, Reason.QUEUE_PAUSED}
    return tuple(
        Wait(each, _sentence(each, lane, race, limits)) for each in race.closed_by(lane) if each in lasting
    )


def _sentence(reason: Reason, lane: Lane, race: Race, limits: Limits) -> str:
    queue = limits.queue(lane)
    match reason:
        case Reason.QUEUE_NOT_FOUND:
            return f"there is no queue `{lane.queue}`"
        case Reason.QUEUE_PAUSED:
            return f"the queue `{lane.queue}` is paused"
        case Reason.RATE_LIMIT:
            assert queue is not None
            assert queue.rate is not None
            rate, at = queue.rate, race.next_start(lane)
            most = f"{rate.tasks} in {rate.window.total_seconds():.0f} s"
            until = (
                f"; the next one not before {clocks.said(clocks.whole_second(at))}" if at is not None else ""
            )
            return f"the queue `{lane.queue}` starts {most}{until}"
        case Reason.QUEUE_LIMIT:
            return f"the queue `{lane.queue}` has {_of(lane.of_queue, lane, race, limits)} at work"
        case Reason.KEY_LIMIT:
            label = queue.share_label if queue is not None else None
            return f"`{label}: {lane.share}` has {_of(lane.of_share, lane, race, limits)} at work"
        case Reason.TYPE_LIMIT:
            assert lane.type is not None
            assert lane.of_type is not None
            kind, _, name = lane.type
            return f"the {kind} `{name}` has {_of(lane.of_type, lane, race, limits)} at work"
        case _:
            return f"the operator has {_of(OPERATOR, lane, race, limits)} at work"


def _of(scope: Scope, lane: Lane, race: Race, limits: Limits) -> str:
    return f"{race.slots(scope)} of {limits.of(scope, lane)}"
