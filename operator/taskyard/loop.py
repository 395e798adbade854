"""Dirty keys → snapshot → decide → apply: the only module that knows what is decided and how it is done."""

import asyncio
import heapq
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Never, assert_never

from taskyard.cache import Cache
from taskyard.cluster import (
    JOBS,
    PODS,
    TASKS,
    AlreadyExists,
    Cluster,
    Conflict,
    NotFound,
    Rejected,
    Unavailable,
)
from taskyard.core import manifest, parse
from taskyard.core.decide import decide
from taskyard.core.model import (
    CreateJob,
    Decision,
    Job,
    Live,
    Look,
    Pod,
    Refusal,
    Snapshot,
    State,
    Status,
    StopPod,
    Task,
    WriteStatus,
)

logger = logging.getLogger(__name__)

WORKERS: Final = 16
SLOW_CREATE: Final = 1.0
FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 60.0
CONFLICTS_AT_ONCE: Final = 3
LONGEST_SLEEP: Final = 600.0
"""A wall clock may be set while a timer runs by the monotonic one: think again at least this often."""


class Clock:
    """Every timer of every key: one heap, one sleeper. A key has one timer, its latest."""

    def __init__(self, ring: Callable[[str], None]) -> None:
        self._ring = ring
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._earlier = asyncio.Event()

    def set(self, uid: str, delay: float | None) -> None:
        """Ring for this key after so many seconds, and not when it was to ring before; None: not at all."""
        if delay is None:
            self._due.pop(uid, None)
            return
        due = asyncio.get_running_loop().time() + min(max(delay, 0.0), LONGEST_SLEEP)
        self._due[uid] = due
        heapq.heappush(self._heap, (due, uid))
        if self._heap[0] == (due, uid):
            self._earlier.set()

    async def run(self) -> Never:
        while True:
            self._earlier.clear()
            self._ring_all_due()
            next_due = self._heap[0][0] if self._heap else None
            try:
                async with asyncio.timeout_at(next_due):
                    await self._earlier.wait()
            except TimeoutError:
                pass

    def _ring_all_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due, uid = heapq.heappop(self._heap)
            if self._due.get(uid) == due:  # else the timer was moved or taken back
                del self._due[uid]
                self._ring(uid)


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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._claimer = claimer
        self._now = now
        self._clock = Clock(cache.dirty.mark)
        self._failures: dict[str, int] = {}
        self._conflicts: dict[str, int] = {}
        # From the answer to a claim until the launch right after it: saves reading the Task for its template.
        self._just_claimed: dict[str, parse.Json] = {}

    async def run(self) -> Never:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._clock.run(), name="clock")
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
        backoff = min(FIRST_BACKOFF * 2 ** min(failures - 1, 16), LONGEST_BACKOFF)
        delay = max(after, backoff * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, guards nothing
        logger.warning("will try again", extra={"uid": uid, "why": why, "after": round(delay, 2)})
        self._clock.set(uid, delay)

    async def step(self, uid: str) -> None:
        """Think once about one Task, and do what comes of it: at most one write."""
        snapshot = self._snapshot(uid)
        if snapshot is None:
            return
        decision = decide(snapshot, self._now())
        if isinstance(decision.action, Look):
            live = await self._look(snapshot.task)
            snapshot = self._snapshot(uid, live)
            if live is None or snapshot is None:
                return
            decision = decide(snapshot, self._now())
        try:
            await self._apply(snapshot.task, decision)
        except (Conflict, NotFound):
            # Somebody else was faster. Never merge: see what there is, and think again.
            logger.info("the task has changed, looking again", extra=_fields(snapshot.task))
            await self._read_task(snapshot.task)
            self._conflicts[uid] = self._conflicts.get(uid, 0) + 1
            if self._conflicts[uid] > CONFLICTS_AT_ONCE:
                raise Unavailable("the task changes faster than it can be read") from None
            self._cache.dirty.mark(uid)
        else:
            self._conflicts.pop(uid, None)

    def _snapshot(self, uid: str, live: Live | None = None) -> Snapshot | None:
        snapshot = self._cache.snapshot(uid, claimer=self._claimer, admitted=True, live=live)
        if snapshot is None:
            self._clock.set(uid, None)
            self._just_claimed.pop(uid, None)
        return snapshot

    async def _apply(self, task: Task, decision: Decision) -> None:
        match decision.action:
            case None:
                pass
            case WriteStatus(status=status):
                await self._write_status(task, status)
            case CreateJob():
                await self._create_job(task)
            case StopPod(pod=pod):
                await self._stop_pod(task, pod)
            case Look():
                raise AssertionError("a look was just taken, and decides")
            case _:
                assert_never(decision.action)
        wake_at = decision.wake_at
        self._clock.set(task.uid, (wake_at - self._now()).total_seconds() if wake_at else None)

    async def _write_status(self, task: Task, status: Status) -> None:
        patch = manifest.status_patch(task, status, self._now())
        answer = await self._cluster.patch_status(TASKS, task.namespace, task.name, patch)
        if status.state is not task.status.state:
            logger.info(_WORDS.get(status.state, "resolved"), extra=_fields(task, status))
        if status.attempt > task.status.attempt:
            self._just_claimed[task.uid] = answer
        self._cache.see_task(answer)

    async def _create_job(self, task: Task) -> None:
        claimed = self._just_claimed.pop(task.uid, None)
        if claimed is None:
            claimed = await self._cluster.get(TASKS, task.namespace, task.name)
            self._cache.see_task(claimed)
            if parse.task(claimed) != task:
                return  # it has changed: the cache knows now, and the key is dirty
        started = asyncio.get_running_loop().time()
        try:
            job = manifest.job(task, parse.template(claimed))
            answer = await self._cluster.create(JOBS, task.namespace, job)
        except AlreadyExists:
            answer = await self._cluster.get(JOBS, task.namespace, manifest.job_name(task))
        except (Rejected, manifest.Malformed) as exc:
            malformed = isinstance(exc, manifest.Malformed) or exc.malformed
            logger.warning("job refused", extra=_fields(task) | {"why": str(exc)})
            self._cache.see_refusal(task.uid, Refusal(malformed, str(exc), self._now()))
            return
        self._cache.see_job(task.uid, answer)
        # A create carries no precondition: in so much time the Task may have gone, or gone on.
        if asyncio.get_running_loop().time() - started > SLOW_CREATE:
            await self._read_task(task)

    async def _stop_pod(self, task: Task, pod: Pod) -> None:
        fields = _fields(task) | {"pod": pod.name, "podAttempt": pod.attempt}
        logger.warning("stopping a pod that is not the task's current attempt", extra=fields)
        try:
            answer = await self._cluster.delete(PODS, pod.namespace, pod.name, pod.uid)
        except (NotFound, Conflict):
            self._cache.miss_pod(pod)  # gone, or another pod of that name
        else:
            if "spec" in answer:
                self._cache.see_pod(answer)

    async def _look(self, task: Task) -> Live | None:
        """Read all about one Task from the API server into the cache; None if there is no such Task."""
        current = await self._read_task(task)
        if current is None:
            return None
        found, moment = set[str](), 0
        async for page in self._cluster.pages(PODS, task.namespace, manifest.uid_selector(task.uid)):
            moment = page.resource_version
            for obj in page.items:
                found.add(parse.uid(obj))
                self._cache.see_pod(obj)
        for pod in self._cache.pods_of(task.uid):
            if pod.uid not in found and pod.resource_version <= moment:
                self._cache.miss_pod(pod, moment)
        live = Live(job=await self._read_job(current))
        self._cache.looked(task.uid, self._now())
        return live

    async def _read_job(self, task: Task) -> Job | None:
        try:
            found = await self._cluster.get(JOBS, task.namespace, manifest.job_name(task))
        except NotFound:
            return None
        self._cache.see_job(task.uid, found)
        return parse.job(found)

    async def _read_task(self, task: Task) -> Task | None:
        """The Task as it is now, in the cache too; None if it is gone, and then forgotten."""
        try:
            found: dict[str, Any] | None = await self._cluster.get(TASKS, task.namespace, task.name)
        except NotFound:
            found = None
        if found is None or parse.uid(found) != task.uid:
            logger.info("task is gone", extra=_fields(task))
            self._cache.forget_task(task.uid)
            return None
        self._cache.see_task(found)
        self._cache.found_task(task.uid)
        return parse.task(found)


_WORDS: Final = {State.CLAIMED: "claimed", State.RUNNING: "running", State.PENDING: "pending"}


def _fields(task: Task, status: Status | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {"namespace": task.namespace, "task": task.name, "uid": task.uid}
    if status is not None:
        fields |= {"state": str(status.state), "run": status.run, "attempt": status.attempt}
        fields |= {"reason": str(status.reason)} if status.reason else {}
    return fields
