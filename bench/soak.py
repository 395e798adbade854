"""`make soak`: ten tasks a second for twenty minutes, each deleted as soon as it has ended: nothing may grow.

`SOAK_SECONDS` makes it shorter. What is compared is the most that was used in the second quarter of the time and in the
last: etcd keeps what was overwritten for five minutes, so what it uses goes up and down.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

from bench import exposition, measure, session, table
from bench.api import JSON
from bench.creator import task
from bench.figures import Latencies, apart
from bench.measure import TASKS, Yard
from bench.plane import Plane, Standing, plane, standing
from bench.session import say
from cluster.build import PROJECT
from cluster.errors import ClusterError

SECONDS: Final = 20 * 60
RATE: Final = 10.0
EVERY: Final = 10.0
EVENTS_EVERY: Final = 60.0
ENDS_WITHIN: Final = 120.0
COMPACTED_EVERY: Final = 300.0
"""By the API server: until then etcd keeps whatever was overwritten. A quarter has to have one."""
FLAT: Final = 1.10
"""By how much more the last quarter may use than the second one."""

JUDGED: Final = ("operator", "etcd_in_use")
"""The file never shrinks, and how much memory etcd takes is Go's affair."""
STORED: Final = ("tasks.taskyard.dev", "jobs.batch", "pods", "events")


@dataclass(frozen=True)
class Sample:
    """What was there and in use at a moment."""

    at: float
    operator: float
    """MiB."""
    etcd_in_use: float
    """MiB of its file that hold something."""
    etcd_file: float
    """MiB of a file that never shrinks."""
    etcd_memory: float
    unfinished: int
    stored: dict[str, int]


def growth(samples: list[Sample], what: str) -> float | None:
    """The most of the last quarter by the most of the second; None if it was too short to tell."""
    lasted = max((each.at for each in samples), default=0.0)
    if len(samples) < 4 or (what.startswith("etcd") and lasted < 4 * (COMPACTED_EVERY - EVERY)):
        return None
    ordered = [float(getattr(each, what)) for each in sorted(samples, key=lambda each: each.at)]
    quarter = len(ordered) // 4
    before = max(ordered[quarter : 2 * quarter])
    return max(ordered[-quarter:]) / before if before else None


def main() -> int:
    seconds = float(os.environ.get("SOAK_SECONDS") or SECONDS)
    folder = session.new_folder("soak-")
    try:
        with standing() as stands:
            folder.mkdir(parents=True)
            found = asyncio.run(_soaked(stands, seconds, folder))
    except ClusterError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    print("", told(found), "", f"{folder.relative_to(PROJECT)}/results.json", sep="\n")
    return 0


def told(found: JSON) -> str:
    """Quarter by quarter, and whether it is flat."""
    rows: table.Rows = [["most of", "1st quarter", "2nd", "3rd", "4th", "4th by 2nd", ""]]
    samples, size = found["samples"], len(found["samples"]) // 4
    for what, growth in found["growth"].items():
        quarters = [samples[number * size : (number + 1) * size] for number in range(3)]
        most = [max((each[what] for each in one), default=None) for one in (*quarters, samples[-size:])]
        verdict = "too short" if growth is None else "flat" if growth <= FLAT else "GROWS"
        if what not in JUDGED:
            verdict = "(not judged)"
        rows.append([what, *map(table.number, most), table.number(growth), verdict])
    ends = found["finished"], found["created"], found["duplicates"]
    latencies = ", ".join(
        f"{name} p50 {table.number(table.ms(each['p50']))} ms, p99 {table.number(table.ms(each['p99']))} ms"
        for name, each in found["latencies"].items()
    )
    said = "{} of {} finished, {} duplicate Jobs".format(*ends)
    return f"{table.laid_out(rows)}\n\n{said}; operator CPU a task {found['cpu_ms']:.1f} ms\n{latencies}"


async def _soaked(stands: Standing, seconds: float, folder: Path) -> JSON:
    async with plane(stands) as there, measure.yard(there, TASKS, folder) as here:
        assert here.operator is not None
        say(f"{RATE:.0f} tasks a second for {seconds:.0f} s")
        samples: list[Sample] = []
        used, began = here.operator.cpu_seconds, time.monotonic()
        helpers = [
            asyncio.create_task(_sample(there, here, samples, began)),
            asyncio.create_task(_forget_events(there, here)),
        ]
        created = await _create_steadily(here, began, seconds)
        watcher = here.watcher
        with suppress(TimeoutError):  # how many have is told
            await watcher.until("all have ended", lambda: watcher.finished >= created, ENDS_WITHIN)
        cpu_ms = (here.operator.cpu_seconds - used) * 1000 / created
        for each in helpers:
            if each.done():
                each.result()  # what has failed is told
            each.cancel()
        lives = list(watcher.lives.values())
        return {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": seconds,
            "created": created,
            "finished": watcher.finished,
            "duplicates": sum(life.duplicates for life in lives),
            "cpu_ms": cpu_ms,
            "latencies": {
                "submit → Job": _as_json(apart(life.submitted, life.job_seen) for life in lives),
                "pod's end → verdict": _as_json(apart(life.pod_ended, life.finished) for life in lives),
            },
            "growth": {
                what: growth(samples, what)
                for what in ("operator", "etcd_in_use", "etcd_file", "etcd_memory")
            },
            "said": here.operator.complaints(),
            "samples": [asdict(each) for each in samples],
        }


def _as_json(values: Any) -> JSON:
    return asdict(Latencies.of(values))


async def _create_steadily(here: Yard, began: float, seconds: float) -> int:
    """By the clock: one that is late does not make the others late."""
    for number in count():
        due = began + number / RATE
        if due >= began + seconds:
            return number
        await asyncio.sleep(max(due - time.monotonic(), 0))
        await here.creator.create(task(f"soak-{number:06}", ttlSecondsAfterFinished=0))
    raise AssertionError("it counts for ever")


async def _sample(there: Plane, here: Yard, samples: list[Sample], began: float) -> None:
    while True:
        await asyncio.sleep(EVERY)
        samples.append(await _sample_once(there, here, time.monotonic() - began))
        last = samples[-1]
        say(
            f"{last.at:5.0f} s  operator {last.operator:.0f} MiB, etcd {last.etcd_in_use:.0f} of "
            f"{last.etcd_file:.0f} MiB, {last.unfinished} unfinished, {last.stored}"
        )


async def _sample_once(there: Plane, here: Yard, at: float) -> Sample:
    assert here.operator is not None
    etcd, server = await there.etcd.text("/metrics"), await there.api.text("/metrics")
    in_use = exposition.value(etcd, "etcd_mvcc_db_total_size_in_use_in_bytes") or 0.0
    file = exposition.value(etcd, "etcd_mvcc_db_total_size_in_bytes") or 0.0
    stored = exposition.stored(server)
    lives = list(here.watcher.lives.values())
    return Sample(
        at=at,
        operator=here.operator.memory.now,
        etcd_in_use=in_use / 2**20,
        etcd_file=file / 2**20,
        etcd_memory=there.memory("etcd").now,
        unfinished=sum(life.submitted is not None and life.finished is None for life in lives),
        stored={name: stored[name] for name in STORED if name in stored},
    )


async def _forget_events(there: Plane, here: Yard) -> None:
    """Those that the control plane itself posts about Jobs and pods live an hour: they alone would make etcd grow."""
    while True:
        await asyncio.sleep(EVENTS_EVERY)
        await there.api.ask("DELETE", here.path("events", "/api/v1"))


if __name__ == "__main__":
    sys.exit(main())
