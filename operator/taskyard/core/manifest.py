"""What is written to the cluster: names, labels, the Job of a run, the patch of a status.

One function or constant for each identifier; nobody else spells one out.
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from taskyard.core.model import Run, State, Status, Task

GROUP: Final = "taskyard.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

LABEL_TASK: Final = f"{GROUP}/task"
LABEL_UID: Final = f"{GROUP}/task-uid"
LABEL_RUN: Final = f"{GROUP}/run"
LABEL_ATTEMPT: Final = f"{GROUP}/attempt"
ANNOTATION_MAIN_CONTAINER: Final = (
    "kubectl.kubernetes.io/default-container"  # whose logs `kubectl logs` shows
)

JOB_TTL_SECONDS: Final = 24 * 60 * 60
"""What is left of a finished run goes by itself; the verdict is in the Task."""

GRACE_SECONDS: Final = 5
"""Between SIGTERM and SIGKILL, where the template does not say."""

NAME_LIMIT: Final = 57
"""Of a Job's name: with the six characters that its pod's name adds it still fits a label and a host name."""

LABEL_LIMIT: Final = 63
MESSAGE_LIMIT: Final = 4096


class Malformed(ValueError):  # noqa: N818 - errors are named for what the caller does
    """The Task cannot be made into a Job."""


def uid_selector(uid: str) -> str:
    """The label selector for everything that belongs to one Task."""
    return f"{LABEL_UID}={uid}"


def job_name(task: Task) -> str:
    """The name of the current attempt's Job: the same for whoever computes it, another for every attempt."""
    digest = hashlib.sha256(task.uid.encode()).hexdigest()[:8]
    suffix = f"-{digest}-{task.status.attempt}"
    return task.name.replace(".", "-")[: NAME_LIMIT - len(suffix)].rstrip("-") + suffix


def labels(task: Task) -> dict[str, str]:
    """The labels of the current attempt's Job and pod."""
    return {
        LABEL_TASK: task.name[:LABEL_LIMIT].rstrip("-."),
        LABEL_UID: task.uid,
        LABEL_RUN: str(task.status.run),
        LABEL_ATTEMPT: str(task.status.attempt),
    }


def environment(task: Task) -> dict[str, str]:
    """What the main container is told about itself."""
    return {
        "TASKYARD_TASK": task.name,
        "TASKYARD_NAMESPACE": task.namespace,
        "TASKYARD_UID": task.uid,
        "TASKYARD_RUN": str(task.status.run),
    }


def job(task: Task, template: Mapping[str, Any]) -> dict[str, Any]:
    """The Job of the task's current attempt: one pod, once."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(task),
            "namespace": task.namespace,
            "labels": labels(task),
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "Task",
                    "name": task.name,
                    "uid": task.uid,
                    "controller": True,
                    # `kubectl delete --cascade=foreground` then waits for the pod, as for a Deployment.
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "ttlSecondsAfterFinished": JOB_TTL_SECONDS,
            "template": pod_template(task, template),
        },
    }


def pod_template(task: Task, template: Mapping[str, Any]) -> dict[str, Any]:
    """The user's template, with what a run needs and no more rights than were asked for."""
    template = {"metadata": {}, **template}
    metadata = {"labels": {}, "annotations": {}, **template["metadata"]}
    spec = {"terminationGracePeriodSeconds": GRACE_SECONDS, **template["spec"], "restartPolicy": "Never"}
    if "serviceAccountName" not in spec:
        spec = {"automountServiceAccountToken": False, **spec}
    if task.main_container not in {container["name"] for container in spec["containers"]}:
        raise Malformed(f"`mainContainer` must name a container of `template`, not {task.main_container!r}")
    return {
        "metadata": {
            "labels": metadata["labels"] | labels(task),
            "annotations": {ANNOTATION_MAIN_CONTAINER: task.main_container, **metadata["annotations"]},
        },
        "spec": spec
        | {
            "containers": [
                _with_environment(container, environment(task))
                if container["name"] == task.main_container
                else container
                for container in spec["containers"]
            ]
        },
    }


def _with_environment(container: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    # Ours come first, so that the user's own may refer to them as $(TASKYARD_RUN); a user's of the same name
    # would win by its place and is left out.
    theirs = [each for each in {"env": [], **container}["env"] if each["name"] not in variables]
    return {**container, "env": [{"name": key, "value": value} for key, value in variables.items()] + theirs}


def status_patch(task: Task, status: Status, now: datetime) -> dict[str, Any]:
    """The merge patch that makes the task's status this one, and fails if the task has changed meanwhile."""
    unwritten = task.status.observed_generation == 0
    before = {} if unwritten else _status(task.status)
    after = _status(status)
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    removed = {key: None for key in before if key not in after}
    return {
        "metadata": {"resourceVersion": str(task.resource_version)},
        "status": changed | removed | {"updatedAt": timestamp(now)},
    }


def timestamp(moment: datetime) -> str:
    """As Kubernetes writes times: RFC 3339, UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _status(status: Status) -> dict[str, Any]:
    return _present(
        {
            "state": str(status.state),
            "phase": str(status.state.phase),
            "reason": status.reason,
            "message": status.message,
            "conditions": _conditions(status),
            "observedGeneration": status.observed_generation,
            "run": status.run,
            "attempt": status.attempt,
            "runCount": status.run_count,
            "submittedAt": status.submitted_at,
            "claimedAt": status.claimed_at,
            "claimedBy": status.claimed_by,
            "startedAt": status.started_at,
            "completedAt": status.completed_at,
            "failedAt": status.failed_at,
            "result": {"error": {"code": status.error.code, "message": cut(status.error.message)}}
            if status.error
            else None,
            "runs": [_run(run) for run in status.runs] or None,
        }
    )


def _run(run: Run) -> dict[str, Any]:
    return _present(
        {
            "number": run.number,
            "attempt": run.attempt,
            "state": str(run.state),
            "reason": run.reason,
            "job": run.job,
            "pod": run.pod,
            "node": run.node,
            "startedAt": run.started_at,
            "finishedAt": run.finished_at,
            "exitCode": run.exit_code,
            "signal": run.signal,
            "message": run.message,
        }
    )


def _conditions(status: Status) -> list[dict[str, Any]]:
    """Both conditions follow from the rest, so they never disagree with it.

    They carry no observedGeneration of their own: `kubectl wait` would ignore them after any later edit, and
    does look at the one of the status, which `decide` keeps up.
    """
    if not status.state.is_terminal:
        waiting = {"reason": "NotFinished", "message": "", "lastTransitionTime": status.submitted_at}
        return [
            _present({"type": "Succeeded", "status": "Unknown"} | waiting),
            _present({"type": "Finished", "status": "False"} | waiting),
        ]
    over = {"message": status.message or "", "lastTransitionTime": status.completed_at}
    succeeded, reason = str(status.state is State.COMPLETED), status.reason or str(status.state)
    return [
        _present({"type": "Succeeded", "status": succeeded, "reason": reason} | over),
        _present({"type": "Finished", "status": "True", "reason": str(status.state)} | over),
    ]


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in fields.items() if value is not None}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return timestamp(value)
        case str():
            return cut(value)
        case _:
            return value


def cut(text: str) -> str:
    """As much of a message as the status takes, without what would upset a terminal. Doing it twice changes nothing."""
    text = text.translate(_CONTROLS)
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


_CONTROLS: Final = {
    code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}
