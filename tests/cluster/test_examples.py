"""Every file of examples/, as it stands, comes to what its first lines promise."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.kube import JSON, History, Kubectl, of_run

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


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


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_keeps_its_promise(kubectl: Kubectl, history: History, file: Path) -> None:
    assert file.stem in PROMISES, "every example has an expectation here"
    assert file.read_text().startswith("# "), "and says in its first lines what one sees"
    names = [each["metadata"]["name"] for each in yaml.safe_load_all(file.read_text())]
    assert names == [file.stem]
    kubectl("apply", "-f", str(file))
    states = history.states(file.stem)
    PROMISES[file.stem](kubectl.status(file.stem), states)


def test_every_expectation_has_an_example() -> None:
    assert sorted(PROMISES) == [file.stem for file in EXAMPLES]
