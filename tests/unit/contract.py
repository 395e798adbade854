"""What the operator relies on in a cluster: kept by the fake here, by a real API server in tests/machine."""

import uuid
from typing import Any

import pytest

from taskyard.cluster import LEASES, PODS, TASKS, AlreadyExists, Cluster, Conflict, NotFound

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "example.invalid/none"}]}}


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def new_task(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "taskyard.dev/v1alpha1",
        "kind": "Task",
        "metadata": metadata,
        "spec": {"template": TEMPLATE},
    }


def status(state: str, version: str) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": version}, "status": {"state": state}}


class ClusterContract:
    """Needs the fixtures `cluster` and `namespace`."""

    async def test_a_created_object_can_be_read_and_has_identity(
        self, cluster: Cluster, namespace: str
    ) -> None:
        created = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        assert created["metadata"]["uid"]
        assert await cluster.get(TASKS, namespace, created["metadata"]["name"]) == created

    async def test_a_name_is_taken_once(self, cluster: Cluster, namespace: str) -> None:
        task = new_task(unique("t"), namespace)
        await cluster.create(TASKS, namespace, task)
        with pytest.raises(AlreadyExists):
            await cluster.create(TASKS, namespace, task)

    async def test_what_is_not_there_is_not_found(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(NotFound):
            await cluster.get(TASKS, namespace, "nobody")
        with pytest.raises(NotFound):
            await cluster.patch_status(TASKS, namespace, "nobody", status("Claimed", "1"))
        with pytest.raises(NotFound):
            await cluster.delete(PODS, namespace, "nobody", "no-uid")

    async def test_of_two_writers_who_read_the_same_one_wins(self, cluster: Cluster, namespace: str) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name, version = task["metadata"]["name"], task["metadata"]["resourceVersion"]
        written = await cluster.patch_status(TASKS, namespace, name, status("Claimed", version))
        assert written["status"]["state"] == "Claimed"
        with pytest.raises(Conflict):
            await cluster.patch_status(TASKS, namespace, name, status("Claimed", version))

    async def test_later_versions_are_greater_numbers(self, cluster: Cluster, namespace: str) -> None:
        first = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name, version = first["metadata"]["name"], first["metadata"]["resourceVersion"]
        second = await cluster.patch_status(TASKS, namespace, name, status("Claimed", version))
        third = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, third)]
        assert versions == sorted(set(versions))

    async def test_a_merge_patch_replaces_lists_and_removes_nulls(
        self, cluster: Cluster, namespace: str
    ) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name = task["metadata"]["name"]
        first = status("Claimed", task["metadata"]["resourceVersion"])
        first["status"] |= {"reason": "Because", "runs": [{"number": 0}, {"number": 1}]}
        written = await cluster.patch_status(TASKS, namespace, name, first)
        second = status("Running", written["metadata"]["resourceVersion"])
        second["status"] |= {"reason": None, "runs": [{"number": 2}]}
        written = await cluster.patch_status(TASKS, namespace, name, second)
        assert written["status"]["state"] == "Running"
        assert written["status"]["runs"] == [{"number": 2}]
        assert "reason" not in written["status"]

    async def test_a_list_is_as_new_as_the_last_write(self, cluster: Cluster, namespace: str) -> None:
        name = unique("t")
        created = await cluster.create(TASKS, namespace, new_task(name, namespace))
        pages = [page async for page in cluster.pages(TASKS, namespace)]
        assert name in {obj["metadata"]["name"] for page in pages for obj in page.items}
        assert pages[-1].resource_version >= int(created["metadata"]["resourceVersion"])

    async def test_a_list_is_narrowed_by_label(self, cluster: Cluster, namespace: str) -> None:
        mine = unique("uid")
        for label in (mine, unique("uid")):
            await cluster.create(PODS, namespace, _pod(unique("p"), {"taskyard.dev/task-uid": label}))
        found = [
            obj["metadata"]["labels"]["taskyard.dev/task-uid"]
            async for page in cluster.pages(PODS, namespace, f"taskyard.dev/task-uid={mine}")
            for obj in page.items
        ]
        assert found == [mine]

    async def test_a_deletion_names_exactly_one_object(self, cluster: Cluster, namespace: str) -> None:
        pod = await cluster.create(PODS, namespace, _pod(unique("p"), {}))
        with pytest.raises(Conflict):
            await cluster.delete(PODS, namespace, pod["metadata"]["name"], "another-uid")
        await cluster.delete(PODS, namespace, pod["metadata"]["name"], pod["metadata"]["uid"])

    async def test_a_replacement_needs_the_version_it_was_made_from(
        self, cluster: Cluster, namespace: str
    ) -> None:
        name = unique("lease")
        metadata = {"name": name, "namespace": namespace}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        made = await cluster.create(LEASES, namespace, lease | {"spec": {"holderIdentity": "a"}})
        await cluster.replace(LEASES, namespace, name, made | {"spec": {"holderIdentity": "b"}})
        with pytest.raises(Conflict):
            await cluster.replace(LEASES, namespace, name, made | {"spec": {"holderIdentity": "c"}})


def _pod(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, **TEMPLATE}
