"""The one client: a few verbs on plain JSON, and errors that say what the caller does next.

The rest of the operator knows no URL, no header and no status code.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from taskyard.core.manifest import API_VERSION
from taskyard.core.words import DefinitionKind

Json = Mapping[str, Any]

PAGE_SIZE: Final = 500
MEDIA_JSON: Final = "application/json"
METADATA: Final = f"{MEDIA_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TOO_LARGE: Final = "request is too large"
"""What etcd says of an object of more than 1.5 MiB, in a 500."""
NO_WEBHOOK: Final = "failed calling webhook"
"""What the API server says, in a 500 too, where nobody answers who must be asked first. So nothing was done."""
LOG_LINES: Final = 500
LOG_BYTES: Final = 1024 * 1024
NO_LOG: Final = b"unable to retrieve container logs for "
LONGEST_LOG_LINE: Final = 16 * 1024
"""As container runtimes write them; a longer one is several."""
REQUEST_TIMEOUT: Final = aiohttp.ClientTimeout(total=15, connect=5)
LIST_TIMEOUT: Final = aiohttp.ClientTimeout(total=60, connect=5)
LONGEST_REQUEST: Final = timedelta(seconds=60)
"""How long the API server works at a request at the most, also when nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object, by where its collection lives."""

    root: str
    plural: str
    is_namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None) -> str:
        scope = f"/namespaces/{namespace}" if namespace is not None else ""
        return f"{self.root}{scope}/{self.plural}" + (f"/{name}" if name is not None else "")


TASKS: Final = Kind(f"/apis/{API_VERSION}", "tasks")
DEFINITIONS: Final = {
    DefinitionKind.TASK_DEFINITION: Kind(f"/apis/{API_VERSION}", "taskdefinitions"),
    DefinitionKind.CLUSTER_TASK_DEFINITION: Kind(
        f"/apis/{API_VERSION}", "clustertaskdefinitions", is_namespaced=False
    ),
}
QUEUES: Final = Kind(f"/apis/{API_VERSION}", "taskqueues")
PODS: Final = Kind("/api/v1", "pods")
JOBS: Final = Kind("/apis/batch/v1", "jobs")
BUDGETS: Final = Kind("/apis/policy/v1", "poddisruptionbudgets")
EVENTS: Final = Kind("/api/v1", "events")
LEASES: Final = Kind("/apis/coordination.k8s.io/v1", "leases")


@dataclass(frozen=True, slots=True)
class Page:
    """Some of a list; every page of one list shows the same moment, the resourceVersion's."""

    items: list[dict[str, Any]]
    resource_version: int


# ruff: noqa: N818 - the errors are named for what the caller does, as Kubernetes names its reasons
class ClusterError(Exception):
    """The API server did not do what it was asked to."""


class Conflict(ClusterError):
    """The object has changed since it was read: look again."""


class AlreadyExists(ClusterError):
    """There is an object of that name: see whose it is."""


class NotFound(ClusterError):
    """There is no such object: look again."""


class Rejected(ClusterError):
    """The request is wrong or forbidden, and will be so again: show it to the user.

    `malformed` tells an object that can never be accepted from one that quota, policy or rights refuse today.
    """

    def __init__(self, message: str, *, malformed: bool) -> None:
        super().__init__(message)
        self.malformed = malformed


class Unavailable(ClusterError):
    """No answer, or "not now": try again, not before `after` seconds.

    `is_over`: the API server has said so itself, and what was not done by then will not be.
    """

    def __init__(self, message: str, *, after: float = 0.0, is_over: bool = False) -> None:
        super().__init__(message)
        self.after = after
        self.is_over = is_over


