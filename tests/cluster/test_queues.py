"""Queues: who runs next, how many, how fast, and why not yet; for most of it no pod need ever find a node."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from tests.kube import (
    JSON,
    OPERATOR,
    UNTIL_TOLD,
    History,
    Kubectl,
    apart,
    definition,
    moment,
    nowhere,
    of_run,
    task,
    typed,
)


def queue(name: str, **spec: Any) -> JSON:
    return {
        "apiVersion": "taskyard.dev/v1alpha1",
        "kind": "TaskQueue",
        "metadata": {"name": name},
        "spec": spec,
    }


def waiting(name: str, queue: str, team: str | None = None, **spec: Any) -> JSON:
    """A Task that takes a slot once it has one, and never a node."""
    manifest = nowhere(task(name, "exit 0", queueName=queue, **spec))
    if team is not None:
        manifest["metadata"]["labels"] = {"team": team}
    return manifest


def reasons(status: JSON) -> list[str]:
    return [each["reason"] for each in status.get("waiting", [])]


def in_turn(kubectl: Kubectl, *manifests: JSON) -> None:
    """Each is seen before the next is made, and each in a second of its own: within one the order is chance."""
    for manifest in manifests:
        kubectl.create(manifest)
        name = str(manifest["metadata"]["name"])
        kubectl.eventually("it is seen", partial(is_seen, kubectl, name))
        made_at = moment(kubectl.get("task", name)["metadata"]["creationTimestamp"])
        kubectl.eventually("a second goes by", partial(is_past, made_at + timedelta(seconds=1)), pause=0.05)


def is_past(when: datetime) -> bool:
    return datetime.now(UTC) > when


def is_seen(kubectl: Kubectl, name: str) -> bool:
    return "observedGeneration" in kubectl.status(name)


def let_go(kubectl: Kubectl, name: str) -> None:
    """Its slot is free again."""
    kubectl.edit(name, cancel=True)
    kubectl.wait(name)


def claims(kubectl: Kubectl) -> set[str]:
    tasks = kubectl.get("tasks")["items"]
    return {each["metadata"]["name"] for each in tasks if each["status"]["state"] == "Claimed"}


def test_a_queue_runs_so_many_at_once_and_its_limit_may_move(kubectl: Kubectl) -> None:
    kubectl.create(queue("q", maxConcurrent=2))
    in_turn(kubectl, *(waiting(name, "q") for name in "abcd"))
    assert claims(kubectl) == {"a", "b"}
    third = kubectl.until("c", "QueueLimit", ".status.reason")
    assert third["message"] == "the queue `q` has 2 of 2 at work; number 1 in the queue"
    let_go(kubectl, "a")
    kubectl.until("c", "Claimed")
    kubectl("patch", "taskqueue", "q", "--type=merge", '--patch={"spec":{"maxConcurrent":1}}')
    let_go(kubectl, "b")
    kubectl.eventually("the status says so", lambda: counts(kubectl, "q")["claimed"] == 1)
    assert claims(kubectl) == {"c"}, "it drains, and nothing was stopped"
    kubectl("patch", "taskqueue", "q", "--type=merge", '--patch={"spec":{"maxConcurrent":null}}')
    kubectl.until("d", "Claimed")


def test_a_missing_queue_is_waited_for_and_a_paused_one(kubectl: Kubectl) -> None:
    kubectl.create(waiting("a", "later"), waiting("held", "later", suspend=True))
    kubectl.until("a", "QueueNotFound", ".status.reason")
    kubectl.create(queue("later", paused=True))
    kubectl.until("a", "QueuePaused", ".status.reason")
    kubectl.until("held", "QueuePaused", ".status.waiting[1].reason")
    assert kubectl.status("held")["reason"] == "Suspended"
    kubectl("patch", "taskqueue", "later", "--type=merge", '--patch={"spec":{"paused":false}}')
    kubectl.until("a", "Claimed")


def test_j9_a_limit_for_each_type_on_top_of_the_queues(kubectl: Kubectl) -> None:
    kind = definition("convert", ("v1", "exit 0"), ("v2", "exit 0"))
    for version in kind["spec"]["versions"]:
        version["template"]["spec"]["nodeSelector"] = {"no-such": "label"}
    kind["spec"]["maxConcurrent"] = 1
    kubectl.create(kind, queue("other"))
    in_turn(
        kubectl,
        typed("first", "convert", "v1"),
        typed("second", "convert", "v2", queueName="other"),
        waiting("of-no-type", "other"),
    )
    second = kubectl.until("second", "TypeLimit", ".status.reason")
    assert second["message"] == "the TaskDefinition `convert` has 1 of 1 at work; number 1 in the queue"
    assert claims(kubectl) == {"first", "of-no-type"}
    let_go(kubectl, "first")
    kubectl.until("second", "Claimed")


def test_k1_every_reason_why_a_task_does_not_run_is_told_in_order(kubectl: Kubectl) -> None:
    kubectl.create(
        queue("full", maxConcurrent=1, fairness={"labelKey": "team", "maxConcurrentPerKey": 1}),
        queue("slow", rateLimit={"tasks": 1, "perSeconds": 3600}),
        queue("paused", paused=True),
    )
    in_turn(
        kubectl,
        waiting("runs", "full", team="a"),
        waiting("behind", "full", team="a"),
        waiting("started", "slow"),
        waiting("too-fast", "slow"),
        task("fails", "exit 1", retry={"limit": 1, "delaySeconds": 3600}),
        task(
            "everything",
            "exit 0",
            queueName="paused",
            suspend=True,
            dependencies=["runs"],
            startDelaySeconds=3600,
        ),
        waiting("homeless", "full", team="b"),
    )
    behind = kubectl.until("behind", "QueueLimit", ".status.reason")
    assert reasons(behind) == ["QueueLimit", "KeyLimit"]
    assert behind["waiting"][1]["message"] == "`team: a` has 1 of 1 at work; number 1 in the queue"
    too_fast = kubectl.until("too-fast", "RateLimit", ".status.reason")
    assert "the queue `slow` starts 1 in 3600 s; this one not before 20" in too_fast["message"]
    everything = kubectl.until("everything", "Suspended", ".status.reason")
    assert reasons(everything) == ["Suspended", "DependencyPending", "NotBefore", "QueuePaused"]
    assert reasons(kubectl.until("homeless", "QueueLimit", ".status.reason")) == ["QueueLimit"]
    let_go(kubectl, "runs")
    kubectl.until("homeless", "Claimed")
    let_go(kubectl, "homeless")
    assert kubectl.until("behind", "Unschedulable", ".status.reason")["state"] == "Claimed"
    assert reasons(kubectl.until("fails", "RetryDelay", ".status.reason")) == ["RetryDelay"]


def test_k7_priority_and_tenants_and_a_rate(kubectl: Kubectl, history: History) -> None:
    kubectl.create(
        queue(
            "q", maxConcurrent=1, fairness={"labelKey": "team"}, maxPriority=5, ageing={"secondsPerPoint": 0}
        ),
        queue("slow", rateLimit={"tasks": 1, "perSeconds": 3}),
    )
    in_turn(
        kubectl,
        waiting("first", "q", team="a"),
        waiting("low", "q", team="a"),
        waiting("high", "q", team="a", priority=9),
        waiting("other-team", "q", team="b"),
    )
    for name in ("other-team", "high", "low"):
        [busy] = claims(kubectl) & {"first", "low", "high", "other-team"}
        let_go(kubectl, busy)
        kubectl.until(name, "Claimed")
    kubectl.create(*(waiting(f"timed-{number}", "slow") for number in range(3)))
    starts = sorted(kubectl.until(f"timed-{number}", "Claimed")["claimedAt"] for number in range(3))
    assert all(apart(one, next_) >= 3 for one, next_ in pairwise(starts))
    assert "RateLimit" in {
        wait["reason"]
        for number in range(3)
        for status in history.statuses(f"timed-{number}", "Claimed")
        for wait in status.get("waiting", [])
    }


def counts(kubectl: Kubectl, name: str) -> JSON:
    found: JSON = kubectl.get("taskqueue", name).get("status", {})
    return {"claimed": None} | found


def test_t13_counts_for_people_and_for_autoscalers(kubectl: Kubectl, admin: Kubectl) -> None:
    kubectl.create(queue("busy", maxConcurrent=2))
    in_turn(
        kubectl, *(waiting(name, "busy") for name in "abc"), waiting("later", "busy", startDelaySeconds=3600)
    )
    kubectl.eventually("it is counted", lambda: counts(kubectl, "busy")["claimed"] == 2)
    found = counts(kubectl, "busy")
    assert (found["pending"], found["claimed"], found["delayed"], found["running"]) == (1, 2, 1, 0)
    assert found["oldestPendingAt"] == kubectl.status("c")["enqueuedAt"]
    [condition] = found["conditions"]
    assert (condition["type"], condition["status"]) == ("Active", "True")
    header, row = kubectl("get", "tq").splitlines()
    assert header.split() == ["NAME", "PENDING", "CLAIMED", "RUNNING", "LIMIT", "PAUSED", "AGE"]
    assert row.split()[:6] == ["busy", "1", "2", "0", "2", "false"]
    let_go(kubectl, "a")
    kubectl.eventually("an end is counted", lambda: counts(kubectl, "busy").get("finishedLastMinutes") == 1)
    page = metrics(admin)
    labels = f'definition="",namespace="{kubectl.namespace}",queue="busy"'
    assert f'taskyard_tasks{{{labels},state="Claimed"}} 2.0' in page
    assert f'taskyard_tasks{{{labels},state="Delayed"}} 1.0' in page
    assert f'taskyard_task_outcomes_total{{{labels},reason="TaskCancelled",state="Cancelled"}} 1.0' in page
    assert f"taskyard_task_wait_seconds_count{{{labels}}} 3.0" in page


def metrics(admin: Kubectl) -> str:
    """What the operator that leads tells Prometheus."""
    pods = json.loads(admin("get", "pods", *OPERATOR, "--field-selector=status.phase=Running", "-o", "json"))[
        "items"
    ]
    [name] = [each["metadata"]["name"] for each in pods if "deletionTimestamp" not in each["metadata"]]
    return admin("get", "--raw", f"/api/v1/namespaces/taskyard-system/pods/{name}:8080/proxy/metrics")


KUEUE = "kueue.x-k8s.io/queue-name"


def job_of(kubectl: Kubectl) -> JSON:
    jobs = [each for each in kubectl.get("jobs")["items"] if "deletionTimestamp" not in each["metadata"]]
    return jobs[-1] if jobs else {}


def set_suspend(kubectl: Kubectl, job: JSON, value: bool) -> None:
    """As Kueue does."""
    name, patch = job["metadata"]["name"], json.dumps({"spec": {"suspend": value}})
    kubectl("patch", "job", name, "--type=merge", f"--patch={patch}")


def test_k9_a_job_that_kueue_holds_is_queued_and_one_that_it_suspends_was_preempted(kubectl: Kubectl) -> None:
    it = task("it", f'[ "$TASKYARD_RUN" = 1 ] || {{ {UNTIL_TOLD}; }}', scheduleTimeoutSeconds=2, startLimit=1)
    it["metadata"]["labels"] = {KUEUE: "team-a"}
    kubectl.create(it)
    held = kubectl.until("it", "JobSuspended", ".status.reason")
    assert (held["state"], reasons(held)) == ("Claimed", ["JobSuspended"])
    first = job_of(kubectl)
    assert (first["spec"]["suspend"], first["metadata"]["labels"][KUEUE]) == (True, "team-a")
    too_late = moment(held["claimedAt"]) + timedelta(seconds=4)
    kubectl.eventually("its time-out has passed", lambda: datetime.now(UTC) > too_late)
    assert kubectl.status("it")["reason"] == "JobSuspended", "and does not count"
    set_suspend(kubectl, first, False)
    kubectl.until("it", "Running")
    set_suspend(kubectl, first, True)
    kubectl.until("it", "1", ".status.lossCount")
    assert kubectl.status("it")["runs"][0]["message"] == "preempted: its Job was suspended while it ran"
    kubectl.eventually(
        "the next Job", lambda: job_of(kubectl).get("metadata", {}).get("name", "").endswith("-2")
    )
    assert len(kubectl.get("jobs")["items"]) == 1, "the one before is gone: nobody can resume it"
    set_suspend(kubectl, job_of(kubectl), False)
    status = kubectl.wait("it", "Succeeded")["status"]
    assert of_run(status, "number", "state") == [(0, "Exception"), (1, "Completed")]
    assert (status["lossCount"], status["retryCount"], status["startFailures"]) == (1, 0, 0)


@pytest.mark.parametrize("policy", ["Skip", "Replace", "Queue"])
def test_k8_one_at_a_time_under_one_key(policy: str, kubectl: Kubectl) -> None:
    keyed = {"idempotencyKey": "nightly/42", "onDuplicate": policy}
    in_turn(kubectl, waiting("older", "default", **keyed), waiting("newer", "default", **keyed))
    match policy:
        case "Skip":
            dropped = kubectl.wait("newer")["status"]
            assert (dropped["state"], dropped["reason"]) == ("Dropped", "Duplicate")
            assert dropped["message"] == "`older` has the same `idempotencyKey`, and came first"
            assert kubectl.status("older")["state"] == "Claimed"
        case "Replace":
            replaced = kubectl.wait("older")["status"]
            assert (replaced["state"], replaced["reason"]) == ("Cancelled", "TaskReplaced")
            kubectl.until("newer", "Claimed")
        case _:
            queued = kubectl.until("newer", "Duplicate", ".status.reason")
            assert (
                queued["message"]
                == "another task with the same `idempotencyKey` is to end first; now it is `older`"
            )
            let_go(kubectl, "older")
            kubectl.until("newer", "Claimed")
