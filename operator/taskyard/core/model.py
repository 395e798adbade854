"""The records that everything else passes around: frozen, slotted, and changed by copy only.

The cache holds one `Task` for each one there is, so what a resolved one needs no more is left out: `parse.task`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from taskyard.core.refusals import Denial, Refusal
from taskyard.core.spec import Spec
from taskyard.core.words import DefinitionKind, Flaw, PodPhase, Reason, State, StopReason

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Error:
    """What went wrong: one word for programs, one sentence for people.

    `is_reported`: the task said so itself, so its code is user data.
    """

    code: str
    message: str
    traceback: str | None = None
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value, in a box, because `null` is one too."""

    json: Any


@dataclass(frozen=True, slots=True)
class Result:
    """`status.result`: what the task left behind."""

    ok: Value | None = None
    error: Error | None = None
    flaws: tuple[Flaw, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """One entry of `status.waiting`: something that keeps the task from running, now."""

    reason: Reason
    message: str
    is_news: bool = field(default=False, compare=False)
    """It is to be told in these words, though only the moment in them may be another."""


@dataclass(frozen=True, slots=True)
class Stop:
    """`status.stop`: this run is to end, for that reason."""

    reason: StopReason
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class Run:
    """One entry of `status.runs`: a run that started, or may have."""

    number: int
    attempt: int
    state: State
    reason: str | None = None
    error_code: str | None = None
    """What the task called its error itself; else the reason is the code."""
    job: str | None = None
    pod: str | None = None
    node: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Dependency:
    """One entry of `status.dependencies`: what was seen of a Task that this one waits for.

    `uid`: it was there. `state`: the terminal one that it came to. `previous_uid`: of one that was there before.
    """

    name: str
    uid: str | None = None
    state: State | None = None
    previous_uid: str | None = None


@dataclass(frozen=True, slots=True)
class Rival:
    """Another Task with the same `idempotencyKey`. `replaces`: it takes the place of those before it."""

    name: str
    uid: str
    state: State
    submitted_at: datetime | None
    replaces: bool = False
    started_at: datetime | None = None
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """`status.definition`: what a Task takes from its definition. From its first claim on it holds for all its runs."""

    kind: DefinitionKind
    uid: str
    version: str
    digest: str
    main_container: str
    grace_seconds: int
    defaults: Json


@dataclass(frozen=True, slots=True)
class Status:
    """`Task.status`, less what follows from it (phase, conditions) and less the time of the write.

    A status that was never written has observed no generation.
    """

    state: State = State.PENDING
    reason: str | None = None
    message: str | None = None
    observed_generation: int = 0
    observed_rerun: int = 0
    run: int = 0
    attempt: int = 0
    run_count: int = 0
    retry_count: int = 0
    loss_count: int = 0
    start_failures: int = 0
    submitted_at: datetime | None = None
    rerun_at: datetime | None = None
    enqueued_at: datetime | None = None
    claimed_at: datetime | None = None
    claimed_by: str | None = None
    started_at: datetime | None = None
    retried_at: datetime | None = None
    completed_at: datetime | None = None
    failed_at: datetime | None = None
    next_retry_at: datetime | None = None
    stop: Stop | None = None
    dependencies: tuple[Dependency, ...] = ()
    definition: Bound | None = None
    waiting: tuple[Wait, ...] = ()
    result: Result | None = None
    log_tail: str | None = None
    runs: tuple[Run, ...] = ()

    @property
    def recorded_run(self) -> Run | None:
        """The current run's entry in the history: there once its container has started."""
        return next((run for run in self.runs if run.number == self.run), None)


@dataclass(frozen=True, slots=True)
class Task:
    """What the operator remembers of a Task."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int
    deleting: bool
    spec: Spec
    status: Status
    labels: Json = field(default_factory=dict)
    """Of one that is not resolved, or may have left a pod: its queue may tell tenants apart by them."""
    replaced_by: str | None = None
    """The name of one that takes its place."""
    written: Json | None = None
    """Its spec as it was written, while a definition may still add to it: until its first claim."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a registered task type."""

    kind: DefinitionKind
    uid: str
    version: str
    digest: str
    """Of all that it says. One that was taken away and written anew may say something else."""
    template: Json
    defaults: Json
    main_container: str
    grace_seconds: int
    is_retired: bool = False


@dataclass(frozen=True, slots=True)
class Unregistered:
    """What a Task names to run is not there, as a sentence. `retired`: it is, and starts no new tasks."""

    message: str
    retired: Version | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    code: int
    reason: str | None
    message: str | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod: not started, started, or ended.

    `exit` without `started_at`: it never ran. The kubelet reports such an end, with 137.
    """

    name: str
    started_at: datetime | None = None
    exit: Exit | None = None
    memory_limit: str | None = None  # told of one that ran out of memory


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What keeps a task or its pod from starting, in the cluster's own words.

    `is_final`: it will not pass by itself. `is_capacity`: it will, when others make room.
    """

    reason: Reason
    message: str
    is_final: bool = False
    is_capacity: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that carries a Task's uid, as last seen. `gone` is a hint: its object is said to be deleted."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    task_uid: str
    attempt: int
    created_at: datetime
    phase: PodPhase
    deleting: bool = False
    deleted_at: datetime | None = None
    """The end of its grace period; a pod that outlives it by far has lost its kubelet."""
    gone: bool = False
    node: str | None = None
    disturbed_at: datetime | None = None
    """When somebody first meant to end it from outside: a disruption, or a deletion. Unknown where its kubelet did."""
    queue: str = ""
    owner: str | None = None
    """The Job that made it; none for one that somebody orphaned, or forged."""
    is_tracked: bool = True
    """Whether its Job is still to count it: one that it has let go uncounted may be made good by another."""
    is_shielded: bool = False
    """Whether it is kept from evictions: `onShutdown: Continue`."""
    scheduled_at: datetime | None = None
    accepted_at: datetime | None = None
    """When its kubelet first saw it; `active_deadline` counts from then."""
    active_deadline: int | None = None
    reason: str | None = None
    message: str | None = None
    disruption: str | None = None
    silent_since: datetime | None = None
    """Since when its node is said not to answer, by others than its kubelet."""
    hindrance: Hindrance | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the phase is terminal. It never changes again: evidence, even of a pod that is gone."""
        return self.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}

    @property
    def is_alive(self) -> bool:
        """Whether it may still run something, as far as anybody told us."""
        return not (self.is_over or self.gone)

    @property
    def has_started(self) -> bool:
        """Whether any code of the user's ran in it, init containers included."""
        return any(each.started_at is not None for each in (*self.containers, *self.init_containers))

    def container(self, name: str) -> Container | None:
        return next((each for each in self.containers if each.name == name), None)


@dataclass(frozen=True, slots=True)
class Job:
    """A Job under the name that an attempt of a Task needs. Not watched: as the last answer had it."""

    name: str
    uid: str
    owner_uid: str | None
    attempt: int | None
    deleting: bool = False
    succeeded: bool = False
    failed: bool = False
    is_placeholder: bool = False
    """Whether it only holds the name, so that a claimer who is gone can make no Job of it any more."""
    has_counted: bool = False
    """Whether it has put a pod of its own on record as ended: it makes no other in its stead."""
    suspend: bool = False
    is_idle: bool = False
    """Whether it is to have no pods, suspended or not: `parallelism: 0`. As `suspend`, that was asked of it."""
    started_at: datetime | None = None
    """Since when it makes pods: since it was resumed, if it was suspended at first."""
    is_suspended: bool = False
    """What it says: no pod of it is at work, and none is on its way out."""

    @property
    def is_over(self) -> bool:
        """Whether it will make no more pods."""
        return self.succeeded or self.failed or self.deleting

    def belongs_to(self, task: Task) -> bool:
        """Whether this Job is the current attempt of the task, and not somebody else's that took the name."""
        return self.owner_uid == task.uid and self.attempt == task.status.attempt


@dataclass(frozen=True, slots=True)
class Live:
    """What a live read showed a moment ago, less the pods: they are in the snapshot, by way of the cache.

    Its presence in a snapshot means: the Task was read, and every pod with its uid label was listed.
    """

    job: Job | None
    complaint: str | None = None
    """What the Job's controller says of a pod that it cannot make, or a kubelet of one that it cannot start."""


@dataclass(frozen=True, slots=True)
class Log:
    """What a read of a run's log showed a moment ago: its end, or nothing where there is none any more."""

    tail: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that `decide` may know: one Task, what belongs to it, and facts about the rest of the world."""

    task: Task
    claimer: str
    holds: tuple[Wait, ...] = ()
    """What keeps an eligible task from being claimed; nothing: it is its turn."""
    turn_at: datetime | None = None
    """When it may be its turn, if nothing else happens."""
    definition: Version | Unregistered | None = None
    """What its `definitionRef` leads to, if it has one."""
    dependencies: tuple[Dependency, ...] = ()
    """What is there now of the Tasks that it waits for, by their names; those that are not there are left out."""
    absent: frozenset[str] = frozenset()
    """Dependencies that a live read did not find, a moment ago."""
    cycle: tuple[str | int, ...] = ()
    """Names, from this Task by way of its dependencies back to it, if it waits for itself; a number: so many more."""
    rivals: tuple[Rival, ...] = ()
    """Others with its `idempotencyKey`."""
    lingering: str | None = None
    """Another with its `idempotencyKey` that is neither claimed nor runs, and may have a pod at work all the same."""
    has_seen_rivals: bool = False
    """Whether they were read live, a moment ago."""
    is_awaited: bool = False
    """Whether somebody waits for this Task, and has not put its end on record yet."""
    asked: bool = False
    """Whether the definition was read live, a moment ago."""
    acting_since: datetime | None = None
    """Since when this operator acts. Whoever claimed before that, under another name, acts no more."""
    is_shielded: bool = False
    """Whether evictions are refused in this namespace, of pods that ask for it."""
    shield_limit: timedelta | None = None
    """How long a pod may refuse them."""
    pods: tuple[Pod, ...] = ()
    job: Job | None = None
    refusal: Refusal | None = None
    denial: Denial | None = None
    looked_at: datetime | None = None
    vanished: bool = False
    live: Live | None = None
    log: Log | None = None
