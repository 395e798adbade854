"""The status of queues: once a second, of those where something has changed. No decision hangs on it."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Never

from taskyard import backoff
from taskyard.cache import Cache
from taskyard.cluster import QUEUES, Cluster, ClusterError, NotFound, Rejected
from taskyard.core import clocks
from taskyard.core.choose import Queue, QueueKey
from taskyard.core.words import State
from taskyard.registry import QUEUE

logger = logging.getLogger(__name__)

EVERY: Final = 1.0
AT_ONCE: Final = 8
"""How many queues are written at the same time."""
LONGEST_PAUSE: Final = 5.0
"""For an API server that does not answer."""
LONGEST_REFUSAL: Final = 60.0
"""For one that refuses: a right that is missing does not come within a second."""

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

    def __init__(
        self, cluster: Cluster, cache: Cache, now: Callable[[], datetime], *, every: float = EVERY
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._now = now
        self._every = every
        self._told: dict[QueueKey, dict[str, Any]] = {}
        self._attended: set[QueueKey] = set()
        self._few = asyncio.Semaphore(AT_ONCE)
        self._minute: datetime | None = None

    async def run(self) -> Never:
        """Until cancelled. Every queue has somebody of its own while there is news of it: none waits for another."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._every)
                with no_task_waits_for_this():
                    for key in self._look():
                        self._attended.add(key)
                        group.create_task(self._attend(key))

    async def tell(self) -> None:
        """Write what has changed, once."""
        await asyncio.gather(*(self._tell(key) for key in self._look()))

    def _look(self) -> list[QueueKey]:
        """The queues that have news which nobody attends to."""
        now, tally = self._now(), self._cache.tally
        self._cache.line.stir(now)
        if (minute := now.replace(second=0, microsecond=0)) != self._minute:
            self._minute = minute
            tally.a_minute_has_passed(now)
        for key in [each for each in tally.changed if self._cache.queues[QUEUE, *each] is None]:
            tally.changed.discard(key)
            self._told.pop(key, None)
        return sorted(tally.changed - self._attended)

    async def _attend(self, key: QueueKey) -> None:
        """Tell one queue what is new until nothing is: with a second in between, and longer while that fails."""
        failures = 0
        try:
            while key in self._cache.tally.changed:
                error: ClusterError | None = None
                with no_task_waits_for_this():
                    error = await self._tell(key)
                failures = failures + 1 if error is not None else 0
                longest = LONGEST_REFUSAL if isinstance(error, Rejected) else LONGEST_PAUSE
                pause = backoff.delay(failures, first=self._every, longest=longest) if failures else 0.0
                await asyncio.sleep(max(pause, self._every))
        finally:
            self._attended.discard(key)

    async def _tell(self, key: QueueKey) -> ClusterError | None:
        """What has failed is made good the next time."""
        changed = self._cache.tally.changed
        async with self._few:
            changed.discard(key)
            if key in self._cache.new_queues:  # what was told to one of that name was told to another
                self._cache.new_queues.discard(key)
                self._told.pop(key, None)
            queue = self._cache.queues[QUEUE, *key]
            try:
                if queue is not None:
                    await self._write(key, queue)
                    return None
            except NotFound:
                pass  # deleted a moment ago
            except ClusterError as exc:
                told = {"namespace": key[0], "queue": key[1], "why": str(exc)}
                logger.warning("could not write the status of a queue", extra=told)
                changed.add(key)
                return exc
            self._told.pop(key, None)
            return None

    async def _write(self, key: QueueKey, queue: Queue) -> None:
        """Compared first: with what was written last, and before that with what another operator left there."""
        if (there := self._told.get(key)) is None:
            there = (await self._cluster.get(QUEUES, *key)).get("status", {})
            there.pop("updatedAt", None)
        now = self._now()
        status = self._status(key, queue, there, now)
        if status != there:
            written = status | {"updatedAt": clocks.said(now)}
            operations = [{"op": "add", "path": "/status", "value": written}]
            await self._cluster.patch_status(QUEUES, *key, operations)
        self._told[key] = status

    def _status(self, key: QueueKey, queue: Queue, there: dict[str, Any], now: datetime) -> dict[str, Any]:
        counts, oldest = self._cache.tally.count(key), self._cache.tally.oldest_pending(key)
        status: dict[str, Any] = {
            name: sum(counts[state] for state in states) for name, states in STATES.items()
        }
        status["finishedLastMinutes"] = self._cache.tally.ended_lately(key, now)
        status["conditions"] = [_condition(queue, there, now)]
        if oldest is not None:
            status["oldestPendingAt"] = clocks.said(oldest)
        return status


def _condition(queue: Queue, there: dict[str, Any], now: datetime) -> dict[str, Any]:
    """`Active`, since when it says what it says: that is on record, whoever wrote it."""
    condition = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    if queue.is_paused:
        condition |= {
            "status": "False",
            "reason": "Paused",
            "message": "`paused` is set: it starts nothing",
        }
    same = (each for each in there.get("conditions", ()) if each["type"] == condition["type"])
    since = next((each["lastTransitionTime"] for each in same if each["status"] == condition["status"]), None)
    return condition | {"lastTransitionTime": since or clocks.said(now)}


@contextmanager
def no_task_waits_for_this() -> Iterator[None]:
    """Whatever goes wrong here is said, and stops nobody."""
    try:
        yield
    except Exception:
        logger.exception("could not report")
