"""From the API server's JSON to records: the only place that knows what may be absent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from sys import intern
from typing import Any, Final

from taskyard.core import clocks, definitions, dependencies, logs, manifest, parse_spec
from taskyard.core.model import (
    Bound,
    Container,
    Dependency,
    Error,
    Exit,
    Hindrance,
    Job,
    Pod,
    Result,
    Run,
    Status,
    Stop,
    Task,
    Value,
    Wait,
)
from taskyard.core.words import (
    BY_KUBELET,
    DefinitionKind,
    Flaw,
    OnShutdown,
    PodPhase,
    Reason,
    State,
    StopReason,
)

Json = Mapping[str, Any]


UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of an object that makes no sense: of another version of ours, perhaps."""


_NONE: Final[Json] = {}


def version(obj: Json) -> int:
    """The resourceVersion as a number: since Kubernetes 1.35 (KEP-5504) the greater one is the newer."""
    return int(obj["metadata"]["resourceVersion"])


def uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def task(obj: Json) -> Task:
    """A Task, less what only a launch needs; of a resolved one only what can still matter: there are so many."""
    metadata, recorded = obj["metadata"], obj.get("status", {})
    status = _status(recorded, _time(metadata["creationTimestamp"]))
    spec = parse_spec.spec(obj["spec"], status.definition)
    is_settled = spec.rerun <= status.observed_rerun and not logs.is_awaited(spec, status)
    is_at_rest = status.state.is_terminal and is_settled
    is_open = spec.definition is not None and definitions.claimed_with(status) is None and not is_at_rest
    found = Task(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version(obj),
        generation=metadata.get("generation", 0),
        deleting="deletionTimestamp" in metadata,
        spec=spec if is_at_rest else parse_spec.shared(spec),
        status=status,
        labels=metadata.get("labels", _NONE),
        written=_written(obj["spec"]) if is_open else None,
    )
    return _at_rest(found) if is_at_rest else found


def _at_rest(task: Task) -> Task:
    """What can still matter of one that is resolved. A pod that it left has slots by its labels, too."""
    return replace(
        task,
        spec=parse_spec.shared(parse_spec.at_rest(task.spec)),
        status=_resolved(task.status),
        labels=task.labels if clocks.may_have_left_a_pod(task) else _NONE,
    )


def _written(spec: Json) -> Json:
    """What a definition's defaults may still be merged into: not what only a launch needs, which may be large."""
    return {name: value for name, value in spec.items() if name != "input"}


def payload(obj: Json, template: Json | None) -> manifest.Payload:
    """What only a launch needs of a Task; `template`: that of its definition, if it has one."""
    spec = obj["spec"]
    template = spec["template"] if template is None else template
    return manifest.Payload(template, Value(spec["input"]) if "input" in spec else None)


def pod(obj: Json) -> Pod:
    """A pod of a Task. One whose labels somebody broke belongs to attempt -1: to none."""
    metadata, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    labels = metadata.get("labels", {})
    return Pod(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version(obj),
        task_uid=labels[manifest.LABEL_UID],
        attempt=_number(labels.get(manifest.LABEL_ATTEMPT), -1),
        created_at=_time(metadata["creationTimestamp"]),
        phase=PodPhase(status.get("phase", PodPhase.PENDING)),
        deleting="deletionTimestamp" in metadata,
        deleted_at=_maybe_time(metadata.get("deletionTimestamp")),
        node=spec.get("nodeName"),
        disturbed_at=_disturbed_at(metadata, status),
        queue=labels.get(manifest.LABEL_QUEUE, ""),
        owner=_owner(metadata).get("name") if _owner(metadata).get("kind") == "Job" else None,
        is_tracked=manifest.JOB_TRACKING in metadata.get("finalizers", ()),
        is_shielded=labels.get(manifest.LABEL_ON_SHUTDOWN) == OnShutdown.CONTINUE,
        scheduled_at=_since(status, "PodScheduled"),
        accepted_at=_maybe_time(status.get("startTime")),
        active_deadline=spec.get("activeDeadlineSeconds"),
        reason=status.get("reason"),
        message=status.get("message") or _condition(status, "DisruptionTarget").get("message"),
        disruption=_true_condition(status, "DisruptionTarget"),
        silent_since=_silent_since(status),
        hindrance=_hindrance(status),
        containers=_containers(status.get("containerStatuses"), spec.get("containers", [])),
        init_containers=_containers(status.get("initContainerStatuses"), spec.get("initContainers", [])),
    )


