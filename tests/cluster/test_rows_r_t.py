"""Rows R and T of the feature list: horsies for Rust, and Taskcluster. `docs/parity.md` names these tests."""

from __future__ import annotations

from tests.kube import (
    JSON,
    UNTIL_TOLD,
    History,
    Kubectl,
    apart,
    moment,
    nowhere,
    of_run,
    report,
    task,
)


def test_r1_expired_is_terminal_and_reached_from_pending(kubectl: Kubectl, history: History) -> None:
    kubectl.create(task("late", "exit 0", goodForSeconds=2, queueName="no-such-queue"))
    assert history.states("late") == ["Pending", "Expired"]
    waiting, *_, last = [each for each in history.statuses("late") if "reason" in each]
    assert waiting["reason"] == "QueueNotFound"
    assert (last["phase"], last["reason"]) == ("Finished", "TaskExpired")
    assert last["result"]["error"]["code"] == "TaskExpired"
    assert "had not started by its `goodUntil`" in last["result"]["error"]["message"]
    assert "failedAt" not in last
    assert kubectl.get("jobs")["items"] == []


def test_r3_each_run_that_did_start_leaves_a_record_of_its_own(kubectl: Kubectl, history: History) -> None:
    kubectl.create(
        task("thrice", "exit $((10 + TASKYARD_RUN))", retry={"limit": 2}),
        nowhere(task("never", "exit 0", goodForSeconds=3)),
    )
    found = kubectl.finished()
    status = found["thrice"]
    assert of_run(status, "number", "attempt", "exitCode", "state", "reason") == [
        (0, 1, 10, "Failed", "ExitCode"),
        (1, 2, 11, "Failed", "ExitCode"),
        (2, 3, 12, "Failed", "ExitCode"),
    ]
    assert (status["run"], status["runCount"]) == (2, 3)
    pods = {each["metadata"]["name"]: each for each in kubectl.get("pods")["items"]}
    for run in status["runs"]:
        assert run["node"] == pods[run["pod"]]["spec"]["nodeName"]
        assert run["pod"].startswith(run["job"])
        assert f"exited with code {run['exitCode']}" in run["message"]
    times = [time for run in status["runs"] for time in (run["startedAt"], run["finishedAt"])]
    assert times == sorted(times)
    assert history.states("never") == ["Pending", "Claimed", "Expired"]
    assert of_run(found["never"], "number") == [], "claimed, but nothing started"


def test_t5_a_passed_deadline_is_an_exception_in_every_unresolved_state(
    kubectl: Kubectl, history: History
) -> None:
    late: JSON = {"deadlineSeconds": 8}
    kubectl.create(
        task("unscheduled", "exit 0", suspend=True, **late),
        task("delayed", "exit 0", runAt="2099-01-01T00:00:00Z", **late),
        task("pending", "exit 0", queueName="no-such-queue", **late),
        nowhere(task("claimed", "exit 0", **late)),
        task("running", f"echo started; {UNTIL_TOLD}", **late),
    )
    found = kubectl.finished()
    for name, status in found.items():
        assert history.states(name)[-2:] == [name.capitalize(), "Exception"]
        assert (status["reason"], status["result"]["error"]["code"]) == ("DeadlineExceeded",) * 2
        assert "was not resolved by its `deadline`" in status["message"]
        assert apart(status["submittedAt"], status["completedAt"]) >= 8
        assert "stop" not in status
    assert of_run(found["running"], "exitCode", "signal", "state") == [(143, 15, "Exception")]
    assert of_run(found["claimed"], "number") == [], "nothing started"
    pods = {each["metadata"]["labels"]["taskyard.dev/task"]: each for each in kubectl.get("pods")["items"]}
    assert pods["running"]["status"]["phase"] == "Failed", "stopped"
    assert "claimed" not in pods, "taken back"


def test_t8_exceptions_are_told_apart_from_failures(kubectl: Kubectl) -> None:
    def reports(code: str) -> str:
        return report(f'{{"error": {{"code": "{code}", "message": "as it says"}}}}')

    retry = {"limit": 1, "infrastructureLimit": 1}
    kubectl.create(
        task("malformed", reports("MalformedPayload"), retry=retry),
        task("internal", reports("InternalError")),
        task("shutdown", f'[ "$TASKYARD_RUN" -gt 0 ] || {{ {reports("Shutdown")}; exit 1; }}', retry=retry),
        task("failure", reports("MyOwnFault")),
    )
    found = kubectl.finished()
    assert {
        name: (status["state"], status.get("reason"), status["runCount"], status["retryCount"])
        for name, status in found.items()
    } == {
        "malformed": ("Exception", "MalformedPayload", 1, 0),  # never retried
        "internal": ("Exception", "InternalError", 1, 0),
        "shutdown": ("Completed", None, 2, 0),  # a loss, made good
        "failure": ("Failed", "ErrorResult", 1, 0),
    }


def test_t9_one_announcement_when_the_task_resolves_and_none_before(
    kubectl: Kubectl, history: History
) -> None:
    kubectl.create(task("failing", "sleep 2; exit 1", retry={"limit": 1}), task("happy", "exit 0"))
    last = kubectl.wait("failing")["status"]
    kubectl.eventually("its end is told", lambda: len(kubectl.events("failing")) > 1)
    retrying, failed = kubectl.events("failing")
    assert [(each["reason"], each["type"]) for each in (retrying, failed)] == [
        ("Retrying", "Warning"),
        ("TaskFailed", "Warning"),
    ]
    assert "retry 1 of 1" in retrying["message"]
    assert retrying["firstTimestamp"] < last["completedAt"] <= failed["firstTimestamp"]
    before = [each for each in history.statuses("failing") if each["phase"] != "Finished"]
    for status in before:
        outcomes = {each["type"]: each["status"] for each in status.get("conditions", [])}
        assert outcomes in ({}, {"Succeeded": "Unknown", "Finished": "False"})
    assert {each["type"]: each["status"] for each in last["conditions"]} == {
        "Succeeded": "False",
        "Finished": "True",
    }
    kubectl.wait("happy", "Succeeded")
    assert kubectl.events("happy") == []


def test_t14_resolved_tasks_stay_until_they_expire_and_then_are_deleted(
    kubectl: Kubectl, history: History
) -> None:
    kubectl.create(
        task("short", "exit 0", ttlSecondsAfterFinished=4),
        task("long", "exit 0", ttlSecondsAfterFinished=3600),
        task("shortened", "exit 0", queueName="none", goodForSeconds=1),
    )
    completed = history.statuses("short")[-1]
    kubectl("get", "task", "short")
    left = (history.gone("short") - moment(completed["completedAt"])).total_seconds()
    assert left >= 4
    kubectl.eventually(
        "its Job and its pod go with it",
        lambda: len(kubectl.get("jobs")["items"]) == len(kubectl.get("pods")["items"]) == 1,
    )
    kubectl.wait("shortened")
    kubectl.edit("shortened", ttlSecondsAfterFinished=1)
    history.gone("shortened")
    assert kubectl.wait("long")["status"]["state"] == "Completed"
