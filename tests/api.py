"""The API server, asked without a program in between: a process of kubectl costs 85 ms of a processor, a request 1."""

from __future__ import annotations

import atexit
import base64
import http.client
import json
import select
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import yaml

JSON = dict[str, Any]

ANSWERS_WITHIN: Final = 30.0
PAUSE: Final = 0.1
TRIES: Final = 10
"""Of a request that the server is too busy for: as many as kubectl makes."""


class NoAnswer(Exception):  # noqa: N818 - errors are named for what they say
    """The API server is away, or has hung up."""


@dataclass(frozen=True)
class Kind:
    """Where objects of a kind are."""

    version: str
    name: str
    plural: str
    short: str = ""
    is_namespaced: bool = True

    def path(self, namespace: str, name: str = "") -> str:
        root = f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"
        where = f"/namespaces/{namespace or 'default'}" if self.is_namespaced else ""
        return f"{root}{where}/{self.plural}" + (f"/{name}" if name else "")


TASKS: Final = Kind("taskyard.dev/v1alpha1", "Task", "tasks", "tsk")
NAMESPACES: Final = Kind("v1", "Namespace", "namespaces", is_namespaced=False)
EVENTS: Final = Kind("v1", "Event", "events")
KINDS: Final = (
    TASKS,
    Kind("taskyard.dev/v1alpha1", "TaskQueue", "taskqueues"),
    Kind("taskyard.dev/v1alpha1", "TaskDefinition", "taskdefinitions"),
    Kind("taskyard.dev/v1alpha1", "ClusterTaskDefinition", "clustertaskdefinitions", is_namespaced=False),
    Kind("v1", "Pod", "pods"),
    Kind("v1", "ResourceQuota", "resourcequotas"),
    Kind("v1", "Service", "services"),
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    Kind("v1", "Node", "nodes", is_namespaced=False),
    NAMESPACES,
    EVENTS,
    Kind("batch/v1", "Job", "jobs"),
    Kind("coordination.k8s.io/v1", "Lease", "leases"),
    Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb"),
    Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", is_namespaced=False),
    Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd", False),
)
BY_WORD: Final = {
    word: kind for kind in KINDS for word in (kind.name.lower(), kind.plural, kind.short) if word
}
BY_TYPE: Final = {(kind.version, kind.name): kind for kind in KINDS}


@dataclass(frozen=True)
class Reply:
    code: int
    body: JSON

    @property
    def is_ok(self) -> bool:
        return self.code < 300

    @property
    def error(self) -> str:
        """Why not, in the server's words."""
        return "" if self.is_ok else f"{self.body.get('reason')}: {self.body.get('message')}"


