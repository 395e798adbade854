"""Everything that is written to the cluster for a Task: one method for each action that `decide` knows."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

from taskyard.cache import Cache
from taskyard.cluster import BUDGETS, JOBS, PODS, TASKS, AlreadyExists, Cluster, Conflict, NotFound, Rejected
from taskyard.core import announce, manifest, parse, record
from taskyard.core.actions import (
    Action,
    Ask,
    CreateJob,
    DeleteJob,
    DeletePod,
    DeleteTask,
    EndPod,
    Look,
    ReadLog,
    Shield,
    SuspendJob,
    Unshield,
    WriteStatus,
)
from taskyard.core.model import Job, Pod, Status, Task
from taskyard.core.refusals import Refusal
from taskyard.core.stopping import SHORTEST_LIMIT
from taskyard.reads import Reads, fields

logger = logging.getLogger(__name__)

SLOW_CREATE: Final = 1.0
SHIELD_TRUSTED_FOR: Final = timedelta(minutes=1)


class Writes:
    """The operator's hands. Whatever they did is in the cluster: they may be cut off at any await."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        reads: Reads,
        now: Callable[[], datetime],
        announce: Callable[[dict[str, Any]], None],
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._reads = reads
        self._now = now
        self._announce = announce
        self._shielded_at: dict[str, datetime] = {}
        # From the answer to a claim until its Job is made, or refused: what is in hand. Until the Task changes it also
        # saves reading it for its template.
        self._just_claimed: dict[str, parse.Json] = {}

    def forget(self, uid: str) -> None:
        """There is nothing to launch of it any more."""
        self._just_claimed.pop(uid, None)

    def is_to_launch(self, uid: str) -> bool:
        """Whether it was claimed a moment ago, and its Job is to follow."""
        return uid in self._just_claimed

    @property
    def has_launched_all(self) -> bool:
        """Whether no Job of a claim is left to be made."""
        return not self._just_claimed

    async def apply(self, task: Task, action: Action | None) -> None:
        """Do it: at most one write. The answer goes to the cache, by the same door as an event."""
        match action:
            case None:
                pass
            case WriteStatus(status=status):
                await self._write_status(task, status)
            case CreateJob():
                await self._create_job(task, action)
            case Shield():
                await self._shield(task)
            case Unshield(pod=pod):
                await self._unshield(task, pod)
            case SuspendJob() | DeleteJob() | EndPod() | DeletePod():
                await self._end(task, action)
            case DeleteTask():
                await self._delete_task(task)
            case Look() | Ask() | ReadLog():
                raise AssertionError("what was asked for was just read, and decides")
            case _:
                assert_never(action)

    async def _write_status(self, task: Task, status: Status) -> None:
        patch = record.status_patch(task, status, self._now())
        answer = await self._cluster.patch_status(TASKS, task.namespace, task.name, patch)
        if (event := announce.event(task, status, self._now())) is not None:
            self._announce(event)
        if status.state is not task.status.state:
            logger.info(str(status.state).lower(), extra=fields(task, status))
        if status.attempt > task.status.attempt:
            self._just_claimed[task.uid] = answer
        else:
            self._just_claimed.pop(task.uid, None)
        self._cache.see_task(answer)

    async def _create_job(self, task: Task, action: CreateJob) -> None:
        claimed = self._just_claimed.get(task.uid)
        if claimed is None or parse.version(claimed) != task.resource_version:
            claimed = await self._cluster.get(TASKS, task.namespace, task.name)
            self._cache.see_task(claimed)
            if (parse.uid(claimed), parse.version(claimed)) != (task.uid, task.resource_version):
                return  # it has changed: the cache knows now, and the key is dirty
        started = asyncio.get_running_loop().time()
        try:
            write = manifest.placeholder if action.is_placeholder else manifest.job
            job = write(task, parse.payload(claimed, action.template), self._now())
            answer = await self._cluster.create(JOBS, task.namespace, job)
        except AlreadyExists:
            answer = await self._cluster.get(JOBS, task.namespace, manifest.job_name(task))
        except (Rejected, manifest.Malformed) as exc:
            malformed = isinstance(exc, manifest.Malformed) or exc.malformed
            logger.warning("job refused", extra=fields(task) | {"why": str(exc)})
            self.forget(task.uid)
            self._cache.see_refusal(task.uid, Refusal(malformed, str(exc), self._now()))
            return
        self.forget(task.uid)
        self._cache.see_job(task.uid, answer)
        # A create carries no precondition: in so much time the Task may have gone, or gone on.
        if asyncio.get_running_loop().time() - started > SLOW_CREATE:
            await self._reads.task(task)

    def is_shielded(self, namespace: str) -> bool:
        """Whether the budget was there a moment ago. Somebody may delete it any time."""
        since = self._shielded_at.get(namespace)
        return since is not None and self._now() - since < SHIELD_TRUSTED_FOR

    def _trust_shield_of(self, namespace: str) -> None:
        """Others are forgotten when they are trusted no more: namespaces come and go."""
        self._shielded_at = {each: at for each, at in self._shielded_at.items() if self.is_shielded(each)}
        self._shielded_at[namespace] = self._now()

    async def _shield(self, task: Task) -> None:
        try:
            await self._cluster.create(BUDGETS, task.namespace, manifest.shield())
        except AlreadyExists:
            pass
        except Rejected as exc:
            logger.warning("cannot keep evictions off", extra=fields(task) | {"why": str(exc)})
            said = f"no PodDisruptionBudget for `onShutdown: Continue`: {exc}"
            self._cache.see_refusal(task.uid, Refusal(False, said, self._now()))
            return
        self._trust_shield_of(task.namespace)
        self._cache.dirty.mark(task.uid)

    async def _unshield(self, task: Task, pod: Pod) -> None:
        logger.info("a pod may be evicted from now on", extra=fields(task) | {"pod": pod.name})
        await self._patch_pod(pod, manifest.unshielded())

    async def _end(self, task: Task, action: SuspendJob | DeleteJob | EndPod | DeletePod) -> None:
        """Something of the task's, for whatever reason. If that is refused, its user is to know."""
        try:
            match action:
                case SuspendJob(job=job):
                    await self._suspend_job(task, job)
                case DeleteJob(job=job):
                    await self._delete_job(task, job)
                case EndPod(pod=pod):
                    await self._end_pod(task, pod)
                case DeletePod(pod=pod, force=force):
                    await self._delete_pod(task, pod, force)
        except Rejected as exc:
            what = action.job if isinstance(action, SuspendJob | DeleteJob) else action.pod
            logger.warning("an end is refused", extra=fields(task) | {"what": what.name, "why": str(exc)})
            self._cache.see_denial(task.uid, what.name, str(exc), self._now())

    async def _suspend_job(self, task: Task, job: Job) -> None:
        patch = {"spec": manifest.AT_REST}
        self._cache.see_job(
            task.uid, await self._cluster.patch(JOBS, task.namespace, job.name, job.uid, patch)
        )

    async def _delete_job(self, task: Task, job: Job) -> None:
        logger.info("deleting a job that is to make no more pods", extra=fields(task) | {"job": job.name})
        with suppress(NotFound, Conflict):  # gone, or another Job of that name
            await self._cluster.delete(JOBS, task.namespace, job.name, job.uid)
        self._cache.miss_job(task.uid)

    async def _end_pod(self, task: Task, pod: Pod) -> None:
        logger.info("stopping a run", extra=fields(task, task.status) | {"pod": pod.name})
        await self._patch_pod(pod, {"spec": {"activeDeadlineSeconds": SHORTEST_LIMIT}})

    async def _patch_pod(self, pod: Pod, patch: dict[str, Any]) -> None:
        try:
            answer = await self._cluster.patch(PODS, pod.namespace, pod.name, pod.uid, patch)
        except (NotFound, Conflict):
            self._cache.miss_pod(pod)
        else:
            self._see_pod(pod, answer)

    def _see_pod(self, pod: Pod, answer: dict[str, Any]) -> None:
        """The answer to a write. Somebody may have taken the label off: then no list of the task's pods has it."""
        if manifest.LABEL_UID in answer["metadata"].get("labels", {}):
            self._cache.see_pod(answer)
        else:
            self._cache.miss_pod(pod)

    async def _delete_pod(self, task: Task, pod: Pod, force: bool) -> None:
        told = fields(task) | {"pod": pod.name, "podAttempt": pod.attempt}
        logger.warning("deleting a pod", extra=told | {"force": force})
        try:
            answer = await self._cluster.delete(PODS, pod.namespace, pod.name, pod.uid, force=force)
        except (NotFound, Conflict):
            self._cache.miss_pod(pod)  # gone, or another pod of that name
        else:
            if "spec" in answer:
                self._see_pod(pod, answer)

    async def _delete_task(self, task: Task) -> None:
        version = task.resource_version
        await self._cluster.delete(TASKS, task.namespace, task.name, task.uid, version=version)
        logger.info("deleted after its time to live", extra=fields(task))
        self._cache.miss_task(task.uid)  # to be confirmed, as any deletion
