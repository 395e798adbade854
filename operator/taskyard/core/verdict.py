"""How a run ended, told from what its pod and its Job leave behind.

The pod's terminal phase says *that* it ended; the main container, by name, says *how*. What is not known is
not guessed: it is a loss.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from signal import Signals
from typing import Final

from taskyard.core import clocks, result
from taskyard.core.model import Container, Error, Exit, Job, Pod, Result, Stop, Task
from taskyard.core.words import BY_KUBELET, ErrorCode, PodPhase, StopReason


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a run, whatever came of it."""

    pod: str | None = None
    node: str | None = None
    has_started: bool = False
    """Whether any code of the user's ran, init containers included."""
    is_start_unknown: bool = False
    """Whether some may have run that nobody saw: the pod had a node, and was gone before it was over."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None


NO_EVIDENCE: Final = Evidence()


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The main container did its work. Without a pod the Job's word stands, and the result is unknown."""

    evidence: Evidence
    result: Result | None = None
    is_result_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The task's own fault, or what it reports itself. `retryable`: its own word on another run."""

    evidence: Evidence
    error: Error
    retryable: bool | None = None
    result: Result | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Nobody's verdict: what carried the run went away under it."""

    evidence: Evidence
    message: str


@dataclass(frozen=True, slots=True)
class Drained:
    """Its node was to be emptied."""

    evidence: Evidence
    message: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """No code of the user's ran, for certain: the claim is given back.

    `is_capacity`: only room was lacking, which is no fault of the task's.
    """

    evidence: Evidence
    message: str
    is_capacity: bool = False


@dataclass(frozen=True, slots=True)
class Stopped:
    """It was stopped, for the reason on record."""

    evidence: Evidence
    reason: StopReason


Ending = Succeeded | Failed | Lost | Drained | NotStarted | Stopped

END_UNSEEN: Final = frozenset({"Unknown", "ContainerStatusUnknown"})
"""What containerd and the kubelet say, with a made-up exit code, of a container that was gone when they came back."""

CANNOT_RUN: Final = frozenset({"StartError", "ContainerCannotRun"})
"""A command that does not exist, for one: it never started, and that is the task's own fault."""

NODE_SHUTDOWN: Final = frozenset({"Terminated", "NodeShutdown"})
"""The reasons of pods that a kubelet ends, or refuses, because its machine goes down in order."""


EVICTED: Final = "Evicted"
OVER_ITS_LIMIT: Final = "exceed"
"""What a kubelet says of a pod that it ended for its own limit of storage: that it "exceeds" or "exceeded" it. One
that its node has no room for has the same reason, and one that a kubelet which has restarted under pressure does not
take back lacks the condition DisruptionTarget, too."""


RUN_AGAIN: Final = frozenset(
    {StopReason.START_TIMEOUT, StopReason.SCHEDULE_TIMEOUT, StopReason.NO_CAPACITY, StopReason.LOST}
)
"""Stops that end no task: another run would follow."""


def of_pod(pod: Pod, task: Task) -> Ending:
    """How the run of this pod ended. It is over: its phase is terminal."""
    main = pod.container(task.spec.main_container)
    evidence = _evidence(pod, main)
    stop = task.status.stop
    if pod.phase is PodPhase.SUCCEEDED:
        return _by_result(pod, main, evidence)
    if stop is not None:
        return _stopped(pod, main, stop, evidence)
    if pod.reason == "DeadlineExceeded":
        return _over_its_limit(pod, main, task, evidence)
    if main is not None and _ended_by_itself(main, pod.disturbed_at):
        return _by_main(pod, main, evidence)
    if is_drain(pod):
        return Drained(evidence, _disruption(pod))
    if pod.disruption is not None:
        return Lost(evidence, _disruption(pod))
    if pod.reason == EVICTED and OVER_ITS_LIMIT in (
        pod.message or ""
    ):  # so it ran, whatever is told of containers
        return Failed(evidence, Error(ErrorCode.STORAGE_EXCEEDED, pod.message or ""))
    if pod.reason is not None:
        may_have_run = pod.has_started or task.status.recorded_run is not None
        return Lost(evidence, _disruption(pod)) if may_have_run else _rejected(pod, evidence)
    if pod.deleting and pod.node is None and task.status.recorded_run is None:
        return NotStarted(evidence, "the pod was deleted before it had a node", is_capacity=False)
    if pod.deleting:
        return Lost(evidence, "the pod was deleted before its run had ended")
    if main is not None and _has_a_say(main):
        return _by_main(pod, main, evidence)
    return _by_init(pod, evidence)


def is_drain(pod: Pod) -> bool:
    """Whether somebody empties the pod's node: an eviction by the API, or an orderly shutdown of the machine."""
    if pod.disruption == "EvictionByEvictionAPI":
        return True
    return pod.disruption == BY_KUBELET and pod.reason in NODE_SHUTDOWN


