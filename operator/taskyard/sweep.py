"""Jobs of runs whose verdict is long written: they go, with their pods, off the hot path.

Not at once: the name of a Job that is there stops a create of it that arrives late, and its pod can be looked at. What
there is to sweep is asked for and never remembered, so that a restart forgets nothing. Jobs that nobody sweeps go with
their Task, and those that have finished have a time to live of their own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, Never

from taskyard import backoff
from taskyard.cache import Cache
from taskyard.cluster import JOBS, Cluster, ClusterError, Conflict, NotFound, Rejected
from taskyard.core import manifest, parse, resting
from taskyard.core.model import Job

logger = logging.getLogger(__name__)

EVERY: Final = timedelta(minutes=5)
FIRST_AFTER: Final = timedelta(seconds=10)
"""There is more to do at once; and an operator that is replaced every few minutes is to come to it, too."""
PAUSE: Final = 0.02
"""Between two deletions: each has the control plane delete a pod, too, and none is urgent."""


class Sweep:
    """Deletes the Jobs of resolved Tasks, in some namespaces or (none named) in all."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        namespaces: Sequence[str],
        now: Callable[[], datetime],
        *,
        kept_for: timedelta,
        pause: float = PAUSE,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._namespaces = namespaces
        self._now = now
        self._kept_for = kept_for
        self._pause = pause

    async def run(self) -> Never:
        """Until cancelled: so often that no Job is kept for much longer than it is to be."""
        pause = FIRST_AFTER
        while True:
            await asyncio.sleep(backoff.about(pause.total_seconds()))
            pause = min(EVERY, self._kept_for)
            try:
                await self.sweep()
            except ClusterError as exc:  # the next time is soon enough
                logger.warning("could not sweep", extra={"why": str(exc)})
            except Exception:
                logger.exception("could not sweep")

    async def sweep(self) -> None:
        """Delete what may go now."""
        swept = 0
        async for namespace, job in self._jobs():
            task = self._cache.task(str(job.owner_uid))
            is_at_work = any(pod.is_alive for pod in self._cache.pods_of(str(job.owner_uid)))
            if task is None or is_at_work or task.namespace != namespace:
                continue
            if not resting.may_lose(task, job, self._kept_for, self._now()):
                continue
            swept += await self._delete(namespace, job)
            await asyncio.sleep(self._pause)
        if swept:
            logger.info("swept", extra={"jobs": swept})

    async def _delete(self, namespace: str, job: Job) -> bool:
        """Whether it went. One that somebody protects is no reason to keep the others."""
        try:
            await self._cluster.delete(JOBS, namespace, job.name, job.uid)
        except (NotFound, Conflict):  # gone, or another Job of that name
            return False
        except Rejected as exc:
            told = {"namespace": namespace, "job": job.name, "why": str(exc)}
            logger.warning("could not delete a Job", extra=told)
            return False
        return True

    async def _jobs(self) -> AsyncIterator[tuple[str, Job]]:
        """Those of any Task."""
        for namespace in self._namespaces or (None,):
            async for page in self._cluster.pages(JOBS, namespace, manifest.LABEL_UID, only_metadata=True):
                for obj in page.items:
                    yield obj["metadata"]["namespace"], parse.job(obj)
