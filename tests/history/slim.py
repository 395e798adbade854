"""What a recording keeps of an event: all that the rules ask for, and nothing that makes it large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from taskyard.core import defaults
from taskyard.core.manifest import (
    ANNOTATION_MAIN_CONTAINER,
    ANNOTATION_PLACEHOLDER,
    LABEL_ATTEMPT,
    LABEL_RUN,
    LABEL_UID,
)

JSON = dict[str, Any]

TASK: Final = "Task"
JOB: Final = "Job"
POD: Final = "Pod"

MARKERS: Final = frozenset({"START", "GAP", "END"})

KEPT_OF_A_SPEC: Final = (
    "retry",
    "startLimit",
    "goodUntil",
    "goodForSeconds",
    "deadline",
    "deadlineSeconds",
    "cancel",
    "suspend",
    "release",
    "rerun",
    "dependencies",
    "requires",
)

BY_HAND: Final = "taskyard.test/by-hand"
"""An annotation of a Job that a test is about to delete: a watch does not say who deletes what."""


def slim(kind: str, event: JSON) -> JSON:
    """One line of a recording."""
    obj = event["object"]
    version = event.get("version", obj["metadata"]["resourceVersion"])
    line = {"type": event["type"], "kind": kind, "version": int(version)}
    if event["type"] in MARKERS:
        return line | {"since": event["since"]}
    return line | _identity(obj["metadata"]) | _SLIMMED[kind](obj)


def _identity(metadata: JSON) -> JSON:
    return {
        "uid": metadata["uid"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "created": metadata["creationTimestamp"],
        "deleting": "deletionTimestamp" in metadata,
    }


def _task(task: JSON) -> JSON:
    fields, spec = task["metadata"].get("managedFields", []), _asked(task)
    status = {key: value for key, value in task.get("status", {}).items() if key != "logTail"}
    return {
        "generation": task["metadata"].get("generation", 0),
        "spec": {name: spec[name] for name in KEPT_OF_A_SPEC if name in spec},
        "status": status,
        "writers": sorted({each["manager"] for each in fields if each.get("subresource") == "status"}),
    }


def _asked(task: JSON) -> JSON:
    """What the Task asks for, with what it is silent about: its definition's defaults, if any, and ours."""
    inherited = task.get("status", {}).get("definition", {}).get("defaults", {})
    return defaults.merged(task["spec"], defaults.merged(inherited, defaults.BUILT_IN))


def _job(job: JSON) -> JSON:
    annotations, status = job["metadata"].get("annotations", {}), job.get("status", {})
    return _belonging(job["metadata"]) | {
        "placeholder": annotations.get(ANNOTATION_PLACEHOLDER) == "true",
        "byHand": BY_HAND in annotations,
        "suspend": job["spec"].get("suspend", False),
        "conditions": [each["type"] for each in status.get("conditions", []) if each["status"] == "True"],
    }


def _pod(pod: JSON) -> JSON:
    status = pod.get("status", {})
    return _belonging(pod["metadata"]) | {
        "phase": status.get("phase", "Pending"),
        "node": pod["spec"].get("nodeName"),
        "main": pod["metadata"].get("annotations", {}).get(ANNOTATION_MAIN_CONTAINER),
        "started": _starts(status.get("containerStatuses", [])),
        "initStarted": _starts(status.get("initContainerStatuses", [])),
    }


def _belonging(metadata: JSON) -> JSON:
    """Whose it is: by its labels, which anybody may write, and by the object that controls it."""
    labels = metadata.get("labels", {})
    owners = metadata.get("ownerReferences", [])
    owner = next((each for each in owners if each.get("controller")), None)
    return {
        "taskUid": labels.get(LABEL_UID),
        "run": labels.get(LABEL_RUN),
        "attempt": labels.get(LABEL_ATTEMPT),
        "owner": {"kind": owner["kind"], "uid": owner["uid"]} if owner is not None else None,
    }


def _starts(containers: list[JSON]) -> dict[str, str]:
    """When each container started, of those that did: of one that could not, the kubelet writes the year 1970."""
    found = {}
    for each in containers:
        state = each.get("state", {})
        started = (state.get("terminated") or state.get("running") or {}).get("startedAt")
        if started and not started.startswith("1970"):
            found[each["name"]] = started
    return found


_SLIMMED: Final[dict[str, Callable[[JSON], JSON]]] = {TASK: _task, JOB: _job, POD: _pod}
