"""List and watch → cache. kopf hosts the watches, see `hosting`; what they bring is heard here.

kopf delivers no sign that its first listing is complete, and no deletion of what vanished while it was not
watching. So everything is listed here as well: once before anybody acts, again shortly after kopf has listed
anew, now and then, and whenever a watch is silent that should not be.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Final, Never

from taskyard import backoff, hosting
from taskyard.cache import Cache
from taskyard.cluster import (
    DEFINITIONS,
    PODS,
    QUEUES,
    TASKS,
    Cluster,
    ClusterError,
    Kind,
    Unavailable,
)
from taskyard.core import manifest, parse
from taskyard.core.model import Pod, Task
from taskyard.core.words import DefinitionKind
from taskyard.freshness import Freshness
from taskyard.registry import QUEUE

logger = logging.getLogger(__name__)

RELIST_EVERY: Final = 300.0
RELIST_AFTER_KOPF: Final = 5.0
"""By then kopf's own listing, of any size that we support, has become a watch."""


class Watch:
    """Keeps the cache true to the cluster, in some namespaces or (none named) in all."""

    def __init__(
        self,
        cluster: Cluster,
        cache: Cache,
        namespaces: Sequence[str],
        *,
        relist_every: float = RELIST_EVERY,
        freshness: Freshness | None = None,
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._namespaces = namespaces
        self._relist_every = relist_every
        self._freshness = freshness or Freshness()
        self._stale: list[str] = []
        self._kopf_listed = asyncio.Event()

    async def list_everything(self) -> None:
        """Afterwards the cache knows all there was when this began, and doubts what it did not find again."""
        for list_some in self._lists():
            await list_some()
        self._tell_of_the_list()

    async def list_at_last(self) -> None:
        """List everything, however often that takes; what is listed is not listed again because of what is not."""
        for list_some in self._lists():
            await self._at_last(list_some)
        self._tell_of_the_list()

    def _lists(self) -> Iterator[Callable[[], Awaitable[None]]]:
        """Tasks after what they name: a claim is not to be given back because its definition is not known yet."""
        yield partial(self._list_definitions, DefinitionKind.CLUSTER_TASK_DEFINITION, None)
        for namespace in self._namespaces or (None,):
            yield partial(self._list_definitions, DefinitionKind.TASK_DEFINITION, namespace)
            yield partial(self._list_queues, namespace)
            yield partial(self._list_tasks, namespace)
            yield partial(self._list_pods, namespace)

    async def _at_last(self, list_some: Callable[[], Awaitable[None]]) -> None:
        """An API server that is not available will be."""
        for failures in itertools.count(1):
            try:
                await list_some()
                return
            except Unavailable as exc:
                pause = exc.after + backoff.delay(failures, first=1.0)
                fields = {"why": str(exc), "after": round(pause, 2)}
                logger.warning("could not list everything, will try again", extra=fields)
                await asyncio.sleep(pause)

    async def relist(self) -> Never:
        """Repair, for ever, what the watches have missed."""
        while True:
            await self._time_to_list()
            for list_some in self._lists():
                try:
                    await self._at_last(list_some)
                except ClusterError as exc:
                    # A right that is lost, perhaps: the others are listed all the same.
                    logger.error("could not list everything", extra={"why": str(exc)})
            self._tell_of_the_list()

    def _tell_of_the_list(self) -> None:
        logger.info("listed", extra={"tasks": sum(1 for _ in self._cache.tasks())})

    async def _time_to_list(self) -> None:
        """Wait for the next turn, for a listing of kopf's, or for a watch that is silent and should not be."""
        now = _monotonic()
        due = now + backoff.about(self._relist_every)
        while now < due:
            if self._is_somebody_silent(now):
                return
            if await self._kopf_lists_before(min(due, self._freshness.next_due() or due)):
                await asyncio.sleep(min(RELIST_AFTER_KOPF, self._relist_every))
                self._kopf_listed.clear()
                return
            now = _monotonic()

    async def _kopf_lists_before(self, moment: float) -> bool:
        try:
            async with asyncio.timeout_at(moment):
                return await self._kopf_listed.wait()
        except TimeoutError:
            return False

    def _is_somebody_silent(self, now: float) -> bool:
        """Whether a watch owes something for too long. When that is proven, it is said, once."""
        suspects, before, self._stale = self._freshness.overdue(now), self._stale, self._freshness.stale()
        for name in self._stale:
            if name not in before:
                logger.error("a watch is stale", extra={"watch": name})
        for name in suspects:
            if name not in self._stale:
                logger.warning("a watch is silent, listing anew", extra={"watch": name})
        return bool(suspects)

    async def run(self, farewell: Callable[[], Awaitable[None]]) -> None:
        """Watch until SIGTERM comes, and the farewell is over; see `hosting.host`."""
        kinds = (TASKS, PODS, *DEFINITIONS.values(), QUEUES)
        await hosting.host(kinds, self._namespaces, self._hear, farewell)

    def _hear(self, kind: Kind, event: hosting.Event) -> None:
        self._note(kind, event)
        obj, is_gone, cache = event["object"], event["type"] == "DELETED", self._cache
        if kind == TASKS:
            _show(obj, (lambda task: cache.miss_task(parse.uid(task))) if is_gone else cache.see_task)
        elif kind == PODS:
            _show(obj, (lambda pod: cache.miss_pod(parse.pod(pod))) if is_gone else cache.see_pod)
        elif kind == QUEUES:
            _show(obj, cache.queues.miss if is_gone else cache.queues.see)
        else:
            _show(obj, cache.definitions.miss if is_gone else cache.definitions.see)

    def _note(self, kind: Kind, event: hosting.Event) -> None:
        if event["type"] is None:  # that is how kopf marks what it listed
            self._kopf_listed.set()
        obj = event["object"]
        namespace = obj["metadata"].get("namespace") if self._namespaces else None
        self._freshness.hear(_watch_of(kind, namespace), parse.version(obj), _monotonic())

    async def _list_definitions(self, kind: DefinitionKind, namespace: str | None) -> None:
        found, moment = await self._list(DEFINITIONS[kind], namespace, None, self._cache.definitions.see)
        self._cache.definitions.keep_only(found, kind, namespace, moment)

    async def _list_queues(self, namespace: str | None) -> None:
        found, moment = await self._list(QUEUES, namespace, None, self._cache.queues.see)
        self._cache.queues.keep_only(found, QUEUE, namespace, moment)

    async def _list_tasks(self, namespace: str | None) -> None:
        found, moment = await self._list(TASKS, namespace, None, self._cache.see_task)
        for task in list(self._cache.tasks()):
            if _is_missing(task, namespace, found, moment):
                self._cache.miss_task(task.uid)

    async def _list_pods(self, namespace: str | None) -> None:
        found, moment = await self._list(PODS, namespace, manifest.LABEL_UID, self._cache.see_pod)
        for pod in list(self._cache.pods()):
            if _is_missing(pod, namespace, found, moment):
                self._cache.miss_pod(pod, moment)

    async def _list(
        self, kind: Kind, namespace: str | None, labels: str | None, see: Callable[[parse.Json], None]
    ) -> tuple[set[str], int]:
        """Show everything to the cache; returns the uids that there were, and the moment when they were."""
        found, moment, greatest = set[str](), 0, 0
        async for page in self._cluster.pages(kind, namespace, labels):
            moment = page.resource_version
            for obj in page.items:
                found.add(parse.uid(obj))
                greatest = max(greatest, parse.version(obj))
                _show(obj, see)
        self._freshness.listed(_watch_of(kind, namespace), greatest, _monotonic())
        return found, moment


def _watch_of(kind: Kind, namespace: str | None) -> str:
    """The name of a watch: kopf has one for each kind, and for each namespace where not all are served."""
    return f"{kind.plural} in {namespace}" if namespace is not None else kind.plural


def _monotonic() -> float:
    return asyncio.get_running_loop().time()


def _show(obj: parse.Json, see: Callable[[parse.Json], None]) -> None:
    """Show an object to the cache. One that makes no sense, of another version perhaps, is left alone."""
    try:
        see(obj)
    except parse.UNREADABLE as exc:
        metadata = obj["metadata"]
        fields = {"namespace": metadata.get("namespace"), "object": metadata.get("name"), "why": repr(exc)}
        logger.error("cannot read an object, leaving it alone", extra=fields)


def _is_missing(known: Task | Pod, namespace: str | None, found: set[str], moment: int) -> bool:
    """Whether a list of that moment should have shown it and did not; what is newer may well be there."""
    in_scope = namespace is None or known.namespace == namespace
    return in_scope and known.uid not in found and known.resource_version <= moment
