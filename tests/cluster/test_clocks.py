"""Every clock of a Task, kept by a real operator: in time, and over its death."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from tests.kube import (
    JSON,
    OPERATOR,
    UNTIL_TOLD,
    History,
    Kubectl,
    apart,
    from_now,
    moment,
    of_run,
    task,
)


@pytest.mark.usefixtures("calm")
def test_clocks_strike_within_a_moment(kubectl: Kubectl, history: History) -> None:
    run_at = from_now(5)
    kubectl.create(
        task("delayed", UNTIL_TOLD, runAt=run_at, timeoutSeconds=3),
        task("expiring", "exit 0", queueName="none", goodForSeconds=6, ttlSecondsAfterFinished=4),
        task("overdue", "exit 0", suspend=True, deadlineSeconds=6),
    )
    claimed = next(each for each in history.statuses("delayed") if each["state"] == "Claimed")
    assert 0 <= apart(run_at, claimed["claimedAt"]) <= 3
    stopping = next(each for each in history.statuses("delayed") if "stop" in each)
    assert 3 <= apart(stopping["startedAt"], stopping["stop"]["requestedAt"]) <= 6
    expired, overdue = history.statuses("expiring")[-1], history.statuses("overdue")[-1]
    assert 6 <= apart(expired["submittedAt"], expired["completedAt"]) <= 9
    assert 6 <= apart(overdue["submittedAt"], overdue["completedAt"]) <= 9
    kept = (history.gone("expiring") - moment(expired["completedAt"])).total_seconds()
    assert 4 <= kept <= 7


@pytest.mark.usefixtures("alone")
def test_a_task_and_its_clocks_outlive_its_operator(
    admin: Kubectl, kubectl: Kubectl, history: History
) -> None:
    """The operator's pod is killed in the middle of everything: the next one goes on, and nothing runs twice."""
    kubectl.create(
        task("running", "sleep 8"),
        task("timed", UNTIL_TOLD, timeoutSeconds=12),
        task("delayed", "exit 0", startDelaySeconds=16),
        task("retried", '[ "$TASKYARD_RUN" -gt 0 ]', retry={"limit": 1, "delaySeconds": 16}),
        task("kept", "exit 0", queueName="none", goodForSeconds=1, ttlSecondsAfterFinished=16),
        task("overdue", "exit 0", suspend=True, deadlineSeconds=16),
    )
    kubectl.until("running", "Running")
    kubectl.until("timed", "Running")
    due = kubectl.until("retried", "Delayed")["nextRetryAt"]
    kept = kubectl.wait("kept")["status"]
    admin("delete", "pods", *OPERATOR, "--grace-period=0", "--force")
    killed_at = datetime.now(UTC)
    found = {name: kubectl.wait(name)["status"] for name in ("running", "timed", "delayed", "retried")}
    assert (found["running"]["state"], found["running"]["attempt"], found["running"]["runCount"]) == (
        "Completed",
        1,
        1,
    )
    assert (found["timed"]["reason"], found["timed"]["runCount"]) == ("Timeout", 1)
    (run,) = found["timed"]["runs"]
    assert apart(run["startedAt"], run["finishedAt"]) >= 12
    assert apart(found["delayed"]["submittedAt"], found["delayed"]["claimedAt"]) >= 16
    assert found["retried"]["state"] == "Completed"
    assert found["retried"]["claimedAt"] >= due
    assert of_run(found["retried"], "number", "state") == [(0, "Failed"), (1, "Completed")]
    overdue = kubectl.wait("overdue")["status"]
    assert apart(overdue["submittedAt"], overdue["completedAt"]) >= 16
    assert (history.gone("kept") - moment(kept["completedAt"])).total_seconds() >= 16
    clocks = (found["delayed"]["claimedAt"], found["retried"]["claimedAt"], overdue["completedAt"])
    assert all(moment(each) > killed_at for each in clocks), "they struck after the operator's death"
    assert len(kubectl.get("pods")["items"]) == 5, "one a run"


def test_what_failed_and_is_to_be_saved_outlives_its_ttl(kubectl: Kubectl, history: History) -> None:
    late: JSON = {"queueName": "none", "goodForSeconds": 1, "ttlSecondsAfterFinished": 2}
    kubectl.create(
        task("saved", "exit 0", deadLetterPolicy="Save", **late),
        task("not-saved", "exit 0", **late),
        task("well", "exit 0", deadLetterPolicy="Save", ttlSecondsAfterFinished=2),
        task("at-once", "exit 0", ttlSecondsAfterFinished=0),
    )
    for name in ("not-saved", "well", "at-once"):
        history.gone(name)
    assert history.states("well")[-1] == "Completed"
    last = history.statuses("at-once")[-1]
    assert last["state"] == "Completed", "its verdict was to be seen before it went"
    assert (history.gone("at-once") - moment(last["completedAt"])).total_seconds() <= 20
    time.sleep(2)
    assert kubectl.status("saved")["state"] == "Expired"
