"""The history of every Task of the whole run of the cluster tests, as a watch beside them recorded it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskyard.core.words import State
from tests.history import checker

RECORDING = "TASKYARD_RECORDING"


@pytest.fixture(scope="module")
def events() -> list[checker.JSON]:
    file = os.environ.get(RECORDING)
    if not file:
        pytest.skip(f"no recording: `make test` makes one and names it in {RECORDING}")
    return checker.load(Path(file))


def test_every_task_has_kept_to_the_rules(events: list[checker.JSON]) -> None:
    """No Task ever left a terminal state without `rerun`; and the other rules of the checker."""
    found = checker.summary(events)
    print(f"\n{found.tasks} tasks, {found.events} events")
    assert checker.violations(events) == []
    assert found.tasks > 0


def test_the_tests_have_been_everywhere(events: list[checker.JSON]) -> None:
    """A recording of little proves little: every state was seen, and every terminal one was left alone."""
    seen = {moment.state for moments in checker.histories(events).values() for moment in moments}
    assert seen == set(State)
