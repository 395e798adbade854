"""One cluster for all tests, a namespace for each: a plugin of pytest, for all folders of tests that need one."""

from __future__ import annotations

import fcntl
import json
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.provider import choose
from tests.api import BY_TYPE, BY_WORD, NAMESPACES, TASKS, ApiServer, Reply, server_of
from tests.history.recorder import Watch
from tests.waiting import has_condition, has_value

JSON = dict[str, Any]

OPERATOR = ("--namespace=taskyard-system", "--selector=app.kubernetes.io/name=taskyard")

SELECTORS = {"selector": "labelSelector", "field-selector": "fieldSelector"}
"""Options of kubectl, and what they are to the API server."""

WITHIN = 120.0
"""Seconds that a Task has for whatever is waited for."""

UNTIL_TOLD = "trap 'exit 143' TERM; sleep 600 & wait"
"""A script that works until it gets SIGTERM, which a shell that is process 1 ignores otherwise."""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    error: str


@dataclass(frozen=True)
class Kubectl:
    """kubectl, in one namespace, as a user has it."""

    command: tuple[str, ...]
    namespace: str

    def ask(self, *arguments: str, stdin: str | None = None, timeout: float = 150) -> Answer:
        done = subprocess.run(
            [*self.command, f"--namespace={self.namespace}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        answer = self.ask(*arguments, stdin=stdin)
        assert answer.code == 0, f"kubectl {' '.join(arguments)}: {answer.error}"
        return answer.out

    @property
    def api(self) -> ApiServer:
        return server_of(self.command)

    def get(self, *arguments: str) -> JSON:
        """As `kubectl get -o json` has it; the program itself is only asked for what is rare."""
        words = [each for each in arguments if not each.startswith("-")]
        options = dict(each[2:].partition("=")[::2] for each in arguments if each.startswith("-"))
        kinds = [BY_WORD.get(each) for each in words[0].split(",")]
        if len(words) > 2 or None in kinds or not options.keys() <= SELECTORS.keys() | {"namespace"}:
            found: JSON = json.loads(self("get", *arguments, "-o", "json"))
            return found
        namespace = options.pop("namespace", self.namespace)
        selector = {SELECTORS[option]: value for option, value in options.items()}
        replies = [
            self.api.ask("GET", kind.path(namespace, *words[1:]), **selector) for kind in kinds if kind
        ]
        for reply in replies:
            assert reply.is_ok, f"get {' '.join(arguments)}: {reply.error}"
        if len(words) == 2:
            return _without_managers(replies[0].body)
        items = [
            {"apiVersion": kind.version, "kind": kind.name, **_without_managers(each)}
            for kind, reply in zip(kinds, replies, strict=True)
            for each in reply.body["items"]
            if kind
        ]
        return {"apiVersion": "v1", "kind": "List", "items": items}

    def create(self, *objects: JSON) -> None:
        """All of them that are taken; it fails when one is not."""
        if any((each["apiVersion"], each["kind"]) not in BY_TYPE for each in objects):
            everything = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
            self("create", "-f", "-", stdin=json.dumps(everything))
            return
        replies = {
            f"{each['kind']} {each['metadata'].get('name')}": self.post(each, fieldManager="kubectl-create")
            for each in objects
        }
        refused = [f"create {what}: {reply.error}" for what, reply in replies.items() if not reply.is_ok]
        assert not refused, "; ".join(refused)

    def edit(self, task: str, **spec: Any) -> None:
        reply = self.patch("task", task, {"spec": spec}, fieldManager="kubectl-patch")
        assert reply.is_ok, f"edit of {task} to {spec}: {reply.error}"

    def post(self, manifest: JSON, **query: str) -> Reply:
        """What the API server says to this object, as strict as it is with `kubectl create`."""
        kind = BY_TYPE[manifest["apiVersion"], manifest["kind"]]
        return self.api.ask("POST", kind.path(self.namespace), manifest, fieldValidation="Strict", **query)

    def patch(self, kind: str, name: str, change: JSON, **query: str) -> Reply:
        """What the API server says to this merge patch."""
        path = BY_WORD[kind].path(self.namespace, name)
        return self.api.ask("PATCH", path, change, "merge-patch+json", **query)

    def status(self, task: str) -> JSON:
        found: JSON = self.get("task", task)["status"]
        return found

    def wait(self, task: str, condition: str = "Finished") -> JSON:
        """The Task once it has a condition."""
        return self._once(task, condition, lambda found: has_condition(found, condition))

    def until(self, task: str, value: str, path: str = ".status.state") -> JSON:
        """The status of a Task when it says so: that very one, however soon it has another."""
        found = self._once(task, f"{path}={value}", lambda found: has_value(found, path, value))
        status: JSON = found["status"]
        return status

    def finished(self) -> dict[str, JSON]:
        """The status of every Task here, by name, once all of them have one that lasts."""
        there: dict[str, JSON] = {}
        for there in self._tasks():
            assert there, "there are no Tasks"
            if all(has_condition(each, "Finished") for each in there.values()):
                return {name: each["status"] for name, each in there.items()}
        late = {
            name: each.get("status") for name, each in there.items() if not has_condition(each, "Finished")
        }
        raise AssertionError(f"not finished within {WITHIN:.0f} s: {late or 'no answer'}")

    def _once(self, task: str, what: str, holds: Callable[[JSON], bool]) -> JSON:
        there: dict[str, JSON] = {}
        for there in self._tasks(fieldSelector=f"metadata.name={task}"):
            assert task in there, f"waiting for {what} of {task}, which is not there"
            if holds(there[task]):
                return _without_managers(there[task])
        status = there[task].get("status") if there else "no answer"
        raise AssertionError(f"not within {WITHIN:.0f} s: {what} of {task}; it has {status}")

    def _tasks(self, **selector: str) -> Iterator[dict[str, JSON]]:
        path = TASKS.path(self.namespace)
        return self.api.follow(path, time.monotonic() + WITHIN, **selector)

    def events(self, task: str) -> list[JSON]:
        """What was announced about a Task, oldest first."""
        about = f"--field-selector=involvedObject.kind=Task,involvedObject.name={task}"
        return sorted(self.get("events", about)["items"], key=lambda each: str(each["firstTimestamp"]))

    def eventually(self, what: str, holds: Callable[[], Any], seconds: float = 60, pause: float = 0.2) -> Any:
        """Ask again until the answer is truthy."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
            time.sleep(pause)
        return found


@dataclass
class History:
    """Every event of the Tasks of a namespace, by a watch from before the first: nothing in it is left out."""

    seen: list[JSON] = field(default_factory=list)

    def statuses(self, task: str, last: str = "Finished") -> list[JSON]:
        """Every status that the Task had, up to one of that phase or state."""

        def found() -> list[JSON]:
            return [each["object"]["status"] for each in self.seen if named(each, task)]

        deadline = time.monotonic() + 120
        while not any(last in {each["phase"], each["state"]} for each in found()):
            assert time.monotonic() < deadline, f"{task} was not seen to become {last}"
            time.sleep(0.05)
        return found()

    def states(self, task: str, last: str = "Finished") -> list[str]:
        """Every state that the Task was in, up to one of that phase or state."""
        states = [each["state"] for each in self.statuses(task, last)]
        return [state for state, before in zip(states, [None, *states], strict=False) if state != before]

    def gone(self, task: str) -> datetime:
        """When the Task was deleted, seen from here."""
        deadline = time.monotonic() + 120
        while not (ends := [each for each in self.seen if each["type"] == "DELETED" and named(each, task)]):
            assert time.monotonic() < deadline, f"{task} was not seen to go"
            time.sleep(0.05)
        return moment(ends[0]["seenAt"])


def _without_managers(found: JSON) -> JSON:
    """kubectl does not show them either."""
    found["metadata"].pop("managedFields", None)
    return found


def named(event: JSON, task: str) -> bool:
    return bool(event["object"]["metadata"]["name"] == task)


@pytest.fixture(scope="session")
def admin() -> Kubectl:
    provider = choose()
    return Kubectl((str(provider.kubectl), f"--kubeconfig={provider.kubeconfig}"), "default")


@pytest.fixture
def kubectl(admin: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, as strict about pods as namespaces can be."""
    with namespace(admin, **{"pod-security.kubernetes.io/enforce": "restricted"}) as made:
        yield made


@contextmanager
def namespace(admin: Kubectl, **labels: str) -> Iterator[Kubectl]:
    """A new one, as soon as pods can be made in it: a request is faster than the maker of service accounts."""
    made = Kubectl(admin.command, f"test-{uuid.uuid4().hex[:10]}")
    metadata = {"name": made.namespace, "labels": labels}
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    made.eventually("a service account", lambda: made.get("serviceaccounts")["items"], pause=0.05)
    yield made
    gone = admin.api.ask("DELETE", NAMESPACES.path("", made.namespace))
    assert gone.is_ok, f"delete namespace {made.namespace}: {gone.error}"


@pytest.fixture
def history(kubectl: Kubectl) -> Iterator[History]:
    """What becomes of the Tasks of this test, step by step."""
    watched = History()

    def take(event: JSON) -> None:
        watched.seen.append(event | {"seenAt": datetime.now(UTC).isoformat()})

    with Watch(kubectl.command, take, kubectl.namespace):
        yield watched


@pytest.fixture
def calm() -> Iterator[None]:
    """No other test stops the operator meanwhile: for those that keep its time or count its restarts."""
    with _lock(fcntl.LOCK_SH):
        yield


@pytest.fixture
def alone() -> Iterator[None]:
    """For a test that stops the operator."""
    with _lock(fcntl.LOCK_EX):
        yield


@contextmanager
def _lock(kind: int) -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / "taskyard-tests-operator.lock").open("w") as file:
        fcntl.flock(file, kind)
        yield


@pytest.fixture(scope="session")
def examples() -> Path:
    return Path(__file__).parents[1] / "examples"


def task(name: str, script: str, image: str = "task", **spec: Any) -> JSON:
    """A Task that runs a shell script, fit for a `restricted` namespace."""
    container = {
        "name": "main",
        "image": f"localhost/taskyard-{image}:dev",
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {
        "apiVersion": "taskyard.dev/v1alpha1",
        "kind": "Task",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}, **spec},
    }


