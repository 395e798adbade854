"""What must hold of a Task's status by itself: at every moment, and from each to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final

from taskyard.core.stopping import PATIENCE
from taskyard.core.transitions import TRANSITIONS
from taskyard.core.words import RUNS_KEPT, ErrorCode, Requires, State
from tests.history.objects import Moment
from tests.history.slim import JSON

RESOLUTION: Final = timedelta(seconds=1)
"""Of the times in objects."""

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
    limits = {
        "retryCount": moment.spec["retry"]["limit"],
        "lossCount": moment.spec["retry"]["infrastructureLimit"],
        "startFailures": moment.spec["startLimit"],
    }
    for spent, limit in limits.items():
        if moment.number(spent) > limit:
            yield f"{spent} is {moment.number(spent)}, and the limit {limit}"


def runs_are_in_order(moment: Moment) -> Iterator[str]:
    numbers = [run["number"] for run in moment.runs]
    if numbers != sorted(set(numbers)):
        yield f"its runs are numbered {numbers}"
    if numbers and numbers[-1] > moment.number("run"):
        yield f"run {numbers[-1]} is on record, and the current one is {moment.number('run')}"
    attempts = [run["attempt"] for run in moment.runs]
    if attempts != sorted(set(attempts)) or (attempts and attempts[-1] > moment.number("attempt")):
        yield f"its runs are of the attempts {attempts}, and the current one is {moment.number('attempt')}"


def only_the_run_of_a_running_task_runs(moment: Moment) -> Iterator[str]:
    running = [run["number"] for run in moment.runs if run["state"] == State.RUNNING]
    expected = [moment.number("run")] if moment.state is State.RUNNING else []
    if running != expected:
        yield f"{moment.state} at run {moment.number('run')}, and its runs that run are {running}"


# What holds of every step, whatever lies between.


def terminal_states_are_left_by_a_rerun_only(before: Moment, after: Moment) -> Iterator[str]:
    if not before.state.is_terminal or is_rerun(before, after):
        return
    if after.state is not before.state:
        yield f"{before.state} became {after.state} without a rerun"
    for name in ("completedAt", "result", "reason", "runs"):
        if after.status.get(name) != before.status.get(name):
            yield f"{name} changed after the end, and no rerun was asked for"


def counters_never_fall(before: Moment, after: Moment) -> Iterator[str]:
    names = ["run", "attempt", "runCount", "observedRerun", "observedGeneration"]
    if not is_rerun(before, after):
        names += ["retryCount", "lossCount", "startFailures"]
    for name in names:
        if after.number(name) < before.number(name):
            yield f"{name} fell from {before.number(name)} to {after.number(name)}"


def submission_is_fixed(before: Moment, after: Moment) -> Iterator[str]:
    was, now = before.status.get("submittedAt"), after.status.get("submittedAt")
    if was is not None and was != now:
        yield f"submittedAt moved from {was} to {now}"


def ended_runs_stay_as_they_are(before: Moment, after: Moment) -> Iterator[str]:
    now = {run["number"]: run for run in after.runs}
    for run in before.runs:
        if run["number"] in now:
            if run["state"] != State.RUNNING and now[run["number"]] != run:
                yield f"run {run['number']} changed after its end"
        elif len(now) < RUNS_KEPT:
            yield f"run {run['number']} is no longer on record, with room for {RUNS_KEPT}"


# What holds of every step that was one write.


def steps_are_in_the_table(before: Moment, after: Moment) -> Iterator[str]:
    if before.state is not after.state and (before.state, after.state) not in TRANSITIONS:
        yield f"no step leads from {before.state} to {after.state}"


def attempts_are_claims(before: Moment, after: Moment) -> Iterator[str]:
    if after.number("attempt") - before.number("attempt") != int(is_claim(before, after)):
        yield f"attempt went from {before.number('attempt')} to {after.number('attempt')}, {after.state}"


def claims_heed_what_was_asked(before: Moment, after: Moment) -> Iterator[str]:
    """A claim succeeds only on the version that was decided upon: what stood there was known."""
    if not is_claim(before, after):
        return
    for word in ("cancel", "suspend"):
        if before.spec[word]:
            yield f"claimed, though its `{word}` was set"
    if before.is_deleting:
        yield "claimed, though it was being deleted"
    claimed_at = after.time("claimedAt")
    for name, clock in (("goodUntil", before.good_until), ("deadline", before.deadline)):
        if clock is not None and claimed_at is not None and claimed_at >= clock:
            yield f"claimed at {claimed_at}, after its `{name}`, {clock}"


def claims_heed_dependencies(before: Moment, after: Moment) -> Iterator[str]:
    """Each of them has ended as it must, on record; or the task was released."""
    if not is_claim(before, after) or before.spec.get("release"):
        return
    ends = {each["name"]: each.get("state") for each in after.status.get("dependencies", [])}
    for name in before.spec.get("dependencies", []):
        end = ends.get(name)
        if end is None or (before.spec["requires"] == Requires.ALL_COMPLETED and end != State.COMPLETED):
            yield f"claimed, though its dependency `{name}` is {end or 'not resolved'}"


def a_loss_is_the_end_where_none_is_allowed(before: Moment, after: Moment) -> Iterator[str]:
    """Whoever wants at most once sets `infrastructureLimit: 0`, and gets it."""
    known = {run["number"] for run in before.runs if run["state"] != State.RUNNING}
    lost = [run["number"] for run in after.runs if is_loss(run) and run["number"] not in known]
    is_allowed = after.spec["retry"]["infrastructureLimit"] > 0
    if lost and not is_allowed and not after.state.is_terminal:
        yield f"run {lost[-1]} was lost, no loss is allowed, and it is {after.state}"


def is_claim(before: Moment, after: Moment) -> bool:
    return after.state is State.CLAIMED and before.state is not State.CLAIMED


def is_rerun(before: Moment, after: Moment) -> bool:
    """Whether there was one; in a gap, the end that came before it may not have been seen."""
    was_observed = after.number("observedRerun") > before.number("observedRerun")
    return was_observed and (before.state.is_terminal or not after.is_exact)


def was_given_up(before: Moment, after: Moment) -> bool:
    """Past its deadline a task is resolved even though its pod does not end; that is the one exception."""
    if not after.state.is_terminal:
        return False
    if after.status.get("reason") == ErrorCode.DEADLINE_EXCEEDED:
        return True
    deadline, completed_at = before.deadline, after.time("completedAt")
    if deadline is None or completed_at is None or "stop" not in before.status:
        return False
    return completed_at + RESOLUTION >= deadline + PATIENCE


def is_loss(run: JSON) -> bool:
    return run.get("reason") == ErrorCode.WORKER_LOST


ALWAYS: Final[tuple[Callable[[Moment], Iterator[str]], ...]] = (
    conditions_agree,
    times_agree,
    budgets_hold,
    runs_are_in_order,
    only_the_run_of_a_running_task_runs,
)
ACROSS: Final[tuple[Callable[[Moment, Moment], Iterator[str]], ...]] = (
    terminal_states_are_left_by_a_rerun_only,
    counters_never_fall,
    submission_is_fixed,
    ended_runs_stay_as_they_are,
)
STEPS: Final[tuple[Callable[[Moment, Moment], Iterator[str]], ...]] = (
    steps_are_in_the_table,
    attempts_are_claims,
    claims_heed_what_was_asked,
    claims_heed_dependencies,
    a_loss_is_the_end_where_none_is_allowed,
)
