"""`status` of a Task: the record of its life. Every field is optional: a status comes into being bit by bit."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from taskyard.api.fields import (
    LIST_ATOMIC,
    LIST_SET,
    YEAR,
    AnyJson,
    Code,
    Count,
    DnsLabel,
    DnsSubdomain,
    ExitCode,
    Generation,
    Identity,
    LabelValue,
    Message,
    Model,
    ObjectName,
    ReasonWord,
    Signal,
    Uid,
    list_map,
    whole,
)
from taskyard.api.schema import ANY_OBJECT
from taskyard.core.words import (
    DEPENDENCIES_LIMIT,
    LOG_LIMIT,
    RUNS_KEPT,
    DefinitionKind,
    Flaw,
    Phase,
    State,
    StopReason,
)


class ConditionStatus(StrEnum):
    """The three values of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """A condition as `meta/v1` has it, with the same bounds, so that `kubectl wait` understands it."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(
        description="Which of the conditions of its kind this is."
    )
    status: ConditionStatus = Field(description="True, False or Unknown.")
    last_transition_time: datetime = Field(description="When `status` last changed.")
    reason: Annotated[
        str,
        StringConstraints(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ] = Field(description="Why, in one CamelCase word.")
    message: Annotated[str, StringConstraints(max_length=32768)] = Field(description="Why, in a sentence.")


class TaskError(Model):
    """What went wrong."""

    code: Code | None = Field(
        None,
        description="One word for programs: `ExitCode`, `Signal`, …, or what the task reported itself.",
    )
    message: Message | None = Field(None, description="A sentence for people, with the evidence.")
    traceback: Message | None = Field(
        None, description="Where in its code it happened, if the task reported that."
    )


Flaws = Annotated[list[Flaw], Field(max_length=8, json_schema_extra=LIST_SET)]


class Result(Model):
    """What the task left behind: a value, or an error."""

    ok: AnyJson = Field(None, description="What the task reported as its result: any JSON.")
    error: TaskError | None = Field(None, description="What went wrong; absent when the task completed.")
    flaws: Flaws | None = Field(
        None, description="What had to be done to the task's report before it could be kept here."
    )


class Stop(Model):
    """A stop that is under way."""

    reason: StopReason | None = Field(
        None, description="Why the run is being stopped: the verdict, unless the pod succeeds first."
    )
    requested_at: datetime | None = Field(None, description="When that was decided.")


class Dependency(Model):
    """What was seen of a Task that this one waits for."""

    name: DnsSubdomain = Field(description="The name of the Task.")
    uid: Uid | None = Field(
        None, description="The Task that was found under that name; absent until there is one."
    )
    state: State | None = Field(None, description="The terminal state that it came to; absent until then.")
    previous_uid: Uid | None = Field(
        None, description="Another Task that was found under that name before, and was deleted."
    )


GracePeriod = Annotated[int, whole(0, YEAR)]
Digest = Annotated[str, StringConstraints(max_length=64)]
# Not the schema of a definition's defaults: what was taken is kept, also by a CRD that has become stricter since.
Taken = Annotated[dict[str, Any], WithJsonSchema(ANY_OBJECT)]


class Definition(Model):
    """What is taken from the definition: what it said when the task was first claimed; before that, when last seen."""

    kind: DefinitionKind | None = Field(None, description="The kind of the definition.")
    uid: Uid | None = Field(None, description="The definition itself; another of its name is another.")
    version: LabelValue | None = Field(None, description="Its version.")
    digest: Digest | None = Field(None, description="A digest of all that the version said.")
    main_container: DnsLabel | None = Field(
        None, description="The main container, unless the Task names another."
    )
    grace_period_seconds: GracePeriod | None = Field(None, description="The grace period of its template.")
    defaults: Taken | None = Field(None, description="Its defaults, as they were written.")


class Waiting(Model):
    """Something that keeps the task from running, now."""

    reason: ReasonWord | None = Field(None, description="Why, in one CamelCase word.")
    message: Message | None = Field(None, description="Why, in a sentence.")


class Run(Model):
    """One run of the task: one Job, one pod."""

    number: Count = Field(description="The number of the run, from 0.")
    attempt: Count | None = Field(
        None, description="The claim that led to this run; it is part of the Job's name."
    )
    state: State | None = Field(None, description="How the run stands, or how it ended.")
    reason: ReasonWord | None = Field(None, description="Why it ended so, in one CamelCase word.")
    error_code: Code | None = Field(
        None, description="What the task called its error itself; else `reason` is the code."
    )
    job: ObjectName | None = Field(None, description="The Job of this run.")
    pod: ObjectName | None = Field(None, description="The pod of this run.")
    node: ObjectName | None = Field(None, description="The node that the pod ran on.")
    started_at: datetime | None = Field(
        None, description="When the main container started, or the init container that failed."
    )
    finished_at: datetime | None = Field(None, description="When that container ended.")
    exit_code: ExitCode | None = Field(None, description="The exit code of that container.")
    signal: Signal | None = Field(None, description="The signal that ended it.")
    message: Message | None = Field(None, description="What the cluster or the container said about the end.")


Conditions = Annotated[list[Condition], Field(max_length=8, json_schema_extra=list_map("type"))]
Dependencies = Annotated[
    list[Dependency], Field(max_length=DEPENDENCIES_LIMIT, json_schema_extra=list_map("name"))
]
Waits = Annotated[list[Waiting], Field(max_length=32, json_schema_extra=LIST_ATOMIC)]
LogTail = Annotated[str, StringConstraints(max_length=LOG_LIMIT)]
Runs = Annotated[list[Run], Field(max_length=RUNS_KEPT, json_schema_extra=list_map("number"))]


class TaskStatus(Model):
    """The record of the task's life, written by the operator only."""

    state: State | None = Field(
        None, description="Where the task is in its life; it ends in exactly one terminal state."
    )
    phase: Phase | None = Field(
        None, description="The state in three words: Waiting, Active or Finished; made for field selectors."
    )
    reason: ReasonWord | None = Field(
        None, description="Why the task is in this state, in one CamelCase word."
    )
    message: Message | None = Field(None, description="Why the task is in this state, in a sentence.")
    conditions: Conditions | None = Field(
        None,
        description="`Succeeded` (Unknown until the end, then True or False) and `Finished`, for"
        " `kubectl wait --for=condition=Finished`.",
    )
    observed_generation: Generation | None = Field(
        None, description="The `metadata.generation` that this status was derived from."
    )
    observed_rerun: Count | None = Field(
        None, description="The `spec.rerun` that was taken up, or passed over, last."
    )
    run: Count | None = Field(None, description="The number of the current or the last run, from 0.")
    attempt: Count | None = Field(None, description="How often the task was claimed; moves with every claim.")
    run_count: Count | None = Field(
        None, description=f"How many runs there were in all; `runs` keeps the last {RUNS_KEPT}."
    )
    retry_count: Count | None = Field(
        None, description="How many retries were spent on the task's own failures; a rerun starts anew."
    )
    loss_count: Count | None = Field(
        None, description="How many runs were lost to the cluster; a rerun starts anew."
    )
    start_failures: Count | None = Field(
        None, description="How often the task failed to start; a rerun starts anew."
    )
    submitted_at: datetime | None = Field(None, description="When the task was submitted; never changes.")
    rerun_at: datetime | None = Field(
        None, description="When the last rerun was taken up; relative times count from it."
    )
    enqueued_at: datetime | None = Field(
        None, description="When the task became eligible to run; moves with every retry."
    )
    claimed_at: datetime | None = Field(
        None, description="When an operator reserved the task for its current run."
    )
    claimed_by: Identity | None = Field(None, description="The operator that reserved it.")
    started_at: datetime | None = Field(None, description="When the main container of the first run started.")
    retried_at: datetime | None = Field(
        None, description="When the main container of the last run started, if it was not the first."
    )
    next_retry_at: datetime | None = Field(
        None, description="When the next retry is due; absent unless one is waited for."
    )
    completed_at: datetime | None = Field(
        None, description="When the task reached a terminal state, whichever."
    )
    failed_at: datetime | None = Field(
        None, description="When the task became Failed; absent in any other state."
    )
    updated_at: datetime | None = Field(None, description="When this status was last written.")
    stop: Stop | None = Field(
        None, description="The stop that is under way, recorded before anything is stopped."
    )
    dependencies: Dependencies | None = Field(
        None,
        description="What was seen of the Tasks that it depends on: one that has ended stays so when it is deleted.",
    )
    definition: Definition | None = Field(
        None,
        description="What is taken from the definition: what it said when the task was first claimed, and later"
        " edits of it change nothing. Before that, what it said when it was last seen.",
    )
    waiting: Waits | None = Field(
        None,
        description="Everything that keeps the task from running, now; the first is also its `reason`. Absent when"
        " nothing does.",
    )
    result: Result | None = Field(None, description="What the task left behind.")
    log_tail: LogTail | None = Field(
        None, description="The end of the last run's log, stdout and stderr, as `logs` asks for it."
    )
    runs: Runs | None = Field(None, description=f"The last {RUNS_KEPT} runs, oldest first.")
