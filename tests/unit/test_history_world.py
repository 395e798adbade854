"""The checker finds a breach of each rule about a Task with its Jobs and pods, and none in what comes close to one."""

from __future__ import annotations

import pytest

from tests.history import checker
from tests.history.forged import (
    AT_MOST_ONCE,
    IN_A_MINUTE,
    LATER,
    NOW,
    gone,
    history,
    job,
    listed,
    marker,
    new,
    pod,
    run,
    task,
)
from tests.history.slim import JOB, JSON, POD, TASK

LATE = "2026-01-01T00:01:02Z"
DRAINED = run(0, "Stalled")
LOST = run(0, "Exception", reason="WorkerLost")

PENDING = task("Pending")
CLAIMED = task("Claimed", attempt=1, claimedAt=NOW)
RUNNING = task("Running", attempt=1, runs=[run(0)])
COMPLETED = task("Completed", attempt=1, runs=[run(0, "Completed")])
REQUEUED = task("Pending", attempt=1, run=1, runs=[LOST], lossCount=1)
GIVEN_BACK = task("Pending", attempt=1, reason="GivenBack", startFailures=1)
AGAIN = task("Claimed", attempt=2, run=1, runs=[LOST], lossCount=1, claimedAt=NOW)
RUNNING_AGAIN = task("Running", attempt=2, run=1, runs=[LOST, run(1)], lossCount=1)
DONE_AGAIN = task("Completed", attempt=2, run=1, runs=[LOST, run(1, "Completed")], lossCount=1)

STARTED = pod(1, "Running", started=NOW)
OVER = pod(1, "Succeeded", started=NOW)
FIRST = [PENDING, CLAIMED, job(1), new(pod(1)), STARTED, RUNNING]
"""A run that has begun."""
LOSS = [*FIRST, gone(STARTED), REQUEUED]
SECOND = [AGAIN, job(2), new(pod(2)), pod(2, "Running", started=NOW), RUNNING_AGAIN]


def asked(lines: list[JSON], **spec: object) -> list[JSON]:
    """The same history of a Task with another spec in this."""
    return [line | {"spec": line["spec"] | spec} if line["kind"] == TASK else line for line in lines]


