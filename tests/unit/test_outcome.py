"""What becomes of a Task when its run has ended."""

from dataclasses import replace
from typing import Any

import pytest

from taskyard.core import outcome
from taskyard.core.model import Error, Run, Status, Stop, Task
from taskyard.core.verdict import Drained, Ending, Evidence, Failed, Lost, NotStarted, Stopped, Succeeded
from taskyard.core.words import Backoff, ErrorCode, OnShutdown, State, StopReason
from tests.unit.build import ENDED, NOW, STARTED, retry, seconds, task

RAN = Evidence("p", "n", has_started=True, started_at=STARTED, finished_at=ENDED, exit_code=3)
NEVER = Evidence("p", "n")
UNSEEN = Evidence("p", "n", is_start_unknown=True)
EXIT = Error(ErrorCode.EXIT_CODE, "exit 3")
BUSY = Error("Busy", "later", is_reported=True)


def reported(code: str) -> Failed:
    return Failed(RAN, Error(code, "m", is_reported=True))


def after(
    ending: Ending, state: State = State.RUNNING, wants: dict[str, Any] | None = None, **status: Any
) -> Status:
    return outcome.of(task(state, wants=wants, **status), ending, NOW)


@pytest.mark.parametrize(
    ("ending", "wants", "state", "reason"),
    [
        pytest.param(Succeeded(RAN), {}, State.COMPLETED, None, id="done"),
        pytest.param(Failed(RAN, EXIT), {}, State.FAILED, "ExitCode", id="its own fault"),
        pytest.param(Failed(RAN, BUSY), {}, State.FAILED, "ErrorResult", id="a code of its own is no reason"),
        pytest.param(reported("MalformedPayload"), {}, State.EXCEPTION, "MalformedPayload", id="malformed"),
        pytest.param(
            reported("MalformedPayload"),
            {"retry": retry(limit=3)},
            State.EXCEPTION,
            "MalformedPayload",
            id="malformed is never retried",
        ),
        pytest.param(reported("InternalError"), {}, State.EXCEPTION, "InternalError", id="an internal error"),
        pytest.param(
            reported("InternalError"), {"retry": retry(limit=1)}, State.PENDING, "Retry", id="may be retried"
        ),
        pytest.param(reported("Shutdown"), {}, State.PENDING, "RunLost", id="a shutdown is a loss"),
        pytest.param(
            reported("Shutdown"),
            {"retry": retry(infrastructure_limit=0)},
            State.EXCEPTION,
            "WorkerLost",
            id="and none may be made good",
        ),
        pytest.param(reported("Timeout"), {}, State.FAILED, "ErrorResult", id="a code of ours, made up"),
        pytest.param(
            Failed(RAN, EXIT), {"retry": retry(limit=1)}, State.PENDING, "Retry", id="again, at once"
        ),
        pytest.param(
            Failed(RAN, EXIT),
            {"retry": retry(limit=1, delay=seconds(5))},
            State.DELAYED,
            "RetryDelay",
            id="again, later",
        ),
        pytest.param(
            Failed(RAN, EXIT),
            {"retry": retry(limit=1, delay=seconds(5)), "deadline": NOW + seconds(5)},
            State.FAILED,
            "ExitCode",
            id="a retry that could not start in time is not attempted",
        ),
        pytest.param(
            Failed(RAN, BUSY, retryable=False),
            {"retry": retry(limit=1)},
            State.FAILED,
            "ErrorResult",
            id="its own no",
        ),
        pytest.param(Lost(RAN, "gone"), {}, State.PENDING, "RunLost", id="a loss is made good"),
        pytest.param(
            Lost(RAN, "gone"), {"good_until": NOW}, State.EXCEPTION, "WorkerLost", id="but not too late"
        ),
        pytest.param(Drained(RAN, "bye"), {}, State.PENDING, "Drained", id="a drained run moves on"),
        pytest.param(
            Drained(RAN, "bye"),
            {"on_shutdown": OnShutdown.STOP},
            State.STALLED,
            "Shutdown",
            id="or ends there",
        ),
        pytest.param(
            Drained(RAN, "bye"), {"good_until": NOW}, State.EXCEPTION, "WorkerLost", id="moves not too late"
        ),
        pytest.param(NotStarted(NEVER, "no"), {}, State.DELAYED, "GivenBack", id="refused by its node"),
        pytest.param(
            NotStarted(NEVER, "no"), {"start_limit": 1}, State.EXCEPTION, "StartFailed", id="once too often"
        ),
        pytest.param(
            NotStarted(NEVER, "no", is_capacity=True),
            {"start_limit": 1},
            State.DELAYED,
            "GivenBack",
            id="lack of room does not count",
        ),
        pytest.param(
            Stopped(RAN, StopReason.CANCELLED), {}, State.CANCELLED, "TaskCancelled", id="cancelled"
        ),
        pytest.param(
            Stopped(RAN, StopReason.DEADLINE_EXCEEDED),
            {"deadline": NOW},
            State.EXCEPTION,
            "DeadlineExceeded",
            id="too late",
        ),
        pytest.param(
            Stopped(NEVER, StopReason.EXPIRED),
            {"good_until": NOW},
            State.EXPIRED,
            "TaskExpired",
            id="expired",
        ),
        pytest.param(
            Stopped(RAN, StopReason.EXPIRED),
            {"good_until": NOW},
            State.EXPIRED,
            "StartedLate",
            id="started late",
        ),
        pytest.param(
            Stopped(RAN, StopReason.TIMEOUT), {"timeout": seconds(1)}, State.FAILED, "Timeout", id="timed out"
        ),
        pytest.param(
            Stopped(RAN, StopReason.TIMEOUT),
            {"timeout": seconds(1), "retry": retry(limit=1)},
            State.PENDING,
            "Retry",
            id="a timeout is worth another run",
        ),
        pytest.param(
            Stopped(NEVER, StopReason.MALFORMED_PAYLOAD),
            {},
            State.EXCEPTION,
            "MalformedPayload",
            id="bad image",
        ),
        pytest.param(
            Stopped(NEVER, StopReason.START_TIMEOUT), {}, State.PENDING, "GivenBack", id="not started in time"
        ),
        pytest.param(
            Stopped(NEVER, StopReason.SCHEDULE_TIMEOUT),
            {"start_limit": 1},
            State.EXCEPTION,
            "StartFailed",
            id="no node, once too often",
        ),
        pytest.param(
            Stopped(NEVER, StopReason.NO_CAPACITY),
            {"start_limit": 1},
            State.DELAYED,
            "GivenBack",
            id="no room does not count",
        ),
        pytest.param(
            Stopped(RAN, StopReason.START_TIMEOUT),
            {},
            State.PENDING,
            "RunLost",
            id="a claim is given back for free only if nothing ran",
        ),
        pytest.param(
            Stopped(UNSEEN, StopReason.START_TIMEOUT), {}, State.PENDING, "RunLost", id="unknown is a loss"
        ),
        pytest.param(Stopped(RAN, StopReason.LOST), {}, State.PENDING, "RunLost", id="its pod is gone"),
        pytest.param(
            Stopped(RAN, StopReason.MAIN_CONTAINER_ENDED),
            {},
            State.PENDING,
            "RunLost",
            id="its words are lost",
        ),
    ],
)
def test_of(ending: Ending, wants: dict[str, Any], state: State, reason: str | None) -> None:
    status = after(ending, wants=wants)
    assert (status.state, status.reason, status.stop) == (state, reason, None)
    assert (status.completed_at is not None) == state.is_terminal
    assert (status.failed_at is not None) == (state is State.FAILED)
    assert (status.result is not None and status.result.error is not None) == (
        state.is_terminal and state is not State.COMPLETED
    )


