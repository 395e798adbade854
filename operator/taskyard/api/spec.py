"""`spec` of a Task: what is wanted. Field names, bounds and descriptions are the API; `kubectl explain` prints them.

A default that stands here is filled in by the API server. What a definition may have a default for has none: see
`core.defaults`. When a field may change is told by `rules`, for all of them alike.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema

from taskyard.api.fields import (
    LIST_ATOMIC,
    LIST_SET,
    YEAR,
    AnyJson,
    Count,
    Delay,
    DnsLabel,
    DnsSubdomain,
    Instant,
    LabelValue,
    Model,
    Priority,
    Seconds,
    whole,
)
from taskyard.api.pod_template import ABOUT_TEMPLATES, pod_template_schema
from taskyard.core.words import (
    CODE_LIMIT,
    DEPENDENCIES_LIMIT,
    INPUT_LIMIT,
    Backoff,
    DeadLetterPolicy,
    DefinitionKind,
    LogPolicy,
    OnDependencyFailure,
    OnDuplicate,
    OnShutdown,
    Requires,
)

MAX_RETRIES = 1000
FAILING_EXIT_CODES = 255
MAX_CODES = 64
MAX_KEY = 253

PodTemplate = Annotated[dict[str, Any], WithJsonSchema(pod_template_schema())]
Intervals = Annotated[list[Delay], Field(max_length=MAX_RETRIES, json_schema_extra=LIST_ATOMIC)]
FailingExitCode = Annotated[int, whole(1, FAILING_EXIT_CODES)]
ExitCodes = Annotated[
    list[FailingExitCode], Field(min_length=1, max_length=FAILING_EXIT_CODES, json_schema_extra=LIST_SET)
]
ExpectedCode = Annotated[str, StringConstraints(min_length=1, max_length=CODE_LIMIT)]
Codes = Annotated[list[ExpectedCode], Field(min_length=1, max_length=MAX_CODES, json_schema_extra=LIST_SET)]
IdempotencyKey = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=MAX_KEY, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._:/@+-]*[A-Za-z0-9])?$"
    ),
]
Dependencies = Annotated[list[DnsSubdomain], Field(max_length=DEPENDENCIES_LIMIT, json_schema_extra=LIST_SET)]


class DefinitionRef(Model):
    """A registered task type."""

    kind: DefinitionKind = Field(
        DefinitionKind.TASK_DEFINITION,
        description="Where it is registered: `TaskDefinition` for this namespace, `ClusterTaskDefinition` for all.",
    )
    name: DnsSubdomain = Field(description="The name of the definition.")
    version: LabelValue = Field(description="Which of its versions.")


class Expected(Model):
    """Which failures are worth a retry."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    exit_codes: ExitCodes | None = Field(
        None,
        description="These exit codes, of the main container or of an init container that failed."
        " Absent: none, if `errors` is given.",
    )
    errors: Codes | None = Field(
        None,
        description="These error codes, of Taskyard (`Timeout`, `OOMKilled`, …) or of the task's own reports."
        " Absent: none, if `exitCodes` is given.",
    )


class Retry(Model):
    """When a run that did not succeed is followed by another."""

    limit: Annotated[int, whole(0, MAX_RETRIES)] | None = Field(
        None, description="How many retries follow the task's own failures. 0: the first failure is final."
    )
    backoff: Backoff | None = Field(
        None,
        description="How the delay grows from retry to retry: not at all, by `delaySeconds` each time, twofold,"
        " or to a random part of twofold.",
    )
    delay_seconds: Delay | None = Field(
        None,
        description="The base d of the delay before retry n, from 1: d (`Constant`), d·n (`Linear`), d·2ⁿ"
        " (`Exponential`), or a random part of d·2ⁿ (`ExponentialJitter`). Absent: at once.",
    )
    max_delay_seconds: Seconds | None = Field(
        None, description="No delay that `backoff` gives is longer, the first included."
    )
    intervals_seconds: Intervals | None = Field(
        None,
        description="The delay before each retry, one item a retry, with `limit` beside it: instead of `backoff`"
        " and `delaySeconds`.",
    )
    expected: Expected | None = Field(
        None,
        description="Which failures are retried, a timeout always among them; any other is final at once."
        " Absent: all are.",
    )
    infrastructure_limit: Annotated[int, whole(0, MAX_RETRIES)] | None = Field(
        None,
        description="How many runs may be lost to the cluster (pod deleted, node dead, preempted) and made good"
        " by another: a budget of its own. 0: a task that may have run is never run again.",
    )


