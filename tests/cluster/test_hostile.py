"""Tasks that nobody sane would write: they hurt themselves at most."""

from __future__ import annotations

import json

import pytest

from tests.kube import OPERATOR, Kubectl, from_now, task


@pytest.mark.usefixtures("calm")
def test_a_deep_or_large_input_leaves_the_operator_at_work(kubectl: Kubectl, admin: Kubectl) -> None:
    before, since = operators(admin), from_now(-1)
    levels = 5000
    deep = json.dumps(task("deep", "exit 0", input="here")).replace('"here"', "[" * levels + "]" * levels)
    kubectl("create", "-f", "-", stdin=deep)
    kubectl.create(task("large", "exit 0", input="x" * 1_000_000))
    kubectl("wait", "--for=condition=Finished", "tasks", "--all", "--timeout=60s")
    kubectl.create(task("plain", "exit 0"))
    kubectl.wait("plain", "Succeeded")
    columns = "-o=custom-columns=:metadata.name,:status.state,:status.reason"  # never the whole of it
    rows = [row.split() for row in kubectl("get", "tasks", "--no-headers", columns).splitlines()]
    assert rows == [
        ["deep", "Completed", "<none>"],
        ["large", "Exception", "MalformedPayload"],
        ["plain", "Completed", "<none>"],
    ]
    assert operators(admin) == before, "the same operators, restarted as often as before"
    lines = admin("logs", *OPERATOR, f"--since-time={since}", "--tail=-1").splitlines()
    assert [line for line in lines if json.loads(line)["level"] in {"error", "critical"}] == []


def operators(admin: Kubectl) -> dict[str, int]:
    """How often each operator was restarted."""
    pods = admin.get("pods", *OPERATOR)["items"]
    return {each["metadata"]["name"]: each["status"]["containerStatuses"][0]["restartCount"] for each in pods}
