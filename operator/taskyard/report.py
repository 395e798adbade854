"""The status of queues: once a second, of those where something has changed. No decision hangs on it."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, Never

from taskyard.cache import Cache
from taskyard.cluster import QUEUES, Cluster, ClusterError, NotFound
from taskyard.core import clocks
from taskyard.core.choose import Queue, QueueKey
from taskyard.core.words import State
from taskyard.registry import QUEUE

logger = logging.getLogger(__name__)

EVERY: Final = 1.0

STATES: Final = {
    "unscheduled": (State.UNSCHEDULED,),
    "delayed": (State.DELAYED,),
    "pending": (State.PENDING,),
    "claimed": (State.CLAIMED,),
    "running": (State.RUNNING,),
    "finished": tuple(state for state in State if state.is_terminal),
}


class Report:
    """Tells each TaskQueue what is in it."""

    def __init__(self, cluster: Cluster, cache: Cache, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._cache = cache
        self._now = now
        self._told: dict[QueueKey, dict[str, Any]] = {}
        self._active_since: dict[QueueKey, tuple[str, str]] = {}
        self._minute: datetime | None = None

    async def run(self) -> Never:
        """Until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.tell()
            except Exception:  # no task waits for this
                logger.exception("could not report")

    async def tell(self) -> None:
        """Write what has changed; one failure delays no other queue, and is made good the next time."""
        now, tally = self._now(), self._cache.tally
        self._cache.line.stir(now)
        if (minute := now.replace(second=0, microsecond=0)) != self._minute:
            self._minute = minute
            tally.a_minute_has_passed()
        changed, tally.changed = tally.changed, set()
        for key in self._cache.new_queues:
            self._told.pop(key, None)
        self._cache.new_queues.clear()
        for key in sorted(changed):
            queue = self._cache.queues[QUEUE, *key]
            if queue is None:
                self._told.pop(key, None)
                continue
            try:
                await self._write(key, queue, now)
            except NotFound:
                self._told.pop(key, None)  # deleted a moment ago
            except ClusterError as exc:
                told = {"namespace": key[0], "queue": key[1], "why": str(exc)}
                logger.warning("could not write the status of a queue", extra=told)
                tally.changed.add(key)

    async def _write(self, key: QueueKey, queue: Queue, now: datetime) -> None:
        status = self._status(key, queue, now)
        if self._told.get(key) == status:
            return
        [condition] = status["conditions"]
        before, since = self._active_since.get(key, (None, ""))
        if before != condition["status"]:
            since = clocks.said(now)
            self._active_since[key] = condition["status"], since
        written = status | {
            "updatedAt": clocks.said(now),
            "conditions": [condition | {"lastTransitionTime": since}],
        }
        operations = [{"op": "add", "path": "/status", "value": written}]
        await self._cluster.patch_status(QUEUES, *key, operations)
        self._told[key] = status

    def _status(self, key: QueueKey, queue: Queue, now: datetime) -> dict[str, Any]:
        counts, oldest = self._cache.tally.count(key), self._cache.tally.oldest_pending(key)
        condition = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        if queue.is_paused:
            condition |= {
                "status": "False",
                "reason": "Paused",
                "message": "`paused` is set: it starts nothing",
            }
        status: dict[str, Any] = {
            name: sum(counts[state] for state in states) for name, states in STATES.items()
        }
        status["finishedLastMinutes"] = self._cache.tally.ended_lately(key, now)
        status["conditions"] = [condition]
        if oldest is not None:
            status["oldestPendingAt"] = clocks.said(oldest)
        return status