def job(obj: Json) -> Job:
    """A Job, whoever it belongs to."""
    metadata, spec, status = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    attempt = metadata.get("labels", {}).get(manifest.LABEL_ATTEMPT)
    # The Job's controller counts a pod before it lets it go, and says Complete only later.
    counted = status.get("succeeded", 0) or status.get("uncountedTerminatedPods", {}).get("succeeded")
    return Job(
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=_owner(metadata).get("uid"),
        attempt=_number(attempt, -1) if attempt is not None else None,
        deleting="deletionTimestamp" in metadata,
        succeeded=bool(counted) or _true_condition(status, "Complete") is not None,
        failed=_true_condition(status, "Failed") is not None,
        is_placeholder=manifest.ANNOTATION_PLACEHOLDER in metadata.get("annotations", {}),
        has_counted=_has_counted(status),
        suspend=spec.get("suspend", False),
        is_idle=spec.get("parallelism") == 0,
        started_at=_maybe_time(status.get("startTime")),
        is_suspended=_true_condition(status, "Suspended") is not None
        and not (status.get("active", 0) or status.get("terminating", 0)),
    )


def _owner(metadata: Json) -> Json:
    """The one that controls it."""
    return next((each for each in metadata.get("ownerReferences", []) if each.get("controller")), {})


def _status(recorded: Json, created_at: datetime) -> Status:
    return Status(
        state=State(recorded.get("state", State.PENDING)),
        reason=recorded.get("reason"),
        message=recorded.get("message"),
        observed_generation=recorded.get("observedGeneration", 0),
        observed_rerun=recorded.get("observedRerun", 0),
        run=recorded.get("run", 0),
        attempt=recorded.get("attempt", 0),
        run_count=recorded.get("runCount", 0),
        retry_count=recorded.get("retryCount", 0),
        loss_count=recorded.get("lossCount", 0),
        start_failures=recorded.get("startFailures", 0),
        submitted_at=_maybe_time(recorded.get("submittedAt")) or created_at,
        rerun_at=_maybe_time(recorded.get("rerunAt")),
        enqueued_at=_maybe_time(recorded.get("enqueuedAt")),
        claimed_at=_maybe_time(recorded.get("claimedAt")),
        claimed_by=recorded.get("claimedBy"),
        started_at=_maybe_time(recorded.get("startedAt")),
        retried_at=_maybe_time(recorded.get("retriedAt")),
        completed_at=_maybe_time(recorded.get("completedAt")),
        failed_at=_maybe_time(recorded.get("failedAt")),
        next_retry_at=_maybe_time(recorded.get("nextRetryAt")),
        stop=_stop(recorded.get("stop", {})),
        dependencies=tuple(_dependency(each) for each in recorded.get("dependencies", [])),
        definition=_bound(recorded["definition"]) if "definition" in recorded else None,
        waiting=tuple(_wait(each) for each in recorded.get("waiting", []) if each.get("reason") in _REASONS),
        result=_result(recorded["result"]) if "result" in recorded else None,
        log_tail=recorded.get("logTail"),
        runs=tuple(_run(each) for each in recorded.get("runs", [])),
    )


def _dependency(recorded: Json) -> Dependency:
    return Dependency(
        name=recorded["name"],
        uid=recorded.get("uid"),
        state=State(recorded["state"]) if "state" in recorded else None,
        previous_uid=recorded.get("previousUid"),
    )


def _bound(recorded: Json) -> Bound:
    return Bound(
        kind=DefinitionKind(recorded.get("kind", DefinitionKind.TASK_DEFINITION)),
        uid=recorded.get("uid", ""),
        version=recorded.get("version", ""),
        digest=recorded.get("digest", ""),
        main_container=recorded.get("mainContainer", ""),
        grace_seconds=recorded.get("gracePeriodSeconds", manifest.GRACE_SECONDS),
        defaults=recorded.get("defaults", {}),
    )


def _stop(recorded: Json) -> Stop | None:
    """None also for one that somebody left half written: nobody can act on that."""
    if recorded.get("reason") not in _STOP_REASONS or "requestedAt" not in recorded:
        return None
    return Stop(StopReason(recorded["reason"]), _time(recorded["requestedAt"]))


_REASONS: Final = frozenset(Reason)
_STOP_REASONS: Final = frozenset(StopReason)


def _wait(recorded: Json) -> Wait:
    return Wait(Reason(recorded["reason"]), recorded.get("message", ""))


def _result(recorded: Json) -> Result:
    error = recorded.get("error")
    return Result(
        ok=Value(recorded["ok"]) if "ok" in recorded else None,
        error=Error(error.get("code", ""), error.get("message", ""), error.get("traceback"))
        if error
        else None,
        flaws=tuple(Flaw(each) for each in recorded.get("flaws", [])),
    )


def _resolved(status: Status) -> Status:
    return Status(
        state=status.state,
        reason=intern(status.reason) if status.reason is not None else None,
        observed_generation=status.observed_generation,
        observed_rerun=status.observed_rerun,
        run=status.run,
        attempt=status.attempt,
        run_count=status.run_count,
        claimed_at=status.claimed_at,
        started_at=status.started_at,
        completed_at=status.completed_at,
        dependencies=status.dependencies if dependencies.ended_in_circle(status) else (),
    )


