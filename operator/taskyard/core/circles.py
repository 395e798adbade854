"""Tasks that wait for each other in a circle: how all of them are found in one go, and how it is told.

It knows no Tasks, only what each of them waits for. The work is that of looking at everybody once, and what is kept
of a circle is shared by all that are in it: a user may make one of thousands.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Final

TOLD_AT_MOST: Final = 8
"""Names in one sentence, half of them from each end."""

Onwards = Callable[[str], Iterable[str]]
"""From one to those that it waits for."""


@dataclass(frozen=True, slots=True, eq=False)
class Circle:
    """All that wait for each other, in one circle or in several that meet.

    Each of them waits for the hub in the end, and the hub for it. Of both ways only the neighbour is kept, and how
    many steps there are: on the way to the hub the one after it, on the way from the hub the one before it.
    """

    hub: str
    after: Mapping[str, tuple[str, int]]
    before: Mapping[str, tuple[str, int]]

    @property
    def members(self) -> Iterable[str]:
        return self.before

    def told_by(self, member: str) -> tuple[str | int, ...]:
        """A way from this one back to it; a number stands for so many in its middle."""
        is_hub = member == self.hub
        there = iter((member,)) if is_hub else self._way(member, self.after)
        back = self._way(member, self.before)
        steps = self.before[member][1] + (0 if is_hub else self.after[member][1])
        if steps <= TOLD_AT_MOST:
            return *there, *reversed(list(back)[:-1])
        first, last = (list(islice(way, TOLD_AT_MOST // 2)) for way in (there, back))
        return *first, steps + 1 - len(first) - len(last), *reversed(last)

    def _way(self, member: str, neighbours: Mapping[str, tuple[str, int]]) -> Iterator[str]:
        yield member
        name, _ = neighbours[member]
        while name != self.hub:
            yield name
            name, _ = neighbours[name]
        yield name


def find(starts: Iterable[str], waits_for: Onwards) -> Iterator[Circle]:
    """All circles that can be reached from any of these. One that names itself is held: that is no circle."""
    for members in _components(starts, waits_for):
        if len(members) > 1:
            yield _circle(members, waits_for)


def _circle(members: list[str], waits_for: Onwards) -> Circle:
    among = set(members)
    onwards = {name: [other for other in waits_for(name) if other in among] for name in members}
    backwards = defaultdict[str, list[str]](list)
    for name, others in onwards.items():
        for other in others:
            backwards[other].append(name)
    hub = members[0]
    return Circle(hub, after=_steps(hub, backwards), before=_steps(hub, onwards))


def _steps(hub: str, onwards: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, int]]:
    """Whoever can be reached from the hub by the fewest steps: from where, and by how many; the hub itself too."""
    reached: dict[str, tuple[str, int]] = {}
    ahead = deque([(hub, 0)])
    while ahead:
        name, steps = ahead.popleft()
        for other in onwards[name]:
            if other not in reached and other != name:
                reached[other] = name, steps + 1
                if other != hub:
                    ahead.append((other, steps + 1))
    return reached


def _components(starts: Iterable[str], waits_for: Onwards) -> Iterator[list[str]]:
    """Those that lead to each other, together (Tarjan's algorithm, without its recursion)."""
    found: dict[str, float] = {}
    """In which order."""
    lowest: dict[str, float] = {}
    """The first of those found that it leads to; none any more once it is told who belongs to it."""
    path: list[str] = []
    ahead: list[tuple[str, Iterator[str]]] = []

    def enter(name: str) -> None:
        found[name] = lowest[name] = len(found)
        path.append(name)
        ahead.append((name, iter(waits_for(name))))

    for start in starts:
        if start not in found:
            enter(start)
        while ahead:
            name, others = ahead[-1]
            if (other := next(others, None)) is not None:
                if other not in found:
                    enter(other)
                lowest[name] = min(lowest[name], lowest[other])
                continue
            ahead.pop()
            if lowest[name] == found[name]:
                members = _cut(path, name)
                lowest.update(dict.fromkeys(members, inf))
                yield members
            if ahead:
                before, _ = ahead[-1]
                lowest[before] = min(lowest[before], lowest[name])


def _cut(path: list[str], name: str) -> list[str]:
    """The end of the path from this one on, taken away."""
    taken = [path.pop()]
    while taken[-1] != name:
        taken.append(path.pop())
    return taken
