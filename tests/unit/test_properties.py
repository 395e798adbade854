"""What holds of the pure core for any task, any pod and any words: each test is one sentence about all of them."""

import json
import os
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from taskyard.core import clocks, result, retry, text
from taskyard.core.actions import CreateJob, Decision, ReadLog, WriteStatus
from taskyard.core.decide import decide
from taskyard.core.model import Log, Snapshot, Status, Stop, Task
from taskyard.core.spec import Retry
from taskyard.core.transitions import TRANSITIONS
from taskyard.core.words import (
    CODE_LIMIT,
    MESSAGE_LIMIT,
    TERMINAL_STATES,
    Backoff,
    Flaw,
    PodPhase,
    State,
    StopReason,
)
from tests.unit.build import NOW, SUBMITTED, live, pod, seconds, snapshot, started, task
from tests.unit.build import retry as policy
from tests.unit.snapshots import ACTIVE, WAITING, moments, policies, snapshots, statuses, tasks, written

ALWAYS = settings(derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("unit", ALWAYS, max_examples=100)
# Against a mutant only whether there is an example counts, not which is the simplest.
settings.register_profile("mutant", ALWAYS, max_examples=200, phases=[Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "unit"))

MOST_WRITES = 8
"""In a row; more would be a circle."""


def applied(found: Snapshot, decision: Decision) -> Snapshot:
    """What would be found after that."""
    if isinstance(decision.action, ReadLog):
        return replace(found, log=Log("so it goes"))
    assert isinstance(decision.action, WriteStatus)
    return replace(found, task=written(found.task, decision.action.status, NOW), log=None)


def decided(found: Snapshot) -> Decision:
    """What is decided, once a log is read that is wanted first."""
    decision = decide(found, NOW)
    return decide(applied(found, decision), NOW) if isinstance(decision.action, ReadLog) else decision


def settled(found: Snapshot) -> tuple[Snapshot, Decision]:
    """What is left to do when all that is to be written is written, and nothing happens meanwhile."""
    for _ in range(MOST_WRITES):
        decision = decide(found, NOW)
        if not isinstance(decision.action, WriteStatus | ReadLog):
            return found, decision
        before, found = found, applied(found, decision)
        assert (found.task.status, found.log) != (before.task.status, before.log), (
            "a write that changes nothing"
        )
    raise AssertionError(f"it writes and writes: {decision}")


# Decisions.


@given(snapshots())
def test_writes_come_to_an_end(found: Snapshot) -> None:
    """Deciding again after applying a decision finds the next rung, or nothing; never the same again."""
    found, decision = settled(found)
    assert decide(found, NOW) == decision


@given(snapshots())
def test_a_step_is_one_of_the_table(found: Snapshot) -> None:
    decision = decided(found)
    if isinstance(decision.action, WriteStatus):
        edge = found.task.status.state, decision.action.status.state
        assert edge[0] is edge[1] or edge in TRANSITIONS


@given(snapshots(sorted(TERMINAL_STATES)))
def test_a_resolved_task_is_left_by_rerun_only(found: Snapshot) -> None:
    decision = decided(found)
    if (
        isinstance(decision.action, WriteStatus)
        and decision.action.status.state is not found.task.status.state
    ):
        assert found.task.spec.rerun > found.task.status.observed_rerun
        assert decision.action.status.state is State.PENDING


@given(snapshots())
def test_run_and_attempt_only_grow(found: Snapshot) -> None:
    decision = decided(found)
    if isinstance(decision.action, WriteStatus):
        before, after = found.task.status, decision.action.status
        assert after.run >= before.run
        assert after.run_count >= before.run_count
        is_claim = after.state is State.CLAIMED and before.state is not State.CLAIMED
        assert after.attempt == before.attempt + is_claim
        assert after.submitted_at == before.submitted_at


@given(snapshots(ACTIVE))
def test_budgets_are_kept(found: Snapshot) -> None:
    decision = decided(found)
    if isinstance(decision.action, WriteStatus):
        spec, status = found.task.spec, decision.action.status
        assert status.retry_count <= spec.retry.limit
        assert status.loss_count <= spec.retry.infrastructure_limit
        assert status.start_failures < spec.start_limit or status.state.is_terminal


@given(snapshots())
def test_an_end_has_its_times_and_its_words(found: Snapshot) -> None:
    decision = decided(found)
    if isinstance(decision.action, WriteStatus):
        status = decision.action.status
        has_ended = status.state.is_terminal and not found.task.status.state.is_terminal
        assert not has_ended or status.completed_at == NOW
        assert not has_ended or (status.failed_at == NOW) == (status.state is State.FAILED)
        assert not has_ended or status.state is State.COMPLETED or (status.result and status.reason)
        assert not has_ended or status.stop is None


@given(snapshots())
def test_whoever_waits_has_a_wake_up_or_says_what_for(found: Snapshot) -> None:
    found, decision = settled(found)
    status = found.task.status
    if status.state.is_terminal or found.task.deleting or decision.action is not None:
        return
    lives = any(each.is_alive for each in found.pods)
    assert decision.wake_at is not None or lives or (status.reason and status.message)


@given(snapshots(), st.integers(0, 999))
def test_nobody_sleeps_too_long(found: Snapshot, part: int) -> None:
    """Until its wake-up time alone changes nothing; without one it never does."""
    found, decision = settled(found)
    if decision.action is not None:
        return
    wake_at = decision.wake_at or NOW + timedelta(days=1000)
    assert wake_at > NOW
    meanwhile = decide(found, NOW + (wake_at - NOW) * part / 1000)
    assert meanwhile.action is None


@given(snapshots([State.CLAIMED]))
def test_no_job_for_a_task_that_has_no_claim_on_one(found: Snapshot) -> None:
    decision = decide(found, NOW)
    if isinstance(decision.action, CreateJob):
        wanted = found.task
        assert wanted.status.state is State.CLAIMED
        assert not wanted.deleting
        assert not clocks.has_struck(clocks.deadline(wanted), NOW)
        assert not clocks.has_struck(clocks.good_until(wanted), NOW)
        assert not any(each.is_alive for each in found.pods)


@given(snapshots(WAITING))
def test_no_claim_beside_a_pod_that_lives(found: Snapshot) -> None:
    decision = decided(found)
    if (
        isinstance(decision.action, WriteStatus)
        and decision.action.status.attempt > found.task.status.attempt
    ):
        assert not any(each.is_alive for each in found.pods)
        assert found.live is not None or found.task.status.attempt == 0


@given(tasks(WAITING), st.booleans())
def test_an_earlier_pod_is_waited_for(found: Task, deleting: bool) -> None:
    earlier = pod(PodPhase.RUNNING, started(), deleting=deleting, attempt=0)
    decision = decided(snapshot(found, earlier, live=live()))
    if isinstance(decision.action, WriteStatus):
        assert decision.action.status.state is not State.CLAIMED


@given(tasks(ACTIVE), st.sampled_from(StopReason), moments, moments)
def test_a_pod_that_does_not_end_is_given_up_after_the_deadline(
    found: Task, reason: StopReason, requested_at: datetime, deadline: datetime
) -> None:
    stop = Stop(reason, requested_at)
    wants = replace(found.spec, deadline=deadline, unreachable_timeout=None)
    stopped = replace(found, spec=wants, status=replace(found.status, stop=stop))
    stuck = pod(PodPhase.RUNNING, started(), deleting=True, attempt=stopped.status.attempt)
    decision = decided(snapshot(stopped, stuck, live=live()))
    is_over = isinstance(decision.action, WriteStatus) and decision.action.status.state.is_terminal
    assert is_over == (max(requested_at, deadline) + wants.grace + seconds(30) <= NOW)


@given(snapshots(ACTIVE))
def test_no_run_is_over_while_its_pod_lives(found: Snapshot) -> None:
    """But for a task past its deadline, whose pod was asked to go long ago."""
    decision, deadline = decided(found), clocks.deadline(found.task)
    was_active = found.task.status.state in {State.CLAIMED, State.RUNNING}
    if (
        was_active
        and isinstance(decision.action, WriteStatus)
        and decision.action.status.state.phase != "Active"
    ):
        lives = any(each.is_alive for each in found.pods)
        was_given_up = found.task.status.stop is not None and clocks.has_struck(deadline, NOW)
        assert not lives or was_given_up


@given(tasks(ACTIVE), st.sampled_from(StopReason))
def test_success_wins_over_a_stop(found: Task, reason: StopReason) -> None:
    """A pod that succeeded, without a word of its own, completes its task, whatever was asked of it."""
    stopping = replace(found, status=replace(found.status, stop=Stop(reason, SUBMITTED)))
    done = pod(PodPhase.SUCCEEDED, attempt=stopping.status.attempt)
    decision = decide(snapshot(stopping, done), NOW)
    assert isinstance(decision.action, WriteStatus)
    assert decision.action.status.state is State.COMPLETED


# Retries.


@given(policies, st.integers(1, 1000), st.floats(0.0, 1.0, exclude_max=True))
def test_a_delay_follows_its_curve_and_its_cap(wanted: Retry, number: int, draw: float) -> None:
    delay = retry.curve(wanted, number, draw)
    if wanted.delay is None:
        assert delay == timedelta(0)
        return
    base, cap = wanted.delay.total_seconds(), wanted.max_delay.total_seconds()
    doubled = base * 2.0 ** min(number, 64)
    expected = {
        Backoff.CONSTANT: base,
        Backoff.LINEAR: base * number,
        Backoff.EXPONENTIAL: doubled,
        Backoff.EXPONENTIAL_JITTER: doubled * draw,
    }
    assert delay == seconds(min(expected[wanted.backoff], cap))


def test_the_first_retries_of_every_curve() -> None:
    """In numbers, so that nobody has to trust a formula."""
    wanted = {
        Backoff.CONSTANT: [3, 3, 3, 3],
        Backoff.LINEAR: [3, 6, 9, 12],
        Backoff.EXPONENTIAL: [6, 12, 24, 30],
        Backoff.EXPONENTIAL_JITTER: [3, 6, 12, 24],
    }
    for backoff, delays in wanted.items():
        curve = policy(backoff=backoff, delay=seconds(3), max_delay=seconds(30))
        assert [retry.curve(curve, number, 0.5) for number in (1, 2, 3, 4)] == [
            seconds(each) for each in delays
        ]


@given(st.uuids(), st.integers(1, 100))
def test_chance_is_fair_and_the_same_for_everybody(uid: object, number: int) -> None:
    draw = retry.chance(str(uid), number)
    assert 0.0 <= draw < 1.0
    assert retry.chance(str(uid), number) == draw


def test_chance_is_even() -> None:
    draws = [retry.chance(f"uid-{number}", number % 7) for number in range(2000)]
    tenths = [sum(int(draw * 10) == tenth for draw in draws) for tenth in range(10)]
    assert min(tenths) > 150


# Words of tasks.

words = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.text(st.characters(), max_size=60),
    st.text(st.characters(categories=["Cs", "Cc", "Nd"]), max_size=60),
    st.sampled_from(
        [
            "[" * 5000,
            '{"a":' * 900 + "1" + "}" * 900,
            "1" * 4000,
            "1e999",
            "NaN",
            "-Infinity",
            '"\\ud800"',
            "\x00",
        ]
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["ok", "error", "code", "x"]), inner)
        ),
        max_leaves=9,
    ).map(json.dumps),
    st.fixed_dictionaries(
        {
            "error": st.dictionaries(
                st.sampled_from(["code", "message", "traceback", "retryable"]), st.text(max_size=300)
            )
        }
    ).map(json.dumps),
)


