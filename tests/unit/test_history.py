"""The checker of recorded histories finds a breach of each rule about a Task's status, and none in what is right."""

from __future__ import annotations

import pytest

from taskyard.core.words import State
from tests.history import checker
from tests.history.forged import (
    AT_MOST_ONCE,
    IN_A_MINUTE,
    LATER,
    NOW,
    gone,
    history,
    listed,
    marker,
    new,
    run,
    task,
)
from tests.history.slim import JSON, TASK

RUN = run(0, "Failed", exitCode=1)
LOST = run(0, "Exception", reason="WorkerLost")

NEW: JSON = new(task("Pending")) | {"writers": [], "status": {"state": "Pending", "phase": "Waiting"}}
CLAIMED = task("Claimed", attempt=1, claimedAt=NOW)
RUNNING = task("Running", attempt=1, runs=[run(0)])
FAILED = task("Failed", attempt=1, runs=[RUN], retryCount=2)
RETRIED = task("Delayed", attempt=1, run=1, runs=[RUN], retryCount=1)
RERUN = task("Pending", attempt=1, run=1, runs=[RUN], observedRerun=1)
AGAIN = task("Claimed", attempt=2, run=1, runs=[RUN], observedRerun=1)


def but(line: JSON, **status: object) -> JSON:
    """The same Task, with another status in this."""
    return line | {"status": line["status"] | status}


def asked(line: JSON, **spec: object) -> JSON:
    """The same Task, with another spec in this."""
    return line | {"spec": line["spec"] | spec}


