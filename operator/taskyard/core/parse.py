"""From the API server's JSON to records: the only place that knows what may be absent."""

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any

from taskyard.core import manifest
from taskyard.core.model import (
    Container,
    Error,
    Exit,
    Hindrance,
    Job,
    Pod,
    PodPhase,
    Reason,
    Run,
    State,
    Status,
    Task,
)

Json = Mapping[str, Any]


def version(obj: Json) -> int:
    """The resourceVersion as a number: since Kubernetes 1.35 (KEP-5504) the greater one is the newer."""
    return int(obj["metadata"]["resourceVersion"])


def uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def task(obj: Json) -> Task:
    """A Task, less its template; of a resolved one only what can still matter, because there are so many."""
    metadata, spec, recorded = obj["metadata"], obj.get("spec", {}), obj.get("status", {})
    created_at = _time(metadata["creationTimestamp"])
    status = _status(recorded, created_at)
    return Task(
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=version(obj),
        generation=metadata.get("generation", 0),
        created_at=created_at,
        deleting="deletionTimestamp" in metadata,
        main_container=intern(_main_container(spec)),
        status=_resolved(status) if status.state.is_terminal else status,
    )


def template(obj: Json) -> Json:
    """The pod template of a Task, for its launch."""
    return dict(obj["spec"]["template"])


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
        node=spec.get("nodeName"),
        reason=status.get("reason"),
        message=status.get("message"),
        disruption=_true_condition(status, "DisruptionTarget"),
        hindrance=_hindrance(status),
        containers=_containers(status.get("containerStatuses")),
        init_containers=_containers(status.get("initContainerStatuses")),
    )


def job(obj: Json) -> Job:
    """A Job, whoever it belongs to."""
    metadata, status = obj["metadata"], obj.get("status", {})
    owner: Json = next((each for each in metadata.get("ownerReferences", []) if each.get("controller")), {})
    attempt = metadata.get("labels", {}).get(manifest.LABEL_ATTEMPT)
    # The Job's controller counts a pod before it lets it go, and says Complete only later.
    counted = status.get("succeeded", 0) or status.get("uncountedTerminatedPods", {}).get("succeeded")
    return Job(
        name=metadata["name"],
        uid=metadata["uid"],
        owner_uid=owner.get("uid"),
        attempt=_number(attempt, -1) if attempt is not None else None,
        deleting="deletionTimestamp" in metadata,
        succeeded=bool(counted) or _true_condition(status, "Complete") is not None,
        failed=_true_condition(status, "Failed") is not None,
    )


def _status(recorded: Json, created_at: datetime) -> Status:
    error = recorded.get("result", {}).get("error")
    return Status(
        state=State(recorded.get("state", State.PENDING)),
        reason=recorded.get("reason"),
        message=recorded.get("message"),
        observed_generation=recorded.get("observedGeneration", 0),
        run=recorded.get("run", 0),
        attempt=recorded.get("attempt", 0),
        run_count=recorded.get("runCount", 0),
        submitted_at=_maybe_time(recorded.get("submittedAt")) or created_at,
        claimed_at=_maybe_time(recorded.get("claimedAt")),
        claimed_by=recorded.get("claimedBy"),
        started_at=_maybe_time(recorded.get("startedAt")),
        completed_at=_maybe_time(recorded.get("completedAt")),
        failed_at=_maybe_time(recorded.get("failedAt")),
        error=Error(error.get("code", ""), error.get("message", "")) if error else None,
        runs=tuple(_run(each) for each in recorded.get("runs", [])),
    )


def _resolved(status: Status) -> Status:
    return Status(
        state=status.state,
        observed_generation=status.observed_generation,
        run=status.run,
        attempt=status.attempt,
        run_count=status.run_count,
        completed_at=status.completed_at,
    )


def _run(recorded: Json) -> Run:
    return Run(
        number=recorded["number"],
        attempt=recorded.get("attempt", 0),
        state=State(recorded.get("state", State.RUNNING)),
        reason=recorded.get("reason"),
        job=recorded.get("job"),
        pod=recorded.get("pod"),
        node=recorded.get("node"),
        started_at=_maybe_time(recorded.get("startedAt")),
        finished_at=_maybe_time(recorded.get("finishedAt")),
        exit_code=recorded.get("exitCode"),
        signal=recorded.get("signal"),
        message=recorded.get("message"),
    )


def _main_container(spec: Json) -> str:
    containers = spec.get("template", {}).get("spec", {}).get("containers", [])
    first = containers[0]["name"] if containers else ""
    return str(spec.get("mainContainer", first))


def _containers(statuses: list[Json] | None) -> tuple[Container, ...]:
    return tuple(_container(each) for each in statuses or [])


def _container(status: Json) -> Container:
    state = status.get("state", {})
    ended = state.get("terminated")
    return Container(
        name=intern(status["name"]),
        started_at=_start((ended or state.get("running", {})).get("startedAt")),
        exit=Exit(
            code=ended["exitCode"],
            reason=ended.get("reason"),
            message=ended.get("message"),
            finished_at=_maybe_time(ended.get("finishedAt")),
        )
        if ended
        else None,
    )


def _hindrance(status: Json) -> Hindrance | None:
    """Why a pod does not start, if the scheduler or the kubelet complains."""
    for each in status.get("conditions", []):
        if each["type"] == "PodScheduled" and each["status"] == "False":
            return Hindrance(Reason.UNSCHEDULABLE, each.get("message") or each.get("reason", ""))
    for each in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        waiting = each.get("state", {}).get("waiting", {})
        word = waiting.get("reason")
        if word in {None, "ContainerCreating", "PodInitializing"}:
            continue
        reason = Reason.IMAGE_PULL if "Image" in word else Reason.CONTAINER_WAITING
        return Hindrance(reason, f"container `{each['name']}`: {word}: {waiting.get('message', '')}")
    return None


def _true_condition(status: Json, kind: str) -> str | None:
    """The reason of a condition that is True."""
    for each in status.get("conditions", []):
        if each["type"] == kind and each["status"] == "True":
            return str(each.get("reason", ""))
    return None


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else otherwise


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _start(text: str | None) -> datetime | None:
    """When a container started; the kubelet writes the year 1970 of one that could not."""
    started_at = _maybe_time(text)
    return started_at if started_at is not None and started_at.year > 1970 else None


def _maybe_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
