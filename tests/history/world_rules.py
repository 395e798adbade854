"""What must hold of a Task, its Jobs and its pods together, at the instant of each write."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

from taskyard.core.words import ACTIVE_STATES, Reason, State
from tests.history.objects import Job, Moment, Pod
from tests.history.recording import Object
from tests.history.task_rules import RESOLUTION, was_given_up
from tests.history.world import World


def one_pod_at_a_time(now: Object, world: World) -> Iterator[str]:
    """The promise: one non-terminal pod object, with any number of operators."""
    if not isinstance(now, Pod) or not now.is_alive or _was_alive(now, world):
        return
    for other in world.pods_of(now.task):
        if other.is_alive and other.uid != now.uid:
            yield f"pod {now.name} (attempt {now.attempt}) is there while {_told(other)} has not ended"


def jobs_are_of_claims(now: Object, world: World) -> Iterator[str]:
    """The claim is written first: no Job is ahead of it."""
    task = _task_of_new_job(now, world)
    if task is not None and isinstance(now, Job) and now.attempt > task.number("attempt"):
        yield f"Job {now.name} is of attempt {now.attempt}, and attempt {task.number('attempt')} is claimed"


def jobs_are_named_by_their_attempt(now: Object, world: World) -> Iterator[str]:
    """A name that everybody computes alike is what makes a second Job of an attempt impossible."""
    if not isinstance(now, Job) or world.before(now) is not None:
        return
    suffix = f"-{hashlib.sha256(now.task.encode()).hexdigest()[:8]}-{now.attempt}"
    if not now.name.endswith(suffix):
        yield f"Job {now.name} is of attempt {now.attempt}, and its name does not end with {suffix}"


def no_job_follows_a_verdict(now: Object, world: World) -> Iterator[str]:
    task = _task_of_new_job(now, world)
    if task is not None and task.state.is_terminal:
        yield f"Job {now.name} was created when it was {task.state} already"


def no_job_follows_a_stop(now: Object, world: World) -> Iterator[str]:
    """A cancel, a clock: once it is on record, nothing is begun. A placeholder begins nothing."""
    task = _task_of_new_job(now, world)
    if task is None or not isinstance(now, Job) or now.is_placeholder:
        return
    stop = task.status.get("stop")
    if stop is not None and now.attempt == task.number("attempt"):
        yield f"Job {now.name} was created when it was being stopped already ({stop['reason']})"


def no_job_is_late(now: Object, world: World) -> Iterator[str]:
    task = _task_of_new_job(now, world)
    if task is None or not isinstance(now, Job) or now.is_placeholder:
        return
    for name, clock in (("goodUntil", task.good_until), ("deadline", task.deadline)):
        if clock is not None and now.created > clock + RESOLUTION:
            yield f"Job {now.name} was created at {now.created}, after its `{name}`, {clock}"


def placeholders_make_no_pods(now: Object, world: World) -> Iterator[str]:
    if not isinstance(now, Pod) or world.before(now) is not None:
        return
    job = world.job(now.owner)
    if job is not None and job.is_placeholder:
        yield f"pod {now.name} was made by {job.name}, which only holds a name"


def runs_end_with_their_pods(now: Object, world: World) -> Iterator[str]:
    """A run is over, and a task has its verdict, only when each of its pods is terminal or gone."""
    before = world.before(now)
    if not isinstance(now, Moment) or not isinstance(before, Moment) or not now.is_exact:
        return
    is_over = before.state in ACTIVE_STATES and now.state not in ACTIVE_STATES
    is_resolved = now.state.is_terminal and not before.state.is_terminal
    if not (is_over or is_resolved) or was_given_up(before, now):
        return
    for pod in world.pods_of(now.uid):
        if pod.is_alive and pod.uid not in world.given_up:
            yield f"{before.state} became {now.state} while {_told(pod)} had not ended"


def what_is_given_back_has_not_started(now: Object, world: World) -> Iterator[str]:
    """A claim is given back for free only if no code of it ran, init containers included."""
    before = world.before(now)
    if not isinstance(now, Moment) or not isinstance(before, Moment) or not now.is_exact:
        return
    if before.state is not State.CLAIMED or now.status.get("reason") != Reason.GIVEN_BACK:
        return
    for pod in world.pods_of(now.uid):
        if pod.attempt == now.number("attempt") and pod.has_started:
            yield f"its claim was given back, and {_told(pod)} had started"


def _task_of_new_job(now: Object, world: World) -> Moment | None:
    """The Task as it was when this Job was created, if that is now."""
    return world.task_of(now) if isinstance(now, Job) and now.type == "ADDED" else None


def _was_alive(pod: Pod, world: World) -> bool:
    before = world.before(pod)
    return isinstance(before, Pod) and before.is_alive


def _told(pod: Pod) -> str:
    return f"pod {pod.name} (attempt {pod.attempt}, {pod.phase})"


INSTANTS: Final[tuple[Callable[[Object, World], Iterator[str]], ...]] = (
    one_pod_at_a_time,
    jobs_are_of_claims,
    jobs_are_named_by_their_attempt,
    no_job_follows_a_verdict,
    no_job_follows_a_stop,
    no_job_is_late,
    placeholders_make_no_pods,
    runs_end_with_their_pods,
    what_is_given_back_has_not_started,
)
