"""The `Task` kind. Field names, bounds and descriptions are the API; `kubectl explain task` prints them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

from taskyard.api.pod_template import DNS_LABEL, MAX_CONTAINER_NAME, pod_template_schema
from taskyard.api.schema import JSON, rule
from taskyard.core.decide import RUNS_KEPT
from taskyard.core.manifest import MESSAGE_LIMIT
from taskyard.core.model import Phase, State

# JSON numbers are exact to here; the API server keeps a schema's bounds as floating point.
MAX_EXACT = 2**53 - 1
MAX_INT32 = 2**31 - 1

Count = Annotated[int, Field(ge=0, le=MAX_INT32, json_schema_extra={"format": "int32"})]
Generation = Annotated[int, Field(ge=0, le=MAX_EXACT, json_schema_extra={"format": "int64"})]
ExitCode = Annotated[int, Field(ge=-MAX_INT32 - 1, le=MAX_INT32, json_schema_extra={"format": "int32"})]
Signal = Annotated[int, Field(ge=1, le=64, json_schema_extra={"format": "int32"})]
DnsLabel = Annotated[str, StringConstraints(max_length=MAX_CONTAINER_NAME, pattern=DNS_LABEL)]
ObjectName = Annotated[str, StringConstraints(max_length=253)]
# The identity of an operator: the name of its pod, and a suffix that tells two lives of it apart.
Identity = Annotated[str, StringConstraints(max_length=316)]
Reason = Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Z][A-Za-z0-9]*$")]
ErrorCode = Annotated[str, StringConstraints(max_length=128)]
Message = Annotated[str, StringConstraints(max_length=MESSAGE_LIMIT)]
PodTemplate = Annotated[dict[str, Any], WithJsonSchema(pod_template_schema())]


def list_map(*keys: str) -> JSON:
    """The marks of a list whose items are told apart by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class Model(BaseModel):
    """camelCase outside, and nothing that is not named here."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=True)


class ConditionStatus(StrEnum):
    """The three values of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """A condition as `meta/v1` has it, with the same bounds, so that `kubectl wait` understands it."""

    type: Annotated[str, StringConstraints(max_length=316)] = Field(
        description="`Succeeded` (Unknown until the end, then True or False) or `Finished`."
    )
    status: ConditionStatus = Field(description="True, False or Unknown.")
    observed_generation: Generation | None = Field(
        None, description="The `metadata.generation` that this condition was derived from."
    )
    last_transition_time: datetime = Field(description="When `status` last changed.")
    reason: Annotated[
        str,
        StringConstraints(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
    ] = Field(description="Why, in one CamelCase word.")
    message: Annotated[str, StringConstraints(max_length=32768)] = Field(description="Why, in a sentence.")


class TaskError(Model):
    """What went wrong."""

    code: ErrorCode | None = Field(
        None,
        description="One word for programs: `ExitCode`, `Signal`, …, or what the task reported itself.",
    )
    message: Message | None = Field(None, description="A sentence for people, with the evidence.")


class Result(Model):
    """What the task left behind."""

    error: TaskError | None = Field(None, description="What went wrong; absent when the task completed.")


class Run(Model):
    """One run of the task: one Job, one pod."""

    number: Count = Field(description="The number of the run, from 0.")
    attempt: Count | None = Field(
        None, description="The claim that led to this run; it is part of the Job's name."
    )
    state: State | None = Field(None, description="How the run stands, or how it ended.")
    reason: Reason | None = Field(None, description="Why it ended so, in one CamelCase word.")
    job: ObjectName | None = Field(None, description="The Job of this run.")
    pod: ObjectName | None = Field(None, description="The pod of this run.")
    node: ObjectName | None = Field(None, description="The node that the pod ran on.")
    started_at: datetime | None = Field(None, description="When the main container started.")
    finished_at: datetime | None = Field(None, description="When the main container ended.")
    exit_code: ExitCode | None = Field(None, description="The exit code of the main container.")
    signal: Signal | None = Field(None, description="The signal that ended the main container.")
    message: Message | None = Field(None, description="What the cluster or the container said about the end.")


Conditions = Annotated[list[Condition], Field(max_length=8, json_schema_extra=list_map("type"))]
Runs = Annotated[list[Run], Field(max_length=RUNS_KEPT, json_schema_extra=list_map("number"))]


class TaskSpec(Model):
    """What is wanted."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                rule(
                    "!has(self.mainContainer)"
                    " || self.template.spec.containers.exists(each, each.name == self.mainContainer)",
                    "`mainContainer` must be the name of one of the `containers` of `template`",
                    field=".mainContainer",
                ),
                rule(
                    "self.template == oldSelf.template",
                    "`template` must stay as it was created; create another Task instead",
                    field=".template",
                    forbidden=True,
                ),
                rule(
                    # `self.?mainContainer == oldSelf.?mainContainer` says the same, but the API server
                    # takes its cost for unbounded and refuses the CRD.
                    "has(self.mainContainer) == has(oldSelf.mainContainer)"
                    " && (!has(self.mainContainer) || self.mainContainer == oldSelf.mainContainer)",
                    "`mainContainer` must stay as it was created; create another Task instead",
                    field=".mainContainer",
                    forbidden=True,
                ),
            ]
        }
    )

    template: PodTemplate
    main_container: DnsLabel | None = Field(
        None,
        description="The container whose exit code and message count. Default: the first container of the"
        " template. It never changes.",
    )


class TaskStatus(Model):
    """The record of the task's life, written by the operator only."""

    state: State | None = Field(
        None, description="Where the task is in its life; it ends in exactly one terminal state."
    )
    phase: Phase | None = Field(
        None, description="The state in three words: Waiting, Active or Finished; made for field selectors."
    )
    reason: Reason | None = Field(None, description="Why the task is in this state, in one CamelCase word.")
    message: Message | None = Field(None, description="Why the task is in this state, in a sentence.")
    conditions: Conditions | None = Field(
        None, description="`Succeeded` and `Finished`, for `kubectl wait --for=condition=Finished`."
    )
    observed_generation: Generation | None = Field(
        None, description="The `metadata.generation` that this status was derived from."
    )
    run: Count | None = Field(None, description="The number of the current or the last run, from 0.")
    attempt: Count | None = Field(None, description="How often the task was claimed; moves with every claim.")
    run_count: Count | None = Field(
        None, description=f"How many runs there were in all; `runs` keeps the last {RUNS_KEPT}."
    )
    submitted_at: datetime | None = Field(None, description="When the task was submitted; never changes.")
    claimed_at: datetime | None = Field(
        None, description="When an operator reserved the task for its current run."
    )
    claimed_by: Identity | None = Field(None, description="The operator that reserved it.")
    started_at: datetime | None = Field(None, description="When the main container of the first run started.")
    completed_at: datetime | None = Field(
        None, description="When the task reached a terminal state, whichever."
    )
    failed_at: datetime | None = Field(
        None, description="When the task became Failed; absent in any other state."
    )
    updated_at: datetime | None = Field(None, description="When this status was last written.")
    result: Result | None = Field(None, description="What the task left behind.")
    runs: Runs | None = Field(None, description=f"The last {RUNS_KEPT} runs, oldest first.")


class Task(Model):
    """One unit of work, run as one Job at a time and carried to exactly one terminal state."""

    spec: TaskSpec = Field(description="What is wanted.")
    status: TaskStatus | None = Field(
        None, description="The record of the task's life, written by the operator only."
    )