def of_living(pod: Pod, task: Task) -> Ending:
    """What is said of a run that is given up at its task's deadline, while its pod lives on."""
    main = pod.container(task.spec.main_container)
    evidence = _evidence(pod, main)
    if main is not None and main.exit is not None:
        return _by_main(pod, main, evidence)
    return Stopped(evidence, StopReason.DEADLINE_EXCEEDED)


def without_pod(task: Task, job: Job | None, last_seen: Pod | None) -> Ending:
    """How a run ended whose pods are known to be gone, for certain, without having told."""
    stop = task.status.stop
    # A start is waited for only of a pod that has a node; who was not there cannot say what it came to.
    evidence = Evidence(is_start_unknown=stop is not None and stop.reason is StopReason.START_TIMEOUT)
    if last_seen is not None:
        main = last_seen.container(task.spec.main_container)
        evidence = replace(_evidence(last_seen, main), is_start_unknown=last_seen.node is not None)
        if main is not None and _ended_by_itself(main, last_seen.disturbed_at):
            return _by_main(last_seen, main, evidence)
    if job is not None and job.succeeded:
        return Succeeded(evidence, is_result_unknown=True)
    if stop is not None:
        return Stopped(evidence, stop.reason)
    if job is None:
        return Lost(evidence, "its Job was deleted, and the pod is gone: nobody saw how the run ended")
    return Lost(evidence, "the pod was gone before the run had ended")


def main_started_at(pod: Pod, main_container: str) -> datetime | None:
    """When the user's code began to run, if it did."""
    main = pod.container(main_container)
    return main.started_at if main is not None else None


def _evidence(pod: Pod, container: Container | None) -> Evidence:
    if container is None or container.started_at is None:
        return Evidence(pod=pod.name, node=pod.node, has_started=pod.has_started)
    ended = container.exit
    return Evidence(
        pod=pod.name,
        node=pod.node,
        has_started=True,
        started_at=container.started_at,
        finished_at=ended.finished_at if ended else None,
        exit_code=ended.code if ended else None,
        signal=_signal(ended.code) if ended else None,
    )


def _by_main(pod: Pod, main: Container, evidence: Evidence) -> Ending:
    """The main container ended by itself: its exit code decides, and what it said."""
    assert main.exit is not None
    if main.exit.reason in END_UNSEEN:
        return Lost(evidence, "nobody saw the container end: its node went away or restarted")
    if main.exit.code == 0:
        return _by_result(pod, main, evidence)
    report = _report(pod, main)
    if report.error is not None:
        return Failed(evidence, report.error, report.retryable, Result(flaws=report.flaws))
    return Failed(evidence, _exit_error(main))


def _by_result(pod: Pod, main: Container | None, evidence: Evidence) -> Ending:
    """The exit code was 0: a success, unless the task says otherwise."""
    report = _report(pod, main)
    if report.error is not None:
        return Failed(evidence, report.error, report.retryable, Result(flaws=report.flaws))
    if report.ok is None:
        return Succeeded(evidence)
    return Succeeded(evidence, Result(ok=report.ok, flaws=report.flaws))


def _by_init(pod: Pod, evidence: Evidence) -> Ending:
    """The main container never came to its turn: what went before it failed, or nobody knows."""
    if (init := failed_init(pod)) is not None:
        return Failed(_evidence(pod, init), _exit_error(init, "the init container"))
    for each in pod.init_containers:
        if each.exit is not None and each.exit.reason in END_UNSEEN:
            unseen = f"nobody saw the init container `{each.name}` end: its node went away or restarted"
            return Lost(evidence, unseen)
    return Lost(evidence, "the pod failed, and no container of it says why")


def failed_init(pod: Pod) -> Container | None:
    """The init container that was seen to fail. An end that nobody saw has an exit code, too: a made-up one."""
    for each in pod.init_containers:
        is_failure = each.exit is not None and each.exit.code != 0 and each.exit.reason not in END_UNSEEN
        if is_failure and _has_a_say(each):
            return each
    return None


def _report(pod: Pod, main: Container | None) -> result.Report:
    if main is None or main.exit is None:
        return result.NOTHING_SAID
    containers = len(pod.containers) + len(pod.init_containers)
    return result.read(main.exit.message, containers, may_be_log=main.exit.code != 0)