def is_modest(value: object, levels: int = 64) -> bool:
    """No deeper and no greater than what every reader of JSON takes."""
    if isinstance(value, int):
        return abs(value) < 2**63
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(is_modest(each, levels - 1) for each in inner)


@given(words, st.integers(0, 9))
def test_any_words_of_a_task_can_be_kept(said: str, containers: int) -> None:
    """Nothing raises, and what is kept is JSON that any reader takes, within its bounds."""
    report = result.read(said, containers)
    kept = [report.ok.json] if report.ok is not None else []
    if report.error is not None:
        assert len(report.error.code) <= CODE_LIMIT
        assert len(report.error.message) <= MESSAGE_LIMIT
        kept += [report.error.code, report.error.message, report.error.traceback]
    assert all(is_modest(each) for each in kept)
    encoded = json.dumps(kept, ensure_ascii=False, allow_nan=False).encode("utf-8")
    assert json.loads(encoded) == kept
    assert not {"\x00", "\x1b"} & set(encoded.decode())
    assert report.flaws == tuple(flaw for flaw in Flaw if flaw in report.flaws)


@given(st.text(st.characters(), max_size=9000))
def test_a_text_that_is_cut_fits_and_stays_so(said: str) -> None:
    kept = text.cut(said)
    assert len(kept) <= MESSAGE_LIMIT
    assert text.cut(kept) == kept


# The record.


@given(statuses)
def test_a_status_comes_back_as_it_was_written(status: Status) -> None:
    before = task()
    assert written(before, status, NOW).status == status
