"""The lines of a recording as records: a Task, a Job or a pod, each after one write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from taskyard.core.words import State
from tests.history.slim import JSON

OPERATOR: Final = "taskyard"
"""The field manager of the operator. A status that somebody else wrote is not of its making."""

OVER: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Object:
    """What all of them have."""

    at: int
    """Its place in the whole recording."""
    type: str
    uid: str
    name: str
    full_name: str
    created: datetime
    is_deleting: bool

    @property
    def is_gone(self) -> bool:
        return self.type == "DELETED"

    @property
    def is_exact(self) -> bool:
        """Whether no write lies between this one and the one before it."""
        return self.type != "LISTED"


@dataclass(frozen=True)
class Moment(Object):
    """A Task."""

    spec: JSON
    status: JSON
    is_forged: bool

    @cached_property
    def state(self) -> State:
        return State(self.status["state"])

    @property
    def is_written(self) -> bool:
        """Whether the operator has said anything yet; before that there are the defaults of the CRD."""
        return "observedGeneration" in self.status

    @property
    def runs(self) -> list[JSON]:
        return list(self.status.get("runs", []))

    @property
    def good_until(self) -> datetime | None:
        return self._clock("goodUntil", "goodForSeconds")

    @property
    def deadline(self) -> datetime | None:
        return self._clock("deadline", "deadlineSeconds")

    def number(self, name: str) -> int:
        return int(self.status.get(name, 0))

    def time(self, name: str) -> datetime | None:
        """One of the times of the status."""
        said = self.status.get(name)
        return datetime.fromisoformat(said) if said is not None else None

    def _clock(self, absolute: str, relative: str) -> datetime | None:
        if absolute in self.spec:
            return datetime.fromisoformat(self.spec[absolute])
        if relative not in self.spec:
            return None
        since = self.time("rerunAt") or self.time("submittedAt") or self.created
        return since + timedelta(seconds=self.spec[relative])


@dataclass(frozen=True)
class Belonging(Object):
    """A Job or a pod that carries the uid of a Task, rightly or not."""

    task: str
    attempt: int
    owner_kind: str | None
    owner: str | None


@dataclass(frozen=True)
class Job(Belonging):
    """`is_placeholder`: it holds the name of an attempt whose claimer is gone, and makes no pod.

    `is_by_hand`: if it is deleted, then by a test.
    """

    is_placeholder: bool
    is_by_hand: bool


@dataclass(frozen=True)
class Pod(Belonging):
    """A pod."""

    phase: str
    main_started_at: datetime | None
    has_started: bool
    """Whether any code of the user's ran in it, init containers included."""

    @property
    def is_alive(self) -> bool:
        """Whether it may still run something: its object is there, and its phase is not terminal."""
        return not self.is_gone and self.phase not in OVER


def moment(at: int, line: JSON) -> Moment:
    is_forged = bool(set(line["writers"]) - {OPERATOR})
    return Moment(**_identity(at, line), spec=line["spec"], status=line["status"], is_forged=is_forged)


def job(at: int, line: JSON) -> Job:
    return Job(
        **_identity(at, line),
        **_belonging(line),
        is_placeholder=line["placeholder"],
        is_by_hand=line["byHand"],
    )


def pod(at: int, line: JSON) -> Pod:
    started = line["started"].get(line["main"])
    return Pod(
        **_identity(at, line),
        **_belonging(line),
        phase=line["phase"],
        main_started_at=datetime.fromisoformat(started) if started is not None else None,
        has_started=bool(line["started"] or line["initStarted"]),
    )


def _identity(at: int, line: JSON) -> JSON:
    return {
        "at": at,
        "type": line["type"],
        "uid": line["uid"],
        "name": line["name"],
        "full_name": f"{line['namespace']}/{line['name']}",
        "created": datetime.fromisoformat(line["created"]),
        "is_deleting": line["deleting"],
    }


def _belonging(line: JSON) -> JSON:
    attempt, owner = str(line["attempt"]), line["owner"] or {}
    return {
        "task": line["taskUid"],
        # One whose label somebody broke belongs to no attempt.
        "attempt": int(attempt) if attempt.isascii() and attempt.isdigit() else -1,
        "owner_kind": owner.get("kind"),
        "owner": owner.get("uid"),
    }
