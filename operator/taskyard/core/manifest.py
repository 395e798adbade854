"""What is written to the cluster for a run: names, labels, the Job.

One function or constant for each identifier; nobody else spells one out.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from taskyard.core import clocks, kueue
from taskyard.core.model import Task, Value
from taskyard.core.words import INPUT_LIMIT, OnShutdown

GROUP: Final = "taskyard.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

LABEL_TASK: Final = f"{GROUP}/task"
LABEL_UID: Final = f"{GROUP}/task-uid"
LABEL_RUN: Final = f"{GROUP}/run"
LABEL_ATTEMPT: Final = f"{GROUP}/attempt"
LABEL_QUEUE: Final = f"{GROUP}/queue"
LABEL_ON_SHUTDOWN: Final = f"{GROUP}/on-shutdown"
ANNOTATION_PLACEHOLDER: Final = f"{GROUP}/placeholder"
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

SHIELD_NAME: Final = "taskyard-continue"

UNREACHED: Final = 2**31 - 1
"""More pods than there will ever be: a budget that wants so many allows no eviction."""

DO_NOT_DISTURB: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""What autoscalers look for before they empty a node. A budget alone makes them try again and again."""

DEFAULT_RESULT_PATH: Final = "/dev/termination-log"

FAILSAFE_SLACK: Final = timedelta(seconds=60)
"""What an operator that is there needs to be faster than the kubelet by itself."""

LONGEST_LIMIT: Final = 2**31 - 1
"""Seconds that a pod's own limit may have: 68 years, and a `deadline` may be later."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What only a launch needs of a Task: its template and its input."""

    template: Mapping[str, Any]
    input: Value | None


class Malformed(ValueError):  # noqa: N818 - errors are named for what the caller does
    """The Task cannot be made into a Job."""


def uid_selector(uid: str) -> str:
    """The label selector for everything that belongs to one Task."""
    return f"{LABEL_UID}={uid}"


def job_name(task: Task) -> str:
    """The name of the current attempt's Job: the same for whoever computes it, another for every attempt."""
    suffix = _end_of_job_name(task.uid, task.status.attempt)
    return task.name.replace(".", "-")[: NAME_LIMIT - len(suffix)].rstrip("-") + suffix


def may_be_job_name(name: str, uid: str, attempt: int) -> bool:
    """Whether a Job of this name can be that attempt of a Task of which no more is known than its uid."""
    return name.endswith(_end_of_job_name(uid, attempt))


def _end_of_job_name(uid: str, attempt: int) -> str:
    return f"-{hashlib.sha256(uid.encode()).hexdigest()[:8]}-{attempt}"


def labels(task: Task) -> dict[str, str]:
    """The labels of the current attempt's Job and pod."""
    return {
        LABEL_TASK: task.name[:LABEL_LIMIT].rstrip("-."),
        LABEL_UID: task.uid,
        LABEL_RUN: str(task.status.run),
        LABEL_ATTEMPT: str(task.status.attempt),
        LABEL_QUEUE: task.spec.queue,
        LABEL_ON_SHUTDOWN: str(task.spec.on_shutdown),
    }


def environment(task: Task, input_json: str | None, result_path: str) -> dict[str, str]:
    """What the main container is told about itself."""
    deadline = clocks.deadline(task)
    told = {
        "TASKYARD_TASK": task.name,
        "TASKYARD_NAMESPACE": task.namespace,
        "TASKYARD_UID": task.uid,
        "TASKYARD_RUN": str(task.status.run),
        "TASKYARD_RETRY": str(task.status.retry_count),
        "TASKYARD_RESULT_PATH": result_path,
        "TASKYARD_INPUT": input_json,
        "TASKYARD_DEADLINE": clocks.said(deadline) if deadline is not None else None,
    }
    # The kubelet expands $(…) and $$ in values: doubled, every `$` arrives as it was written.
    return {key: value.replace("$", "$$") for key, value in told.items() if value is not None}


def input_json(value: Value | None) -> str | None:
    """`spec.input` as the task gets it: JSON in one line, and not more than a variable takes."""
    if value is None:
        return None
    written = json.dumps(value.json, ensure_ascii=False, separators=(",", ":"))
    size = len(written.encode())
    if size > INPUT_LIMIT:
        raise Malformed(f"`input` must have at most {INPUT_LIMIT} bytes as JSON; it has {size}")
    return written