def eleven_runs(first: int) -> list[JSON]:
    return [run(number, "Failed") for number in range(first, first + 10)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([NEW, CLAIMED, RUNNING, FAILED], id="a life"),
        pytest.param([NEW, CLAIMED, RUNNING, RETRIED], id="a retry"),
        pytest.param([NEW, CLAIMED, RUNNING, FAILED, FAILED, RERUN, AGAIN], id="a rerun"),
        pytest.param([listed(FAILED, 1), RERUN], id="one that was there before the recording began"),
        pytest.param(
            [RUNNING, task("Completed", writer="me"), task("Running")], id="a status by another hand"
        ),
        pytest.param([CLAIMED, gone(CLAIMED)], id="a deletion"),
        pytest.param([RUNNING, NEW | {"uid": "v"}], id="another Task of that name"),
        pytest.param([but(RETRIED, retryCount=2)], id="as many retries as allowed"),
        pytest.param([but(CLAIMED, startFailures=3)], id="as many starts as allowed"),
        pytest.param(
            [
                task("Failed", runs=eleven_runs(0), run=9, attempt=10, observedRerun=0),
                task("Pending", runs=eleven_runs(0), run=10, attempt=10, observedRerun=1),
                task("Claimed", runs=eleven_runs(0), run=10, attempt=11, observedRerun=1),
                task("Failed", runs=eleven_runs(1), run=10, attempt=11, observedRerun=1),
            ],
            id="the eleventh run takes the first one's place",
        ),
        pytest.param(
            [
                asked(RUNNING, **AT_MOST_ONCE),
                asked(task("Exception", runs=[LOST], attempt=1), **AT_MOST_ONCE),
                asked(task("Pending", runs=[LOST], attempt=1, run=1, observedRerun=1), **AT_MOST_ONCE),
            ],
            id="a rerun after the loss of a task that allows none",
        ),
        pytest.param([RUNNING, task("Pending", runs=[LOST], attempt=1, run=1, lossCount=1)], id="a loss"),
        pytest.param(
            [asked(NEW, goodUntil=IN_A_MINUTE, deadline=IN_A_MINUTE), CLAIMED], id="claimed before its clocks"
        ),
        pytest.param(
            [
                asked(NEW, dependencies=["a"]),
                but(CLAIMED, dependencies=[{"name": "a", "state": "Completed"}]),
            ],
            id="claimed when its dependency has ended",
        ),
        pytest.param([asked(NEW, dependencies=["a"], release=True), CLAIMED], id="claimed when released"),
        pytest.param([NEW, asked(CLAIMED, cancel=True)], id="a cancel that comes with the claim's own write"),
    ],
)
def test_nothing_is_found_in_what_is_right(lines: list[JSON]) -> None:
    assert checker.violations(history(*lines)) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [FAILED, task("Pending", attempt=1, runs=[RUN], retryCount=2)],
            "Failed became Pending without a rerun",
            id="a terminal state is left",
        ),
        pytest.param(
            [task("Cancelled"), task("Completed")],
            "Cancelled became Completed without a rerun",
            id="another verdict",
        ),
        pytest.param(
            [FAILED, but(FAILED, result={"ok": 1})],
            "result changed after the end, and no rerun was asked for",
            id="another result",
        ),
        pytest.param(
            [NEW, RUNNING], "no step leads from Pending to Running", id="a step that is not in the table"
        ),
        pytest.param([RETRIED, but(RETRIED, run=0)], "run fell", id="run"),
        pytest.param([RETRIED, but(RETRIED, attempt=0)], "attempt fell", id="attempt"),
        pytest.param([RETRIED, but(RETRIED, runCount=0)], "runCount fell", id="runs"),
        pytest.param(
            [RETRIED, but(RETRIED, retryCount=0)],
            "retryCount fell",
            id="a budget that grows again without a rerun",
        ),
        pytest.param(
            [RETRIED, but(RETRIED, retryCount=0, observedRerun=1)],
            "retryCount fell",
            id="a budget that grows again by a rerun of what is not resolved",
        ),
        pytest.param(
            [RUNNING, but(RUNNING, attempt=2)],
            "attempt went from 1 to 2, Running",
            id="an attempt without a claim",
        ),
        pytest.param([NEW, task("Claimed")], "attempt went from 0 to 0", id="a claim without an attempt"),
        pytest.param([CLAIMED, but(RUNNING, submittedAt=LATER)], "submittedAt moved", id="submission"),
        pytest.param([but(RETRIED, retryCount=3)], "retryCount is 3, and the limit 2", id="too many retries"),
        pytest.param([but(RETRIED, lossCount=6)], "lossCount is 6, and the limit 5", id="too many losses"),
        pytest.param(
            [but(CLAIMED, startFailures=4)], "startFailures is 4, and the limit 3", id="too many starts"
        ),
        pytest.param(
            [
                asked(RUNNING, **AT_MOST_ONCE),
                asked(task("Pending", runs=[LOST], attempt=1, run=1), **AT_MOST_ONCE),
            ],
            "run 0 was lost, no loss is allowed, and it is Pending",
            id="another run after a loss where none is allowed",
        ),
        pytest.param(
            [but(RUNNING, conditions=task("Completed")["status"]["conditions"])],
            "Running, but its conditions say",
            id="conditions of another state",
        ),
        pytest.param([but(RUNNING, conditions=[])], "its conditions say {}", id="no conditions"),
        pytest.param([but(RUNNING, phase="Waiting")], "its phase says Waiting", id="another phase"),
        pytest.param([but(RUNNING, completedAt=NOW)], "Running, and completedAt is", id="an end too soon"),
        pytest.param([task("Expired", failedAt=NOW)], "Expired, and failedAt is", id="failed and expired"),
        pytest.param(
            [FAILED, but(RERUN, runs=[RUN | {"exitCode": 2}])],
            "run 0 changed after its end",
            id="history rewritten",
        ),
        pytest.param([FAILED, but(RERUN, runs=[])], "run 0 is no longer on record", id="history lost"),
        pytest.param(
            [task("Running", run=1, attempt=2, runs=[run(1), run(0, "Failed")])],
            "its runs are numbered [1, 0]",
            id="runs out of order",
        ),
        pytest.param(
            [task("Running", run=0, attempt=2, runs=[run(0, "Failed"), run(0, attempt=2)])],
            "its runs are numbered [0, 0]",
            id="two runs of one number",
        ),
        pytest.param(
            [task("Running", run=1, attempt=1, runs=[run(0, "Failed"), run(1, attempt=1)])],
            "its runs are of the attempts [1, 1]",
            id="two runs of one attempt",
        ),
        pytest.param(
            [task("Running", run=1, attempt=2, runs=[run(0), run(1)])],
            "its runs that run are [0, 1]",
            id="two runs at once",
        ),
        pytest.param(
            [task("Failed", attempt=1, runs=[run(0)])],
            "its runs that run are [0]",
            id="a run outlives its task",
        ),
        pytest.param(
            [task("Running", attempt=1)], "its runs that run are []", id="it runs, and that is not on record"
        ),
        pytest.param([asked(NEW, cancel=True), CLAIMED], "though its `cancel` was set", id="cancelled"),
        pytest.param([asked(NEW, suspend=True), CLAIMED], "though its `suspend` was set", id="suspended"),
        pytest.param([NEW | {"deleting": True}, CLAIMED], "though it was being deleted", id="deleted"),
        pytest.param(
            [asked(NEW, dependencies=["a"]), CLAIMED],
            "though its dependency `a` is not resolved",
            id="before its dependency has ended",
        ),
        pytest.param(
            [asked(NEW, dependencies=["a"]), but(CLAIMED, dependencies=[{"name": "a", "state": "Failed"}])],
            "though its dependency `a` is Failed",
            id="after a dependency that has failed",
        ),
        pytest.param(
            [asked(NEW, dependencies=["a"], requires="AllResolved"), CLAIMED],
            "though its dependency `a` is not resolved",
            id="before its dependency has ended in any way",
        ),
        pytest.param(
            [asked(NEW, goodUntil=IN_A_MINUTE), but(CLAIMED, claimedAt=IN_A_MINUTE)],
            "after its `goodUntil`",
            id="expired",
        ),
        pytest.param(
            [asked(NEW, goodForSeconds=60), but(CLAIMED, claimedAt=IN_A_MINUTE)],
            "after its `goodUntil`",
            id="expired, counted from its submission",
        ),
        pytest.param(
            [asked(NEW, deadline=IN_A_MINUTE), but(CLAIMED, claimedAt=LATER)],
            "after its `deadline`",
            id="past its deadline",
        ),
        pytest.param(
            [
                asked(FAILED, deadlineSeconds=60),
                asked(RERUN, deadlineSeconds=60),
                but(AGAIN, claimedAt=LATER),
            ],
            "after its `deadline`",
            id="past its deadline, counted from its submission",
        ),
    ],
)
def test_a_breach_is_found(lines: list[JSON], expected: str) -> None:
    found = checker.violations(history(*lines))
    assert any(expected in each for each in found), found
    assert all(each.startswith("space/name: ") for each in found)


