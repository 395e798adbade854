"""Whether there is another run, and when."""

from datetime import timedelta
from typing import Any

import pytest

from taskyard.core.model import Error, Task
from taskyard.core.retry import chance, curve, delay_before, is_expected, next_start, why_not
from taskyard.core.spec import Expected, Retry
from taskyard.core.words import Backoff, ErrorCode, State
from tests.unit.build import NOW, retry, seconds, task

EXIT = Error(ErrorCode.EXIT_CODE, "m")
ON_75_OR_BUSY = Expected(frozenset({75}), frozenset({"Busy"}))


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [
        pytest.param(Backoff.CONSTANT, [3, 3, 3, 3], id="constant: d"),
        pytest.param(Backoff.LINEAR, [3, 6, 9, 12], id="linear: d n"),
        pytest.param(Backoff.EXPONENTIAL, [6, 12, 24, 48], id="exponential: d 2^n"),
        pytest.param(
            Backoff.EXPONENTIAL_JITTER, [1.5, 3, 6, 12], id="jitter: a part of d 2^n, here a quarter"
        ),
    ],
)
def test_curves_from_retry_1_on(backoff: Backoff, delays: list[float]) -> None:
    policy = retry(backoff=backoff, delay=seconds(3))
    assert [curve(policy, number, 0.25).total_seconds() for number in (1, 2, 3, 4)] == delays


@pytest.mark.parametrize(
    ("draw", "delay"),
    [
        pytest.param(0.5, 10.0, id="16 is capped"),
        pytest.param(0.25, 8.0, id="8 is not: the cap comes after the draw"),
        pytest.param(0.0, 0.0, id="jitter may be nothing"),
    ],
)
def test_the_cap_comes_after_the_draw(draw: float, delay: float) -> None:
    policy = retry(backoff=Backoff.EXPONENTIAL_JITTER, delay=seconds(4), max_delay=seconds(10))
    assert curve(policy, 3, draw).total_seconds() == delay


def test_a_thousandth_retry_is_no_overflow() -> None:
    policy = retry(backoff=Backoff.EXPONENTIAL, delay=seconds(31_536_000))
    assert curve(policy, 1000, 0.5) == seconds(3600)


def test_without_a_delay_a_retry_is_at_once() -> None:
    assert delay_before(task(State.RUNNING, wants={"retry": retry(limit=1)})) == timedelta(0)
    assert next_start(task(wants={"retry": retry(limit=1)}), NOW + seconds(0.3)) == NOW + seconds(0.3)


def test_intervals_are_taken_one_by_one() -> None:
    policy = retry(limit=3, intervals=(seconds(5), seconds(1), seconds(7200)))
    taken = [delay_before(task(wants={"retry": policy}, retry_count=count)) for count in (0, 1, 2)]
    assert taken == [seconds(5), seconds(1), seconds(7200)], "the cap is for curves"


def test_a_delay_ends_on_a_whole_second_and_is_never_shorter() -> None:
    of = task(wants={"retry": retry(limit=1, delay=seconds(2))})
    assert next_start(of, NOW) == NOW + seconds(2)
    assert next_start(of, NOW + seconds(0.1)) == NOW + seconds(3)


def test_chance_is_even_and_the_same_for_whoever_asks() -> None:
    draws = [chance(f"uid-{number}", 1) for number in range(4000)]
    assert chance("uid-7", 1) == draws[7]
    assert all(0.0 <= draw < 1.0 for draw in draws)
    for quarter in range(4):
        share = sum(quarter / 4 <= draw < (quarter + 1) / 4 for draw in draws) / 4000
        assert 0.22 < share < 0.28


@pytest.mark.parametrize(
    ("error", "exit_code", "retryable", "expected"),
    [
        pytest.param(EXIT, 75, None, True, id="an exit code that is listed"),
        pytest.param(EXIT, 1, None, False, id="one that is not"),
        pytest.param(Error("Busy", "m", is_reported=True), 0, None, True, id="an error that is listed"),
        pytest.param(Error("Other", "m", is_reported=True), 0, None, False, id="an error that is not"),
        pytest.param(Error("Other", "m", is_reported=True), 75, None, True, id="either will do"),
        pytest.param(Error(ErrorCode.TIMEOUT, "m"), 143, None, True, id="a timeout is always expected"),
        pytest.param(
            Error(ErrorCode.TIMEOUT, "m", is_reported=True), 0, None, False, id="one that it made up is not"
        ),
        pytest.param(
            Error("Busy", "m", is_reported=True), 0, False, False, id="the task's own no counts more"
        ),
        pytest.param(Error("Other", "m", is_reported=True), 0, True, True, id="and its own yes"),
    ],
)
def test_expected_failures(
    error: Error, exit_code: int | None, retryable: bool | None, expected: bool
) -> None:
    assert is_expected(retry(expected=ON_75_OR_BUSY), error, exit_code, retryable) is expected


def failed(policy: Retry, spent: int = 0, **wants: Any) -> Task:
    return task(State.RUNNING, wants={"retry": policy, **wants}, retry_count=spent)


@pytest.mark.parametrize(
    ("of", "error", "why"),
    [
        pytest.param(failed(retry(limit=1)), EXIT, None, id="another run"),
        pytest.param(failed(retry()), EXIT, "", id="none was asked for, and none is missed"),
        pytest.param(failed(retry(limit=2), 1), EXIT, None, id="the last one"),
        pytest.param(failed(retry(limit=2), 2), EXIT, "all 2 retries are spent", id="no more"),
        pytest.param(
            failed(retry(limit=1)),
            Error(ErrorCode.MALFORMED_PAYLOAD, "m", is_reported=True),
            "a malformed payload stays malformed",
            id="never",
        ),
        pytest.param(
            failed(retry(limit=1, expected=ON_75_OR_BUSY)),
            EXIT,
            "it is not one that `retry.expected` lists",
            id="not worth it",
        ),
        pytest.param(
            failed(retry(limit=1, delay=seconds(60)), good_until=NOW + seconds(60)),
            EXIT,
            "the next run could not start before its `goodUntil`, 2026-01-01T12:01:00Z",
            id="too late to start",
        ),
        pytest.param(
            failed(retry(limit=1, delay=seconds(60)), deadline=NOW + seconds(59)),
            EXIT,
            "the next run could not start before its `deadline`, 2026-01-01T12:00:59Z",
            id="too late for anything",
        ),
        pytest.param(
            failed(retry(limit=1, delay=seconds(60)), deadline=NOW + seconds(61)), EXIT, None, id="in time"
        ),
    ],
)
def test_why_not(of: Task, error: Error, why: str | None) -> None:
    assert why_not(of, error, 3, None, NOW) == why
