"""How a run ended, told from its evidence."""

from dataclasses import replace

import pytest

from taskyard.core import verdict
from taskyard.core.model import Container, Exit, Pod, Stop, Value
from taskyard.core.verdict import Drained, Ending, Failed, Lost, NotStarted, Stopped, Succeeded
from taskyard.core.words import PodPhase, State, StopReason
from tests.unit.build import ENDED, NOW, STARTED, ended, job, pod, seconds, started, task

FAILED = PodPhase.FAILED
RUNNING_TASK = task(State.RUNNING)
NEVER_STARTED = Container("main", exit=Exit(137, "ContainerStatusUnknown", None, None))


def of_pod(over: Pod, main_container: str = "main") -> Ending | None:
    return verdict.of_pod(over, task(State.RUNNING, wants={"main_container": main_container}))


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
            pod(FAILED, replace(ended(137, reason="OOMKilled"), memory_limit="32Mi")),
            "OOMKilled",
            "the container `main` ran out of memory and was killed (its limit is 32Mi)",
            id="out of memory names the limit",
        ),
        pytest.param(
            pod(PodPhase.SUCCEEDED, ended(0, message='{"error": {"code": "Busy", "message": "later"}}')),
            "Busy",
            "later",
            id="an error result is a failure with exit code 0",
        ),
        pytest.param(
            pod(FAILED, ended(3, message='{"error": {"message": "x"}}')),
            "UnhandledError",
            "x",
            id="an error result says more than the exit code",
        ),
        pytest.param(
            pod(FAILED, ended(3, message='{"ok": 1}')),
            "ExitCode",
            'the container `main` exited with code 3: {"ok": 1}',
            id="a value does not make up for an exit code",
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


@pytest.mark.parametrize(
    ("drained", "message"),
    [
        pytest.param(
            pod(FAILED, ended(143), disruption="EvictionByEvictionAPI"),
            "the pod was disrupted (EvictionByEvictionAPI)",
            id="evicted by the API",
        ),
        pytest.param(
            pod(FAILED, ended(143), disruption="TerminationByKubelet", reason="Terminated", message="bye"),
            "the pod was disrupted (TerminationByKubelet): bye",
            id="an orderly shutdown of its machine",
        ),
    ],
)
def test_drained(drained: Pod, message: str) -> None:
    assert of_pod(drained) == Drained(verdict.of_living(drained, RUNNING_TASK), message)


@pytest.mark.parametrize(
    ("rejected", "is_capacity"),
    [
        pytest.param(pod(FAILED, reason="OutOfcpu", message="m"), True, id="another was faster"),
        pytest.param(pod(FAILED, reason="NodeAffinity", message="m"), False, id="a node that does not fit"),
        pytest.param(pod(FAILED, Container("main"), reason="Evicted"), False, id="a node under pressure"),
    ],
)
def test_a_pod_that_its_node_refuses_did_not_start(rejected: Pod, is_capacity: bool) -> None:
    ending = of_pod(rejected)
    assert isinstance(ending, NotStarted)
    assert (ending.is_capacity, ending.evidence.has_started) == (is_capacity, False)
    assert f"the node refused the pod ({rejected.reason})" in ending.message


def test_a_pod_that_started_and_was_then_lost_is_no_refusal() -> None:
    assert isinstance(of_pod(pod(FAILED, started(), reason="OutOfcpu")), Lost)
    with_init = pod(FAILED, init_containers=(ended(0, "init"),), reason="Evicted")
    assert isinstance(of_pod(with_init), Lost)


def stopped_task(reason: StopReason) -> Ending | None:
    of = task(State.RUNNING, stop=Stop(reason, NOW))
    return verdict.of_pod(pod(FAILED, ended(143), reason="DeadlineExceeded"), of)


@pytest.mark.parametrize("reason", [each for each in StopReason if each != "MainContainerEnded"])
def test_the_reason_on_record_is_the_verdict_of_a_stopped_run(reason: StopReason) -> None:
    ending = stopped_task(reason)
    assert isinstance(ending, Stopped)
    assert (ending.reason, ending.evidence.exit_code) == (reason, 143)


def test_a_success_wins_over_a_stop() -> None:
    of = task(State.RUNNING, stop=Stop(StopReason.CANCELLED, NOW))
    assert isinstance(verdict.of_pod(pod(PodPhase.SUCCEEDED, ended(0)), of), Succeeded)


@pytest.mark.parametrize(("code", "kind"), [(0, Succeeded), (3, Failed)])
def test_the_main_containers_verdict_stands_when_others_were_stopped(code: int, kind: type) -> None:
    of = task(State.RUNNING, stop=Stop(StopReason.MAIN_CONTAINER_ENDED, NOW))
    lingered = pod(FAILED, ended(code), ended(137, "sidecar"), reason="DeadlineExceeded")
    assert isinstance(verdict.of_pod(lingered, of), kind)


def test_the_fail_safe_of_a_run_with_a_timeout_is_its_timeout() -> None:
    of = task(State.RUNNING, wants={"timeout": seconds(7)})
    ending = verdict.of_pod(pod(FAILED, ended(143), reason="DeadlineExceeded"), of)
    assert isinstance(ending, Failed)
    assert ending.error.message == "the run took longer than its `timeoutSeconds` of 7 s and was stopped"


def test_a_value_is_kept() -> None:
    ending = of_pod(pod(PodPhase.SUCCEEDED, ended(0, message='{"ok": [1, null]}')))
    assert isinstance(ending, Succeeded)
    assert ending.result is not None
    assert ending.result.ok == Value([1, None])


def test_what_can_be_said_without_a_pod() -> None:
    of, stopping = task(State.RUNNING), task(State.RUNNING, stop=Stop(StopReason.CANCELLED, NOW))
    completed = verdict.without_pod(of, job(succeeded=True), None)
    assert isinstance(completed, Succeeded)
    assert completed.is_result_unknown
    assert isinstance(verdict.without_pod(of, None, None), Lost)
    assert isinstance(verdict.without_pod(of, job(), None), Lost)
    assert isinstance(verdict.without_pod(stopping, None, None), Stopped)
    seen = verdict.without_pod(stopping, None, pod(PodPhase.RUNNING, started(), gone=True))
    assert (seen.evidence.has_started, seen.evidence.pod) == (True, "hello-1-abcde")
