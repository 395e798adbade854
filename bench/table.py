"""What is printed: figures of all repeats, side by side, and what was to be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from bench import results
from bench.figures import Spread
from bench.targets import TARGETS

JSON = dict[str, Any]
Rows = list[Sequence[str]]

NONE: Final = "-"

NOT_OURS: Final = frozenset({"harness", "others", "stolen"})


def in_all(cpu: Mapping[str, float]) -> float:
    return sum(cost for part, cost in cpu.items() if part not in NOT_OURS)


FIGURES: Final[tuple[tuple[str, Callable[[JSON], float | None]], ...]] = (
    ("tasks/s", lambda run: run["rate"]),
    ("pods/s, by their own ends", lambda run: run["pods_rate"]),
    ("submit → Job, p50 ms", lambda run: ms(run["submit_to_job"]["p50"])),
    ("submit → Job, p99 ms", lambda run: ms(run["submit_to_job"]["p99"])),
    ("submit → verdict, p50 ms", lambda run: ms(run["submit_to_verdict"]["p50"])),
    ("submit → verdict, p99 ms", lambda run: ms(run["submit_to_verdict"]["p99"])),
    ("pod's end → verdict, p50 ms", lambda run: ms(run["pod_to_verdict"]["p50"])),
    ("pod's end → verdict, p99 ms", lambda run: ms(run["pod_to_verdict"]["p99"])),
)
COSTS: Final[tuple[tuple[str, Callable[[JSON], float | None]], ...]] = (
    *(
        (f"CPU a task, {part}, ms", lambda run, part=part: run["cpu_ms"].get(part))
        for part in ("operator", "apiserver", "etcd", "controller-manager", "scheduler", "kwok", "harness")
    ),
    ("in all, but the harness, ms", lambda run: in_all(run["cpu_ms"])),
    ("and afterwards, ms", lambda run: in_all(run["cpu_ms_afterwards"])),
    ("CPU of strangers, ms", lambda run: run["cpu_ms"].get("others")),
    ("operator writes a task", lambda run: run["writes_a_task"] if run["what"] != "raw Jobs" else None),
    ("requests a task, all", lambda run: sum(run["requests_a_task"].values())),
    ("operator memory, peak, MiB", lambda run: run["peak_memory"]),
    ("watch lag, p50 ms", lambda run: ms(run["watch_lag"]["p50"])),
    ("watch lag, p99 ms", lambda run: ms(run["watch_lag"]["p99"])),
    ("operator's loop lag, p50 ms", lambda run: ms(run["operator_lag"]["p50"])),
    ("operator's loop lag, p99 ms", lambda run: ms(run["operator_lag"]["p99"])),
    ("the harness' loop lag, p99 ms", lambda run: ms(run["our_lag"]["p99"])),
    ("conflicts", lambda run: run["conflicts"] if run["what"] != "raw Jobs" else None),
    ("duplicate Jobs", lambda run: run["duplicates"]),
)


def ms(seconds: float | None) -> float | None:
    return seconds * 1000 if seconds is not None else None


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return NONE
    size = abs(float(f"{value:.3g}"))
    digits = 0 if size >= 100 or value == round(value) else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def spread(values: Iterable[float | None]) -> str:
    """The median, and between which two others it lies, if there are others."""
    found = Spread.of(values)
    if found is None:
        return NONE
    middle = number(found.middle)
    return (
        middle if found.least == found.most else f"{middle} ({number(found.least)} to {number(found.most)})"
    )


def laid_out(rows: Sequence[Sequence[str]]) -> str:
    """In columns; the first is text, the others are figures. A line under the first row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])


def everything(found: JSON) -> Iterator[str]:
    """Table by table, of what was measured."""
    if found["throughput"]:
        yield throughput(found["throughput"])
    if found["idle"]:
        yield idle(found["idle"])
    if found["throughput"]:
        yield requests(found["throughput"])
    if found["scenarios"]:
        yield scenarios(results.told(found))
    yield targets(found["figures"])


def throughput(found: Mapping[str, Mapping[str, list[JSON]]]) -> str:
    """N at once: by count, and by what was created."""
    columns = [(count, what) for count, by_what in found.items() for what in by_what]
    rows: Rows = [["all at once", *(f"{what}, {int(count):,}" for count, what in columns)]]
    for name, figure in (*FIGURES, *COSTS):
        rows.append([name, *(spread(map(figure, found[count][what])) for count, what in columns)])
    return laid_out(rows)


def idle(found: Mapping[str, JSON]) -> str:
    rows: Rows = [["one at a time", *found]]
    for name, figure in FIGURES[2:]:
        rows.append([name, *(number(figure(run)) for run in found.values())])
    return laid_out(rows)


def requests(found: Mapping[str, Mapping[str, list[JSON]]]) -> str:
    """Of the last repeat, a task: who asks for what is told by verb and resource."""
    columns = [
        (f"{what}, {int(count):,}", runs[-1]["requests_a_task"])
        for count, by_what in found.items()
        for what, runs in by_what.items()
    ]
    sorts = {sort: max(each.get(sort, 0.0) for _, each in columns) for _, one in columns for sort in one}
    rows: Rows = [["requests a task", *(name for name, _ in columns)]]
    for sort in sorted(sorts, key=lambda sort: -sorts[sort]):
        rows.append([sort, *(f"{each[sort]:.2f}" if sort in each else NONE for _, each in columns)])
    return laid_out(rows)


def scenarios(found: Mapping[str, Mapping[str, float | None]]) -> str:
    rows: Rows = [["scenario", "figure", "value"]]
    for name, figures in found.items():
        for figure, value in figures.items():
            rows.append([name, figure, number(value)])
            name = ""
    return laid_out(rows)


def targets(figures: Mapping[str, float]) -> str:
    rows: Rows = [["target", "limit", "measured", "verdict"]]
    for target in TARGETS:
        figure = figures.get(target.figure)
        rows.append([target.what, str(target), number(figure), target.verdict(figure)])
    return laid_out(rows)
