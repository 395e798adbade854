"""What is not just N at once: a long line behind a limit, a cold start, a storm of retries, many queues."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench import measure, operator
from bench.api import JSON
from bench.creator import POD, queue, task
from bench.figures import rise
from bench.measure import TASKS, Yard
from bench.plane import Plane
from bench.session import say
from bench.watcher import Watcher

NAMES: Final = {"storm": "retry storm", "queues": "many queues", "line": "long line"}
QUEUE: Final = "limited"
NOWHERE: Final = "played-by-the-harness"
"""A node that does not exist: kwok leaves its pods alone."""
FAILURES: Final = 2
POLL: Final = 0.05
FILLED_WITHIN: Final = 600.0
CLAIMS_WITHIN: Final = 120.0
STATUS_PATCH: Final = "strategic-merge-patch+json"


@dataclass(frozen=True)
class Sizes:
    """How large the scenarios are."""

    limit: int = 100
    short: int = 100
    long: int = 10_000
    window: int = 300
    windows: int = 3
    storm: int = 200
    queues: int = 50
    in_queues: int = 500

    def smaller(self, share: float) -> Sizes:
        """For trials: the same steps."""
        fewer = {name: max(round(size * share), 2) for name, size in asdict(self).items()}
        return Sizes(**fewer | {"windows": self.windows})


# --- a long line, and a cold start before it -------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """Some hundred ends of tasks."""

    count: int
    seconds: float
    cpu_ms: float
    """Of the operator, for each."""
    strangers: float
    """How many processors others used."""
    lists: int
    """How often it listed everything meanwhile, which it does now and then, and which costs more where more is."""


class Line:
    """Tasks of one queue with a limit, of which always so many more wait."""

    def __init__(self, here: Yard, limit: int) -> None:
        self._here = here
        self._limit = limit
        self.created = 0
        self._is_fed = False

    @property
    def unfinished(self) -> int:
        return self.created - self._here.watcher.finished

    async def feed(self, waiting: int) -> None:
        """Whenever some have ended, as many come; as long as it is to be fed. Who is half created is created."""
        while self._is_fed:
            await self.fill(waiting)
            await asyncio.sleep(POLL)

    async def fill(self, waiting: int) -> None:
        missing = max(self._limit + waiting - self.unfinished, 0)
        names = [f"line-{number:06}" for number in range(self.created, self.created + missing)]
        self.created += missing
        await self._here.creator.create_all(task(name, queueName=QUEUE) for name in names)

    async def settle(self) -> None:
        """Until the operator has taken all of them in: each has a status."""
        watcher, count = self._here.watcher, self.created
        await watcher.until("all have a status", lambda: watcher.known >= count, FILLED_WITHIN)

    async def windows(self, waiting: int, sizes: Sizes) -> list[Window]:
        """While so many wait, several times."""
        self._is_fed = True
        feeding = asyncio.create_task(self.feed(waiting))
        try:
            await self._window(sizes.window)  # echoes of those that were taken in are still to be heard
            return [await self._window(sizes.window) for _ in range(sizes.windows)]
        finally:
            self._is_fed = False
            await feeding

    async def _window(self, count: int) -> Window:
        watcher, op, meter = self._here.watcher, self._here.operator, self._here.meter
        assert op is not None
        lists, before = op.said()[operator.LISTED], watcher.finished
        used, began = meter.cpu(), time.monotonic()
        await watcher.until("a window", lambda: watcher.finished >= before + count, FILLED_WITHIN)
        cpu, seconds, ended = rise(used, meter.cpu()), time.monotonic() - began, watcher.finished - before
        lists = op.said()[operator.LISTED] - lists
        return Window(ended, seconds, cpu["operator"] * 1000 / ended, cpu["others"] / seconds, lists)


async def long_line(plane: Plane, folder: Path, sizes: Sizes, until: float) -> JSON:
    """10,000 wait behind a limit of 100; the operator is killed when half are finished, and starts among all of them;
    then to the end, or as far as the time allows.
    """
    async with measure.yard(plane, TASKS, folder, is_last=True) as here:
        watcher, line = here.watcher, Line(here, sizes.limit)
        await _put_queue(here, QUEUE, maxConcurrent=sizes.limit)
        await line.fill(sizes.short)
        await line.settle()
        short = await line.windows(sizes.short, sizes)
        filled, used = time.monotonic(), _cpu(here)
        before = line.created, watcher.finished
        await line.fill(sizes.long)
        await line.settle()
        took_in = {
            "seconds": time.monotonic() - filled,
            "created": line.created - before[0],
            "finished": watcher.finished - before[1],
            "operator_cpu_s": _cpu(here) - used,
        }
        long = await line.windows(sizes.long, sizes)
        await _until_finished(watcher, line.created // 2, until)
        cold = await _cold_start(here, plane, folder)
        await _until_finished(watcher, line.created, until)
        assert here.operator is not None
        memory = here.operator.memory
        lives = list(watcher.lives.values())
        growth = _middle(long) / _middle(short)
        return {
            "short": [asdict(each) for each in short],
            "long": [asdict(each) for each in long],
            "took_in": took_in,
            "cold_start": cold,
            "created": line.created,
            "finished": watcher.finished,
            "memory": memory.now,
            "peak_memory": memory.peak,
            "duplicates": sum(life.duplicates for life in lives),
            "states": dict(Counter(life.state for life in lives)),
            "growth": growth,
            # A smaller trial proves nothing.
            "targets": {
                "growth": growth,
                "cold_start_s": cold["to_first_claim"],
                "memory_after_10000": memory.now if watcher.finished >= sizes.long else None,
            }
            if sizes == Sizes()
            else {},
        }


async def _cold_start(here: Yard, plane: Plane, folder: Path) -> JSON:
    """Kill the operator, start another one, and see it claim; afterwards that one is the yard's."""
    assert here.operator is not None
    here.operator.kill()
    await plane.quiet()
    watcher = here.watcher
    there, finished, claims = len(watcher.lives), watcher.finished, watcher.claims
    killed = time.monotonic()
    here.operator = operator.start(plane.kubeconfig, folder / f"{here.namespace}-again.log")
    await here.operator.ready()
    listed = time.monotonic()
    await watcher.until("a claim", lambda: watcher.claims > claims, CLAIMS_WITHIN)
    claimed = (life.claimed for life in watcher.lives.values() if life.claimed is not None)
    claim = min(each for each in claimed if each > killed)
    began = here.operator.started
    return {
        "tasks": there,
        "finished": finished,
        "to_listed": listed - began,
        "to_first_claim": claim - began,
        "operator_cpu_s": here.operator.cpu_seconds,
        "memory": here.operator.memory.now,
    }


