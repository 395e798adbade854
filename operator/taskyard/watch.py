"""List and watch → cache. kopf hosts the watches; its handlers only report, and everything else is ours.

kopf delivers no sign that its first listing is complete, and no deletion of what vanished while it was not
watching. So everything is listed here as well: once before anybody acts, again shortly after kopf has listed
anew, and now and then.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Never

import kopf

from taskyard.cache import Cache
from taskyard.cluster import PAGE_SIZE, PODS, TASKS, Cluster, ClusterError, Kind
from taskyard.core import manifest, parse
from taskyard.core.model import Pod, Task

logger = logging.getLogger(__name__)

RELIST_EVERY: Final = 300.0
RELIST_AFTER_KOPF: Final = 5.0
"""By then kopf's own listing, of any size that we support, has become a watch."""


class Watch:
    """Keeps the cache true to the cluster, in some namespaces or (none named) in all."""

    def __init__(self, cluster: Cluster, cache: Cache, namespaces: Sequence[str]) -> None:
        self._cluster = cluster
        self._cache = cache
        self._namespaces = namespaces
        self._kopf_listed = asyncio.Event()

    async def list_everything(self) -> None:
        """Afterwards the cache knows all there was when this began, and doubts what it did not find again."""
        for namespace in self._namespaces or (None,):
            await self._list_tasks(namespace)
            await self._list_pods(namespace)
        logger.info("listed", extra={"tasks": sum(1 for _ in self._cache.tasks())})

    async def relist(self) -> Never:
        """Repair, for ever, what the watches have missed."""
        while True:
            try:
                async with asyncio.timeout(RELIST_EVERY):
                    await self._kopf_listed.wait()
                await asyncio.sleep(RELIST_AFTER_KOPF)
            except TimeoutError:
                pass
            self._kopf_listed.clear()
            try:
                await self.list_everything()
            except ClusterError as exc:
                logger.warning("could not list everything", extra={"why": str(exc)})

    async def run(self) -> None:
        """Watch until a signal comes. Whatever kopf cannot recover from is raised: the process is to end."""
        await kopf.operator(
            registry=self._registry(),
            settings=_settings(),
            standalone=True,
            clusterwide=not self._namespaces,
            namespaces=list(self._namespaces),
        )

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(kopf.login_via_client)

        @kopf.on.event(manifest.GROUP, manifest.VERSION, TASKS.plural, registry=registry)
        async def task_event(event: kopf.RawEvent, **_: Any) -> None:
            self._note(event)
            if event["type"] == "DELETED":
                self._cache.miss_task(parse.uid(event["object"]))
            else:
                _show(event["object"], self._cache.see_task)

        @kopf.on.event("", "v1", PODS.plural, registry=registry)
        async def pod_event(event: kopf.RawEvent, **_: Any) -> None:
            self._note(event)
            if event["type"] == "DELETED":
                _show(event["object"], lambda obj: self._cache.miss_pod(parse.pod(obj)))
            else:
                _show(event["object"], self._cache.see_pod)

        return registry

    def _note(self, event: kopf.RawEvent) -> None:
        if event["type"] is None:  # that is how kopf marks what it listed
            self._kopf_listed.set()

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
        found, moment = set[str](), 0
        async for page in self._cluster.pages(kind, namespace, labels):
            moment = page.resource_version
            for obj in page.items:
                found.add(parse.uid(obj))
                _show(obj, see)
        return found, moment


def _show(obj: parse.Json, see: Callable[[parse.Json], None]) -> None:
    """Show an object to the cache. One that makes no sense, of another version perhaps, is left alone."""
    try:
        see(obj)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as exc:
        metadata = obj["metadata"]
        fields = {"namespace": metadata.get("namespace"), "object": metadata.get("name"), "why": repr(exc)}
        logger.error("cannot read an object, leaving it alone", extra=fields)


def _is_missing(known: Task | Pod, namespace: str | None, found: set[str], moment: int) -> bool:
    """Whether a list of that moment should have shown it and did not; what is newer may well be there."""
    in_scope = namespace is None or known.namespace == namespace
    return in_scope and known.uid not in found and known.resource_version <= moment


class _NoDiffBase(kopf.DiffBaseStorage):
    """kopf is not to remember what an object looked like: it would compute a digest for every event."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass


class _NoProgress(kopf.ProgressStorage):
    """kopf is not to remember how far a handler got: it would write annotations."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass

    def purge(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # no watches of CRDs and namespaces, and no rights to them
    settings.queueing.idle_timeout = 1.0  # of the asyncio task that kopf keeps for every object with news
    settings.watching.chunk_size = PAGE_SIZE
    settings.watching.connect_timeout = 10.0
    settings.networking.request_timeout = 60.0
    settings.watching.label_selectors["", "v1", PODS.plural] = manifest.LABEL_UID
    return settings
