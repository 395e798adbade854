"""A cluster in memory: the verbs of `taskyard.cluster.Cluster`, and what `contract.py` pins of them.

Tasks get the defaults of the generated CRD, as from an API server: there is no second list of them.
"""

import itertools
import marshal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from taskyard.api.generate import task_crd
from taskyard.cluster import PODS, TASKS, AlreadyExists, Conflict, Json, Kind, NotFound, Page, Rejected
from taskyard.core.clocks import said

Object = dict[str, Any]
TASK_SCHEMA = task_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
BEGINNING = datetime.fromisoformat("2026-01-01T00:00:00Z")

J = TypeVar("J")

Listener = Callable[[Kind, str, Object], None]


class FakeCluster:
    """Objects by kind, namespace and name; every write moves one counter, the resourceVersion."""

    def __init__(self, *, page_size: int = 500, now: Callable[[], datetime] = lambda: BEGINNING) -> None:
        self._now = now
        self._objects: dict[Kind, dict[tuple[str, str], Object]] = defaultdict(dict)
        self._versions = itertools.count(1)
        self._version = 0
        self._uids = itertools.count(1)
        self._page_size = page_size
        self._listeners: list[Listener] = []
        self.logs: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []
        self.before_call: Callable[[str, Kind], None] = lambda verb, kind: None
        self.after_call: Callable[[str, Kind], None] = lambda verb, kind: None

    def watch(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def unwatch(self, listener: Listener | None = None) -> None:
        """This one hears no more; or nobody does."""
        self._listeners = [] if listener is None else [each for each in self._listeners if each != listener]

    async def pages(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str | None = None,
        fields: str | None = None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        self._begin("list", kind)
        found = [
            copied({"metadata": obj["metadata"]} if only_metadata else obj)
            for (where, _), obj in sorted(self._objects[kind].items(), key=lambda item: item[0])
            if namespace in {None, where} and _matches(obj, labels) and _selected(obj, fields)
        ]
        version = self._version
        for start in range(0, max(len(found), 1), self._page_size):
            yield Page(found[start : start + self._page_size], version)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        self._begin("get", kind)
        return copied(self._find(kind, namespace or "", name))

    async def create(self, kind: Kind, namespace: str, obj: Json) -> Object:
        self._begin("create", kind)
        stored = copied(dict(obj))
        name = stored["metadata"]["name"]
        if (namespace, name) in self._objects[kind]:
            raise AlreadyExists(name)
        stored["metadata"] |= {
            "namespace": namespace,
            "uid": f"uid-{next(self._uids)}",
            "generation": 1,
            "creationTimestamp": said(self._now()),
        }
        return self._store("create", kind, stored, "ADDED")

    async def replace(self, kind: Kind, namespace: str, name: str, obj: Json) -> Object:
        self._begin("replace", kind)
        _guard(self._find(kind, namespace, name), obj)
        return self._store("replace", kind, copied(dict(obj)), "MODIFIED")

    async def patch(self, kind: Kind, namespace: str, name: str, uid: str, patch: Json) -> Object:
        self._begin("patch", kind)
        before = self._find(kind, namespace, name)
        if before["metadata"]["uid"] != uid:
            raise Conflict(f"{name} has another uid")
        return self._store("patch", kind, _merged(before, patch), "MODIFIED")

    async def patch_status(self, kind: Kind, namespace: str, name: str, operations: Sequence[Json]) -> Object:
        self._begin("patch_status", kind)
        before = self._find(kind, namespace, name)
        after = _patched(before, operations)
        _guard(before, after)
        return self._store("patch_status", kind, after, "MODIFIED")

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        uid: str,
        *,
        version: int | None = None,
        force: bool = False,
    ) -> Object:
        """A pod is marked, and goes when its kubelet lets it; anything else goes at once."""
        self._begin("delete", kind)
        obj = copied(self._find(kind, namespace, name))
        if obj["metadata"]["uid"] != uid:
            raise Conflict(f"{name} has another uid")
        if version is not None and obj["metadata"]["resourceVersion"] != str(version):
            raise Conflict(f"{name} has changed")
        if kind != PODS or force:
            self.remove(kind, namespace, name)
            self.after_call("delete", kind)
            return {"kind": "Status", "status": "Success"}
        obj["metadata"]["deletionTimestamp"] = said(self._now())
        return self._store("delete", kind, obj, "MODIFIED")

    async def read_log(self, namespace: str, pod: str, container: str) -> str:
        self._begin("read_log", PODS)
        self._find(PODS, namespace, pod)
        return self.logs.get(pod, "")

    # What others do to the cluster; not verbs, never refused.

    def put(self, kind: Kind, obj: Object) -> Object:
        """Store an object as somebody else would; status and spec as given."""
        return self._store("", kind, copied(obj), "MODIFIED")

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        obj = self._objects[kind].pop((namespace, name))
        obj["metadata"]["resourceVersion"] = self._next_version()
        self._tell(kind, "DELETED", obj)

    def peek(self, kind: Kind) -> Iterator[Object]:
        """Every object of a kind, as it is stored: to look at, never to change."""
        return iter(self._objects[kind].values())

    def all(self, kind: Kind) -> list[Object]:
        return [copied(obj) for obj in self.peek(kind)]

    def _find(self, kind: Kind, namespace: str, name: str) -> Object:
        try:
            return self._objects[kind][namespace, name]
        except KeyError:
            raise NotFound(name) from None

    def _store(self, verb: str, kind: Kind, obj: Object, event: str) -> Object:
        if kind == TASKS:
            obj = with_defaults(obj, TASK_DEFAULTS)
        metadata = obj["metadata"]
        metadata["resourceVersion"] = self._next_version()
        self._objects[kind][metadata.get("namespace", ""), metadata["name"]] = obj
        self._tell(kind, event, obj)
        if verb:
            self.after_call(verb, kind)
        return copied(obj)

    def _tell(self, kind: Kind, event: str, obj: Object) -> None:
        for listener in self._listeners:
            listener(kind, event, copied(obj))

    def _next_version(self) -> str:
        self._version = next(self._versions)
        return str(self._version)

    def _begin(self, verb: str, kind: Kind) -> None:
        self.calls.append((verb, kind.plural))
        self.before_call(verb, kind)


def copied(value: J) -> J:
    """The same JSON, shared with nobody. By far the fastest way; the simulation copies a lot."""
    json: Any = value
    same: J = marshal.loads(marshal.dumps(json))  # noqa: S302 - its own output, a moment ago
    return same


def only_defaults(schema: Json) -> Object:
    """The parts of a schema that have a default somewhere: the rest fills nothing in."""
    kept: Object = {"default": schema["default"]} if "default" in schema else {}
    inner = {name: only_defaults(sub) for name, sub in schema.get("properties", {}).items()}
    if any(inner.values()):
        kept["properties"] = {name: sub for name, sub in inner.items() if sub}
    if "items" in schema and (items := only_defaults(schema["items"])):
        kept["items"] = items
    return kept


TASK_DEFAULTS = only_defaults(TASK_SCHEMA)


def with_defaults(value: Any, schema: Json) -> Any:
    """What an API server fills in."""
    if isinstance(value, dict) and "properties" in schema:
        filled = {
            name: copied(sub["default"])
            for name, sub in schema["properties"].items()
            if "default" in sub and name not in value
        }
        every = filled | value
        return {name: with_defaults(each, schema["properties"].get(name, {})) for name, each in every.items()}
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(each, schema["items"]) for each in value]
    return value


