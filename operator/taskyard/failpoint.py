"""Places where the operator dies on demand: before and after each of its writes. For tests, and off by default.

A setting names one place. Only then does this stand between the loop and the client; otherwise nothing of it is
in the way. The process ends as by `kill -9`, the first time it comes there: no cleanup, no last word.
"""

import os
import signal
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any, Final, Never

from taskyard.cluster import BUDGETS, EVENTS, JOBS, LEASES, PODS, QUEUES, TASKS, Cluster, Json, Kind, Page
from taskyard.core import manifest
from taskyard.core.words import TERMINAL_STATES, State


class Write(StrEnum):
    """Every write that the operator makes, by what it is for."""

    CLAIM = "claim"
    RUNNING = "running"
    STOP = "stop"
    REQUEUE = "requeue"
    VERDICT = "verdict"
    NOTE = "note"
    """Any other status: what is waited for, or an edit that was seen."""
    CREATE_JOB = "create-job"
    PLACEHOLDER = "placeholder"
    SUSPEND_JOB = "suspend-job"
    DELETE_JOB = "delete-job"
    """In `sweep.py`, too, of tasks that have been resolved for a minute at least."""
    SHIELD = "shield"
    UNSHIELD = "unshield"
    END_POD = "end-pod"
    DELETE_POD = "delete-pod"
    TTL = "ttl"
    ANNOUNCE = "announce"
    REPORT = "report"
    LEASE = "lease"


POINTS: Final = frozenset(f"{side}:{write}" for side in ("before", "after") for write in Write)

_OF_KIND: Final = {
    ("create", JOBS): Write.CREATE_JOB,
    ("create", BUDGETS): Write.SHIELD,
    ("create", EVENTS): Write.ANNOUNCE,
    ("create", LEASES): Write.LEASE,
    ("replace", LEASES): Write.LEASE,
    ("patch", JOBS): Write.SUSPEND_JOB,
    ("patch", PODS): Write.END_POD,
    ("delete", JOBS): Write.DELETE_JOB,
    ("delete", PODS): Write.DELETE_POD,
    ("delete", TASKS): Write.TTL,
}


class Doomed:
    """The verbs of a cluster, until one place is reached."""

    def __init__(self, cluster: Cluster, point: str) -> None:
        self._cluster = cluster
        self._point = point

    def pages(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str | None = None,
        fields: str | None = None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        return self._cluster.pages(kind, namespace, labels, fields, only_metadata=only_metadata)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        return await self._cluster.get(kind, namespace, name)

    async def read_log(self, namespace: str, pod: str, container: str) -> str:
        return await self._cluster.read_log(namespace, pod, container)

    async def create(self, kind: Kind, namespace: str, obj: Json) -> dict[str, Any]:
        write = of_object("create", kind, obj)
        self._pass("before", write)
        answer = await self._cluster.create(kind, namespace, obj)
        self._pass("after", write)
        return answer

    async def replace(self, kind: Kind, namespace: str, name: str, obj: Json) -> dict[str, Any]:
        write = of_object("replace", kind, obj)
        self._pass("before", write)
        answer = await self._cluster.replace(kind, namespace, name, obj)
        self._pass("after", write)
        return answer

    async def patch(self, kind: Kind, namespace: str, name: str, uid: str, patch: Json) -> dict[str, Any]:
        write = of_object("patch", kind, patch)
        self._pass("before", write)
        answer = await self._cluster.patch(kind, namespace, name, uid, patch)
        self._pass("after", write)
        return answer

    async def patch_status(
        self, kind: Kind, namespace: str, name: str, operations: Sequence[Json]
    ) -> dict[str, Any]:
        write = Write.REPORT if kind == QUEUES else of_status(operations)
        self._pass("before", write)
        answer = await self._cluster.patch_status(kind, namespace, name, operations)
        self._pass("after", write)
        return answer

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        uid: str,
        *,
        version: int | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        write = of_object("delete", kind, {})
        self._pass("before", write)
        answer = await self._cluster.delete(kind, namespace, name, uid, version=version, force=force)
        self._pass("after", write)
        return answer

    def _pass(self, side: str, write: Write) -> None:
        if self._point == f"{side}:{write}":
            die()


def of_object(verb: str, kind: Kind, body: Json) -> Write:
    """What a write of a whole object, or of a part of one, is for."""
    if (
        kind == JOBS
        and verb == "create"
        and manifest.ANNOTATION_PLACEHOLDER in body["metadata"].get("annotations", {})
    ):
        return Write.PLACEHOLDER
    if kind == PODS and verb == "patch" and "metadata" in body:
        return Write.UNSHIELD
    return _OF_KIND[verb, kind]


def of_status(operations: Sequence[Json]) -> Write:
    """What a write of a status is for, by the fields that it changes."""
    added = {each["path"]: each["value"] for each in operations if each["op"] == "add"}
    state = added.get("/status/state")
    if added.get("/status/stop") is not None:
        return Write.STOP
    if state == State.CLAIMED:
        return Write.CLAIM
    if state == State.RUNNING:
        return Write.RUNNING
    if state in TERMINAL_STATES:
        return Write.VERDICT
    is_released = {"op": "remove", "path": "/status/claimedBy"} in operations
    return Write.REQUEUE if is_released else Write.NOTE


def die() -> Never:
    """As by `kill -9`, and not a line later."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be ignored")
