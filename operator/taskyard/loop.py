"""Dirty keys → snapshot → decide → apply: the only module that knows what is decided and how it is done."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Never

from taskyard import backoff
from taskyard.cache import Cache
from taskyard.clock import Clock
from taskyard.cluster import (
    EVENTS,
    LONGEST_REQUEST,
    AlreadyExists,
    Cluster,
    ClusterError,
    Conflict,
    NotFound,
    Rejected,
    Unavailable,
)
from taskyard.core import choose, held, waiting
from taskyard.core.actions import Ask, Decision, Look, ReadLog, WriteStatus
from taskyard.core.decide import decide
from taskyard.core.model import Live, Pod, Rival, Snapshot
from taskyard.core.words import Phase
from taskyard.reads import Reads, fields
from taskyard.writes import Writes

logger = logging.getLogger(__name__)

WORKERS: Final = 16
FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 60.0
CONFLICTS_AT_ONCE: Final = 3
MOST_READS: Final = 8
LOOKS_AROUND_FOR: Final = timedelta(seconds=1)
"""A drain takes the operator of a node and the tasks there at the same time, and not in the same moment."""
SEES_OFF_FOR: Final = timedelta(seconds=15)
CLOSES_WITHIN: Final = 5.0
CLOSING_POLL: Final = 0.05
ANNOUNCEMENTS_KEPT: Final = 1000


class Loop:
    """Carries every dirty key one step further, several keys at once, never one key twice at once.

    May be stopped at any await: whatever was written is in the cluster, and a new loop goes on from there.
    """

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        *,
        claimer: str,
        shield_limit: timedelta | None = None,
        look_around: timedelta = LOOKS_AROUND_FOR,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._claimer = claimer
        self._now = now
        self._acting_since = now().replace(microsecond=0)  # as the claims' times: without fractions
        self._shield_limit = shield_limit
        self._look_around = look_around
        self._clock = Clock(cache.dirty.mark)
        self._failures: dict[str, int] = {}
        self._conflicts: dict[str, int] = {}
        self._unanswered: dict[str, datetime] = {}
        """When a request for a task that has a slot was last left without an answer: it may have been a claim."""
        self.announcements: deque[dict[str, Any]] = deque()
        self._announced, self._announcing = asyncio.Event(), asyncio.Lock()
        self._is_retiring = self._is_closing = False
        self._reads = Reads(cluster, cache, now)
        self._writes = Writes(cluster, cache, self._reads, now, self._announce)

    async def run(self) -> Never:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._clock.run(), name="clock")
            group.create_task(self._announcer(), name="announcer")
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"worker {number}")
        raise AssertionError("workers never return")

    async def retire(self) -> None:
        """Claim nothing more, and see to their end those runs whose pods are about to go, as far as that is soon.

        They take along how they ended: whoever comes next would find nothing left of them, and call them lost.
        """
        self._is_retiring = True
        logger.info("told to end, claiming nothing more")
        if not any(self._cache.pods_of_active()):
            return
        await asyncio.sleep(self._look_around.total_seconds())
        with suppress(TimeoutError):
            async with asyncio.timeout(SEES_OFF_FOR.total_seconds()):
                while self._is_any_run_going():  # noqa: ASYNC110 - pods come and go until then
                    await asyncio.sleep(CLOSING_POLL)

    def _is_any_run_going(self) -> bool:
        """Whether somebody has put an end to the pod of a run that has no verdict yet, which is near."""
        now = self._now()
        return any(_is_going(pod, now) for pods in self._cache.pods_of_active() for pod in pods)

    async def close(self) -> None:
        """Finish what is in hand: steps that have begun, claims without a Job, announcements. Begin nothing else."""
        self._is_closing = True
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSES_WITHIN):
                while self._is_at_it():  # noqa: ASYNC110 - keys come and go until then
                    await asyncio.sleep(CLOSING_POLL)
                await self.make_announcements()

    def _is_at_it(self) -> bool:
        return not (self._cache.dirty.is_idle and self._writes.has_launched_all)

    async def _work(self) -> Never:
        while True:
            uid = await self._cache.dirty.take()
            try:
                if self._is_closing and not self._writes.is_to_launch(uid):
                    continue
                await self.step(uid)
                if self._writes.is_to_launch(uid) and self._cache.dirty.take_again(uid):
                    await self.step(
                        uid
                    )  # not after all the others: a claim without a Job is what a crash can cost
                self._failures.pop(uid, None)
            except Unavailable as exc:
                self._try_again(uid, str(exc), exc.after)
            except Rejected as exc:  # rights that are missing, or not known yet to an API server that starts
                self._try_again(uid, str(exc))
            except Exception as exc:  # so that one bad object stops nobody
                logger.exception("step failed", extra={"uid": uid})
                self._try_again(uid, repr(exc))
            finally:
                self._cache.dirty.done(uid)

    def _try_again(self, uid: str, why: str, after: float = 0.0) -> None:
        failures = self._failures[uid] = self._failures.get(uid, 0) + 1
        delay = after + backoff.delay(failures, first=FIRST_BACKOFF, longest=LONGEST_BACKOFF)
        logger.warning("will try again", extra={"uid": uid, "why": why, "after": round(delay, 2)})
        self._clock.set(uid, delay)

    async def step(self, uid: str) -> None:
        """Think once about one Task, and do what comes of it: at most one write."""
        line = self._cache.line
        try:
            await self._step(uid)
            self._unanswered.pop(uid, None)
        except Unavailable as exc:  # perhaps it was claimed: until somebody knows it keeps its slot
            if line.is_chosen(uid):
                await self._see_whether_claimed(uid, exc)
            raise
        except Exception:
            line.refuse(uid)
            raise
        finally:
            line.settle(self._now())

    async def _see_whether_claimed(self, uid: str, exc: Unavailable) -> None:
        """What is not, once no request of it can be on its way, gives its slot to others until it is tried again."""
        task, now = self._cache.task(uid), self._now()
        if not exc.is_over:
            self._unanswered[uid] = now
        sent = self._unanswered.get(uid)
        if task is None or (sent is not None and now - sent < LONGEST_REQUEST):
            return
        with suppress(ClusterError):
            seen = await self._reads.task(task)
            if seen is not None and seen.status.state.phase is Phase.WAITING:
                self._cache.line.refuse(uid)

    async def _step(self, uid: str) -> None:
        thought = await self._think(uid)
        if thought is None:
            return
        snapshot, decision = thought
        if self._is_retiring and _claims(decision, snapshot):
            return
        try:
            await self._writes.apply(snapshot.task, decision.action)
        except (Conflict, NotFound):
            # Somebody else was faster. Never merge: see what there is, and think again.
            logger.info("the task has changed, looking again", extra=fields(snapshot.task))
            await self._reads.task(snapshot.task)
            self._conflicts[uid] = self._conflicts.get(uid, 0) + 1
            if self._conflicts[uid] > CONFLICTS_AT_ONCE:
                raise Unavailable("the task changes faster than it can be read", is_over=True) from None
            self._cache.dirty.mark(uid)
        else:
            self._conflicts.pop(uid, None)
            self._set_clock(uid, decision.wake_at)

    async def _think(self, uid: str) -> tuple[Snapshot, Decision] | None:
        """Decide, and read what that takes; each thing once. None if there is no such Task, or it has gone on."""
        snapshot = self._snapshot(uid)
        facts: dict[str, Any] = {}
        for _ in range(MOST_READS):
            if snapshot is None:
                return None
            decision = decide(snapshot, self._now())
            match decision.action:
                case Look():
                    facts["live"] = await self._reads.look(snapshot.task)
                    if facts["live"] is None:
                        return None
                    snapshot = self._snapshot(uid, **facts)
                case Ask(rivals=True):
                    facts["rivals"] = await self._reads.rivals(snapshot.task)
                    snapshot = self._snapshot(uid, **facts)
                case Ask(tasks=names, definition=definition):
                    facts["absent"] = snapshot.absent | await self._reads.absent(snapshot.task, names)
                    if definition:
                        await self._reads.definition(snapshot.task)
                        facts["asked"] = True
                    snapshot = self._snapshot(uid, **facts)
                case ReadLog(pod=pod):
                    snapshot = replace(snapshot, log=await self._reads.log(snapshot.task, pod))
                case _:
                    return snapshot, decision
        raise AssertionError(f"what was read last decides nothing: {decision.action}")

    def _set_clock(self, uid: str, wake_at: datetime | None) -> None:
        self._clock.set(uid, (wake_at - self._now()).total_seconds() if wake_at else None)

    def _snapshot(
        self,
        uid: str,
        live: Live | None = None,
        absent: frozenset[str] = frozenset(),
        asked: bool = False,
        rivals: tuple[Rival, ...] | None = None,
    ) -> Snapshot | None:
        task = self._cache.task(uid)
        snapshot = self._cache.snapshot(
            uid,
            claimer=self._claimer,
            live=live,
            absent=absent,
            asked=asked,
            rivals=rivals,
            acting_since=self._acting_since,
            is_shielded=task is not None and self._writes.is_shielded(task.namespace),
            shield_limit=self._shield_limit,
        )
        if snapshot is None:
            self._set_clock(uid, self._cache.rest_at(uid, self._now()))
            self._writes.forget(uid)
            self._conflicts.pop(uid, None)
            self._unanswered.pop(uid, None)
            return None
        return self._in_line(snapshot)

    def _in_line(self, snapshot: Snapshot) -> Snapshot | None:
        """With whether it is its turn. Whoever waits for nothing but a slot waits in line, and nobody else does."""
        line, task, now = self._cache.line, snapshot.task, self._now()
        if task.status.state.phase is not Phase.WAITING:
            line.leave(task.uid)
            return snapshot
        if not waiting.is_ready(snapshot, now):
            line.leave(task.uid)
            return replace(snapshot, holds=held.standing(task, line.limits))
        since = waiting.eligible_since(snapshot, now)
        lane = choose.lane_of(task, line.limits)
        queue = line.limits.queue(lane) or choose.Queue()
        if line.ask(task.uid, lane, choose.rank(queue, task.spec.priority, since, task.uid), now):
            return snapshot
        holds = line.waits(task.uid, now)
        if not holds:  # so many may go that not all were chosen yet
            self._cache.dirty.mark(task.uid)
            return None
        return replace(snapshot, holds=holds, turn_at=line.turn_at(task.uid, now))

    def _announce(self, event: dict[str, Any]) -> None:
        """Off the hot path. Events are a courtesy: what happened is in the status."""
        if len(self.announcements) >= ANNOUNCEMENTS_KEPT:
            logger.warning("too many announcements, one is dropped", extra={"announcement": event["reason"]})
            return
        self.announcements.append(event)
        self._announced.set()

    async def _announcer(self) -> Never:
        while True:
            await self._announced.wait()
            self._announced.clear()
            await self.make_announcements()

    async def make_announcements(self) -> None:
        """Post what has gathered. Names are fixed: what was posted before is not posted twice."""
        async with self._announcing:
            while self.announcements:
                await self._post(self.announcements.popleft())

    async def _post(self, event: dict[str, Any]) -> None:
        try:
            await self._cluster.create(EVENTS, event["metadata"]["namespace"], event)
        except AlreadyExists:
            pass
        except ClusterError as exc:
            told = {"announcement": event["metadata"]["name"], "why": str(exc)}
            logger.warning("could not post an event", extra=told)


def _is_going(pod: Pod, now: datetime) -> bool:
    """Whether it is worth the time to wait for its end: it has ended, was told to a moment ago, or must in a moment.

    One that is on its way out for longer has a long grace period, or a node that is silent.
    """
    if not (pod.deleting or pod.disruption):
        return False
    moments = [each for each in (pod.disturbed_at, pod.deleted_at) if each is not None]
    return not (pod.is_alive and moments) or any(abs(each - now) < SEES_OFF_FOR for each in moments)


def _claims(decision: Decision, snapshot: Snapshot) -> bool:
    match decision.action:
        case WriteStatus(status=status):
            return status.attempt > snapshot.task.status.attempt
        case _:
            return False
