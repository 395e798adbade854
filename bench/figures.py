"""Numbers of several repeats, and of many single events, made into few."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """What repeats of one measurement gave."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """None, if there was nothing to measure."""
        known = [each for each in values if each is not None]
        return cls(statistics.median(known), min(known), max(known)) if known else None


@dataclass(frozen=True)
class Latencies:
    """How long something took, of many times. Seconds."""

    count: int
    p50: float | None
    p99: float | None
    most: float | None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Latencies:
        known = sorted(each for each in values if each is not None)
        return cls(len(known), percentile(known, 0.50), percentile(known, 0.99), known[-1] if known else None)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The least value that so large a share does not exceed: one that was measured, nothing in between."""
    if not ordered:
        return None
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def apart(earlier: float | None, later: float | None) -> float | None:
    """Seconds from one to the other, if both happened."""
    return later - earlier if earlier is not None and later is not None else None


def rise(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each has grown, of those that were there both times."""
    return {name: after[name] - value for name, value in before.items() if name in after}
