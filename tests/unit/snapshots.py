"""Snapshots of any kind, for Hypothesis: whatever the operator may find when it starts in the middle of something."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from taskyard.core import parse, record
from taskyard.core.model import (
    Container,
    Dependency,
    Error,
    Exit,
    Hindrance,
    Job,
    Live,
    Pod,
    Result,
    Run,
    Snapshot,
    Status,
    Stop,
    Task,
    Unregistered,
    Value,
    Version,
    Wait,
)
from taskyard.core.refusals import Denial, Refusal
from taskyard.core.spec import Expected, Retry, Spec
from taskyard.core.words import (
    Backoff,
    Flaw,
    LogPolicy,
    OnDependencyFailure,
    OnShutdown,
    PodPhase,
    Reason,
    Requires,
    State,
    StopReason,
)
from tests.unit.build import (
    CLAIMED,
    NOW,
    REF,
    STARTED,
    SUBMITTED,
    job,
    pod,
    retry,
    seconds,
    spec,
    task,
    version,
)
from tests.unit.fake import TASK_DEFAULTS, with_defaults

WAITING = (State.PENDING, State.DELAYED, State.UNSCHEDULED)
ACTIVE = (State.CLAIMED, State.RUNNING)
LAST_ATTEMPT = 3

moments = st.integers(-1200, 1200).map(lambda number: NOW + seconds(number))
spans = st.sampled_from([1, 5, 60, 900, 3600]).map(seconds)


def maybe(values: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """More often not."""
    return st.one_of(st.none(), st.none(), st.none(), values)


policies: SearchStrategy[Retry] = st.builds(
    retry,
    limit=st.integers(0, 3),
    backoff=st.sampled_from(Backoff),
    delay=maybe(spans),
    intervals=st.sampled_from([(), (seconds(0), seconds(5))]),
    expected=maybe(st.just(Expected(frozenset({3}), frozenset({"BadRow"})))),
    infrastructure_limit=st.integers(0, 2),
)

specs: SearchStrategy[Spec] = st.builds(
    spec,
    run_at=maybe(moments),
    start_delay=maybe(spans),
    good_until=maybe(moments),
    good_for=maybe(spans),
    deadline=maybe(moments),
    deadline_after=maybe(spans),
    dependencies=st.sampled_from([(), (), ("a",), ("a", "hello"), ("a", "b")]),
    requires=st.sampled_from(Requires),
    on_dependency_failure=st.sampled_from(OnDependencyFailure),
    release=st.sampled_from([False, False, True]),
    definition=maybe(st.just(REF)),
    schedule_timeout=spans,
    start_timeout=spans,
    start_limit=st.integers(1, 3),
    timeout=maybe(spans),
    retry=policies,
    unreachable_timeout=maybe(spans),
    suspend=st.sampled_from([False, False, False, True]),
    cancel=st.sampled_from([False, False, False, True]),
    rerun=st.integers(0, 1),
    on_shutdown=st.sampled_from(OnShutdown),
    ttl=spans,
    logs=st.sampled_from(LogPolicy),
)


@st.composite
def tasks(draw: st.DrawFn, states: Sequence[State] = tuple(State)) -> Task:
    """A task in any of these states, with a status that the operator could have left."""
    state, wants = draw(st.sampled_from(states)), draw(specs)
    attempt, number = draw(st.integers(0, LAST_ATTEMPT)), draw(st.integers(0, 2))
    status: dict[str, Any] = {
        "observed_generation": draw(st.integers(0, 2)) if state is State.PENDING else draw(st.integers(1, 2)),
        "attempt": attempt,
        "run": number,
        "retry_count": draw(st.integers(0, wants.retry.limit)),
        "loss_count": draw(st.integers(0, wants.retry.infrastructure_limit)),
        "start_failures": draw(st.integers(0, wants.start_limit - 1)),
        "runs": tuple(
            Run(each, each, State.FAILED, "ExitCode", started_at=SUBMITTED) for each in range(number)
        ),
    }
    if number:
        status["started_at"] = SUBMITTED
    if state in {State.CLAIMED, State.RUNNING}:
        status |= {
            "attempt": max(attempt, 1),
            "claimed_at": CLAIMED,
            "claimed_by": "op",
            "enqueued_at": SUBMITTED,
        }
        status["stop"] = draw(maybe(st.builds(Stop, st.sampled_from(StopReason), moments)))
    if state is State.RUNNING:
        run = Run(number, status["attempt"], State.RUNNING, pod="hello-1-abcde", started_at=STARTED)
        status |= {"runs": (*status["runs"], run), "started_at": status.get("started_at", STARTED)}
    if state is State.DELAYED:
        status["next_retry_at"] = draw(maybe(moments))
    if state.is_terminal:
        status["completed_at"] = draw(moments)
    found = task(state, deleting=draw(st.sampled_from([False] * 5 + [True])), generation=2, **status)
    return replace(found, spec=wants)


@st.composite
def containers(draw: st.DrawFn, name: str = "main") -> Container:
    started_at = draw(maybe(moments)) or STARTED
    ended = Exit(
        draw(st.sampled_from([0, 1, 3, 137])),
        draw(st.sampled_from(["Error", "OOMKilled", "Unknown"])),
        None,
        NOW,
    )
    return draw(
        st.sampled_from(
            [
                Container(name),
                Container(name, started_at),
                Container(name, started_at, ended),
                Container(name, None, ended),
            ]
        )
    )


@st.composite
def pods(draw: st.DrawFn, number: int, current: int) -> Pod:
    phase = draw(st.sampled_from([PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED]))
    deleting = draw(st.booleans())
    return pod(
        phase,
        draw(containers()),
        name=f"hello-{number}-abcde",
        uid=f"pod-uid-{number}",
        attempt=draw(st.sampled_from([current, current, current - 1])),
        node=draw(st.sampled_from([None, "node-1"])),
        gone=draw(st.sampled_from([False, False, True])),
        deleting=deleting,
        deleted_at=draw(moments) if deleting else None,
        scheduled_at=draw(maybe(moments)),
        active_deadline=draw(st.sampled_from([None, 1, 600])),
        reason=draw(st.sampled_from([None, None, "DeadlineExceeded", "Evicted", "OutOfcpu"])),
        disruption=draw(st.sampled_from([None, None, "EvictionByEvictionAPI", "DeletionByTaintManager"])),
        hindrance=draw(
            maybe(st.builds(Hindrance, st.just(Reason.IMAGE_PULL), st.text(max_size=9), st.booleans()))
        ),
    )


definitions: SearchStrategy[Version | Unregistered] = st.one_of(
    st.just(version()), st.just(Unregistered("no")), st.just(Unregistered("old", retired=version()))
)


@st.composite
def jobs(draw: st.DrawFn, owner: Task) -> Job:
    return job(
        owner_uid=draw(st.sampled_from([owner.uid, owner.uid, "another"])),
        attempt=owner.status.attempt,
        succeeded=draw(st.booleans()),
        failed=draw(st.booleans()),
        deleting=draw(st.booleans()),
        suspend=draw(st.booleans()),
        is_suspended=draw(st.booleans()),
    )


@st.composite
def snapshots(draw: st.DrawFn, states: Sequence[State] = tuple(State)) -> Snapshot:
    """One task with up to two pods, and whatever else is known of it."""
    owner = draw(tasks(states))
    found = draw(maybe(jobs(owner)))
    return Snapshot(
        task=owner,
        claimer="op",
        holds=draw(st.sampled_from(((), (Wait(Reason.QUEUE_NOT_FOUND, "there is no queue"),)))),
        pods=tuple(draw(pods(number, owner.status.attempt)) for number in range(1, draw(st.integers(1, 3)))),
        job=found,
        refusal=draw(maybe(st.builds(Refusal, st.booleans(), st.just("no"), moments))),
        denial=draw(
            maybe(
                st.builds(
                    Denial, st.sampled_from([job().name, "hello-1-abcde"]), st.just("no"), moments, moments
                )
            )
        ),
        looked_at=draw(maybe(moments)),
        live=draw(st.sampled_from([None, Live(found)])),
        definition=draw(definitions) if owner.spec.definition is not None else None,
        dependencies=draw(
            st.sampled_from([(), (Dependency("a", "uid-a"),), (Dependency("a", "uid-a", State.COMPLETED),)])
        ),
        asked=draw(st.booleans()),
    )


# Records.

printable = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
times = st.none() | moments
runs = st.builds(
    Run,
    number=st.integers(0, 9),
    attempt=st.integers(0, 9),
    state=st.sampled_from(State),
    reason=st.none() | printable,
    error_code=st.none() | printable,
    pod=st.none() | printable,
    started_at=times,
    finished_at=times,
    exit_code=st.none() | st.integers(0, 255),
    message=st.none() | printable,
)
results = st.builds(
    Result,
    ok=st.none() | st.builds(Value, st.none() | st.integers() | printable | st.lists(st.none())),
    error=st.none() | st.builds(Error, printable, printable, st.none() | printable),
    flaws=st.sampled_from([(), (Flaw.NOT_JSON,), (Flaw.NOT_JSON, Flaw.TRUNCATED)]),
)
statuses = st.builds(
    Status,
    state=st.sampled_from(State),
    reason=st.none() | printable,
    message=st.none() | printable,
    observed_generation=st.integers(1, 9),
    observed_rerun=st.integers(0, 9),
    run=st.integers(0, 9),
    attempt=st.integers(0, 9),
    run_count=st.integers(0, 9),
    retry_count=st.integers(0, 9),
    loss_count=st.integers(0, 9),
    start_failures=st.integers(0, 9),
    submitted_at=moments,
    rerun_at=times,
    enqueued_at=times,
    claimed_at=times,
    claimed_by=st.none() | printable,
    started_at=times,
    retried_at=times,
    completed_at=times,
    failed_at=times,
    next_retry_at=times,
    log_tail=st.none() | printable,
    waiting=st.lists(st.builds(Wait, st.sampled_from(Reason), printable), max_size=2).map(tuple),
    stop=st.none() | st.builds(Stop, st.sampled_from(StopReason), moments),
    result=st.none() | results,
    runs=st.lists(runs, max_size=3).map(tuple),
)


def written(before: Task, status: Status, now: datetime) -> Task:
    """The task as it comes back after this status was written: by way of JSON, in whole seconds."""
    recorded = json.loads(json.dumps(record.status_json(status)))
    metadata = {
        "namespace": before.namespace,
        "name": before.name,
        "uid": before.uid,
        "resourceVersion": str(before.resource_version + 1),
        "creationTimestamp": "2026-01-01T11:50:00Z",
    }
    # Of a resolved Task only one that is to run again is remembered whole.
    asked = {"template": {}, "rerun": status.observed_rerun + 1}
    obj = with_defaults({"metadata": metadata, "spec": asked, "status": recorded}, TASK_DEFAULTS)
    return replace(before, resource_version=before.resource_version + 1, status=parse.task(obj).status)
