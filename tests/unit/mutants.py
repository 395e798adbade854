"""Plausible mistakes in the core and beside it, one line each. Every one must be caught: see `test_mutants.py`."""

from dataclasses import dataclass
from typing import Final

TABLES: Final = "tables"
SIMULATION: Final = "simulation"
CLAIMS: Final = "claims"
FOUND: Final = "found_by_simulation"
DEPENDENCIES: Final = "dependencies"
DEFINITIONS: Final = "definitions"
RELATIONS: Final = "relations"
RIVALS: Final = "rivals"
SLOTS: Final = "slots"
DUPLICATES: Final = "duplicates"
KUEUE: Final = "kueue"
CHOOSE: Final = "choose"
LINE_RATES: Final = "line_rates"
SWEEP: Final = "sweep"


@dataclass(frozen=True)
class Mutant:
    """`old` is a line of a module of the core, or a part of one that occurs once; with `new` in its place it is wrong.

    `caught_by` is the tables of the core's modules or of one more module, a property of `test_properties.py`, or the
    simulation.
    """

    says: str
    module: str
    old: str
    new: str
    caught_by: str = TABLES


MUTANTS: Final = (
    Mutant(
        "a claim is made without a live look at the pods",
        "decide",
        "if task.status.attempt > 0 and snapshot.live is None:",
        "if task.status.attempt > 9 and snapshot.live is None:",
    ),
    Mutant(
        "a rerun takes the number of the run before it",
        "resting",
        "run=status.run + (status.recorded_run is not None),",
        "run=status.run,",
    ),
    Mutant(
        "a pod that is being deleted is left to itself",
        "decide",
        "alive = [pod for pod in pods if pod.is_alive]",
        "alive = [pod for pod in pods if pod.is_alive and not pod.deleting]",
    ),
    Mutant(
        "a task that was never resolved is run again",
        "resting",
        "if task.spec.rerun > task.status.observed_rerun:",
        "if task.spec.rerun >= task.status.observed_rerun:",
    ),
    Mutant(
        "an earlier pod does not keep a task waiting",
        "waiting",
        "if alive := earlier_pods(snapshot):",
        "if alive := earlier_pods(snapshot)[1:]:",
    ),
    Mutant(
        "a Job is created for a task that is being deleted",
        "launch",
        "if snapshot.task.deleting:",
        "if snapshot.task.deleting and snapshot.refusal is not None:",
    ),
    Mutant(
        "nobody looks why a Job makes no pod",
        "launch",
        "wake_at = clocks.next_of(now, (due, clock))",
        "wake_at = clocks.next_of(now, (clock,))",
    ),
    Mutant(
        "a refused Job is not tried again",
        "launch",
        "clocks.next_of(now, (again_at, clock))",
        "clocks.next_of(now, (clock,))",
    ),
    Mutant(
        "a stop is given up before the deadline, though the pod lives",
        "stopping",
        "return max(stop.requested_at, deadline) + task.spec.grace + PATIENCE",
        "return stop.requested_at + task.spec.grace + PATIENCE",
    ),
    Mutant(
        "nobody wakes up for a timeout",
        "stopping",
        "return clocks.deadline(task), clocks.timeout_at(task, started_at)",
        "return (clocks.deadline(task),)",
    ),
    Mutant(
        "a pod without a node is asked to end, and never does",
        "stopping",
        "    if pod.node is not None:\n        is_asked",
        "    if pod.node is None or pod.node:\n        is_asked",
    ),
    Mutant(
        "a retry is not counted",
        "outcome",
        "return replace(again, retry_count=spent)",
        "return replace(again, retry_count=spent - 1)",
        SIMULATION,
    ),
    Mutant(
        "one loss more than the budget",
        "outcome",
        'are spent" if spent > limit else None',
        'are spent" if spent > limit + 1 else None',
    ),
    Mutant(
        "one failed start more than the limit",
        "outcome",
        "if failures >= task.spec.start_limit and not ending.is_capacity:",
        "if failures > task.spec.start_limit and not ending.is_capacity:",
    ),
    Mutant(
        "every end has the time of a failure",
        "outcome",
        "failed_at=now if status.state is State.FAILED else None,",
        "failed_at=now if status.state is not State.COMPLETED else None,",
    ),
    Mutant(
        "the curve begins with half its delay",
        "retry",
        "2.0 ** min(number, 64)",
        "2.0 ** min(number - 1, 64)",
        "test_the_first_retries_of_every_curve",
    ),
    Mutant(
        "the cap comes before the draw",
        "retry",
        "delay = doubled * draw",
        "delay = min(doubled, policy.max_delay.total_seconds()) * draw",
    ),
    Mutant(
        "a clock strikes a moment too late, and nobody wakes up for it again",
        "clocks",
        "return moment is not None and now >= moment",
        "return moment is not None and now > moment",
    ),
    Mutant(
        "what is to be kept for a redrive is deleted",
        "clocks",
        "if task.spec.dead_letter is DeadLetterPolicy.SAVE and not went_well:",
        "if task.spec.dead_letter is DeadLetterPolicy.SAVE and went_well:",
    ),
    Mutant(
        "a stop wins over a success",
        "verdict",
        "if pod.phase is PodPhase.SUCCEEDED:",
        "if pod.phase is PodPhase.SUCCEEDED and stop is None:",
    ),
    Mutant(
        "exit code 1 is good enough",
        "verdict",
        "if main.exit.code == 0:",
        "if main.exit.code <= 1:",
    ),
    Mutant(
        "a Job that is there counts as one that succeeded",
        "verdict",
        "if job is not None and job.succeeded:",
        "if job is not None and not job.deleting:",
    ),
    Mutant(
        "the code of an error is kept at any length",
        "result",
        "text.cut(code or ErrorCode.UNHANDLED_ERROR, CODE_LIMIT)",
        "text.cut(code or ErrorCode.UNHANDLED_ERROR)",
    ),
    Mutant(
        "numbers are kept that no other reader takes",
        "result",
        "if abs(number) > LARGEST_INTEGER:",
        "if abs(number) > LARGEST_INTEGER**2:",
    ),
    Mutant(
        "a claim of another is given back without a placeholder",
        "launch",
        "return Decision(Look()) if snapshot.live is None else take_for_nobody(snapshot)",
        "return say.write(snapshot, unclaimed(snapshot, snapshot.task.status.claimed_at))",
        CLAIMS,
    ),
    Mutant(
        "a forged pod counts as the run",
        "decide",
        "return pod.owner == manifest.job_name(task)",
        "return True",
        CLAIMS,
    ),
    Mutant(
        "an orphan is left alone",
        "decide",
        "if pod.owner is None and not pod.deleting and (orphaned",
        "if pod.owner == '' and not pod.deleting and (orphaned",
        FOUND,
    ),
    Mutant(
        "the shield is not waited for",
        "launch",
        "is OnShutdown.CONTINUE and not snapshot.is_shielded:",
        "is OnShutdown.CONTINUE and snapshot.is_shielded:",
        CLAIMS,
    ),
    Mutant(
        "the next run does not wait for a silent node",
        "stopping",
        "return pod.deleted_at + SHORT_PATIENCE + timeout",
        "return pod.deleted_at + SHORT_PATIENCE",
    ),
    Mutant(
        "a Job that somebody paused under its run is left for him to resume",
        "decide",
        "if job is None or not (job.suspend or job.is_idle or is_forgotten) or is_taken_back:",
        "if job is None or not (job.is_idle or is_forgotten) or is_taken_back:",
    ),
    Mutant(
        "a Job that was resumed while its pod ended makes another",
        "decide",
        "if job is None or not (job.suspend or job.is_idle or is_forgotten) or is_taken_back:",
        "if job is None or not (job.suspend or job.is_idle) or is_taken_back:",
    ),
    Mutant(
        "a Job that is kept for its name makes a pod when it is resumed",
        "stopping",
        "return None if job.is_idle else Decision(SuspendJob(job))",
        "return None",
    ),
    Mutant(
        "a node is blamed for a pod that is merely late",
        "stopping",
        "return Wait(Reason.STOPPING, text.cut(_delay_of(task, pod)))",
        "return Wait(Reason.NODE_UNREACHABLE, text.cut(silence_of(task, pod)))",
    ),
    Mutant(
        "an end of an init container that nobody saw is the task's own fault",
        "verdict",
        "each.exit.code != 0 and each.exit.reason not in END_UNSEEN",
        "each.exit.code != 0",
    ),
    Mutant(
        "a Job's controller that does not confirm is waited for past the deadline",
        "stopping",
        "if clocks.has_struck(until, now):\n        return Decision(DeleteJob(job))",
        "if until is None:\n        return Decision(DeleteJob(job))",
    ),
    Mutant(
        "a timeout is slept over while a stray is stopped",
        "stopping",
        "if started_at is not None:\n        return clocks.deadline(task), clocks",
        "if started_at is not None and pod is not None:\n        return clocks.deadline(task), clocks",
        FOUND,
    ),
    Mutant(
        "a Job that was made late is not found before the next claim",
        "waiting",
        "if not job.suspend:",
        "if not job.suspend and task.status.reason == Reason.RUN_LOST:",
        FOUND,
    ),
    Mutant(
        "a dependency that has failed is good enough",
        "dependencies",
        "return seen.state is State.COMPLETED",
        "return seen.state is not None",
        DEPENDENCIES,
    ),
    Mutant(
        "what had completed is waited for again",
        "dependencies",
        "if there is None or is_met(known, requires):",
        "if there is None:",
        DEPENDENCIES,
    ),
    Mutant(
        "nobody is told that it is another one of that name",
        "dependencies",
        "previous_uid=known.uid if is_another else known.previous_uid",
        "previous_uid=known.previous_uid",
        DEPENDENCIES,
    ),
    Mutant(
        "whoever finds a circle tells nobody else",
        "relations",
        "            for uid in waiting:\n                self._mark(uid)",
        "            pass",
        RELATIONS,
    ),
    Mutant(
        "who is left of a circle does not know it any more",
        "parse",
        "status.dependencies if dependencies.ended_in_circle(status) else ()",
        "()",
        RELATIONS,
    ),
    Mutant(
        "a circle stays one, whatever becomes of those in it",
        "relations",
        "is_over = bool(dependencies.gave_up(before)) or waited_for != waits_for",
        "is_over = False",
        RELATIONS,
    ),
    Mutant(
        "a Task that has the name of one in a circle is in it",
        "relations",
        "self._break_circle(namesake.uid)",
        "pass",
        RELATIONS,
    ),
    Mutant(
        "one of a circle that is run again is in it still",
        "dependencies",
        " and began_at >= ended_at",
        " and began_at < ended_at",
        RELATIONS,
    ),
    Mutant(
        "a rerun takes the old end of what is to run again",
        "dependencies",
        "known |= {each.uid: each for each in snapshot.dependencies if each.uid in known}",
        "pass",
        DEPENDENCIES,
    ),
    Mutant(
        "whoever begins to wait again is in no circle",
        "relations",
        "if tasks_of(listens - listened):",
        "if before is None and tasks_of(listens - listened):",
        RELATIONS,
    ),
    Mutant(
        "an end is forgotten when its name is taken again",
        "relations",
        "self._keep_end(namesake)",
        "pass",
        RELATIONS,
    ),
    Mutant(
        "an end that is on record is told for ever",
        "relations",
        "(key not in after or dependencies.has_on_record(task, ended.end)):",
        "key not in after:",
        RELATIONS,
    ),
    Mutant(
        "the time to live does not wait for those that wait",
        "relations",
        "return task.status.state.is_terminal and bool(self._owed(task))",
        "return False",
        RELATIONS,
    ),
    Mutant(
        "who waits first under a key is not told that he does",
        "rivals",
        "            self._mark(group.first)",
        "            pass",
        RIVALS,
    ),
    Mutant(
        "those at work are not told that another takes their place",
        "rivals",
        "for uid in group.at_work:",
        "for uid in ():",
        RIVALS,
    ),
    Mutant(
        "a claim does not give way to one that has completed meanwhile",
        "launch",
        "if duplicates.contender(snapshot) is not None or duplicates.of(snapshot) is not None:",
        "if duplicates.contender(snapshot) is not None:",
        DUPLICATES,
    ),
    Mutant(
        "a pod of another namespace has a slot",
        "cache",
        "return pod.namespace == task.namespace",
        "return True",
        SLOTS,
    ),
    Mutant(
        "a claim that is deleted gives its slot away while its Job may make a pod",
        "cache",
        "left.launches_until = now + LATE_PODS",
        "left.launches_until = None",
        SLOTS,
    ),
    Mutant(
        "nobody knows of which tenant a pod is that has outlived its task",
        "clocks",
        "completed_at is not None and completed_at >= until",
        "completed_at is not None and completed_at < until",
        SLOTS,
    ),
    Mutant(
        "what Kueue takes back before its start is lost",
        "kueue",
        "if evidence.has_started or task.status.recorded_run is not None:",
        "if True:",
        KUEUE,
    ),
    Mutant(
        "a suspended task is resolved by its dependencies",
        "dependencies",
        "if spec.release or spec.suspend:",
        "if spec.release:",
        DEPENDENCIES,
    ),
    Mutant(
        "a dependency is called gone because the cache does not have it",
        "dependencies",
        "missing = [name for name in _missing(snapshot) if name not in snapshot.absent]",
        "missing: list[str] = []",
        DEPENDENCIES,
    ),
    Mutant(
        "a retired version starts new tasks",
        "definitions",
        "if version.is_retired and bound is None:",
        "if version.is_retired and bound is not None:",
        DEFINITIONS,
    ),
    Mutant(
        "a version is known by its name, whatever it says now",
        "definitions",
        "version.digest != bound.digest",
        "version.version != bound.version",
        DEFINITIONS,
    ),
    Mutant(
        "what a definition said is forgotten with it, while a task waits",
        "waiting",
        "definition=definitions.bound(snapshot),",
        "definition=task.status.definition,",
        DEFINITIONS,
    ),
    Mutant(
        "a retired version has no say about the tasks that wait for something else",
        "definitions",
        "return definition.retired if isinstance(definition, Unregistered) else definition",
        "return None if isinstance(definition, Unregistered) else definition",
        DEFINITIONS,
    ),
    Mutant(
        "a task is held to what its definition said before its first claim",
        "definitions",
        "return status.definition if status.attempt else None",
        "return status.definition",
        DEFINITIONS,
    ),
    Mutant(
        "an answer that is overtaken by an event takes away a new definition",
        "registry",
        "if self.version_of(key) == version:",
        "if True:",
        DEFINITIONS,
    ),
    Mutant(
        "a list of intervals inherits a curve",
        "defaults",
        "replaced = DELAYS if DELAYS & own.keys() else frozenset[str]()",
        "replaced = frozenset[str]()",
        DEFINITIONS,
    ),
    Mutant(
        "a time on the clock inherits a relative one",
        "defaults",
        "if absolute in own}",
        "if absolute in inherited}",
        DEFINITIONS,
    ),
    Mutant(
        "slots are compared where nothing is short of them",
        "choose",
        "if not self._is_last(OPERATOR, lane):",
        "if self._limits.operator is None:",
        CHOOSE,
    ),
    Mutant(
        "a limit that is lowered does not hold for whoever was chosen before",
        "line",
        "most is not None and used > most for",
        "most is not None and used > most + 99 for",
        LINE_RATES,
    ),
    Mutant(
        "a start that is known by its second counts from the beginning of it",
        "line",
        "is_known else at + REST_OF_A_SECOND",
        "is_known else at",
        LINE_RATES,
    ),
    Mutant(
        "of many that may go at once, those who were not chosen at once are forgotten",
        "line",
        "if len(chosen) == AT_ONCE:",
        "if len(chosen) > AT_ONCE:",
        LINE_RATES,
    ),
    Mutant(
        "whoever is told to end claims on until its runs have ended",
        "loop",
        "if self._is_retiring and _claims(decision, snapshot):",
        "if self._is_closing and _claims(decision, snapshot):",
        CLAIMS,
    ),
    Mutant(
        "an end does not wait for the runs that are drained with it",
        "loop",
        "while self._is_any_run_going():",
        "while self._is_closing:",
        CLAIMS,
    ),
    Mutant(
        "an end leaves claims without their Jobs",
        "loop",
        "if self._is_closing and not self._writes.is_to_launch(uid):",
        "if self._is_closing:",
        CLAIMS,
    ),
    Mutant(
        "at its end an operator goes on with everything that waits",
        "loop",
        "        self._is_closing = True\n",
        "",
        CLAIMS,
    ),
    Mutant(
        "an end does not wait for the steps that have begun",
        "loop",
        "async with asyncio.timeout(CLOSES_WITHIN):",
        "async with asyncio.timeout(0):",
        CLAIMS,
    ),
    Mutant(
        "a slot is given away while a claim for it may be on its way",
        "loop",
        "now - sent < LONGEST_REQUEST",
        "now < sent",
        LINE_RATES,
    ),
    Mutant(
        "a Job of a rerun is swept by whoever does not know of it",
        "resting",
        "is_known = job.attempt is not None and job.attempt <= status.attempt",
        "is_known = job.attempt is not None",
        SWEEP,
    ),
    Mutant(
        "a Job is swept before its log is read",
        "resting",
        "is_settled = task.spec.rerun <= status.observed_rerun and not logs.is_awaited(task.spec, status)",
        "is_settled = task.spec.rerun <= status.observed_rerun",
        SWEEP,
    ),
    Mutant(
        "a Job that is being deleted is deleted at every sweep",
        "resting",
        "is_settled and is_known) or job.deleting:",
        "is_settled and is_known):",
        SWEEP,
    ),
)