def stopping(reason: str) -> JSON:
    return {"reason": reason, "requestedAt": NOW}


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*FIRST, OVER, COMPLETED], id="a life"),
        pytest.param([*LOSS, *SECOND, pod(2, "Succeeded", started=NOW), DONE_AGAIN], id="two runs"),
        pytest.param([*FIRST, pod(1, "Failed", started=NOW), REQUEUED, *SECOND], id="the first pod is terminal"),
        pytest.param(
            [*FIRST, OVER | {"deleting": True}, COMPLETED], id="a terminal pod whose object is on its way out"
        ),
        pytest.param(
            [*FIRST, new(pod(9, "Running", uid="mine", owner=None)), OVER, COMPLETED], id="a pod made by hand"
        ),
        pytest.param(
            [*FIRST, job(1, byHand=True), gone(job(1, byHand=True)), STARTED | {"deleting": True}, gone(STARTED),
             REQUEUED, *SECOND],
            id="a Job that a test deleted under its run",
        ),
        pytest.param(
            [*FIRST, task("Running", attempt=1, runs=[run(0)], stop=stopping("Lost")), gone(job(1)), gone(STARTED),
             REQUEUED, *SECOND],
            id="a Job that goes because its run is given up",
        ),
        pytest.param(
            [*FIRST, OVER, gone(job(1)), gone(OVER), REQUEUED, *SECOND], id="a Job that goes when its pod is over"
        ),
        pytest.param(
            [*FIRST, gone(job(1)), STARTED | {"deleting": True}, gone(STARTED), REQUEUED, gone(REQUEUED)],
            id="a Job that goes with its namespace",
        ),
        pytest.param(
            [*LOSS, *SECOND, gone(job(1))], id="a Job of an earlier attempt"
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), gone(job(1)), job(1, uid="fence", placeholder=True)],
            id="a Job that somebody deleted, and one that holds its name from then on",
        ),
        pytest.param(
            [*FIRST, new(job(9, uid="mine", owner=None)), new(pod(9, owner={"kind": JOB, "uid": "mine"}))],
            id="a Job made by hand, with its pod",
        ),
        pytest.param([*FIRST, task("Pending", writer="me"), new(pod(2))], id="a status by another hand"),
        pytest.param([*FIRST, new(pod(1, uid="other", taskUid="v"))], id="a pod of another Task"),
        pytest.param([PENDING, job(1) | {"taskUid": "v", "owner": {"kind": TASK, "uid": "v"}, "name": "n-4c94485e-1"}],
                     id="a Job of a Task that nobody has seen"),
        pytest.param([PENDING, CLAIMED, job(1), gone(CLAIMED), job(2)], id="a Job of a Task that is gone"),
        pytest.param(
            [PENDING, CLAIMED, job(1, placeholder=True, created=LATER), GIVEN_BACK], id="a placeholder"
        ),
        pytest.param(
            asked([PENDING, CLAIMED, job(1, placeholder=True, created=LATER)], goodUntil=IN_A_MINUTE),
            id="a placeholder, whenever it comes",
        ),
        pytest.param(
            [PENDING, CLAIMED, task("Claimed", attempt=1, stop=stopping("Cancelled")), job(1, placeholder=True)],
            id="a placeholder of what is being stopped",
        ),
        pytest.param(
            asked([PENDING, CLAIMED, job(1, created="2026-01-01T00:01:01Z")], goodUntil=IN_A_MINUTE),
            id="a Job that took a second",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), new(pod(1)), gone(pod(1)), GIVEN_BACK], id="a claim that came to nothing"
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), new(pod(1)), pod(1, "Failed"), GIVEN_BACK],
            id="a claim whose pod was refused",
        ),
        pytest.param(
            [*FIRST, task("Exception", attempt=1, reason="DeadlineExceeded", runs=[run(0, "Exception")])],
            id="a pod that is given up at the deadline",
        ),
        pytest.param(
            asked(
                [
                    *FIRST,
                    task("Running", attempt=1, runs=[run(0)], stop=stopping("MainContainerEnded")),
                    COMPLETED,
                ],
                deadline=IN_A_MINUTE,
            ),
            id="a pod that is given up at the deadline, its main container over",
        ),
        pytest.param(
            [
                *FIRST,
                task("Exception", attempt=1, reason="DeadlineExceeded", runs=[run(0, "Exception")]),
                task("Pending", attempt=1, run=1, runs=[run(0, "Exception")], observedRerun=1),
                task("Expired", attempt=1, run=1, runs=[run(0, "Exception")], observedRerun=1),
            ],
            id="a pod that was given up lives on through a rerun",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), new(pod(1)),
             task("Exception", attempt=1, reason="DeadlineExceeded"), STARTED],
            id="a pod that was given up tells of its start later",
        ),
        pytest.param([*FIRST, gone(STARTED)], id="a start whose Task is not resolved yet"),
        pytest.param([PENDING, CLAIMED, job(1), new(STARTED), gone(CLAIMED)], id="a start whose Task is gone"),
        pytest.param(
            [PENDING, CLAIMED, job(1), OVER | {"name": "other"}, COMPLETED], id="a start on record by its attempt"
        ),
        pytest.param(
            [
                *FIRST,
                OVER,
                task(
                    "Failed",
                    attempt=12,
                    run=11,
                    runCount=12,
                    runs=[run(number, "Failed") for number in range(2, 12)],
                )
                | {"type": "LISTED"},
            ],
            id="a start whose record went with its age",
        ),
        pytest.param(
            asked(
                [
                    *FIRST,
                    gone(STARTED),
                    task("Pending", attempt=1, run=1, runs=[DRAINED], reason="Drained"),
                    task("Claimed", attempt=2, run=1, runs=[DRAINED]),
                    job(2),
                    new(pod(2, "Running", started=NOW)),
                    pod(2, "Succeeded", started=NOW),
                    task("Completed", attempt=2, run=1, runs=[DRAINED, run(1, "Completed")]),
                ],
                **AT_MOST_ONCE,
            ),
            id="a drain is no loss",
        ),
        pytest.param(
            asked(
                [
                    *FIRST,
                    gone(STARTED),
                    task("Exception", attempt=1, runs=[LOST]),
                    task("Pending", attempt=1, run=1, runs=[LOST], observedRerun=1),
                    task("Claimed", attempt=2, run=1, runs=[LOST], observedRerun=1),
                    job(2),
                    new(pod(2, "Succeeded", started=NOW)),
                    task("Completed", attempt=2, run=1, runs=[LOST, run(1, "Completed")], observedRerun=1),
                ],
                **AT_MOST_ONCE,
            ),
            id="a rerun after the one loss",
        ),
    ],
)  # fmt: skip
def test_nothing_is_found_in_what_is_right(lines: list[JSON]) -> None:
    assert checker.violations(history(*lines)) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            [*FIRST, REQUEUED, AGAIN, job(2), new(pod(2))],
            "pod pod-2 (attempt 2) is there while pod pod-1 (attempt 1, Running) has not ended",
            id="two pods",
        ),
        pytest.param(
            [*FIRST, gone(job(1)), STARTED | {"deleting": True}, gone(STARTED), REQUEUED, *SECOND],
            "was deleted while pod pod-1 was at work, and nobody had asked for a stop",
            id="a Job is swept under its run",
        ),
        pytest.param(
            [*FIRST, job(1, deleting=True), gone(STARTED), gone(job(1)), REQUEUED, *SECOND],
            "was deleted while pod pod-1 was at work, and nobody had asked for a stop",
            id="a Job is deleted under its run, and waits for its pod",
        ),
        pytest.param(
            [*FIRST, STARTED | {"deleting": True}, REQUEUED, AGAIN, job(2), new(pod(2))],
            "pod pod-2 (attempt 2) is there while pod pod-1",
            id="two pods, one of them on its way out",
        ),
        pytest.param(
            [*FIRST, STARTED | {"owner": None}, REQUEUED, AGAIN, job(2), new(pod(2))],
            "pod pod-2 (attempt 2) is there while pod pod-1",
            id="two pods, one of them an orphan",
        ),
        pytest.param(
            [*FIRST, new(STARTED | {"uid": "twin", "name": "twin"})],
            "pod twin (attempt 1) is there while pod pod-1",
            id="two pods of one Job",
        ),
        pytest.param(
            [*LOSS, *SECOND, listed(STARTED, 99)],
            "pod pod-1 (attempt 1) is there while pod pod-2",
            id="two pods in a listing",
        ),
        pytest.param(
            [*FIRST, gone(job(1)), job(1, uid="twin")],
            "attempt 1 had 2 Jobs",
            id="two Jobs, one after the other",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1, placeholder=True), job(1, uid="twin")],
            "attempt 1 had 2 Jobs",
            id="a Job beside the placeholder",
        ),
        pytest.param(
            [PENDING, job(1), CLAIMED],
            "is of attempt 1, and attempt 0 is claimed",
            id="a Job before its claim",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1, name="name-0bfe935e-2")],
            "is of attempt 1, and its name does not end with",
            id="a Job named by another attempt",
        ),
        pytest.param(
            [*FIRST, OVER, COMPLETED, job(2)],
            "was created when it was Completed already",
            id="a Job after the verdict",
        ),
        pytest.param(
            [PENDING, CLAIMED, task("Claimed", attempt=1, stop=stopping("Cancelled")), job(1)],
            "was created when it was being stopped already (Cancelled)",
            id="a Job after a cancel",
        ),
        pytest.param(
            asked([PENDING, CLAIMED, job(1, created=LATE)], goodUntil=IN_A_MINUTE),
            "after its `goodUntil`",
            id="a Job after goodUntil",
        ),
        pytest.param(
            asked([PENDING, CLAIMED, job(1, created=LATE)], deadlineSeconds=60),
            "after its `deadline`",
            id="a Job after the deadline",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1, placeholder=True), new(pod(1))],
            "which only holds a name",
            id="a placeholder that makes a pod",
        ),
        pytest.param(
            [*FIRST, task("Cancelled", attempt=1, runs=[run(0, "Cancelled")])],
            "Running became Cancelled while pod pod-1 (attempt 1, Running) had not ended",
            id="a verdict while the pod lives",
        ),
        pytest.param(
            [*FIRST, STARTED | {"deleting": True}, REQUEUED],
            "Running became Pending while pod pod-1",
            id="lost, and on its way out only",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), new(pod(1)), GIVEN_BACK],
            "Claimed became Pending while pod pod-1 (attempt 1, Pending) had not ended",
            id="given back, and not stopped",
        ),
        pytest.param(
            asked(
                [
                    *FIRST,
                    task("Running", attempt=1, runs=[run(0)], stop=stopping("Cancelled")),
                    task("Cancelled", attempt=1, runs=[run(0, "Cancelled")]),
                ],
                deadline="2026-01-02T00:00:00Z",
            ),
            "Running became Cancelled while pod pod-1",
            id="given up before its deadline",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), new(pod(1)), pod(1, "Failed", initStarted={"init": NOW}), GIVEN_BACK],
            "its claim was given back, and pod pod-1 (attempt 1, Failed) had started",
            id="given back, and an init container has run",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), new(STARTED), gone(STARTED), task("Cancelled", attempt=1)],
            "pod pod-1 (attempt 1) started, and no run of it is on record",
            id="a start that is not on record",
        ),
        pytest.param(
            asked(
                [
                    PENDING,
                    CLAIMED,
                    job(1),
                    new(pod(1, "Failed", started=LATE)),
                    task("Expired", attempt=1, completedAt=LATER),
                ],
                goodUntil=IN_A_MINUTE,
            ),
            "started (too late for `goodUntil`), and no run of it is on record",
            id="a late start that is not on record",
        ),
        pytest.param(
            asked(
                [PENDING, CLAIMED, job(1), new(STARTED), gone(STARTED), task("Cancelled", attempt=1)],
                cancel=True,
            )[2:],
            "started (too late for `cancel`), and no run of it is on record",
            id="a start after a cancel that is not on record",
        ),
        pytest.param(
            [PENDING, CLAIMED, job(1), task("Cancelled", attempt=1), new(STARTED)],
            "pod pod-1 (attempt 1) started, and no run of it is on record",
            id="a start after the verdict",
        ),
        pytest.param(
            asked([*LOSS, *SECOND, pod(2, "Succeeded", started=NOW), DONE_AGAIN], **AT_MOST_ONCE),
            "pod pod-2 started after a loss, of pod-1, and no loss is allowed",
            id="a second start where no loss is allowed",
        ),
    ],
)
def test_a_breach_is_found(lines: list[JSON], expected: str) -> None:
    found = checker.violations(history(*lines))
    assert any(expected in each for each in found), found


