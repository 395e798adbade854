"""The page `docs/state-machine.md`: drawn from the table of transitions that the simulation holds `decide` to."""

from taskyard.api.document import STATES, rows
from taskyard.core.transitions import TRANSITIONS
from taskyard.core.words import State

INTRODUCTION = """\
<!-- Generated from operator/taskyard/core/transitions.py; do not edit. -->
# The life of a Task

A Task is in one of twelve states. Five are on the way, seven are terminal; a task reaches exactly one of the
seven, and only `rerun` leads out again. A run that is followed by another is resolved in `status.runs`, but the
task never passes through a terminal state in between.

Every step below is taken at least a hundred times by the simulation in `make unit`, which also fails on a step
that is not here.
"""

SOURCES = [state for state in State if not state.is_terminal]
TERMINAL = [state for state in State if state.is_terminal]


def state_machine_page() -> str:
    return "\n".join([INTRODUCTION, _states(), _diagram(), _ends(), _steps()])


def _states() -> str:
    return rows(
        ("state", "phase", "meaning"),
        [
            (f"`{state}`", "**Finished**" if state.is_terminal else str(state.phase), STATES[state])
            for state in State
        ],
    )


def _diagram() -> str:
    """The states on the way, with the seven ends drawn as one; the table after it tells them apart."""
    lines = ["    [*] --> Pending: submitted"]
    lines += [
        f"    {source} --> {target}"
        for source, target in TRANSITIONS
        if target in SOURCES and source in SOURCES
    ]
    lines += [
        f"    {source} --> Resolved"
        for source in SOURCES
        if any((source, target) in TRANSITIONS for target in TERMINAL)
    ]
    lines += ["    Resolved --> Pending: rerun", "    Resolved --> [*]: ttlSecondsAfterFinished"]
    return "## On the way\n\n```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def _ends() -> str:
    table = [
        (f"`{source}`", *("✓" if (source, target) in TRANSITIONS else "" for target in TERMINAL))
        for source in SOURCES
    ]
    return "## From where to which end\n\n" + rows(("from", *(f"`{each}`" for each in TERMINAL)), table)


def _steps() -> str:
    table = [(f"`{source}`", f"`{target}`", why) for (source, target), why in TRANSITIONS.items()]
    return "## Every step, and what makes it\n\n" + rows(("from", "to", "when"), table)
