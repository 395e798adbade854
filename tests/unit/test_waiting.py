"""Waiting in tests goes by the rules of `kubectl wait`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.waiting import at, has_condition, has_value

TASK: dict[str, Any] = {
    "metadata": {"generation": 2},
    "status": {
        "state": "Running",
        "observedGeneration": 2,
        "waiting": [{"reason": "NodeUnreachable"}],
        "conditions": [{"type": "Finished", "status": "True"}, {"type": "Succeeded", "status": "False"}],
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".status.state", "Running"),
        (".status.waiting[0].reason", "NodeUnreachable"),
        (".status.waiting[1].reason", None),
        (".status.dependencies[0].state", None),
        (".status.state.of", None),
        (".status[0]", None),
    ],
)
def test_a_path_leads_to_what_is_there_or_to_nothing(path: str, value: object) -> None:
    assert at(TASK, path) == value


@pytest.mark.parametrize("path", ["status.state", ".status.runs[*].pod", "", "{.status}", ".status."])
def test_a_path_that_kubectl_knows_and_this_does_not_is_refused(path: str) -> None:
    with pytest.raises(AssertionError, match="not a path"):
        at(TASK, path)


def test_a_number_is_compared_as_it_is_written() -> None:
    assert has_value(TASK, ".status.observedGeneration", "2")
    assert not has_value(TASK, ".status.observedGeneration", "3")
    assert not has_value(TASK, ".status.reason", "Suspended")


def test_a_condition_is_true_unless_asked_for_otherwise() -> None:
    assert has_condition(TASK, "Finished")
    assert has_condition(TASK, "Succeeded=false")
    assert not has_condition(TASK, "Succeeded")
    assert not has_condition(TASK, "Failed")
    assert not has_condition({"metadata": {}}, "Finished")


def test_a_condition_from_before_the_last_edit_does_not_count() -> None:
    edited = TASK | {"metadata": {"generation": 3}}
    assert not has_condition(edited, "Finished")
    of_its_own = {"type": "Finished", "status": "True", "observedGeneration": 3}
    assert has_condition(
        edited | {"status": {"observedGeneration": 2, "conditions": [of_its_own]}}, "Finished"
    )
