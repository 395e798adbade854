"""A cluster in memory: the verbs of `taskyard.cluster.Cluster`, and what `contract.py` pins of them."""

import copy
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

from taskyard.cluster import AlreadyExists, Conflict, Json, Kind, NotFound, Page

Object = dict[str, Any]
Listener = Callable[[Kind, str, Object], None]


class FakeCluster:
    """Objects by kind, namespace and name; every write moves one counter, the resourceVersion."""

    def __init__(self, *, page_size: int = 500) -> None:
        self._objects: dict[tuple[Kind, str, str], Object] = {}
        self._versions = itertools.count(1)
        self._version = 0
        self._uids = itertools.count(1)
        self._page_size = page_size
        self._listeners: list[Listener] = []
        self.calls: list[tuple[str, str]] = []
        self.before_call: Callable[[str, Kind], None] = lambda verb, kind: None
        self.after_call: Callable[[str, Kind], None] = lambda verb, kind: None

    def watch(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def unwatch(self) -> None:
        self._listeners.clear()

    async def pages(
        self, kind: Kind, namespace: str | None, labels: str | None = None
    ) -> AsyncIterator[Page]:
        self._begin("list", kind)
        found = [
            copy.deepcopy(obj)
            for (each, where, _), obj in sorted(self._objects.items(), key=lambda item: item[0][1:])
            if each == kind and namespace in {None, where} and _matches(obj, labels)
        ]
        version = self._version
        for start in range(0, max(len(found), 1), self._page_size):
            yield Page(found[start : start + self._page_size], version)

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        self._begin("get", kind)
        return copy.deepcopy(self._find(kind, namespace, name))

    async def create(self, kind: Kind, namespace: str, obj: Json) -> Object:
        self._begin("create", kind)
        stored = copy.deepcopy(dict(obj))
        name = stored["metadata"]["name"]
        if (kind, namespace, name) in self._objects:
            raise AlreadyExists(name)
        stored["metadata"] |= {
            "namespace": namespace,
            "uid": f"uid-{next(self._uids)}",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        return self._store("create", kind, stored, "ADDED")

    async def replace(self, kind: Kind, namespace: str, name: str, obj: Json) -> Object:
        self._begin("replace", kind)
        _guard(self._find(kind, namespace, name), obj)
        return self._store("replace", kind, copy.deepcopy(dict(obj)), "MODIFIED")

    async def patch_status(self, kind: Kind, namespace: str, name: str, patch: Json) -> Object:
        self._begin("patch_status", kind)
        before = self._find(kind, namespace, name)
        _guard(before, patch)
        after = copy.deepcopy(before)
        after["status"] = _merged(after.get("status", {}), patch["status"])
        return self._store("patch_status", kind, after, "MODIFIED")

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> Object:
        """As for a pod: it is marked, and goes when its kubelet lets it."""
        self._begin("delete", kind)
        obj = copy.deepcopy(self._find(kind, namespace, name))
        if obj["metadata"]["uid"] != uid:
            raise Conflict(f"{name} has another uid")
        obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return self._store("delete", kind, obj, "MODIFIED")

    # What others do to the cluster; not verbs, never refused.

    def put(self, kind: Kind, obj: Object) -> Object:
        """Store an object as somebody else would; status and spec as given."""
        return self._store("", kind, copy.deepcopy(obj), "MODIFIED")

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        obj = self._objects.pop((kind, namespace, name))
        obj["metadata"]["resourceVersion"] = self._next_version()
        self._tell(kind, "DELETED", obj)

    def all(self, kind: Kind) -> list[Object]:
        return [copy.deepcopy(obj) for (each, _, _), obj in self._objects.items() if each == kind]

    def _find(self, kind: Kind, namespace: str, name: str) -> Object:
        try:
            return self._objects[kind, namespace, name]
        except KeyError:
            raise NotFound(name) from None

    def _store(self, verb: str, kind: Kind, obj: Object, event: str) -> Object:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = self._next_version()
        self._objects[kind, metadata["namespace"], metadata["name"]] = obj
        self._tell(kind, event, obj)
        if verb:
            self.after_call(verb, kind)
        return copy.deepcopy(obj)

    def _tell(self, kind: Kind, event: str, obj: Object) -> None:
        for listener in self._listeners:
            listener(kind, event, copy.deepcopy(obj))

    def _next_version(self) -> str:
        self._version = next(self._versions)
        return str(self._version)

    def _begin(self, verb: str, kind: Kind) -> None:
        self.calls.append((verb, kind.plural))
        self.before_call(verb, kind)


def _guard(stored: Object, written: Json) -> None:
    version = written["metadata"].get("resourceVersion")
    if version is not None and version != stored["metadata"]["resourceVersion"]:
        raise Conflict(f"{stored['metadata']['name']} has changed")


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _matches(obj: Object, labels: str | None) -> bool:
    """One requirement: `key` or `key=value`."""
    if labels is None:
        return True
    key, _, value = labels.partition("=")
    has: dict[str, str] = obj["metadata"].get("labels", {})
    return key in has and (not value or has[key] == value)
