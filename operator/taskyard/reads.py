"""Everything that is read about one Task from the API server: no cache is trusted to say that something is gone."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from taskyard.cache import Cache
from taskyard.cluster import DEFINITIONS, EVENTS, JOBS, PODS, TASKS, Cluster, ClusterError, NotFound
from taskyard.core import duplicates, logs, manifest, parse
from taskyard.core.choose import type_of
from taskyard.core.model import Job, Live, Log, Pod, Rival, Status, Task
from taskyard.core.words import State

logger = logging.getLogger(__name__)

LOG_PATIENCE: Final = 5.0


class Reads:
    """The operator's second look. What it sees enters the cache too."""

    def __init__(self, cluster: Cluster, cache: Cache, now: Callable[[], datetime]) -> None:
        self._cluster = cluster
        self._cache = cache
        self._now = now

    async def look(self, task: Task) -> Live | None:
        """Read all about one Task from the API server into the cache; None if it is gone, or has gone on meanwhile."""
        current = await self.task(task)
        if current is None:
            return None
        # The Job before the pods: one that is over or gone makes no more, so the list that follows shows them all.
        job = await self._job(current)
        found, moment = set[str](), 0
        async for page in self._cluster.pages(PODS, task.namespace, manifest.uid_selector(task.uid)):
            moment = page.resource_version
            for obj in page.items:
                found.add(parse.uid(obj))
                self._cache.see_pod(obj)
        for pod in self._cache.pods_of(task.uid):
            if pod.uid not in found and pod.resource_version <= moment:
                self._cache.miss_pod(pod, moment)
        if (
            job is not None
            and not job.is_over
            and any(_is_let_go(pod) for pod in self._cache.pods_of(task.uid))
        ):
            later = await self._job(current)  # it may have counted that pod meanwhile
            job = replace(job, has_counted=later is None or later.is_over or later.has_counted)
        if await self._has_gone_on(current):
            self._cache.dirty.mark(task.uid)  # that was the Job of an earlier attempt
            return None
        live = Live(job, await self._complaint(current, job, is_childless=not found))
        self._cache.looked(task.uid, self._now())
        return live

    async def _has_gone_on(self, task: Task) -> bool:
        """Whether another operator has claimed it since it was read: then its pod only looks like a stray."""
        seen = self._cache.task(task.uid)
        if any(pod.attempt > task.status.attempt for pod in self._cache.pods_of(task.uid)):
            seen = await self.task(task)  # the pods were read after the Task
        return seen is None or seen.status.attempt != task.status.attempt

    async def _complaint(self, task: Task, job: Job | None, *, is_childless: bool) -> str | None:
        """Why a Job has no pod, or a pod does not start. Quotas, admission and volumes leave no trace but Events."""
        about = None
        if is_childless and job is not None and job.belongs_to(task) and not job.is_over:
            about = f"involvedObject.uid={job.uid},reason=FailedCreate"
        elif (pod := self._unstarted(task)) is not None:
            about = f"involvedObject.uid={pod.uid},type=Warning"
        if about is None:
            return None
        try:
            pages = [page async for page in self._cluster.pages(EVENTS, task.namespace, fields=about)]
        except ClusterError as exc:  # a courtesy: nothing waits for it
            logger.info("cannot read events", extra=fields(task) | {"why": str(exc)})
            return None
        return parse.complaint([each for page in pages for each in page.items])

    def _unstarted(self, task: Task) -> Pod | None:
        """A pod of it that has a node, and of which nobody says why it does not start."""
        if task.status.state is not State.CLAIMED:
            return None
        for pod in self._cache.pods_of(task.uid):
            if pod.node is not None and pod.is_alive and pod.hindrance is None and not pod.has_started:
                return pod
        return None

    async def log(self, task: Task, pod: str) -> Log:
        """The end of a run's log. A courtesy too: no verdict waits long for it."""
        try:
            async with asyncio.timeout(LOG_PATIENCE):
                text = await self._cluster.read_log(task.namespace, pod, task.spec.main_container)
        except (ClusterError, TimeoutError) as exc:
            logger.info("no log to keep", extra=fields(task) | {"pod": pod, "why": str(exc)})
            text = ""
        return Log(logs.tail(text))

    async def absent(self, task: Task, names: Sequence[str]) -> frozenset[str]:
        """Which Tasks of these names there are not; those that there are enter the cache."""
        missing = set()
        for name in names:
            try:
                self._cache.see_task(await self._cluster.get(TASKS, task.namespace, name))
            except NotFound:
                missing.add(name)
        return frozenset(missing)

    async def rivals(self, task: Task) -> tuple[Rival, ...]:
        """All others with its `idempotencyKey`, as they are now."""
        key = task.spec.idempotency_key
        found = []
        async for page in self._cluster.pages(TASKS, task.namespace, fields=f"spec.idempotencyKey={key}"):
            for obj in page.items:
                self._cache.see_task(obj)
                other = self._cache.task(parse.uid(obj))
                if other is not None and other.uid != task.uid:
                    found.append(duplicates.as_rival(other))
        return tuple(found)

    async def definition(self, task: Task) -> None:
        """What a Task's `definitionRef` names, or that it is not there: into the cache."""
        ref = task.spec.definition
        if ref is None:
            return
        kind, key, known = DEFINITIONS[ref.kind], type_of(ref, task.namespace), self._cache.definitions
        before = known.version_of(key)
        try:
            namespace = task.namespace if kind.is_namespaced else None
            known.see(await self._cluster.get(kind, namespace, ref.name))
        except NotFound:
            known.not_found(key, before)

    async def _job(self, task: Task) -> Job | None:
        try:
            found = await self._cluster.get(JOBS, task.namespace, manifest.job_name(task))
        except NotFound:
            return None
        self._cache.see_job(task.uid, found)
        return parse.job(found)

    async def task(self, task: Task) -> Task | None:
        """The Task as it is now, in the cache too; None if it is gone, and then forgotten."""
        try:
            found: dict[str, Any] | None = await self._cluster.get(TASKS, task.namespace, task.name)
        except NotFound:
            found = None
        if found is None or parse.uid(found) != task.uid:
            logger.info("task is gone", extra=fields(task))
            self._cache.forget_task(task.uid, self._now())
            return None
        self._cache.see_task(found)
        self._cache.found_task(task.uid)
        return parse.task(found)


def fields(task: Task, status: Status | None = None) -> dict[str, Any]:
    """What a line of the log says about a Task."""
    told: dict[str, Any] = {"namespace": task.namespace, "task": task.name, "uid": task.uid}
    if status is not None:
        told |= {"state": str(status.state), "run": status.run, "attempt": status.attempt}
        told |= {"reason": str(status.reason)} if status.reason else {}
    return told


def _is_let_go(pod: Pod) -> bool:
    """Whether it is over and its Job has no hold on it any more, be it counted or not."""
    return pod.is_over and pod.deleting and not pod.is_tracked
