"""Rows D and J of the feature list: django-simple-queue, and Jobbers. `docs/parity.md` names these tests."""

from __future__ import annotations

from datetime import timedelta

from taskyard.core.retry import curve
from taskyard.core.spec import Retry
from taskyard.core.words import Backoff, State
from tests.kube import UNTIL_TOLD, History, Kubectl, apart, evict, nowhere, of_run, report, task

JOBBERS = {
    "unsubmitted": State.UNSCHEDULED,
    "submitted": State.PENDING,
    "started": State.RUNNING,
    "completed": State.COMPLETED,
    "failed": State.FAILED,
    "cancelled": State.CANCELLED,
    "stalled": State.STALLED,
    "dropped": State.DROPPED,
    "scheduled": State.DELAYED,
}


def test_d1_who_runs_it_is_visible_while_it_runs_and_kept(kubectl: Kubectl) -> None:
    kubectl.create(task("seen", 'echo "I am process $$$$"; sleep 5; exit 0'))
    status = kubectl.until("seen", "Running")
    (run,) = status["runs"]
    (pod,) = kubectl.get("pods")["items"]
    assert (run["pod"], run["node"]) == (pod["metadata"]["name"], pod["spec"]["nodeName"])
    wide = kubectl("get", "task", "seen", "-o", "wide")
    assert run["pod"] in wide
    assert run["node"] in wide
    processes = kubectl("exec", run["pod"], "--", "cat", "/proc/1/cmdline")
    assert "I am process" in processes, "the main process of a container is process 1 there"
    assert kubectl("logs", run["pod"]) == "I am process 1\n"
    last = kubectl.wait("seen", "Succeeded")["status"]
    assert of_run(last, "pod", "node") == [(run["pod"], run["node"])]


def test_d3_a_timeout_is_sigterm_and_then_sigkill_after_5_seconds(kubectl: Kubectl) -> None:
    polite = "trap 'echo got SIGTERM; exit 7' TERM; echo working; sleep 600 & wait"
    stubborn = "trap 'echo not me' TERM; while true; do sleep 0.2; done"
    kubectl.create(
        task("polite", polite, timeoutSeconds=2),
        task("stubborn", stubborn, timeoutSeconds=2),
    )
    found = kubectl.finished()
    for status in found.values():
        assert (status["state"], status["reason"]) == ("Failed", "Timeout")
        assert status["result"]["error"]["code"] == "Timeout"
        assert "took longer than its `timeoutSeconds` of 2 s" in status["message"]
    (run,) = found["polite"]["runs"]
    assert (run["exitCode"], run["reason"]) == (7, "Timeout")
    assert kubectl("logs", run["pod"]) == "working\ngot SIGTERM\n"
    (run,) = found["stubborn"]["runs"]
    assert (run["exitCode"], run["signal"]) == (137, 9)
    assert kubectl("logs", run["pod"]) == "not me\n"
    assert apart(run["startedAt"], run["finishedAt"]) >= 2 + 5 - 1  # two times, each cut to its second


def test_d5_a_non_zero_exit_without_an_exception_is_failed_with_the_code(kubectl: Kubectl) -> None:
    kubectl.create(task("four", "exit 4"))
    status = kubectl.wait("four", "Succeeded=false")["status"]
    assert (status["state"], status["reason"]) == ("Failed", "ExitCode")
    assert status["result"] == {
        "error": {"code": "ExitCode", "message": "the container `main` exited with code 4"}
    }
    assert of_run(status, "exitCode", "state") == [(4, "Failed")]


def test_j1_every_state_of_jobbers_has_a_counterpart(
    kubectl: Kubectl, admin: Kubectl, history: History
) -> None:
    crd = admin.get("crd", "tasks.taskyard.dev")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert {*JOBBERS.values()} <= {*crd["properties"]["status"]["properties"]["state"]["enum"]}
    nobody = {"name": "nobody-registered-this", "version": "v1"}
    kubectl.create(
        task("unsubmitted", "exit 0", suspend=True),
        task("submitted", "exit 0", queueName="no-such-queue"),
        task("scheduled", "exit 0", startDelaySeconds=3600),
        nowhere(task("cancelled", "exit 0")),
        task("completed", "exit 0"),
        task("failed", "exit 1"),
        task("stalled", UNTIL_TOLD, onShutdown="Stop"),
        task("dropped", "", template=None, definitionRef=nobody),
    )
    running = kubectl.until("stalled", "Running")
    evict(kubectl, running["runs"][0]["pod"])
    kubectl.until("cancelled", "Unschedulable", ".status.reason")
    kubectl.edit("cancelled", cancel=True)
    for jobbers, state in JOBBERS.items():
        name = "stalled" if jobbers == "started" else jobbers
        assert str(state) in history.states(name, str(state))
    assert "Claimed" in history.states("cancelled")
    stalled = kubectl.status("stalled")
    assert (stalled["state"], stalled["reason"]) == ("Stalled", "Shutdown")
    assert of_run(stalled, "state", "exitCode") == [("Stalled", 143)]
    dropped = kubectl.status("dropped")
    assert (dropped["state"], dropped["reason"], dropped["attempt"]) == ("Dropped", "DefinitionNotFound", 0)
    assert apart(dropped["submittedAt"], dropped["completedAt"]) >= 60, "it might still have been registered"
    assert "`nobody-registered-this`" in dropped["message"]


