"""Nodes that fall silent, come back, are deleted, run short or lose their power, with a run on each of them.

A silent node may still run what it ran. So the next run waits until the old pod's object is terminal or gone, the
status says so, and what ends the wait is one of the ways below (docs/recovery.md).
"""

from __future__ import annotations

from tests.faults.operator import Place
from tests.faults.witness import Witness
from tests.kube import JSON, History, Kubectl, of_run
from tests.outages.diary import Diary
from tests.outages.machinery import Machinery


def awaits_node(kubectl: Kubectl, name: str, node: str) -> JSON:
    """The status once it says that the run is on a node that does not answer."""
    status = kubectl.until(name, "NodeUnreachable", ".status.reason")
    assert status["state"] == "Running"
    assert f"`{node}`" in status["message"]
    assert "does not answer" in status["message"]
    return status


def test_a_silent_node_that_comes_back_ends_the_wait(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness, history: History
) -> None:
    done = diary.folder / "may-end"
    kubectl.create(
        diary.keeper("endless", "node2"),
        diary.keeper("ends-unseen", "node2", then="[ -e /diary/may-end ]"),
    )
    with place.running():
        diary.at_work_on(kubectl, "node2", "endless", "ends-unseen")
        machinery.silence("node2")
        awaits_node(kubectl, "endless", "node2")
        diary.is_kept(kubectl, "endless", run=0)
        assert len(pods.pods()) == 2, "no second pod while the first may be at work"
        done.touch()
        machinery.wake("node2")
        endless, ends_unseen = kubectl.wait("endless")["status"], kubectl.wait("ends-unseen")["status"]
    assert diary.is_in_order("endless")
    assert of_run(endless, "number", "state", "reason") == [
        (0, "Exception", "WorkerLost"),
        (1, "Completed", None),
    ]
    assert (endless["lossCount"], endless["retryCount"]) == (1, 0)
    assert of_run(ends_unseen, "number", "state", "node") == [(0, "Completed", "node2")], "its work is done"
    assert ends_unseen["lossCount"] == 0


def test_a_silent_node_that_stays_away(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness, history: History
) -> None:
    """What resolves a task without its node's help: a time-out of its own, its deadline, and a fence."""
    kubectl.create(
        diary.keeper("impatient", "node2", unreachableTimeoutSeconds=1),
        diary.keeper("fenced", "node2"),
        diary.keeper("once", "node2", retry={"infrastructureLimit": 0}),
        diary.keeper("unwanted", "node2"),
    )
    with place.running():
        diary.at_work_on(kubectl, "node2", "impatient", "fenced", "once", "unwanted")
        # It is to see the silence, some 40 s from now, and then its deadline, however slow the others were.
        kubectl.create(diary.keeper("dated", "node2", deadlineSeconds=55))
        diary.at_work_on(kubectl, "node2", "dated")
        machinery.silence("node2")

        impatient = kubectl.wait("impatient")["status"]
        assert of_run(impatient, "number", "state", "node") == [
            (0, "Exception", "node2"),
            (1, "Completed", "node1"),
        ]
        assert impatient["lossCount"] == 1
        assert "`node2` could not be reached" in impatient["runs"][0]["message"]
        diary.is_kept(kubectl, "impatient", run=0)
        assert not diary.is_in_order("impatient"), "the risk that its author has taken"

        awaits_node(kubectl, "fenced", "node2")
        awaits_node(kubectl, "once", "node2")
        awaits_node(kubectl, "unwanted", "node2")
        kubectl.edit("unwanted", cancel=True)
        kubectl.until("unwanted", "NodeUnreachable", ".status.waiting[0].reason")

        dated = kubectl.wait("dated")["status"]
        assert (dated["state"], dated["reason"]) == ("Exception", "DeadlineExceeded")
        assert "NodeUnreachable" in {
            wait["reason"] for status in history.statuses("dated") for wait in status.get("waiting", [])
        }
        assert len(pods.pods()) == 6, "one each, and the impatient one's second"
        assert kubectl.status("unwanted")["stop"]["reason"] == "Cancelled", "asked for, and not done"

        machinery.fence("node2")
        fenced, once, unwanted = (kubectl.wait(each)["status"] for each in ("fenced", "once", "unwanted"))
    assert of_run(fenced, "number", "state", "node") == [(0, "Exception", "node2"), (1, "Completed", "node1")]
    assert fenced["lossCount"] == 1
    assert (once["state"], once["reason"], once["runCount"]) == ("Exception", "WorkerLost", 1)
    assert set(diary.runs("once")) == {0}, "at most once is what it asked for"
    assert (unwanted["state"], unwanted["runCount"]) == ("Cancelled", 1)


def test_a_deleted_node_ends_the_wait(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness
) -> None:
    kubectl.create(diary.keeper("moves", "node2"))
    with place.running():
        diary.at_work_on(kubectl, "node2", "moves")
        machinery.silence("node2")
        machinery.delete_node("node2")
        moved = kubectl.wait("moves")["status"]
    assert of_run(moved, "number", "state", "node") == [(0, "Exception", "node2"), (1, "Completed", "node1")]
    assert "DeletionByPodGC" in moved["runs"][0]["message"]
    assert (moved["lossCount"], moved["retryCount"]) == (1, 0)


def test_a_run_that_a_node_short_of_memory_evicts_is_a_loss(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness
) -> None:
    kubectl.create(
        diary.keeper("moves", "node2"),
        diary.keeper("once", "node2", retry={"infrastructureLimit": 0}),
    )
    with place.running():
        diary.at_work_on(kubectl, "node2", "moves", "once")
        with machinery.pressure("node2"):
            moved, once = kubectl.wait("moves")["status"], kubectl.wait("once")["status"]
    assert diary.is_in_order("moves")
    assert of_run(moved, "number", "state", "node") == [(0, "Exception", "node2"), (1, "Completed", "node1")]
    assert (moved["lossCount"], moved["retryCount"]) == (1, 0)
    assert "The node was low on resource: memory" in moved["runs"][0]["message"]
    assert (once["state"], once["reason"], once["runCount"]) == ("Exception", "WorkerLost", 1)
    assert "The node was low on resource: memory" in once["message"]


def test_a_node_that_only_restarts_its_kubelet_loses_nothing_and_one_without_power_its_runs(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, pods: Witness
) -> None:
    kubectl.create(
        diary.keeper("unharmed", "node1", then="[ -e /diary/may-end ]"), diary.keeper("cut-off", "node2")
    )
    with place.running():
        diary.at_work_on(kubectl, "node1", "unharmed")
        diary.at_work_on(kubectl, "node2", "cut-off")
        machinery.kill("node2/machine")
        machinery.silence("node1")
        machinery.put_back()
        diary.is_kept(kubectl, "unharmed", run=0)
        (diary.folder / "may-end").touch()
        unharmed, cut_off = kubectl.wait("unharmed")["status"], kubectl.wait("cut-off")["status"]
    assert of_run(unharmed, "number", "state") == [(0, "Completed")]
    assert diary.is_in_order("cut-off")
    assert of_run(cut_off, "number", "state", "reason") == [
        (0, "Exception", "WorkerLost"),
        (1, "Completed", None),
    ]
    assert "its node went away or restarted" in cut_off["runs"][0]["message"]
    assert (unharmed["lossCount"], cut_off["lossCount"]) == (0, 1)
