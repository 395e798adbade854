"""List and watch → cache. kopf hosts the watches; its handlers only report, and everything else is ours.

kopf delivers no sign that its first listing is complete, and no deletion of what vanished while it was not
watching. So everything is listed here as well: once before anybody acts, again shortly after kopf has listed
anew, now and then, and whenever a watch is silent that should not be.
"""

import asyncio
import itertools
import logging
import os
import random
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Never

import aiohttp
import kopf

from taskyard import backoff
from taskyard.backoff import Pace
from taskyard.cache import Cache
from taskyard.cluster import (
    DEFINITIONS,
    PAGE_SIZE,
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
SILENCE: Final = 70.0
"""A watch brings a bookmark a minute, if nothing else: without, its connection is given up."""
SHORTEST_WATCH, LONGEST_WATCH = 300, 600
ENDS_WITHIN: Final = 10.0
"""For kopf, which once did not; see docs/decisions.md."""


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
        """Watch until SIGTERM comes, and the farewell is over. What kopf cannot recover from is raised: the process is
        to end.
        """
        asked, over = asyncio.Event(), asyncio.Event()

        async def leave() -> None:
            await asked.wait()
            try:
                await farewell()
            finally:
                over.set()

        leaving = asyncio.create_task(leave(), name="farewell")
        others = asyncio.all_tasks()
        try:
            tasks = await kopf.spawn_tasks(
                registry=self._registry(),
                settings=_settings(),
                standalone=True,
                clusterwide=not self._namespaces,
                namespaces=list(self._namespaces),
                stop_flag=over,
            )
            # In place of the handler that this has left behind, which would stop watching at once.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
            await kopf.run_tasks(tasks, ignored=others)
        finally:
            leaving.cancel()

    def _registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        # For all logins: that one was refused is no reason to hurry.
        paces = defaultdict[tuple[str, bool], Pace](Pace)

        @kopf.on.login(registry=registry)
        async def login(**kwargs: Any) -> kopf.AiohttpSession:
            return await _log_in(paces, kwargs)

        @kopf.on.cleanup(registry=registry)
        async def end(**_: Any) -> None:
            asyncio.get_running_loop().call_later(ENDS_WITHIN, _end_without_kopf)

        @kopf.on.event(manifest.GROUP, manifest.VERSION, TASKS.plural, registry=registry)
        async def task_event(event: kopf.RawEvent, **_: Any) -> None:
            self._note(TASKS, event)
            if event["type"] == "DELETED":
                self._cache.miss_task(parse.uid(event["object"]))
            else:
                _show(event["object"], self._cache.see_task)

        @kopf.on.event("", "v1", PODS.plural, registry=registry)
        async def pod_event(event: kopf.RawEvent, **_: Any) -> None:
            self._note(PODS, event)
            if event["type"] == "DELETED":
                _show(event["object"], lambda obj: self._cache.miss_pod(parse.pod(obj)))
            else:
                _show(event["object"], self._cache.see_pod)

        for kind in DEFINITIONS.values():

            @kopf.on.event(manifest.GROUP, manifest.VERSION, kind.plural, registry=registry, id=kind.plural)
            async def definition_event(event: kopf.RawEvent, kind: Kind = kind, **_: Any) -> None:
                self._note(kind, event)
                is_gone = event["type"] == "DELETED"
                known = self._cache.definitions
                _show(event["object"], known.miss if is_gone else known.see)

        @kopf.on.event(manifest.GROUP, manifest.VERSION, QUEUES.plural, registry=registry)
        async def queue_event(event: kopf.RawEvent, **_: Any) -> None:
            self._note(QUEUES, event)
            known = self._cache.queues
            _show(event["object"], known.miss if event["type"] == "DELETED" else known.see)

        return registry

    def _note(self, kind: Kind, event: kopf.RawEvent) -> None:
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


def _end_without_kopf() -> None:
    """Whatever is not done is in the cluster: the next one goes on."""
    logger.error("kopf does not end: ending without it")
    os._exit(1)


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


class _ForEver:
    """kopf is to try again until it succeeds; how soon is for its session to say."""

    def __iter__(self) -> Iterator[float]:
        return itertools.repeat(0.1)


async def _log_in(paces: Mapping[tuple[str, bool], Pace], kwargs: dict[str, Any]) -> kopf.AiohttpSession:
    """kopf's own login, with a session that has the patience which kopf lacks.

    Left to itself kopf opens a watch that was cut anew without a pause, lists everything ten times a second while
    its watches are told `410 Gone`, and ends when that is the answer to a page of a list that took too long.
    """

    async def be_patient(
        request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        is_watch = "watch" in request.url.query
        if "continue" not in request.url.query:
            pace = paces[request.url.path, is_watch]
            await asyncio.sleep(pace.hold_back(_monotonic()))
            if session.closed:  # by another request, which was refused meanwhile
                pace.was_not_sent()
                raise RuntimeError("Session is closed")  # as aiohttp says it: kopf logs in anew
        response = await send(request)
        if response.status == 410 and not is_watch:
            response.close()
            raise aiohttp.ClientPayloadError("the list has expired")  # kopf then begins it anew
        return response

    info = await asyncio.to_thread(kopf.login_via_client, **kwargs)  # may run a program for a token
    if info is None:
        raise kopf.LoginError("there is nothing to log in with")
    connector = aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context())
    session = aiohttp.ClientSession(
        connector=connector, headers=info.as_http_headers(), middlewares=[be_patient]
    )
    return kopf.AiohttpSession(server=info.server, aiohttp_session=session)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # no watches of CRDs and namespaces, and no rights to them
    settings.queueing.idle_timeout = 1.0  # of the asyncio task that kopf keeps for every object with news
    settings.watching.chunk_size = PAGE_SIZE
    settings.watching.connect_timeout = 10.0
    # However a connection dies, it ends: by the server, by us if the server does not, sooner if it brings nothing.
    settings.watching.server_timeout = random.randint(SHORTEST_WATCH, LONGEST_WATCH)  # noqa: S311
    settings.watching.client_timeout = LONGEST_WATCH + SILENCE
    settings.watching.inactivity_timeout = SILENCE
    settings.networking.request_timeout = 60.0
    settings.networking.error_backoffs = _ForEver()
    settings.watching.label_selectors["", "v1", PODS.plural] = manifest.LABEL_UID
    return settings