def definition(name: str, *versions: tuple[str, str], kind: str = "TaskDefinition", **defaults: Any) -> JSON:
    """A registered task type; each version runs a script."""
    offered = [
        {
            "version": version,
            "template": task("any", script)["spec"]["template"],
            "defaults": defaults,
        }
        for version, script in versions
    ]
    return {
        "apiVersion": "taskyard.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"versions": offered},
    }


def typed(name: str, definition: str, version: str, kind: str = "TaskDefinition", **spec: Any) -> JSON:
    """A Task of a registered type."""
    ref = {"kind": kind, "name": definition, "version": version}
    metadata = {"apiVersion": "taskyard.dev/v1alpha1", "kind": "Task", "metadata": {"name": name}}
    return metadata | {"spec": {"definitionRef": ref, **spec}}


def nowhere(manifest: JSON) -> JSON:
    """The same Task, for a node that does not exist: it stays Claimed."""
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"no-such": "label"}
    return manifest


def evict(kubectl: Kubectl, pod: str) -> None:
    """As `kubectl drain` does, where nothing speaks against it."""
    answer = ask_to_evict(kubectl, pod)
    assert answer.code == 0, answer.error


def ask_to_evict(kubectl: Kubectl, pod: str) -> Answer:
    """One request to the Eviction API."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{pod}/eviction"
    return kubectl.ask("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def report(text: str) -> str:
    """The line of a script that leaves this as the task's result."""
    return f"printf %s '{text}' > \"$TASKYARD_RESULT_PATH\""


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def apart(earlier: str, later: str) -> float:
    """Seconds from one time in a status to another."""
    return (moment(later) - moment(earlier)).total_seconds()


def from_now(seconds: float) -> str:
    """A time as a spec has it: whole seconds, not sooner than asked for."""
    then = datetime.now(UTC) + timedelta(seconds=seconds + 1)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def of_run(status: JSON, *names: str) -> list[tuple[Any, ...]]:
    """These fields of every run on record."""
    return [tuple(run.get(name) for name in names) for run in status.get("runs", [])]