def _patched(target: Object, operations: Sequence[Json]) -> Object:
    """RFC 6902, as far as members of objects are added and removed."""
    result = copied(target)
    for each in operations:
        *parents, last = each["path"].removeprefix("/").split("/")
        where = result
        for parent in parents:
            where = where[parent]
        match each["op"]:
            case "add":
                where[last] = copied(each["value"])
            case "remove" if last not in where:
                raise Rejected(f"{each['path']} is not there", malformed=True)
            case "remove":
                del where[last]
            case _:
                raise AssertionError(each)
    return result


def _guard(stored: Object, written: Json) -> None:
    version = written["metadata"].get("resourceVersion")
    if version is not None and version != stored["metadata"]["resourceVersion"]:
        raise Conflict(f"{stored['metadata']['name']} has changed")


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _selected(obj: Object, fields: str | None) -> bool:
    """`path=value`, several of them with commas between."""
    for each in fields.split(",") if fields else ():
        path, _, value = each.partition("=")
        found: Any = obj
        for name in path.split("."):
            found = found.get(name, {})
        if found != value:
            return False
    return True


def _matches(obj: Object, labels: str | None) -> bool:
    """One requirement: `key` or `key=value`."""
    if labels is None:
        return True
    key, _, value = labels.partition("=")
    has: dict[str, str] = obj["metadata"].get("labels", {})
    return key in has and (not value or has[key] == value)
