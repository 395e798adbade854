"""A status as JSON, and the patch that writes it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from taskyard.core import clocks
from taskyard.core.model import Bound, Dependency, Error, Result, Run, Status, Stop, Task, Wait
from taskyard.core.text import cut
from taskyard.core.words import State

Operation = dict[str, Any]


def status_patch(task: Task, status: Status, now: datetime) -> list[Operation]:
    """The JSON patch that makes the task's status this one, and fails if the task has changed meanwhile.

    Not a merge patch: there a `null` means removal, and a task's result may contain any.
    """
    before = {} if task.status.observed_generation == 0 else status_json(task.status)
    after = status_json(status) | {"updatedAt": clocks.said(now)}
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return [
        {"op": "add", "path": "/metadata/resourceVersion", "value": str(task.resource_version)},
        *({"op": "add", "path": f"/status/{key}", "value": value} for key, value in changed.items()),
        *(each for key in before if key not in after for each in _removal(f"/status/{key}")),
    ]


def _removal(path: str) -> list[Operation]:
    """What is not there cannot be removed: that would be an error, and no conflict. So it is put there first."""
    return [{"op": "add", "path": path, "value": None}, {"op": "remove", "path": path}]


def status_json(status: Status) -> dict[str, Any]:
    # A log is longer than a message, and was cut when it was read.
    log = {"logTail": status.log_tail} if status.log_tail is not None else {}
    return log | _present(
        {
            "state": str(status.state),
            "phase": str(status.state.phase),
            "reason": status.reason,
            "message": status.message,
            "conditions": _conditions(status),
            "observedGeneration": status.observed_generation,
            "observedRerun": status.observed_rerun,
            "run": status.run,
            "attempt": status.attempt,
            "runCount": status.run_count,
            "retryCount": status.retry_count,
            "lossCount": status.loss_count,
            "startFailures": status.start_failures,
            "submittedAt": status.submitted_at,
            "rerunAt": status.rerun_at,
            "enqueuedAt": status.enqueued_at,
            "claimedAt": status.claimed_at,
            "claimedBy": status.claimed_by,
            "startedAt": status.started_at,
            "retriedAt": status.retried_at,
            "completedAt": status.completed_at,
            "failedAt": status.failed_at,
            "nextRetryAt": status.next_retry_at,
            "stop": _stop(status.stop) if status.stop is not None else None,
            "dependencies": [_dependency(each) for each in status.dependencies] or None,
            "definition": _bound(status.definition) if status.definition is not None else None,
            "waiting": [_wait(each) for each in status.waiting] or None,
            "result": _result(status.result) if status.result is not None else None,
            "runs": [_run(run) for run in status.runs] or None,
        }
    )


def _stop(stop: Stop) -> dict[str, Any]:
    return _present({"reason": str(stop.reason), "requestedAt": stop.requested_at})


def _dependency(seen: Dependency) -> dict[str, Any]:
    return _present(
        {
            "name": seen.name,
            "uid": seen.uid,
            "state": str(seen.state) if seen.state is not None else None,
            "previousUid": seen.previous_uid,
        }
    )


def _bound(bound: Bound) -> dict[str, Any]:
    return _present(
        {
            "kind": str(bound.kind),
            "uid": bound.uid,
            "version": bound.version,
            "digest": bound.digest,
            "mainContainer": bound.main_container,
            "gracePeriodSeconds": bound.grace_seconds,
            "defaults": dict(bound.defaults) or None,
        }
    )


def _wait(wait: Wait) -> dict[str, Any]:
    return _present({"reason": str(wait.reason), "message": wait.message})


def _result(result: Result) -> dict[str, Any]:
    said = _present(
        {
            "error": _error(result.error) if result.error is not None else None,
            "flaws": [str(flaw) for flaw in result.flaws] or None,
        }
    )
    return said | ({"ok": result.ok.json} if result.ok is not None else {})


def _error(error: Error) -> dict[str, Any]:
    return _present({"code": error.code, "message": error.message, "traceback": error.traceback})


def _run(run: Run) -> dict[str, Any]:
    return _present(
        {
            "number": run.number,
            "attempt": run.attempt,
            "state": str(run.state),
            "reason": run.reason,
            "errorCode": run.error_code,
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
        since = status.rerun_at or status.submitted_at
        waiting = {"reason": "NotFinished", "message": "", "lastTransitionTime": since}
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
            return clocks.said(value)
        case str():
            return cut(value)
        case _:
            return value
