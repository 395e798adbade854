"""What one event costs while many tasks wait: `python -m bench.decisions`, tables of microseconds.

One event is the end of a task in a full queue: the operator takes in that its pod has ended, writes the verdict, frees
the slot, chooses who goes next, claims it and makes its Job. Behind a rate it is the moment when the next one may
start. The real loop and cache run, against a cluster in memory; shapes are interleaved, so that noise hits all.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from taskyard.cache import Cache
from taskyard.cluster import JOBS, QUEUES, TASKS
from taskyard.core import manifest
from taskyard.core.model import Task
from taskyard.loop import Loop
from tests.unit.contract import new_task
from tests.unit.fake import FakeCluster

EVENTS = 200
ROUNDS = 5
WINDOW = timedelta(seconds=10)
TIME = "2026-01-01T00:00:10Z"


@dataclass(frozen=True)
class Shape:
    """So many wait, of so many tenants, for a slot or for a rate."""

    waiting: int
    tenants: int = 1
    is_rated: bool = False

    def __str__(self) -> str:
        return f"{self.waiting:>7,}  {self.tenants:>7,}  {'rate' if self.is_rated else 'slot'}"


TABLES = {
    "many waiting": (Shape(100), Shape(1_000), Shape(10_000)),
    "many tenants": (Shape(1_000), Shape(1_000, 100), Shape(1_000, 1_000)),
    "a rate": (
        Shape(1_000, is_rated=True),
        Shape(1_000, 100, is_rated=True),
        Shape(1_000, 1_000, is_rated=True),
    ),
}


class Yard:
    """An operator with one task at work, and so many behind it for as many events."""

    def __init__(self, shape: Shape, events: int = EVENTS * ROUNDS) -> None:
        self.now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
        self.cluster = FakeCluster(now=lambda: self.now)
        self.cache = Cache()
        self.loop = Loop(self.cluster, self.cache, claimer="op", now=lambda: self.now)
        self.shape = shape
        self.events = events
        self.steps = 0

    async def fill(self) -> None:
        metadata = {"name": "q", "namespace": "default", "uid": "queue"}
        spec: dict[str, Any] = {"paused": False, "ageing": {"secondsPerPoint": 60}}
        spec["fairness"] = {"labelKey": "team"}
        if self.shape.is_rated:
            spec["rateLimit"] = {"tasks": 1, "perSeconds": int(WINDOW.total_seconds())}
        else:
            spec["maxConcurrent"] = 1
        self.cluster.put(QUEUES, {"kind": "TaskQueue", "metadata": metadata, "spec": spec})
        self.cache.queues.see(self.cluster.all(QUEUES)[0])
        for number in range(self.shape.waiting + self.events + 1):
            made = new_task(f"task-{number:06}", "default")
            made["metadata"]["labels"] = {"team": f"team-{number % self.shape.tenants}"}
            made["spec"] = made["spec"] | {"queueName": "q"}
            self.cache.see_task(await self.cluster.create(TASKS, "default", made))
        await self.settle()

    async def settle(self) -> None:
        while not self.cache.dirty.is_idle:
            uid = await self.cache.dirty.take()
            await self.loop.step(uid)
            self.cache.dirty.done(uid)
            self.steps += 1

    async def event(self) -> Callable[[], Awaitable[None]]:
        """Make ready for one, and return what is to be measured."""
        if self.shape.is_rated:
            self.now += WINDOW + timedelta(seconds=1)
            [waker] = self.cache.line.wakers()
            news = partial(self.cache.dirty.mark, waker)
        else:
            task = self._at_work()
            job = await self.cluster.get(JOBS, "default", manifest.job_name(task))
            self.cache.see_pod(_pod(job, "Running", {"running": {"startedAt": TIME}}, 1))
            await self.settle()
            ended = {"exitCode": 0, "startedAt": TIME, "finishedAt": TIME}
            news = partial(self.cache.see_pod, _pod(job, "Succeeded", {"terminated": ended}, 2))
        self.cluster.calls.clear()

        async def happen() -> None:
            news()
            await self.settle()
            assert self.cluster.calls.count(("create", JOBS.plural)) == 1, "one goes"

        return happen

    def _at_work(self) -> Task:
        [uid] = self.cache.line.holders()
        task = self.cache.task(uid)
        assert task is not None
        return task


def _pod(job: dict[str, Any], phase: str, state: dict[str, Any], version: int) -> dict[str, Any]:
    """What the Job controller and a kubelet make of a Job."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    return {
        "metadata": {
            "name": f"{name}-abcde",
            "namespace": "default",
            "uid": f"pod-of-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": TIME,
            "labels": template["metadata"]["labels"] | {"job-name": name},
            "ownerReferences": [{"kind": "Job", "name": name, "controller": True}],
        },
        "spec": template["spec"] | {"nodeName": "node-1"},
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]},
    }


async def measure(shapes: tuple[Shape, ...]) -> dict[Shape, list[float]]:
    """Medians of each round."""
    yards = [Yard(shape) for shape in shapes]
    for yard in yards:
        await yard.fill()
    medians: dict[Shape, list[float]] = {shape: [] for shape in shapes}
    for _ in range(ROUNDS):
        for yard in yards:
            took = []
            for _ in range(EVENTS):
                happen = await yard.event()
                began = time.perf_counter()
                await happen()
                took.append(time.perf_counter() - began)
            medians[yard.shape].append(statistics.median(took) * 1e6)
    return medians


async def main() -> None:
    print(f"µs an event: median of {EVENTS} events; best and worst of {ROUNDS} rounds")
    for name, shapes in TABLES.items():
        medians = await measure(shapes)
        first = statistics.median(medians[shapes[0]])
        print(f"\n{name}\nwaiting  tenants  for        µs")
        for shape, found in medians.items():
            middle = statistics.median(found)
            print(
                f"{shape}  {middle:8.0f}  ({min(found):.0f} to {max(found):.0f}), {middle / first:.2f} times"
            )


if __name__ == "__main__":
    asyncio.run(main())
