"""What a Task asks for, as records: frozen, and shared by all Tasks that ask for the same."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from taskyard.core.words import (
    Backoff,
    DeadLetterPolicy,
    DefinitionKind,
    LogPolicy,
    OnDependencyFailure,
    OnDuplicate,
    OnShutdown,
    Requires,
)


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
class DefinitionRef:
    """`spec.definitionRef`."""

    kind: DefinitionKind
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Spec:
    """`Task.spec`, less the template and the input, which only a launch needs; nothing is left open in it.

    What the Task does not say its definition does, or it is built in; see `defaults`.
    """

    main_container: str
    grace: timedelta
    """Between SIGTERM and SIGKILL."""
    definition: DefinitionRef | None
    dependencies: tuple[str, ...]
    requires: Requires
    on_dependency_failure: OnDependencyFailure
    release: bool
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
    idempotency_key: str | None
    on_duplicate: OnDuplicate
    suspend: bool
    cancel: bool
    rerun: int
    on_shutdown: OnShutdown
    dead_letter: DeadLetterPolicy
    logs: LogPolicy
    ttl: timedelta