def test_relative_times_count_from_the_rerun() -> None:
    rerun = but(asked(RERUN, deadlineSeconds=60), rerunAt=LATER)
    lines = history(asked(FAILED, deadlineSeconds=60), rerun, but(AGAIN, claimedAt=LATER))
    assert checker.violations(lines) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(NEW, RUNNING, id="a claim"),
        pytest.param(but(RUNNING, lossCount=2), AGAIN, id="an end and a rerun, with budgets anew"),
        pytest.param(FAILED, task("Completed", attempt=2, run=1, runs=[RUN, run(1, "Completed")], observedRerun=1),
                     id="a whole rerun"),
    ],
)  # fmt: skip
def test_what_happened_in_a_gap_is_not_held_against_anybody(before: JSON, after: JSON) -> None:
    assert (
        checker.violations(history(before, marker("GAP", TASK, since=1, version=9), listed(after, 9))) == []
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(RETRIED, but(RETRIED, attempt=0), "attempt fell", id="a counter"),
        pytest.param(FAILED, RUNNING, "Failed became Running without a rerun", id="a verdict"),
        pytest.param(FAILED, but(AGAIN, runs=[]), "run 0 is no longer on record", id="a record"),
    ],
)
def test_a_gap_excuses_only_what_may_have_happened_in_it(before: JSON, after: JSON, expected: str) -> None:
    lines = history(before, marker("GAP", TASK, since=1, version=9), listed(after, 9))
    assert any(expected in each for each in checker.violations(lines))


def test_a_gap_is_told() -> None:
    summary, violations = checker.check(history(NEW, marker("GAP", TASK, since=1, version=9)))
    assert violations == []
    assert summary.gaps == ("no Task was seen from version 1 to 9 (cluster)",)
    assert "1 gaps" in str(summary)


def test_a_task_outlives_the_recording_that_saw_it_first() -> None:
    """Parts of the tests are recorded one after another, and versions of another cluster start anew."""
    first = history(NEW, CLAIMED, session="one")
    assert checker.violations([*first, *history(listed(RUNNING, 1), FAILED, session="two")]) == []
    found = checker.violations([*first, *history(listed(but(RUNNING, attempt=0), 1), session="two")])
    assert any("attempt fell from 1 to 0" in each for each in found)


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_a_task_may_be_in_any_state_before_its_first_run(state: State) -> None:
    assert checker.violations(history(task(state))) == []
