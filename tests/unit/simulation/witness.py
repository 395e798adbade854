"""What must hold of every write, whoever makes it and whatever happened before."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from taskyard.cluster import JOBS, PODS, TASKS, Kind
from taskyard.core import clocks, manifest, parse
from taskyard.core.model import Task
from taskyard.core.transitions import TRANSITIONS
from taskyard.core.words import ACTIVE_STATES, ErrorCode, Reason, State
from tests.unit.fake import Object
from tests.unit.simulation.ground import (
    Ground,
    Violation,
    has_condition,
    has_started,
    is_alive,
    is_deleting,
    is_placeholder,
    name_of,
    owner_uid,
    uid_of,
)
from tests.unit.simulation.schema import complaints, status_schema

STATUS_SCHEMA: Final = status_schema()


@dataclass
class Known:
    """What the witness remembers of a task."""

    was_cancelled: bool = False
    """Since it was submitted, or run again."""
    attempt: int = 0
    """The last one before that."""
    started_pods: set[str] = field(default_factory=set)
    """Those in which code of the user's ran, since then."""
    succeeded_attempts: set[int] = field(default_factory=set)


class Witness:
    """Sees every change of the cluster, and every write of an operator."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._known: dict[str, Known] = {}
        self.made: set[str] = set()
        """The names of all Jobs that ever were; each is of one attempt of one task."""
        self.edges: Counter[tuple[State, State]] = Counter()
        ground.cluster.watch(self._see)

    def _of(self, uid: str) -> Known:
        return self._known.setdefault(uid, Known())

    # What happens in the cluster.

    def _see(self, kind: Kind, event: str, obj: Object) -> None:
        if kind == TASKS and obj["spec"]["cancel"]:
            self._of(uid_of(obj)).was_cancelled = True
        if kind == PODS and event != "DELETED":
            self._see_pod(obj)

    def _see_pod(self, pod: Object) -> None:
        labels, uid = pod["metadata"]["labels"], self._ground.task_uid(pod)
        known = self._of(uid)
        ends = [each["state"].get("terminated") for each in pod["status"].get("containerStatuses", [])]
        if ends and ends[0] is not None and ends[0]["exitCode"] == 0:
            known.succeeded_attempts.add(int(labels[manifest.LABEL_ATTEMPT]))
        is_recent = int(labels[manifest.LABEL_ATTEMPT]) > known.attempt
        if is_recent and has_started(pod) and not self._is_excused(pod):
            known.started_pods.add(uid_of(pod))
        if not is_alive(pod):
            return
        living = [name_of(each) for each in self._living(uid) if not self._is_excused(each)]
        if len(living) > 1:
            raise Violation(f"two pods of one task are not over: {', '.join(living)}")
        task = self._ground.find(TASKS, uid)
        if task is not None:
            self._at_most_once(parse.task(task), known)

    def _living(self, task_uid: str) -> list[Object]:
        return [pod for pod in self._ground.living_pods() if self._ground.task_uid(pod) == task_uid]

    def _is_excused(self, pod: Object) -> bool:
        """Forged, or out of sight: without its label only its Job knows of it, and that is going too."""
        if uid_of(pod) in self._ground.excused:
            return True
        if uid_of(pod) not in self._ground.unlabelled:
            return False
        job = self._ground.find(JOBS, owner_uid(pod) or "")
        return job is None or is_deleting(job)

    def _at_most_once(self, task: Task, known: Known) -> None:
        """Whoever asks for that gets it."""
        spec = task.spec
        if task.uid in self._ground.excused:
            return
        if spec.retry.limit == spec.retry.infrastructure_limit == 0 and spec.on_shutdown == "Stop":
            _check(len(known.started_pods) <= 1, "a task that may run at most once ran again")

    # What an operator writes.

    def job_is_created(self, job: Object, told: Object | None, began: datetime) -> None:
        """An operator asks for a Job, for what it knows of the Task."""
        assert told is not None, "nobody creates a Job without having read or written the Task"
        task = parse.task(told)
        _check(not task.deleting, "a Job for a task that is being deleted")
        _check(task.status.state is State.CLAIMED, f"a Job for a task that is {task.status.state}")
        _check(manifest.job_name(task) == name_of(job), "a Job of another attempt than the current one")
        if is_placeholder(job):
            return  # that begins nothing
        for clock, moment in (("goodUntil", clocks.good_until(task)), ("deadline", clocks.deadline(task))):
            _check(not clocks.has_struck(moment, began), f"a Job after `{clock}`")

    def job_was_created(self, who: str, job: Object) -> None:
        """One for every attempt: for another of its name somebody must have deleted the first.

        A create carries no precondition. One that arrives when a later attempt is claimed already, or when the Task
        is gone, nobody can foresee: it is excused, and its pod is to be stopped. Before that it is to be found.
        """
        uid, attempt = owner_uid(job) or "", int(job["metadata"]["labels"][manifest.LABEL_ATTEMPT])
        found = self._ground.find(TASKS, uid)
        status = parse.task(found).status if found is not None else None
        is_claimed = status is not None and status.state is State.CLAIMED and status.attempt == attempt
        if status is None or status.attempt > attempt:
            self._excuse("Job created too late", uid_of(job))
        if name_of(job) in self.made and is_claimed and not is_placeholder(job):
            _check(name_of(job) in self._ground.removed_jobs, f"the Job {name_of(job)} was made twice")
            self._excuse("Job created again", uid_of(job), uid)
        self.made.add(name_of(job))

    def _excuse(self, why: str, *uids: str) -> None:
        self._ground.happened[why] += 1
        self._ground.excused.update(uids)

    def job_is_deleted(self, job: Object) -> None:
        """An operator deletes a Job: none that is at work, unless the task says that it is to be stopped."""
        found = self._ground.find(TASKS, owner_uid(job) or "")
        if found is None or is_placeholder(job):
            return
        task = parse.task(found)
        is_current = task.status.state in ACTIVE_STATES and manifest.job_name(task) == name_of(job)
        if not is_current or task.status.stop is not None or task.deleting:
            return
        pods = [pod for pod in self._ground.pods() if owner_uid(pod) == uid_of(job)]
        is_to_begin = not (pods or job.get("status") or job["spec"].get("suspend"))
        is_at_work = is_to_begin or any(is_alive(pod) for pod in pods)
        _check(not is_at_work, f"the Job {name_of(job)} is deleted, and its run is at work")

    def task_is_deleted(self, found: Object) -> None:
        """An operator deletes a Task: when its time to live is over, and not if it is to be kept."""
        task = parse.task(found)
        is_kept = task.spec.dead_letter == "Save" and task.status.state not in {
            State.COMPLETED,
            State.CANCELLED,
        }
        _check(not is_kept, "a Task was deleted that is to be kept")
        moment = clocks.delete_at(task)
        _check(clocks.has_struck(moment, self._ground.now), "a Task was deleted before its time")

    def status_was_written(self, who: str, before: Object, after: Object) -> None:
        """The step from one status to the next."""
        old, new = _full(before), _full(after)
        edge = old.status.state, new.status.state
        written = after["status"]
        said = f"{edge[0]} → {edge[1]}" if edge[0] is not edge[1] else f"{edge[1]}"
        why = f"{written.get('reason', '')}: {written.get('message', '')}"
        self._ground.say(who, f"{new.name} attempt {new.status.attempt}: {said} {why}")
        if edge[0] is not edge[1]:
            self.edges[edge] += 1
            _check(edge in TRANSITIONS, f"no such transition: {said}")
        changed = {key: value for key, value in written.items() if before["status"].get(key) != value}
        for complaint in complaints(changed, STATUS_SCHEMA, "status"):
            raise Violation(complaint)
        known = self._of(new.uid)
        for rule in (_numbers, _budgets, _times, _conditions, _verdict):
            rule(old, new, after)
        self._truth(old, new, known)
        if old.status.state in ACTIVE_STATES and new.status.state not in ACTIVE_STATES:
            self._nothing_is_left(old)
        if old.status.state.is_terminal and not new.status.state.is_terminal:
            self._known[new.uid] = Known(new.spec.cancel, new.status.attempt)

    def _nothing_is_left(self, task: Task) -> None:
        """A run is over only when no pod of it lives, and no Job is left that would make one."""
        if task.status.stop is not None and clocks.has_struck(clocks.deadline(task), self._ground.now):
            return  # given up, after its deadline
        living = [pod for pod in self._living(task.uid) if not self._is_excused(pod)]
        _check(not living, "the run is said to be over, and its pod lives")
        for job in self._ground.jobs():
            if name_of(job) == manifest.job_name(task) and owner_uid(job) == task.uid:
                pods = [pod for pod in self._ground.pods() if owner_uid(pod) == uid_of(job)]
                is_over = is_deleting(job) or has_condition(job, "Complete") or has_condition(job, "Failed")
                is_counted = bool(
                    job.get("status", {}).get("succeeded") or job.get("status", {}).get("failed")
                )
                is_at_rest = is_over or is_counted or job["spec"].get("parallelism") == 0 or bool(pods)
                is_at_rest = is_at_rest or "uncountedTerminatedPods" in job.get("status", {})
                is_at_rest = is_at_rest or uid_of(job) in self._ground.excused
                _check(is_at_rest, "the run is said to be over, and its Job will make a pod")

    def _truth(self, old: Task, new: Task, known: Known) -> None:
        """The verdict agrees with what happened."""
        now, state = self._ground.now, new.status.state
        if old.status.state.is_terminal:
            return
        if state is State.CANCELLED:
            is_replaced = (
                new.status.reason == ErrorCode.TASK_REPLACED and new.spec.idempotency_key is not None
            )
            _check(known.was_cancelled or is_replaced, "Cancelled, and nobody asked for it")
        if state is State.COMPLETED:
            _check(new.status.attempt in known.succeeded_attempts, "Completed, and no pod succeeded")
        if state is State.EXPIRED:
            _check(clocks.has_struck(clocks.good_until(new), now), "Expired before `goodUntil`")
        if new.status.reason == "DeadlineExceeded":
            _check(clocks.has_struck(clocks.deadline(new), now), "DeadlineExceeded before the deadline")


def _full(obj: Object) -> Task:
    """All of a Task: of a resolved one the cache keeps less."""
    spec = obj["spec"] | {"rerun": obj["spec"]["rerun"] + 1_000_000}
    return parse.task(obj | {"spec": spec})


def _numbers(old: Task, new: Task, after: Object) -> None:
    before, now = old.status, new.status
    _check(now.run >= before.run, "`run` fell")
    is_claim = now.state is State.CLAIMED and before.state is not State.CLAIMED
    _check(now.attempt == before.attempt + is_claim, "`attempt` moves with every claim, and only then")
    _check(now.run_count >= before.run_count, "`runCount` fell")
    _check(now.run_count >= len(now.runs), "`runCount` is less than the runs there are")
    numbers = [run.number for run in now.runs]
    _check(numbers == sorted(set(numbers)), f"`runs` are out of order: {numbers}")
    _check(all(number <= now.run for number in numbers), "a run of a later number than `run`")
    _check(
        now.observed_generation == after["metadata"]["generation"],
        "`observedGeneration` is not that of the spec",
    )
    history = {run.number: run for run in now.runs}
    is_kept = all(history.get(run.number, run) == run for run in before.runs if run.state.is_terminal)
    _check(is_kept, "the record of a run that was over changed")
    if before.state.is_terminal and now.state is not before.state:
        rerun, observed = after["spec"]["rerun"], before.observed_rerun
        _check(rerun > observed, "a terminal state was left without `rerun`")


def _budgets(old: Task, new: Task, after: Object) -> None:
    spec, status = new.spec, new.status
    _check(status.retry_count <= spec.retry.limit, "more retries than `retry.limit`")
    _check(status.loss_count <= spec.retry.infrastructure_limit, "more losses than `infrastructureLimit`")
    _check(status.start_failures <= spec.start_limit, "more start failures than `startLimit`")
    if status.start_failures == spec.start_limit:
        _check(status.state.is_terminal, "`startLimit` is reached, and the task goes on")

    is_news = old.status.state in ACTIVE_STATES and status.state not in ACTIVE_STATES
    if is_news and status.reason in {Reason.RETRY, Reason.RETRY_DELAY}:
        _check(status.retry_count == old.status.retry_count + 1, "a retry that is not counted")
    if is_news and status.reason == Reason.RUN_LOST:
        _check(status.loss_count == old.status.loss_count + 1, "a loss that is not counted")


def _times(old: Task, new: Task, after: Object) -> None:
    written, state = after["status"], new.status.state
    _check(written["submittedAt"] == after["metadata"]["creationTimestamp"], "`submittedAt` changed")
    is_active = state in ACTIVE_STATES
    _check(("completedAt" in written) == state.is_terminal, "`completedAt` and the state disagree")
    _check(("failedAt" in written) == (state is State.FAILED), "`failedAt` and the state disagree")
    _check(not is_active or {"claimedAt", "claimedBy"} <= set(written), "claimed by nobody")
    _check("stop" not in written or is_active, "a stop, and nothing runs")
    is_waiting = not is_active and not state.is_terminal
    _check("nextRetryAt" not in written or is_waiting, "`nextRetryAt`, and no retry is waited for")
    _check(
        ("enqueuedAt" in written) or state is not State.PENDING or _is_fresh(new),
        "Pending since nobody knows when",
    )
    if old.status.started_at is not None and not old.status.state.is_terminal:
        _check(new.status.started_at == old.status.started_at, "`startedAt` is the first run's")


def _is_fresh(task: Task) -> bool:
    """Run again a moment ago: eligible from then on, and not said so."""
    return task.status.rerun_at is not None and task.status.reason is None


def _conditions(old: Task, new: Task, after: Object) -> None:
    written, state = after["status"], new.status.state
    found = {each["type"]: each["status"] for each in written["conditions"]}
    succeeded = "Unknown" if not state.is_terminal else str(state is State.COMPLETED)
    _check(
        found == {"Succeeded": succeeded, "Finished": str(state.is_terminal)}, "conditions and state disagree"
    )
    if state.is_terminal:
        since = {each["lastTransitionTime"] for each in written["conditions"]}
        _check(since == {written["completedAt"]}, "a condition changed at another time than the state")
    _check(written["phase"] == state.phase, "phase and state disagree")


def _verdict(old: Task, new: Task, after: Object) -> None:
    written, state = after["status"], new.status.state
    if not state.is_terminal:
        _check("result" not in written, "a result before the end")
        return
    error = written.get("result", {}).get("error")
    _check((error is None) == (state is State.COMPLETED), "an error and a success")
    if state is not State.COMPLETED:
        _check(bool(written.get("reason")) and bool(written.get("message")), "an end that says nothing")
    open_runs = [run.number for run in new.status.runs if not run.state.is_terminal]
    _check(not open_runs, f"the task is resolved, and its runs {open_runs} are not")


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


Rule = Callable[[Task, Task, Object], None]
