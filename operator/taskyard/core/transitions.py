"""The table of transitions: every step from state to state that a Task may take, and what makes it.

The simulation takes every one of them, and fails on a step that is not here; the diagram of
`docs/state-machine.md` is drawn from here. So neither can drift from what `decide` does.
"""

from typing import Final

from taskyard.core.words import TERMINAL_STATES, State

_CANCEL: Final = "`cancel`"
_DEADLINE: Final = "`deadline` passed"
_EXPIRED: Final = "`goodUntil` passed, nothing ran"
_TOO_LATE: Final = "`goodUntil` passed before the retry"

TRANSITIONS: Final[dict[tuple[State, State], str]] = {
    (State.PENDING, State.UNSCHEDULED): "`suspend`, or a dependency",
    (State.PENDING, State.DELAYED): "`runAt` is to come",
    (State.PENDING, State.CLAIMED): "admitted",
    (State.PENDING, State.FAILED): _TOO_LATE,
    (State.PENDING, State.EXCEPTION): f"{_DEADLINE}; a dependency failed; or {_TOO_LATE}, after a loss",
    (State.PENDING, State.CANCELLED): _CANCEL,
    (State.PENDING, State.EXPIRED): _EXPIRED,
    (State.PENDING, State.DROPPED): "definition unregistered for the grace period, or retired",
    (State.DELAYED, State.UNSCHEDULED): "`suspend`, or a dependency",
    (State.DELAYED, State.PENDING): "the time has come, and something else holds it",
    (State.DELAYED, State.CLAIMED): "the time has come, admitted",
    (State.DELAYED, State.FAILED): _TOO_LATE,
    (State.DELAYED, State.EXCEPTION): f"{_DEADLINE}; {_TOO_LATE}, after a loss; or a dependency failed",
    (State.DELAYED, State.CANCELLED): _CANCEL,
    (State.DELAYED, State.EXPIRED): _EXPIRED,
    (
        State.DELAYED,
        State.DROPPED,
    ): "the time has come, and the definition is retired; or its grace has passed, with no operator there",
    (State.UNSCHEDULED, State.DELAYED): "resumed or released, its time is to come",
    (State.UNSCHEDULED, State.PENDING): "resumed or released, and something else holds it",
    (State.UNSCHEDULED, State.CLAIMED): "resumed or released, admitted",
    (State.UNSCHEDULED, State.FAILED): _TOO_LATE,
    (State.UNSCHEDULED, State.EXCEPTION): f"{_DEADLINE}; a dependency failed; or {_TOO_LATE}, after a loss",
    (State.UNSCHEDULED, State.CANCELLED): _CANCEL,
    (State.UNSCHEDULED, State.EXPIRED): _EXPIRED,
    (State.UNSCHEDULED, State.DROPPED): "resumed or released, and the definition is retired",
    (State.CLAIMED, State.RUNNING): "the main container started",
    (State.CLAIMED, State.PENDING): "claim given back; or retried, lost, drained before it was seen to run",
    (State.CLAIMED, State.DELAYED): "refused by the node; or retried, before it was seen to run",
    (State.CLAIMED, State.COMPLETED): "over before it was seen to run",
    (State.CLAIMED, State.FAILED): "over before it was seen to run",
    (State.CLAIMED, State.EXCEPTION): "malformed, `startLimit` reached, lost, or `deadline` passed",
    (State.CLAIMED, State.CANCELLED): f"{_CANCEL}, stopped",
    (State.CLAIMED, State.EXPIRED): "`goodUntil` passed, stopped",
    (State.CLAIMED, State.STALLED): "drained before it was seen to run, `onShutdown: Stop`",
    (State.RUNNING, State.PENDING): "retry at once, lost, or drained",
    (State.RUNNING, State.DELAYED): "retry after a delay",
    (State.RUNNING, State.COMPLETED): "the pod succeeded, no error result",
    (State.RUNNING, State.FAILED): "its own fault, no retry left",
    (State.RUNNING, State.EXCEPTION): "lost, no budget left; or `deadline` passed, stopped",
    (State.RUNNING, State.CANCELLED): f"{_CANCEL}, stopped",
    (State.RUNNING, State.STALLED): "drained, `onShutdown: Stop`",
    **{(state, State.PENDING): "`rerun`" for state in State if state in TERMINAL_STATES},
}
