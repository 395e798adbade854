"""One measured run: so many raw Jobs or Tasks at once, or one at a time; what they took and what they cost."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench import exposition, lag, operator, processes
from bench.creator import Creator, job, task
from bench.exposition import Request
from bench.figures import Latencies, apart, rise
from bench.lag import Lags
from bench.operator import Operator
from bench.plane import Plane
from bench.watcher import Life, Watcher, watching

JOBS: Final = "raw Jobs"
TASKS: Final = "Taskyard"
MAKERS: Final = {JOBS: job, TASKS: task}

SETTLED_WITHIN: Final = 900.0
ONE_WITHIN: Final = 60.0
PAUSE: Final = 0.3
"""Between two that come one at a time: what is left to do of the one is done."""


@dataclass(frozen=True)
class Cost:
    """What was used between two moments."""

    seconds: float
    cpu: dict[str, float]
    """Seconds of a processor: the parts of the control plane, the operator, this harness, and all others there were."""
    cpu_afterwards: dict[str, float]
    """What is left to do when the last one has ended: Jobs that are told of their pods, a second later."""
    requests: Counter[Request]
    """With those afterwards."""


NOTHING: Final = Cost(0.0, {}, {}, Counter())
"""Where the cost was not measured: of tasks that come one at a time it is lost in what an idle control plane does."""


@dataclass(frozen=True)
class Run:
    """What is written of one run; times in seconds, memory in MiB."""

    what: str
    count: int
    seconds: float
    """From the first create to the last verdict."""
    rate: float
    pods_rate: float | None
    """By the end of the last pod, whoever is told of it when."""
    cpu_ms: dict[str, float]
    """A task, up to the last verdict."""
    cpu_ms_afterwards: dict[str, float]
    """Until nothing is left to do."""
    submit_to_job: Latencies
    submit_to_verdict: Latencies
    pod_to_verdict: Latencies
    answer: Latencies
    """Of a create."""
    watch_lag: Latencies
    """From the answer to a create to its event, here."""
    operator_lag: Latencies
    our_lag: Latencies
    writes_a_task: float | None
    requests_a_task: dict[str, float]
    conflicts: int
    duplicates: int
    states: dict[str, int]
    peak_memory: float | None = None
    memory: float | None = None
    said: dict[str, int] = field(default_factory=dict)
    """What the operator has warned of."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Meter:
    """Reads what was used. The metrics are read outside of what is measured: the page is large."""

    def __init__(self, plane: Plane, op: Operator | None) -> None:
        self._plane = plane
        self._operator = op

    def cpu(self) -> dict[str, float]:
        found = self._plane.cpu_seconds() | {"harness": time.process_time()}
        if self._operator is not None:
            found["operator"] = self._operator.cpu_seconds
        machine = processes.of_the_machine()
        return found | {"others": machine["busy"] - sum(found.values()), "stolen": machine["stolen"]}

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[list[Cost]]:
        """What is done meanwhile; its cost is in the list afterwards."""
        found: list[Cost] = []
        asked = exposition.requests(await self._plane.api.text("/metrics"))
        before, began = self.cpu(), time.monotonic()
        yield found
        seconds, then = time.monotonic() - began, self.cpu()
        await self._plane.quiet(*([self._operator.pid] if self._operator is not None else []))
        afterwards = rise(then, self.cpu())
        answered = exposition.requests(await self._plane.api.text("/metrics"))
        answered.subtract(asked)
        requests = Counter({key: each for key, each in answered.items() if each})
        found.append(Cost(seconds, rise(before, then), afterwards, requests))


@dataclass
class Yard:
    """Where a run takes place: a namespace, watched, and an operator if the run needs one."""

    plane: Plane
    namespace: str
    watcher: Watcher
    creator: Creator
    meter: Meter
    operator: Operator | None

    def path(self, plural: str, api: str = "/apis/taskyard.dev/v1alpha1") -> str:
        return f"{api}/namespaces/{self.namespace}/{plural}"

    async def quiet(self) -> None:
        await self.plane.quiet(*([self.operator.pid] if self.operator is not None else []))


@asynccontextmanager
async def yard(plane: Plane, what: str, folder: Path, *, is_last: bool = False) -> AsyncIterator[Yard]:
    """A new one. Raw Jobs have no operator beside them. After the last one nobody cleans up, if all goes anyway."""
    async with plane.namespace(is_last=is_last) as namespace, watching(plane.api, namespace) as watcher:
        op = operator.start(plane.kubeconfig, folder / f"{namespace}.log") if what == TASKS else None
        here = Yard(plane, namespace, watcher, Creator(plane.api, namespace, watcher), Meter(plane, op), op)
        try:
            if op is not None:
                await op.ready()
            yield here
        finally:
            if here.operator is not None:  # it may be another one by now
                await here.operator.stop()


