"""The command `taskyard`: reads the settings and puts the parts together."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from taskyard import hosting, lease, logs
from taskyard.cache import Cache
from taskyard.cluster import Cluster, ClusterError, NotFound, connect
from taskyard.failpoint import Doomed
from taskyard.freshness import Freshness, grace_of
from taskyard.loop import Loop
from taskyard.metrics import CONTENT_TYPE, Metrics
from taskyard.report import Report
from taskyard.settings import BadSetting, Settings, add_options, load
from taskyard.sweep import Sweep
from taskyard.watch import Watch

logger = logging.getLogger(__name__)

DEEPEST_RECURSION: Final = 40_000
"""The API server takes JSON of 10,000 levels; by Python's own limit one such `input` would end us, again and again."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0 stopped as asked, 1 something broke (start me again), 2 wrong usage."""
    parser = argparse.ArgumentParser(
        prog="taskyard", description="A task queue that lives in the Kubernetes API."
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    add_options(commands.add_parser("run", help="run the operator (the default)"))
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser.parse_args(arguments or ["run"])
    try:
        settings = load(vars(options), os.environ)
    except BadSetting as exc:
        parser.error(str(exc))
    logs.configure(settings.log_format, settings.log_level)
    sys.setrecursionlimit(DEEPEST_RECURSION)
    try:
        asyncio.run(run(settings))
    except (asyncio.CancelledError, KeyboardInterrupt):
        pass
    except Exception as exc:
        why = only_cause(exc)
        is_known = isinstance(why, ClusterError | lease.LeaseLost | CrdMissing)
        logger.error("stopped", extra={"why": str(why)}, exc_info=None if is_known else exc)
        return 1
    logger.info("stopped")
    return 0


class CrdMissing(Exception):  # noqa: N818 - named for what to do about it
    """There is no such kind as Task in this cluster."""


def only_cause(exc: BaseException) -> BaseException:
    """What a task group wrapped, when it is one thing."""
    while isinstance(exc, BaseExceptionGroup) and len(exc.exceptions) == 1:
        exc = exc.exceptions[0]
    return exc


async def run(settings: Settings) -> None:
    """Lead when it is our turn, until a signal comes; raises when the process had better start anew."""
    this = asyncio.current_task()
    assert this is not None
    # Until `hosting` puts another in its place. Without one, process 1 of a container ignores SIGTERM.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    terms = lease.Terms(settings.lease_namespace, settings.lease_name, settings.identity)
    freshness, metrics = Freshness(grace_of(settings.relist_seconds)), Metrics()
    try:
        async with health(settings.health_port, freshness.complaint, metrics), connect() as api_server:
            cluster = Doomed(api_server, settings.failpoint) if settings.failpoint else api_server
            await lease.lead(cluster, terms, lambda: operate(cluster, settings, freshness, metrics))
    finally:
        hosting.end_by_force()


async def operate(cluster: Cluster, settings: Settings, freshness: Freshness, metrics: Metrics) -> None:
    """Know everything first, then act and watch."""
    cache = Cache()
    cache.limit(settings.max_concurrent, settings.namespace_weights)
    watch = Watch(
        cluster, cache, settings.namespaces, relist_every=settings.relist_seconds, freshness=freshness
    )
    try:
        await watch.list_at_last()
    except NotFound as exc:
        raise CrdMissing("the CRDs must be installed first: kubectl apply -f crds/") from exc
    metrics.follow(cache.tally, _now)  # not before: whoever scales by half of the counts scales down
    sweep = Sweep(cluster, cache, settings.namespaces, _now, kept_for=settings.keep_jobs)
    async with asyncio.TaskGroup() as group:
        loop = Loop(
            cluster,
            cache,
            claimer=settings.identity,
            shield_limit=settings.continue_limit,
            look_around=settings.look_around,
        )
        others = [
            group.create_task(loop.run(), name="loop"),
            group.create_task(watch.relist(), name="relist"),
            group.create_task(Report(cluster, cache, _now).run(), name="report"),
            group.create_task(sweep.run(), name="sweep"),
        ]
        watching = group.create_task(failure_of(watch.run(loop.retire)), name="watch")
        # Not awaited itself: when the lease is lost this line ends at once, and the loop with it, while kopf takes
        # its time to stop.
        await asyncio.wait([watching])
        await loop.close()  # also where the watches failed: the lease is still held
        for other in others:
            other.cancel()
        if (failure := watching.result()) is not None:
            raise failure


async def failure_of(work: Awaitable[None]) -> Exception | None:
    """Told, and not raised: a task group ends everything else at once."""
    try:
        await work
    except Exception as exc:
        return exc
    return None


def _now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def health(port: int, complaint: Callable[[], str | None], metrics: Metrics) -> AsyncIterator[None]:
    """Serve `/healthz` and `/metrics` while this process lives, leading or standing by; kopf's would begin with kopf.

    A complaint is something that a restart would cure.
    """

    async def alive(_: web.Request) -> web.Response:
        wrong = complaint()
        return web.Response(text=f"{wrong or 'ok'}\n", status=503 if wrong else 200)

    async def told(_: web.Request) -> web.Response:
        return web.Response(body=metrics.page(), headers={"Content-Type": CONTENT_TYPE})

    if port == 0:
        yield
        return
    application = web.Application()
    application.add_routes([web.get("/healthz", alive), web.get("/metrics", told)])
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()  # on every address, IPv4 or IPv6
        yield
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
