"""The life of a Task, with real pods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kube import JSON, UNTIL_TOLD, Kubectl, of_run, task


def test_a_task_that_succeeds_is_completed_with_its_run_on_record(kubectl: Kubectl, examples: Path) -> None:
    kubectl("create", "-f", str(examples / "hello.yaml"))
    status = kubectl.wait("hello", "Succeeded")["status"]
    assert (status["state"], status["phase"]) == ("Completed", "Finished")
    (run,) = status["runs"]
    assert (run["number"], run["attempt"], run["state"], run["exitCode"]) == (0, 1, "Completed", 0)
    (pod,) = kubectl.get("pods")["items"]
    assert (run["pod"], run["node"]) == (pod["metadata"]["name"], pod["spec"]["nodeName"])
    assert status["submittedAt"] <= status["claimedAt"] <= status["startedAt"] <= status["completedAt"]
    assert "failedAt" not in status


def test_a_task_that_exits_3_is_failed_with_the_exit_code(kubectl: Kubectl, examples: Path) -> None:
    kubectl("create", "-f", str(examples / "fails.yaml"))
    status = kubectl.wait("fails", "Succeeded=false")["status"]
    assert (status["state"], status["reason"]) == ("Failed", "ExitCode")
    assert status["result"]["error"]["code"] == "ExitCode"
    assert "3" in status["message"]
    assert "cannot find the answer" in status["message"]
    (run,) = status["runs"]
    assert (run["exitCode"], run["state"]) == (3, "Failed")
    assert status["failedAt"] == status["completedAt"]


def test_ten_at_once_are_all_completed_by_one_pod_each(kubectl: Kubectl) -> None:
    names = [f"many-{number}" for number in range(10)]
    kubectl.create(*(task(name, "exit 0") for name in names))
    kubectl("wait", "--for=condition=Succeeded", "tasks", "--all", "--timeout=80s")
    tasks = kubectl.get("tasks")["items"]
    assert [(each["metadata"]["name"], each["status"]["state"]) for each in tasks] == [
        (name, "Completed") for name in names
    ]
    owners = [job["metadata"]["ownerReferences"][0]["uid"] for job in kubectl.get("jobs")["items"]]
    assert sorted(owners) == sorted(each["metadata"]["uid"] for each in tasks)
    assert len(kubectl.get("pods")["items"]) == 10


def test_a_running_task_that_is_deleted_takes_its_pod_along(kubectl: Kubectl) -> None:
    kubectl.create(task("long", UNTIL_TOLD))
    kubectl.until("long", "Running")
    kubectl("delete", "task", "long")
    kubectl.eventually("Job and pod are gone", lambda: not kubectl.get("pods,jobs")["items"])


def test_the_task_knows_who_it_is(kubectl: Kubectl) -> None:
    names = ("TASK", "NAMESPACE", "UID", "RUN", "RETRY", "RESULT_PATH", "DEADLINE")
    words = " ".join(f"$TASKYARD_{name}" for name in names)
    script = f"echo {words}; ls /var/run/secrets 2>&1; id -u"
    deadline = "2099-01-01T00:00:00Z"
    kubectl.create(task("self", script, deadline=deadline))
    found = kubectl.wait("self", "Succeeded")
    identity, no_token, user = kubectl("logs", found["status"]["runs"][0]["pod"]).splitlines()
    expected = [
        "self",
        kubectl.namespace,
        found["metadata"]["uid"],
        "0",
        "0",
        "/dev/termination-log",
        deadline,
    ]
    assert identity.split() == expected
    assert "No such file" in no_token, "a task that asks for no service account gets no token of one"
    assert user == "65532"


def test_python_tasks_run_as_somebody_harmless(kubectl: Kubectl) -> None:
    kubectl.create(
        task("py", "python3 -c 'import os, sys; print(sys.version_info[:2], os.getuid())'", image="python")
    )
    pod = kubectl.wait("py", "Succeeded")["status"]["runs"][0]["pod"]
    assert kubectl("logs", pod).strip() == "(3, 11) 65532"


def test_how_a_task_ended_is_told_apart(kubectl: Kubectl) -> None:
    endings = {
        "memory": ("exec tail /dev/zero", "OOMKilled", 137, 9, "(its limit is 32Mi)"),
        "signal": ("exit 143", "Signal", 143, 15, "was ended by SIGTERM"),
        "plain": ("exit 1", "ExitCode", 1, None, "exited with code 1"),
        "no-command": ("", "ExitCode", None, None, "no-such-command"),
    }
    manifests = {name: task(name, script) for name, (script, *_) in endings.items()}
    for manifest in manifests.values():
        container(manifest)["resources"]["limits"] = {"memory": "32Mi"}
    container(manifests["no-command"])["command"] = ["/no-such-command"]
    kubectl.create(*manifests.values())
    for name, status in kubectl.finished().items():
        _, code, exit_code, signal, words = endings[name]
        assert (status["state"], status["reason"]) == ("Failed", code), name
        assert status["result"]["error"]["code"] == code
        assert words in status["message"]
        assert of_run(status, "exitCode", "signal") == [(exit_code, signal)]


def test_a_template_that_no_job_may_have_is_an_exception_and_stops_nobody(kubectl: Kubectl) -> None:
    malformed = task("malformed", "exit 0")
    container(malformed)["volumeMounts"] = [{"name": "nowhere", "mountPath": "/x"}]
    kubectl.create(malformed, task("fine", "exit 0"))
    status = kubectl.wait("malformed")["status"]
    assert (status["state"], status["reason"]) == ("Exception", "MalformedPayload")
    assert "nowhere" in status["message"]
    assert kubectl.wait("fine", "Succeeded")["status"]["state"] == "Completed"


def container(manifest: JSON) -> JSON:
    found: JSON = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


def no_such_image(manifest: JSON) -> None:
    container(manifest)["image"] = "localhost/no-such-image:dev"


def no_such_node(manifest: JSON) -> None:
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"no-such": "label"}


def no_such_rights(manifest: JSON) -> None:
    container(manifest)["securityContext"] = {"privileged": True}


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        pytest.param(no_such_image, "ImagePull", "no-such-image", id="an image that cannot be pulled"),
        pytest.param(no_such_node, "Unschedulable", "didn't match", id="a node that does not exist"),
        pytest.param(
            no_such_rights, "PodDenied", "violates PodSecurity", id="a pod that the namespace does not allow"
        ),
    ],
)
def test_a_task_that_cannot_start_says_why(
    kubectl: Kubectl, change: Callable[[JSON], None], reason: str, message: str
) -> None:
    manifest = task("held", "exit 0")
    change(manifest)
    kubectl.create(manifest)
    status = kubectl.until("held", reason, ".status.reason")
    assert status["state"] == "Claimed"
    assert message in status["message"]


def test_a_pod_that_is_deleted_is_a_loss_and_not_the_tasks_failure(kubectl: Kubectl) -> None:
    """Made good by another run, from a budget of its own; or not, if the task must not run twice."""
    first_waits = f'[ "$TASKYARD_RUN" -gt 0 ] && exit 0; {UNTIL_TOLD}'
    kubectl.create(
        task("robbed", first_waits, retry={"infrastructureLimit": 1}),
        task("once", first_waits, retry={"limit": 3, "infrastructureLimit": 0}),
    )
    kubectl.until("robbed", "Running")
    kubectl.until("once", "Running")
    kubectl("delete", "pods", "--all", "--wait=false")
    found = kubectl.finished()
    robbed, once = found["robbed"], found["once"]
    assert (robbed["state"], robbed["lossCount"], robbed["retryCount"]) == ("Completed", 1, 0)
    assert of_run(robbed, "number", "state", "reason") == [
        (0, "Exception", "WorkerLost"),
        (1, "Completed", None),
    ]
    assert [each["reason"] for each in kubectl.events("robbed")] == ["RunLost"]
    assert (once["state"], once["reason"], once["runCount"]) == ("Exception", "WorkerLost", 1)
    assert "deleted" in once["message"]
