"""Runs that are lost: what carried them went away. Found by evidence, told in words, paid from a budget of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.faults.operator import Place
from tests.faults.reading import spent
from tests.faults.witness import Witness
from tests.history.slim import BY_HAND
from tests.kube import JSON, UNTIL_TOLD, History, Kubectl, of_run, task

BY_FORCE = ("--grace-period=0", "--force", "--wait=false")

DAWDLES = "trap 'sleep 2; exit 143' TERM; sleep 600 & wait"
"""A script that works until it is told to end, and then lives on for a while: long enough to meet a second pod."""

pytestmark = pytest.mark.usefixtures("calm")  # nobody takes the cluster away, from the first line on


def until_run(number: int, script: str = UNTIL_TOLD) -> str:
    """A script that is done at once from that run on, and before does the other."""
    return f'[ "$TASKYARD_RUN" -ge {number} ] && exit 0; {script}'


def running(kubectl: Kubectl, name: str, number: int = 0) -> JSON:
    """That run of the Task, once it is at work."""

    def found() -> JSON | None:
        status = kubectl.status(name)
        return status["runs"][-1] if (status["state"], status.get("run")) == ("Running", number) else None

    run: JSON = kubectl.eventually(f"run {number} of {name} is at work", found, 120)
    return run


# Ways to lose a run.


def delete_the_pod(kubectl: Kubectl, run: JSON) -> None:
    kubectl("delete", "pod", run["pod"], "--wait=false")


def delete_the_pod_by_force(kubectl: Kubectl, run: JSON) -> None:
    kubectl("delete", "pod", run["pod"], *BY_FORCE)


def delete_the_job(kubectl: Kubectl, run: JSON) -> None:
    mark_as_deleted_by_hand(kubectl, run)
    kubectl("delete", "job", run["job"], "--wait=false")


def orphan_the_pod(kubectl: Kubectl, run: JSON) -> None:
    mark_as_deleted_by_hand(kubectl, run)
    kubectl("delete", "job", run["job"], "--cascade=orphan", "--wait=false")


def mark_as_deleted_by_hand(kubectl: Kubectl, run: JSON) -> None:
    """For whoever reads the recording: it was not the operator."""
    kubectl("annotate", "job", run["job"], f"{BY_HAND}=true")


def delete_the_pod_uncounted(kubectl: Kubectl, run: JSON) -> None:
    """Without its finalizer the Job never hears of its end, and would make another."""
    change_metadata(kubectl, run["pod"], {"finalizers": None})
    delete_the_pod_by_force(kubectl, run)


def hide_the_pod(kubectl: Kubectl, run: JSON) -> None:
    change_metadata(kubectl, run["pod"], {"labels": {"taskyard.dev/task-uid": None}})


def mislabel_the_pod(kubectl: Kubectl, run: JSON) -> None:
    change_metadata(kubectl, run["pod"], {"labels": {"taskyard.dev/attempt": "99"}})


def change_metadata(kubectl: Kubectl, pod: str, change: JSON) -> None:
    kubectl("patch", "pod", pod, "--type=merge", f"--patch={json.dumps({'metadata': change})}")


LOSSES: tuple[tuple[Callable[[Kubectl, JSON], None], str], ...] = (
    (delete_the_pod, "the pod was deleted"),
    (delete_the_pod_by_force, "the pod was deleted"),
    (delete_the_job, "the pod was deleted"),
    (orphan_the_pod, "its Job was deleted and the pod left behind, an orphan"),
    (delete_the_pod_uncounted, "the pod was gone before the run had ended"),
    (hide_the_pod, "the pod was gone before the run had ended"),
    (mislabel_the_pod, "the pod was gone before the run had ended"),
)


def test_whatever_takes_a_pod_away_is_a_loss_and_one_run_follows_another(
    kubectl: Kubectl, place: Place, seen: Witness, history: History
) -> None:
    """One Task loses run after run, each in another way. Each pod takes its time to end; the next one waits for it."""
    last = len(LOSSES)
    kubectl.create(task("robbed", until_run(last, DAWDLES), retry={"limit": 3, "infrastructureLimit": last}))
    with place.running():
        for number, (lose, _) in enumerate(LOSSES):
            lose(kubectl, running(kubectl, "robbed", number))
        status = kubectl.wait("robbed")["status"]
    assert of_run(status, "number", "attempt", "state", "reason") == [
        *((number, number + 1, "Exception", "WorkerLost") for number in range(last)),
        (last, last + 1, "Completed", None),
    ]
    assert spent(status) == (last, 0, 0), "losses only"
    for run, (lose, words) in zip(status["runs"], LOSSES, strict=False):
        assert words in run["message"], lose.__name__
        assert run["pod"] in seen.pods()
    told = [each for each in kubectl.events("robbed") if each["reason"] == "RunLost"]
    assert [each["message"].split(":")[0] for each in told] == [
        f"loss {number + 1} of {last}" for number in range(last)
    ]
    for each in history.statuses("robbed"):
        assert [run["number"] for run in each.get("runs", [])] == list(range(each.get("runCount", 0)))
        assert {run["state"] for run in each.get("runs", [])[:-1]} <= {"Exception"}, (
            "only the last is at work"
        )
    assert set(history.states("robbed")) == {"Pending", "Claimed", "Running", "Completed"}


def test_a_job_that_is_suspended_and_resumed_at_once_runs_no_code_after_the_verdict(
    kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    """As Kueue does when there is room again. The Job has let its pod go uncounted, and would make another."""

    def slow_to_end(code: int) -> str:
        return f"trap 'sleep 2; exit {code}' TERM; sleep 600 & wait"

    at_most_once = {"infrastructureLimit": 0}
    kubectl.create(
        task("lost", slow_to_end(1), retry=at_most_once), task("done", slow_to_end(0), retry=at_most_once)
    )
    with place.running():
        for name in ("lost", "done"):
            suspend_and_resume(kubectl, running(kubectl, name)["job"])
        found = kubectl.finished()
        kubectl.eventually("the Jobs are gone", lambda: not kubectl.get("jobs")["items"])
    assert {name: each["state"] for name, each in found.items()} == {"lost": "Exception", "done": "Completed"}
    assert len(seen.pods()) == 2, "one for each, and none after that"


def suspend_and_resume(kubectl: Kubectl, job: str) -> None:
    """In one breath: the pod has begun to end, and takes its time."""

    def is_to_go() -> bool:
        [pod] = kubectl.get("pods", f"--selector=job-name={job}")["items"]
        return "deletionTimestamp" in pod["metadata"]

    for value in (True, False):
        patch = json.dumps({"spec": {"suspend": value}})
        kubectl("patch", "job", job, "--type=merge", f"--patch={patch}")
        kubectl.eventually("its pod is to go", is_to_go)


def test_jobs_are_swept_once_their_verdict_is_written_and_a_task_can_be_run_again(
    kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    kubectl.create(task("done", "exit 0"), task("at-work", UNTIL_TOLD))
    with place.operator(keep_jobs_seconds=60) as operator:
        kubectl.until("at-work", "Running")
        done = kubectl.wait("done")["status"]
        operator.stop()
        long_ago = (datetime.now(UTC) - timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = json.dumps({"status": {"completedAt": long_ago}})
        kubectl("patch", "task", "done", "--subresource=status", "--type=merge", f"--patch={patch}")
        operator.start()
        kubectl.eventually("one Job is left", lambda: len(kubectl.get("jobs")["items"]) == 1)
        kubectl.eventually("and its pod", lambda: len(kubectl.get("pods")["items"]) == 1)
        assert kubectl.status("done")["runs"] == done["runs"], "the verdict stands, and nothing is lost of it"
        assert kubectl.status("at-work")["state"] == "Running"
        kubectl.edit("done", rerun=1)
        kubectl.until("done", "2", ".status.runCount")
        assert kubectl.wait("done")["status"]["state"] == "Completed"
    assert len(seen.pods()) == 3


def test_losses_and_failures_have_a_budget_each(kubectl: Kubectl, place: Place, seen: Witness) -> None:
    """Tasks fail and are robbed by turns: no budget pays for the other, and the first that is empty ends it."""
    budgets = {"limit": 1, "infrastructureLimit": 1}
    kubectl.create(
        task("robbed-last", f'[ "$TASKYARD_RUN" -eq 1 ] && exit 7; {UNTIL_TOLD}', retry=budgets),
        task("failed-last", f'[ "$TASKYARD_RUN" -ne 1 ] && exit 7; {UNTIL_TOLD}', retry=budgets),
        task("never-again", UNTIL_TOLD, retry={"limit": 3, "infrastructureLimit": 0}),
    )
    with place.running():
        for name, number in (("robbed-last", 0), ("failed-last", 1), ("robbed-last", 2), ("never-again", 0)):
            delete_the_pod(kubectl, running(kubectl, name, number))
        found = kubectl.finished()
    states = {name: [state for (state,) in of_run(status, "state")] for name, status in found.items()}
    assert states == {
        "robbed-last": ["Exception", "Failed", "Exception"],
        "failed-last": ["Failed", "Exception", "Failed"],
        "never-again": ["Exception"],
    }
    ends = {name: (status["state"], status["reason"], *spent(status)) for name, status in found.items()}
    assert ends == {
        "robbed-last": ("Exception", "WorkerLost", 1, 1, 0),
        "failed-last": ("Failed", "ExitCode", 1, 1, 0),
        "never-again": ("Exception", "WorkerLost", 0, 0, 0),
    }
    assert "not run again: all 1 losses of `infrastructureLimit` are spent" in found["robbed-last"]["message"]
    assert "not retried: all 1 retries are spent" in found["failed-last"]["message"]
    assert len(seen.pods()) == 7, "one a run"


def test_what_happened_while_nobody_watched_is_found_out_afterwards(
    kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    """A run is alive as long as its pod is, whoever claimed it; what is gone without a word is said to be."""
    kubectl.create(
        task("alive", f'{UNTIL_TOLD}; [ "$TASKYARD_RUN" -eq 0 ]'),
        task("vanished", until_run(1)),
        task("orphaned", until_run(1)),
        task("done", "sleep 6"),
    )
    with place.running(identity="first") as first:
        runs = {name: running(kubectl, name) for name in ("alive", "vanished", "orphaned", "done")}
        first.kill()
        delete_the_job(kubectl, runs["vanished"])
        orphan_the_pod(kubectl, runs["orphaned"])
        kubectl("wait", "--for=condition=Complete", f"job/{runs['done']['job']}", "--timeout=60s")
        kubectl("delete", "pod", runs["done"]["pod"], "--wait=false")
        for name in ("vanished", "done"):
            kubectl("wait", "--for=delete", f"pod/{runs[name]['pod']}", "--timeout=60s")
    with place.running(identity="second"):
        found = {name: kubectl.wait(name)["status"] for name in ("vanished", "orphaned", "done")}
        alive = kubectl.status("alive")
        assert (alive["state"], alive["attempt"], alive["claimedBy"]) == ("Running", 1, "first")
        delete_the_pod(kubectl, runs["alive"])
        running(kubectl, "alive", 1)
    for name, words in {"vanished": "its Job was deleted", "orphaned": "an orphan"}.items():
        assert of_run(found[name], "number", "state") == [(0, "Exception"), (1, "Completed")]
        assert spent(found[name]) == (1, 0, 0)
        assert words in found[name]["runs"][0]["message"]
    assert (found["done"]["state"], found["done"]["reason"]) == ("Completed", "ResultUnknown")
    assert "its pod was gone before its result could be read" in found["done"]["message"]
