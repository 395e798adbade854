"""K5: an operator restart changes nothing. Killed before and after every write it makes, it goes on where it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from taskyard import failpoint
from taskyard.core.manifest import LABEL_ATTEMPT
from taskyard.failpoint import Write
from tests.faults import scenarios
from tests.faults.operator import Operator, Place
from tests.faults.scenarios import TASK, Scenario, is_placeholder, is_written, outcome_of
from tests.faults.witness import Witness
from tests.kube import JSON, Kubectl, moment

SIGKILLED: Final = -9
FIRST, OTHER = "operator-1", "operator-2"

Life = tuple[str, str | None]
"""Of an operator: its name, and where it dies; the last one does not."""


@dataclass(frozen=True)
class Row:
    """A scenario, and the operators that carry it through, one after the other."""

    scenario: Scenario
    lives: tuple[Life, ...]
    may_lose: str | None = None
    """The Event of the write that came just before the death: it is a courtesy, and posted once."""

    @property
    def points(self) -> set[str]:
        return {point for _, point in self.lives if point is not None}


def killed(scenario: Scenario, write: Write, **lost: str) -> Iterator[Row]:
    """Killed before and after a write; an Event is lost after the one, or before the Event itself."""
    for side in ("before", "after"):
        yield Row(scenario, ((FIRST, f"{side}:{write}"), (FIRST, None)), lost.get(side))


def replaced(scenario: Scenario, point: str) -> Row:
    """Killed there, and another one comes instead."""
    return Row(scenario, ((FIRST, point), (OTHER, None)))


def abandoned(point: str, may_lose: str | None = None) -> Row:
    """Killed with a claim and no Job; and the other one is killed while it gives that claim back."""
    lives = (FIRST, "after:claim"), (OTHER, point), (OTHER, None)
    return Row(scenarios.ABANDONED, lives, may_lose)


def resumed(scenario: Scenario, point: str) -> Row:
    """Killed there, and started again."""
    return Row(scenario, ((FIRST, point), (FIRST, None)))


ROWS: Final = (
    *killed(scenarios.SUCCESS, Write.LEASE),
    *killed(scenarios.HELD, Write.NOTE),
    *killed(scenarios.SUCCESS, Write.CLAIM),
    *killed(scenarios.SUCCESS, Write.CREATE_JOB),
    *killed(scenarios.SUCCESS, Write.RUNNING),
    *killed(scenarios.FAILURE, Write.REQUEUE, after="Retrying"),
    *killed(scenarios.FAILURE, Write.ANNOUNCE, before="Retrying"),
    *killed(scenarios.FAILURE, Write.VERDICT, after="TaskFailed"),
    *killed(scenarios.TIMED_OUT, Write.STOP),
    *killed(scenarios.CANCELLED, Write.END_POD),
    *killed(scenarios.UNSCHEDULABLE, Write.SUSPEND_JOB),
    *killed(scenarios.UNSCHEDULABLE, Write.DELETE_JOB),
    *killed(scenarios.SHORT_LIVED, Write.TTL),
    *killed(scenarios.FORGERY, Write.DELETE_POD),
    *killed(scenarios.QUEUED, Write.REPORT),
    *killed(scenarios.SHIELDED, Write.SHIELD),
    *killed(scenarios.SHIELDED, Write.UNSHIELD),
    abandoned("before:placeholder"),
    abandoned("after:placeholder"),
    abandoned("before:requeue"),
    abandoned("after:requeue", may_lose="ClaimGivenBack"),
    resumed(scenarios.DEFINED, "after:claim"),
    Row(scenarios.CIRCLE, ((FIRST, "after:verdict"), (FIRST, None)), may_lose="TaskException"),
    replaced(scenarios.SUCCESS, "before:claim"),
    replaced(scenarios.DEPENDENT, "before:claim"),
    replaced(scenarios.SUCCESS, "after:create-job"),
    replaced(scenarios.SUCCESS, "after:running"),
    replaced(scenarios.CANCELLED, "after:stop"),
)

UNDISTURBED: Final = tuple(
    Row(scenario, ((FIRST, None),))
    for scenario in (
        scenarios.SUCCESS,
        scenarios.HELD,
        scenarios.DEPENDENT,
        scenarios.CIRCLE,
        scenarios.QUEUED,
        scenarios.FAILURE,
        scenarios.CANCELLED,
        scenarios.TIMED_OUT,
        scenarios.UNSCHEDULABLE,
        scenarios.SHORT_LIVED,
        scenarios.FORGERY,
        scenarios.SHIELDED,
    )
)
"""What the others are compared with: it is what happens when nobody is killed."""


def told(row: Row) -> str:
    """A row's name: its scenario, and where its operators die."""
    deaths = " ".join(point for _, point in row.lives if point is not None) or "nobody dies"
    heir = " replaced" if row.lives[0][0] != row.lives[-1][0] else ""
    return f"{row.scenario.name} {deaths}{heir}"