def test_j2_without_a_delay_at_once_and_with_one_at_next_retry_at(kubectl: Kubectl, history: History) -> None:
    kubectl.create(
        task("at-once", "exit 1", retry={"limit": 1}),
        task("later", "exit 1", retry={"limit": 1, "delaySeconds": 3}),
    )
    found = kubectl.finished()
    for status in found.values():
        assert (status["state"], status["retryCount"], status["runCount"]) == ("Failed", 1, 2)
        assert "nextRetryAt" not in status
    assert "Delayed" not in history.states("at-once")
    assert not any("nextRetryAt" in each for each in history.statuses("at-once"))
    waits = [each for each in history.statuses("later") if each["state"] == "Delayed"]
    (due,) = {each["nextRetryAt"] for each in waits}
    assert waits[0]["reason"] == "RetryDelay"
    assert 3 <= apart(waits[0]["updatedAt"], due) <= 4
    assert due in waits[0]["message"]
    assert found["later"]["claimedAt"] >= due


SECONDS = timedelta(seconds=1)


def test_j3_the_curves() -> None:
    """Exactly, for a draw of a quarter; and the cap comes after the draw."""
    for backoff, expected in {
        Backoff.CONSTANT: [10, 10, 10, 10],
        Backoff.LINEAR: [10, 20, 30, 40],
        Backoff.EXPONENTIAL: [20, 40, 80, 160],
        Backoff.EXPONENTIAL_JITTER: [5, 10, 20, 40],
    }.items():
        policy = Retry(9, backoff, 10 * SECONDS, 3600 * SECONDS, (), None, 0)
        assert [curve(policy, number, 0.25) / SECONDS for number in (1, 2, 3, 4)] == expected
        assert curve(policy, 1000, 0.999) <= 3600 * SECONDS


def test_j3_the_delays_follow_the_backoff(kubectl: Kubectl, history: History) -> None:
    """Each wait is the curve's, rounded up to the whole second that a status can hold."""
    curves = {
        "constant": ({"backoff": "Constant", "delaySeconds": 1}, [1, 1]),
        "linear": ({"backoff": "Linear", "delaySeconds": 2}, [2, 4]),
        "capped": ({"backoff": "Exponential", "delaySeconds": 1, "maxDelaySeconds": 3}, [2, 3]),
    }
    kubectl.create(
        *(task(name, "exit 1", retry={"limit": 2, **retry}) for name, (retry, _) in curves.items()),
        task("jitter", "exit 1", retry={"limit": 1, "backoff": "ExponentialJitter", "delaySeconds": 2}),
    )
    kubectl.finished()
    for name, (_, expected) in curves.items():
        for delay, at_least in zip(delays(history, name), expected, strict=True):
            assert at_least <= delay <= at_least + 1, name
    assert all(0 <= delay <= 4 + 1 for delay in delays(history, "jitter"))


def delays(history: History, name: str) -> list[float]:
    """How long each retry was told to wait."""
    told: dict[str, str] = {}
    for status in history.statuses(name):
        if "nextRetryAt" in status:
            told.setdefault(status["nextRetryAt"], status["updatedAt"])
    return [apart(at, due) for due, at in told.items()]


def test_j4_only_expected_errors_are_retried(kubectl: Kubectl) -> None:
    retry = {"limit": 5, "expected": {"exitCodes": [75], "errors": ["Busy"]}}
    codes = '[ "$TASKYARD_RUN" -eq 0 ] && code=Busy || code=Broken'
    said = 'printf \'{"error": {"code": "%s"}}\' $code > "$TASKYARD_RESULT_PATH"'
    kubectl.create(
        task("exits", '[ "$TASKYARD_RUN" -eq 0 ] && exit 75; exit 1', retry=retry),
        task("reports", f"{codes}; {said}", retry=retry),
    )
    found = kubectl.finished()
    for status in found.values():
        assert (status["state"], status["runCount"], status["retryCount"]) == ("Failed", 2, 1)
        assert "not one that `retry.expected` lists" in status["message"]
    assert of_run(found["exits"], "exitCode") == [(75,), (1,)]
    assert of_run(found["reports"], "errorCode") == [("Busy",), ("Broken",)]


def test_j5_a_timeout_counts_as_expected(kubectl: Kubectl) -> None:
    retry = {"limit": 1, "expected": {"exitCodes": [75]}}
    script = f'[ "$TASKYARD_RUN" -gt 0 ] && exit 0; {UNTIL_TOLD}'
    kubectl.create(task("slow", script, timeoutSeconds=2, retry=retry))
    status = kubectl.wait("slow", "Succeeded")["status"]
    assert of_run(status, "reason", "state", "exitCode") == [
        ("Timeout", "Failed", 143),
        (None, "Completed", 0),
    ]
    assert status["retryCount"] == 1


def test_j11_when_it_was_submitted_started_retried_and_completed(kubectl: Kubectl, history: History) -> None:
    kubectl.create(
        task("twice", "sleep 2; exit 1", retry={"limit": 1}),
        task("once", report('{"ok": 1}')),
        task("expired", "exit 0", queueName="none", goodForSeconds=1),
        task("cancelled", "exit 0", suspend=True, cancel=True),
    )
    found = kubectl.finished()
    twice = found["twice"]
    first, second = twice["runs"]
    assert (twice["startedAt"], twice["retriedAt"]) == (first["startedAt"], second["startedAt"])
    assert twice["submittedAt"] <= twice["startedAt"] < twice["retriedAt"] <= twice["completedAt"]
    (started,) = {each["startedAt"] for each in history.statuses("twice") if "startedAt" in each}
    assert started == first["startedAt"], "of the first run, and it never moves"
    assert "retriedAt" not in found["once"]
    for status in found.values():
        assert status["submittedAt"] <= status["completedAt"]
        assert ("startedAt" in status) == (status["runCount"] > 0)