def test_versions_say_what_came_first_and_not_the_order_of_arrival() -> None:
    """Three watches tell of one history, each at its own pace."""
    lines = history(*LOSS, *SECOND)
    by_kind = sorted(lines, key=lambda line: [POD, JOB, TASK].index(line["kind"]))
    assert checker.violations(by_kind) == []


@pytest.mark.parametrize(
    ("lines", "blind"),
    [
        pytest.param([*FIRST, REQUEUED], POD, id="whether a pod was gone by then"),
        pytest.param([PENDING, job(1)], TASK, id="whether it was claimed by then"),
        pytest.param([PENDING, CLAIMED, job(1), COMPLETED, job(2)], TASK,
                     id="whether it was rerun by then"),
        pytest.param([PENDING, CLAIMED, job(1, placeholder=True), new(pod(1))], JOB, id="whose pod it is"),
    ],
)  # fmt: skip
def test_in_a_gap_nobody_is_accused(lines: list[JSON], blind: str) -> None:
    """The last event comes while nothing is known of a kind. What it breaks otherwise is found without the gap."""
    last = len(lines)
    seen = history(*lines)
    assert checker.violations(seen) != []
    events = [line | {"version": 10 * line["version"]} for line in seen]
    gap = marker("GAP", blind, since=10 * last - 1, version=10 * last + 1)
    assert checker.violations([*events, {"session": "s", "part": "cluster"} | gap]) == []


