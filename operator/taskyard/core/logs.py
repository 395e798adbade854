"""Whose log is kept in the status, and how much of it."""

from taskyard.core.model import Pod, Status
from taskyard.core.spec import Spec
from taskyard.core.text import printable
from taskyard.core.words import LOG_LIMIT, LogPolicy, State


def is_wanted(spec: Spec, verdict: Status, pod: Pod) -> bool:
    """Whether the log of this pod belongs to an unsuccessful verdict. It is read first: pods may go any time."""
    is_failure = verdict.state.is_terminal and verdict.state is not State.COMPLETED
    return is_failure and spec.logs is not LogPolicy.NONE and pod.has_started and not pod.gone


def is_awaited(spec: Spec, status: Status) -> bool:
    """Whether a completed task still lacks its log. It is read afterwards: a success is not kept waiting."""
    is_asked_for = status.state is State.COMPLETED and spec.logs is LogPolicy.ALWAYS
    return is_asked_for and status.log_tail is None and pod_of(status) is not None


def pod_of(status: Status) -> str | None:
    """The pod of the last run on record."""
    return status.runs[-1].pod if status.runs else None


def tail(text: str) -> str:
    """The end of a log, printable, as much as a status takes. Doing it twice changes nothing."""
    kept = printable(text).encode()
    if len(kept) <= LOG_LIMIT:
        return kept.decode()
    mark = "…"
    return mark + kept[len(mark.encode()) - LOG_LIMIT :].decode(errors="ignore")
