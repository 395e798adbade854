"""Creates Tasks and raw Jobs with the same pod, by the same hands, as many at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from bench.api import JSON, Api
from bench.watcher import KINDS, Watcher

AT_ONCE: Final = 32
"""Requests under way."""

POD: Final[JSON] = {
    "containers": [
        {
            "name": "main",
            "image": "localhost/pretended:dev",
            "command": ["sh", "-c", "pretended"],
            "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}},
        }
    ]
}

Maker = Callable[[str], JSON]
"""The object of that name."""


def job(name: str) -> JSON:
    """What somebody would write who wants a pod to run once."""
    spec = {"backoffLimit": 0, "template": {"spec": {**POD, "restartPolicy": "Never"}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def task(name: str, **spec: Any) -> JSON:
    return {
        "apiVersion": "taskyard.dev/v1alpha1",
        "kind": "Task",
        "metadata": {"name": name},
        "spec": {"template": {"spec": POD}, **spec},
    }


def queue(name: str, **spec: Any) -> JSON:
    metadata = {"name": name}
    return {"apiVersion": "taskyard.dev/v1alpha1", "kind": "TaskQueue", "metadata": metadata, "spec": spec}


class Creator:
    """Into one namespace; when what was submitted is noted where the rest of its life is."""

    def __init__(self, api: Api, namespace: str, watcher: Watcher) -> None:
        self._api = api
        self._namespace = namespace
        self._watcher = watcher
        self._few = asyncio.Semaphore(AT_ONCE)

    async def create(self, made: JSON) -> None:
        """One, as soon as a hand is free."""
        path, body = KINDS[made["kind"]].format(self._namespace), json.dumps(made).encode()
        async with self._few:
            life = self._watcher.lives[made["metadata"]["name"]]
            life.submitted = time.monotonic()
            await self._api.ask("POST", path, body)
            life.answered = time.monotonic()

    async def create_all(self, objects: Iterable[JSON]) -> None:
        """All of them, as fast as the hands can; in their order."""
        waiting = iter(objects)

        async def hand() -> None:
            for made in waiting:
                await self.create(made)

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(hand())
