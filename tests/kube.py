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
from tests.history.recorder import Watch

JSON = dict[str, Any]

OPERATOR = ("--namespace=taskyard-system", "--selector=app.kubernetes.io/name=taskyard")

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

    def get(self, *arguments: str) -> JSON:
        found: JSON = json.loads(self("get", *arguments, "-o", "json"))
        return found

    def create(self, *objects: JSON) -> None:
        self(
            "create",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}),
        )

    def edit(self, task: str, **spec: Any) -> None:
        self("patch", "task", task, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def status(self, task: str) -> JSON:
        found: JSON = self.get("task", task)["status"]
        return found

    def wait(self, task: str, condition: str = "Finished") -> JSON:
        self("wait", f"--for=condition={condition}", f"task/{task}", "--timeout=120s")
        return self.get("task", task)

    def finished(self) -> dict[str, JSON]:
        """The status of every Task here, by name, once all of them have one that lasts."""
        self("wait", "--for=condition=Finished", "tasks", "--all", "--timeout=120s")
        return {each["metadata"]["name"]: each["status"] for each in self.get("tasks")["items"]}

    def until(self, task: str, value: str, path: str = ".status.state") -> JSON:
        """The status of a Task once it says so."""
        self("wait", f"--for=jsonpath={{{path}}}={value}", f"task/{task}", "--timeout=120s")
        return self.status(task)

    def events(self, task: str) -> list[JSON]:
        """What was announced about a Task, oldest first."""
        about = f"--field-selector=involvedObject.kind=Task,involvedObject.name={task}"
        return list(self.get("events", about, "--sort-by=.firstTimestamp")["items"])

    def eventually(self, what: str, holds: Callable[[], Any], seconds: float = 60) -> Any:
        """Ask again until the answer is truthy."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
            time.sleep(0.2)
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


def named(event: JSON, task: str) -> bool:
    return bool(event["object"]["metadata"]["name"] == task)


@pytest.fixture(scope="session")
def admin() -> Kubectl:
    provider = choose()
    return Kubectl((str(provider.kubectl), f"--kubeconfig={provider.kubeconfig}"), "default")


@pytest.fixture
def kubectl(admin: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, as strict about pods as namespaces can be."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    yield Kubectl(admin.command, name)
    admin("delete", "namespace", name, "--wait=false")


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


def nowhere(manifest: JSON) -> JSON:
    """The same Task, for a node that does not exist: it stays Claimed."""
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"no-such": "label"}
    return manifest


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
