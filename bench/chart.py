"""The chart: how fast, and where the time of the processors goes. SVG, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from bench.figures import Spread

JSON = dict[str, Any]

WIDTH, HEIGHT = 760, 340
TOP, BOTTOM = 56, 60
LEFT, PANEL, GAP = 48, 300, 96
PARTS: Final = {
    "operator": "#d1495b",
    "apiserver": "#30638e",
    "etcd": "#00798c",
    "controller-manager": "#edae49",
    "scheduler": "#8d96a3",
    "kwok": "#c5cad1",
}
COLOURS: Final = {"raw Jobs": "#8d96a3", "Taskyard": "#d1495b"}


def chart(found: Mapping[str, Mapping[str, list[JSON]]], caption: str) -> str:
    """Of N at once: by count, and by what was created."""
    bars = [
        (f"{what}\n{int(count):,}", what, runs)
        for count, by_what in found.items()
        for what, runs in by_what.items()
    ]
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(WIDTH / 2, HEIGHT - 8, caption, colour="#666"),
        *_speeds(bars),
        *_costs(bars),
        "</svg>",
    ]
    return "\n".join(drawn) + "\n"


def _speeds(bars: Sequence[tuple[str, str, list[JSON]]]) -> list[str]:
    """A bar for the median, a whisker from the slowest repeat to the fastest."""
    spreads = [Spread.of(run["rate"] for run in runs) for _, _, runs in bars]
    top = _round_up(max((each.most for each in spreads if each is not None), default=1.0))
    drawn = _frame(LEFT, "tasks a second", top)
    for place, ((name, what, _), speed) in enumerate(zip(bars, spreads, strict=True)):
        if speed is None:
            continue
        x, width = _bar(LEFT, place, len(bars))
        drawn.append(_rectangle(x, width, 0, speed.middle, top, COLOURS[what]))
        middle, low, high = x + width / 2, _y(speed.least, top), _y(speed.most, top)
        drawn.append(f'<path d="M{middle:.1f} {low:.1f}V{high:.1f}" stroke="#222" stroke-width="1.5"/>')
        drawn.append(_text(middle, high - 5, f"{speed.middle:.1f}"))
        drawn += _label(middle, name)
    return drawn


def _costs(bars: Sequence[tuple[str, str, list[JSON]]]) -> list[str]:
    """Medians, part upon part."""
    left = LEFT + PANEL + GAP
    stacks = [
        {part: Spread.of(run["cpu_ms"].get(part) for run in runs) for part in PARTS} for _, _, runs in bars
    ]
    sums = [sum(each.middle for each in stack.values() if each is not None) for stack in stacks]
    top = _round_up(max(sums, default=1.0))
    drawn = _frame(left, "CPU a task, ms", top)
    for place, ((name, _, _), stack) in enumerate(zip(bars, stacks, strict=True)):
        x, width = _bar(left, place, len(bars))
        below = 0.0
        for part, cost in stack.items():
            if cost is not None:
                drawn.append(_rectangle(x, width, below, cost.middle, top, PARTS[part], part))
                below += cost.middle
        drawn.append(_text(x + width / 2, _y(below, top) - 5, f"{below:.0f}"))
        drawn += _label(x + width / 2, name)
    for row, (part, colour) in enumerate(PARTS.items()):
        y = 12 + 14 * (row // 3)
        x = left + (0, 140, 240)[row % 3]
        drawn.append(f'<rect x="{x}" y="{y - 8}" width="9" height="9" fill="{colour}"/>')
        drawn.append(_text(x + 13, y, part, anchor="start"))
    return drawn


def _frame(left: float, title: str, top: float) -> list[str]:
    right = left + PANEL
    lines = [_text(left, TOP - 10, title, anchor="start")]
    for step in range(5):
        value = top * step / 4
        y = _y(value, top)
        lines.append(f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>')
        lines.append(_text(left - 6, y + 4, f"{value:g}", anchor="end", colour="#666"))
    return lines


def _bar(left: float, place: int, count: int) -> tuple[float, float]:
    each = PANEL / count
    return left + each * (place + 0.15), each * 0.7


def _rectangle(
    x: float, width: float, below: float, size: float, top: float, colour: str, title: str = ""
) -> str:
    upper, lower = _y(below + size, top), _y(below, top)
    said = f"<title>{escape(title)}: {size:.1f} ms</title>" if title else ""
    place = f'x="{x:.1f}" y="{upper:.1f}" width="{width:.1f}" height="{lower - upper:.1f}"'
    return f'<rect {place} fill="{colour}">{said}</rect>'


def _label(x: float, name: str) -> list[str]:
    return [_text(x, HEIGHT - BOTTOM + 16 + 13 * row, line) for row, line in enumerate(name.split("\n"))]


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _round_up(value: float) -> float:
    """To what four lines divide into figures that one can read."""
    return next(
        digit * 10.0**power for power in range(12) for digit in (4, 8, 20) if digit * 10**power >= value
    )
