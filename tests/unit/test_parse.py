"""From the API server's JSON to records, and back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from taskyard.core import parse, verdict
from taskyard.core.model import (
    Bound,
    Container,
    Dependency,
    Error,
    Exit,
    Hindrance,
    Result,
    Run,
    Status,
    Stop,
    Value,
    Wait,
)
from taskyard.core.record import status_json
from taskyard.core.spec import DefinitionRef, Expected
from taskyard.core.verdict import Lost
from taskyard.core.words import (
    Backoff,
    DeadLetterPolicy,
    DefinitionKind,
    Flaw,
    LogPolicy,
    OnDependencyFailure,
    OnDuplicate,
    OnShutdown,
    PodPhase,
    Reason,
    Requires,
    State,
    StopReason,
)
from tests.unit.build import CLAIMED, ENDED, NOW, STARTED, SUBMITTED, retry, seconds, spec, task
from tests.unit.fake import TASK_SCHEMA, with_defaults

BARE_TASK: dict[str, Any] = {
    "metadata": {
        "namespace": "default",
        "name": "hello",
        "uid": "task-uid",
        "resourceVersion": "1000000007",
        "generation": 2,
        "creationTimestamp": "2026-01-01T11:50:00Z",
    },
    "spec": {"template": {"spec": {"containers": [{"name": "first"}, {"name": "second"}]}}},
}
TASK: dict[str, Any] = with_defaults(BARE_TASK, TASK_SCHEMA)
POD: dict[str, Any] = {
    "metadata": {
        "namespace": "default",
        "name": "hello-1-abcde",
        "uid": "pod-uid",
        "resourceVersion": "12",
        "creationTimestamp": "2026-01-01T11:55:00Z",
        "labels": {"taskyard.dev/task-uid": "task-uid", "taskyard.dev/attempt": "3"},
    },
    "spec": {"nodeName": "node-1"},
    "status": {"phase": "Running"},
}


def merged(target: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(target)
    for key, value in changes.items():
        result[key] = merged(result.get(key, {}), value) if isinstance(value, dict) else value
    return result


def test_a_new_task_is_pending_and_submitted_when_it_was_created() -> None:
    task = parse.task(TASK)
    assert task.resource_version == 1000000007
    assert task.spec == spec(main_container="first")
    assert task.status == Status(submitted_at=SUBMITTED)
    assert not task.deleting


def test_the_main_container_can_be_named() -> None:
    assert parse.task(merged(TASK, {"spec": {"mainContainer": "second"}})).spec.main_container == "second"


def test_a_task_with_a_deletion_timestamp_is_being_deleted() -> None:
    assert parse.task(merged(TASK, {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}})).deleting


def test_everything_that_a_user_may_ask_for_is_read() -> None:
    asked = {
        "template": {"spec": {"containers": [{"name": "m"}], "terminationGracePeriodSeconds": 30}},
        "dependencies": ["a", "b"],
        "requires": "AllResolved",
        "onDependencyFailure": "Wait",
        "onDuplicate": "Queue",
        "idempotencyKey": "nightly/42",
        "release": True,
        "queueName": "q",
        "priority": -3,
        "runAt": "2026-01-01T13:00:00+01:00",
        "goodUntil": "2026-01-01T12:00:00.5Z",
        "deadline": "2026-01-01T12:00:00Z",
        "scheduleTimeoutSeconds": 1,
        "startTimeoutSeconds": 2,
        "startLimit": 4,
        "timeoutSeconds": 5,
        "retry": {
            "limit": 6,
            "backoff": "ExponentialJitter",
            "delaySeconds": 7,
            "maxDelaySeconds": 8,
            "expected": {"exitCodes": [75]},
            "infrastructureLimit": 9,
        },
        "unreachableTimeoutSeconds": 10,
        "suspend": True,
        "cancel": True,
        "rerun": 11,
        "onShutdown": "Stop",
        "deadLetterPolicy": "Save",
        "logs": "Always",
        "ttlSecondsAfterFinished": 12,
    }
    assert parse.task(BARE_TASK | {"spec": asked}).spec == spec(
        main_container="m",
        grace=seconds(30),
        dependencies=("a", "b"),
        requires=Requires.ALL_RESOLVED,
        on_dependency_failure=OnDependencyFailure.WAIT,
        idempotency_key="nightly/42",
        on_duplicate=OnDuplicate.QUEUE,
        release=True,
        queue="q",
        priority=-3,
        run_at=NOW,
        good_until=NOW + seconds(0.5),
        deadline=NOW,
        schedule_timeout=seconds(1),
        start_timeout=seconds(2),
        start_limit=4,
        timeout=seconds(5),
        retry=retry(
            limit=6,
            backoff=Backoff.EXPONENTIAL_JITTER,
            delay=seconds(7),
            max_delay=seconds(8),
            expected=Expected(frozenset({75}), frozenset()),
            infrastructure_limit=9,
        ),
        unreachable_timeout=seconds(10),
        suspend=True,
        cancel=True,
        rerun=11,
        on_shutdown=OnShutdown.STOP,
        dead_letter=DeadLetterPolicy.SAVE,
        logs=LogPolicy.ALWAYS,
        ttl=seconds(12),
    )


def test_relative_times_intervals_and_definitions_are_read() -> None:
    asked = {
        "startDelaySeconds": 1,
        "goodForSeconds": 2,
        "deadlineSeconds": 3,
        "retry": {"limit": 2, "intervalsSeconds": [0, 5], "expected": {"errors": ["Busy"]}},
        "definitionRef": {"kind": "ClusterTaskDefinition", "name": "d", "version": "v1"},
    }
    task = parse.task(with_defaults(BARE_TASK | {"spec": asked}, TASK_SCHEMA))
    assert task.spec == spec(
        main_container="",
        start_delay=seconds(1),
        good_for=seconds(2),
        deadline_after=seconds(3),
        retry=retry(
            limit=2,
            intervals=(seconds(0), seconds(5)),
            expected=Expected(frozenset(), frozenset({"Busy"})),
        ),
        definition=DefinitionRef(DefinitionKind.CLUSTER_TASK_DEFINITION, "d", "v1"),
    )


@pytest.mark.parametrize(("asked", "grace"), [(-1, 0), (0, 0), (10**18, 365 * 86400)])
def test_a_grace_period_that_makes_no_sense_does_no_harm(asked: int, grace: int) -> None:
    template = {"spec": {"containers": [{"name": "m"}], "terminationGracePeriodSeconds": asked}}
    assert parse.task(merged(TASK, {"spec": {"template": template}})).spec.grace == seconds(grace)


def test_tasks_that_ask_for_the_same_share_one_record() -> None:
    other = merged(TASK, {"metadata": {"name": "other", "uid": "other"}})
    assert parse.task(TASK).spec is parse.task(other).spec


@pytest.mark.parametrize(
    ("given", "value"),
    [
        pytest.param({"input": {"a": [1, None]}}, Value({"a": [1, None]}), id="any JSON"),
        pytest.param({"input": None}, Value(None), id="null is a value"),
        pytest.param({}, None, id="none"),
    ],
)
def test_the_payload_is_what_a_launch_needs(given: dict[str, Any], value: Value | None) -> None:
    payload = parse.payload(merged(TASK, {"spec": given}), None)
    assert payload.input == value
    assert payload.template == TASK["spec"]["template"]


RUNS = (
    Run(0, 1, State.FAILED, "ErrorResult", "Busy", "j", "p", "n", STARTED, ENDED, 3, None, "m"),
    Run(1, 2, State.RUNNING, signal=9),
)
EVERYTHING = Status(
    state=State.RUNNING,
    reason="R",
    message="m",
    observed_generation=2,
    observed_rerun=1,
    run=1,
    attempt=2,
    run_count=2,
    retry_count=3,
    loss_count=4,
    start_failures=5,
    submitted_at=SUBMITTED,
    rerun_at=SUBMITTED,
    enqueued_at=SUBMITTED,
    claimed_at=CLAIMED,
    claimed_by="op",
    started_at=STARTED,
    retried_at=STARTED,
    completed_at=NOW,
    failed_at=NOW,
    next_retry_at=NOW,
    stop=Stop(StopReason.TIMEOUT, NOW),
    dependencies=(Dependency("a", "uid-a", State.FAILED, "uid-before"), Dependency("b")),
    definition=Bound(DefinitionKind.TASK_DEFINITION, "d-uid", "v1", "0123", "m", 7, {"timeoutSeconds": 9}),
    waiting=(Wait(Reason.SUSPENDED, "s"), Wait(Reason.QUEUE_NOT_FOUND, "q")),
    result=Result(Value({"x": None}), Error("C", "m", "t"), (Flaw.TRUNCATED,)),
    log_tail="x" * 8000,
    runs=RUNS,
)


def test_what_is_written_is_read_back() -> None:
    assert parse.task(TASK | {"status": status_json(EVERYTHING)}).status == EVERYTHING


def test_a_resolved_task_keeps_only_what_can_still_matter() -> None:
    status = {
        "state": "Failed",
        "message": "long",
        "observedGeneration": 2,
        "attempt": 4,
        "run": 1,
        "runCount": 2,
        "completedAt": "2026-01-01T12:00:00Z",
        "runs": [{"number": 0}, {"number": 1}],
        "result": {"error": {"code": "ExitCode", "message": "long"}},
    }
    resolved = merged(TASK, {"status": status, "spec": {"deadline": "2026-01-01T12:00:00Z", "rerun": 1}})
    slim = Status(
        state=State.FAILED,
        observed_generation=2,
        observed_rerun=1,
        run=1,
        attempt=4,
        run_count=2,
        completed_at=NOW,
    )
    task = parse.task(merged(resolved, {"status": {"observedRerun": 1}}))
    assert task.status == slim
    assert task.spec == spec(main_container="first", rerun=1)
    wanted_again = parse.task(resolved)
    assert len(wanted_again.status.runs) == 2, "a rerun keeps the history"
    assert wanted_again.spec.deadline == NOW


@pytest.mark.parametrize(
    ("state", "container"),
    [
        ({}, Container("main")),
        ({"waiting": {"reason": "ImagePullBackOff"}}, Container("main")),
        ({"running": {"startedAt": "2026-01-01T11:56:00Z"}}, Container("main", STARTED)),
        (
            {"terminated": {"exitCode": 3, "reason": "Error", "startedAt": "2026-01-01T11:56:00Z"}},
            Container("main", STARTED, Exit(3, "Error", None, None)),
        ),
        (
            {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None}},
            Container("main", None, Exit(137, "ContainerStatusUnknown", None, None)),
        ),
    ],
)
def test_containers(state: dict[str, Any], container: Container) -> None:
    pod = parse.pod(merged(POD, {"status": {"containerStatuses": [{"name": "main", "state": state}]}}))
    assert pod.containers == (container,)


def test_a_pod_of_a_task() -> None:
    pod = parse.pod(POD)
    assert (pod.task_uid, pod.attempt, pod.node, pod.phase) == ("task-uid", 3, "node-1", PodPhase.RUNNING)
    assert (pod.deleting, pod.gone, pod.disruption) == (False, False, None)


def test_what_a_stop_needs_to_know_of_a_pod() -> None:
    spec = {"nodeName": "n", "activeDeadlineSeconds": 1}
    moment = "2026-01-01T12:00:00Z"
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}]
    changes = {"spec": spec, "status": {"conditions": conditions}, "metadata": {"deletionTimestamp": moment}}
    pod = parse.pod(merged(POD, changes))
    assert (pod.active_deadline, pod.scheduled_at, pod.deleted_at, pod.deleting) == (1, NOW, NOW, True)


def test_when_somebody_first_meant_to_end_a_pod() -> None:
    conditions = [
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T11:59:50Z"}
    ]
    deleted = {"deletionTimestamp": "2026-01-01T12:00:25Z", "deletionGracePeriodSeconds": 30}
    assert parse.pod(merged(POD, {"metadata": deleted})).disturbed_at == NOW - seconds(5)
    both = merged(POD, {"metadata": deleted, "status": {"conditions": conditions}})
    assert parse.pod(both).disturbed_at == NOW - seconds(10)
    assert parse.pod(POD).disturbed_at is None


def test_a_kubelet_dates_its_own_disruption_when_the_containers_have_ended() -> None:
    """Seen of kubelets that evict: the condition is a second younger than the end of what it killed."""
    conditions = [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "lastTransitionTime": "2026-01-01T12:00:01Z",
        }
    ]
    killed = {
        "terminated": {
            "exitCode": 143,
            "startedAt": "2026-01-01T11:59:00Z",
            "finishedAt": "2026-01-01T12:00:00Z",
        }
    }
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "conditions": conditions,
        "containerStatuses": [{"name": "main", "state": killed}],
    }
    deleted = {"deletionTimestamp": "2026-01-01T12:01:00Z", "deletionGracePeriodSeconds": 0}
    for metadata in ({}, deleted):
        evicted = parse.pod(merged(POD, {"status": status, "metadata": metadata}))
        assert evicted.disturbed_at is None
        assert isinstance(verdict.of_pod(evicted, task(State.RUNNING)), Lost)


def test_a_grace_period_without_end_is_read_all_the_same() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T12:00:00Z", "deletionGracePeriodSeconds": 10**14}
    assert parse.pod(merged(POD, {"metadata": deleted})).disturbed_at == NOW - seconds(365 * 86400)


@pytest.mark.parametrize(
    "stop", [{}, {"reason": "Expired"}, {"reason": "No", "requestedAt": "2026-01-01T12:00:00Z"}]
)
def test_a_stop_that_somebody_left_half_written_is_none(stop: dict[str, Any]) -> None:
    status = {"state": "Running", "stop": stop, "waiting": [{"reason": "Foo"}, {"reason": "NoPod"}]}
    found = parse.task(merged(TASK, {"status": status})).status
    assert (found.stop, found.waiting) == (None, (Wait(Reason.NO_POD, ""),))


def test_why_a_job_has_no_pod_is_what_its_last_event_says() -> None:
    def event(second: int, message: str, reason: str = "FailedCreate") -> dict[str, Any]:
        return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T12:00:0{second}Z"}

    said = [event(1, "old"), event(3, "exceeded quota"), event(2, "older"), event(9, "x", "Other")]
    assert parse.complaint(said) == "exceeded quota"
    assert parse.complaint([]) is None


def test_a_container_that_ran_out_of_memory_knows_its_limit() -> None:
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-01-01T11:56:00Z"}}
    containers = [{"name": "main", "resources": {"limits": {"memory": "32Mi"}}}]
    statuses = [{"name": "main", "state": state}]
    pod = parse.pod(
        merged(POD, {"spec": {"containers": containers}, "status": {"containerStatuses": statuses}})
    )
    assert pod.containers[0].memory_limit == "32Mi"


@pytest.mark.parametrize("label", ["", "x", "-1", "²"])
def test_a_pod_with_a_broken_label_belongs_to_no_attempt(label: str) -> None:
    assert parse.pod(merged(POD, {"metadata": {"labels": {"taskyard.dev/attempt": label}}})).attempt == -1


READY = {"type": "Ready", "status": "True"}
MARKED = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T12:00:00Z"}
CONTAINERS_READY = {"type": "ContainersReady", "status": "True"}


@pytest.mark.parametrize(
    ("conditions", "is_silent"),
    [
        pytest.param([READY, CONTAINERS_READY], False, id="all is well"),
        pytest.param([MARKED, CONTAINERS_READY], True, id="not ready, for no reason, with ready containers"),
        pytest.param(
            [MARKED | {"reason": "ReadinessGatesNotReady"}, CONTAINERS_READY],
            False,
            id="its kubelet waits for a gate, and says so",
        ),
        pytest.param(
            [
                MARKED | {"reason": "ContainersNotReady"},
                CONTAINERS_READY | {"status": "False", "reason": "ContainersNotReady"},
            ],
            False,
            id="its kubelet says that a container is not ready",
        ),
        pytest.param([], False, id="nothing is told"),
    ],
)
def test_a_node_is_silent_when_its_pod_is_marked_by_others_than_its_kubelet(
    conditions: list[dict[str, str]], is_silent: bool
) -> None:
    since = parse.pod(merged(POD, {"status": {"conditions": conditions}})).silent_since
    assert since == (datetime(2026, 1, 1, 12, tzinfo=UTC) if is_silent else None)


@pytest.mark.parametrize(("status", "disruption"), [("True", "EvictionByEvictionAPI"), ("False", None)])
def test_a_disruption_is_a_condition_that_is_true(status: str, disruption: str | None) -> None:
    conditions = [{"type": "DisruptionTarget", "status": status, "reason": "EvictionByEvictionAPI"}]
    assert parse.pod(merged(POD, {"status": {"conditions": conditions}})).disruption == disruption


@pytest.mark.parametrize(
    ("status", "succeeded", "failed"),
    [
        pytest.param({}, False, False, id="at work"),
        pytest.param({"conditions": [{"type": "Complete", "status": "True"}]}, True, False, id="complete"),
        pytest.param({"conditions": [{"type": "Failed", "status": "True"}]}, False, True, id="failed"),
        pytest.param({"succeeded": 1}, True, False, id="its pod is counted, the condition is to come"),
        pytest.param(
            {"uncountedTerminatedPods": {"succeeded": ["uid"]}},
            True,
            False,
            id="its pod is about to be counted",
        ),
        pytest.param({"uncountedTerminatedPods": {"failed": ["uid"]}}, False, False, id="its pod has failed"),
    ],
)
def test_how_a_job_stands(status: dict[str, Any], succeeded: bool, failed: bool) -> None:
    job = parse.job({"metadata": {"name": "j", "uid": "u"}, "status": status})
    assert (job.succeeded, job.failed) == (succeeded, failed)


@pytest.mark.parametrize(
    ("spec", "is_idle"), [({}, False), ({"parallelism": 1}, False), ({"parallelism": 0}, True)]
)
def test_a_job_may_be_scaled_to_none(spec: dict[str, int], is_idle: bool) -> None:
    assert parse.job({"metadata": {"name": "j", "uid": "u"}, "spec": spec}).is_idle is is_idle


@pytest.mark.parametrize(
    ("status", "is_suspended"),
    [
        pytest.param({}, False, id="asked, not yet done"),
        pytest.param({"conditions": [{"type": "Suspended", "status": "True"}]}, True, id="done"),
        pytest.param(
            {"conditions": [{"type": "Suspended", "status": "True"}], "terminating": 1},
            False,
            id="its pod is on the way out",
        ),
        pytest.param(
            {"conditions": [{"type": "Suspended", "status": "True"}], "active": 1},
            False,
            id="its pod is at work",
        ),
    ],
)
def test_when_a_job_is_suspended(status: dict[str, Any], is_suspended: bool) -> None:
    metadata = {"name": "j", "uid": "u"}
    job = parse.job({"metadata": metadata, "spec": {"suspend": True}, "status": status})
    assert (job.suspend, job.is_suspended) == (True, is_suspended)


def test_whose_a_job_is() -> None:
    owners = [{"uid": "other"}, {"uid": "task-uid", "controller": True}]
    metadata = {"name": "j", "uid": "u", "ownerReferences": owners, "labels": {"taskyard.dev/attempt": "2"}}
    job = parse.job({"metadata": metadata})
    assert (job.owner_uid, job.attempt) == ("task-uid", 2)
    stranger = parse.job({"metadata": {"name": "j", "uid": "u"}})
    assert (stranger.owner_uid, stranger.attempt) == (None, None)


def test_times_with_fractions_and_offsets_are_understood() -> None:
    task = parse.task(merged(TASK, {"status": {"claimedAt": "2026-01-01T13:00:00.5+01:00"}}))
    assert task.status.claimed_at == datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(seconds=0.5)


@pytest.mark.parametrize(
    ("status", "hindrance"),
    [
        pytest.param({}, None, id="nothing holds it"),
        pytest.param(
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
                ]
            },
            Hindrance(Reason.UNSCHEDULABLE, "0/2 nodes are available"),
            id="no node",
        ),
        pytest.param(
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "message": "0/2 nodes: 2 Insufficient cpu."}
                ]
            },
            Hindrance(Reason.UNSCHEDULABLE, "0/2 nodes: 2 Insufficient cpu.", is_capacity=True),
            id="no room",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    {"name": "main", "state": {"waiting": {"reason": "InvalidImageName", "message": "m"}}}
                ]
            },
            Hindrance(Reason.IMAGE_PULL, "container `main`: InvalidImageName: m", is_final=True),
            id="an image that can never be pulled",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]},
            None,
            id="on its way",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}
                ]
            },
            Hindrance(Reason.IMAGE_PULL, "container `main`: ErrImagePull: not found"),
            id="no image",
        ),
        pytest.param(
            {
                "initContainerStatuses": [
                    {
                        "name": "init",
                        "state": {"waiting": {"reason": "CreateContainerConfigError", "message": "m"}},
                    }
                ]
            },
            Hindrance(Reason.CONTAINER_WAITING, "container `init`: CreateContainerConfigError: m"),
            id="an init container that cannot be made",
        ),
    ],
)
def test_what_holds_a_pod(status: dict[str, Any], hindrance: Hindrance | None) -> None:
    assert parse.pod(merged(POD, {"status": status})).hindrance == hindrance


@pytest.mark.parametrize(
    ("status", "has_counted"),
    [
        pytest.param({}, False, id="nothing yet"),
        pytest.param({"active": 1, "failed": 0}, False, id="a pod at work"),
        pytest.param({"failed": 1}, True, id="a failure"),
        pytest.param({"succeeded": 1}, True, id="a success"),
        pytest.param(
            {"uncountedTerminatedPods": {"failed": ["pod-uid"]}}, True, id="one that it is about to count"
        ),
        pytest.param({"uncountedTerminatedPods": {}}, False, id="none that it is about to count"),
    ],
)
def test_what_a_job_has_counted(status: dict[str, Any], has_counted: bool) -> None:
    found = parse.job({"metadata": {"name": "j", "uid": "u"}, "spec": {}, "status": status})
    assert found.has_counted is has_counted


@pytest.mark.parametrize("finalizers", [[], ["batch.kubernetes.io/job-tracking"]])
def test_whether_a_job_is_still_to_count_a_pod(finalizers: list[str]) -> None:
    labels = {"taskyard.dev/task-uid": "uid"}
    metadata = {"namespace": "d", "name": "p", "uid": "p", "resourceVersion": "1", "labels": labels}
    made = metadata | {"creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
    assert parse.pod({"metadata": made, "spec": {}, "status": {}}).is_tracked is bool(finalizers)
