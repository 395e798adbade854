"""The history of every Task, Job and pod of the whole run of the tests, as watches beside them recorded it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from taskyard.core.words import State
from tests.history import checker, recording
from tests.history.slim import JSON

RECORDING = "TASKYARD_RECORDING"


@pytest.fixture(scope="module")
def lines() -> list[JSON]:
    file = os.environ.get(RECORDING)
    if not file:
        pytest.skip(f"no recording: `make test` makes one and names it in {RECORDING}")
    return recording.load(Path(file))


@pytest.fixture(scope="module")
def parts(lines: list[JSON]) -> set[str]:
    """What was going on while it was recorded."""
    return {line["part"] for line in lines}


def test_everything_has_kept_to_the_rules(lines: list[JSON]) -> None:
    """One pod at a time, one Job an attempt, and the other rules of the checker."""
    summary, violations = checker.check(lines)
    print(f"\n{summary}")
    assert violations == []
    assert min(summary.tasks, summary.jobs, summary.pods) > 0, "a recording of nothing proves nothing"


def test_the_tests_have_been_everywhere(lines: list[JSON], parts: set[str]) -> None:
    """A recording of little proves little: every state was seen."""
    if "cluster" not in parts:
        pytest.skip("the part `cluster`, which brings Tasks into every state, was not recorded")
    lives = checker.lives_of(recording.read(lines)).values()
    assert {moment.state for life in lives for moment in life.moments} == set(State)


def test_runs_were_lost_and_recovered_from(lines: list[JSON], parts: set[str]) -> None:
    """That nothing broke says something only of what was under attack."""
    if "faults" not in parts:
        pytest.skip("the part `faults`, which takes things away, was not recorded")
    lives = list(checker.lives_of(recording.read(lines)).values())
    last = [life.moments[-1] for life in lives if life.moments]
    recovered = [each for each in last if each.state is State.COMPLETED and each.number("lossCount") > 0]
    assert recovered
    assert any(job.is_placeholder for life in lives for job in life.jobs), "no claimer has gone"
