"""What processes cost, seen from outside: `/proc`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")
PROC: Final = Path("/proc")
BUSY: Final = (0, 1, 2, 5, 6)
"""user, nice, system, irq and softirq of a line of `/proc/stat`; not idle, not waiting for a disk, not stolen."""


@dataclass(frozen=True)
class Stat:
    """A line of `/proc/PID/stat`."""

    parent: int
    seconds: float
    """Of a processor, by itself and by those of its children that have ended."""

    @classmethod
    def of(cls, line: str) -> Stat:
        fields = line.rpartition(")")[2].split()  # the name in parentheses before may contain anything
        return cls(int(fields[1]), sum(map(int, fields[11:15])) * TICK)


@dataclass(frozen=True)
class Memory:
    """Of `/proc/PID/status`, in MiB."""

    now: float
    peak: float

    @classmethod
    def of(cls, text: str) -> Memory:
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        now, peak = (float(fields.get(name, "0").split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        return cls(now, peak)


def tree(roots: Iterable[int], parents: Mapping[int, int]) -> set[int]:
    """These processes and all that they have begun."""
    children: dict[int, list[int]] = defaultdict(list)
    for pid, parent in parents.items():
        children[parent].append(pid)
    found, waiting = set[int](), list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children[pid]
    return found


def busy_seconds(stat: str) -> float:
    """What all processors have done, by `/proc/stat`."""
    return _of_all_processors(stat, BUSY)


def stolen_seconds(stat: str) -> float:
    """What the machine below has given to others."""
    return _of_all_processors(stat, (7,))


def _of_all_processors(stat: str, columns: Iterable[int]) -> float:
    fields = stat.splitlines()[0].split()[1:]
    return sum(int(fields[column]) for column in columns) * TICK


def cpu_seconds(root: int) -> float:
    """Of a process and all below it; those that have ended count with their parent."""
    stats = _stats()
    parents = {pid: stat.parent for pid, stat in stats.items()}
    return sum(stats[pid].seconds for pid in tree([root], parents) if pid in stats)


def memory(root: int) -> Memory:
    """Of a process and all below it. The peak is the sum of their peaks: not less than what it was."""
    parents = {pid: stat.parent for pid, stat in _stats().items()}
    each = [Memory.of(_read(PROC / str(pid) / "status")) for pid in tree([root], parents)]
    return Memory(sum(one.now for one in each), sum(one.peak for one in each))


def of_the_machine() -> dict[str, float]:
    stat = _read(PROC / "stat")
    return {"busy": busy_seconds(stat), "stolen": stolen_seconds(stat)}


def _stats() -> dict[int, Stat]:
    read = {int(each.name): _read(each / "stat") for each in PROC.iterdir() if each.name.isdigit()}
    return {pid: Stat.of(line) for pid, line in read.items() if line}


def _read(path: Path) -> str:
    """Nothing, if the process has gone."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
