"""The API server as the harness asks it: plain requests and raw watches, cheap enough not to be what is measured."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

JSON = dict[str, Any]

PATIENCE: Final = aiohttp.ClientTimeout(total=60)
FOR_EVER: Final = aiohttp.ClientTimeout(total=None, sock_connect=10)
LONGEST_WATCH: Final = 3600


class Refused(Exception):  # noqa: N818 - named for what happened
    """The API server did not do what was asked for."""


class Gone(Exception):  # noqa: N818
    """A watch has lost its place: what happened meanwhile is not known, and nothing can be measured with that."""


class Api:
    """One server, as its admin."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def ask(
        self, method: str, path: str, body: bytes | JSON | None = None, content: str = "json"
    ) -> JSON:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Content-Type": f"application/{content}"}
        async with self._session.request(
            method, path, data=data, headers=headers, timeout=PATIENCE
        ) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise Refused(f"{method} {path}: {answer.status} {text[:500].decode(errors='replace')}")
            found: JSON = json.loads(text)
            return found

    async def text(self, path: str) -> str:
        async with self._session.get(path, timeout=PATIENCE) as answer:
            answer.raise_for_status()
            return await answer.text()

    async def version(self, path: str) -> str:
        """From where a watch of this collection begins."""
        return str((await self.ask("GET", f"{path}?limit=1"))["metadata"]["resourceVersion"])

    async def watch(self, path: str, version: str, query: Mapping[str, str]) -> AsyncIterator[JSON]:
        """Every event from there on, over as many connections as that takes."""
        while True:
            asked = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(LONGEST_WATCH)}
            asked |= {"resourceVersion": version, **query}
            async with self._session.get(path, params=asked, timeout=FOR_EVER) as answer:
                if answer.status == 410:
                    raise Gone(path)
                answer.raise_for_status()
                async for line in _lines(answer.content):
                    event: JSON = json.loads(line)
                    if event["type"] == "ERROR":
                        raise Gone(f"{path}: {event['object'].get('message')}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        yield event


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Of any length, as they are complete; aiohttp's own have a limit."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


@asynccontextmanager
async def connect(server: str, pki: Path, who: str = "admin") -> AsyncIterator[Api]:
    """With a certificate of the cluster's own folder. No proxy of the environment is for it."""
    tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    tls.load_cert_chain(pki / f"{who}.crt", pki / f"{who}.key")
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    async with aiohttp.ClientSession(server, connector=connector, trust_env=False) as session:
        yield Api(session)
