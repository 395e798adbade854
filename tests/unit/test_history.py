"""The checker of recorded histories finds a breach of each rule, and none in what is right."""

from __future__ import annotations

from typing import Any

import pytest

from taskyard.core.words import State
from tests.history import checker
from tests.history.checker import JSON
from tests.history.recorder import GAP, slim

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
RUN = {"number": 0, "state": "Failed", "exitCode": 1}
RETRY = {"limit": 2, "infrastructureLimit": 5}


def event(state: str, writer: str = "taskyard", **status: Any) -> JSON:
    """A Task in that state, with all that belongs to it, but for what is said otherwise."""
    known = State(state)
    outcome = str(known is State.COMPLETED) if known.is_terminal else "Unknown"
    written = {
        "state": state,
        "phase": str(known.phase),
        "observedGeneration": 1,
        "submittedAt": NOW,
        "conditions": [
            {"type": "Succeeded", "status": outcome},
            {"type": "Finished", "status": str(known.is_terminal)},
        ],
    }
    written |= {"completedAt": LATER} if known.is_terminal else {}
    written |= {"failedAt": LATER} if known is State.FAILED else {}
    return {
        "type": "MODIFIED",
        "uid": "u",
        "task": "space/name",
        "retry": RETRY,
        "writers": [writer],
        "status": written | status,
    }


NEW: JSON = {
    **event("Pending"),
    "type": "ADDED",
    "writers": [],
    "status": {"state": "Pending", "phase": "Waiting"},
}
CLAIMED = event("Claimed", attempt=1)
RUNNING = event("Running", attempt=1, runs=[{"number": 0, "state": "Running"}], runCount=1)
FAILED = event("Failed", attempt=1, runs=[RUN], runCount=1, retryCount=2)
RETRIED = event("Delayed", attempt=1, run=1, runs=[RUN], runCount=1, retryCount=1)
RERUN = event("Pending", attempt=1, run=1, runs=[RUN], runCount=1, observedRerun=1)
AGAIN = event("Claimed", attempt=2, run=1, runs=[RUN], runCount=1, observedRerun=1)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([NEW, CLAIMED, RUNNING, FAILED], id="a life"),
        pytest.param([NEW, CLAIMED, RUNNING, RETRIED], id="a retry"),
        pytest.param([NEW, CLAIMED, RUNNING, FAILED, FAILED, RERUN, AGAIN], id="a rerun"),
        pytest.param([FAILED, RERUN], id="one that was there before the recording began"),
        pytest.param([RUNNING, event("Completed", "me"), event("Running")], id="a status by another hand"),
        pytest.param([CLAIMED, {**CLAIMED, "type": "DELETED"}], id="a deletion"),
        pytest.param([RUNNING, {**NEW, "uid": "v"}], id="another Task of that name"),
    ],
)
def test_nothing_is_found_in_what_is_right(events: list[JSON]) -> None:
    assert checker.violations(events) == []


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(
            [FAILED, event("Pending", attempt=1, runs=[RUN], runCount=1, retryCount=2)],
            "Failed became Pending without a rerun",
            id="a terminal state is left",
        ),
        pytest.param(
            [event("Cancelled"), event("Completed")],
            "Cancelled became Completed without a rerun",
            id="another verdict",
        ),
        pytest.param(
            [FAILED, event("Failed", attempt=1, runs=[RUN], runCount=1, retryCount=2, result={"ok": 1})],
            "result changed after the end, and no rerun was asked for",
            id="another result",
        ),
        pytest.param(
            [NEW, RUNNING], "no step leads from Pending to Running", id="a step that is not in the table"
        ),
        pytest.param([RETRIED, {**RETRIED, "status": RETRIED["status"] | {"run": 0}}], "run fell", id="run"),
        pytest.param(
            [RETRIED, {**RETRIED, "status": RETRIED["status"] | {"attempt": 0}}], "attempt fell", id="attempt"
        ),
        pytest.param(
            [RETRIED, {**RETRIED, "status": RETRIED["status"] | {"runCount": 0}}], "runCount fell", id="runs"
        ),
        pytest.param(
            [RETRIED, {**RETRIED, "status": RETRIED["status"] | {"retryCount": 0}}],
            "retryCount fell",
            id="a budget that grows again without a rerun",
        ),
        pytest.param(
            [RUNNING, {**RUNNING, "status": RUNNING["status"] | {"attempt": 2}}],
            "attempt went from 1 to 2, Running",
            id="an attempt without a claim",
        ),
        pytest.param([NEW, event("Claimed")], "attempt went from 0 to 0", id="a claim without an attempt"),
        pytest.param(
            [CLAIMED, event("Running", attempt=1, submittedAt=LATER)], "submittedAt moved", id="submission"
        ),
        pytest.param(
            [event("Delayed", retryCount=3)], "retryCount is 3, and the limit 2", id="too many retries"
        ),
        pytest.param(
            [event("Pending", lossCount=6)], "lossCount is 6, and the limit 5", id="too many losses"
        ),
        pytest.param(
            [event("Running", conditions=event("Completed")["status"]["conditions"])],
            "Running, but its conditions say",
            id="conditions of another state",
        ),
        pytest.param([event("Running", conditions=[])], "its conditions say {}", id="no conditions"),
        pytest.param([event("Running", phase="Waiting")], "its phase says Waiting", id="another phase"),
        pytest.param(
            [event("Running", completedAt=NOW)], "Running, and completedAt is", id="an end too soon"
        ),
        pytest.param([event("Expired", failedAt=NOW)], "Expired, and failedAt is", id="failed and expired"),
        pytest.param(
            [FAILED, {**RERUN, "status": RERUN["status"] | {"runs": [RUN | {"exitCode": 2}]}}],
            "run 0 changed after its end",
            id="history rewritten",
        ),
        pytest.param([CLAIMED, GAP, RUNNING], "the recording has a gap", id="a gap"),
    ],
)
def test_a_breach_is_found(events: list[JSON], expected: str) -> None:
    found = checker.violations(events)
    assert any(expected in each for each in found), found


def test_a_recorded_event_has_what_the_checker_needs_and_no_more() -> None:
    metadata = {
        "name": "name",
        "namespace": "space",
        "uid": "u",
        "managedFields": [
            {"manager": "kubectl", "operation": "Update"},
            {"manager": "taskyard", "operation": "Update", "subresource": "status"},
        ],
    }
    spec = {"retry": RETRY, "input": "x" * 1000, "template": {}}
    raw = {"type": "MODIFIED", "object": {"metadata": metadata, "spec": spec, "status": CLAIMED["status"]}}
    assert slim(raw) == CLAIMED
    assert slim(GAP) == GAP
    assert checker.summary([CLAIMED, RUNNING]) == checker.Summary(tasks=1, events=2)