@pytest.mark.parametrize(
    ("ending", "counts"),
    [
        pytest.param(Failed(RAN, EXIT), (1, 0, 0), id="a retry"),
        pytest.param(Lost(RAN, "gone"), (0, 1, 0), id="a loss"),
        pytest.param(Drained(RAN, "bye"), (0, 0, 0), id="a drain spends nothing"),
        pytest.param(NotStarted(NEVER, "no"), (0, 0, 1), id="a start that failed"),
        pytest.param(NotStarted(NEVER, "no", is_capacity=True), (0, 0, 0), id="lack of room spends nothing"),
        pytest.param(Stopped(RAN, StopReason.TIMEOUT), (1, 0, 0), id="a timeout is a retry"),
    ],
)
def test_every_budget_is_its_own(ending: Ending, counts: tuple[int, int, int]) -> None:
    status = after(ending, wants={"retry": retry(limit=9), "timeout": seconds(1)})
    assert (status.retry_count, status.loss_count, status.start_failures) == counts


@pytest.mark.parametrize(("spent", "state"), [(4, State.PENDING), (5, State.EXCEPTION)])
def test_losses_have_a_budget(spent: int, state: State) -> None:
    status = after(Lost(RAN, "gone"), loss_count=spent)
    assert status.state is state
    assert "all 5 losses" in str(status.message) or state is State.PENDING


def test_a_retry_is_back_in_the_queue_with_its_run_on_record_and_its_claim_cleared() -> None:
    policy = retry(limit=3, delay=seconds(10), backoff=Backoff.LINEAR)
    status = after(Failed(RAN, BUSY), wants={"retry": policy}, retry_count=1)
    assert (status.run, status.run_count, status.retry_count) == (1, 1, 2)
    assert status.next_retry_at == NOW + seconds(20)
    assert (status.claimed_at, status.claimed_by, status.enqueued_at) == (None, None, None)
    assert status.message == "retry 2 of 3, not before 2026-01-01T12:00:20Z, after: later"
    (run,) = status.runs
    assert (run.state, run.reason, run.error_code, run.exit_code) == (State.FAILED, "ErrorResult", "Busy", 3)
    assert status.started_at == STARTED


