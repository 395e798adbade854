"""Watches a namespace from before the first object, and notes when what was seen: alike for raw Jobs and for Tasks."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from bench.api import JSON, Api
from taskyard.core.manifest import LABEL_TASK

KINDS: Final = {
    "Task": "/apis/taskyard.dev/v1alpha1/namespaces/{}/tasks",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
}
JOB_OF_POD: Final = "job-name"

Listener = Callable[[str, JSON], None]
"""Told the kind and the event, after it was noted."""


@dataclass(slots=True)
class Life:
    """What became of one Task, or of one raw Job. Moments are of this machine's monotonic clock."""

    submitted: float | None = None
    answered: float | None = None
    seen: float | None = None
    job_seen: float | None = None
    pod_seen: float | None = None
    pod_ended: float | None = None
    """The last of its pods that did."""
    claimed: float | None = None
    finished: float | None = None
    """A terminal state of the Task, or a Job's `Complete` or `Failed`."""
    state: str = ""
    attempts: int = 1
    writes: int = 0
    """Of the Task, after it was created."""
    jobs: set[str] = field(default_factory=set)
    pods_over: set[str] = field(default_factory=set)

    @property
    def duplicates(self) -> int:
        """Jobs beyond one for each attempt."""
        return max(len(self.jobs) - self.attempts, 0)


class Watcher:
    """Lives, by name. Names have at most 63 characters here, so that labels hold all of them."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = defaultdict(Life)
        self.finished = 0
        self.known = 0
        """Tasks to which the operator has given a status."""
        self.claims = 0
        """Tasks that were claimed, be it once or again."""
        self.listeners: list[Listener] = []
        self._heard = asyncio.Event()
        self._failure: BaseException | None = None

    async def until(self, what: str, holds: Callable[[], bool], seconds: float) -> None:
        """Wait until that is so, by what was seen."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    if self._failure is not None:
                        raise self._failure
                    self._heard.clear()
                    await self._heard.wait()
        except TimeoutError:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}; {self.finished} are finished") from None

    async def follow(self, api: Api, kind: str, path: str, version: str) -> None:
        try:
            async for event in api.watch(path, version, {}):
                self.take(kind, event, time.monotonic())
        except Exception as exc:  # whoever waits is told
            self._failure = exc
            self._heard.set()

    def take(self, kind: str, event: JSON, now: float) -> None:
        match kind:
            case "Task":
                self._see_task(event, now)
            case "Job":
                self._see_job(event, now)
            case _:
                self._see_pod(event, now)
        for listener in self.listeners:
            listener(kind, event)
        self._heard.set()

    def _see_task(self, event: JSON, now: float) -> None:
        metadata, status = event["object"]["metadata"], event["object"].get("status", {})
        life = self.lives[metadata["name"]]
        life.seen = life.seen or now
        if (state := status.get("state", "")) and not life.state:
            self.known += 1
        life.state = state
        life.attempts = max(status.get("attempt", 0), 1)
        life.writes += event["type"] == "MODIFIED"
        if life.state == "Claimed" and life.claimed is None:
            life.claimed = now
            self.claims += 1
        if status.get("phase") == "Finished":
            self._finish(life, now)

    def _see_job(self, event: JSON, now: float) -> None:
        job = event["object"]
        task = job["metadata"].get("labels", {}).get(LABEL_TASK)
        life = self.lives[task or job["metadata"]["name"]]
        life.job_seen = life.job_seen or now
        life.jobs.add(job["metadata"]["uid"])
        if task is not None:
            return
        life.seen = life.seen or now
        for condition in job["status"].get("conditions", ()):
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                life.state = condition["type"]
                self._finish(life, now)

    def _see_pod(self, event: JSON, now: float) -> None:
        pod = event["object"]
        labels = pod["metadata"].get("labels", {})
        life = self.lives[labels.get(LABEL_TASK) or labels[JOB_OF_POD]]
        life.pod_seen = life.pod_seen or now
        is_over = pod["status"].get("phase") in {"Succeeded", "Failed"}
        if is_over and (uid := pod["metadata"]["uid"]) not in life.pods_over:  # it tells so again and again
            life.pods_over.add(uid)
            life.pod_ended = now

    def _finish(self, life: Life, now: float) -> None:
        if life.finished is None:
            life.finished = now
            self.finished += 1


@asynccontextmanager
async def watching(api: Api, namespace: str) -> AsyncIterator[Watcher]:
    """One namespace, from now on."""
    watcher = Watcher()
    paths = {kind: path.format(namespace) for kind, path in KINDS.items()}
    begun = {kind: await api.version(path) for kind, path in paths.items()}
    follows = [
        asyncio.create_task(watcher.follow(api, kind, path, begun[kind])) for kind, path in paths.items()
    ]
    try:
        yield watcher
    finally:
        for each in follows:
            each.cancel()
        await asyncio.gather(*follows, return_exceptions=True)
