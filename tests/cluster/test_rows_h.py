"""Rows H of the feature list: what a user of horsies finds here. `docs/parity.md` names these tests."""

from __future__ import annotations

import enum

from taskyard.core.words import TERMINAL_STATES, State
from tests.kube import History, Kubectl, apart, definition, from_now, moment, of_run, report, task, typed

FIRST_FAILS = 'sleep 2; [ "$TASKYARD_RUN" -gt 0 ]'


def test_h1_a_retry_goes_back_to_the_queue_and_is_never_terminal(kubectl: Kubectl, history: History) -> None:
    kubectl.create(
        task("flaky", FIRST_FAILS, retry={"limit": 1}),
        task("hopeless", "sleep 2; exit 1", retry={"limit": 0}),
        task("unwanted", "exit 0", suspend=True, cancel=True),
    )
    once = ["Pending", "Claimed", "Running"]
    assert history.states("flaky") == [*once, *once, "Completed"]
    assert history.states("hopeless") == [*once, "Failed"]
    assert history.states("unwanted") == ["Pending", "Cancelled"]
    between = [each for each in history.statuses("flaky") if each["state"] == "Pending"][-1]
    assert (between["reason"], between["retryCount"]) == ("Retry", 1)
    assert not {"claimedAt", "claimedBy", "completedAt", "failedAt", "result"} & set(between)
    (run,) = between["runs"]
    assert (run["state"], run["exitCode"]) == ("Failed", 1), "resolved in the history only"


