"""How a run ended, told from its evidence."""

from dataclasses import replace
from typing import Any

import pytest

from taskyard.core import verdict
from taskyard.core.model import Container, Exit, Pod, Run, Stop, Value
from taskyard.core.verdict import Drained, Ending, Failed, Lost, NotStarted, Stopped, Succeeded
from taskyard.core.words import PodPhase, State, StopReason
from tests.unit.build import ENDED, NOW, STARTED, ended, job, pod, seconds, started, task

FAILED = PodPhase.FAILED
NEVER_STARTED = Container("main", exit=Exit(137, "ContainerStatusUnknown", None, None))


def of_pod(over: Pod, main_container: str = "main") -> Ending:
    return verdict.of_pod(over, task(State.RUNNING, wants={"main_container": main_container}))


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
            pod(FAILED, init_containers=(ended(255, "sidecar", reason="Unknown"), ended(2, "b"))),
            "ExitCode",
            "the init container `b` exited with code 2",
            id="what was seen of an init container counts, whatever was not seen of another",
        ),
        pytest.param(
            pod(
                FAILED, init_containers=(Container("a", exit=Exit(128, "StartError", "no such file", None)),)
            ),
            "ExitCode",
            "the init container `a` exited with code 128: no such file",
            id="the command of an init container that does not exist is the task's own fault",
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
            pod(
                FAILED,
                ended(137),
                reason="Evicted",
                disruption="TerminationByKubelet",
                message="The node was low on resource: memory.",
            ),
            "the pod on node `node-1` was disrupted (TerminationByKubelet): The node was low on resource: memory.",
            id="evicted by its node",
        ),
        pytest.param(
            pod(FAILED, ended(143), disruption="PreemptionByScheduler"),
            "the pod on node `node-1` was disrupted (PreemptionByScheduler)",
            id="preempted",
        ),
        pytest.param(
            pod(FAILED, ended(0), disruption="DeletionByTaintManager"),
            "the pod on node `node-1` was disrupted (DeletionByTaintManager)",
            id="an exit with 0 on the way out is not the end of the work",
        ),
        pytest.param(
            pod(FAILED, ended(143), deleting=True),
            "the pod was deleted before its run had ended",
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
        pytest.param(
            pod(FAILED, init_containers=(ended(0, "a"), ended(255, "b", reason="Unknown"))),
            "nobody saw the init container `b` end: its node went away or restarted",
            id="255 of an init container after a power cut is made up as well",
        ),
        pytest.param(
            pod(FAILED, init_containers=(replace(NEVER_STARTED, name="a"),)),
            "nobody saw the init container `a` end: its node went away or restarted",
            id="and so is 137 of one that the kubelet knows nothing of",
        ),
        pytest.param(
            pod(FAILED, init_containers=(ended(143, "a"),), disruption="DeletionByTaintManager"),
            "the pod on node `node-1` was disrupted (DeletionByTaintManager)",
            id="an init container was killed, and the disruption tells by whom",
        ),
        pytest.param(
            pod(FAILED, init_containers=(ended(137, "a"),), deleting=True),
            "the pod was deleted before its run had ended",
            id="an init container was killed because its pod was deleted",
        ),
    ],
)
def test_lost(lost: Pod, message: str) -> None:
    ending = of_pod(lost, "main")
    assert isinstance(ending, Lost)
    assert ending.message == message


def test_the_evidence_is_kept() -> None:
    ending = of_pod(pod(FAILED, ended(137)), "main")
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
    assert (ending.evidence.exit_code, ending.evidence.signal) == (None, None)


@pytest.mark.parametrize(
    ("drained", "message"),
    [
        pytest.param(
            pod(FAILED, ended(143), disruption="EvictionByEvictionAPI"),
            "the pod on node `node-1` was disrupted (EvictionByEvictionAPI)",
            id="evicted by the API",
        ),
        pytest.param(
            pod(FAILED, ended(143), disruption="TerminationByKubelet", reason="Terminated", message="bye"),
            "the pod on node `node-1` was disrupted (TerminationByKubelet): bye",
            id="an orderly shutdown of its machine",
        ),
    ],
)
def test_drained(drained: Pod, message: str) -> None:
    ending = of_pod(drained)
    assert isinstance(ending, Drained)
    assert (ending.message, ending.evidence.exit_code) == (message, 143)


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
    with_init = pod(FAILED, init_containers=(ended(0, "init"),), reason="NodeAffinity")
    assert isinstance(of_pod(with_init), Lost)


def test_a_pod_that_a_kubelet_under_pressure_does_not_take_back_is_lost() -> None:
    """It restarted, and its node had no memory left: the reason is that of a pod over its own limit."""
    said = "Pod was rejected: The node had condition: [MemoryPressure]. "
    refused = pod(PodPhase.FAILED, started(), reason="Evicted", message=said)
    assert isinstance(verdict.of_pod(refused, task(State.RUNNING)), verdict.Lost)


@pytest.mark.parametrize(
    "main",
    [
        pytest.param(ended(137), id="killed"),
        pytest.param(Container("main"), id="the kubelet does not say yet that it has started"),
    ],
)
def test_a_pod_that_exceeds_its_own_storage_has_failed(main: Container) -> None:
    """A node that lacks some says so by a condition; here there is none."""
    said = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi."
    ending = of_pod(pod(FAILED, main, reason="Evicted", message=said))
    assert isinstance(ending, Failed)
    assert (ending.error.code, ending.error.message) == ("StorageExceeded", said)


def stopped_task(reason: StopReason) -> Ending:
    of = task(State.RUNNING, stop=Stop(reason, ENDED))
    return verdict.of_pod(pod(FAILED, ended(143), reason="DeadlineExceeded"), of)


