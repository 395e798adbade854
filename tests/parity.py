"""`docs/parity.md` holds: every row of the feature list is there once, and each test that it names has passed.

`python -m tests.parity OUTCOMES` checks it against the outcomes of one run of the tests.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OUTCOMES: Final = "TASKYARD_TEST_OUTCOMES"
"""Names the file that every pytest of a run adds its tests' outcomes to."""

TABLE: Final = Path(__file__).parents[1] / "docs" / "parity.md"

IDS: Final = (
    *(f"H{number}" for number in range(1, 12)),
    *(f"R{number}" for number in range(1, 6)),
    *(f"T{number}" for number in range(1, 10)),
    "T10a",
    "T10b",
    "T11a",
    "T11b",
    *(f"T{number}" for number in range(12, 15)),
    *(f"D{number}" for number in range(1, 10)),
    *(f"J{number}" for number in range(1, 12)),
    *(f"K{number}" for number in range(1, 11)),
)
"""Every row of the feature list."""

NATIVE_ONLY: Final = ("tests/outages/", "tests/crowd/")
"""Where the tests are that need nodes which are ours to break, or pretended ones: not to be had on every cluster."""

OPEN: Final = "open"
"""How the cell of a row begins that no test shows yet."""


@dataclass(frozen=True)
class Row:
    id: str
    behaviour: str
    tests: tuple[str, ...]
    """Node ids, as pytest has them; none: the row is open."""


def write(file: Path, outcomes: dict[str, str]) -> None:
    """Add the outcomes of one session to those of the run."""
    with file.open("a") as lines:
        lines.writelines(json.dumps([test, outcome]) + "\n" for test, outcome in outcomes.items())


def read(file: Path) -> dict[str, str]:
    """The outcome of every test of the run; of one that ran twice, the worse."""
    found: dict[str, str] = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        test, outcome = json.loads(line)
        if found.get(test) != "failed":
            found[test] = outcome
    return found


def rows(text: str) -> list[Row]:
    """The rows of the table of parity; those of other tables have no id."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()]
    return [
        Row(cell[0], cell[1], _tests(cell[2]))
        for cell in cells
        if len(cell) == 3 and re.fullmatch(r"[A-Z]\d+[a-z]?", cell[0])
    ]


def _tests(cell: str) -> tuple[str, ...]:
    if cell.startswith(OPEN):
        return ()
    return tuple(each.strip().strip("`") for each in cell.split("<br>"))


def problems(table: list[Row], outcomes: dict[str, str], *, is_native: bool = True) -> list[str]:
    """What keeps the table from being true of this run; elsewhere than on a native cluster some tests may not run."""
    excused = () if is_native else NATIVE_ONLY
    ids = [row.id for row in table]
    missing = [f"{each} is missing" for each in IDS if each not in ids]
    twice = [f"{each} is there twice" for each in dict.fromkeys(ids) if ids.count(each) > 1]
    unknown = [f"{each} is no row of the feature list" for each in dict.fromkeys(ids) if each not in IDS]
    unproven = [
        f"{row.id}: {test} {outcomes.get(test, 'did not run')}"
        for row in table
        for test in row.tests
        if outcomes.get(test) != "passed"
        and not (test.startswith(excused) and outcomes.get(test) in {None, "skipped"})
    ]
    return missing + twice + unknown + unproven


def main(file: Path, *, is_native: bool = True) -> int:
    table = rows(TABLE.read_text())
    found = problems(table, read(file), is_native=is_native)
    for each in found:
        print(f"docs/parity.md: {each}")
    proven = sum(bool(row.tests) for row in table)
    print(f"{proven} rows proven, {len(table) - proven} open" if not found else f"{len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