def test_a_retry_at_once_is_eligible_now() -> None:
    status = after(Failed(RAN, EXIT), wants={"retry": retry(limit=1)})
    assert (status.enqueued_at, status.next_retry_at) == (NOW, None)


def test_a_claim_that_is_given_back_leaves_no_run_and_keeps_its_number() -> None:
    status = after(Stopped(NEVER, StopReason.START_TIMEOUT), State.CLAIMED, message="the image is not there")
    assert (status.runs, status.run, status.run_count) == ((), 0, 0)
    assert (status.claimed_at, status.claimed_by, status.message) == (None, None, "the image is not there")


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        pytest.param(
            Stopped(UNSEEN, StopReason.START_TIMEOUT),
            "it was stopped (StartTimeout); some code of it may have run",
            id="given back too late",
        ),
        pytest.param(Stopped(RAN, StopReason.LOST), "it was stopped (Lost)", id="lost"),
        pytest.param(Stopped(RAN, StopReason.REPLACED), "the task was replaced", id="replaced"),
    ],
)
def test_a_stop_whose_words_somebody_took_from_the_status_is_told_by_its_reason(
    ending: Stopped, message: str
) -> None:
    [run] = after(ending, message=None).runs
    assert run.message == message


@pytest.mark.parametrize("reason", [StopReason.CANCELLED, StopReason.DEADLINE_EXCEEDED, StopReason.EXPIRED])
def test_what_never_started_leaves_no_run(reason: StopReason) -> None:
    assert after(Stopped(NEVER, reason), State.CLAIMED).runs == ()


def test_what_was_stopped_leaves_its_evidence() -> None:
    (run,) = after(Stopped(RAN, StopReason.CANCELLED)).runs
    assert (run.state, run.exit_code, run.finished_at) == (State.CANCELLED, 3, ENDED)


def retried(last: Run) -> Task:
    wants = {"good_until": NOW, "retry": retry(limit=3)}
    return task(State.DELAYED, wants=wants, run=1, run_count=1, started_at=STARTED, runs=(last,))


@pytest.mark.parametrize(
    ("last", "state", "code"),
    [
        pytest.param(
            Run(0, 1, State.FAILED, "ExitCode", message="m"), State.FAILED, "ExitCode", id="a failure"
        ),
        pytest.param(
            Run(0, 1, State.FAILED, "ErrorResult", "Busy", message="m"),
            State.FAILED,
            "Busy",
            id="its own error",
        ),
        pytest.param(
            Run(0, 1, State.EXCEPTION, "WorkerLost", message="m"), State.EXCEPTION, "WorkerLost", id="a loss"
        ),
        pytest.param(
            Run(0, 1, State.STALLED, "Shutdown", message="m"), State.EXCEPTION, "Shutdown", id="a drain"
        ),
    ],
)
def test_a_retry_that_is_overtaken_by_a_clock_ends_as_the_run_before_it(
    last: Run, state: State, code: str
) -> None:
    status = outcome.expired(retried(last), NEVER, NOW)
    assert status.state is state
    assert status.message == (
        "m; not retried: the next run had not started by its `goodUntil`, 2026-01-01T12:00:00Z"
    )
    assert status.result is not None
    assert status.result.error is not None
    assert status.result.error.code == code
    assert status.runs == (last,)


def test_the_message_of_a_failure_says_why_there_is_no_other_run() -> None:
    status = after(Failed(RAN, EXIT), wants={"retry": retry(limit=2)}, retry_count=2)
    assert status.message == "exit 3; not retried: all 2 retries are spent"
    assert status.runs[0].message == status.message


def test_a_stop_that_could_not_be_read_is_a_loss_under_its_own_number() -> None:
    stop = Stop(StopReason.MAIN_CONTAINER_ENDED, NOW)
    status = after(Stopped(NEVER, stop.reason), stop=stop)
    assert (status.loss_count, status.run, len(status.runs)) == (1, 1, 1)


def test_a_clock_is_named_however_long_the_message_before_it() -> None:
    wants = {"retry": retry(limit=1, delay=seconds(9)), "good_until": NOW + seconds(1)}
    status = after(Failed(RAN, Error("Busy", "x" * 4090, is_reported=True)), wants=wants)
    assert str(status.message).endswith("before its `goodUntil`, 2026-01-01T12:00:01Z")
    assert len(str(status.message)) <= 4096


def test_a_task_whose_first_run_was_lost_before_it_was_seen_is_not_expired_without_a_run() -> None:
    lost = outcome.of(task(State.CLAIMED, wants={"good_until": NOW + seconds(1)}), Lost(NEVER, "gone"), NOW)
    of = replace(task(wants={"good_until": NOW + seconds(1)}), status=lost)
    assert outcome.expired(of, NEVER, NOW + seconds(1)).state is State.EXCEPTION