def test_the_table_has_every_write() -> None:
    """Whoever adds a write says here in the middle of what it happens."""
    assert set[str]().union(*(row.points for row in ROWS)) == failpoint.POINTS


@pytest.mark.parametrize("row", [*ROWS, *UNDISTURBED], ids=told)
def test_a_restart_changes_nothing(row: Row, kubectl: Kubectl, place: Place, seen: Witness) -> None:
    scenario = row.scenario
    kubectl.create(scenario.manifest())
    scenario.prepare(kubectl)
    *short_lives, (heir, _) = row.lives
    meddle = scenario.meddle
    for name, point in short_lives:
        with born(place, scenario, name, failpoint=str(point)) as operator:
            meddle(kubectl)
            assert operator.died() == SIGKILLED
        side, _, write = str(point).partition(":")
        assert is_written(kubectl, Write(write)) is (side == "after"), f"it did not die {point}"
        meddle = scenarios.nothing
    with born(place, scenario, heir):
        meddle(kubectl)
        scenario.finish(kubectl)
        check_outcome(kubectl, row, seen)
        scenario.verify(kubectl)


@pytest.mark.parametrize(
    ("scenario", "point", "clock", "seconds"),
    [
        pytest.param(scenarios.FAILURE, "after:requeue", "nextRetryAt", 0, id="delay before a retry"),
        pytest.param(scenarios.TIMED_OUT, "after:running", "startedAt", 1, id="timeoutSeconds"),
        pytest.param(
            scenarios.UNSCHEDULABLE, "after:create-job", "claimedAt", 1, id="scheduleTimeoutSeconds"
        ),
        pytest.param(scenarios.EXPIRED, "after:note", "submittedAt", 20, id="goodForSeconds"),
        pytest.param(scenarios.SHORT_LIVED, "after:verdict", "completedAt", 1, id="ttlSecondsAfterFinished"),
    ],
)
def test_a_clock_that_strikes_while_nobody_is_there_strikes_once_at_the_return(
    scenario: Scenario, point: str, clock: str, seconds: int, kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    row = Row(
        scenario,
        ((FIRST, point), (FIRST, None)),
        may_lose=scenario.events[0] if clock == "nextRetryAt" else None,
    )
    kubectl.create(scenario.manifest())
    with born(place, scenario, FIRST, failpoint=point) as operator:
        assert operator.died() == SIGKILLED
    before = kubectl.status(TASK)
    strikes_at = moment(before[clock]) + timedelta(seconds=seconds)
    kubectl.eventually("the clock strikes", lambda: datetime.now(UTC) > strikes_at)
    assert kubectl.status(TASK) == before
    with born(place, scenario, FIRST):
        check_outcome(kubectl, row, seen)


@contextmanager
def born(place: Place, scenario: Scenario, name: str, **settings: str) -> Iterator[Operator]:
    """An operator of that name. Each name has a lease of its own: the dead man's would hold for 15 s."""
    operator = place.operator(identity=name, lease_name=name, **scenario.settings, **settings)
    with operator:
        yield operator


def check_outcome(kubectl: Kubectl, row: Row, seen: Witness) -> None:
    scenario = row.scenario
    if scenario.outcome is None:
        kubectl("wait", "--for=delete", f"task/{TASK}", "--timeout=120s")
    else:
        assert outcome_of(kubectl.wait(TASK)["status"]) == scenario.outcome
        check_jobs(kubectl.get("jobs")["items"], scenario.outcome)
    check_pods(kubectl, scenario, seen)
    check_events(kubectl, row)


def check_jobs(jobs: list[JSON], outcome: scenarios.Outcome) -> None:
    """One for an attempt; and one that only held its name for an attempt that made no run."""
    attempts = Counter(int(job["metadata"]["labels"][LABEL_ATTEMPT]) for job in jobs)
    assert all(count == 1 for count in attempts.values())
    assert attempts.keys() <= set(range(1, outcome.attempt + 1))
    real = {int(job["metadata"]["labels"][LABEL_ATTEMPT]) for job in jobs if not is_placeholder(job)}
    assert real == {attempt for _, attempt, _ in outcome.runs}


def check_pods(kubectl: Kubectl, scenario: Scenario, seen: Witness) -> None:
    """As many as there are runs, each of another Job; that they did not overlap is checked at the end."""
    kubectl.eventually("every pod was seen", lambda: len(seen.pods()) >= scenario.pods, seconds=20)
    owners = [pod["metadata"]["ownerReferences"][0]["uid"] for pod in seen.pods().values()]
    assert len(owners) == len(set(owners)) == scenario.pods


def check_events(kubectl: Kubectl, row: Row) -> None:
    """Each once; but the one that was about to be posted may be lost."""
    expected, sure = list(row.scenario.events), {*row.scenario.events} - {row.may_lose}

    def reasons() -> list[str]:
        return [str(each["reason"]) for each in kubectl.events(TASK)]

    kubectl.eventually(f"Events say {sure}", lambda: sure <= set(reasons()), seconds=20)
    found = reasons()
    assert len(found) == len(set(found))
    assert set(found) <= set(expected)