class ApiServer:
    """One server, for one user of it. Each thread has a connection of its own, which stays open."""

    def __init__(self, server: str, context: ssl.SSLContext | None = None, token: str | None = None) -> None:
        address = urlsplit(server)
        assert address.hostname is not None
        self._host, self._port = address.hostname, address.port or 443
        self._context = context
        self._headers = {"Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._kept = threading.local()

    def ask(
        self, verb: str, path: str, body: JSON | None = None, content: str = "json", /, **query: str
    ) -> Reply:
        for _ in range(TRIES - 1):
            reply, pause = self._ask_once(verb, path, body, content, query)
            if pause is None:
                return reply
            time.sleep(pause)
        return self._ask_once(verb, path, body, content, query)[0]

    def follow(self, path: str, deadline: float, /, **selector: str) -> Iterator[dict[str, JSON]]:
        """What is there, by name, now and after every change; nothing is left out that kubectl's watch would see.

        As long as the server is away this waits for its return, and then begins anew. It ends at the deadline.
        """
        while time.monotonic() < deadline:
            try:
                reply = self.ask("GET", path, **selector)
                if reply.is_ok:
                    there = {each["metadata"]["name"]: each for each in reply.body["items"]}
                    yield there
                    version = reply.body["metadata"]["resourceVersion"]
                    for event in self._watch(path, deadline, resourceVersion=version, **selector):
                        if event["type"] == "DELETED":
                            there.pop(event["object"]["metadata"]["name"], None)
                        else:
                            there[event["object"]["metadata"]["name"]] = event["object"]
                        yield there
            except NoAnswer:
                pass
            time.sleep(PAUSE)

    def _watch(self, path: str, deadline: float, /, **query: str) -> Iterator[JSON]:
        """Changes, until the server or the deadline ends it. It has a connection of its own, for it may end midway."""
        seconds = max(1, round(deadline - time.monotonic()))
        query |= {"watch": "true", "timeoutSeconds": str(seconds)}
        with closing(self._connect(timeout=seconds + 1)) as connection:
            try:
                connection.request("GET", f"{path}?{urlencode(query)}", headers=self._headers)
                answer = connection.getresponse()
                while answer.status == 200 and (line := answer.readline()):
                    event = json.loads(line)
                    if event["type"] == "ERROR":  # too old: whoever asks lists anew
                        return
                    yield event
            except (OSError, http.client.HTTPException) as error:
                raise NoAnswer(str(error)) from error

    def _ask_once(
        self, verb: str, path: str, body: JSON | None, content: str, query: dict[str, str]
    ) -> tuple[Reply, float | None]:
        """The answer; and after how many seconds to ask again, if the server was too busy to take it."""
        connection = self._connection()
        headers = self._headers | ({"Content-Type": f"application/{content}"} if body is not None else {})
        try:
            connection.request(
                verb,
                f"{path}?{urlencode(query)}" if query else path,
                body=None if body is None else json.dumps(body),
                headers=headers,
            )
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoAnswer(f"{verb} {path}: {error}") from error
        try:
            said: JSON = json.loads(text)
        except ValueError:  # what it says while it starts or stops is plain text
            said = {"reason": answer.reason, "message": text.decode(errors="replace")}
        again = answer.getheader("Retry-After")
        is_busy = again is not None and (answer.status == 429 or answer.status >= 500)
        return Reply(answer.status, said), float(again or 1) if is_busy else None

    def _connection(self) -> http.client.HTTPConnection:
        """This thread's. One that the server has closed meanwhile is opened anew, before anything is sent."""
        kept: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is None:
            kept = self._kept.connection = self._connect(ANSWERS_WITHIN)
        elif kept.sock is not None and select.select([kept.sock], [], [], 0)[0]:
            kept.close()
        return kept

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)


_servers: dict[tuple[tuple[str, ...], int], ApiServer] = {}
_one_at_a_time = threading.Lock()


def server_of(command: tuple[str, ...]) -> ApiServer:
    """The one that this kubectl would ask; another one when its kubeconfig has changed since."""
    (kubeconfig,) = (Path(each.partition("=")[2]) for each in command if each.startswith("--kubeconfig="))
    key = command, kubeconfig.stat().st_mtime_ns
    with _one_at_a_time:
        if key not in _servers:
            _servers[key] = directly(kubeconfig.read_text()) or through_kubectl(command)
        return _servers[key]


def directly(kubeconfig: str) -> ApiServer | None:
    """None: it says more than this understands, like a program that signs one in."""
    config = yaml.safe_load(kubeconfig)
    context = _named(config, "context", config["current-context"])
    cluster, user = _named(config, "cluster", context["cluster"]), _named(config, "user", context["user"])
    is_known = cluster.keys() == {"server", "certificate-authority-data"} and user.keys() in (
        {"client-certificate-data", "client-key-data"},
        {"token"},
    )
    if not is_known or urlsplit(cluster["server"]).path.strip("/"):
        return None
    tls = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]).decode())
    if "token" not in user:
        with tempfile.NamedTemporaryFile() as pair:  # there is no other way to hand them over than in a file
            pair.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pair.flush()
            tls.load_cert_chain(pair.name)
    return ApiServer(cluster["server"], tls, user.get("token"))


def through_kubectl(command: tuple[str, ...]) -> ApiServer:
    """Whatever the kubeconfig asks for, kubectl does it: one process of it for all requests, until this one ends."""
    proxy = subprocess.Popen([*command, "proxy", "--port=0"], stdout=subprocess.PIPE, text=True)
    atexit.register(proxy.kill)
    assert proxy.stdout is not None
    address = proxy.stdout.readline().split()[-1]  # "Starting to serve on 127.0.0.1:41231"
    return ApiServer(f"http://{address}")


def _named(config: JSON, kind: str, name: str) -> JSON:
    (found,) = (each[kind] for each in config[f"{kind}s"] if each["name"] == name)
    return dict(found)


def _decoded(data: str) -> bytes:
    return base64.b64decode(data)
