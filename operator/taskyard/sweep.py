"""Jobs of runs whose verdict is long written: they go, with their pods, off the hot path.

Not at once: the name of a Job that is there stops a create of it that arrives late, and its pod can be looked at. What
there is to sweep is asked for and never remembered, so that a restart forgets nothing. Jobs that nobody sweeps have a
time to live of their own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Never

from taskyard import backoff
from taskyard.cache import Cache
from taskyard.cluster import JOBS, Cluster, ClusterError, Conflict, NotFound
from taskyard.core import manifest, parse, resting
from taskyard.core.model import Job

logger = logging.getLogger(__name__)

EVERY: Final = timedelta(minutes=5)
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
        every = min(EVERY, max(self._kept_for, timedelta(seconds=1))).total_seconds()
        while True:
            await asyncio.sleep(backoff.about(every))
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
            with suppress(NotFound, Conflict):  # gone, or another Job of that name
                await self._cluster.delete(JOBS, namespace, job.name, job.uid)
                swept += 1
            await asyncio.sleep(self._pause)
        if swept:
            logger.info("swept", extra={"jobs": swept})

    async def _jobs(self) -> AsyncIterator[tuple[str, Job]]:
        """Those of any Task."""
        for namespace in self._namespaces or (None,):
            async for page in self._cluster.pages(JOBS, namespace, manifest.LABEL_UID, only_metadata=True):
                for obj in page.items:
                    yield obj["metadata"]["namespace"], parse.job(obj)
