"""Dirty keys → snapshot → decide → apply: the only module that knows what is decided and how it is done."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Never, assert_never

from taskyard.cache import Cache
from taskyard.clock import Clock
from taskyard.cluster import (
    EVENTS,
    JOBS,
    PODS,
    TASKS,
    AlreadyExists,
    Cluster,
    ClusterError,
    Conflict,
    NotFound,
    Rejected,
    Unavailable,
)
from taskyard.core import announce, logs, manifest, parse, record
from taskyard.core.decide import decide
from taskyard.core.model import (
    CreateJob,
    Decision,
    DeleteJob,
    DeletePod,
    DeleteTask,
    EndPod,
    Hindrance,
    Job,
    Live,
    Log,
    Look,
    Pod,
    ReadLog,
    Refusal,
    Snapshot,
    Status,
    SuspendJob,
    Task,
    WriteStatus,
)
from taskyard.core.stopping import SHORTEST_LIMIT
from taskyard.core.words import Reason

logger = logging.getLogger(__name__)

WORKERS: Final = 16
SLOW_CREATE: Final = 1.0
FIRST_BACKOFF: Final = 0.5
LONGEST_BACKOFF: Final = 60.0
CONFLICTS_AT_ONCE: Final = 3
ANNOUNCEMENTS_KEPT: Final = 1000
LOG_PATIENCE: Final = 5.0
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
        self.announcements: deque[dict[str, Any]] = deque()
        self._announced = asyncio.Event()

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
        if isinstance(decision.action, ReadLog):
            log = await self._read_log(snapshot.task, decision.action.pod)
            snapshot = replace(snapshot, log=log)
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
        task = self._cache.task(uid)
        hold = hold_of(task) if task is not None else None
        snapshot = self._cache.snapshot(uid, claimer=self._claimer, hold=hold, live=live)
        if snapshot is None:
            self._clock.set(uid, None)
            self._just_claimed.pop(uid, None)
            self._conflicts.pop(uid, None)
        return snapshot

    async def _apply(self, task: Task, decision: Decision) -> None:
        match decision.action:
            case None:
                pass
            case WriteStatus(status=status):
                await self._write_status(task, status)
            case CreateJob():
                await self._create_job(task)
            case SuspendJob(job=job):
                await self._suspend_job(task, job)
            case DeleteJob(job=job):
                await self._delete_job(task, job)
            case EndPod(pod=pod):
                await self._end_pod(task, pod)
            case DeletePod(pod=pod, force=force):
                await self._delete_pod(task, pod, force)
            case DeleteTask():
                await self._delete_task(task)
            case Look() | ReadLog():
                raise AssertionError("what was asked for was just read, and decides")
            case _:
                assert_never(decision.action)
        wake_at = decision.wake_at
        self._clock.set(task.uid, (wake_at - self._now()).total_seconds() if wake_at else None)

    async def _write_status(self, task: Task, status: Status) -> None:
        patch = record.status_patch(task, status, self._now())
        answer = await self._cluster.patch_status(TASKS, task.namespace, task.name, patch)
        if (event := announce.event(task, status, self._now())) is not None:
            self._announce(event)
        if status.state is not task.status.state:
            logger.info(str(status.state).lower(), extra=_fields(task, status))
        if status.attempt > task.status.attempt:
            self._just_claimed[task.uid] = answer
        else:
            self._just_claimed.pop(task.uid, None)
        self._cache.see_task(answer)

    async def _create_job(self, task: Task) -> None:
        claimed = self._just_claimed.pop(task.uid, None)
        if claimed is None or parse.version(claimed) != task.resource_version:
            claimed = await self._cluster.get(TASKS, task.namespace, task.name)
            self._cache.see_task(claimed)
            if parse.task(claimed) != task:
                return  # it has changed: the cache knows now, and the key is dirty
        started = asyncio.get_running_loop().time()
        try:
            job = manifest.job(task, parse.payload(claimed), self._now())
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

    async def _suspend_job(self, task: Task, job: Job) -> None:
        patch = {"spec": {"suspend": True}}
        self._cache.see_job(
            task.uid, await self._cluster.patch(JOBS, task.namespace, job.name, job.uid, patch)
        )

    async def _delete_job(self, task: Task, job: Job) -> None:
        logger.info("deleting a job that is to make no more pods", extra=_fields(task) | {"job": job.name})
        with suppress(NotFound, Conflict):  # gone, or another Job of that name
            await self._cluster.delete(JOBS, task.namespace, job.name, job.uid)
        self._cache.miss_job(task.uid)

    async def _end_pod(self, task: Task, pod: Pod) -> None:
        logger.info("stopping a run", extra=_fields(task, task.status) | {"pod": pod.name})
        patch = {"spec": {"activeDeadlineSeconds": SHORTEST_LIMIT}}
        try:
            answer = await self._cluster.patch(PODS, pod.namespace, pod.name, pod.uid, patch)
        except (NotFound, Conflict):
            self._cache.miss_pod(pod)
        else:
            self._cache.see_pod(answer)

    async def _delete_pod(self, task: Task, pod: Pod, force: bool) -> None:
        fields = _fields(task) | {"pod": pod.name, "podAttempt": pod.attempt}
        logger.warning("deleting a pod", extra=fields | {"force": force})
        try:
            answer = await self._cluster.delete(PODS, pod.namespace, pod.name, pod.uid, force=force)
        except (NotFound, Conflict):
            self._cache.miss_pod(pod)  # gone, or another pod of that name
        else:
            if "spec" in answer:
                self._cache.see_pod(answer)

    async def _delete_task(self, task: Task) -> None:
        version = task.resource_version
        await self._cluster.delete(TASKS, task.namespace, task.name, task.uid, version=version)
        logger.info("deleted after its time to live", extra=_fields(task))
        self._cache.miss_task(task.uid)  # to be confirmed, as any deletion

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
                fields = {"announcement": event["metadata"]["name"], "why": str(exc)}
                logger.warning("could not post an event", extra=fields)

    async def _look(self, task: Task) -> Live | None:
        """Read all about one Task from the API server into the cache; None if it is gone, or has gone on meanwhile."""
        current = await self._read_task(task)
        if current is None:
            return None
        # The Job before the pods: one that is over or gone makes no more, so the list that follows shows them all.
        job = await self._read_job(current)
        found, moment = set[str](), 0
        async for page in self._cluster.pages(PODS, task.namespace, manifest.uid_selector(task.uid)):
            moment = page.resource_version
            for obj in page.items:
                found.add(parse.uid(obj))
                self._cache.see_pod(obj)
        for pod in self._cache.pods_of(task.uid):
            if pod.uid not in found and pod.resource_version <= moment:
                self._cache.miss_pod(pod, moment)
        seen = self._cache.task(task.uid)
        if seen is None or seen.status.attempt != current.status.attempt:
            self._cache.dirty.mark(
                task.uid
            )  # another operator has gone on: that was the Job of an earlier attempt
            return None
        is_childless = job is not None and not found and job.belongs_to(current) and not job.is_over
        live = Live(job, await self._complaint(current, job) if is_childless and job is not None else None)
        self._cache.looked(task.uid, self._now())
        return live

    async def _complaint(self, task: Task, job: Job) -> str | None:
        """Why a Job has no pod. Quotas and admission leave no other trace than the Events of its controller."""
        about = f"involvedObject.uid={job.uid},reason=FailedCreate"
        pages = [page async for page in self._cluster.pages(EVENTS, task.namespace, fields=about)]
        return parse.complaint([each for page in pages for each in page.items])

    async def _read_log(self, task: Task, pod: str) -> Log:
        """The end of a run's log. A courtesy too: no verdict waits long for it."""
        try:
            async with asyncio.timeout(LOG_PATIENCE):
                text = await self._cluster.read_log(task.namespace, pod, task.spec.main_container)
        except (ClusterError, TimeoutError) as exc:
            logger.info("no log to keep", extra=_fields(task) | {"pod": pod, "why": str(exc)})
            text = ""
        return Log(logs.tail(text))

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


def hold_of(task: Task) -> Hindrance | None:
    """What keeps an eligible task from being claimed. One queue exists without an object, and no other does."""
    if task.spec.queue == DEFAULT_QUEUE:
        return None
    return Hindrance(Reason.QUEUE_NOT_FOUND, f"there is no queue `{task.spec.queue}`")


def _fields(task: Task, status: Status | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {"namespace": task.namespace, "task": task.name, "uid": task.uid}
    if status is not None:
        fields |= {"state": str(status.state), "run": status.run, "attempt": status.attempt}
        fields |= {"reason": str(status.reason)} if status.reason else {}
    return fields
