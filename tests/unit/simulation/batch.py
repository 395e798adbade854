"""Many histories: until every edge of the state machine was taken often, or as many as there is time for."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from typing import Final

from taskyard.core.transitions import TRANSITIONS
from taskyard.core.words import State
from tests.unit.simulation import history
from tests.unit.simulation.history import Outcome
from tests.unit.simulation.themes import THEMES

Edge = tuple[State, State]

CHUNK: Final = 24
ENOUGH_FOR_ANY_EDGE: Final = 6000
"""Histories; an edge that is not taken often by then will not be."""


@dataclass
class Tally:
    """What many histories came to."""

    steps: list[int] = field(default_factory=list)
    edges: Counter[Edge] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    by_theme: dict[str, Counter[Edge]] = field(
        default_factory=lambda: {each.name: Counter() for each in THEMES}
    )
    themes: Counter[str] = field(default_factory=Counter)
    failed: Outcome | None = None

    def add(self, outcome: Outcome) -> None:
        self.steps.append(outcome.steps)
        self.edges.update(outcome.edges)
        self.happened.update(outcome.happened)
        self.by_theme[outcome.theme].update(outcome.edges)
        self.themes[outcome.theme] += 1
        if outcome.violation is not None and self.failed is None:
            self.failed = outcome

    @property
    def rarest(self) -> Edge:
        return min(TRANSITIONS, key=lambda edge: self.edges[edge])

    def best_theme_for(self, edge: Edge) -> int:
        """The number of the theme that takes it most often."""
        names = [each.name for each in THEMES]
        return max(range(len(THEMES)), key=lambda at: self.by_theme[names[at]][edge] / self.themes[names[at]])


def seeds_of(theme: int) -> Iterator[int]:
    """The seeds of a theme, in order."""
    return count(theme, len(THEMES))


def until_every_edge(least: int, each_theme: int, processes: int) -> Tally:
    """Every theme so often; then, whatever edge is rarest, the theme that takes it most. The same for everybody."""
    tally, seeds = Tally(), [seeds_of(number) for number in range(len(THEMES))]
    with pool(processes) as workers:
        wanted = [next(each) for each in seeds for _ in range(each_theme)]
        while tally.failed is None:
            for outcome in workers.map(history.run, wanted, chunksize=4):
                tally.add(outcome)
            if tally.edges[tally.rarest] >= least or len(tally.steps) > ENOUGH_FOR_ANY_EDGE:
                break
            best = seeds[tally.best_theme_for(tally.rarest)]
            wanted = [next(best) for _ in range(CHUNK)]
    return tally


def for_some_time(first: int, seconds: float, processes: int) -> Tally:
    """As many as there is time for, from this seed on."""
    tally, until, seeds = Tally(), time.monotonic() + seconds, count(first)
    with pool(processes) as workers:
        while tally.failed is None and time.monotonic() < until:
            wanted = [next(seeds) for _ in range(CHUNK * processes)]
            for outcome in workers.map(history.run, wanted, chunksize=4):
                tally.add(outcome)
    return tally


def first_failure(seeds: Iterable[int]) -> Outcome | None:
    """The first of these histories that goes wrong."""
    return next((outcome for outcome in map(history.run, seeds) if outcome.violation is not None), None)


def pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))


def table(tally: Tally) -> str:
    """The counts, rarest first."""
    edges = sorted(TRANSITIONS, key=lambda edge: tally.edges[edge])
    counted = [f"{tally.edges[old, new]:7}  {old} → {new}" for old, new in edges]
    things = [f"{number} {what}" for what, number in sorted(tally.happened.items())]
    return "\n".join(
        [
            f"{len(tally.steps)} histories, {sum(tally.steps)} steps, {median(tally.steps or [0]):.0f} in the median;"
            f" each of {len(edges)} edges {tally.edges[tally.rarest]} times or more:",
            *_columns(counted, 3),
            "In them: " + ", ".join(things) + ".",
        ]
    )


def _columns(lines: Sequence[str], number: int) -> list[str]:
    height = -(-len(lines) // number)
    rows = (lines[row::height] for row in range(height))
    return ["".join(f"{each:36}" for each in row).rstrip() for row in rows]


def told(outcome: Outcome) -> str:
    """A history that went wrong, from its beginning, and how to see it again."""
    return "\n".join(
        [*outcome.story, f"✗ {outcome.violation}", f"again: python -m tests.simulate --seed {outcome.seed}"]
    )
