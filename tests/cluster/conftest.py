"""One cluster for all tests, a namespace for each. `make test` has installed Taskyard before."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.provider import choose

JSON = dict[str, Any]


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

    def ask(self, *arguments: str, stdin: str | None = None, timeout: float = 90) -> Answer:
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

    def wait(self, task: str, condition: str = "Finished") -> JSON:
        self("wait", f"--for=condition={condition}", f"task/{task}", "--timeout=80s")
        return self.get("task", task)

    def eventually(self, what: str, holds: Callable[[], Any], seconds: float = 60) -> Any:
        """Ask again until the answer is truthy."""
        deadline = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
            time.sleep(0.2)
        return found


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


@pytest.fixture(scope="session")
def examples() -> Path:
    return Path(__file__).parents[2] / "examples"


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
