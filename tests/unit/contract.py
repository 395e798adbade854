"""What the operator relies on in a cluster: kept by the fake here, by a real API server in tests/machine."""

import uuid
from typing import Any

import pytest

from taskyard.cluster import EVENTS, LEASES, PODS, TASKS, AlreadyExists, Cluster, Conflict, NotFound
from taskyard.core import announce, outcome, parse
from taskyard.core.verdict import NO_EVIDENCE
from tests.unit.build import NOW, spec

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


def status(version: str, **fields: Any) -> list[dict[str, Any]]:
    """A patch that adds these fields, and removes those that are None, if the object has that version."""
    guard = {"op": "add", "path": "/metadata/resourceVersion", "value": version}
    changes = [
        {"op": "remove", "path": f"/status/{name}"}
        if value is None
        else {"op": "add", "path": f"/status/{name}", "value": value}
        for name, value in fields.items()
    ]
    return [guard, *changes]


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
            await cluster.patch_status(TASKS, namespace, "nobody", status("1", state="Claimed"))
        with pytest.raises(NotFound):
            await cluster.delete(PODS, namespace, "nobody", "no-uid")

    async def test_of_two_writers_who_read_the_same_one_wins(self, cluster: Cluster, namespace: str) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name, version = task["metadata"]["name"], task["metadata"]["resourceVersion"]
        written = await cluster.patch_status(TASKS, namespace, name, status(version, state="Claimed"))
        assert written["status"]["state"] == "Claimed"
        with pytest.raises(Conflict):
            await cluster.patch_status(TASKS, namespace, name, status(version, state="Claimed"))

    async def test_later_versions_are_greater_numbers(self, cluster: Cluster, namespace: str) -> None:
        first = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name, version = first["metadata"]["name"], first["metadata"]["resourceVersion"]
        second = await cluster.patch_status(TASKS, namespace, name, status(version, state="Claimed"))
        third = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        versions = [int(each["metadata"]["resourceVersion"]) for each in (first, second, third)]
        assert versions == sorted(set(versions))

    async def test_a_status_patch_replaces_lists_removes_members_and_keeps_nulls(
        self, cluster: Cluster, namespace: str
    ) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name, version = task["metadata"]["name"], task["metadata"]["resourceVersion"]
        first = status(version, state="Claimed", reason="Because", runs=[{"number": 0}, {"number": 1}])
        written = await cluster.patch_status(TASKS, namespace, name, first)
        version, ok = written["metadata"]["resourceVersion"], {"nothing": None, "more": [None, {"x": None}]}
        second = status(version, state="Running", reason=None, runs=[{"number": 2}], result={"ok": ok})
        written = await cluster.patch_status(TASKS, namespace, name, second)
        assert written["status"]["state"] == "Running"
        assert written["status"]["runs"] == [{"number": 2}]
        assert written["status"]["result"] == {"ok": ok}
        assert "reason" not in written["status"]

    async def test_a_result_may_be_null(self, cluster: Cluster, namespace: str) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name, version = task["metadata"]["name"], task["metadata"]["resourceVersion"]
        patch = status(version, state="Completed", result={"ok": None})
        written = await cluster.patch_status(TASKS, namespace, name, patch)
        assert written["status"]["result"] == {"ok": None}

    async def test_a_new_task_has_every_default(self, cluster: Cluster, namespace: str) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        assert parse.task(task).spec == spec()
        assert task["status"] == {"state": "Pending", "phase": "Waiting"}

    async def test_a_patch_names_exactly_one_object(self, cluster: Cluster, namespace: str) -> None:
        pod = await cluster.create(PODS, namespace, _pod(unique("p"), {}))
        name, patch = pod["metadata"]["name"], {"spec": {"activeDeadlineSeconds": 1}}
        with pytest.raises(Conflict):
            await cluster.patch(PODS, namespace, name, "another-uid", patch)
        patched = await cluster.patch(PODS, namespace, name, pod["metadata"]["uid"], patch)
        assert patched["spec"]["activeDeadlineSeconds"] == 1
        assert patched["spec"]["containers"][0]["name"] == "main"

    async def test_a_pod_that_is_not_there_has_no_log(self, cluster: Cluster, namespace: str) -> None:
        with pytest.raises(NotFound):
            await cluster.read_log(namespace, "nobody", "main")

    async def test_a_deletion_may_name_the_version(self, cluster: Cluster, namespace: str) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        name, uid = task["metadata"]["name"], task["metadata"]["uid"]
        version = task["metadata"]["resourceVersion"]
        await cluster.patch_status(TASKS, namespace, name, status(version, state="Claimed"))
        with pytest.raises(Conflict):
            await cluster.delete(TASKS, namespace, name, uid, version=int(version))
        version = (await cluster.get(TASKS, namespace, name))["metadata"]["resourceVersion"]
        await cluster.delete(TASKS, namespace, name, uid, version=int(version))
        with pytest.raises(NotFound):
            await cluster.get(TASKS, namespace, name)

    async def test_a_pod_is_deleted_at_once_by_force_only(self, cluster: Cluster, namespace: str) -> None:
        pod = await cluster.create(PODS, namespace, _pod(unique("p"), {}))
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        await cluster.delete(PODS, namespace, name, uid, force=True)
        with pytest.raises(NotFound):
            await cluster.get(PODS, namespace, name)

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

    async def test_a_list_may_be_of_metadata_only(self, cluster: Cluster, namespace: str) -> None:
        mine = unique("uid")
        await cluster.create(PODS, namespace, _pod(unique("p"), {"taskyard.dev/task-uid": mine}))
        found = cluster.pages(PODS, namespace, f"taskyard.dev/task-uid={mine}", only_metadata=True)
        [pod] = [obj async for page in found for obj in page.items]
        assert pod["metadata"]["labels"]["taskyard.dev/task-uid"] == mine
        assert not {"spec", "status"} & pod.keys()

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

    async def test_an_event_of_a_fixed_name_is_made_once(self, cluster: Cluster, namespace: str) -> None:
        task = await cluster.create(TASKS, namespace, new_task(unique("t"), namespace))
        before = parse.task(task)
        ended = outcome.cancelled(before, NO_EVIDENCE, NOW)
        made = announce.event(before, ended, NOW)
        assert made is not None
        await cluster.create(EVENTS, namespace, made)
        with pytest.raises(AlreadyExists):
            await cluster.create(EVENTS, namespace, made)


def _pod(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, **TEMPLATE}
