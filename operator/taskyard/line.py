"""Who waits for a slot, and who has one: kept up as things change, so that no choice looks at all tasks.

What exists is counted: a task that is claimed or running has a slot, and so has one whose pod may be at work still,
whatever became of the task. Who is chosen has a slot at once, before the claim is written.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Final

from taskyard.core import clocks
from taskyard.core.choose import (
    AT_ONCE,
    OPERATOR,
    Lane,
    Limits,
    Place,
    QueueKey,
    Race,
    Scope,
    Used,
    choose,
)
from taskyard.core.held import waits
from taskyard.core.model import Wait
from taskyard.core.turns import Rank
from taskyard.core.words import Reason

MANY_TURNS: Final = 1000

FEW: Final = 20
"""Who are told of other reasons after a look or two; a crowd only once in a while."""
A_CROWD_AFTER: Final = timedelta(minutes=1)

REST_OF_A_SECOND: Final = timedelta(microseconds=999_999)
"""A start may be any instant of its `claimedAt`."""
ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
NEVER: Final = datetime.max.replace(tzinfo=UTC)


class Line:
    """All lanes, and all slots. `call`: it may be its turn, so it is to think again; `remind`: it may have to say
    something else of why it waits.
    """

    def __init__(self, call: Callable[[str], None], remind: Callable[[str], None]) -> None:
        self._call = call
        self._remind = remind
        self.limits = Limits()
        self._lanes: dict[Lane, list[Place]] = {}
        """Those who wait, by rank."""
        self._by_scope = defaultdict[Scope, set[Lane]](set)
        self._places: dict[str, tuple[Lane, Place]] = {}
        self._slots: dict[str, Lane] = {}
        self._granted: dict[str, datetime] = {}
        """Who was chosen, and is not claimed yet; and when it was last told that it may go."""
        self._going = Counter[QueueKey]()
        """How many of each queue those are."""
        self._used = Counter[Scope]()
        self._turns: dict[Scope, float] = {}
        self._starts: dict[QueueKey, list[datetime]] = {}
        """Of queues with a rate, those within its window."""
        self._complete_since: dict[QueueKey, datetime] = {}
        """What these are all of: older ones are forgotten."""
        self._ranks: dict[QueueKey, list[Place]] = {}
        """All who wait in a queue, by rank, whoever's tenants they are."""
        self._touched: set[Scope] = set()
        """What may have room that it did not have."""
        self._wakes: dict[QueueKey, tuple[str, datetime]] = {}
        """Who wakes up, and when, for all who wait for the rate of a queue."""
        self._seen: dict[Lane, tuple[tuple[Reason, ...], datetime]] = {}
        """Why each lane was held at the last look, and when its tasks were last gone through."""
        self._told: dict[str, tuple[tuple[Reason, ...], datetime]] = {}
        """Why each task was held when it was told so; and when the second is over that a rate was to let it go in."""
        self._overdue: set[str] = set()
        """Who is to be told another time than that one."""

    def limit(self, limits: Limits, starts: Iterable[tuple[Lane, datetime]]) -> None:
        """Other limits hold from now on. `starts`: when tasks were claimed, as far as anybody knows."""
        before, self.limits = self.limits, limits
        rates = {key: queue.rate for key, queue in limits.queues.items() if queue.rate is not None}
        grown = {key for key, rate in rates.items() if rate.window > before.window(key)}
        self._starts = {key: self._starts.get(key, []) for key in rates}
        if grown:
            for lane, claimed_at in starts:
                key = lane.queue_key
                if key in grown and claimed_at <= self._complete_since.get(key, NEVER):
                    self._note_start(lane, claimed_at + REST_OF_A_SECOND)
        self._complete_since = {key: ALWAYS if key in grown else self._complete_since[key] for key in rates}
        self._touched.add(OPERATOR)
        for places in self._lanes.values():
            self._remind(places[0][1])

    # Slots.

    def started(self, uid: str, lane: Lane, at: datetime) -> None:
        """It was claimed in that second, as far as anybody knows: it may have ended since."""
        granted = self._granted.get(uid)
        is_known = granted is not None and granted.replace(microsecond=0) == at
        self._note_start(lane, granted if granted is not None and is_known else at + REST_OF_A_SECOND)
        if self._has_rate(lane):  # whoever wakes up for it is to do so at another time
            self._touched.add(lane.of_queue)

    def take(self, uid: str, lane: Lane) -> None:
        """It is at work."""
        self._is_chosen_no_more(uid)
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
                self._touched.add(scope)

    def is_chosen(self, uid: str) -> bool:
        """Whether it has a slot for a claim that is to come, or may be on its way."""
        return uid in self._granted

    def wakers(self) -> frozenset[str]:
        """Those who wake up for everybody who waits for a rate."""
        return frozenset(uid for uid, _ in self._wakes.values())

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

    def _is_chosen_no_more(self, uid: str) -> bool:
        """Whether it was until now."""
        if self._granted.pop(uid, None) is None:
            return False
        key = self._slots[uid].queue_key
        self._going[key] -= 1
        if not self._going[key]:
            del self._going[key]
        return True

    # Those who wait.

    def ask(self, uid: str, lane: Lane, rank: Rank, now: datetime) -> bool:
        """Whether it may go now. If not it waits here, and is called when it may."""
        if uid in self._granted:
            if self._holds_still(uid, lane, now):
                self._granted[uid] = now
                return True
            self.refuse(uid)
        if self._places.get(uid) != (lane, (rank, uid)):
            self.leave(uid)
            self.free(uid)  # it asks, so nothing of it is at work any more
            self._enter(uid, lane, rank)
        if self._has_rate(lane):  # it lets somebody go at a time, whoever of the queue has woken up for it
            self._touched.add(lane.of_queue)
        self.settle(now, asking=uid)
        return uid in self._granted

    def _holds_still(self, uid: str, lane: Lane, now: datetime) -> bool:
        """Whether who was chosen would be chosen still: it may be another lane, or there are other limits."""
        queue = self.limits.queue(lane)
        if self._slots[uid] != lane or queue is None or queue.is_paused:
            return False
        bounds = ((self._used[scope], self.limits.of(scope, lane)) for scope in lane.scopes)
        if any(most is not None and used > most for used, most in bounds):
            return False
        self._let_starts_pass(lane.queue_key, now)
        return Race(self.used, self.limits, now).next_start(lane, ahead=-1) is None

    def leave(self, uid: str) -> None:
        """It waits for no slot any more."""
        self.refuse(uid)
        self._step_out(uid)

    def _step_out(self, uid: str) -> None:
        if uid not in self._places:
            return
        lane, place = self._places.pop(uid)
        self._told.pop(uid, None)
        self._overdue.discard(uid)
        key, places = lane.queue_key, self._lanes[lane]
        for sorted_places in (places, self._ranks[key]):
            del sorted_places[bisect_left(sorted_places, place)]
        if not places:
            self._close(lane)
        if self._wakes.get(key, ("",))[0] == uid:
            del self._wakes[key]
            self._touched.add(lane.of_queue)  # somebody else is to wake up

    def refuse(self, uid: str) -> None:
        """It was chosen, and is not claimed after all: its slot is for others."""
        if self._is_chosen_no_more(uid):
            lane = self._slots[uid]
            self.free(uid)
            if self._has_rate(lane):
                self._touched.add(lane.of_queue)

    def settle(self, now: datetime, asking: str | None = None) -> None:
        """Let go who may, of those that wait for something that has changed; if they are many, not all at once."""
        if asking is None and not self._touched:
            return
        touched, self._touched = self._touched, set()
        rated = self._rated_of(touched)
        if asking is not None:
            rated.add(self._places[asking][0].queue_key)
        for key in rated:
            self._let_starts_pass(key, now)
        chosen, turns = choose(self._waiting_for(touched, asking, now), self.used, self.limits, now)
        if len(chosen) == AT_ONCE:  # those who are called now go on with it
            self._touched |= touched
        self._turns.update(turns)
        self._forget_turns()
        for uid in chosen:
            lane, _ = self._places[uid]
            self._step_out(uid)
            self._hold(uid, lane)
            self._granted[uid] = now
            self._going[lane.queue_key] += 1
            rated.add(lane.queue_key)
            if uid != asking:
                self._call(uid)
        for key in rated:
            self._have_woken(key, asking, now)

    def _waiting_for(self, touched: set[Scope], asking: str | None, now: datetime) -> dict[Lane, list[Place]]:
        """Those of which somebody might go; nobody looks at them while what they wait for has no room."""
        race, lanes = Race(self.used, self.limits, now), set[Lane]()
        for scope in touched:
            waiting = self._by_scope.get(scope)
            if waiting and race.has_room(scope, next(iter(waiting))):
                lanes |= waiting
        if asking is not None:
            lanes.add(self._places[asking][0])
        return {lane: self._lanes[lane] for lane in lanes}

    def _rated_of(self, touched: set[Scope]) -> set[QueueKey]:
        """The queues with a rate that are among them."""
        if OPERATOR in touched:
            return set(self._starts)
        return {(scope[1], scope[2]) for scope in touched if scope[0] == "queue"} & self._starts.keys()

    def _have_woken(self, key: QueueKey, asking: str | None, now: datetime) -> None:
        """Somebody who waits behind a rate, and no more than one, wakes up when it lets the next one go."""
        if key not in self._starts or not (places := self._ranks.get(key)):
            return
        lane, _ = self._places[places[0][1]]
        at = Race(self.used, self.limits, now).next_start(lane)
        uid, due = self._wakes.get(key, (places[0][1], NEVER))
        if at is not None and at < due:
            self._wakes[key] = uid, at
            if uid != asking:  # it is told in a moment
                self._call(uid)

    def _let_starts_pass(self, key: QueueKey, now: datetime) -> None:
        """Those that the window has left are forgotten. None was later than now: the clock may have been set back."""
        queue = self.limits.queues.get(key)
        if queue is None or queue.rate is None:
            return
        starts, since = self._starts[key], _in_seconds(now) - queue.rate.window
        del starts[: bisect_right(starts, since)]
        late = bisect_right(starts, now)
        starts[late:] = [now] * (len(starts) - late)
        self._complete_since[key] = max(self._complete_since[key], since)

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
        insort(self._ranks.setdefault(lane.queue_key, []), (rank, uid))
        self._places[uid] = lane, (rank, uid)

    def _close(self, lane: Lane) -> None:
        del self._lanes[lane]
        for scope in lane.scopes:
            self._by_scope[scope].discard(lane)
            if not self._by_scope[scope]:
                del self._by_scope[scope]
        if not self._ranks[lane.queue_key]:
            del self._ranks[lane.queue_key]

    # What is told.

    @property
    def used(self) -> Used:
        return Used(self._used, self._turns, self._starts, self._going)

    def waits(self, uid: str, now: datetime) -> tuple[Wait, ...]:
        """Why it does not go."""
        lane, place = self._places[uid]
        ahead = bisect_left(self._lanes[lane], place)
        told = waits(lane, self._position(lane, place), self.used, self.limits, _in_seconds(now), ahead)
        reasons = tuple(each.reason for each in told)
        before, until = self._told.get(uid, ((), NEVER))
        is_overdue = uid in self._overdue
        if is_overdue or (Reason.RATE_LIMIT in reasons and Reason.RATE_LIMIT not in before):
            at = Race(self.used, self.limits, now).next_start(lane, ahead)
            until = clocks.whole_second(at) + clocks.A_SECOND if at is not None else NEVER
        self._overdue.discard(uid)
        self._told[uid] = reasons, until
        if not is_overdue:
            return told
        return tuple(replace(each, is_news=each.reason is Reason.RATE_LIMIT) for each in told)

    def turn_at(self, uid: str, now: datetime) -> datetime | None:
        """When it may be its turn though nothing happens: one wakes up for all who wait for the rate of a queue."""
        lane, _ = self._places[uid]
        waker, _ = self._wakes.get(lane.queue_key, (uid, NEVER))
        if waker != uid:
            return None
        at = Race(self.used, self.limits, now).next_start(lane)
        if at is not None:
            self._wakes[lane.queue_key] = uid, at
        else:
            self._wakes.pop(lane.queue_key, None)
        return at

    def stir(self, now: datetime) -> None:
        """Have those think again who are held by other reasons than before, once these have lasted for a while.

        Slots come and go all the time: who waits behind a limit is not to write a word each time it is not full.
        Whoever is first is told another time, too, when that is over which it was told. A few at a look, and those of
        a queue where many wait once in a while.
        """
        due, overdue = [], []
        race, seen, self._seen = Race(self.used, self.limits, _in_seconds(now)), self._seen, {}
        for lane, places in self._lanes.items():
            reasons = tuple(race.closed_by(lane))
            before, looked_at = seen.get(lane, (reasons, now))
            is_time = len(self._ranks[lane.queue_key]) <= FEW or now - looked_at >= A_CROWD_AFTER
            if reasons == before and is_time:
                due.append((looked_at, lane, reasons))
            if (first := places[0][1]) in self._told and self._told[first][1] <= now:
                overdue.append(first)
            self._seen[lane] = reasons, looked_at
        self._remind_some(due, now)
        for uid in overdue[:FEW]:
            self._overdue.add(uid)
            self._remind(uid)

    def _remind_some(self, due: list[tuple[datetime, Lane, tuple[Reason, ...]]], now: datetime) -> None:
        """Those who were looked at longest ago come first, and whoever does not come now does at the next look."""
        left = FEW
        for _, lane, reasons in sorted(due, key=itemgetter(0)):
            told = ((uid, self._told[uid][0]) for _, uid in self._lanes[lane] if uid in self._told)
            stale = [uid for uid, said in told if said != reasons]
            for uid in stale[:left]:
                self._remind(uid)
            if len(stale) <= left:
                self._seen[lane] = reasons, now
            left = max(0, left - len(stale))
            if not left:
                return

    def _position(self, lane: Lane, place: Place) -> int:
        """By rank, whosever turn it is among the tenants of the queue."""
        return 1 + bisect_left(self._ranks[lane.queue_key], place)


def _in_seconds(now: datetime) -> datetime:
    """The moment for which a rate is told: all of a second before it is over. The instant of a start is known to one
    operator, and its second to all: two that told the same task different reasons would write in turn."""
    return now.replace(microsecond=0) - timedelta(microseconds=1)
