"""Who waits for a slot, and who has one: kept up as things change, so that no choice looks at all tasks.

What exists is counted: a task that is claimed or running has a slot, and so has one whose pod may be at work still,
whatever became of the task. Who is chosen has a slot at once, before the claim is written.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from taskyard.core.choose import Lane, Limits, QueueKey, Race, Rank, Scope, Used, choose, waits
from taskyard.core.model import Wait
from taskyard.core.words import Reason

Place = tuple[Rank, str]

MANY_TURNS: Final = 1000

FEW: Final = 20
"""Who are told of other reasons after a look or two; a crowd only once in a while."""
A_CROWD_AFTER: Final = timedelta(minutes=1)


class Line:
    """All lanes, and all slots. `call`: it may be its turn, so it is to think again."""

    def __init__(self, call: Callable[[str], None]) -> None:
        self._call = call
        self.limits = Limits()
        self._lanes: dict[Lane, list[Place]] = {}
        """Those who wait, by rank."""
        self._by_scope = defaultdict[Scope, set[Lane]](set)
        self._places: dict[str, tuple[Lane, Place]] = {}
        self._slots: dict[str, Lane] = {}
        self._granted: dict[str, datetime] = {}
        """Who was chosen, and is not claimed yet."""
        self._used = Counter[Scope]()
        self._turns: dict[Scope, float] = {}
        self._starts: dict[QueueKey, list[datetime]] = {}
        """Of queues with a rate, those within its window."""
        self._touched: set[Lane] = set()
        self._due: dict[Lane, datetime | None] = {}
        """When the first of each lane wakes up for a rate."""
        self._seen: dict[Lane, tuple[tuple[Reason, ...], datetime]] = {}
        """Why each lane was held at the last look, and when its tasks were last gone through."""
        self._told: dict[str, tuple[Reason, ...]] = {}
        """Why each task was held when it was told so."""

    def limit(self, limits: Limits, starts: Iterable[tuple[Lane, datetime]]) -> None:
        """Other limits hold from now on. `starts`: when tasks were claimed, as far as anybody knows."""
        self.limits = limits
        rated = {key for key, queue in limits.queues.items() if queue.rate is not None}
        known = self._starts
        self._starts = {key: known.get(key, []) for key in rated}
        if rated - known.keys():
            for lane, at in starts:
                if lane.queue_key not in known:
                    self._note_start(lane, at)
        for lane, places in self._lanes.items():
            self._touched.add(lane)
            self._call(places[0][1])

    # Slots.

    def started(self, uid: str, lane: Lane, at: datetime) -> None:
        """It was claimed then, as far as anybody knows: it may have ended since."""
        if (granted := self._granted.get(uid)) is not None:
            self._forget_start(self._slots[uid], granted)
        self._note_start(lane, at)
        if self._has_rate(lane):  # whoever is first wakes up by that time
            self._touched |= self._by_scope.get(lane.of_queue, set())

    def take(self, uid: str, lane: Lane) -> None:
        """It is at work."""
        self._granted.pop(uid, None)
        self._step_out(uid)
        if self._slots.get(uid) != lane:
            self.free(uid)
            self._hold(uid, lane)

    def free(self, uid: str) -> None:
        """Nothing of it is at work. Who was chosen a moment ago keeps the slot that the claim is for."""
        if uid in self._granted or (lane := self._slots.pop(uid, None)) is None:
            return
        for scope in lane.scopes:
            self._used[scope] -= 1
            if not self._used[scope]:
                del self._used[scope]
            if self.limits.of(scope, lane) is not None:
                self._touched |= self._by_scope.get(scope, set())

    def holders(self) -> frozenset[str]:
        """Everybody who has a slot."""
        return frozenset(self._slots)

    def lane_of(self, uid: str) -> Lane | None:
        """What it has a slot of."""
        return self._slots.get(uid)

    def _hold(self, uid: str, lane: Lane) -> None:
        self._slots[uid] = lane
        self._used.update(lane.scopes)

    def _note_start(self, lane: Lane, at: datetime) -> None:
        if (starts := self._starts.get(lane.queue_key)) is not None:
            insort(starts, at)

    def _forget_start(self, lane: Lane, at: datetime) -> None:
        if (starts := self._starts.get(lane.queue_key)) is not None and at in starts:
            starts.remove(at)

    # Those who wait.

    def ask(self, uid: str, lane: Lane, rank: Rank, now: datetime) -> bool:
        """Whether it may go now. If not it waits here, and is called when it may."""
        if uid in self._granted:
            queue = self.limits.queue(lane)
            if self._slots[uid] == lane and queue is not None and not queue.is_paused:
                return True
            self.refuse(uid)
        if self._places.get(uid) != (lane, (rank, uid)):
            self.leave(uid)
            self.free(uid)  # it asks, so nothing of it is at work any more
            self._enter(uid, lane, rank)
        # The rate lets somebody go at a time, whoever of the queue has woken up for it.
        self._touched |= self._by_scope[lane.of_queue] if self._has_rate(lane) else {lane}
        self.settle(now, asking=uid)
        return uid in self._granted

    def leave(self, uid: str) -> None:
        """It waits for no slot any more."""
        self.refuse(uid)
        self._step_out(uid)

    def _step_out(self, uid: str) -> None:
        if uid not in self._places:
            return
        lane, place = self._places.pop(uid)
        self._told.pop(uid, None)
        places = self._lanes[lane]
        at = bisect_left(places, place)
        del places[at]
        if not places:
            self._close(lane)
        elif at == 0:
            self._call(places[0][1])  # whoever is first wakes up for all of them

    def refuse(self, uid: str) -> None:
        """It was chosen, and is not claimed after all: its slot is for others."""
        at = self._granted.pop(uid, None)
        if at is None:
            return
        lane = self._slots[uid]
        self._forget_start(lane, at)
        self.free(uid)
        if self._has_rate(lane):
            self._touched |= self._by_scope.get(lane.of_queue, set())

    def settle(self, now: datetime, asking: str | None = None) -> None:
        """Let go who may; only of those lanes where something has changed."""
        if not self._touched:
            return
        touched, self._touched = self._touched, set()
        waiting = {lane: self._lanes[lane] for lane in touched if lane in self._lanes}
        if not waiting:
            return
        self._forget_starts(waiting, now)
        chosen, turns = choose(waiting, self.used, self.limits, now)
        self._turns.update(turns)
        self._forget_turns()
        for uid in chosen:
            lane, _ = self._places[uid]
            self._step_out(uid)
            self._hold(uid, lane)
            self._granted[uid] = now
            self._note_start(lane, now)
            if uid != asking:
                self._call(uid)
        race = Race(self.used, self.limits, now)
        for lane in waiting.keys() & self._lanes.keys():
            first = self._lanes[lane][0][1]
            if race.next_start(lane) != self._due.get(lane) and first != asking:
                self._call(first)  # it is to wake up at another time

    def _forget_starts(self, lanes: Iterable[Lane], now: datetime) -> None:
        """What is older than the window; but whoever was chosen, and is not claimed yet, may start any moment."""
        for key in {lane.queue_key for lane in lanes}:
            if (starts := self._starts.get(key)) and (rate := self.limits.queues[key].rate) is not None:
                del starts[: bisect_right(starts, now - rate.window)]
        for uid, at in self._granted.items():
            lane = self._slots[uid]
            starts = self._starts.get(lane.queue_key)
            if starts is not None and at not in starts:
                self._granted[uid] = now
                insort(starts, now)

    def _forget_turns(self) -> None:
        """Of many, those who neither wait nor have a slot: when they come back they count as if they had gone as
        often as the others."""
        if len(self._turns) > MANY_TURNS + 4 * (len(self._used) + len(self._by_scope)):
            self._turns = {scope: at for scope, at in self._turns.items() if self._is_here(scope)}

    def _is_here(self, scope: Scope) -> bool:
        """A clock is its group's."""
        of = scope[1:] if scope[0] == "clock" else scope
        return of in self._used or of in self._by_scope

    def _has_rate(self, lane: Lane) -> bool:
        return lane.queue_key in self._starts

    def _enter(self, uid: str, lane: Lane, rank: Rank) -> None:
        if lane not in self._lanes:
            self._lanes[lane] = []
            for scope in lane.scopes:
                self._by_scope[scope].add(lane)
        insort(self._lanes[lane], (rank, uid))
        self._places[uid] = lane, (rank, uid)

    def _close(self, lane: Lane) -> None:
        del self._lanes[lane]
        self._due.pop(lane, None)
        for scope in lane.scopes:
            self._by_scope[scope].discard(lane)
            if not self._by_scope[scope]:
                del self._by_scope[scope]

    # What is told.

    @property
    def used(self) -> Used:
        return Used(self._used, self._turns, self._starts)

    def waits(self, uid: str, now: datetime) -> tuple[Wait, ...]:
        """Why it does not go."""
        lane, place = self._places[uid]
        told = waits(lane, self._position(lane, place), self.used, self.limits, now)
        self._told[uid] = tuple(each.reason for each in told)
        return told

    def turn_at(self, uid: str, now: datetime) -> datetime | None:
        """When it may be its turn though nothing happens: the first of a lane wakes up for all who wait for a rate."""
        lane, place = self._places[uid]
        if self._lanes[lane][0] != place:
            return None
        at = Race(self.used, self.limits, now).next_start(lane)
        self._due[lane] = at
        return at

    def stir(self, now: datetime) -> None:
        """Have those think again who are held by other reasons than before, once these have lasted for a while.

        Slots come and go all the time: who waits behind a limit is not to write a word each time it is not full.
        """
        race, seen, self._seen = Race(self.used, self.limits, now), self._seen, {}
        for lane, places in self._lanes.items():
            reasons = tuple(race.closed_by(lane))
            before, looked_at = seen.get(lane, (reasons, now))
            is_time = len(places) <= FEW or now - looked_at >= A_CROWD_AFTER
            if reasons == before and is_time:
                looked_at = now
                for _, uid in places:
                    if self._told.get(uid, reasons) != reasons:
                        self._call(uid)
            self._seen[lane] = reasons, looked_at

    def _position(self, lane: Lane, place: Place) -> int:
        """By rank, whosever turn it is among the tenants of the queue."""
        lanes = self._by_scope.get(lane.of_queue, ())
        return 1 + sum(bisect_left(self._lanes[each], place) for each in lanes)