def shield() -> dict[str, Any]:
    """The budget that refuses evictions of pods with `onShutdown: Continue`; one for a namespace."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": SHIELD_NAME, "labels": {"app.kubernetes.io/managed-by": "taskyard"}},
        "spec": {
            "minAvailable": UNREACHED,
            "selector": {"matchLabels": {LABEL_ON_SHUTDOWN: str(OnShutdown.CONTINUE)}},
        },
    }


def unshielded() -> dict[str, Any]:
    """The patch that takes from a pod what keeps it from evictions."""
    return {
        "metadata": {
            "labels": {LABEL_ON_SHUTDOWN: str(OnShutdown.RESUBMIT)},
            "annotations": dict.fromkeys(DO_NOT_DISTURB),
        }
    }


def nothing_to_run(task: Task) -> dict[str, Any]:
    """The template of a placeholder whose own is gone, with its definition."""
    return {"spec": {"containers": [{"name": task.spec.main_container or "main", "image": "none"}]}}


JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that its Job has not counted, and not let go."""

AT_REST: Final = {"suspend": True, "parallelism": 0}
"""Of the spec of a Job that is to make no pod, not even if somebody resumes it."""


def placeholder(task: Task, payload: Payload, now: datetime) -> dict[str, Any]:
    """A Job that only holds its name: whoever claimed this attempt, and comes late, cannot make it any more."""
    made = job(task, payload, now)
    # Without the labels of others, who would take it for one to be run.
    metadata = made["metadata"] | {"annotations": {ANNOTATION_PLACEHOLDER: "true"}, "labels": labels(task)}
    return made | {"metadata": metadata, "spec": made["spec"] | {"completions": 1} | AT_REST}


def job(task: Task, payload: Payload, now: datetime) -> dict[str, Any]:
    """The Job of the task's current attempt: one pod, once."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(task),
            "namespace": task.namespace,
            "labels": kueue.labels(task) | labels(task),
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
            "template": pod_template(task, payload, now),
        }
        | ({"suspend": True} if kueue.queues(task) else {}),
    }


def pod_template(task: Task, payload: Payload, now: datetime) -> dict[str, Any]:
    """The user's template, with what a run needs and no more rights than were asked for."""
    template = {"metadata": {}, **payload.template}
    metadata = {"labels": {}, "annotations": {}, **template["metadata"]}
    spec = {"terminationGracePeriodSeconds": GRACE_SECONDS, **template["spec"], "restartPolicy": "Never"}
    # The second is its name of old; an empty one, as templating leaves it, asks for none.
    if not any(spec[name] for name in ("serviceAccountName", "serviceAccount") if name in spec):
        spec = {"automountServiceAccountToken": False, **spec}
    if (limit := failsafe(task, now)) is not None:
        own = {"activeDeadlineSeconds": limit, **spec}["activeDeadlineSeconds"]
        spec = {**spec, "activeDeadlineSeconds": min(limit, own)}
    main = task.spec.main_container
    if main not in {container["name"] for container in spec["containers"]}:
        raise Malformed(f"`mainContainer` must name a container of `template`, not {main!r}")
    told = input_json(payload.input)
    shielding = DO_NOT_DISTURB if task.spec.on_shutdown is OnShutdown.CONTINUE else {}
    return {
        "metadata": {
            "labels": metadata["labels"] | labels(task),
            "annotations": {ANNOTATION_MAIN_CONTAINER: main, **metadata["annotations"]} | shielding,
        },
        "spec": spec
        | {
            "containers": [
                _main_container(task, container, told) if container["name"] == main else container
                for container in spec["containers"]
            ]
        },
    }


def failsafe(task: Task, now: datetime) -> int | None:
    """Seconds after which the kubelet ends the pod by itself, for when no operator is there to do so.

    They count from the kubelet's first sight of the pod, so there is slack for what precedes the start.
    """
    spec, deadline = task.spec, clocks.deadline(task)
    limits = []
    if spec.timeout is not None:
        limits.append(spec.start_timeout + spec.timeout + FAILSAFE_SLACK)
    if deadline is not None:
        limits.append(max(deadline - now, timedelta(0)) + FAILSAFE_SLACK)
    return min(math.ceil(min(limits).total_seconds()), LONGEST_LIMIT) if limits else None


def _main_container(task: Task, container: Mapping[str, Any], told: str | None) -> dict[str, Any]:
    """The container that counts: told who it is, and heard at its end."""
    defaults = {
        "terminationMessagePath": DEFAULT_RESULT_PATH,
        # Without words of its own, the end of its log is what it leaves.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [],
    }
    container = {**defaults, **container}
    variables = environment(task, told, container["terminationMessagePath"])
    # Ours come first, so that the user's own may refer to them as $(TASKYARD_RUN); a user's of the same name
    # would win by its place and is left out.
    theirs = [each for each in container["env"] if each["name"] not in variables]
    return {**container, "env": [{"name": key, "value": value} for key, value in variables.items()] + theirs}
