"""The life of a Task, with real pods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.conftest import JSON, Kubectl, task


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
    kubectl.create(task("long", "trap 'exit 0' TERM; sleep 600 & wait"))
    kubectl.eventually("it runs", lambda: kubectl.get("task", "long")["status"].get("state") == "Running")
    kubectl("delete", "task", "long")
    kubectl.eventually("Job and pod are gone", lambda: not kubectl.get("pods,jobs")["items"])


def test_the_task_knows_who_it_is(kubectl: Kubectl) -> None:
    words = 'echo "$TASKYARD_TASK $TASKYARD_NAMESPACE $TASKYARD_UID $TASKYARD_RUN"'
    script = f"{words}; ls /var/run/secrets 2>&1; id -u"
    kubectl.create(task("self", script))
    found = kubectl.wait("self", "Succeeded")
    identity, no_token, user = kubectl("logs", found["status"]["runs"][0]["pod"]).splitlines()
    assert identity.split() == ["self", kubectl.namespace, found["metadata"]["uid"], "0"]
    assert "No such file" in no_token, "a task that asks for no service account gets no token of one"
    assert user == "65532"


def test_python_tasks_run_as_somebody_harmless(kubectl: Kubectl) -> None:
    kubectl.create(
        task("py", "python3 -c 'import os, sys; print(sys.version_info[:2], os.getuid())'", image="python")
    )
    pod = kubectl.wait("py", "Succeeded")["status"]["runs"][0]["pod"]
    assert kubectl("logs", pod).strip() == "(3, 11) 65532"


@pytest.mark.parametrize(
    ("script", "code", "signal"),
    [
        pytest.param("exec tail /dev/zero", "OOMKilled", 9, id="more memory than it may have"),
        pytest.param("exit 137", "Signal", 9, id="an exit code that means a signal"),
        pytest.param("exit 1", "ExitCode", None, id="a plain failure"),
    ],
)
def test_how_a_task_ended_is_told_apart(kubectl: Kubectl, script: str, code: str, signal: int | None) -> None:
    manifest = task("ended", script)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"memory": "32Mi"}
    kubectl.create(manifest)
    status = kubectl.wait("ended", "Succeeded=false")["status"]
    assert (status["state"], status["reason"], status["runs"][0].get("signal")) == ("Failed", code, signal)


def test_the_queue_is_what_kubectl_shows(kubectl: Kubectl) -> None:
    kubectl.create(task("good", "exit 0"), task("bad", "exit 1"))
    kubectl("wait", "--for=condition=Finished", "tasks", "--all", "--timeout=80s")
    header, *rows = kubectl("get", "tsk").splitlines()
    assert header.split() == ["NAME", "STATE", "REASON", "RUN", "AGE"]
    assert [row.split()[:2] for row in rows] == [["bad", "Failed"], ["good", "Completed"]]
    wide = kubectl("get", "taskyard", "-o", "wide").splitlines()[0]
    assert wide.split()[-4:] == ["POD", "NODE", "STARTED", "FINISHED"]
    failed = kubectl("get", "tasks", "--field-selector=status.state=Failed", "-o", "name")
    assert failed.split() == ["task.taskyard.dev/bad"]


def test_a_task_outlives_its_operator(admin: Kubectl, kubectl: Kubectl) -> None:
    """The operator's pod is killed while the task runs: the next one goes on, and nothing runs twice."""
    kubectl.create(task("survivor", "sleep 6"))
    kubectl.eventually("it runs", lambda: kubectl.get("task", "survivor")["status"].get("state") == "Running")
    selector = ("-n", "taskyard-system", "-l", "app.kubernetes.io/name=taskyard")
    admin("delete", "pods", *selector, "--grace-period=0", "--force")
    status = kubectl.wait("survivor", "Succeeded")["status"]
    assert (status["state"], status["attempt"], status["runCount"]) == ("Completed", 1, 1)
    assert len(kubectl.get("pods")["items"]) == 1


def test_a_template_that_no_job_may_have_is_an_exception_and_stops_nobody(kubectl: Kubectl) -> None:
    malformed = task("malformed", "exit 0")
    malformed["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "nowhere", "mountPath": "/x"}
    ]
    kubectl.create(malformed, task("fine", "exit 0"))
    status = kubectl.wait("malformed")["status"]
    assert (status["state"], status["reason"]) == ("Exception", "MalformedPayload")
    assert "nowhere" in status["message"]
    assert kubectl.wait("fine", "Succeeded")["status"]["state"] == "Completed"


def no_such_image(manifest: JSON) -> None:
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "localhost/no-such-image:dev"


def no_such_node(manifest: JSON) -> None:
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"no-such": "label"}


def no_such_rights(manifest: JSON) -> None:
    manifest["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        pytest.param(no_such_image, "ImagePull", "no-such-image", id="an image that cannot be pulled"),
        pytest.param(no_such_node, "Unschedulable", "didn't match", id="a node that does not exist"),
        pytest.param(
            no_such_rights, "NoPod", "kubectl describe job", id="a pod that the namespace does not allow"
        ),
    ],
)
def test_a_task_that_cannot_start_says_why(
    kubectl: Kubectl, change: Callable[[JSON], None], reason: str, message: str
) -> None:
    manifest = task("held", "exit 0")
    change(manifest)
    kubectl.create(manifest)
    found = kubectl.eventually("a reason", lambda: kubectl.get("task", "held")["status"].get("reason"))
    assert found == reason
    status = kubectl.get("task", "held")["status"]
    assert status["state"] == "Claimed"
    assert message in status["message"]


def test_a_pod_that_is_deleted_is_a_loss_and_not_the_tasks_failure(kubectl: Kubectl) -> None:
    kubectl.create(task("robbed", "trap 'exit 1' TERM; sleep 600 & wait"))
    kubectl.eventually("it runs", lambda: kubectl.get("task", "robbed")["status"].get("state") == "Running")
    kubectl("delete", "pods", "--all", "--wait=false")
    status = kubectl.wait("robbed", "Succeeded=false")["status"]
    assert (status["state"], status["reason"]) == ("Exception", "WorkerLost")
