"""The control plane with pretended nodes, for one benchmark alone; what it costs, process by process."""

from __future__ import annotations

import asyncio
import fcntl
import subprocess
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import processes
from bench.api import Api, Refused, connect
from bench.processes import Memory
from bench.watcher import KINDS
from cluster import network
from cluster.build import PROJECT
from cluster.control_plane import API_PORT, PARTS
from cluster.errors import ClusterError
from cluster.making import Shape
from cluster.native import Native
from cluster.process import Register

NODES: Final = 10
ALL_PARTS: Final = (*PARTS, "kwok")
LOCK: Final = Path(tempfile.gettempdir()) / "taskyard-tests-kwok.lock"
"""The tests' own (`tests/crowd`): they wait for a benchmark, and it does not begin while they are at it."""

QUIET: Final = 0.25
"""Of a processor, of the control plane and the operator together."""
QUIET_WITHIN: Final = 60.0
GONE_WITHIN: Final = 300.0
SERVED_WITHIN: Final = 30.0


@dataclass(frozen=True)
class Standing:
    """A control plane that is up."""

    native: Native
    stood_before: bool


class Plane:
    """A running one."""

    def __init__(self, native: Native, api: Api, etcd: Api, *, goes: bool) -> None:
        self._native = native
        self._goes = goes
        self._register = Register(native.folder / "processes")
        self.api = api
        self.etcd = etcd

    @property
    def kubeconfig(self) -> Path:
        return self._native.kubeconfig

    def pid(self, part: str) -> int:
        process = self._register.recall(part)
        if process is None:
            raise ClusterError(f"{part} of the control plane has ended")
        return process.pid

    def cpu_seconds(self) -> dict[str, float]:
        return {part: processes.cpu_seconds(self.pid(part)) for part in ALL_PARTS}

    def memory(self, part: str) -> Memory:
        return processes.memory(self.pid(part))

    async def quiet(self, *others: int) -> None:
        """Until what went before is over, and nothing uses the processors but what is not ours."""
        deadline = time.monotonic() + QUIET_WITHIN
        pids = [*(self.pid(part) for part in ALL_PARTS), *others]
        before = sum(map(processes.cpu_seconds, pids))
        while time.monotonic() < deadline:
            await asyncio.sleep(1)
            now = sum(map(processes.cpu_seconds, pids))
            if now - before < QUIET:
                return
            before = now

    @asynccontextmanager
    async def namespace(self, *, is_last: bool = False) -> AsyncIterator[str]:
        """A new one in which pods can be made. Afterwards all that was in it is gone; but not of the last one, if the
        control plane goes anyway: ten thousand Tasks take minutes.
        """
        name = f"bench-{uuid.uuid4().hex[:8]}"
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.api.ask("POST", "/api/v1/namespaces", made)
        while not (await self.api.ask("GET", f"/api/v1/namespaces/{name}/serviceaccounts"))["items"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        try:
            yield name
        finally:
            if not (is_last and self._goes):
                await self._clear(name)

    async def _clear(self, name: str) -> None:
        """Pods first: what has none left goes faster."""
        deadline = time.monotonic() + GONE_WITHIN
        for kind in ("Task", "Pod", "Job"):
            await self._delete_all(KINDS[kind].format(name), deadline)
        await self._delete_all(f"/api/v1/namespaces/{name}/events", deadline)
        await self.api.ask("DELETE", f"/api/v1/namespaces/{name}")
        while time.monotonic() < deadline:
            try:
                await self.api.ask("GET", f"/api/v1/namespaces/{name}")
            except Refused:
                return
            await asyncio.sleep(0.2)
        raise ClusterError(f"namespace {name} does not go")

    async def _delete_all(self, path: str, deadline: float) -> None:
        """As often as it takes: of many, not all go within the time that one request has."""
        at_once = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        while time.monotonic() < deadline:
            with suppress(Refused, TimeoutError):
                await self.api.ask("DELETE", path, at_once)
                return


@asynccontextmanager
async def plane(standing: Standing) -> AsyncIterator[Plane]:
    """What stands, with the CRDs of this clone."""
    native = standing.native
    pki = native.folder / "pki"
    address = network.KWOK_CONTROL_PLANE
    server, etcd = f"https://{address}:{API_PORT}", f"https://{address}:2379"
    async with connect(server, pki) as api, connect(etcd, pki, "apiserver-etcd") as storage:
        await asyncio.to_thread(_apply_crds, native)
        await _served(api)
        there = await api.ask("GET", "/apis/taskyard.dev/v1alpha1/tasks?limit=1")
        jobs = await api.ask("GET", "/apis/batch/v1/jobs?limit=1")
        if there["items"] or jobs["items"]:
            raise ClusterError(
                "The control plane with pretended nodes is not empty: somebody uses it. `make down-kwok` removes it."
            )
        yield Plane(native, api, storage, goes=not standing.stood_before)


def _apply_crds(native: Native) -> None:
    command = [str(native.kubectl), f"--kubeconfig={native.kubeconfig}", "apply", "--server-side"]
    subprocess.run([*command, f"--filename={PROJECT / 'crds'}"], check=True, stdout=subprocess.DEVNULL)


async def _served(api: Api) -> None:
    """Until the API server knows the CRDs."""
    deadline = time.monotonic() + SERVED_WITHIN
    while True:
        try:
            for plural in ("tasks", "taskqueues", "taskdefinitions", "clustertaskdefinitions"):
                await api.ask("GET", f"/apis/taskyard.dev/v1alpha1/{plural}?limit=1")
            return
        except Refused:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


@contextmanager
def standing() -> Iterator[Standing]:
    """Up, and nobody else's meanwhile. One that stood before stands afterwards."""
    native = Native("kwok", Shape(nodes=0, pretended=NODES))
    with LOCK.open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                "Tests use the control plane with pretended nodes: wait for their end."
            ) from None
        stood_before = native.folder.exists()
        try:
            native.up()
            yield Standing(native, stood_before)
        finally:
            if not stood_before:
                native.down()