async def _until_finished(watcher: Watcher, count: int, until: float) -> None:
    """So many; or as many as there are when the time is up."""
    try:
        seconds = max(until - time.monotonic(), 1.0)
        await watcher.until(f"{count} are finished", lambda: watcher.finished >= count, seconds)
    except TimeoutError as error:
        say(f"the time is up: {error}")


def _cpu(here: Yard) -> float:
    assert here.operator is not None
    return here.operator.cpu_seconds


def _middle(windows: list[Window]) -> float:
    return statistics.median(each.cpu_ms for each in windows)


async def _put_queue(here: Yard, name: str, **spec: Any) -> None:
    await here.plane.api.ask("POST", here.path("taskqueues"), queue(name, **spec))


# --- a storm of retries ----------------------------------------------------------------------------------


class Hand:
    """Plays the kubelet of a node that is not there: the first runs of every task fail."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self._plane = plane
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._runs = Counter[str]()
        self._working = set[asyncio.Task[None]]()

    def hear(self, kind: str, event: JSON) -> None:
        pod = event["object"]
        if kind != "Pod" or event["type"] != "ADDED":
            return
        owner = pod["metadata"]["labels"]["taskyard.dev/task"]
        self._runs[owner] += 1
        work = asyncio.create_task(self._end(pod, is_failure=self._runs[owner] <= FAILURES))
        self._working.add(work)
        work.add_done_callback(self._working.discard)

    async def _end(self, pod: JSON, *, is_failure: bool) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"exitCode": int(is_failure), "startedAt": now, "finishedAt": now}
        container = {
            "name": POD["containers"][0]["name"],
            "image": POD["containers"][0]["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": ended | {"reason": "Error" if is_failure else "Completed"}},
        }
        status = {"phase": "Failed" if is_failure else "Succeeded", "startTime": now}
        patch = {"status": status | {"containerStatuses": [container]}}
        path = f"{self._pods}/{pod['metadata']['name']}/status"
        await self._plane.api.ask("PATCH", path, patch, STATUS_PATCH)


async def retry_storm(plane: Plane, folder: Path, sizes: Sizes) -> JSON:
    """Every task fails twice, and is tried again at once. No log is read: there is no kubelet to ask."""

    def make(name: str) -> JSON:
        made = task(name, retry={"limit": FAILURES}, logs="None")
        made["spec"]["template"] = {"spec": {**POD, "nodeName": NOWHERE}}
        return made

    async with measure.yard(plane, TASKS, folder) as here:
        here.watcher.listeners.append(Hand(plane, here.namespace).hear)
        run = await measure.in_bulk(here, TASKS, measure.names(sizes.storm), make)
        attempts = Counter(life.attempts for life in here.watcher.lives.values())
        return {"run": run.as_json(), "attempts": {str(key): value for key, value in attempts.items()}}


# --- many queues -----------------------------------------------------------------------------------------


async def many_queues(plane: Plane, folder: Path, sizes: Sizes) -> JSON:
    """Each with a limit and its share of the tasks."""
    turns = itertools.cycle(f"queue-{number}" for number in range(sizes.queues))
    async with measure.yard(plane, TASKS, folder) as here:
        for number in range(sizes.queues):
            await _put_queue(here, f"queue-{number}", maxConcurrent=5)
        created = measure.names(sizes.in_queues)
        run = await measure.in_bulk(here, TASKS, created, lambda name: task(name, queueName=next(turns)))
        return {"run": run.as_json()}