@pytest.mark.parametrize("blind", [TASK, POD])
def test_whoever_deletes_a_job_in_a_gap_may_have_been_asked_to(blind: str) -> None:
    """A stop may have been on record, or the pod over."""
    before = [*FIRST, gone(job(1))]
    after = [gone(STARTED), REQUEUED, *SECOND]
    assert checker.violations(history(*before, *after)) != []
    gap = marker("GAP", blind, since=len(before) - 1, version=len(before) + 1)
    seen = {TASK: FIRST[-1], POD: STARTED}[blind]
    assert checker.violations(history(*before, gap, listed(seen, len(before) + 1), *after)) == []


def test_after_a_gap_what_was_listed_counts() -> None:
    gap = marker("GAP", POD, since=8, version=20)
    alive, over = listed(STARTED, 20), listed(OVER, 20)
    late = [
        task("Claimed", attempt=2, run=1, runs=[LOST], lossCount=1),
        job(2),
        new(pod(2)) | {"version": 21},
    ]
    assert checker.violations(history(*LOSS, *late, gap, over)) == []
    assert any(
        "is there while pod pod-1" in each for each in checker.violations(history(*LOSS, *late, gap, alive))
    )


def test_after_the_end_of_a_watch_nobody_is_accused() -> None:
    """The watches of a recording do not end at the same instant."""
    lines = [PENDING, marker("END", TASK, since=2, version=2), job(1)]
    assert checker.violations(history(*lines)) == []


def test_what_was_checked_and_what_was_not_is_counted() -> None:
    lines = [
        *LOSS,
        *SECOND,
        new(pod(9, uid="mine", owner=None)),
        job(9, uid="my-job", owner={"kind": TASK, "uid": "v"}),
        task("Completed", writer="me") | {"uid": "forged"},
        job(1, uid="of-forged", taskUid="forged", owner={"kind": TASK, "uid": "forged"}),
    ]
    summary, violations = checker.check(history(*lines))
    assert violations == []
    assert (summary.tasks, summary.jobs, summary.pods, summary.lost_runs) == (1, 2, 2, 1)
    assert (summary.ignored_tasks, summary.ignored_jobs, summary.ignored_pods) == (1, 2, 1)
    assert summary.events == len(LOSS) + len(SECOND)
    assert str(summary).splitlines() == [
        "1 tasks, 2 jobs, 2 pods, 13 events, 1 lost runs",
        "ignored, being of another hand: 1 tasks, 2 jobs, 1 pods",
        "0 gaps",
    ]
