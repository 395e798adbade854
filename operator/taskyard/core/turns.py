"""Taking turns: a group gives way to that member of it whose turn is the least, be it a lane or a group again."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heapreplace
from typing import Protocol

Rank = tuple[float, float, str]
Turn = tuple[float | Rank, ...]


class Member(Protocol):
    """One who takes turns."""

    def turn(self) -> Turn | None:
        """The least goes first; last in it is a rank. None: it has nobody, or no room, and will have neither."""
        ...

    def go(self) -> str:
        """Its first one goes. Asked right after `turn`."""
        ...


class Group:
    """Those that take turns with each other.

    A turn only grows while others are chosen. So what the heap knows of it may be too little; the first for whom it
    is still true has the least of all, and nobody else is looked at.
    """

    def __init__(self, own: Callable[[], Turn | None], members: Iterable[Member]) -> None:
        self._own = own
        turns = ((member.turn(), at, member) for at, member in enumerate(members))
        self._heap = [(turn, at, member) for turn, at, member in turns if turn is not None]
        heapify(self._heap)

    def turn(self) -> Turn | None:
        """Its own among others; of those that tie, the one goes first whose first task has the least rank."""
        own = self._own()
        while own is not None and self._heap:
            known, at, member = self._heap[0]
            turn = member.turn()
            if turn is None:
                heappop(self._heap)
            elif turn != known:
                heapreplace(self._heap, (turn, at, member))
            else:
                return *own, turn[-1]
        return None

    def go(self) -> str:
        _, _, member = self._heap[0]
        return member.go()
