"""Stands between an operator and the real API server, and does to their talk what networks and busy servers do.

A test sets `fault`, which is asked about every request, and `event_fault`, which is asked about every event of a watch.
Whatever they do not object to passes as it is. All requests are counted, also those that find no API server.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import yaml
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_kube_config

JSON = dict[str, Any]

LARGEST_BODY: Final = 16 * 1024 * 1024
STARTS_WITHIN: Final = 30.0
VERBS: Final = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}
OF_ONE_HOP: Final = {"connection", "host", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True)
class Request:
    """What was asked for, in the words of Kubernetes."""

    verb: str
    resource: str
    """With its subresource: `tasks/status`."""
    name: str = ""
    body: bytes = b""
    is_continued: bool = False
    """The second or a later page of a list."""
    client: str = ""

    @property
    def is_write(self) -> bool:
        return self.verb in VERBS.values()


@dataclass(frozen=True)
class Answer:
    """The API server is not even asked."""

    code: int
    reason: str = ""
    retry_after: int | None = None


@dataclass(frozen=True)
class Lose:
    """The API server does what it was asked to, and its answer is lost: another one comes, or none."""

    instead: Answer | None = None


@dataclass(frozen=True)
class Tamper:
    """The API server is asked for something else."""

    body: bytes


@dataclass(frozen=True)
class Delay:
    seconds: float


class Fault(Enum):
    CUT = auto()
    """The connection ends, before anything is passed on; or now, in the middle of a watch."""
    FREEZE = auto()
    """The watch stays open, and nothing comes through it any more, not even a bookmark."""
    SWALLOW = auto()
    """This event of the watch is left out."""
    GONE = auto()
    """`410 Gone` comes through the watch, which ends then."""
    BREAK = auto()
    """An error other than that comes through it."""


RequestFault = Answer | Lose | Tamper | Delay | Fault | None

ERRORS: Final = {
    Fault.GONE: {"code": 410, "reason": "Expired", "message": "too old resource version"},
    Fault.BREAK: {"code": 500, "reason": "InternalError", "message": "the proxy made that up"},
}


def nothing(*_: object) -> None:
    """All is well."""


class Proxy:
    """On 127.0.0.1, without TLS, in a thread of its own; towards the API server with all rights of a kubeconfig."""

    def __init__(self, kubeconfig: Path | str, folder: Path, page_size: int | None = None) -> None:
        self.kubeconfig = folder / "kubeconfig-of-the-proxy"
        self.requests: list[Request] = []
        self.fault: Callable[[Request], RequestFault] = nothing
        self.event_fault: Callable[[Request, JSON], Fault | None] = nothing
        self._upstream = str(kubeconfig)
        self._page_size = page_size
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(STARTS_WITHIN), "the proxy did not start"
        cluster = {"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{self._port}"}}
        context = {"name": "proxy", "context": {"cluster": "proxy", "user": "nobody"}}
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "proxy", "clusters": [cluster]}
        config |= {"contexts": [context], "users": [{"name": "nobody", "user": {}}]}
        self.kubeconfig.write_text(yaml.safe_dump(config))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def count(self, verb: str | None = None, resource: str | None = None) -> int:
        """How many requests there were, of a verb, of a resource."""
        return sum(
            verb in {None, each.verb} and resource in {None, each.resource} for each in list(self.requests)
        )

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        upstream = Configuration()
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=self._upstream, client_configuration=upstream, persist_config=False
        )
        token = await upstream.get_api_key_with_prefix("BearerToken", alias="authorization")
        self._headers = {"Authorization": token} if token else {}
        self._server = upstream.host
        connector = aiohttp.TCPConnector(limit=0, ssl=_tls(upstream))
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as self._session:
            application = web.Application(client_max_size=LARGEST_BODY)
            application.router.add_route("*", "/{path:.*}", self._serve)
            runner = web.AppRunner(
                application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
            )
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self._port = int(runner.addresses[0][1])
            self._started.set()
            await self._over.wait()
            await runner.cleanup()

    async def _serve(self, http: web.Request) -> web.StreamResponse:
        request = read(http, await http.read())
        self.requests.append(request)
        try:
            return await self._treat(http, request)
        except aiohttp.ClientError:  # there is no API server
            return _cut(http)

    async def _treat(self, http: web.Request, request: Request) -> web.StreamResponse:
        match self.fault(request):
            case Answer() as answer:
                return _status(answer)
            case Fault.CUT:
                return _cut(http)
            case Fault.FREEZE | Fault.GONE | Fault.BREAK as fault if request.verb == "watch":
                return await self._watch(http, request, fault)
            case Lose(instead=instead):
                await (await self._pass_on(http, request.body)).release()
                return _status(instead) if instead is not None else _cut(http)
            case Tamper(body=body):
                return await self._answer(await self._pass_on(http, body))
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case None:
                pass
            case other:
                raise AssertionError(f"{other} makes no sense for {request}")
        if request.verb == "watch":
            return await self._watch(http, request)
        return await self._answer(await self._pass_on(http, request.body))

    async def _pass_on(self, http: web.Request, body: bytes) -> aiohttp.ClientResponse:
        query = dict(http.query)
        if "limit" in query and self._page_size:
            query["limit"] = str(self._page_size)
        headers = {key: value for key, value in http.headers.items() if key.lower() not in OF_ONE_HOP}
        return await self._session.request(
            http.method,
            self._server + http.path,
            params=query,
            headers=headers | self._headers,
            data=body or None,
        )

    async def _answer(self, upstream: aiohttp.ClientResponse) -> web.Response:
        async with upstream:
            headers = {k: v for k, v in upstream.headers.items() if k.lower() not in OF_ONE_HOP}
            return web.Response(status=upstream.status, body=await upstream.read(), headers=headers)

    async def _watch(
        self, http: web.Request, request: Request, fault: Fault | None = None
    ) -> web.StreamResponse:
        """An event a line, until one side ends it or something happens to it."""
        upstream = await self._pass_on(http, request.body)
        if upstream.status != 200:
            return await self._answer(upstream)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(http)
        stream = asyncio.create_task(self._stream(upstream, request, response, fault))
        try:
            await asyncio.wait([stream])
        finally:
            stream.cancel()
            upstream.close()
        if stream.cancelled():
            return _cut(http)
        stream.result()
        return response

    async def _stream(
        self,
        upstream: aiohttp.ClientResponse,
        request: Request,
        response: web.StreamResponse,
        fault: Fault | None,
    ) -> None:
        is_frozen = fault is Fault.FREEZE
        if fault in ERRORS:
            return await response.write(_error_event(fault))
        async for line in _lines(upstream):
            fault = self.event_fault(request, json.loads(line))
            is_frozen = is_frozen or fault is Fault.FREEZE
            if fault is Fault.CUT:
                raise asyncio.CancelledError
            if fault in ERRORS:
                return await response.write(_error_event(fault))
            if not is_frozen and fault is not Fault.SWALLOW:
                await response.write(line + b"\n")
        return None


def read(http: web.BaseRequest, body: bytes) -> Request:
    """A request in the words of Kubernetes. `/apis/group/version/namespaces/it/tasks/name/status`."""
    parts = http.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    resource, name, subresource = [*rest, "", "", ""][:3]
    resource = f"{resource}/{subresource}" if subresource else resource
    if http.method == "GET" and resource and not name:
        verb = "watch" if http.query.get("watch") in {"true", "1"} else "list"
    else:
        verb = VERBS.get(http.method, "get")
    client = http.headers.get("User-Agent", "").partition("/")[0]
    return Request(verb, resource, name, body, bool(http.query.get("continue")), client)


def _tls(upstream: Configuration) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=upstream.ssl_ca_cert)
    if upstream.cert_file:
        context.load_cert_chain(upstream.cert_file, upstream.key_file)
    return context


def _status(answer: Answer) -> web.Response:
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": answer.code}
    body |= {"reason": answer.reason, "message": f"the proxy answers {answer.code}"}
    headers = {"Retry-After": str(answer.retry_after)} if answer.retry_after is not None else {}
    return web.json_response(body, status=answer.code, headers=headers)


def _cut(http: web.Request) -> web.Response:
    if http.transport is not None:
        http.transport.abort()
    return web.Response()


def _error_event(fault: Fault) -> bytes:
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure"} | ERRORS[fault]
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


async def _lines(upstream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Of any length. One that is cut off in the middle is none."""
    rest = b""
    with suppress(aiohttp.ClientError):
        async for chunk in upstream.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
