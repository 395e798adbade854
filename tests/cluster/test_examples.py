"""Every file of examples/, as it stands, comes to what its first lines promise."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.kube import JSON, History, Kubectl, of_run

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


def stem(file: Path) -> str:
    return file.stem


def hello(status: JSON, states: list[str]) -> None:
    assert status["state"] == "Completed"
    assert of_run(status, "exitCode") == [(0,)]


def fails(status: JSON, states: list[str]) -> None:
    assert (status["state"], status["result"]["error"]["code"]) == ("Failed", "ExitCode")
    assert "exited with code 3: cannot find the answer" in status["result"]["error"]["message"]
    assert of_run(status, "exitCode") == [(3,)]


def slow(status: JSON, states: list[str]) -> None:
    assert states[-2:] == ["Running", "Completed"]


def delayed(status: JSON, states: list[str]) -> None:
    assert [each for each in states if each != "Running"] == ["Pending", "Delayed", "Claimed", "Completed"]


def error(status: JSON, states: list[str]) -> None:
    assert (status["state"], status["reason"]) == ("Failed", "ErrorResult")
    assert status["result"]["error"] == {
        "code": "CardDeclined",
        "message": "the bank said no; not retried: the task said so",
        "traceback": "charge() at shop.sh:12",
    }
    assert of_run(status, "exitCode") == [(0,)]


def expires(status: JSON, states: list[str]) -> None:
    assert states == ["Pending", "Claimed", "Expired"]
    assert of_run(status, "number") == []


def result(status: JSON, states: list[str]) -> None:
    assert status["state"] == "Completed"
    assert status["result"]["ok"] == {"greeting": "Hello, World", "price": "$5"}


def retry(status: JSON, states: list[str]) -> None:
    assert (status["state"], status["retryCount"]) == ("Completed", 2)
    assert of_run(status, "state", "exitCode") == [("Failed", 75), ("Failed", 75), ("Completed", 0)]


def timeout(status: JSON, states: list[str]) -> None:
    assert states[-2:] == ["Running", "Failed"]
    assert status["reason"] == "Timeout"
    assert of_run(status, "exitCode", "reason") == [(1, "Timeout")]


PROMISES = {
    each.__name__: each for each in (hello, fails, slow, delayed, error, expires, result, retry, timeout)
}


OF_SEVERAL = {"pipeline", "definition", "held", "queue"}
"""Those with more than one object, or with something for a person to do: each has a test of its own."""


@pytest.mark.parametrize("file", [each for each in EXAMPLES if each.stem not in OF_SEVERAL], ids=stem)
def test_an_example_keeps_its_promise(kubectl: Kubectl, history: History, file: Path) -> None:
    assert file.stem in PROMISES, "every example has an expectation here"
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(file.read_text())]
    assert names == [file.stem]
    kubectl("apply", "-f", str(file))
    states = history.states(file.stem)
    PROMISES[file.stem](kubectl.status(file.stem), states)


def test_the_pipeline_goes_step_by_step(kubectl: Kubectl, history: History, examples: Path) -> None:
    kubectl("apply", "-f", str(examples / "pipeline.yaml"))
    found = kubectl.finished()
    assert {name: status["state"] for name, status in found.items()} == dict.fromkeys(found, "Completed")
    steps = [found[name] for name in ("extract", "transform", "load")]
    assert all(before["completedAt"] <= after["startedAt"] for before, after in pairwise(steps))
    assert steps[-1]["result"]["ok"] == {"rows": 2}
    waits = [status for status in history.statuses("load") if status["state"] == "Unscheduled"]
    assert (waits[0]["reason"], "`transform`" in waits[0]["message"]) == ("DependencyPending", True)
    assert len(kubectl.get("tasks", "--selector=taskyard.dev/group=nightly")["items"]) == len(steps)


def test_a_queue_runs_two_at_a_time(kubectl: Kubectl, history: History, examples: Path) -> None:
    kubectl("apply", "-f", str(examples / "queue.yaml"))
    found = kubectl.finished()
    assert {name: status["state"] for name, status in found.items()} == dict.fromkeys(found, "Completed")
    waits = [
        wait for name in found for status in history.statuses(name) for wait in status.get("waiting", [])
    ]
    assert "QueueLimit" in {each["reason"] for each in waits}


def test_a_held_task_waits_until_it_is_let_go(kubectl: Kubectl, history: History, examples: Path) -> None:
    kubectl("apply", "-f", str(examples / "held.yaml"))
    assert kubectl.until("held", "Unscheduled")["reason"] == "DependencyPending"
    kubectl("patch", "task", "held", "--type=merge", '--patch={"spec":{"release":true}}')
    states = history.states("held")
    assert [each for each in states if each != "Running"] == [
        "Pending",
        "Unscheduled",
        "Claimed",
        "Completed",
    ]


def test_two_namespaces_share_a_definition(admin: Kubectl, examples: Path) -> None:
    file = examples / "definition.yaml"
    as_it_says, blue, green = (Kubectl(admin.command, space) for space in ("", "yard-blue", "yard-green"))
    try:
        as_it_says("apply", "-f", str(file))
        first, second = blue.wait("blue")["status"], green.wait("green")["status"]
    finally:
        as_it_says("delete", "-f", str(file), "--wait=false")
    assert first["result"]["ok"] == {"hello": "Blue"}
    assert second["result"]["ok"] == {"good morning": "Green"}
    assert (first["definition"]["version"], second["definition"]["version"]) == ("v1", "v2")
    assert first["definition"]["uid"] == second["definition"]["uid"]
    assert second["definition"]["defaults"] == {"timeoutSeconds": 60, "retry": {"limit": 2}}


def test_every_example_has_an_expectation_and_says_what_one_sees() -> None:
    assert PROMISES.keys() | OF_SEVERAL == {file.stem for file in EXAMPLES}
    assert all(file.read_text().startswith("# ") for file in EXAMPLES)
