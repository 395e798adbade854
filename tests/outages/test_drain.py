"""J8: a node that is drained, by the Eviction API and by `kubectl drain`: stop, move elsewhere, or go on to the end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.operator import Place
from tests.faults.witness import Witness
from tests.kube import JSON, Kubectl, ask_to_evict, evict, of_run
from tests.outages.diary import Diary
from tests.outages.machinery import Machinery

REFUSED = "Cannot evict pod as it would violate the pod's disruption budget"
FOR_AUTOSCALERS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


def drain(kubectl: Kubectl, node: str, seconds: int) -> list[str]:
    """The command that empties a node, of this namespace's tasks only."""
    uids = ",".join(each["metadata"]["uid"] for each in kubectl.get("tasks")["items"])
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={seconds}s")
    selector = f"--pod-selector=taskyard.dev/task-uid in ({uids})"
    return [*kubectl.command, "drain", node, selector, *options]


@contextmanager
def draining(kubectl: Kubectl, node: str) -> Iterator[subprocess.Popen[str]]:
    """A drain that goes on meanwhile, as long as it has to."""
    command = drain(kubectl, node, seconds=120)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def pod_of(kubectl: Kubectl, name: str) -> JSON:
    return kubectl.get("pod", kubectl.status(name)["runs"][-1]["pod"])


def test_j8_a_drain_stops_a_run_or_moves_it_and_spends_no_budget(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness
) -> None:
    kubectl.create(
        diary.keeper("stops", "node2", onShutdown="Stop"),
        diary.keeper("moves", "node2", retry={"infrastructureLimit": 0}),
        diary.keeper("evicted", "node1"),
    )
    with place.running():
        diary.at_work_on(kubectl, "node2", "stops", "moves")
        diary.at_work_on(kubectl, "node1", "evicted")
        evict(kubectl, kubectl.status("evicted")["runs"][0]["pod"])
        done = subprocess.run(drain(kubectl, "node2", seconds=120), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        status = kubectl.finished()
    stops, moves, evicted = status["stops"], status["moves"], status["evicted"]
    assert (stops["state"], stops["reason"], stops["runCount"]) == ("Stalled", "Shutdown", 1)
    assert of_run(moves, "number", "state", "node") == [(0, "Stalled", "node2"), (1, "Completed", "node1")]
    assert of_run(evicted, "number", "state", "node")[0] == (0, "Stalled", "node1")
    assert evicted["state"] == "Completed"
    for name, each in status.items():
        assert (each["lossCount"], each["retryCount"]) == (0, 0)
        assert "EvictionByEvictionAPI" in each["runs"][0]["message"]
        assert diary.is_in_order(name)


def test_j8_a_drain_waits_for_a_run_that_continues(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness
) -> None:
    kubectl.create(diary.keeper("continues", "node2", then="[ -e /diary/may-end ]", onShutdown="Continue"))
    with place.running():
        diary.at_work_on(kubectl, "node2", "continues")
        pod = pod_of(kubectl, "continues")
        assert FOR_AUTOSCALERS.items() <= pod["metadata"]["annotations"].items()
        refused = ask_to_evict(kubectl, pod["metadata"]["name"])
        assert (refused.code, REFUSED in refused.error) == (1, True), refused.error
        impatient = subprocess.run(drain(kubectl, "node2", seconds=2), capture_output=True, text=True)
        assert impatient.returncode != 0
        diary.is_kept(kubectl, "continues", run=0)
        with draining(kubectl, "node2") as patient:
            (diary.folder / "may-end").touch()
            status = kubectl.wait("continues")["status"]
            said, _ = patient.communicate(timeout=150)
            assert patient.returncode == 0, said
    assert of_run(status, "number", "state", "node") == [(0, "Completed", "node2")]


def test_j8_a_run_that_continues_for_too_long_is_moved_after_all(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness
) -> None:
    kubectl.create(diary.keeper("overstays", "node2", onShutdown="Continue"))
    with place.running(continue_seconds=10):
        diary.at_work_on(kubectl, "node2", "overstays")
        with draining(kubectl, "node2") as patient:
            said, _ = patient.communicate(timeout=150)
            assert patient.returncode == 0, said
        assert REFUSED in said, "it was held up for a while"
        status = kubectl.wait("overstays")["status"]
    assert of_run(status, "number", "state", "node") == [(0, "Stalled", "node2"), (1, "Completed", "node1")]
    assert (status["lossCount"], status["retryCount"]) == (0, 0)
    assert diary.is_in_order("overstays")
