"""Stopped, held back, taken up again, or never started: what a user or the cluster does to a Task."""

from __future__ import annotations

import json

from tests.kube import JSON, UNTIL_TOLD, History, Kubectl, nowhere, of_run, task


def container(manifest: JSON, name: str = "main") -> JSON:
    found: JSON = next(
        each for each in manifest["spec"]["template"]["spec"]["containers"] if each["name"] == name
    )
    return found


def test_a_cancelled_task_keeps_what_its_run_left(kubectl: Kubectl, history: History) -> None:
    kubectl.create(
        task("running", "trap 'echo bye; exit 9' TERM; sleep 600 & wait"),
        nowhere(task("unschedulable", "exit 0")),
        task("waiting", "exit 0", startDelaySeconds=3600),
        task("done", "exit 0"),
    )
    kubectl.until("running", "Running")
    kubectl.until("unschedulable", "Unschedulable", ".status.reason")
    kubectl.wait("done", "Succeeded")
    for name in ("running", "unschedulable", "waiting", "done"):
        kubectl.edit(name, cancel=True)
    found = kubectl.finished()
    for name in ("running", "unschedulable", "waiting"):
        assert (found[name]["state"], found[name]["reason"]) == ("Cancelled", "TaskCancelled")
        assert "failedAt" not in found[name]
    (run,) = found["running"]["runs"]
    assert (run["state"], run["exitCode"]) == ("Cancelled", 9)
    assert kubectl("logs", run["pod"]) == "bye\n"
    asked = [each for each in history.statuses("running") if "stop" in each]
    assert {each["stop"]["reason"] for each in asked} == {"Cancelled"}
    assert of_run(found["unschedulable"], "number") == []
    kubectl.until("done", "2", ".status.observedGeneration")
    assert kubectl.status("done")["state"] == "Completed", "its verdict stands"
    pods = {each["status"]["phase"] for each in kubectl.get("pods")["items"]}
    assert pods == {"Failed", "Succeeded"}, "the one without a node was taken back"


def test_a_suspended_task_is_held_and_goes_when_resumed(kubectl: Kubectl, history: History) -> None:
    kubectl.create(task("held", "exit 0", suspend=True), task("under-way", "sleep 4"))
    kubectl.until("held", "Unscheduled")
    kubectl.until("under-way", "Running")
    kubectl.edit("under-way", suspend=True)
    assert kubectl.wait("under-way", "Succeeded")["status"]["runCount"] == 1, "what runs goes on"
    assert kubectl.status("held")["reason"] == "Suspended"
    kubectl.edit("held", suspend=False)
    status = kubectl.wait("held", "Succeeded")["status"]
    states = [each for each in history.states("held") if each != "Running"]
    assert states == ["Pending", "Unscheduled", "Claimed", "Completed"]
    assert status["enqueuedAt"] > status["submittedAt"], "eligible since it was resumed"


def test_a_rerun_is_a_fresh_run_with_the_history_kept(kubectl: Kubectl, history: History) -> None:
    kubectl.create(
        task("again", 'sleep 1; [ "$TASKYARD_RUN" -eq 3 ]', retry={"limit": 1}),
        task("early", "exit 0", suspend=True),
    )
    kubectl.edit("early", rerun=1)
    kubectl.until("early", "1", ".status.observedRerun")
    kubectl.edit("early", cancel=True)
    failed = kubectl.wait("again", "Succeeded=false")["status"]
    assert (failed["state"], failed["retryCount"], failed["runCount"]) == ("Failed", 1, 2)
    patch = json.dumps({"spec": {"rerun": 1, "cancel": True}})
    refused = kubectl.ask("patch", "task", "again", "--type=merge", f"--patch={patch}")
    assert "`cancel` must be false in the write that raises `rerun`" in refused.error
    kubectl.edit("again", rerun=1)
    status = kubectl.wait("again", "Succeeded")["status"]
    fresh = next(each for each in history.statuses("again") if each.get("observedRerun") == 1)
    assert (fresh["state"], fresh["run"], fresh["retryCount"]) == ("Pending", 2, 0)
    cleared = {
        "reason",
        "message",
        "result",
        "completedAt",
        "failedAt",
        "startedAt",
        "retriedAt",
        "claimedBy",
    }
    assert not cleared & set(fresh)
    assert fresh["submittedAt"] == failed["submittedAt"] <= fresh["rerunAt"]
    assert (status["runCount"], status["retryCount"]) == (4, 1), "the budget started anew"
    assert of_run(status, "number", "state") == [
        (0, "Failed"),
        (1, "Failed"),
        (2, "Failed"),
        (3, "Completed"),
    ]
    assert status["runs"][:2] == failed["runs"]
    assert (status["startedAt"], status["retriedAt"]) == tuple(run["startedAt"] for run in status["runs"][2:])
    early = kubectl.wait("early")["status"]
    assert (early["state"], early["observedRerun"], early["attempt"]) == ("Cancelled", 1, 0)


