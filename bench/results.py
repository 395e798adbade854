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
NOISE: Final = 0.10


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


def disturbed(found: JSON) -> list[str]:
    """Runs beside which others used more of the processors than noise."""
    named = [
        (f"{run['what']}, {run['count']:,}, repeat {number}", run)
        for by_what in found["throughput"].values()
        for runs in by_what.values()
        for number, run in enumerate(runs, 1)
    ]
    named += [(name, each["run"]) for name, each in found["scenarios"].items() if "run" in each]
    shares = {name: strangers_share(run, found["processors"]) for name, run in named}
    shares |= {
        f"{name}, {length}, window {number}": window["strangers"] / found["processors"]
        for name, line in found["scenarios"].items()
        for length in ("short", "long")
        for number, window in enumerate(line.get(length, ()), 1)
    }
    return [f"{name}: {share:.0%}" for name, share in shares.items() if share > NOISE]


def strangers_share(run: JSON, processors: int) -> float:
    """Of all that the processors could do meanwhile, what was not ours; also what the machine below gave to others."""
    used = (run["cpu_ms"].get("others", 0.0) + run["cpu_ms"].get("stolen", 0.0)) * run["count"] / 1000
    return float(used / (run["seconds"] * processors))


def told(found: JSON) -> dict[str, dict[str, float | None]]:
    """The scenarios, in figures that fit a table."""
    named: dict[str, dict[str, float | None]] = {}
    for name, scenario in found["scenarios"].items():
        named[name] = _of_a_run(scenario["run"]) if "run" in scenario else _of_a_line(scenario)
    return named


def _of_a_run(run: JSON) -> dict[str, float | None]:
    return {
        "tasks": run["count"],
        "tasks/s": run["rate"],
        "operator CPU a task, ms": run["cpu_ms"]["operator"],
        "operator writes a task": run["writes_a_task"],
        "pod's end → verdict, p50 s": run["pod_to_verdict"]["p50"],
        "operator's loop lag, p99 s": run["operator_lag"]["p99"],
        "conflicts": run["conflicts"],
        "duplicate Jobs": run["duplicates"],
        "Completed": run["states"].get("Completed", 0),
    }


def _of_a_line(line: JSON) -> dict[str, float | None]:
    cold, took_in = line["cold_start"], line["took_in"]
    return {
        **{
            f"operator CPU a task, ms, {length}, {number}": window["cpu_ms"]
            for length in ("short", "long")
            for number, window in enumerate(line[length], 1)
        },
        "growth, times": line["growth"],
        "taken in a second, into the long line": took_in["created"] / took_in["seconds"],
        "operator CPU for one taken in, ms": took_in["operator_cpu_s"] * 1000 / took_in["created"],
        "cold start, Tasks there": cold["tasks"],
        "cold start, finished of them": cold["finished"],
        "cold start to listed, s": cold["to_listed"],
        "cold start to first claim, s": cold["to_first_claim"],
        "Tasks at the end": line["created"],
        "finished of them": line["finished"],
        "operator memory then, MiB": line["memory"],
        "operator memory, peak, MiB": line["peak_memory"],
        "duplicate Jobs": line["duplicates"],
    }


def _runs(found: JSON) -> Iterator[JSON]:
    for by_what in found["throughput"].values():
        for runs in by_what.values():
            yield from runs
    yield from found["idle"].values()
    yield from (each.get("run", each) for each in found["scenarios"].values())
