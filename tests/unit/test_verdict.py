"""How a run ended, told from its evidence."""

import pytest

from taskyard.core.model import Container, Exit, Pod, PodPhase
from taskyard.core.verdict import Failed, Lost, Succeeded, of_pod
from tests.unit.build import ENDED, STARTED, ended, pod, started

FAILED = PodPhase.FAILED
NEVER_STARTED = Container("main", exit=Exit(137, "ContainerStatusUnknown", None, None))


@pytest.mark.parametrize(
    "running",
    [pod(), pod(PodPhase.RUNNING, started()), pod(PodPhase.RUNNING, ended(1)), pod(PodPhase.UNKNOWN)],
)
def test_a_pod_that_may_go_on_is_no_verdict(running: Pod) -> None:
    assert of_pod(running, "main") is None


@pytest.mark.parametrize(
    "succeeded",
    [
        pytest.param(pod(PodPhase.SUCCEEDED, ended(0)), id="the pod succeeded"),
        pytest.param(pod(PodPhase.SUCCEEDED), id="the pod succeeded and its containers are not reported"),
        pytest.param(
            pod(FAILED, ended(0), ended(1, "sidecar")), id="another container failed, after or before"
        ),
    ],
)
def test_succeeded(succeeded: Pod) -> None:
    assert isinstance(of_pod(succeeded, "main"), Succeeded)


@pytest.mark.parametrize(
    ("failed", "code", "message"),
    [
        pytest.param(
            pod(FAILED, ended(3)), "ExitCode", "the container `main` exited with code 3", id="an exit code"
        ),
        pytest.param(
            pod(FAILED, ended(0, "sidecar"), ended(4)),
            "ExitCode",
            "the container `main` exited with code 4",
            id="the main container counts, wherever it stands",
        ),
        pytest.param(
            pod(FAILED, ended(137)),
            "Signal",
            "the container `main` was ended by SIGKILL",
            id="128 + 9 is SIGKILL",
        ),
        pytest.param(
            pod(FAILED, ended(143)),
            "Signal",
            "the container `main` was ended by SIGTERM",
            id="128 + 15 is SIGTERM",
        ),
        pytest.param(
            pod(FAILED, ended(255)),
            "ExitCode",
            "the container `main` exited with code 255",
            id="255 is no signal",
        ),
        pytest.param(
            pod(FAILED, ended(128)),
            "ExitCode",
            "the container `main` exited with code 128",
            id="128 is no signal",
        ),
        pytest.param(
            pod(FAILED, ended(137, reason="OOMKilled")),
            "OOMKilled",
            "the container `main` ran out of memory and was killed",
            id="out of memory is told apart from a kill",
        ),
        pytest.param(
            pod(FAILED, ended(1, message="no such file\n")),
            "ExitCode",
            "the container `main` exited with code 1: no such file",
            id="the container's last words are kept",
        ),
        pytest.param(
            pod(FAILED, init_containers=(ended(0, "a"), ended(2, "b"))),
            "ExitCode",
            "the init container `b` exited with code 2",
            id="an init container fails the task as well",
        ),
        pytest.param(
            pod(FAILED, ended(137), reason="DeadlineExceeded"),
            "Timeout",
            "the pod ran into its own `activeDeadlineSeconds`",
            id="the template's own deadline is a timeout",
        ),
    ],
)
def test_failed(failed: Pod, code: str, message: str) -> None:
    ending = of_pod(failed, "main")
    assert isinstance(ending, Failed)
    assert (ending.error.code, ending.error.message) == (code, message)


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        pytest.param(
            pod(FAILED, ended(137), reason="Evicted", message="The node was low on resource: memory."),
            "the pod was disrupted (Evicted): The node was low on resource: memory.",
            id="evicted by its node",
        ),
        pytest.param(
            pod(FAILED, ended(143), disruption="PreemptionByScheduler"),
            "the pod was disrupted (PreemptionByScheduler)",
            id="preempted",
        ),
        pytest.param(
            pod(FAILED, ended(0), disruption="DeletionByTaintManager"),
            "the pod was disrupted (DeletionByTaintManager)",
            id="an exit with 0 on the way out is not the end of the work",
        ),
        pytest.param(
            pod(FAILED, ended(143), deleting=True),
            "the pod was deleted while it ran",
            id="deleted under the task: not its own fault",
        ),
        pytest.param(
            pod(FAILED, ended(255, reason="Unknown")),
            "nobody saw the container end: its node went away or restarted",
            id="255 after a restart of the node is made up",
        ),
        pytest.param(
            pod(FAILED, NEVER_STARTED),
            "nobody saw the container end: its node went away or restarted",
            id="137 of a container that never started is not a kill",
        ),
    ],
)
def test_lost(lost: Pod, message: str) -> None:
    ending = of_pod(lost, "main")
    assert isinstance(ending, Lost)
    assert ending.message == message


def test_the_evidence_is_kept() -> None:
    ending = of_pod(pod(FAILED, ended(137)), "main")
    assert ending is not None
    evidence = ending.evidence
    assert (evidence.pod, evidence.node) == ("hello-1-abcde", "node-1")
    assert (evidence.started_at, evidence.finished_at) == (STARTED, ENDED)
    assert (evidence.exit_code, evidence.signal) == (137, 9)


def test_a_command_that_does_not_exist_is_the_tasks_own_fault() -> None:
    cannot = Container("main", exit=Exit(128, "StartError", "exec: no such file", None))
    ending = of_pod(pod(FAILED, cannot), "main")
    assert isinstance(ending, Failed)
    assert "no such file" in ending.error.message
    assert ending.evidence.started_at is None


def test_a_container_that_never_started_leaves_no_exit_code() -> None:
    ending = of_pod(pod(FAILED, NEVER_STARTED), "main")
    assert ending is not None
    assert (ending.evidence.exit_code, ending.evidence.signal) == (None, None)