@pytest.mark.parametrize("reason", [each for each in StopReason if each != "MainContainerEnded"])
def test_the_reason_on_record_is_the_verdict_of_a_stopped_run(reason: StopReason) -> None:
    ending = stopped_task(reason)
    assert isinstance(ending, Stopped)
    assert (ending.reason, ending.evidence.exit_code) == (reason, 143)


def test_a_success_wins_over_a_stop() -> None:
    of = task(State.RUNNING, stop=Stop(StopReason.CANCELLED, ENDED))
    assert isinstance(verdict.of_pod(pod(PodPhase.SUCCEEDED, ended(0)), of), Succeeded)


@pytest.mark.parametrize(("code", "kind"), [(0, Succeeded), (3, Failed)])
def test_the_main_containers_verdict_stands_when_others_were_stopped(code: int, kind: type) -> None:
    of = task(State.RUNNING, stop=Stop(StopReason.MAIN_CONTAINER_ENDED, NOW))
    lingered = pod(FAILED, ended(code), ended(137, "sidecar"), reason="DeadlineExceeded")
    assert isinstance(verdict.of_pod(lingered, of), kind)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param(0, Succeeded, id="a success that the kubelet told late"),
        pytest.param(3, Failed, id="a failure that it told late"),
        pytest.param(143, Stopped, id="a kill is a kill: two clocks may differ"),
    ],
)
def test_what_ended_before_it_was_to_be_stopped_has_its_own_verdict(code: int, kind: type) -> None:
    of = task(State.RUNNING, stop=Stop(StopReason.TIMEOUT, ENDED + seconds(1)))
    late = pod(FAILED, ended(code), reason="DeadlineExceeded")
    assert isinstance(verdict.of_pod(late, of), kind)


@pytest.mark.parametrize("reason", sorted(verdict.RUN_AGAIN))
def test_work_that_is_done_is_not_done_again(reason: StopReason) -> None:
    of = task(State.CLAIMED, stop=Stop(reason, ENDED))
    assert isinstance(verdict.of_pod(pod(FAILED, ended(0), reason="DeadlineExceeded"), of), Succeeded)


LIMIT: dict[str, Any] = {"reason": "DeadlineExceeded", "accepted_at": STARTED, "active_deadline": 60}
STRUCK = STARTED + seconds(60)
KILLED = Container("main", STARTED, Exit(143, "Error", None, STRUCK))


@pytest.mark.parametrize(
    ("wants", "container", "kind", "said"),
    [
        pytest.param({}, KILLED, Failed, "its own `activeDeadlineSeconds`", id="the template's own limit"),
        pytest.param(
            {"timeout": seconds(7)},
            KILLED,
            Failed,
            "`timeoutSeconds` of 7 s",
            id="its timeout, by the fail-safe",
        ),
        pytest.param(
            {"timeout": seconds(36000)},
            KILLED,
            Failed,
            "its own `activeDeadlineSeconds`",
            id="not its timeout",
        ),
        pytest.param({"deadline": STRUCK}, KILLED, Stopped, "", id="its deadline, by the fail-safe"),
        pytest.param({}, Container("main"), NotStarted, "had not started", id="before it started"),
        pytest.param(
            {},
            Container("main", STARTED, Exit(0, "Completed", '{"ok": 1}', STARTED)),
            Succeeded,
            "",
            id="others lingered after its own end",
        ),
    ],
)
def test_a_pod_that_its_kubelet_ended_alone(
    wants: dict[str, Any], container: Container, kind: type, said: str
) -> None:
    ending = verdict.of_pod(pod(FAILED, container, **LIMIT), task(State.RUNNING, wants=wants))
    assert isinstance(ending, kind)
    message = ending.error.message if isinstance(ending, Failed) else getattr(ending, "message", "")
    assert said in message


@pytest.mark.parametrize("how", [{"disruption": "EvictionByEvictionAPI"}, {"deleting": True}])
def test_work_that_was_done_before_a_disruption_is_done(how: dict[str, Any]) -> None:
    lingering = pod(FAILED, ended(0), ended(143, "sidecar"), disturbed_at=ENDED + seconds(1), **how)
    assert isinstance(of_pod(lingering), Succeeded)
    hit = pod(FAILED, ended(0), ended(143, "sidecar"), disturbed_at=ENDED, **how)
    assert not isinstance(of_pod(hit), Succeeded)


def test_a_pod_that_was_seen_to_end_and_is_gone_has_told_how() -> None:
    seen = pod(PodPhase.RUNNING, ended(0), started("sidecar"), gone=True, disturbed_at=ENDED + seconds(1))
    assert isinstance(verdict.without_pod(task(State.RUNNING), None, seen), Succeeded)


def test_an_end_that_nobody_saw_is_a_loss_also_after_a_stop() -> None:
    of = task(State.RUNNING, stop=Stop(StopReason.MAIN_CONTAINER_ENDED, NOW))
    assert isinstance(verdict.of_pod(pod(FAILED, NEVER_STARTED, reason="DeadlineExceeded"), of), Lost)


def test_a_run_on_record_was_not_refused() -> None:
    of = task(State.RUNNING, runs=(Run(0, 1, State.RUNNING),))
    assert isinstance(verdict.of_pod(pod(FAILED, reason="NodeAffinity"), of), Lost)


def test_who_was_not_there_does_not_know_whether_it_started() -> None:
    of = task(State.CLAIMED, stop=Stop(StopReason.START_TIMEOUT, NOW))
    assert verdict.without_pod(of, None, None).evidence.is_start_unknown


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
