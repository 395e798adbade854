"""What one event costs while many tasks wait: `python -m bench.decisions`, a table of microseconds.

One event is the end of a task in a full queue: the operator takes it in, frees the slot, chooses who goes next, decides
and claims it. The real loop and cache run, against a cluster in memory; sizes are interleaved, so that noise hits all.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from datetime import UTC, datetime

from taskyard.cache import Cache
from taskyard.cluster import QUEUES, TASKS
from taskyard.loop import Loop
from tests.unit.contract import new_task
from tests.unit.fake import FakeCluster

SIZES = (100, 1_000, 10_000)
EVENTS = 300
ROUNDS = 3
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Yard:
    """An operator with one task at work, and so many behind it."""

    def __init__(self, size: int) -> None:
        self.cluster = FakeCluster(now=lambda: NOW)
        self.cache = Cache()
        self.loop = Loop(self.cluster, self.cache, claimer="op", now=lambda: NOW)
        self.size = size
        self.at_work = ""

    async def fill(self) -> None:
        metadata = {"name": "q", "namespace": "default", "uid": "queue"}
        spec = {"paused": False, "maxConcurrent": 1, "ageing": {"secondsPerPoint": 60}}
        self.cluster.put(QUEUES, {"kind": "TaskQueue", "metadata": metadata, "spec": spec})
        self.cache.queues.see(self.cluster.all(QUEUES)[0])
        for number in range(self.size + EVENTS * ROUNDS + 1):
            made = new_task(f"task-{number:06}", "default")
            made["spec"] = made["spec"] | {"queueName": "q"}
            self.cache.see_task(await self.cluster.create(TASKS, "default", made))
        await self.settle()
        self.at_work = next(task.name for task in self.cache.tasks() if task.status.claimed_at is not None)

    async def settle(self) -> None:
        while not self.cache.dirty.is_idle:
            uid = await self.cache.dirty.take()
            await self.loop.step(uid)
            self.cache.dirty.done(uid)

    async def event(self) -> float:
        """Seconds from the news that the one at work is deleted to the claim and the Job of the next."""
        known = self.cache.named("default", self.at_work)
        assert known is not None
        self.cluster.remove(TASKS, "default", self.at_work)
        began = time.perf_counter()
        self.cache.miss_task(known.uid)
        await self.settle()
        took = time.perf_counter() - began
        holder = self.cache.line.holders()
        assert len(holder) == 1, "one at a time"
        task = self.cache.task(next(iter(holder)))
        assert task is not None
        self.at_work = task.name
        return took


async def main() -> None:
    yards = [Yard(size) for size in SIZES]
    for yard in yards:
        await yard.fill()
    medians: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for yard in yards:
            took = [await yard.event() for _ in range(EVENTS)]
            medians[yard.size].append(statistics.median(took) * 1e6)
    print("waiting   µs an event (median of", EVENTS, "events; best and worst of", ROUNDS, "rounds)")
    for size, found in medians.items():
        print(f"{size:>7,}   {statistics.median(found):6.0f}   ({min(found):.0f} to {max(found):.0f})")
    print(
        f"10,000 against 100: {statistics.median(medians[10_000]) / statistics.median(medians[100]):.2f} times"
    )


if __name__ == "__main__":
    asyncio.run(main())
