"""A fake cluster with an operator that moves only when told, and somebody who plays kubelet."""

import copy
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from taskyard.cache import Cache
from taskyard.cluster import DEFINITIONS, JOBS, PODS, QUEUES, TASKS, Kind
from taskyard.core import parse
from taskyard.loop import Loop
from taskyard.watch import Watch
from tests.unit.contract import new_task
from tests.unit.fake import FakeCluster, Object

NAMESPACE = "default"
TIME = "2026-01-01T00:00:10Z"


class Operator:
    """One life of an operator: its cache and its loop. Several may live at once, or one after the other."""

    def __init__(self, world: "World", name: str, **told: Any) -> None:
        self._world = world
        self.cache = Cache()
        self.loop = Loop(world.cluster, self.cache, claimer=name, now=lambda: world.now, **told)
        self.is_deaf = False
        self.thoughts = Counter[str]()
        """How often it thought of each, by uid."""
        world.cluster.watch(self._hear)

    async def start(self) -> "Operator":
        await Watch(self._world.cluster, self.cache, []).list_everything()
        return self

    async def settle(self, rounds: int = 50) -> None:
        """Think until there is nothing to think about."""
        for _ in range(rounds):
            if self.cache.dirty.is_idle:
                return
            uid = await self.cache.dirty.take()
            self.thoughts[uid] += 1
            try:
                await self.loop.step(uid)
            finally:
                self.cache.dirty.done(uid)
            await self.loop.make_announcements()
        raise AssertionError("it does not come to rest")

    def mark_all(self) -> None:
        for task in list(self.cache.tasks()):
            self.cache.dirty.mark(task.uid)

    def _hear(self, kind: Kind, event: str, obj: Object) -> None:
        if self.is_deaf:
            return
        match kind, event:
            case (each, "DELETED") if each == TASKS:
                self.cache.miss_task(obj["metadata"]["uid"])
            case (each, _) if each == TASKS:
                self.cache.see_task(obj)
            case (each, "DELETED") if each == PODS:
                self.cache.miss_pod(parse.pod(obj))
            case (each, _) if each == PODS:
                self.cache.see_pod(obj)
            case (each, "DELETED") if each in DEFINITIONS.values():
                self.cache.definitions.miss(obj)
            case (each, _) if each in DEFINITIONS.values():
                self.cache.definitions.see(obj)
            case (each, "DELETED") if each == QUEUES:
                self.cache.queues.miss(obj)
            case (each, _) if each == QUEUES:
                self.cache.queues.see(obj)


class World:
    """A cluster, its clock, and what happens in it besides the operator."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 0, 1, 0, tzinfo=UTC)
        self.cluster = FakeCluster(now=lambda: self.now)

    async def operator(self, name: str = "op-1", **told: Any) -> Operator:
        return await Operator(self, name, **told).start()

    async def submit(self, name: str = "hello", **spec: Any) -> None:
        task = new_task(name, NAMESPACE)
        await self.cluster.create(TASKS, NAMESPACE, task | {"spec": task["spec"] | spec})

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def task(self, name: str = "hello") -> Object:
        return next(each for each in self.cluster.all(TASKS) if each["metadata"]["name"] == name)

    def status(self, name: str = "hello") -> Object:
        return dict(self.task(name).get("status", {}))

    def jobs(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.cluster.all(JOBS)]

    def edit_task(self, name: str = "hello", **metadata: Any) -> None:
        task = self.task(name)
        task["metadata"] |= metadata
        self.cluster.put(TASKS, task)

    def edit_spec(self, name: str, **spec: Any) -> None:
        task = self.task(name)
        self.cluster.put(TASKS, task | {"spec": task["spec"] | spec})

    def make_pods(self) -> None:
        """What the Job controller does: one pod for each Job that has none and is not suspended."""
        owners = {each["metadata"]["labels"]["job-name"] for each in self.cluster.all(PODS)}
        for job in self.cluster.all(JOBS):
            name = job["metadata"]["name"]
            if name not in owners and not job["spec"].get("suspend"):
                self.cluster.put(PODS, _pod(job))

    def pod_runs(self) -> None:
        self._set_pods("Running", {"running": {"startedAt": TIME}})

    def pod_ends(self, code: int = 0) -> None:
        ended = {"exitCode": code, "startedAt": TIME, "finishedAt": TIME}
        self._set_pods("Failed" if code else "Succeeded", {"terminated": ended})

    def remove_pods(self) -> None:
        for pod in self.cluster.all(PODS):
            self.cluster.remove(PODS, NAMESPACE, pod["metadata"]["name"])

    async def let_jobs_rest(self, operator: Operator) -> None:
        """What the Job controller does with Jobs that were suspended: they say so."""
        self.set_job_status(conditions=[{"type": "Suspended", "status": "True"}])
        self.later(2)
        operator.mark_all()
        await operator.settle()

    def set_job_status(self, **status: Any) -> None:
        for job in self.cluster.all(JOBS):
            self.cluster.put(JOBS, job | {"status": status})

    def _set_pods(self, phase: str, state: Object) -> None:
        for pod in self.cluster.all(PODS):
            if pod["status"]["phase"] in {"Pending", "Running"}:
                containers = [{"name": "main", "state": state}]
                self.cluster.put(PODS, pod | {"status": {"phase": phase, "containerStatuses": containers}})


def _pod(job: Object) -> Object:
    name = job["metadata"]["name"]
    template = copy.deepcopy(job["spec"]["template"])
    return {
        "metadata": {
            "name": f"{name}-abcde",
            "namespace": NAMESPACE,
            "uid": f"pod-of-{name}",
            "creationTimestamp": TIME,
            "labels": template["metadata"]["labels"] | {"job-name": name},
            "ownerReferences": [{"kind": "Job", "name": name, "controller": True}],
        },
        "spec": template["spec"] | {"nodeName": "node-1"},
        "status": {"phase": "Pending"},
    }


async def running() -> tuple[World, Operator]:
    """A Task whose pod runs, and the operator that has said so."""
    world = World()
    operator = await world.operator()
    await world.submit()
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    return world, operator
