"""Pods that the cluster itself takes away or turns away: who pays for it, and what is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.faults.operator import Place
from tests.faults.reading import main_of, pod_of, spent
from tests.faults.witness import Witness
from tests.kube import JSON, UNTIL_TOLD, History, Kubectl, evict, of_run, task

ONCE = f'[ "$TASKYARD_RUN" -gt 0 ] && exit 0; {UNTIL_TOLD}'
"""A script that works until it is told to end, and is done at once when it runs again."""

pytestmark = pytest.mark.usefixtures("calm")  # nobody takes the cluster away, from the first line on


@pytest.fixture
def slot(admin: Kubectl, kubectl: Kubectl) -> Iterator[str]:
    """A resource of which one node has one, and no other node any: those who ask for it compete with nobody else."""
    name, node = f"taskyard.test/{kubectl.namespace}", node_names(admin)[0]

    def offer(amount: str | None) -> None:
        patch = json.dumps({"status": {"capacity": {name: amount}, "allocatable": {name: amount}}})
        admin("patch", "node", node, "--subresource=status", "--type=merge", f"--patch={patch}")

    offer("1")
    yield name
    offer(None)


@pytest.fixture
def urgent(admin: Kubectl, kubectl: Kubectl) -> Iterator[str]:
    """A priority above that of tasks."""
    name = f"urgent-{kubectl.namespace}"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    admin.create(kind | {"value": 1000})
    yield name
    admin("delete", "priorityclass", name)


def node_names(kubectl: Kubectl) -> list[str]:
    return [each["metadata"]["name"] for each in kubectl.get("nodes")["items"]]


def test_an_eviction_is_nobodys_fault_and_costs_nothing(
    kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    no_budget = {"limit": 0, "infrastructureLimit": 0}
    kubectl.create(
        task("moved", ONCE, retry=no_budget),
        task("stopped", ONCE, onShutdown="Stop", retry={"limit": 3}),
    )
    with place.running():
        for name in ("moved", "stopped"):
            evict(kubectl, kubectl.until(name, "Running")["runs"][0]["pod"])
        found = kubectl.finished()
    moved, stopped = found["moved"], found["stopped"]
    assert (moved["state"], stopped["state"], stopped["reason"]) == ("Completed", "Stalled", "Shutdown")
    assert of_run(moved, "number", "state", "reason") == [(0, "Stalled", "Shutdown"), (1, "Completed", None)]
    assert of_run(stopped, "number", "state", "reason") == [(0, "Stalled", "Shutdown")]
    assert spent(moved) == spent(stopped) == (0, 0, 0)
    for message in (moved["runs"][0]["message"], stopped["message"]):
        assert "EvictionByEvictionAPI" in message
        assert "Eviction API: evicting" in message, "the cluster's own words"
    told = [each["reason"] for each in kubectl.events("moved")]
    assert told == ["RunDrained"]


@pytest.mark.parametrize("operator_goes", ["first", "last"])
def test_a_drain_that_takes_the_operator_too_costs_nothing(
    operator_goes: str, kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    """Nobody is there when the pods are gone: how they ended is on record by then."""
    at_most_once = {"infrastructureLimit": 0}
    kubectl.create(
        task("moved", ONCE, retry=at_most_once),
        task("stopped", ONCE, onShutdown="Stop", retry=at_most_once),
        task("held", "exit 0", suspend=True),
    )
    with place.operator(look_around_seconds=5) as operator, ThreadPoolExecutor() as pool:
        pods = [kubectl.until(name, "Running")["runs"][0]["pod"] for name in ("moved", "stopped")]

        def end_it() -> Future[float]:
            end = pool.submit(operator.stop)
            kubectl.eventually("it is told", lambda: operator.said("told to end, claiming nothing more"))
            return end

        end = end_it() if operator_goes == "first" else None
        for pod in pods:
            evict(kubectl, pod)
        end = end or end_it()
        kubectl.edit("held", suspend=False)
        end.result()
        assert kubectl.status("held")["attempt"] == 0, "it has claimed nothing more"
        kubectl.eventually("they are gone", lambda: not kubectl.get("pods")["items"])
        operator.start()
        found = kubectl.finished()
    assert {name: (each["state"], each["reason"]) for name, each in found.items() if "reason" in each} == {
        "stopped": ("Stalled", "Shutdown")
    }
    assert of_run(found["moved"], "number", "state") == [(0, "Stalled"), (1, "Completed")]
    assert spent(found["moved"]) == spent(found["stopped"]) == (0, 0, 0)


def test_a_preempted_run_is_a_loss_and_waits_for_room(
    kubectl: Kubectl, place: Place, seen: Witness, history: History, slot: str, urgent: str
) -> None:
    """Somebody of a higher priority wants the only slot there is. When he is done, there is room again."""

    def wanting(manifest: JSON) -> JSON:
        main_of(manifest)["resources"]["limits"] = {slot: "1"}
        return manifest

    kubectl.create(wanting(task("outranked", ONCE, retry={"limit": 3, "infrastructureLimit": 1})))
    intruder = pod_of(wanting(task("intruder", "sleep 3")))
    with place.running():
        kubectl.until("outranked", "Running")
        intruder |= {"priorityClassName": urgent, "restartPolicy": "Never"}
        metadata = {"name": "intruder"}
        kubectl.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": intruder})
        status = kubectl.wait("outranked")["status"]
    assert of_run(status, "number", "state") == [(0, "Exception"), (1, "Completed")]
    assert spent(status) == (1, 0, 0)
    message = status["runs"][0]["message"]
    assert "PreemptionByScheduler" in message
    assert "preempting to accommodate a higher priority pod" in message, "the cluster's own words"
    waited = [
        each["message"] for each in history.statuses("outranked") if each.get("reason") == "Unschedulable"
    ]
    assert any(f"Insufficient {slot}" in each for each in waited)


def test_what_a_kubelet_turns_away_is_given_back(kubectl: Kubectl, place: Place, history: History) -> None:
    """For want of room it is tried again without counting; on a node that does not fit, `startLimit` times."""
    unfit, crowded = task("unfit", "exit 0", startLimit=2), task("crowded", "exit 0", startLimit=1)
    for manifest in (unfit, crowded):
        pod_of(manifest)["nodeName"] = node_names(kubectl)[0]
    pod_of(unfit)["nodeSelector"] = {"no-such": "label"}
    main_of(crowded)["resources"]["requests"]["cpu"] = "9999"
    kubectl.create(unfit, crowded)
    with place.running():
        kubectl.eventually("it is tried again", lambda: kubectl.status("crowded").get("attempt", 0) > 1)
        kubectl.edit("crowded", cancel=True)
        found = kubectl.finished()
    for status in found.values():
        assert (status["runCount"], status["retryCount"], status["lossCount"]) == (0, 0, 0)
    assert (found["unfit"]["state"], found["unfit"]["reason"]) == ("Exception", "StartFailed")
    assert (found["unfit"]["startFailures"], found["unfit"]["attempt"]) == (2, 2)
    assert found["unfit"]["message"].startswith("the node refused the pod (NodeAffinity): ")
    assert "didn't match Pod's node affinity/selector" in found["unfit"]["message"]
    assert found["crowded"]["startFailures"] == 0
    refused = next(each for each in history.statuses("crowded") if each["state"] == "Delayed")
    assert refused["reason"] == "GivenBack"
    assert refused["message"].startswith("the node refused the pod (OutOfcpu): ")
    assert "nextRetryAt" in refused


def test_a_run_that_exceeds_its_own_storage_has_failed(kubectl: Kubectl, place: Place) -> None:
    """As one that exceeds its memory: the kubelet ends both for their own limits, and the node lacks nothing.

    Kubernetes tells it from node pressure by the condition DisruptionTarget, which only that has.
    """
    filling = f"head -c 8000000 /dev/zero > /tmp/file; {UNTIL_TOLD}"
    greedy = task("greedy", filling, retry={"limit": 0, "infrastructureLimit": 3})
    main_of(greedy)["resources"]["limits"] = {"ephemeral-storage": "1Mi"}
    kubectl.create(greedy)
    with place.running():
        status = kubectl.wait("greedy")["status"]
    assert status["state"] == "Failed"
    assert of_run(status, "number", "state") == [(0, "Failed")]
    assert spent(status) == (0, 0, 0), "no loss, and no retry was asked for"
    assert "ephemeral local storage usage exceeds the total limit of containers 1Mi" in status["message"]
