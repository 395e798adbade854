"""Whether a failed run is followed by another, and when."""

import hashlib
from datetime import datetime, timedelta
from typing import assert_never

from taskyard.core import clocks
from taskyard.core.model import Error, Task
from taskyard.core.spec import Retry
from taskyard.core.words import Backoff, ErrorCode


def delay_before(task: Task) -> timedelta:
    """How long the next retry waits, after as many as there were."""
    policy, number = task.spec.retry, task.status.retry_count + 1
    if policy.intervals:
        return policy.intervals[min(number, len(policy.intervals)) - 1]
    return curve(policy, number, chance(task.uid, number))


def curve(policy: Retry, number: int, draw: float) -> timedelta:
    """The delay before retry `number`, from 1; `draw` is from [0, 1). The cap comes after the draw."""
    base = policy.delay
    if base is None:
        return timedelta(0)
    doubled = base.total_seconds() * 2.0 ** min(number, 64)
    match policy.backoff:
        case Backoff.CONSTANT:
            delay = base.total_seconds()
        case Backoff.LINEAR:
            delay = base.total_seconds() * number
        case Backoff.EXPONENTIAL:
            delay = doubled
        case Backoff.EXPONENTIAL_JITTER:
            delay = doubled * draw
        case _:
            assert_never(policy.backoff)
    return timedelta(seconds=min(delay, policy.max_delay.total_seconds()))


def chance(uid: str, number: int) -> float:
    """A number from [0, 1), even over all tasks and retries, and the same whoever computes it again."""
    digest = hashlib.sha256(f"{uid}/{number}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def next_start(task: Task, now: datetime) -> datetime:
    """When the next run may start; `now` without a delay, else a whole second."""
    delay = delay_before(task)
    return clocks.whole_second(now + delay) if delay else now


def why_not(
    task: Task, error: Error, exit_code: int | None, retryable: bool | None, now: datetime
) -> str | None:
    """Why this failure is not followed by another run, as a sentence; None if it is; "" if none was asked for."""
    policy, spent = task.spec.retry, task.status.retry_count
    if policy.limit == 0:
        return ""
    if error.code == ErrorCode.MALFORMED_PAYLOAD:
        return "a malformed payload stays malformed"
    if not is_expected(policy, error, exit_code, retryable):
        return "the task said so" if retryable is False else "it is not one that `retry.expected` lists"
    if spent >= policy.limit:
        return f"all {policy.limit} retries are spent"
    return clocks.too_late_for(task, next_start(task, now))


def is_expected(policy: Retry, error: Error, exit_code: int | None, retryable: bool | None) -> bool:
    """Whether the failure is worth another run. The task's own word counts most; a timeout is always expected."""
    if retryable is not None:
        return retryable
    if policy.expected is None or (error.code == ErrorCode.TIMEOUT and not error.is_reported):
        return True
    return error.code in policy.expected.errors or exit_code in policy.expected.exit_codes
