"""kopf hosts the watches: its login, its patience, its settings, and its end. All that it hears is passed on."""

import asyncio
import itertools
import logging
import os
import random
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import aiohttp
import kopf

from taskyard.backoff import Pace
from taskyard.cluster import PAGE_SIZE, PODS, Kind
from taskyard.core import manifest

logger = logging.getLogger(__name__)

Event = kopf.RawEvent
Hear = Callable[[Kind, Event], None]

SILENCE: Final = 70.0
"""A watch brings a bookmark a minute, if nothing else: without, its connection is given up."""
SHORTEST_WATCH, LONGEST_WATCH = 300, 600
ENDS_WITHIN: Final = 10.0
"""For kopf, which once did not, and once all is done for whatever is left; see docs/decisions.md."""


class _Everybody(Collection[asyncio.Task[Any]]):
    """All asyncio tasks, also those that begin later.

    kopf is told to leave these alone: at its end it takes each that is younger than itself for its own, and waits five
    seconds for it. Our reports and the connections of those who scrape us are younger.
    """

    def __contains__(self, _: object) -> bool:
        return True

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(asyncio.all_tasks())

    def __len__(self) -> int:
        return len(asyncio.all_tasks())


async def host(
    kinds: Iterable[Kind], namespaces: Sequence[str], hear: Hear, farewell: Callable[[], Awaitable[None]]
) -> None:
    """Watch until SIGTERM comes, and the farewell is over; SIGINT, of somebody at a terminal, ends it without one.

    What kopf cannot recover from is raised: the process is to end.
    """
    asked, over = asyncio.Event(), asyncio.Event()

    async def leave() -> None:
        await asked.wait()
        try:
            await farewell()
        except Exception:
            logger.exception("the farewell failed")  # and we go all the same
        finally:
            over.set()

    leaving = asyncio.create_task(leave(), name="farewell")
    try:
        tasks = await kopf.spawn_tasks(
            registry=_registry(kinds, hear),
            settings=_settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=list(namespaces),
            stop_flag=over,
        )
        # In place of the handler that this has left behind, which would stop watching at once.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        await _run(tasks)
    finally:
        leaving.cancel()


async def _run(tasks: Collection[asyncio.Task[None]]) -> None:
    """Run what kopf has spawned until one of it ends; then it has ten seconds to end the others."""
    running = asyncio.create_task(kopf.run_tasks(tasks, ignored=_Everybody()), name="kopf")
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended, _ = await asyncio.wait([running], timeout=ENDS_WITHIN)
        if not ended:
            logger.error("kopf does not end: going on without it")
            return
        running.result()
    finally:
        running.cancel()


def _registry(kinds: Iterable[Kind], hear: Hear) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    # For all logins: that one was refused is no reason to hurry.
    paces = defaultdict[tuple[str, bool], Pace](Pace)

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.AiohttpSession:
        return await _log_in(paces, kwargs)

    for kind in kinds:
        _, _, *group, version = kind.root.split("/")

        @kopf.on.event("".join(group), version, kind.plural, registry=registry, id=kind.plural)
        async def note(event: Event, kind: Kind = kind, **_: Any) -> None:
            hear(kind, event)

    return registry


def end_by_force() -> None:
    """The last thing that a process does: to end in ten seconds, whoever cannot be cancelled."""
    asyncio.get_running_loop().call_later(ENDS_WITHIN, _end_without_them)


def _end_without_them() -> None:
    left = sorted(task.get_name() for task in asyncio.all_tasks())
    logger.error("some do not end: ending without them", extra={"left": left})
    os._exit(1)


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
            await asyncio.sleep(pace.hold_back(asyncio.get_running_loop().time()))
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
