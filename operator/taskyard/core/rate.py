"""How fast tasks of a queue may start: so many in any window of a length."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class Rate:
    """`rateLimit`: so many starts in any window of that length."""

    tasks: int
    window: timedelta


def next_start(rate: Rate, starts: Sequence[datetime], more: int, now: datetime) -> datetime | None:
    """When one more may start, after those that have and those that will now; None: now too."""
    recent = starts[bisect_right(starts, now - rate.window) :]
    windows = max(more // rate.tasks, 0) + 1
    before = len(recent) + more - windows * rate.tasks
    if before >= 0:
        return recent[before] + windows * rate.window
    return now + (windows - 1) * rate.window if windows > 1 else None
