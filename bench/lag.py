"""How late an event loop is: the operator's seen from outside, by how long `/healthz` takes, and our own."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

EVERY: Final = 0.25
ANSWERS_WITHIN: Final = 60.0


@dataclass
class Lags:
    """Seconds."""

    operator: list[float] = field(default_factory=list)
    """Of a request to its loop, there and back: on an idle machine half a millisecond."""
    ours: list[float] = field(default_factory=list)
    """By how much later than asked for our own loop goes on: all moments that we note may be so late."""


@asynccontextmanager
async def probing(port: int | None) -> AsyncIterator[Lags]:
    """Meanwhile. Without a port only our own."""
    lags, over = Lags(), threading.Event()
    own = asyncio.create_task(_probe_own(lags))
    thread = threading.Thread(target=_probe, args=(port, lags, over), daemon=True) if port else None
    if thread is not None:
        thread.start()
    try:
        yield lags
    finally:
        over.set()
        own.cancel()
        if thread is not None:
            await asyncio.to_thread(thread.join)


def _probe(port: int, lags: Lags, over: threading.Event) -> None:
    """In a thread of its own: our loop may be late, too."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWERS_WITHIN)
    while not over.wait(EVERY):
        began = time.monotonic()
        try:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()
            continue
        lags.operator.append(time.monotonic() - began)
    connection.close()


async def _probe_own(lags: Lags) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(EVERY)
        lags.ours.append(time.monotonic() - began - EVERY)