def _run(recorded: Json) -> Run:
    return Run(
        number=recorded["number"],
        attempt=recorded.get("attempt", 0),
        state=State(recorded.get("state", State.RUNNING)),
        reason=recorded.get("reason"),
        error_code=recorded.get("errorCode"),
        job=recorded.get("job"),
        pod=recorded.get("pod"),
        node=recorded.get("node"),
        started_at=_maybe_time(recorded.get("startedAt")),
        finished_at=_maybe_time(recorded.get("finishedAt")),
        exit_code=recorded.get("exitCode"),
        signal=recorded.get("signal"),
        message=recorded.get("message"),
    )


def _containers(statuses: list[Json] | None, specs: list[Json]) -> tuple[Container, ...]:
    return tuple(_container(each, specs) for each in statuses or [])


def _container(status: Json, specs: list[Json]) -> Container:
    state = status.get("state", {})
    ended = state.get("terminated")
    return Container(
        name=intern(status["name"]),
        started_at=_start((ended or state.get("running", {})).get("startedAt")),
        exit=Exit(
            code=ended["exitCode"],
            reason=ended.get("reason"),
            message=ended.get("message"),
            finished_at=_start(ended.get("finishedAt")),
        )
        if ended
        else None,
        memory_limit=_memory_limit(status["name"], specs)
        if ended and ended.get("reason") == "OOMKilled"
        else None,
    )


def _memory_limit(name: str, specs: list[Json]) -> str | None:
    found = next((each for each in specs if each["name"] == name), {})
    limit = found.get("resources", {}).get("limits", {}).get("memory")
    return str(limit) if limit is not None else None


def _since(status: Json, kind: str) -> datetime | None:
    """Since when a condition is True."""
    return _maybe_time(_condition(status, kind).get("lastTransitionTime"))


def _disturbed_at(metadata: Json, status: Json) -> datetime | None:
    if _true_condition(status, "DisruptionTarget") == BY_KUBELET:
        return (
            None  # it dates this condition when the containers have ended, and not when it meant to end them
        )
    gone_by = _maybe_time(metadata.get("deletionTimestamp"))
    grace = parse_spec.bounded(metadata.get("deletionGracePeriodSeconds") or 0)
    moments = (gone_by - grace if gone_by is not None else None, _since(status, "DisruptionTarget"))
    return min((each for each in moments if each is not None), default=None)


def _silent_since(status: Json) -> datetime | None:
    """Since when the controller of nodes says that a pod is not ready. It gives no reason, which a kubelet does, and it
    leaves the containers ready. A kubelet that comes back says otherwise at once."""
    said: Json = next((each for each in status.get("conditions", []) if each["type"] == "Ready"), {})
    is_by_kubelet = said.get("reason") is not None or not _condition(status, "ContainersReady")
    if said.get("status") != "False" or is_by_kubelet:
        return None
    return _maybe_time(said.get("lastTransitionTime"))


def _has_counted(status: Json) -> bool:
    """A Job lists a pod as uncounted before it takes its finalizer off, and adds it up after that."""
    uncounted = status.get("uncountedTerminatedPods", {})
    return any(each.get(how) for each in (status, uncounted) for how in ("failed", "succeeded"))


FAILURES: Final = frozenset({"FailedCreate", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
"""Reasons of Events that tell what a status does not."""


def complaint(events: Sequence[Json]) -> str | None:
    """What the last of a Job's events says about pods that could not be made, or of a pod's about its start."""
    failures = [each for each in events if each.get("reason") in FAILURES and each.get("message")]
    last = max(failures, key=lambda each: str(each.get("lastTimestamp") or ""), default=None)
    return str(last["message"]) if last is not None else None


def _hindrance(status: Json) -> Hindrance | None:
    """Why a pod does not start, if the scheduler or the kubelet complains."""
    for each in status.get("conditions", []):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            said = each.get("message") or each.get("reason", "")
            lacks_room = any(word in said for word in LACK_OF_ROOM)
            return Hindrance(Reason.UNSCHEDULABLE, said, is_capacity=lacks_room)
    for each in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        waiting = each.get("state", {}).get("waiting", {})
        word = waiting.get("reason")
        if word in {None, "ContainerCreating", "PodInitializing"}:
            continue
        reason = Reason.IMAGE_PULL if "Image" in word else Reason.CONTAINER_WAITING
        said = f"container `{each['name']}`: {word}: {waiting.get('message', '')}"
        return Hindrance(reason, said, is_final=word == "InvalidImageName")
    return None


LACK_OF_ROOM: Final = ("Insufficient ", "Too many pods")
"""What the scheduler says of a node that would do if others made room."""


def _true_condition(status: Json, kind: str) -> str | None:
    """The reason of a condition that is True."""
    return str(found.get("reason", "")) if (found := _condition(status, kind)) else None


def _condition(status: Json, kind: str) -> Json:
    """A condition that is True."""
    conditions = status.get("conditions", [])
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), {})


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else otherwise


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _start(text: str | None) -> datetime | None:
    """When a container started or ended; the kubelet writes the year 1970 of one that could not."""
    started_at = _maybe_time(text)
    return started_at if started_at is not None and started_at.year > 1970 else None


def _maybe_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
