"""`make bench`: how fast Taskyard is beside raw Jobs, what it costs, and how that grows. `--help` has the options."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

from bench import chart, measure, results, scenarios, session, table, targets
from bench.measure import JOBS, TASKS
from bench.plane import Plane, Standing, plane, standing
from bench.results import JSON
from bench.session import say
from cluster.build import PROJECT
from cluster.errors import ClusterError

COUNTS: Final = (500, 2000)
REPEATS: Final = 3
IDLE: Final = 30
QUICK_IDLE: Final = 10
WARM_UP: Final = 20
PARTS: Final = ("throughput", "idle", "storm", "queues", "line")
LONGEST: Final = 28 * 60.0
"""Seconds. What is not done by then is left; taking everything down takes some more."""
GRACE: Final = 60.0
"""For a scenario to tell what it has; after that it has failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    folder = session.new_folder()
    try:
        with standing() as stands:
            folder.mkdir(parents=True)
            found = results.begun(quick=options.quick, repeats=1 if options.quick else REPEATS)
            try:
                asyncio.run(_measured(stands, options, folder, found))
            finally:  # whatever it was that ended it, what was measured is kept
                (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    except ClusterError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return _tell(found, folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repeat of the first count, no scenarios")
    parser.add_argument(
        "--counts", type=_counts, default=COUNTS, help="so many at once [500,2000], for trials"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the scenarios [1], for trials")
    parser.add_argument("--only", type=_parts, default=PARTS, help=f"some of {','.join(PARTS)}")
    return parser


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if unknown := set(parts) - set(PARTS):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}")
    return parts


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


async def _measured(stands: Standing, options: argparse.Namespace, folder: Path, found: JSON) -> None:
    counts = options.counts[:1] if options.quick else options.counts
    began = time.monotonic()
    async with plane(stands) as there:
        say("warming up")
        for what in (JOBS, TASKS):
            await measure.at_once(there, what, WARM_UP, folder)
        if "throughput" in options.only:
            await _throughput(there, counts, folder, found)
        if "idle" in options.only:
            say("one at a time")
            alone = await measure.idle(there, QUICK_IDLE if options.quick else IDLE, folder)
            found["idle"] = {what: run.as_json() for what, run in alone.items()}
        if not options.quick:
            await _scenarios(there, options, folder, found, until=began + LONGEST)
    found["took"] = time.monotonic() - began


async def _throughput(there: Plane, counts: Sequence[int], folder: Path, found: JSON) -> None:
    """By turns, and who begins changes: whatever disturbs the machine disturbs both."""
    runs: dict[str, dict[str, list[JSON]]] = {str(count): {JOBS: [], TASKS: []} for count in counts}
    found["throughput"] = runs
    repeats = found["repeats"]
    for repeat in range(repeats):
        for count in counts:
            for what in (JOBS, TASKS) if repeat % 2 == 0 else (TASKS, JOBS):
                run = await measure.at_once(there, what, count, folder)
                runs[str(count)][what].append(run.as_json())
                say(f"{count:,} {what}, {repeat + 1} of {repeats}: {run.rate:.1f} tasks/s")


async def _scenarios(
    there: Plane, options: argparse.Namespace, folder: Path, found: JSON, until: float
) -> None:
    """The long one last: it takes what is left of the time."""
    sizes = scenarios.Sizes()
    if options.scale != 1:
        sizes = sizes.smaller(options.scale)
    found["sizes"] = asdict(sizes)
    each = {
        "storm": partial(scenarios.retry_storm, there, folder, sizes),
        "queues": partial(scenarios.many_queues, there, folder, sizes),
        "line": partial(scenarios.long_line, there, folder, sizes, until),
    }
    for name, scenario in each.items():
        if name not in options.only:
            continue
        say(scenarios.NAMES[name])
        try:
            async with asyncio.timeout_at(until + GRACE):
                found["scenarios"][scenarios.NAMES[name]] = await scenario()
        except Exception as error:  # the others are measured all the same
            found.setdefault("failed", {})[scenarios.NAMES[name]] = repr(error)
            traceback.print_exc()


def _tell(found: JSON, folder: Path) -> int:
    """Print it all; 1 if a target was missed, or could not be measured for a failure."""
    found["figures"] = results.figures(found)
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    caption = f"{found['when']}, {found['commit'][:10]}, {found['processors']} processors, kwok nodes"
    if found["throughput"]:
        (folder / "chart.svg").write_text(chart.chart(found["throughput"], caption))
    print("", *table.everything(found), sep="\n\n")
    where = folder.relative_to(PROJECT)
    print(f"\n{where}/results.json, chart.svg; it took {found['took'] / 60:.1f} minutes")
    if disturbed := results.disturbed(found):
        print("DISTURBED by strangers, who used so much of the processors: " + "; ".join(disturbed))
    for name, why in found.get("failed", {}).items():
        print(f"NOT MEASURED: {name}: {why}")
    return 1 if targets.missed(found["figures"]) or "failed" in found else 0


if __name__ == "__main__":
    sys.exit(main())
