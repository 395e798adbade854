"""Why a task that waits for its turn is held, in sentences. Pure: what `choose` says of its lane, told to people."""

from datetime import UTC, datetime
from typing import Final

from taskyard.core import clocks
from taskyard.core.choose import OPERATOR, Lane, Limits, Race, Scope, Used, lane_of
from taskyard.core.model import Task, Wait
from taskyard.core.words import Reason

PLACE: Final = "; number "
"""What the place of a task in its queue is told with. It is true when it is written, and no reason to write again."""

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def waits(
    lane: Lane, position: int, used: Used, limits: Limits, now: datetime, ahead: int = 0
) -> tuple[Wait, ...]:
    """Why a task of this lane does not go, in sentences, with its place in the queue at this moment.

    `ahead`: how many of its lane go before it. Others may, too: a rate tells it a time before which it does not go.
    """
    race = Race(used, limits, now)
    where = f"{PLACE}{position} in the queue" if position else ""
    return tuple(
        Wait(each, _sentence(each, lane, race, limits, ahead) + where) for each in race.closed_by(lane)
    )


def standing(task: Task, limits: Limits) -> tuple[Wait, ...]:
    """What will keep a task from going when nothing else does: of its queue, what does not change by itself."""
    lane = lane_of(task, limits)
    race = Race(Used(), limits, _NEVER)
    lasting = {Reason.QUEUE_NOT_FOUND, Reason.QUEUE_PAUSED}
    return tuple(
        Wait(each, _sentence(each, lane, race, limits)) for each in race.closed_by(lane) if each in lasting
    )


def _sentence(reason: Reason, lane: Lane, race: Race, limits: Limits, ahead: int = 0) -> str:
    queue = limits.queue(lane)
    match reason:
        case Reason.QUEUE_NOT_FOUND:
            return f"there is no queue `{lane.queue}`"
        case Reason.QUEUE_PAUSED:
            return f"the queue `{lane.queue}` is paused"
        case Reason.RATE_LIMIT:
            assert queue is not None
            assert queue.rate is not None
            rate, at = queue.rate, race.next_start(lane, ahead)
            most = f"{rate.tasks} in {rate.window.total_seconds():.0f} s"
            until = f"; this one not before {clocks.said(clocks.whole_second(at))}" if at is not None else ""
            return f"the queue `{lane.queue}` starts {most}{until}"
        case Reason.QUEUE_LIMIT:
            return f"the queue `{lane.queue}` has {_of(lane.of_queue, lane, race, limits)} at work"
        case Reason.KEY_LIMIT:
            label = queue.share_label if queue is not None else None
            return f"`{label}: {lane.share}` has {_of(lane.of_share, lane, race, limits)} at work"
        case Reason.TYPE_LIMIT:
            assert lane.type is not None
            assert lane.of_type is not None
            kind, _, name = lane.type
            return f"the {kind} `{name}` has {_of(lane.of_type, lane, race, limits)} at work"
        case _:
            return f"the operator has {_of(OPERATOR, lane, race, limits)} at work"


def _of(scope: Scope, lane: Lane, race: Race, limits: Limits) -> str:
    return f"{race.slots(scope)} of {limits.of(scope, lane)}"
