"""What a Task asks for, as records: frozen, and shared by all Tasks that ask for the same."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from taskyard.core.words import Backoff, DeadLetterPolicy, LogPolicy, OnShutdown


@dataclass(frozen=True, slots=True)
class Expected:
    """`retry.expected`: which of the task's own failures are worth another run."""

    exit_codes: frozenset[int]
    errors: frozenset[str]


@dataclass(frozen=True, slots=True)
class Retry:
    """`spec.retry`. `expected` absent: every failure is."""

    limit: int
    backoff: Backoff
    delay: timedelta | None
    max_delay: timedelta
    intervals: tuple[timedelta, ...]
    expected: Expected | None
    infrastructure_limit: int


@dataclass(frozen=True, slots=True)
class Definition:
    """`spec.definitionRef`."""

    kind: str
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Spec:
    """`Task.spec`, less the template and the input, which only a launch needs.

    Defaults are the API server's business: whatever has one in the CRD is always there.
    """

    main_container: str
    grace: timedelta
    """Between SIGTERM and SIGKILL."""
    definition: Definition | None
    queue: str
    priority: int
    run_at: datetime | None
    start_delay: timedelta | None
    good_until: datetime | None
    good_for: timedelta | None
    deadline: datetime | None
    deadline_after: timedelta | None
    schedule_timeout: timedelta
    start_timeout: timedelta
    start_limit: int
    timeout: timedelta | None
    retry: Retry
    unreachable_timeout: timedelta | None
    suspend: bool
    cancel: bool
    rerun: int
    on_shutdown: OnShutdown
    dead_letter: DeadLetterPolicy
    logs: LogPolicy
    ttl: timedelta
