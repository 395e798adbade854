"""Whether the watches still tell what happens: judged by evidence, not by silence. Time is an argument.

A watch of a quiet cluster is silent, and so is one whose connection died unnoticed. A list tells them apart: it shows
versions that the watch then owes. One that owes, and tells nothing for a grace period, is under suspicion; one list is
not proof (what it showed may be gone before a watch begins anew), two in a row are.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

LONGEST_GRACE: Final = 60.0
SHORTEST_GRACE: Final = 3.0
PROOFS: Final = 2


def grace_of(relist_seconds: float) -> float:
    """How long a watch that owes something may be silent; shorter for whoever lists often."""
    return min(max(relist_seconds, SHORTEST_GRACE), LONGEST_GRACE)


@dataclass(slots=True)
class _Watch:
    heard: int = 0
    """The greatest version that it told."""
    owed: int | None = None
    """A greater one, which a list showed."""
    since: float = 0.0
    """From when on it has told nothing, and owed something."""
    unanswered: int = 0
    """Lists in a row after which it was silent."""


class Freshness:
    """What each watch, by its name, has told and still owes."""

    def __init__(self, grace: float = LONGEST_GRACE) -> None:
        self._grace = grace
        self._watches: defaultdict[str, _Watch] = defaultdict(_Watch)

    def hear(self, name: str, version: int, now: float) -> None:
        """A watch told of an object in that version. One that lags behind is not stale: it is at work."""
        watch = self._watches[name]
        if version > watch.heard:
            watch.heard, watch.since, watch.unanswered = version, now, 0
        if watch.owed is not None and watch.heard >= watch.owed:
            watch.owed = None

    def listed(self, name: str, greatest: int, now: float) -> None:
        """A list of what a watch is about showed no greater version than this one."""
        watch = self._watches[name]
        if greatest <= watch.heard:
            watch.owed, watch.unanswered = None, 0
        elif watch.owed is None:
            watch.owed, watch.since = greatest, now

    def overdue(self, now: float) -> list[str]:
        """Watches that were silent for too long after a list, each named once a list; to be listed again."""
        names = [
            name
            for name, watch in self._watches.items()
            if watch.owed is not None and now - watch.since >= self._grace
        ]
        for name in names:
            self._watches[name].owed = None
            self._watches[name].unanswered += 1
        return names

    def next_due(self) -> float | None:
        """When somebody should ask what is overdue."""
        return min(
            (each.since + self._grace for each in self._watches.values() if each.owed is not None),
            default=None,
        )

    def stale(self) -> list[str]:
        """Watches that are proven not to tell what happens."""
        return sorted(name for name, each in self._watches.items() if each.unanswered >= PROOFS)

    def complaint(self) -> str | None:
        """What is wrong, for people; None while nothing is."""
        names = self.stale()
        return f"the watch of {', '.join(names)} does not tell what a list shows" if names else None
