"""What must hold of every history of Tasks, whatever the tests did to them; pure functions over recorded events.

An API server tells every write to a watch, one event each: steps are exact, and none is left out.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskyard.core.transitions import TRANSITIONS
from taskyard.core.words import State

JSON = dict[str, Any]

OPERATOR: Final = "taskyard"
"""The field manager of the operator. A status that somebody else wrote is not of its making."""


@dataclass(frozen=True)
class Moment:
    """One Task after one write."""

    task: str
    status: JSON
    retry: JSON

    @property
    def state(self) -> State:
        return State(self.status["state"])

    @property
    def is_written(self) -> bool:
        """Whether the operator has said anything yet; before that there are the defaults of the CRD."""
        return "observedGeneration" in self.status

    def number(self, name: str) -> int:
        return int(self.status.get(name, 0))


@dataclass(frozen=True)
class Summary:
    """How much there was to check."""

    tasks: int
    events: int


def load(file: Path) -> list[JSON]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def histories(events: Iterable[JSON]) -> dict[str, list[Moment]]:
    """Every Task's moments, in order, by uid; without those whose status was ever written by another hand."""
    found: dict[str, list[Moment]] = {}
    forged = set[str]()
    for event in events:
        if event["type"] not in {"ADDED", "MODIFIED"}:
            continue
        if set(event["writers"]) - {OPERATOR}:
            forged.add(event["uid"])
        moment = Moment(event["task"], event["status"], event["retry"])
        found.setdefault(event["uid"], []).append(moment)
    return {uid: moments for uid, moments in found.items() if uid not in forged}


def summary(events: list[JSON]) -> Summary:
    found = histories(events)
    return Summary(tasks=len(found), events=sum(len(moments) for moments in found.values()))


def violations(events: list[JSON]) -> list[str]:
    """Every breach of a rule, as a sentence that names the Task."""
    gaps = ["the recording has a gap" for event in events if event["type"] == "GAP"]
    return gaps + [
        f"{moments[0].task}: {said}" for moments in histories(events).values() for said in _of_one(moments)
    ]


def _of_one(moments: list[Moment]) -> Iterator[str]:
    for moment in moments:
        for still in ALWAYS:
            yield from still(moment)
    for before, after in itertools.pairwise(moments):
        for step in STEPS:
            yield from step(before, after)


# What holds of every moment.


def conditions_agree(moment: Moment) -> Iterator[str]:
    if not moment.is_written:
        return
    state = moment.state
    told = {each["type"]: each["status"] for each in moment.status.get("conditions", [])}
    outcome = str(state is State.COMPLETED) if state.is_terminal else "Unknown"
    if told != {"Succeeded": outcome, "Finished": str(state.is_terminal)}:
        yield f"{state}, but its conditions say {told}"
    if moment.status["phase"] != state.phase:
        yield f"{state}, but its phase says {moment.status['phase']}"


def times_agree(moment: Moment) -> Iterator[str]:
    state = moment.state
    if ("completedAt" in moment.status) != state.is_terminal:
        yield f"{state}, and completedAt is {moment.status.get('completedAt')}"
    if ("failedAt" in moment.status) != (state is State.FAILED):
        yield f"{state}, and failedAt is {moment.status.get('failedAt')}"


def budgets_hold(moment: Moment) -> Iterator[str]:
    """Within one rerun's time, because a rerun starts anew."""
    for spent, limit in (("retryCount", "limit"), ("lossCount", "infrastructureLimit")):
        if moment.number(spent) > moment.retry[limit]:
            yield f"{spent} is {moment.number(spent)}, and the limit {moment.retry[limit]}"


# What holds of every step.


def terminal_states_are_left_by_a_rerun_only(before: Moment, after: Moment) -> Iterator[str]:
    if not before.state.is_terminal or _is_rerun(before, after):
        return
    if after.state is not before.state:
        yield f"{before.state} became {after.state} without a rerun"
    for name in ("completedAt", "result", "reason", "runs"):
        if after.status.get(name) != before.status.get(name):
            yield f"{name} changed after the end, and no rerun was asked for"


def steps_are_in_the_table(before: Moment, after: Moment) -> Iterator[str]:
    if before.state is not after.state and (before.state, after.state) not in TRANSITIONS:
        yield f"no step leads from {before.state} to {after.state}"


def counters_never_fall(before: Moment, after: Moment) -> Iterator[str]:
    names = ["run", "attempt", "runCount", "observedRerun", "observedGeneration"]
    if not _is_rerun(before, after):
        names += ["retryCount", "lossCount", "startFailures"]
    for name in names:
        if after.number(name) < before.number(name):
            yield f"{name} fell from {before.number(name)} to {after.number(name)}"


def attempts_are_claims(before: Moment, after: Moment) -> Iterator[str]:
    is_claim = after.state is State.CLAIMED and before.state is not State.CLAIMED
    if after.number("attempt") - before.number("attempt") != int(is_claim):
        yield f"attempt went from {before.number('attempt')} to {after.number('attempt')}, {after.state}"


def submission_is_fixed(before: Moment, after: Moment) -> Iterator[str]:
    was, now = before.status.get("submittedAt"), after.status.get("submittedAt")
    if was is not None and was != now:
        yield f"submittedAt moved from {was} to {now}"


def ended_runs_stay_as_they_are(before: Moment, after: Moment) -> Iterator[str]:
    now = {run["number"]: run for run in after.status.get("runs", [])}
    for run in before.status.get("runs", []):
        is_over = run.get("state") != State.RUNNING
        if is_over and run["number"] in now and now[run["number"]] != run:
            yield f"run {run['number']} changed after its end"


def _is_rerun(before: Moment, after: Moment) -> bool:
    return before.state.is_terminal and after.number("observedRerun") > before.number("observedRerun")


ALWAYS: Final[tuple[Callable[[Moment], Iterator[str]], ...]] = (conditions_agree, times_agree, budgets_hold)
STEPS: Final[tuple[Callable[[Moment, Moment], Iterator[str]], ...]] = (
    terminal_states_are_left_by_a_rerun_only,
    steps_are_in_the_table,
    counters_never_fall,
    attempts_are_claims,
    submission_is_fixed,
    ended_runs_stay_as_they_are,
)
