"""A status as JSON, and the patch that writes it."""

from dataclasses import replace
from typing import Any

import pytest

from taskyard.core.model import Error, Result, Status, Value
from taskyard.core.record import status_json, status_patch
from taskyard.core.words import State
from tests.unit.build import NOW, SUBMITTED, task

GUARD = {"op": "add", "path": "/metadata/resourceVersion", "value": "7"}
UPDATED = "2026-01-01T12:00:00Z"


def added(patch: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        each["path"].removeprefix("/status/"): each["value"]
        for each in patch
        if each["op"] == "add" and each != GUARD and each["value"] is not None
    }


def removed(patch: list[dict[str, Any]]) -> set[str]:
    return {each["path"].removeprefix("/status/") for each in patch if each["op"] == "remove"}


def test_the_first_write_says_everything_and_fails_if_the_task_has_changed() -> None:
    new = task(observed_generation=0)
    patch = status_patch(new, replace(new.status, observed_generation=1), NOW)
    assert patch[0] == GUARD
    waiting = {"reason": "NotFinished", "message": "", "lastTransitionTime": "2026-01-01T11:50:00Z"}
    assert added(patch) == {
        "state": "Pending",
        "phase": "Waiting",
        "conditions": [
            {"type": "Succeeded", "status": "Unknown", **waiting},
            {"type": "Finished", "status": "False", **waiting},
        ],
        "observedGeneration": 1,
        "observedRerun": 0,
        "run": 0,
        "attempt": 0,
        "runCount": 0,
        "retryCount": 0,
        "lossCount": 0,
        "startFailures": 0,
        "submittedAt": "2026-01-01T11:50:00Z",
        "updatedAt": UPDATED,
    }
    assert removed(patch) == set()


def test_later_writes_say_what_changed_and_remove_what_is_no_more() -> None:
    before = task(State.CLAIMED, reason="JobRefused", message="quota")
    after = replace(before.status, state=State.RUNNING, reason=None, message=None)
    patch = status_patch(before, after, NOW)
    assert added(patch) == {"state": "Running", "updatedAt": UPDATED}
    assert removed(patch) == {"reason", "message"}


@pytest.mark.parametrize(
    ("state", "reason", "succeeded", "why"),
    [
        (State.COMPLETED, None, "True", "Completed"),
        (State.FAILED, "ExitCode", "False", "ExitCode"),
        (State.EXCEPTION, "WorkerLost", "False", "WorkerLost"),
    ],
)
def test_the_conditions_follow_the_state(state: State, reason: str | None, succeeded: str, why: str) -> None:
    before = task(State.RUNNING)
    after = replace(before.status, state=state, reason=reason, message="m", completed_at=NOW)
    first, second = status_json(after)["conditions"]
    assert (first["type"], first["status"], first["reason"]) == ("Succeeded", succeeded, why)
    assert (second["type"], second["status"], second["reason"]) == ("Finished", "True", str(state))
    assert first["lastTransitionTime"] == second["lastTransitionTime"] == UPDATED
    assert "observedGeneration" not in first


def test_after_a_rerun_the_conditions_changed_when_it_began() -> None:
    first, _ = status_json(Status(submitted_at=SUBMITTED, rerun_at=NOW))["conditions"]
    assert (first["status"], first["lastTransitionTime"]) == ("Unknown", UPDATED)


def test_noting_an_edit_of_a_resolved_task_touches_nothing_else() -> None:
    before = task(State.FAILED, submitted_at=None, completed_at=NOW, generation=2)
    patch = status_patch(before, replace(before.status, observed_generation=2), NOW)
    assert set(added(patch)) == {"observedGeneration", "updatedAt"}
    assert removed(patch) == set()


def test_a_message_is_cut_to_what_the_schema_allows() -> None:
    error = Error("ExitCode", "x" * 5000, "z" * 5000)
    after = Status(state=State.FAILED, message="y" * 5000, result=Result(error=error), completed_at=NOW)
    status = status_json(after)
    told = status["result"]["error"]
    assert len(status["message"]) == len(told["message"]) == len(told["traceback"]) == 4096


@pytest.mark.parametrize("value", [None, {"a": None}, [None], 0, False, "", {}])
def test_any_json_is_a_result(value: Any) -> None:
    assert status_json(Status(result=Result(Value(value))))["result"] == {"ok": value}


def test_an_unwritten_status_is_known_by_its_generation() -> None:
    assert Status(submitted_at=SUBMITTED).observed_generation == 0