class TaskSpec(Model):
    """What is wanted."""

    template: PodTemplate | None = Field(None, description=f"{ABOUT_TEMPLATES} Give this or `definitionRef`.")
    definition_ref: DefinitionRef | None = Field(
        None,
        description="What to run: a version of a registered task type, whose defaults hold where this Task is silent."
        " Give this or `template`. A Task whose definition's name or version is not registered is Dropped after a"
        " grace period of a minute.",
    )
    main_container: DnsLabel | None = Field(
        None,
        description="The container whose exit code and message count. Absent: the first container of the"
        " template.",
    )
    input: AnyJson = Field(
        None,
        description="What the task works on: any JSON. The main container finds it as `TASKYARD_INPUT`. At most"
        f" {INPUT_LIMIT // 1024} KiB: a larger one makes the task an Exception, `MalformedPayload`.",
    )
    queue_name: DnsLabel = Field(
        "default",
        description="The queue that the task waits in. `default` is there without being made; any other is a"
        " TaskQueue of the namespace, and while it is missing the task waits, with `QueueNotFound`.",
    )
    priority: Priority | None = Field(None, description="Tasks of a higher priority leave the queue first.")
    run_at: Instant | None = Field(
        None,
        description="Not before this time, as in `2026-01-31T12:00:00Z`. Absent, and no"
        " `startDelaySeconds`: at once.",
    )
    start_delay_seconds: Delay | None = Field(
        None,
        description="`runAt` in seconds from the submission, or from the rerun.",
    )
    good_until: Instant | None = Field(
        None,
        description="The task must have started by this time, as in `2026-01-31T12:00:00Z`; else it is Expired."
        " Absent, and no `goodForSeconds`: it may start at any time.",
    )
    good_for_seconds: Seconds | None = Field(
        None,
        description="`goodUntil` in seconds from the submission, or from the rerun.",
    )
    deadline: Instant | None = Field(
        None,
        description="The task must be resolved by this time, as in `2026-01-31T12:00:00Z`, in whatever state it"
        " is; else it is stopped and an Exception, `DeadlineExceeded`. Absent, and no `deadlineSeconds`: it may"
        " take for ever.",
    )
    deadline_seconds: Seconds | None = Field(
        None,
        description="`deadline` in seconds from the submission, or from the rerun.",
    )
    schedule_timeout_seconds: Seconds | None = Field(
        None,
        description="How long a claimed task may be without a node before its claim is given back; no retry is"
        " spent.",
    )
    start_timeout_seconds: Seconds | None = Field(
        None,
        description="How long the main container may take to start, once there is a node, before the claim is given"
        " back; no retry is spent. Init containers count into it; once one has run, it is a loss instead, of"
        " `retry.infrastructureLimit`.",
    )
    start_limit: Annotated[int, whole(1, 100)] | None = Field(
        None,
        description="How often the task may fail to start before it is an Exception, `StartFailed`. Lack of room in"
        " the cluster does not count.",
    )
    timeout_seconds: Seconds | None = Field(
        None,
        description="How long a run may take from the start of the main container: then SIGTERM, and SIGKILL after"
        " the template's `terminationGracePeriodSeconds` (5 where it sets none). A failure, and retried as such."
        " Absent: as long as it takes.",
    )
    retry: Retry | None = Field(None, description="What follows a run that did not succeed.")
    unreachable_timeout_seconds: Seconds | None = Field(
        None,
        description="After so long, a pod on a node that cannot be reached is given up for lost and deleted by"
        " force: two pods may then be at work. Absent: the node is waited for.",
    )
    dependencies: Dependencies | None = Field(
        None,
        description="Tasks of this namespace that must come to an end first; one that is not there yet is waited for."
        " A task may name itself: it is then held until `release`.",
    )
    requires: Requires = Field(
        Requires.ALL_COMPLETED,
        description="What every dependency must come to: `Completed` (`AllCompleted`), or any terminal state"
        " (`AllResolved`).",
    )
    on_dependency_failure: OnDependencyFailure = Field(
        OnDependencyFailure.FAIL,
        description="When a dependency did not end as it must: the task is an Exception, `DependencyFailed` (`Fail`),"
        " or it waits, until its deadline, for a rerun of the dependency (`Wait`).",
    )
    idempotency_key: IdempotencyKey | None = Field(
        None,
        description="Of all Tasks of the namespace with this key one is at work at a time; what becomes of the others"
        " `onDuplicate` says.",
    )
    on_duplicate: OnDuplicate = Field(
        OnDuplicate.SKIP,
        description="When another Task has the same `idempotencyKey`: this one is Dropped, `Duplicate`, if the other"
        " has completed, runs, or came first (`Skip`); it takes the place of those before it, which are Cancelled"
        " (`Replace`); or it waits until they have ended (`Queue`).",
    )
    suspend: bool = Field(
        False,
        description="Hold the task back while true; what is claimed or runs goes on.",
    )
    release: bool = Field(
        False, description="Whatever its dependencies say, it may run; a rerun too, while this is true."
    )
    cancel: bool = Field(
        False,
        description="Stop the task: it becomes Cancelled once no pod of it runs. A Task that is Finished stays"
        " as it is.",
    )
    rerun: Count = Field(
        0,
        description="Raise it above `status.observedRerun`, on a Task that is Finished, for a fresh run: budgets"
        " start anew, the history is kept. It needs `cancel: false`; on a Task that is not Finished it is used up,"
        " and does nothing.",
    )
    on_shutdown: OnShutdown | None = Field(
        None,
        description="When the node of a run is drained: the task goes back to its queue and spends no budget"
        " (`Resubmit`), or it is Stalled (`Stop`). With `Continue` evictions of its pod are refused until it"
        " ends, or until the operator's own limit, a day by default; then it is as with `Resubmit`.",
    )
    dead_letter_policy: DeadLetterPolicy | None = Field(
        None,
        description="Whether a task that did not succeed goes with its TTL (`None`), or is kept for inspection and"
        " another run (`Save`).",
    )
    logs: LogPolicy | None = Field(
        None,
        description="When the end of the last run's log, 8 KiB of stdout and stderr, is kept in `status.logTail`: when"
        " the task did not succeed (`OnFailure`), also when it did (`Always`), or never (`None`).",
    )
    ttl_seconds_after_finished: Annotated[int, whole(0, 10 * YEAR)] | None = Field(
        None,
        description="How long the Task is kept once it is Finished; then it is deleted.",
    )
