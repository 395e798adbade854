"""Histories that never happened, for the tests of the checker: lines as a recording has them, in few words."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from taskyard.core.defaults import BUILT_IN
from taskyard.core.words import State
from tests.history.slim import JOB, JSON, POD, TASK

NOW: Final = "2026-01-01T00:00:00Z"
IN_A_MINUTE: Final = "2026-01-01T00:01:00Z"
LATER: Final = "2026-01-01T01:00:00Z"
UID: Final = "u"

SPEC: Final[JSON] = {
    "retry": BUILT_IN["retry"] | {"limit": 2},
    "startLimit": 3,
    "cancel": False,
    "suspend": False,
    "release": False,
    "requires": "AllCompleted",
    "rerun": 0,
}
AT_MOST_ONCE: Final[JSON] = {"retry": {"limit": 2, "infrastructureLimit": 0}}


def history(*lines: JSON, session: str = "s", part: str = "cluster") -> list[JSON]:
    """These lines as one recording from its very start, one version after the other."""
    starts = [marker("START", kind, since=0, version=0) for kind in (TASK, JOB, POD)]
    numbered = [{"version": version} | line for version, line in enumerate(lines, start=1)]
    return [{"session": session, "part": part} | line for line in (*starts, *numbered)]


def marker(word: str, kind: str, since: int, version: int) -> JSON:
    return {"type": word, "kind": kind, "since": since, "version": version}


def listed(line: JSON, version: int) -> JSON:
    """The same object, as a listing tells it."""
    return line | {"type": "LISTED", "version": version}


def gone(line: JSON) -> JSON:
    return line | {"type": "DELETED"}


def new(line: JSON) -> JSON:
    return line | {"type": "ADDED"}


def task(state: str, spec: JSON | None = None, writer: str = "taskyard", **status: Any) -> JSON:
    """A Task in that state, with all that belongs to it, but for what is said otherwise."""
    known = State(state)
    outcome = str(known is State.COMPLETED) if known.is_terminal else "Unknown"
    written = {
        "state": state,
        "phase": str(known.phase),
        "observedGeneration": 1,
        "submittedAt": NOW,
        "runCount": len(status.get("runs", [])),
        "conditions": [
            {"type": "Succeeded", "status": outcome},
            {"type": "Finished", "status": str(known.is_terminal)},
        ],
    }
    written |= {"completedAt": LATER} if known.is_terminal else {}
    written |= {"failedAt": LATER} if known is State.FAILED else {}
    return _object(TASK, UID, "name") | {
        "generation": 1,
        "spec": SPEC | (spec or {}),
        "writers": [writer],
        "status": written | status,
    }


def run(number: int, state: str = "Running", attempt: int | None = None, **fields: Any) -> JSON:
    """A run on record; each has an attempt of its own."""
    return {"number": number, "attempt": number + 1 if attempt is None else attempt, "state": state} | fields


def job(attempt: int, uid: str | None = None, **fields: Any) -> JSON:
    """The Job of an attempt, newly created."""
    name = f"name-{hashlib.sha256(UID.encode()).hexdigest()[:8]}-{attempt}"
    made = _object(JOB, uid or f"job-{attempt}", name) | {
        "type": "ADDED",
        "owner": {"kind": TASK, "uid": UID},
        "placeholder": False,
        "byHand": False,
        "suspend": False,
        "conditions": [],
    }
    return made | _labels(attempt) | fields


def pod(attempt: int, phase: str = "Pending", started: str | None = None, **fields: Any) -> JSON:
    """The pod of an attempt. `started`: when its main container did."""
    made = _object(POD, f"pod-{attempt}", f"pod-{attempt}") | {
        "owner": {"kind": JOB, "uid": f"job-{attempt}"},
        "phase": phase,
        "node": "node1",
        "main": "main",
        "started": {"main": started} if started is not None else {},
        "initStarted": {},
    }
    return made | _labels(attempt) | fields


def _object(kind: str, uid: str, name: str) -> JSON:
    identity = {"uid": uid, "namespace": "space", "name": name, "created": NOW, "deleting": False}
    return {"type": "MODIFIED", "kind": kind} | identity


def _labels(attempt: int) -> JSON:
    return {"taskUid": UID, "run": str(attempt - 1), "attempt": str(attempt)}