class Cluster(Protocol):
    """The verbs. The tests' fake has the same ones, and passes the same suite."""

    def pages(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str | None = None,
        fields: str | None = None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        """Everything of a kind that these selectors leave, as of now, a page at a time."""
        ...

    async def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        """One object, as of now."""
        ...

    async def create(self, kind: Kind, namespace: str, obj: Json) -> dict[str, Any]:
        """A new object, as it was stored."""
        ...

    async def replace(self, kind: Kind, namespace: str, name: str, obj: Json) -> dict[str, Any]:
        """Another content, if the object still has the resourceVersion that it carries."""
        ...

    async def patch(self, kind: Kind, namespace: str, name: str, uid: str, patch: Json) -> dict[str, Any]:
        """A merge patch of exactly this object."""
        ...

    async def patch_status(
        self, kind: Kind, namespace: str, name: str, operations: Sequence[Json]
    ) -> dict[str, Any]:
        """A JSON patch of the status, if the object still has the resourceVersion that the patch sets."""
        ...

    async def read_log(self, namespace: str, pod: str, container: str) -> str:
        """The last lines of a container's log, some more than are needed."""
        ...

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
        """Begin the deletion of exactly this object, at this resourceVersion if one is given; what it owns follows.

        Returns its last state, or a Status. `force`: without waiting for a kubelet.
        """
        ...


class ApiServer:
    """The verbs, against a real API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def pages(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str | None = None,
        fields: str | None = None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = {"limit": str(PAGE_SIZE)} | {key: value for key, value in selectors.items() if value}
        while True:
            path = f"{kind.path(namespace)}?{urlencode(query)}"
            found = await self._call(
                "GET", path, limit=LIST_TIMEOUT, accept=METADATA if only_metadata else MEDIA_JSON
            )
            metadata = found["metadata"]
            yield Page(found["items"], int(metadata["resourceVersion"]))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        return await self._call("GET", kind.path(namespace, name))

    async def create(self, kind: Kind, namespace: str, obj: Json) -> dict[str, Any]:
        # Strict: a field that this server does not know must be refused, not dropped in silence.
        return await self._call("POST", f"{kind.path(namespace)}?fieldValidation=Strict", obj)

    async def replace(self, kind: Kind, namespace: str, name: str, obj: Json) -> dict[str, Any]:
        return await self._call("PUT", kind.path(namespace, name), obj)

    async def patch(self, kind: Kind, namespace: str, name: str, uid: str, patch: Json) -> dict[str, Any]:
        # A uid in a patch is a precondition: it cannot be changed. The API server answers that it is invalid.
        path, body = (
            kind.path(namespace, name),
            {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}},
        )
        try:
            return await self._call("PATCH", path, body, content_type="application/merge-patch+json")
        except Rejected as exc:
            if "metadata.uid:" in str(exc):
                raise Conflict(str(exc)) from exc
            raise

    async def patch_status(
        self, kind: Kind, namespace: str, name: str, operations: Sequence[Json]
    ) -> dict[str, Any]:
        path = f"{kind.path(namespace, name)}/status"
        return await self._call("PATCH", path, operations, content_type="application/json-patch+json")

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
        at_version = {"resourceVersion": str(version)} if version is not None else {}
        options = {"preconditions": {"uid": uid} | at_version, "propagationPolicy": "Background"}
        at_once = {"gracePeriodSeconds": 0} if force else {}
        return await self._call("DELETE", kind.path(namespace, name), options | at_once)

    async def read_log(self, namespace: str, pod: str, container: str) -> str:
        content = await self._log_lines(namespace, pod, container, LOG_LINES)
        if len(content) == LOG_BYTES:
            # The limit counts from the first of the lines asked for: the end is missing. A line has 16 KiB at most.
            content = await self._log_lines(namespace, pod, container, LOG_BYTES // LONGEST_LOG_LINE - 1)
        if content.startswith(NO_LOG) and b"\n" not in content.strip():
            raise NotFound(content.decode(errors="replace"))  # that is what a kubelet says, with a 200
        return content.decode(errors="replace")

    async def _log_lines(self, namespace: str, pod: str, container: str, lines: int) -> bytes:
        query = {"container": container, "tailLines": str(lines), "limitBytes": str(LOG_BYTES)}
        path = f"{PODS.path(namespace, pod)}/log?{urlencode(query)}"
        status, content, headers = await self._send("GET", path, None, MEDIA_JSON, REQUEST_TIMEOUT)
        if status != 200:
            raise error(status, _json(content) or {}, headers)
        return content

    async def _call(
        self,
        method: str,
        path: str,
        body: Json | Sequence[Json] | None = None,
        content_type: str = MEDIA_JSON,
        limit: aiohttp.ClientTimeout = REQUEST_TIMEOUT,
        accept: str = MEDIA_JSON,
    ) -> dict[str, Any]:
        status, content, headers = await self._send(method, path, body, content_type, limit, accept)
        answer = _json(content)
        if status < 400 and answer is not None:
            return answer
        raise error(status, answer or {}, headers)

    async def _send(
        self,
        method: str,
        path: str,
        body: Json | Sequence[Json] | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
        accept: str = MEDIA_JSON,
    ) -> tuple[int, bytes, Mapping[str, str]]:
        configuration = self._client.configuration
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": "taskyard"}
        # `call_api` leaves the credentials to its caller; asked each time, a rotated token is read again.
        if token := await configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        try:
            response = await self._client.call_api(
                method, configuration.host + path, header_params=headers, body=body, _request_timeout=limit
            )
            content = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise Unavailable(f"{method} {path}: {str(exc) or type(exc).__name__}") from exc
        return response.status, content, response.headers


def _json(body: bytes) -> dict[str, Any] | None:
    """An object, or None: a proxy in between, and an unknown path, answer with text."""
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def error(code: int, status: Json, headers: Mapping[str, str]) -> ClusterError:
    """What an answer other than success asks of the caller."""
    reason, message = status.get("reason", ""), status.get("message", f"the API server answered {code}")
    if code == 404:
        return NotFound(message)
    if code == 409:
        return AlreadyExists(message) if reason == "AlreadyExists" else Conflict(message)
    if code == 413 or TOO_LARGE in message:
        return Rejected(message, malformed=True)
    if NO_WEBHOOK in message:
        return Rejected(message, malformed=False)
    # 401: a token that is being rotated. 410: a list that took too long to page through. Below 400: no JSON.
    if code in {401, 410, 429} or code >= 500 or code < 400:
        seconds = headers.get("Retry-After", "")
        # A proxy in between answers without a Status; and a 504 is told of what may be at work still.
        is_over = status.get("kind") == "Status" and code != 504
        return Unavailable(message, after=float(seconds) if seconds.isdigit() else 0.0, is_over=is_over)
    # A policy's denial is a 422 by default, a webhook's a 400 without that reason: both may pass one day.
    is_policy = "ValidatingAdmissionPolicy" in message
    return Rejected(message, malformed=not is_policy and (code == 422 or reason == "BadRequest"))


@asynccontextmanager
async def connect() -> AsyncIterator[ApiServer]:
    """The cluster this process runs in, or else the current context of the kubeconfig."""
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException:
        await load_kube_config(  # type: ignore[no-untyped-call]
            client_configuration=configuration, persist_config=False
        )
    # Proxies and netrc files of the environment are not for the API server.
    configuration.client_session_kwargs = {"trust_env": False}
    async with ApiClient(configuration) as client:
        yield ApiServer(client)
