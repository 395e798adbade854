"""One operator acts at a time: a Lease, taken before anything else and held until the end.

A lease is not a fence: an operator that lost it may still have a request on its way. The guarded claim, the
attempt in the Job's name and the stop of every pod that is not the current attempt are the fence. Whoever has
led never stands by again: its process ends, and a new one starts with nothing in memory.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Never

from taskyard import backoff
from taskyard.cluster import LEASES, AlreadyExists, Cluster, ClusterError, Conflict, NotFound

logger = logging.getLogger(__name__)

DURATION: Final = 15.0
"""How long others wait, after the last renewal that they saw, before they take the lease."""

DEADLINE: Final = 10.0
"""How long a holder goes on without a renewal; well under what the others wait."""

INTERVAL: Final = 2.0
"""How often a holder renews, and how often the others look."""


class LeaseLost(Exception):  # noqa: N818 - named for what happened
    """Another operator may act from now on: stop at once."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Which Lease, who asks for it, and at what pace."""

    namespace: str
    name: str
    identity: str
    duration: float = DURATION
    deadline: float = DEADLINE
    interval: float = INTERVAL


class Lease:
    """The lease as one candidate sees it. Times are monotonic: a wall clock may jump."""

    def __init__(self, cluster: Cluster, terms: Terms) -> None:
        self._cluster = cluster
        self._terms = terms
        self._seen: dict[str, Any] | None = None
        self._seen_at = 0.0
        self._renewed_at = 0.0

    async def acquire(self) -> None:
        """Stand by until the lease is ours."""
        announced = False
        while not await self._try_to_hold():
            if not announced:
                logger.info("standing by", extra={"identity": self._terms.identity})
                announced = True
            await asyncio.sleep(backoff.about(self._terms.interval))
        logger.info("leading", extra={"identity": self._terms.identity})

    async def keep(self) -> Never:
        """Renew the lease for ever; raises LeaseLost when that fails for too long."""
        try:
            while self._held_by(self._terms.identity):
                async with asyncio.timeout_at(self._renewed_at + self._terms.deadline):
                    await asyncio.sleep(self._terms.interval)
                    await self._try_to_hold()
        except TimeoutError:
            raise LeaseLost(f"could not renew the lease for {self._terms.deadline:.0f} s") from None
        raise LeaseLost("another operator holds the lease")

    async def release(self) -> None:
        """Let the next one lead without waiting."""
        if self._seen is None or not self._held_by(self._terms.identity):
            return
        spec = {**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            async with asyncio.timeout(self._terms.interval):
                await self._replace(spec)
        except (ClusterError, TimeoutError) as exc:
            logger.warning("could not release the lease", extra={"why": str(exc)})

    async def _try_to_hold(self) -> bool:
        """One try to take or renew the lease, which ends in time whatever the API server does."""
        began = _monotonic()
        try:
            async with asyncio.timeout(self._terms.interval * 2):
                held = await self._take_or_renew()
        except (ClusterError, TimeoutError) as exc:
            logger.warning("could not reach the lease", extra={"why": str(exc) or type(exc).__name__})
            return False
        if held:
            self._renewed_at = began
        return held

    async def _take_or_renew(self) -> bool:
        try:
            if not self._held_by(self._terms.identity):
                self._see(await self._cluster.get(LEASES, self._terms.namespace, self._terms.name))
            if not (self._held_by(self._terms.identity) or self._is_free()):
                return False
            await self._replace(self._spec())
        except NotFound:
            return await self._create()
        except Conflict:
            try:
                self._see(await self._cluster.get(LEASES, self._terms.namespace, self._terms.name))
            except NotFound:  # a replacement of what was deleted is a conflict, too
                return await self._create()
            if not self._held_by(self._terms.identity):
                return False
            await self._replace(self._spec())  # what was in its way was its own, and the answer was lost
        return True

    async def _create(self) -> bool:
        metadata = {"name": self._terms.name, "namespace": self._terms.namespace}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        try:
            answer = await self._cluster.create(LEASES, self._terms.namespace, lease | {"spec": self._spec()})
            self._see(answer)
        except AlreadyExists:
            return False
        return True

    async def _replace(self, spec: dict[str, Any]) -> None:
        assert self._seen is not None
        lease = {**self._seen, "spec": spec}
        self._see(await self._cluster.replace(LEASES, self._terms.namespace, self._terms.name, lease))

    def _see(self, lease: dict[str, Any]) -> None:
        version = lease["metadata"]["resourceVersion"]
        if self._seen is None or self._seen["metadata"]["resourceVersion"] != version:
            self._seen, self._seen_at = lease, _monotonic()

    def _held_by(self, identity: str) -> bool:
        return self._seen is not None and self._holder() == identity

    def _holder(self) -> str:
        assert self._seen is not None
        return str(self._seen["spec"].get("holderIdentity") or "")

    def _is_free(self) -> bool:
        """Nobody's, or not renewed for as long as *we* have watched: the holder's clock is not ours."""
        return not self._holder() or _monotonic() - self._seen_at > self._terms.duration

    def _spec(self) -> dict[str, Any]:
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = self._seen["spec"] if self._seen is not None else {}
        spec = {
            "holderIdentity": self._terms.identity,
            "leaseDurationSeconds": max(1, round(self._terms.duration)),
            "renewTime": moment,
        }
        if self._held_by(self._terms.identity):
            return {**before, **spec}
        return {**spec, "acquireTime": moment, "leaseTransitions": before.get("leaseTransitions", 0) + 1}


async def lead(cluster: Cluster, terms: Terms, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work while holding the lease; cancelled, with LeaseLost in a group, when the lease is lost."""
    lease = Lease(cluster, terms)
    try:
        await lease.acquire()
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(lease.keep(), name="lease")
            await work()
            keeping.cancel()
    finally:
        await lease.release()


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
