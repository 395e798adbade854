"""All that one benchmark has found, as it is written; and the few figures that are compared with targets."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from cluster.build import PROJECT

JSON = dict[str, Any]

JOBS: Final = "raw Jobs"
TASKS: Final = "Taskyard"


def begun(**said: Any) -> JSON:
    """Where, when, and of which code."""
    git = ("git", "-C", str(PROJECT))
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    edited = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True).stdout.strip()
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit + ("+" if edited else ""),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        **said,
        "throughput": {},
        "idle": {},
        "scenarios": {},
    }


def figures(found: JSON) -> dict[str, float]:
    """What targets are about: medians over the repeats. What was not measured is not there."""
    named: dict[str, float] = {}
    for count, runs in found["throughput"].items():
        tasks, jobs = runs.get(TASKS, []), runs.get(JOBS, [])
        # Each with the one beside it: whatever disturbed the machine then has disturbed both.
        ratios = [mine["rate"] / raw["rate"] for mine, raw in zip(tasks, jobs, strict=False)]
        if ratios:
            named[f"ratio_{count}"] = statistics.median(ratios)
            named[f"operator_cpu_ms_{count}"] = statistics.median(
                each["cpu_ms"]["operator"] for each in tasks
            )
            named[f"writes_{count}"] = statistics.median(each["writes_a_task"] for each in tasks)
    if (alone := found["idle"].get(TASKS)) is not None:
        named["pod_to_verdict_ms"] = alone["pod_to_verdict"]["p50"] * 1000
        named["submit_to_job_ms"] = alone["submit_to_job"]["p50"] * 1000
    for scenario in found["scenarios"].values():
        told = scenario.get("targets", {})
        named |= {name: value for name, value in told.items() if value is not None}
    named["duplicates"] = sum(each["duplicates"] for each in _runs(found))
    return named


def _runs(found: JSON) -> Iterator[JSON]:
    for by_what in found["throughput"].values():
        for runs in by_what.values():
            yield from runs
    yield from found["idle"].values()
    yield from (each["run"] for each in found["scenarios"].values() if "run" in each)