def test_what_cannot_start_is_given_back_and_ends_with_the_clusters_own_words(
    kubectl: Kubectl, history: History
) -> None:
    unpullable = task("unpullable", "exit 0", startTimeoutSeconds=3, startLimit=1)
    container(unpullable)["image"] = "localhost/no-such-image:dev"
    malformed = task("malformed", "exit 0", retry={"limit": 3})
    container(malformed)["image"] = "localhost/Not A Name"
    volumeless = task("volumeless", "exit 0", startTimeoutSeconds=14, startLimit=1)
    volume = {"name": "key", "secret": {"secretName": "nobody-made-it"}}
    volumeless["spec"]["template"]["spec"]["volumes"] = [volume]
    container(volumeless)["volumeMounts"] = [{"name": "key", "mountPath": "/key"}]
    kubectl.create(
        nowhere(task("unschedulable", "exit 0", scheduleTimeoutSeconds=2, startLimit=2, retry={"limit": 3})),
        unpullable,
        malformed,
        volumeless,
    )
    told = kubectl.eventually("the volume is missed", lambda: kubectl.status("volumeless").get("waiting"))
    assert [each["reason"] for each in told] == ["ContainerWaiting"]
    assert 'secret "nobody-made-it" not found' in told[0]["message"]
    found = kubectl.finished()
    said = {
        "unschedulable": "node affinity/selector",
        "unpullable": "no-such-image",
        "volumeless": "nobody-made-it",
    }
    for name, words in said.items():
        assert (found[name]["state"], found[name]["reason"]) == ("Exception", "StartFailed")
        assert words in found[name]["message"]
    unschedulable = found["unschedulable"]
    assert unschedulable["message"].startswith("no node was found within 2 s: 0/2 nodes are available")
    assert (unschedulable["startFailures"], unschedulable["attempt"]) == (2, 2)
    assert history.states("unschedulable") == ["Pending", "Claimed", "Pending", "Claimed", "Exception"]
    kubectl.eventually("its end is told", lambda: len(kubectl.events("unschedulable")) > 1)
    assert [each["reason"] for each in kubectl.events("unschedulable")] == ["ClaimGivenBack", "TaskException"]
    assert found["unpullable"]["message"].startswith("the container had not started within 3 s")
    assert (found["malformed"]["state"], found["malformed"]["reason"]) == ("Exception", "MalformedPayload")
    assert "InvalidImageName" in found["malformed"]["message"]
    for status in found.values():
        assert (status["runCount"], status["retryCount"]) == (0, 0), "nothing ran, no retry was spent"


def test_sidecars_that_linger_are_stopped_and_the_main_containers_verdict_stands(kubectl: Kubectl) -> None:
    def with_a_sidecar(manifest: JSON) -> JSON:
        main = container(manifest)
        other = {**main, "name": "other", "command": ["sh", "-c", UNTIL_TOLD]}
        pod = manifest["spec"]["template"]["spec"]
        pod["containers"] = [other, main]
        pod["terminationGracePeriodSeconds"] = 2
        return manifest

    script = 'printf 42 > "$TASKYARD_RESULT_PATH"'
    kubectl.create(
        with_a_sidecar(task("good", script, mainContainer="main")),
        with_a_sidecar(task("bad", "exit 5", mainContainer="main")),
    )
    found = kubectl.finished()
    assert (found["good"]["state"], found["good"]["result"]) == ("Completed", {"ok": 42})
    assert of_run(found["good"], "exitCode", "state") == [(0, "Completed")]
    assert (found["bad"]["state"], found["bad"]["reason"]) == ("Failed", "ExitCode")
    assert of_run(found["bad"], "exitCode", "state") == [(5, "Failed")]
    assert {each["status"]["phase"] for each in kubectl.get("pods")["items"]} == {"Failed"}, "stopped"


def test_a_run_that_ends_just_in_time_has_not_timed_out(kubectl: Kubectl) -> None:
    """The kubelet tells of an end about a second late, and of a start without its fraction."""
    kubectl.create(task("punctual", "sleep 1.6", timeoutSeconds=2), task("late", "sleep 4", timeoutSeconds=2))
    found = kubectl.finished()
    assert found["punctual"]["state"] == "Completed"
    assert (found["late"]["state"], found["late"]["reason"]) == ("Failed", "Timeout")


def test_a_quota_that_is_used_up_is_told_in_the_clusters_own_words_and_not_counted(kubectl: Kubectl) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    kubectl.create(quota | {"spec": {"hard": {"pods": "0"}}})
    kubectl.create(task("crowded", "exit 0", scheduleTimeoutSeconds=8, startLimit=1))
    kubectl.eventually("it is given back", lambda: kubectl.status("crowded").get("attempt", 0) > 1)
    status = kubectl.status("crowded")
    assert (status["phase"], status["startFailures"]) != ("Finished", 1)
    kubectl("delete", "resourcequota", "none")
    assert kubectl.wait("crowded", "Succeeded")["status"]["state"] == "Completed"
