"""`make bench`: how fast Taskyard is beside raw Jobs, what it costs, and how that grows. `--help` has the options."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final, Never

from bench import chart, measure, results, table, targets
from bench.measure import JOBS, TASKS
from bench.plane import Plane, plane, standing
from bench.results import JSON
from cluster.build import PROJECT
from cluster.errors import ClusterError
from cluster.native import Native

RESULTS: Final = PROJECT / "bench" / "results"
COUNTS: Final = (500, 2000)
REPEATS: Final = 3
IDLE: Final = 30
QUICK_IDLE: Final = 10
WARM_UP: Final = 20


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    folder = RESULTS / datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    try:
        with standing() as native:
            folder.mkdir(parents=True)
            found = asyncio.run(_measured(native, options, folder))
    except ClusterError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return _tell(found, folder, is_strict=options.strict)


def _as_ctrl_c(number: int, frame: FrameType | None) -> Never:
    """So that everything that was begun is ended."""
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one repeat of the first count, no scenarios")
    parser.add_argument(
        "--counts", type=_counts, default=COUNTS, help="so many at once [500,2000], for trials"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is missed")
    return parser


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


async def _measured(native: Native, options: argparse.Namespace, folder: Path) -> JSON:
    counts = options.counts[:1] if options.quick else options.counts
    repeats = 1 if options.quick else REPEATS
    found = results.begun(quick=options.quick, repeats=repeats)
    began = time.monotonic()
    async with plane(native) as there:
        say("warming up")
        for what in (JOBS, TASKS):
            await measure.at_once(there, what, WARM_UP, folder)
        await _throughput(there, counts, repeats, folder, found)
        say("one at a time")
        alone = await measure.idle(there, QUICK_IDLE if options.quick else IDLE, folder)
        found["idle"] = {what: run.as_json() for what, run in alone.items()}
    found["took"] = time.monotonic() - began
    return found


async def _throughput(there: Plane, counts: Sequence[int], repeats: int, folder: Path, found: JSON) -> None:
    """By turns, and who begins changes: whatever disturbs the machine disturbs both."""
    runs: dict[str, dict[str, list[JSON]]] = {str(count): {JOBS: [], TASKS: []} for count in counts}
    found["throughput"] = runs
    for repeat in range(repeats):
        for count in counts:
            for what in (JOBS, TASKS) if repeat % 2 == 0 else (TASKS, JOBS):
                run = await measure.at_once(there, what, count, folder)
                runs[str(count)][what].append(run.as_json())
                say(f"{count:,} {what}, {repeat + 1} of {repeats}: {run.rate:.1f} tasks/s")


def say(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {line}", file=sys.stderr, flush=True)


def _tell(found: JSON, folder: Path, *, is_strict: bool) -> int:
    found["figures"] = results.figures(found)
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    caption = f"{found['when']}, {found['commit'][:10]}, {found['processors']} processors, kwok nodes"
    (folder / "chart.svg").write_text(chart.chart(found["throughput"], caption))
    print(table.throughput(found["throughput"]), table.idle(found["idle"]), sep="\n\n")
    print("", table.requests(found["throughput"]), "", table.targets(found["figures"]), sep="\n")
    print(
        f"\n{folder.relative_to(PROJECT)}/results.json, chart.svg; it took {found['took'] / 60:.1f} minutes"
    )
    return 1 if is_strict and targets.missed(found["figures"]) else 0


if __name__ == "__main__":
    sys.exit(main())
