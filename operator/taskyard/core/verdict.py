"""How a run ended, told from what its pod and its Job leave behind.

The pod's terminal phase says *that* it ended; the main container, by name, says *how*.
"""

from dataclasses import dataclass
from datetime import datetime
from signal import Signals

from taskyard.core.model import Container, Error, ErrorCode, Job, Pod, PodPhase


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a run, whatever came of it."""

    pod: str | None = None
    node: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The main container did its work. Without a pod the Job's word stands, and the result is unknown."""

    evidence: Evidence
    result_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The task's own fault."""

    evidence: Evidence
    error: Error


@dataclass(frozen=True, slots=True)
class Lost:
    """Nobody's verdict: what carried the run went away under it."""

    evidence: Evidence
    message: str


Ending = Succeeded | Failed | Lost

END_UNSEEN = frozenset({"Unknown", "ContainerStatusUnknown"})
"""What containerd and the kubelet say, with a made-up exit code, of a container that was gone when they came back."""

CANNOT_RUN = frozenset({"StartError", "ContainerCannotRun"})
"""A command that does not exist, for one: it never started, and that is the task's own fault."""


def of_pod(pod: Pod, main_container: str) -> Ending | None:
    """How the run of this pod ended; None while it may still go on."""
    if not pod.is_over:
        return None
    main = _named(pod.containers, main_container)
    evidence = _evidence(pod, main)
    if pod.phase is PodPhase.SUCCEEDED:
        return Succeeded(evidence)
    if pod.reason == "DeadlineExceeded":
        return Failed(evidence, Error(ErrorCode.TIMEOUT, "the pod ran into its own `activeDeadlineSeconds`"))
    if pod.disruption is not None or pod.reason is not None:
        return Lost(evidence, _disruption(pod))
    if pod.deleting:
        return Lost(evidence, "the pod was deleted while it ran")
    if main is not None and main.exit is not None and main.exit.reason in END_UNSEEN:
        return Lost(evidence, "nobody saw the container end: its node went away or restarted")
    if main is not None and main.exit is not None and (main.started_at or main.exit.reason in CANNOT_RUN):
        return Succeeded(evidence) if main.exit.code == 0 else Failed(evidence, _error(main))
    for init in pod.init_containers:
        if init.exit is not None and init.exit.code != 0 and init.started_at is not None:
            return Failed(_evidence(pod, init), _error(init, "the init container "))
    return Lost(evidence, "the pod failed, and no container of it says why")


def without_pod(job: Job | None) -> Ending:
    """How a run ended whose pods are known to be gone, for certain, without having told."""
    if job is not None and job.succeeded:
        return Succeeded(Evidence(), result_unknown=True)
    if job is None:
        return Lost(Evidence(), "the Job and its pod were gone before the run had ended")
    return Lost(Evidence(), "the pod was gone before the run had ended")


def main_started_at(pod: Pod, main_container: str) -> datetime | None:
    """When the user's code began to run, if it did."""
    main = _named(pod.containers, main_container)
    return main.started_at if main is not None else None


def _named(containers: tuple[Container, ...], name: str) -> Container | None:
    return next((each for each in containers if each.name == name), None)


def _evidence(pod: Pod, container: Container | None) -> Evidence:
    if container is None or container.started_at is None:
        return Evidence(pod=pod.name, node=pod.node)
    ended = container.exit
    return Evidence(
        pod=pod.name,
        node=pod.node,
        started_at=container.started_at,
        finished_at=ended.finished_at if ended else None,
        exit_code=ended.code if ended else None,
        signal=_signal(ended.code) if ended else None,
    )


def _error(container: Container, who: str = "the container ") -> Error:
    ended = container.exit
    assert ended is not None
    signal = _signal(ended.code)
    if ended.reason == "OOMKilled":
        code, said = ErrorCode.OOM_KILLED, "ran out of memory and was killed"
    elif signal is not None:
        code, said = ErrorCode.SIGNAL, f"was ended by {Signals(signal).name}"
    else:
        code, said = ErrorCode.EXIT_CODE, f"exited with code {ended.code}"
    last_words = f": {ended.message.strip()}" if ended.message and ended.message.strip() else ""
    return Error(code, f"{who}`{container.name}` {said}{last_words}")


def _signal(exit_code: int) -> int | None:
    """The signal behind an exit code, by the convention of shells and container runtimes: 128 + n."""
    number = exit_code - 128
    return number if number in _SIGNALS else None


_SIGNALS = frozenset(int(each) for each in Signals)


def _disruption(pod: Pod) -> str:
    said = f"the pod was disrupted ({pod.disruption or pod.reason})"
    return f"{said}: {pod.message}" if pod.message else said
