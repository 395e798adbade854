"""What must hold whenever nobody has anything to do: nothing was forgotten, and somebody will wake up in time."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from taskyard.cluster import PODS
from taskyard.core import circles, clocks, dependencies, parse, stopping
from taskyard.core.actions import Ask, DeleteTask, Look
from taskyard.core.decide import decide, is_of_run
from taskyard.core.model import Snapshot
from taskyard.core.parse import version
from taskyard.core.words import ACTIVE_STATES
from tests.unit.fake import Object
from tests.unit.simulation.ground import Ground, Violation, is_deleting, name_of, uid_of
from tests.unit.simulation.life import Life

FAR: Final = (timedelta(minutes=1), timedelta(hours=5), timedelta(days=400))
GIVEN_UP_AFTER: Final = timedelta(seconds=31)
A_MOMENT: Final = timedelta(milliseconds=1)


def check_rest(ground: Ground, lives: Sequence[Life]) -> None:
    """Every operator that hears everything is where it should be with every task."""
    if len(lives) == 1 and not lives[0].has_missed:
        _nobody_hangs_in_a_circle(ground, lives[0])
    for life in lives:
        # Within a rounding error of a ring nobody rests yet: to ask whose turn it is would be that task's turn.
        if not life.has_missed and not _is_now(ground, life.next_ring()):
            for task in ground.tasks():
                _check(ground, life, task)


def _is_now(ground: Ground, ring: float | None) -> bool:
    return ring is not None and ring <= ground.elapsed + 1e-3


def _nobody_hangs_in_a_circle(ground: Ground, life: Life) -> None:
    """Tasks that wait for each other wait for ever, unless somebody holds one of them, who may mend it. To say so may
    take more than one try.

    Those that are resolved already, because it is one, leave the others in it: who resolved them may have died since.
    """
    tasks = {name_of(each): parse.task(each) for each in ground.tasks() if not is_deleting(each)}

    def leads_to(name: str) -> Iterable[str]:
        return (other.name for other in dependencies.leads_to(tasks[name], tasks.get))

    for circle in circles.find(tasks, leads_to):
        members = [tasks[name] for name in circle.members]
        if not all(
            each.status.state.is_terminal
            or each.spec.suspend
            or life.is_waiting_to_try_again(each.uid)
            or any(pod.is_alive for pod in life.cache.pods_of(each.uid))  # who is busy is not resolved
            for each in members
        ):
            raise Violation(f"a circle, and nobody says so: {sorted(circle.members)}")


def _check(ground: Ground, life: Life, task: Object) -> None:
    uid, name = uid_of(task), name_of(task)
    snapshot = life.snapshot(uid)
    if snapshot is None:
        raise Violation(f"{life.name} knows nothing of {name}")
    if snapshot.task.resource_version != version(task):
        raise Violation(f"{life.name} knows an old {name}")
    ring = life.ring_of(uid)
    if _is_now(ground, ring):
        return
    if life.is_waiting_to_try_again(uid):
        if ring is None:
            raise Violation(f"{life.name} failed with {name}, and will not try again")
        return
    decision = decide(snapshot, ground.now)
    if isinstance(decision.action, Ask):
        # It has asked, and is told of every change since: the answer is still the same.
        snapshot = _answered(ground, snapshot, decision.action)
        decision = decide(snapshot, ground.now)
    if isinstance(decision.action, Look | Ask):
        if ring is None:
            raise Violation(f"{life.name} would look at {name}, and nothing reminds it")
        return
    if isinstance(decision.action, DeleteTask) and ring is not None:
        return  # kept for others a moment ago: that they need it no longer is asked by the clock
    if decision.action is not None:
        raise Violation(f"{life.name} is at rest, and would still do {decision.action} with {name}")
    if decision.wake_at is not None:
        due = (decision.wake_at - ground.now).total_seconds() + ground.elapsed
        if ring is None or ring > due + 1e-3:
            raise Violation(
                f"{life.name} is to wake up for {name} at {decision.wake_at}, and rings at {ring}"
            )
    _sleeps_until(snapshot, ground.now, decision.wake_at, f"{life.name} with {name}")
    _has_a_reason(ground, task, ring)
    _keeps_its_deadline(ground, snapshot)
    _gives_up_the_unreachable(ground, snapshot)


def _answered(ground: Ground, snapshot: Snapshot, ask: Ask) -> Snapshot:
    there = {name_of(each) for each in ground.tasks()}
    return replace(snapshot, absent=frozenset(ask.tasks) - there, asked=ask.definition)


def _sleeps_until(snapshot: Snapshot, now: datetime, wake_at: datetime | None, who: str) -> None:
    """Nothing that time alone brings about is missed."""
    until = (
        [now + each for each in FAR] if wake_at is None else [wake_at - A_MOMENT, now + (wake_at - now) / 2]
    )
    for moment in until:
        if moment > now and (action := decide(snapshot, moment).action) is not None:
            raise Violation(f"{who} sleeps until {wake_at}, and would do {action} at {moment}")


def _keeps_its_deadline(ground: Ground, snapshot: Snapshot) -> None:
    """A task past its deadline is resolved, or being stopped; and that does not take for ever."""
    task = snapshot.task
    deadline, stop = clocks.deadline(task), task.status.stop
    if task.status.state.is_terminal or task.deleting or deadline is None or ground.now <= deadline:
        return
    if any(stopping.evidence_until(task, pod, ground.now) for pod in snapshot.pods if pod.is_over):
        return  # it has ended, and how is about to be told
    if stop is None or ground.now > max(stop.requested_at, deadline) + task.spec.grace + GIVEN_UP_AFTER:
        raise Violation(f"{task.name} is {task.status.state}, and its deadline has passed")


def _gives_up_the_unreachable(ground: Ground, snapshot: Snapshot) -> None:
    """Whoever takes that risk does not wait for a node any longer than he said."""
    task = snapshot.task
    for pod in snapshot.pods if task.status.state in ACTIVE_STATES else ():
        given_up_at = stopping.unreachable_until(task, pod)
        stored = ground.find(PODS, pod.uid)
        if is_of_run(pod, task) and pod.is_alive and stored is not None and given_up_at is not None:
            is_forced = stored["metadata"].get("deletionGracePeriodSeconds") == 0
            if ground.now > given_up_at and not is_forced:
                raise Violation(f"{pod.name} is unreachable, and is still waited for")


def _has_a_reason(ground: Ground, task: Object, ring: float | None) -> None:
    """A task that is not resolved has a timer, a pod that lives, or words for what it waits for."""
    status = task["status"]
    if status["phase"] == "Finished" or "deletionTimestamp" in task["metadata"] or ring is not None:
        return
    lives = any(ground.task_of(pod) is task for pod in ground.living_pods())
    if not lives and not (status.get("reason") and status.get("message")):
        raise Violation(f"{name_of(task)} is {status['state']} and waits for nothing")
