"""What must hold of a Task's whole life: what ran, beside what is on record."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from taskyard.core.words import ACTIVE_STATES, ErrorCode
from tests.history.objects import Job, Moment, Object, Pod
from tests.history.slim import JSON
from tests.history.task_rules import is_loss

T = TypeVar("T", bound=Object)


@dataclass
class Life:
    """Everything that was seen of one Task, in order."""

    moments: list[Moment] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)

    def starts(self) -> list[Pod]:
        """Each pod whose main container has started, as it was when that was first seen; in the order of attempts."""
        first: dict[str, Pod] = {}
        for pod in self.pods:
            if pod.main_started_at is not None:
                first.setdefault(pod.uid, pod)
        return sorted(first.values(), key=lambda pod: (pod.attempt, pod.at))

    def verdict_on(self, pod: Pod) -> Moment | None:
        """The Task when it was resolved after that pod's start; as it is now, if it was resolved before; or nothing."""
        later = [each for each in self.moments if each.state.is_terminal and each.at > pod.at]
        last = self.moments[-1] if self.moments else None
        return next(iter(later), last if last is not None and last.state.is_terminal else None)

    def rerun_of(self, attempt: int) -> int | None:
        """In which rerun an attempt was claimed, if it was seen before its end."""
        first = next((each for each in self.moments if each.number("attempt") == attempt), None)
        is_telling = first is not None and first.state in ACTIVE_STATES
        return first.number("observedRerun") if first is not None and is_telling else None


def one_job_per_attempt(life: Life) -> Iterator[str]:
    """Two Jobs of an attempt are two that may run it, even one after the other. One that only holds the name runs
    nothing, and may follow; none may follow it."""
    jobs: dict[int, dict[str, str]] = {}
    for job in life.jobs:
        known = jobs.setdefault(job.attempt, {})
        if not job.is_placeholder or not known:
            known[job.uid] = job.name
    for attempt, those in jobs.items():
        if len(those) > 1:
            yield f"attempt {attempt} had {len(those)} Jobs: {', '.join(sorted(those.values()))}"


def no_job_at_work_is_deleted(life: Life) -> Iterator[str]:
    """But by whoever stops the run, and has said so. A watch does not tell who deleted it: tests mark what they delete,
    and with its namespace everything goes; so it counts only where the Task went on to another Job."""
    ends: dict[str, Job] = {}
    for job in life.jobs:
        if job.is_gone or job.is_deleting:
            ends.setdefault(job.uid, job)
    for job in ends.values():
        if job.is_placeholder or job.is_by_hand or not any(each.attempt > job.attempt for each in life.jobs):
            continue
        task = _as_it_was(life.moments, job.at)
        if task is None or task.state not in ACTIVE_STATES or task.number("attempt") != job.attempt:
            continue
        own = {pod.uid for pod in life.pods if pod.owner == job.uid}
        pods = [_as_it_was([pod for pod in life.pods if pod.uid == uid], job.at) for uid in own]
        at_work = [pod.name for pod in pods if pod is not None and pod.is_alive and not pod.is_deleting]
        if at_work and "stop" not in task.status and not task.is_deleting:
            yield f"Job {job.name} was deleted while pod {at_work[0]} was at work, and nobody had asked for a stop"


def what_started_is_on_record(life: Life) -> Iterator[str]:
    """Whatever the hour: before or after `goodUntil`, `deadline` or a cancel."""
    for pod in life.starts():
        task = life.verdict_on(pod)
        if task is not None and run_of(pod, task) is None and not _may_be_missing(pod, task):
            yield f"pod {pod.name} (attempt {pod.attempt}) started{_late(pod, task)}, and no run of it is on record"


def at_most_once_is_kept(life: Life) -> Iterator[str]:
    """Without a budget for losses nothing is started after one; but for a rerun, which somebody asked for."""
    starts = life.starts()
    for pod, later in itertools.pairwise(starts):
        task = life.verdict_on(later)
        if task is None or task.spec["retry"]["infrastructureLimit"] > 0:
            continue
        run, reruns = run_of(pod, task), (life.rerun_of(pod.attempt), life.rerun_of(later.attempt))
        if run is not None and is_loss(run) and None not in reruns and reruns[0] == reruns[1]:
            yield f"pod {later.name} started after a loss, of {pod.name}, and no loss is allowed"


def run_of(pod: Pod, task: Moment) -> JSON | None:
    """The record of that pod's run: by the name of the pod, or by its attempt."""
    return next(
        (run for run in task.runs if run.get("pod") == pod.name or run["attempt"] == pod.attempt), None
    )


def _as_it_was(sights: list[T], at: int) -> T | None:
    """An object at that place in the recording; nothing if some write around it may not have been seen."""
    before = [each for each in sights if each.at < at]
    after = next((each for each in sights if each.at > at), None)
    return before[-1] if before and after is not None and after.is_exact else None


def _may_be_missing(pod: Pod, task: Moment) -> bool:
    """The oldest runs go when there are many; and of a pod that was given up at a deadline nobody may know."""
    was_cut = task.number("runCount") > len(task.runs)
    if was_cut and pod.attempt < min((run["attempt"] for run in task.runs), default=0):
        return True
    return task.at < pod.at and task.status.get("reason") == ErrorCode.DEADLINE_EXCEEDED


def _late(pod: Pod, task: Moment) -> str:
    started_at = pod.main_started_at
    assert started_at is not None
    clocks = (("goodUntil", task.good_until), ("deadline", task.deadline))
    missed = [name for name, clock in clocks if _is_past(started_at, clock)]
    missed += ["cancel"] if task.spec["cancel"] else []
    return f" (too late for `{'`, `'.join(missed)}`)" if missed else ""


def _is_past(moment: datetime, clock: datetime | None) -> bool:
    return clock is not None and moment > clock


LIVES: Final[tuple[Callable[[Life], Iterator[str]], ...]] = (
    one_job_per_attempt,
    no_job_at_work_is_deleted,
    what_started_is_on_record,
    at_most_once_is_kept,
)
