"""`suspend`, `release`, `cancel` and `rerun` in every state that a task can be in: what each does, and does not."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.kube import JSON, UNTIL_TOLD, Kubectl, definition, evict, nowhere, of_run, task, typed

EDITS: Final[dict[str, JSON]] = {
    "suspend": {"suspend": True},
    "release": {"release": True},
    "cancel": {"cancel": True},
    "rerun": {"rerun": 1},
}

SAME: Final = "same"
"""It stays where it was, and the edit is noted."""

WAITING: Final[dict[str, tuple[JSON, str, dict[str, str]]]] = {
    "delayed": (
        {"startDelaySeconds": 3600},
        "Delayed",
        {"suspend": "Unscheduled", "release": SAME, "cancel": "Cancelled", "rerun": SAME},
    ),
    "pending": (
        {"queueName": "no-such-queue"},
        "Pending",
        {"suspend": "Unscheduled", "release": SAME, "cancel": "Cancelled", "rerun": SAME},
    ),
    "dependent": (
        {"dependencies": ["never"]},
        "Unscheduled",
        {"suspend": SAME, "release": "Claimed", "cancel": "Cancelled", "rerun": SAME},
    ),
    "held": (
        {"suspend": True, "dependencies": ["never"]},
        "Unscheduled",
        {"release": SAME, "cancel": "Cancelled", "rerun": SAME},
    ),
    "claimed": (
        {},
        "Claimed",
        {"suspend": SAME, "release": SAME, "cancel": "Cancelled", "rerun": SAME},
    ),
    "cancelled": (
        {"suspend": True, "cancel": True},
        "Cancelled",
        {"release": SAME, "suspend": SAME},
    ),
    "expired": (
        {"goodUntil": "2020-01-01T00:00:00Z"},
        "Expired",
        {"suspend": SAME, "release": SAME, "cancel": SAME},
    ),
    "late": (
        {"deadline": "2020-01-01T00:00:00Z"},
        "Exception",
        {"suspend": SAME, "release": SAME, "cancel": SAME},
    ),
}
"""What a task asks for, the state that brings it to, and what each edit makes of that. None of them ever runs."""


def edit(kubectl: Kubectl, name: str, **spec: Any) -> JSON:
    """Change a spec, and wait until an operator has seen it; what there is then."""
    patch = json.dumps({"spec": spec})
    patched = json.loads(kubectl("patch", "task", name, "--type=merge", f"--patch={patch}", "--output=json"))
    return kubectl.until(name, str(patched["metadata"]["generation"]), ".status.observedGeneration")


def test_every_edit_of_a_task_that_has_no_pod(kubectl: Kubectl) -> None:
    rows = [
        (f"{name}-{word}", state, EDITS[word], after)
        for name, (_, state, ends) in WAITING.items()
        for word, after in ends.items()
    ]
    kubectl.create(
        *(
            nowhere(task(f"{name}-{word}", "exit 0", **spec))
            for name, (spec, _, ends) in WAITING.items()
            for word in ends
        )
    )
    for name, before, _, _ in rows:
        kubectl.until(name, before)
    seen = {name: edit(kubectl, name, **change) for name, _, change, _ in rows}
    for name, before, _, after in rows:
        expected = before if after == SAME else after
        state = seen[name]["state"]
        if state != expected:  # a claim is stopped in two steps
            state = kubectl.until(name, expected)["state"]
        assert state == expected, name
        assert kubectl.status(name)["runCount"] == 0, name


def test_suspended_and_then_let_go_a_task_goes_on_where_it_was(kubectl: Kubectl) -> None:
    kubectl.create(
        nowhere(task("free", "exit 0", suspend=True)),
        nowhere(task("dependent", "exit 0", suspend=True, dependencies=["never"])),
        nowhere(task("later", "exit 0", suspend=True, startDelaySeconds=3600)),
    )
    for name in ("free", "dependent", "later"):
        assert kubectl.until(name, "Unscheduled")["reason"] == "Suspended"
    for name, state in {"free": "Claimed", "dependent": "Unscheduled", "later": "Delayed"}.items():
        edit(kubectl, name, suspend=False)
        kubectl.until(name, state)
    assert kubectl.status("dependent")["reason"] == "DependencyPending"


def test_every_edit_of_a_task_that_runs(kubectl: Kubectl) -> None:
    """One after the other, on one task: only the cancel does anything, and the run keeps its evidence."""
    kubectl.create(task("runs", "echo at work; " + UNTIL_TOLD))
    before = kubectl.until("runs", "Running")
    for change in ({"suspend": True}, {"release": True}, {"rerun": 1}):
        after = edit(kubectl, "runs", **change)
        assert (after["state"], after["runs"]) == ("Running", before["runs"]), change
    edit(kubectl, "runs", suspend=False, cancel=True)
    status = kubectl.wait("runs")["status"]
    assert (status["state"], status["runCount"], status["observedRerun"]) == ("Cancelled", 1, 1)
    assert of_run(status, "state", "exitCode") == [("Cancelled", 143)]
    assert "at work" in status["logTail"]


def test_every_edit_of_a_task_that_has_run(kubectl: Kubectl) -> None:
    """A verdict stays, whatever is asked for, but for a rerun; and that heeds what is set meanwhile."""
    kubectl.create(task("done", "exit 0"))
    before = kubectl.wait("done")["status"]
    for change in ({"suspend": True}, {"release": True}, {"cancel": True}):
        after = edit(kubectl, "done", **change)
        assert (after["state"], after["completedAt"]) == ("Completed", before["completedAt"]), change
    refused = kubectl.ask("patch", "task", "done", "--type=merge", '--patch={"spec":{"rerun":1}}')
    assert "`cancel` must be false" in refused.error
    edit(kubectl, "done", rerun=1, cancel=False)
    held = kubectl.until("done", "Unscheduled")
    assert (held["reason"], held["runCount"]) == ("Suspended", 1)
    assert "completedAt" not in held, "as new, but for its history"
    edit(kubectl, "done", suspend=False)
    again = kubectl.wait("done", "Succeeded")["status"]
    assert of_run(again, "number", "state") == [(0, "Completed"), (1, "Completed")]
    assert again["startedAt"] > before["startedAt"], "outcome fields are those of the rerun"


@pytest.mark.parametrize("state", ["Cancelled", "Expired", "Exception", "Dropped", "Stalled"])
def test_a_rerun_of_every_other_end(kubectl: Kubectl, state: str) -> None:
    ends: dict[str, JSON] = {
        "Cancelled": nowhere(task("ended", "exit 0", suspend=True, cancel=True)),
        "Expired": nowhere(task("ended", "exit 0", goodUntil="2020-01-01T00:00:00Z")),
        "Exception": nowhere(task("ended", "exit 0", deadline="2020-01-01T00:00:00Z")),
        "Dropped": typed("ended", "retired", "v1"),
        "Stalled": task("ended", UNTIL_TOLD, onShutdown="Stop"),
    }
    later = {
        "Expired": {"goodUntil": "2100-01-01T00:00:00Z"},
        "Exception": {"deadline": "2100-01-01T00:00:00Z"},
    }
    retired = definition("retired", ("v1", "exit 0"))
    retired["spec"]["retired"] = ["v1"]
    kubectl.create(retired, ends[state])
    if state == "Stalled":
        evict(kubectl, kubectl.until("ended", "Running")["runs"][0]["pod"])
    kubectl.until("ended", state)
    edit(kubectl, "ended", rerun=1, cancel=False, suspend=True, **later.get(state, {}))
    held = kubectl.until("ended", "Unscheduled")
    assert (held["observedRerun"], held["reason"]) == (1, "Suspended")
    assert not {"result", "completedAt", "failedAt"} & held.keys()


def test_a_task_may_wait_for_sixty_four_others(kubectl: Kubectl) -> None:
    names = [f"one-{number}" for number in range(64)]
    kubectl.create(
        nowhere(task("last", "exit 0", dependencies=names, requires="AllResolved")),
        *(task(name, "exit 0", suspend=True) for name in names),
    )
    waits = kubectl.until("last", "Unscheduled")
    kubectl(
        "patch", *(f"task/{name}" for name in names[1:]), "--type=merge", '--patch={"spec":{"cancel":true}}'
    )
    waits = kubectl.until("last", "waiting for `one-0`", ".status.message")
    assert len([each for each in waits["dependencies"] if each.get("state") == "Cancelled"]) == 63
    kubectl.edit("one-0", cancel=True)
    claimed = kubectl.until("last", "Claimed")
    assert [each["name"] for each in claimed["dependencies"]] == names