async def at_once(
    plane: Plane, what: str, count: int, folder: Path, make: Callable[[str], Any] | None = None
) -> Run:
    """So many, as fast as they can be created."""
    async with yard(plane, what, folder) as here:
        return await in_bulk(here, what, names(count), make or MAKERS[what])


async def in_bulk(here: Yard, what: str, created: list[str], make: Callable[[str], Any]) -> Run:
    await here.quiet()
    done = here.watcher.finished + len(created)
    port = here.operator.port if here.operator is not None else None
    async with here.meter.measuring() as costs, lag.probing(port) as lags:
        await here.creator.create_all(make(name) for name in created)
        await here.watcher.until("all have ended", lambda: here.watcher.finished >= done, SETTLED_WITHIN)
    lives = {name: here.watcher.lives[name] for name in created}
    return run_of(what, lives, costs[0], lags, here.operator)


async def one(here: Yard, what: str, name: str) -> Life:
    """Alone, from its creation until it has ended and nothing is left to do."""
    life = here.watcher.lives[name]
    await here.creator.create(MAKERS[what](name))
    await here.watcher.until(f"{name} has ended", lambda: life.finished is not None, ONE_WITHIN)
    await asyncio.sleep(PAUSE)
    return life


async def idle(plane: Plane, count: int, folder: Path) -> dict[str, Run]:
    """One at a time; raw Jobs and Tasks alternate, each in a namespace of its own, beside the same operator."""
    async with yard(plane, TASKS, folder) as tasks, yard(plane, JOBS, folder) as jobs:
        await in_bulk(tasks, TASKS, names(5, "warm"), task)
        runs: dict[str, Run] = {}
        lives: dict[str, dict[str, Life]] = {JOBS: {}, TASKS: {}}
        async with lag.probing(None) as lags:
            for name in names(count):
                for what, here in ((JOBS, jobs), (TASKS, tasks)):
                    lives[what][name] = await one(here, what, name)
        for what in (JOBS, TASKS):
            runs[what] = run_of(what, lives[what], NOTHING, lags, None)
        return runs


def names(count: int, prefix: str = "task") -> list[str]:
    return [f"{prefix}-{number:05}" for number in range(count)]


def run_of(what: str, lives: Mapping[str, Life], cost: Cost, lags: Lags, op: Operator | None) -> Run:
    each, count = list(lives.values()), len(lives)
    begun = min(life.submitted for life in each if life.submitted is not None)
    ended = max(life.finished for life in each if life.finished is not None)
    memory = op.memory if op is not None else None
    pods = [life.pod_ended for life in each]
    return Run(
        what=what,
        count=count,
        seconds=ended - begun,
        rate=count / (ended - begun),
        pods_rate=count / (max(ends) - begun)
        if (ends := [each for each in pods if each is not None])
        else None,
        cpu_ms={part: used * 1000 / count for part, used in cost.cpu.items()},
        cpu_ms_afterwards={part: used * 1000 / count for part, used in cost.cpu_afterwards.items()},
        submit_to_job=Latencies.of(apart(life.submitted, life.job_seen) for life in each),
        submit_to_verdict=Latencies.of(apart(life.submitted, life.finished) for life in each),
        pod_to_verdict=Latencies.of(apart(life.pod_ended, life.finished) for life in each),
        answer=Latencies.of(apart(life.submitted, life.answered) for life in each),
        watch_lag=Latencies.of(apart(life.answered, life.seen) for life in each),
        operator_lag=Latencies.of(lags.operator),
        our_lag=Latencies.of(lags.ours),
        writes_a_task=exposition.task_writes(cost.requests) / count if cost.requests else None,
        requests_a_task=requests_a_task(cost.requests, count),
        conflicts=exposition.conflicts(cost.requests),
        duplicates=sum(life.duplicates for life in each),
        states=dict(Counter(life.state for life in each)),
        peak_memory=memory.peak if memory else None,
        memory=memory.now if memory else None,
        said=op.complaints() if op is not None else {},
    )


def requests_a_task(found: Mapping[Request, int], count: int) -> dict[str, float]:
    """By verb and resource, the most frequent first; what is not a hundredth of a request a task is left out."""
    sorts = exposition.by_sort(found).most_common()
    often = itertools.takewhile(lambda sort: sort[1] >= count / 100, sorts)
    return {f"{verb} {resource}": number / count for (verb, resource), number in often}
