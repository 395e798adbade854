"""What the figures are compared with: the first value is to be reached, the second is aimed at. All are here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Target:
    """A limit, and on which side of it a figure is to be."""

    figure: str
    """Its name in the results."""
    what: str
    limit: float
    aim: float | None = None
    unit: str = ""
    at_least: bool = False

    def meets(self, figure: float) -> bool:
        return self._is_good(figure, self.limit)

    def verdict(self, figure: float | None) -> str:
        if figure is None:
            return "not measured"
        if not self.meets(figure):
            return "MISSED"
        if self.aim is None:
            return "met"
        return "met, and the aim" if self._is_good(figure, self.aim) else "met"

    def _is_good(self, figure: float, limit: float) -> bool:
        return figure >= limit if self.at_least else figure <= limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        aim = f", aim {self.aim:g}" if self.aim is not None else ""
        return f"{sign} {self.limit:g}{aim}{f' {self.unit}' if self.unit else ''}"


TARGETS: Final = (
    Target("ratio_500", "throughput against raw Jobs, 500", 0.75, 0.90, at_least=True),
    Target("ratio_2000", "throughput against raw Jobs, 2,000", 0.75, 0.90, at_least=True),
    Target("operator_cpu_ms_500", "operator CPU a task, 500", 10, 6, "ms"),
    Target("operator_cpu_ms_2000", "operator CPU a task, 2,000", 10, 6, "ms"),
    Target("writes_500", "operator writes a successful task, 500", 4),
    Target("writes_2000", "operator writes a successful task, 2,000", 4),
    Target("pod_to_verdict_ms", "verdict after the pod's end, idle, p50", 50, unit="ms"),
    Target("submit_to_job_ms", "submit → Job created, idle, p50", 50, unit="ms"),
    Target("memory_after_10000", "memory after 10,000 finished tasks", 150, unit="MB"),
    Target("cold_start_s", "cold start with 10,000 Tasks to first claim", 15, unit="s"),
    Target("growth", "CPU a task, 10,000 waiting against 100", 1.2, unit="times"),
    Target("duplicates", "duplicate Jobs, in all runs", 0),
)


def missed(figures: Mapping[str, float]) -> list[Target]:
    """Of those that were measured."""
    return [each for each in TARGETS if each.figure in figures and not each.meets(figures[each.figure])]