def _stopped(pod: Pod, main: Container | None, stop: Stop, evidence: Evidence) -> Ending:
    """A stop was asked for. One that came after the main container's own end leaves it its verdict."""
    if main is None or main.exit is None:
        return Stopped(evidence, stop.reason)
    is_taken = stop.reason is StopReason.LOST and (pod.deleting or pod.disruption is not None)
    if stop.reason in RUN_AGAIN and main.started_at is not None and main.exit.code == 0:
        return _by_main(pod, main, evidence)  # it is done: there is no need to do it again
    if is_taken and not _ended_by_itself(main, pod.disturbed_at):
        return Stopped(evidence, stop.reason)  # that was a loss before the stop
    if stop.reason is StopReason.MAIN_CONTAINER_ENDED or _ended_before(main.exit, stop):
        return _by_main(pod, main, evidence)
    return Stopped(evidence, stop.reason)


def _ended_before(ended: Exit, stop: Stop) -> bool:
    """Whether a container had ended by itself, and the kubelet told late. Clocks may differ, so a kill is a kill."""
    is_earlier = ended.finished_at is not None and ended.finished_at < stop.requested_at
    return is_earlier and _signal(ended.code) not in {Signals.SIGTERM, Signals.SIGKILL}


def _rejected(pod: Pod, evidence: Evidence) -> NotStarted:
    """A kubelet would not have the pod. `OutOfcpu` and its like: another was faster. Or its machine goes down."""
    said = f"the node refused the pod ({pod.reason})"
    message = f"{said}: {pod.message}" if pod.message else said
    lacks_room = str(pod.reason).startswith("OutOf") or pod.reason in NODE_SHUTDOWN
    return NotStarted(evidence, message, is_capacity=lacks_room)


def _over_its_limit(pod: Pod, main: Container | None, task: Task, evidence: Evidence) -> Ending:
    """Its kubelet ended the pod by itself, while no operator was there: for which of its limits?"""
    struck_at = None
    if pod.accepted_at is not None and pod.active_deadline is not None:
        struck_at = pod.accepted_at + timedelta(seconds=pod.active_deadline)
    deadline, timeout_at = clocks.deadline(task), clocks.timeout_at(task, evidence.started_at)
    if main is not None and _ended_by_itself(main, struck_at):
        return _by_main(pod, main, evidence)
    if clocks.has_struck(deadline, struck_at or pod.created_at):
        return Stopped(evidence, StopReason.DEADLINE_EXCEEDED)
    if not evidence.has_started and task.status.recorded_run is None:
        return NotStarted(evidence, "the container had not started when the pod ran into its time limit")
    if struck_at is not None and clocks.has_struck(timeout_at, struck_at):
        return Failed(evidence, timed_out(task))
    return Failed(evidence, Error(ErrorCode.TIMEOUT, "the pod ran into its own `activeDeadlineSeconds`"))


def _has_a_say(main: Container) -> bool:
    """Whether the end of a container says something, if only that it could not run or that nobody saw it."""
    if main.exit is None:
        return False
    return main.started_at is not None or main.exit.reason in CANNOT_RUN | END_UNSEEN


def _ended_by_itself(main: Container, disturbed_at: datetime | None) -> bool:
    """Whether a container had ended before anybody meant it to; others of its pod lived on."""
    if main.exit is None or main.started_at is None or main.exit.finished_at is None or disturbed_at is None:
        return False
    return main.exit.finished_at < disturbed_at and main.exit.reason not in END_UNSEEN


def timed_out(task: Task) -> Error:
    limit = task.spec.timeout
    taken = f" of {limit.total_seconds():.0f} s" if limit is not None else ""
    return Error(ErrorCode.TIMEOUT, f"the run took longer than its `timeoutSeconds`{taken} and was stopped")


def _exit_error(container: Container, who: str = "the container") -> Error:
    ended = container.exit
    assert ended is not None
    signal = _signal(ended.code)
    if ended.reason == "OOMKilled":
        limit = f" (its limit is {container.memory_limit})" if container.memory_limit else ""
        code, said = ErrorCode.OOM_KILLED, f"ran out of memory and was killed{limit}"
    elif signal is not None:
        code, said = ErrorCode.SIGNAL, f"was ended by {Signals(signal).name}"
    else:
        code, said = ErrorCode.EXIT_CODE, f"exited with code {ended.code}"
    last_words = f": {ended.message.strip()}" if ended.message and ended.message.strip() else ""
    return Error(code, f"{who} `{container.name}` {said}{last_words}")


def _signal(exit_code: int) -> int | None:
    """The signal behind an exit code, by the convention of shells and container runtimes: 128 + n."""
    number = exit_code - 128
    return number if number in _SIGNALS else None


_SIGNALS: Final = frozenset(int(each) for each in Signals)


def _disruption(pod: Pod) -> str:
    where = f" on node `{pod.node}`" if pod.node is not None else ""
    said = f"the pod{where} was disrupted ({pod.disruption or pod.reason})"
    return f"{said}: {pod.message}" if pod.message else said