def test_h2_one_list_of_states_with_is_terminal_and_one_frozen_set(admin: Kubectl) -> None:
    assert issubclass(State, enum.StrEnum)
    assert isinstance(TERMINAL_STATES, frozenset)
    assert {state for state in State if state.is_terminal} == TERMINAL_STATES
    assert {str(state) for state in TERMINAL_STATES} == {
        "Completed",
        "Failed",
        "Exception",
        "Cancelled",
        "Expired",
        "Stalled",
        "Dropped",
    }
    crd = admin.get("crd", "tasks.taskyard.dev")["spec"]["versions"][0]
    status = crd["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert status["state"]["enum"] == [str(state) for state in State]
    assert status["phase"]["enum"] == ["Waiting", "Active", "Finished"]


def test_h4_enqueued_moves_on_each_retry_and_submitted_never(kubectl: Kubectl, history: History) -> None:
    run_at = from_now(4)
    kubectl.create(task("timed", "sleep 2; exit 1", runAt=run_at, retry={"limit": 1, "delaySeconds": 2}))
    statuses = history.statuses("timed")
    written = [each for each in statuses if "submittedAt" in each]
    assert len({each["submittedAt"] for each in written}) == 1
    assert apart(written[0]["submittedAt"], run_at) >= 1
    waiting = [each for each in written if each["state"] == "Delayed"]
    assert not any("enqueuedAt" in each for each in waiting), "not eligible yet"
    assert "nextRetryAt" not in waiting[0], "that wait is for `runAt`"
    due = waiting[-1]["nextRetryAt"]
    claims = [each for each in written if each["state"] == "Claimed"]
    assert (claims[0]["enqueuedAt"], claims[-1]["enqueuedAt"]) == (run_at, due), "eligible at that moment"
    assert run_at <= claims[0]["claimedAt"] < due <= claims[-1]["claimedAt"]
    last = statuses[-1]
    assert last["startedAt"] == last["runs"][0]["startedAt"] >= run_at
    assert last["failedAt"] == last["completedAt"] >= last["runs"][1]["finishedAt"] >= due
    assert "nextRetryAt" not in last


def test_h5_success_and_error_are_both_values(kubectl: Kubectl) -> None:
    error = '{"error": {"code": "CardDeclined", "message": "no cover", "traceback": "shop.py:12"}}'
    kubectl.create(
        task("ok", report('{"ok": {"sum": 42, "items": [null, "two"]}}')),
        task("error", f"{report(error)}; exit 0"),
        task("crash", f"{report(error)}; exit 7"),
    )
    found = kubectl.finished()
    assert found["ok"]["state"] == "Completed"
    assert found["ok"]["result"] == {"ok": {"sum": 42, "items": [None, "two"]}}
    for name, exit_code in {"error": 0, "crash": 7}.items():
        status = found[name]
        assert (status["state"], status["reason"]) == ("Failed", "ErrorResult")
        assert status["result"] == {
            "error": {"code": "CardDeclined", "message": "no cover", "traceback": "shop.py:12"}
        }
        assert of_run(status, "exitCode", "errorCode") == [(exit_code, "CardDeclined")]


def test_h6_an_unhandled_crash_is_failed_with_the_evidence(kubectl: Kubectl) -> None:
    segfault = "sh -c 'kill -SEGV $$$$'; exit $?"  # the kubelet makes one `$` of two
    crash = """python3 -c '{}["answer"]'"""
    kubectl.create(task("killed", segfault), task("crashed", crash, image="python"))
    found = kubectl.finished()
    killed, crashed = found["killed"], found["crashed"]
    assert (killed["state"], killed["result"]["error"]["code"]) == ("Failed", "Signal")
    assert of_run(killed, "exitCode", "signal", "state") == [(139, 11, "Failed")]
    assert "SIGSEGV" in killed["message"]
    assert (crashed["state"], crashed["result"]["error"]["code"]) == ("Failed", "ExitCode")
    assert of_run(crashed, "exitCode", "signal") == [(1, None)]
    assert "exited with code 1" in crashed["message"]
    assert "KeyError: 'answer'" in crashed["message"], "the last lines of its log"
    (run,) = crashed["runs"]
    assert run["pod"] in kubectl("get", "pods", "-o", "name")
    assert {"node", "startedAt", "finishedAt", "job"} <= set(run)


def test_h7_retries_follow_a_list_of_intervals(kubectl: Kubectl, history: History) -> None:
    kubectl.create(task("listed", "exit 1", retry={"limit": 3, "intervalsSeconds": [1, 4, 0]}))
    statuses = history.statuses("listed")
    waits = [each for each in statuses if each["state"] == "Delayed"]
    assert [each["retryCount"] for each in waits] == [1, 2], "the third comes at once"
    delays = [apart(each["updatedAt"], each["nextRetryAt"]) for each in waits]
    assert 1 <= delays[0] <= 2
    assert 4 <= delays[1] <= 5
    last = statuses[-1]
    assert (last["state"], last["retryCount"], last["runCount"]) == ("Failed", 3, 4)
    assert "all 3 retries are spent" in last["message"]


def test_h10_no_job_is_created_after_good_until(kubectl: Kubectl, history: History) -> None:
    soon = from_now(3)
    kubectl.create(
        task("absolute", "exit 0", goodUntil=soon, queueName="no-such-queue"),
        task("relative", "exit 0", goodForSeconds=3, queueName="no-such-queue"),
        task("held", "exit 0", goodForSeconds=3, suspend=True),
        definition("brief", ("v1", "exit 0"), goodForSeconds=3),
        typed("of-a-type", "brief", "v1", suspend=True),
        task("stale", "exit 0", goodUntil="2020-01-01T00:00:00Z"),
        task("good", "exit 0", goodForSeconds=3600),
    )
    found = kubectl.finished()
    for name in ("absolute", "relative", "held", "of-a-type", "stale"):
        status = found[name]
        assert (status["state"], status["reason"]) == ("Expired", "TaskExpired"), name
        assert (status["attempt"], status["runCount"]) == (0, 0), "never claimed"
        assert "Claimed" not in history.states(name)
    assert found["absolute"]["completedAt"] >= soon
    assert apart(found["relative"]["submittedAt"], found["relative"]["completedAt"]) >= 3
    kubectl.edit("held", suspend=False)
    kubectl.until("held", "2", ".status.observedGeneration")
    assert found["good"]["state"] == "Completed"
    owners = [each["metadata"]["ownerReferences"][0]["name"] for each in kubectl.get("jobs")["items"]]
    assert owners == ["good"]


def test_h11_send_now_or_schedule_for_later(kubectl: Kubectl, history: History) -> None:
    later = from_now(5)
    kubectl.create(
        task("now", "exit 0"),
        task("later", "exit 0", runAt=later),
        task("afterwards", "exit 0", startDelaySeconds=5),
    )
    found = kubectl.finished()
    assert {status["state"] for status in found.values()} == {"Completed"}
    assert found["now"]["startedAt"] < later
    assert found["later"]["claimedAt"] >= later
    assert apart(found["afterwards"]["submittedAt"], found["afterwards"]["claimedAt"]) >= 5
    assert "Delayed" not in history.states("now")
    for name in ("later", "afterwards"):
        assert history.states(name)[:3] == ["Pending", "Delayed", "Claimed"]
        (waiting, *_) = [each for each in history.statuses(name) if each["state"] == "Delayed"]
        assert waiting["reason"] == "NotBefore"
        assert moment(waiting["message"].removeprefix("not before ")) > moment(waiting["updatedAt"])
