"""Dirty keys → snapshot → decide → apply: the only module that knows what is decided and how it is done."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Never

from taskyard import backoff
from taskyard.cache import Cache
from taskyard.clock import Clock
from taskyard.cluster import (
    EVENTS,
    AlreadyExists,
    Cluster,
    ClusterError,
    Conflict,
    NotFound,
    Rejected,
    Unavailable,
)
from taskyard.core.decide import decide
from taskyard.core.model import Hindrance, Live, Look, ReadLog, Snapshot, Task
from taskyard.core.words import Reason
from taskyard.reads import Reads, fields
from taskyard.writes import Writes

logger = logging.getLogger(__name__)

WORKERS: Final = 16
FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 60.0
CONFLICTS_AT_ONCE: Final = 3
ANNOUNCEMENTS_KEPT: Final = 1000
DEFAULT_QUEUE: Final = "default"


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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._claimer = claimer
        self._now = now
        self._acting_since = now().replace(microsecond=0)  # as the claims' times: without fractions
        self._shield_limit = shield_limit
        self._clock = Clock(cache.dirty.mark)
        self._failures: dict[str, int] = {}
        self._conflicts: dict[str, int] = {}
        self.announcements: deque[dict[str, Any]] = deque()
        self._announced = asyncio.Event()
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

    async def _work(self) -> Never:
        while True:
            uid = await self._cache.dirty.take()
            try:
                await self.step(uid)
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
        snapshot = self._snapshot(uid)
        if snapshot is None:
            return
        decision = decide(snapshot, self._now())
        if isinstance(decision.action, Look):
            live = await self._reads.look(snapshot.task)
            snapshot = self._snapshot(uid, live)
            if live is None or snapshot is None:
                return
            decision = decide(snapshot, self._now())
        if isinstance(decision.action, ReadLog):
            log = await self._reads.log(snapshot.task, decision.action.pod)
            snapshot = replace(snapshot, log=log)
            decision = decide(snapshot, self._now())
        try:
            await self._writes.apply(snapshot.task, decision.action)
        except (Conflict, NotFound):
            # Somebody else was faster. Never merge: see what there is, and think again.
            logger.info("the task has changed, looking again", extra=fields(snapshot.task))
            await self._reads.task(snapshot.task)
            self._conflicts[uid] = self._conflicts.get(uid, 0) + 1
            if self._conflicts[uid] > CONFLICTS_AT_ONCE:
                raise Unavailable("the task changes faster than it can be read") from None
            self._cache.dirty.mark(uid)
        else:
            self._conflicts.pop(uid, None)
            self._set_clock(uid, decision.wake_at)

    def _set_clock(self, uid: str, wake_at: datetime | None) -> None:
        self._clock.set(uid, (wake_at - self._now()).total_seconds() if wake_at else None)

    def _snapshot(self, uid: str, live: Live | None = None) -> Snapshot | None:
        task = self._cache.task(uid)
        hold = hold_of(task) if task is not None else None
        snapshot = self._cache.snapshot(
            uid,
            claimer=self._claimer,
            hold=hold,
            live=live,
            acting_since=self._acting_since,
            is_shielded=task is not None and self._writes.is_shielded(task.namespace),
            shield_limit=self._shield_limit,
        )
        if snapshot is None:
            self._clock.set(uid, None)
            self._writes.forget(uid)
            self._conflicts.pop(uid, None)
        return snapshot

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
        while self.announcements:
            event = self.announcements.popleft()
            try:
                await self._cluster.create(EVENTS, event["metadata"]["namespace"], event)
            except AlreadyExists:
                pass
            except ClusterError as exc:
                told = {"announcement": event["metadata"]["name"], "why": str(exc)}
                logger.warning("could not post an event", extra=told)


def hold_of(task: Task) -> Hindrance | None:
    """What keeps an eligible task from being claimed. One queue exists without an object, and no other does."""
    if task.spec.queue == DEFAULT_QUEUE:
        return None
    return Hindrance(Reason.QUEUE_NOT_FOUND, f"there is no queue `{task.spec.queue}`")
