"""What the API server refuses, with the path and the sentence that a person reads; and what it takes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from taskyard.core.words import DEPENDENCIES_LIMIT
from tests.api import Reply
from tests.kube import JSON, Kubectl, task

Change = Callable[[JSON, JSON], Any]

# So far off that no clock of a Task in these tests ever rings.
EARLY, NOON, LATE = "2099-01-01T06:00:00Z", "2099-01-01T12:00:00Z", "2099-01-01T18:00:00Z"
NOON_ELSEWHERE = "2099-01-01T13:30:00+01:30"
DEFINITION = {"name": "resize.images", "version": "v2"}
NO_TEMPLATE: JSON = {"template": None}
ONE_OF_TWO = "exactly one of `template` and `definitionRef` must be given"
AS_CREATED = "must stay as it was created; create another Task instead"
SAME_ORDER = "the order of containers must stay as it was"
WITH_A_RERUN = "must stay as it was, unless the same write raises `rerun` on a Task that is Finished"
A_RUN_IS_ONE_POD = "`restartPolicy` must be `Never` or absent: a run is one pod that runs once"
NO_SECOND_RUN_INSIDE = "Kubernetes would run its code again inside one run"
A_LIST_OR_A_CURVE = (
    "`intervalsSeconds` must not stand beside `delaySeconds`, nor beside a `backoff` other than `Constant`:"
    " delays are a list or a curve"
)
WHAT_GROWS = "`delaySeconds` must be given with a `backoff` other than `Constant`: it is what grows"
ONE_DELAY_A_RETRY = "`intervalsSeconds` must have as many items as the `limit` beside it: one delay a retry"


REFUSED_TEMPLATES = [
    pytest.param(
        lambda pod, container: container.update(comand=["x"]),
        'unknown field "spec.template.spec.containers[0].comand"',
        id="a misspelt field of a container, with its path",
    ),
    pytest.param(
        lambda pod, container: pod.update(restartPolicy="OnFailure"),
        f"spec.template.spec.restartPolicy: Forbidden: {A_RUN_IS_ONE_POD}",
        id="a pod that would restart its containers",
    ),
    pytest.param(
        lambda pod, container: container.update(restartPolicy="Always"),
        "spec.template.spec.containers[0].restartPolicy: Forbidden: `restartPolicy` must be absent on a container:"
        f" {NO_SECOND_RUN_INSIDE}",
        id="a container that restarts",
    ),
    pytest.param(
        lambda pod, container: container.update(
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
        ),
        "spec.template.spec.containers[0].restartPolicyRules: Forbidden: `restartPolicyRules` must be absent on a"
        f" container: {NO_SECOND_RUN_INSIDE}",
        id="a container that restarts by rules",
    ),
    pytest.param(
        lambda pod, container: pod.update(
            initContainers=[{**container, "name": "init", "restartPolicy": "OnFailure"}]
        ),
        "spec.template.spec.initContainers[0].restartPolicy: Forbidden: `restartPolicy` of an init container must be"
        " `Always`, which makes it a sidecar, or absent",
        id="an init container that restarts without being a sidecar",
    ),
    pytest.param(
        lambda pod, container: pod.update(
            initContainers=[
                {
                    **container,
                    "name": "init",
                    "restartPolicyRules": [
                        {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
                    ],
                }
            ]
        ),
        "spec.template.spec.initContainers[0].restartPolicyRules: Forbidden: `restartPolicyRules` must be absent on"
        " an init container that is no sidecar (`restartPolicy: Always`)",
        id="an init container that restarts by rules",
    ),
    pytest.param(
        lambda pod, container: pod.update(containers=[]),
        "spec.template.spec.containers: Invalid value",
        id="no container at all",
    ),
    pytest.param(
        lambda pod, container: pod["containers"].append(container),
        'spec.template.spec.containers[1]: Duplicate value: {"name":"main"}',
        id="two containers of one name",
    ),
    pytest.param(
        lambda pod, container: container["resources"].update(requests={"memory": "12Megs"}),
        "spec.template.spec.containers[0].resources.requests.memory",
        id="a quantity that is none",
    ),
    pytest.param(
        lambda pod, container: container.pop("image"),
        "spec.template.spec.containers[0].image: Required value",
        id="no image",
    ),
    pytest.param(
        lambda pod, container: container.update(imagePullPolicy="ifnotpresent"),
        "spec.template.spec.containers[0].imagePullPolicy",
        id="a pull policy that does not exist",
    ),
    pytest.param(
        lambda pod, container: container.update(name="Main_Container"),
        "spec.template.spec.containers[0].name",
        id="a container's name that is no DNS label",
    ),
]


@pytest.mark.parametrize(("change", "message"), REFUSED_TEMPLATES)
def test_refused_template(admin: Kubectl, change: Change, message: str) -> None:
    manifest = task("refused", "exit 0")
    pod = manifest["spec"]["template"]["spec"]
    change(pod, pod["containers"][0])
    assert message in refusal(admin, manifest)


REFUSED = [
    pytest.param(NO_TEMPLATE, f"spec.template: Required value: {ONE_OF_TWO}", id="nothing to run"),
    pytest.param(
        {"definitionRef": DEFINITION},
        f"spec.definitionRef: Forbidden: {ONE_OF_TWO}",
        id="two things to run",
    ),
    pytest.param(
        {**NO_TEMPLATE, "definitionRef": {"name": "resize"}},
        "spec.definitionRef.version: Required value",
        id="a definition without a version",
    ),
    pytest.param(
        {**NO_TEMPLATE, "definitionRef": {**DEFINITION, "name": "Resize"}},
        "spec.definitionRef.name: Invalid value",
        id="a definition that no object can be",
    ),
    pytest.param(
        {**NO_TEMPLATE, "definitionRef": {**DEFINITION, "version": ""}},
        "spec.definitionRef.version: Invalid value",
        id="an empty version",
    ),
    pytest.param(
        {**NO_TEMPLATE, "definitionRef": {**DEFINITION, "kind": "Job"}},
        'spec.definitionRef.kind: Unsupported value: "Job": supported values:'
        ' "TaskDefinition", "ClusterTaskDefinition"',
        id="a definition of another kind",
    ),
    pytest.param(
        {"mainContainer": "nobody"},
        "spec.mainContainer: Invalid value: `mainContainer` must be the name of one of the `containers` of `template`",
        id="a main container that is not there",
    ),
    pytest.param({"queueName": "The_Queue"}, "spec.queueName: Invalid value", id="a queue's name"),
    pytest.param(
        {"idempotencyKey": "a,b"}, "spec.idempotencyKey: Invalid value", id="a key that none can select"
    ),
    pytest.param(
        {"onDuplicate": "Both"}, "spec.onDuplicate: Unsupported value", id="a policy that there is not"
    ),
    pytest.param({"priority": 1_000_001}, "spec.priority: Invalid value", id="a priority too high"),
    pytest.param({"startDelaySeconds": -1}, "spec.startDelaySeconds: Invalid value", id="a delay of less"),
    pytest.param({"timeoutSeconds": 0}, "spec.timeoutSeconds: Invalid value", id="no time at all"),
    pytest.param({"deadlineSeconds": 31_536_001}, "spec.deadlineSeconds: Invalid value", id="over a year"),
    pytest.param({"startLimit": 0}, "spec.startLimit: Invalid value", id="no start at all"),
    pytest.param({"onShutdown": "Panic"}, "spec.onShutdown: Unsupported value", id="a word not in the list"),
    pytest.param(
        {"dependencies": ["First_Task"]}, "spec.dependencies[0]: Invalid value", id="a task that none can be"
    ),
    pytest.param(
        {"dependencies": ["first", "first"]},
        'spec.dependencies[1]: Duplicate value: "first"',
        id="a dependency twice",
    ),
    pytest.param(
        {"dependencies": [f"task-{number}" for number in range(DEPENDENCIES_LIMIT + 1)]},
        f"spec.dependencies: Too many: {DEPENDENCIES_LIMIT + 1}: must have at most {DEPENDENCIES_LIMIT} items",
        id="too many dependencies",
    ),
    pytest.param(
        {"requires": "AnyCompleted"},
        'spec.requires: Unsupported value: "AnyCompleted": supported values: "AllCompleted", "AllResolved"',
        id="a demand that is not in the list",
    ),
    pytest.param(
        {"onDependencyFailure": "Skip"},
        'spec.onDependencyFailure: Unsupported value: "Skip": supported values: "Fail", "Wait"',
        id="a way out that is not in the list",
    ),
    pytest.param({"release": "now"}, "spec.release: Invalid value", id="a release that is no yes or no"),
    pytest.param({"inputs": {}}, 'unknown field "spec.inputs"', id="a misspelt field"),
    pytest.param(
        {"runAt": NOON, "startDelaySeconds": 0},
        "spec.startDelaySeconds: Forbidden: `startDelaySeconds` must not stand beside `runAt`:"
        " the time is absolute or relative",
        id="a start both absolute and relative",
    ),
    pytest.param(
        {"goodUntil": NOON, "goodForSeconds": 60},
        "spec.goodForSeconds: Forbidden: `goodForSeconds` must not stand beside `goodUntil`:"
        " the time is absolute or relative",
        id="an expiry both absolute and relative",
    ),
    pytest.param(
        {"deadline": NOON, "deadlineSeconds": 60},
        "spec.deadlineSeconds: Forbidden: `deadlineSeconds` must not stand beside `deadline`:"
        " the time is absolute or relative",
        id="a deadline both absolute and relative",
    ),
    pytest.param(
        {"runAt": NOON_ELSEWHERE, "goodUntil": NOON},
        "spec.runAt: Invalid value: `runAt` must be before `goodUntil`",
        id="a start at the very time of its expiry, in another zone",
    ),
    pytest.param(
        {"runAt": NOON, "deadline": NOON_ELSEWHERE},
        "spec.runAt: Invalid value: `runAt` must be before `deadline`",
        id="a start at the very time of its deadline, in another zone",
    ),
    pytest.param(
        {"goodUntil": LATE, "deadline": NOON},
        "spec.goodUntil: Invalid value: `goodUntil` must not be after `deadline`",
        id="an expiry after the deadline",
    ),
    pytest.param(
        {"startDelaySeconds": 60, "goodForSeconds": 60},
        "spec.startDelaySeconds: Invalid value: `startDelaySeconds` must be less than `goodForSeconds`",
        id="a delay up to the expiry",
    ),
    pytest.param(
        {"startDelaySeconds": 60, "deadlineSeconds": 60},
        "spec.startDelaySeconds: Invalid value: `startDelaySeconds` must be less than `deadlineSeconds`",
        id="a delay up to the deadline",
    ),
    pytest.param(
        {"goodForSeconds": 61, "deadlineSeconds": 60},
        "spec.goodForSeconds: Invalid value: `goodForSeconds` must not be more than `deadlineSeconds`",
        id="an expiry after the deadline, both relative",
    ),
    pytest.param(
        {"retry": {"limit": 1, "intervalsSeconds": [1], "delaySeconds": 1}},
        f"spec.retry.intervalsSeconds: Forbidden: {A_LIST_OR_A_CURVE}",
        id="intervals beside a delay",
    ),
    pytest.param(
        {"retry": {"limit": 1, "intervalsSeconds": [1], "backoff": "Linear"}},
        f"spec.retry.intervalsSeconds: Forbidden: {A_LIST_OR_A_CURVE}",
        id="intervals beside a curve",
    ),
    pytest.param(
        {"retry": {"limit": 1, "backoff": "Exponential"}},
        f"spec.retry.delaySeconds: Required value: {WHAT_GROWS}",
        id="a curve of nothing",
    ),
    pytest.param(
        {"retry": {"limit": 3, "intervalsSeconds": [1, 2]}},
        f"spec.retry.intervalsSeconds: Invalid value: {ONE_DELAY_A_RETRY}",
        id="fewer intervals than retries",
    ),
    pytest.param(
        {"retry": {"intervalsSeconds": [1]}},
        f"spec.retry.intervalsSeconds: Invalid value: {ONE_DELAY_A_RETRY}",
        id="intervals without a limit",
    ),
    pytest.param(
        {"retry": {"limit": 0, "intervalsSeconds": [1]}},
        f"spec.retry.intervalsSeconds: Invalid value: {ONE_DELAY_A_RETRY}",
        id="intervals and no retry",
    ),
    pytest.param(
        {"retry": {"intervalsSeconds": [-1], "limit": 1}},
        "spec.retry.intervalsSeconds[0]: Invalid value",
        id="an interval of less than nothing",
    ),
    pytest.param({"retry": {"limit": 1001}}, "spec.retry.limit: Invalid value", id="too many retries"),
    pytest.param({"retry": {"expected": {}}}, "spec.retry.expected: Invalid value", id="retry on nothing"),
    pytest.param(
        {"retry": {"expected": {"exitCodes": [0]}}},
        "spec.retry.expected.exitCodes[0]: Invalid value",
        id="retry on success",
    ),
    pytest.param(
        {"retry": {"expected": {"exitCodes": [75, 75]}}},
        "spec.retry.expected.exitCodes[1]: Duplicate value: 75",
        id="an exit code twice",
    ),
    pytest.param(
        {"retry": {"true": {"exitCodes": [75]}}},
        'unknown field "spec.retry.true"',
        id="what a bare `on` is in YAML",
    ),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_refused(admin: Kubectl, spec: JSON, message: str) -> None:
    assert message in refusal(admin, task("refused", "exit 0", **spec))


TIME_FIELDS = ("runAt", "goodUntil", "deadline")


@pytest.mark.parametrize("field", TIME_FIELDS)
@pytest.mark.parametrize(
    "time",
    [
        pytest.param("2027-13-01T00:00:00Z", id="a month 13"),
        pytest.param("2027-02-30T00:00:00Z", id="a day that February lacks"),
        pytest.param("2027-02-29T00:00:00Z", id="a leap day of a common year"),
        pytest.param("2027-01-01T24:00:00Z", id="the hour 24"),
        pytest.param("2027-01-01T12:60:00Z", id="the minute 60"),
        pytest.param("2026-12-31T23:59:60Z", id="a leap second"),
        pytest.param("2027-01-01T12:00:00+24:00", id="an offset of a day"),
        pytest.param("2027-01-01T12:00:00", id="no zone"),
        pytest.param("2027-01-01", id="no time of day"),
        pytest.param("0000-01-01T00:00:00Z", id="the year 0"),
        pytest.param("2027-01-01t12:00:00z", id="small letters"),
        pytest.param("2027-01-01T12:00:00.1234567891Z", id="ten digits of a second"),
        pytest.param("tomorrow", id="a word"),
        pytest.param("", id="nothing"),
    ],
)
def test_refused_time(admin: Kubectl, field: str, time: str) -> None:
    """Never a time that Go reads and Python does not, or the other way round."""
    assert f'spec.{field}: Invalid value: "{time}"' in refusal(
        admin, task("refused", "exit 0", **{field: time})
    )


@pytest.mark.parametrize("field", TIME_FIELDS)
@pytest.mark.parametrize(
    "time",
    [
        "2027-01-01T12:00:00Z",
        "2028-02-29T23:59:59.123456789+23:59",
        "2027-01-01T12:00:00.5-00:00",
        "1900-01-01T00:00:00-23:59",
        "2999-12-31T23:59:59Z",
    ],
)
def test_accepted_time(admin: Kubectl, field: str, time: str) -> None:
    """What is taken is kept as it was written, and Python can read it."""
    kept = accepted(admin, task("accepted", "exit 0", **{field: time}))["spec"][field]
    assert kept == time
    assert datetime.fromisoformat(kept).tzinfo is not None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({**NO_TEMPLATE, "definitionRef": DEFINITION}, id="a definition"),
        pytest.param(
            {**NO_TEMPLATE, "definitionRef": DEFINITION, "mainContainer": "anyone"},
            id="a main container of a definition, which nobody knows yet",
        ),
        pytest.param({"mainContainer": "main"}, id="a main container of the template"),
        pytest.param({"runAt": EARLY, "goodUntil": NOON, "deadline": NOON_ELSEWHERE}, id="times in order"),
        pytest.param({"runAt": EARLY, "goodForSeconds": 1}, id="absolute and relative, of different things"),
        pytest.param(
            {"startDelaySeconds": 0, "goodForSeconds": 60, "deadlineSeconds": 60}, id="delays in order"
        ),
        pytest.param({"retry": {"limit": 1, "delaySeconds": 0}}, id="a retry at once, in words"),
        pytest.param(
            {"retry": {"limit": 9, "backoff": "ExponentialJitter", "delaySeconds": 1}}, id="a curve"
        ),
        pytest.param({"retry": {"limit": 3, "intervalsSeconds": [1, 0, 1]}}, id="a list of delays"),
        pytest.param({"retry": {"limit": 1000, "intervalsSeconds": [1] * 1000}}, id="the longest list"),
        pytest.param({"retry": {"limit": 1, "expected": {"exitCodes": [75]}}}, id="retry on an exit code"),
        pytest.param(
            {"retry": {"limit": 1, "expected": {"errors": ["Timeout", "a b"]}}}, id="retry on errors"
        ),
        pytest.param({"retry": {"infrastructureLimit": 0}, "onShutdown": "Stop"}, id="at most once"),
        pytest.param({"retry": {}}, id="a retry that says nothing"),
        pytest.param(
            {"retry": {"limit": 1, "backoff": "Constant", "intervalsSeconds": [1]}},
            id="a list of delays beside what is no curve",
        ),
        pytest.param({"retry": {"delaySeconds": 1}}, id="a delay, for a definition's limit"),
        pytest.param({"dependencies": []}, id="no dependencies, in words"),
        pytest.param({"dependencies": ["accepted"]}, id="a task that waits for its release"),
        pytest.param(
            {"dependencies": ["a.b", "c"], "requires": "AllResolved", "onDependencyFailure": "Wait"},
            id="dependencies",
        ),
        pytest.param(
            {"dependencies": [f"task-{number}" for number in range(DEPENDENCIES_LIMIT)], "release": True},
            id="as many dependencies as there may be",
        ),
        pytest.param({"unreachableTimeoutSeconds": 60, "deadLetterPolicy": "Save"}, id="the rest"),
    ],
)
def test_accepted(admin: Kubectl, spec: JSON) -> None:
    accepted(admin, task("accepted", "exit 0", **spec))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="null"),
        pytest.param(False, id="a boolean"),
        pytest.param(2**63 - 1, id="a large number"),
        pytest.param("$(PATH) $$ $", id="a string with dollars"),
        pytest.param([], id="an empty list"),
        pytest.param({}, id="an empty object"),
        pytest.param(
            {"apiVersion": 1, "a": [1, 1.5, None, {"b": [["$(X)", None]]}], "": "", "ü": None},
            id="a nested one",
        ),
    ],
)
def test_input_is_any_json(admin: Kubectl, value: Any) -> None:
    assert accepted(admin, task("accepted", "exit 0", input=value))["spec"]["input"] == value


def test_defaults_are_filled_in(admin: Kubectl) -> None:
    """All of them: what a definition may have a default for stays absent."""
    found = accepted(admin, task("accepted", "exit 0", retry={}))
    del found["spec"]["template"]
    assert found["spec"] == {
        "queueName": "default",
        "requires": "AllCompleted",
        "onDependencyFailure": "Fail",
        "onDuplicate": "Skip",
        "retry": {},
        "suspend": False,
        "release": False,
        "cancel": False,
        "rerun": 0,
    }
    assert found["status"] == {"state": "Pending", "phase": "Waiting"}


EVERYTHING: JSON = {
    "suspend": True,  # so that an operator, where one runs, leaves it alone
    "mainContainer": "main",
    "input": {"a": [1, None], "b": {"c": "$"}},
    "queueName": "night",
    "runAt": EARLY,
    "goodUntil": NOON,
    "deadline": LATE,
    "timeoutSeconds": 60,
    "retry": {"limit": 2, "delaySeconds": 1, "expected": {"exitCodes": [75]}},
    "unreachableTimeoutSeconds": 60,
    "dependencies": ["first", "second"],
    "idempotencyKey": "nightly/42",
    "onDuplicate": "Queue",
    "rerun": 3,
}
FINISHED = {"state": "Failed", "phase": "Finished", "completedAt": EARLY}


@pytest.fixture(scope="module")
def standing(admin: Kubectl) -> Iterator[Kubectl]:
    """kubectl in a namespace where Tasks stand still: every edit of them is tried, and none is made."""
    space = Kubectl(admin.command, f"test-{uuid.uuid4().hex[:10]}")
    admin("create", "namespace", space.namespace)
    space.create(
        task("waiting", "exit 0", **EVERYTHING),
        task("finished", "exit 0", **EVERYTHING),
        task("plain", "exit 0", suspend=True),
        task(
            "relative",
            "exit 0",
            suspend=True,
            startDelaySeconds=3000,
            goodForSeconds=4000,
            deadlineSeconds=5000,
        ),
        task("cancelled", "exit 0", suspend=True, cancel=True),
        task("several", "exit 0", suspend=True, template=several("one", "two")),
        task("defined", "exit 0", suspend=True, template=None, definitionRef=DEFINITION),
    )
    for name, rerun in {"finished": EVERYTHING["rerun"], "cancelled": 0}.items():
        patch = json.dumps({"status": {**FINISHED, "observedRerun": rerun}})
        space("patch", "task", name, "--subresource=status", "--type=merge", f"--patch={patch}")
    yield space
    admin("delete", "namespace", space.namespace, "--wait=false")


def several(*names: str) -> JSON:
    """A template with containers, and init containers, of these names."""
    template: JSON = task("any", "exit 0")["spec"]["template"]
    [one] = template["spec"]["containers"]
    containers = [{**one, "name": name} for name in names]
    first = [{**one, "name": f"first-{name}"} for name in names]
    return {"spec": {**template["spec"], "containers": containers, "initContainers": first}}


def container(command: str) -> JSON:
    """A template that runs another command."""
    return {"template": task("other", command)["spec"]["template"]}


FIXED = [
    pytest.param("waiting", "template", container("exit 1")["template"], id="another command"),
    pytest.param("defined", "definitionRef", {"version": "v3"}, id="another version"),
    pytest.param("waiting", "mainContainer", None, id="no main container any more"),
    pytest.param("plain", "mainContainer", "main", id="a main container at last"),
    pytest.param("waiting", "input", {"b": {"c": "%"}}, id="another input, deep inside"),
    pytest.param("waiting", "input", [1], id="input of another type"),
    pytest.param("waiting", "input", None, id="no input any more"),
    pytest.param("plain", "input", {}, id="an input at last"),
    pytest.param("waiting", "queueName", "day", id="another queue"),
    pytest.param("waiting", "queueName", None, id="back to the default queue"),
    pytest.param("waiting", "idempotencyKey", "nightly/43", id="another key"),
    pytest.param("plain", "idempotencyKey", "nightly/42", id="a key at last"),
    pytest.param("waiting", "onDuplicate", "Skip", id="another policy for its key"),
    pytest.param("relative", "startDelaySeconds", 0, id="no delay"),
    pytest.param("plain", "startDelaySeconds", 1, id="a delay at last"),
    pytest.param("relative", "goodForSeconds", 4500, id="a later expiry"),
    pytest.param("relative", "deadlineSeconds", 9000, id="a later deadline"),
    pytest.param("waiting", "scheduleTimeoutSeconds", 1, id="scheduleTimeoutSeconds"),
    pytest.param("waiting", "startTimeoutSeconds", 1, id="startTimeoutSeconds"),
    pytest.param("waiting", "startLimit", 1, id="startLimit"),
    pytest.param(
        "plain", "startLimit", 3, id="in words what was meant before: a definition may mean something else"
    ),
    pytest.param("waiting", "timeoutSeconds", 61, id="a longer timeout"),
    pytest.param("waiting", "timeoutSeconds", None, id="no timeout any more"),
    pytest.param("waiting", "retry", {"limit": 3}, id="another retry"),
    pytest.param("waiting", "retry", {"expected": None}, id="retry on everything"),
    pytest.param("waiting", "retry", None, id="the default retry"),
    pytest.param("plain", "retry", {}, id="the default retry, in words"),
    pytest.param("waiting", "unreachableTimeoutSeconds", 1, id="unreachableTimeoutSeconds"),
    pytest.param("waiting", "dependencies", ["first"], id="a dependency less"),
    pytest.param("waiting", "dependencies", ["first", "second", "third"], id="another dependency"),
    pytest.param("waiting", "dependencies", None, id="no dependencies any more"),
    pytest.param("plain", "dependencies", ["first"], id="a dependency at last"),
    pytest.param("plain", "dependencies", [], id="no dependencies, in words"),
    pytest.param("waiting", "requires", "AllResolved", id="requires"),
    pytest.param("waiting", "onDependencyFailure", "Wait", id="onDependencyFailure"),
    pytest.param("waiting", "onShutdown", "Stop", id="onShutdown"),
    pytest.param("waiting", "deadLetterPolicy", "Save", id="deadLetterPolicy"),
    pytest.param("plain", "logs", "Always", id="another share of the log"),
    pytest.param("finished", "queueName", "day", id="another queue, of what is finished"),
]


@pytest.mark.parametrize(("name", "field", "value"), FIXED)
def test_a_fixed_field_stays(standing: Kubectl, name: str, field: str, value: Any) -> None:
    assert f"spec.{field}: Forbidden: `{field}` {AS_CREATED}" in edit(standing, name, {field: value})


EDITS_REFUSED = [
    pytest.param(
        "several",
        {"template": {"spec": {"containers": several("two", "one")["spec"]["containers"]}}},
        f"spec.template.spec.containers: Forbidden: {SAME_ORDER}",
        id="another container first",
    ),
    pytest.param(
        "several",
        {"template": {"spec": {"initContainers": several("two", "one")["spec"]["initContainers"]}}},
        f"spec.template.spec.initContainers: Forbidden: {SAME_ORDER}",
        id="init containers in another order",
    ),
    pytest.param(
        "plain",
        {"template": None, "definitionRef": DEFINITION},
        f"spec.definitionRef: Forbidden: `definitionRef` {AS_CREATED}",
        id="a definition in place of the template",
    ),
    *(
        pytest.param("waiting", {field: time}, f"spec.{field}: Forbidden: `{field}` {WITH_A_RERUN}", id=what)
        for field, time, what in [
            ("runAt", "2099-01-01T07:00:00Z", "another start"),
            ("runAt", None, "no start any more"),
            ("goodUntil", "2099-01-01T13:00:00Z", "another expiry"),
            ("goodUntil", None, "no expiry any more"),
            ("deadline", "2099-01-01T19:00:00Z", "another deadline"),
            ("deadline", None, "no deadline any more"),
        ]
    ),
    pytest.param(
        "plain",
        {"deadline": LATE},
        f"spec.deadline: Forbidden: `deadline` {WITH_A_RERUN}",
        id="a deadline at last",
    ),
    pytest.param(
        "waiting",
        {"deadline": None, "rerun": 4},
        f"spec.deadline: Forbidden: `deadline` {WITH_A_RERUN}",
        id="another deadline with a rerun, but not finished",
    ),
    pytest.param(
        "finished",
        {"deadline": None},
        f"spec.deadline: Forbidden: `deadline` {WITH_A_RERUN}",
        id="another deadline, finished, but no rerun",
    ),
    pytest.param(
        "finished",
        {"goodUntil": "2099-01-01T19:00:00Z", "rerun": 4},
        "spec.goodUntil: Invalid value: `goodUntil` must not be after `deadline`",
        id="a rerun with times out of order",
    ),
    pytest.param(
        "finished",
        {"rerun": 4, "queueName": "day"},
        f"spec.queueName: Forbidden: `queueName` {AS_CREATED}",
        id="a rerun in another queue",
    ),
    pytest.param(
        "waiting", {"rerun": 2}, "spec.rerun: Forbidden: `rerun` must not fall: it counts", id="rerun falls"
    ),
    pytest.param(
        "finished",
        {"rerun": None},
        "spec.rerun: Forbidden: `rerun` must not fall: it counts",
        id="rerun goes",
    ),
    pytest.param(
        "cancelled",
        {"rerun": 1},
        "spec.cancel: Invalid value: `cancel` must be false in the write that raises `rerun`",
        id="a rerun of what is still to be cancelled",
    ),
    pytest.param(
        "finished",
        {"rerun": 4, "cancel": True},
        "spec.cancel: Invalid value: `cancel` must be false in the write that raises `rerun`",
        id="a rerun and a cancel at once",
    ),
]


@pytest.mark.parametrize(("name", "change", "message"), EDITS_REFUSED)
def test_refused_edit(standing: Kubectl, name: str, change: JSON, message: str) -> None:
    assert message in edit(standing, name, change)


def test_every_rule_of_the_crd_has_a_row(admin: Kubectl) -> None:
    """A rule that nobody has seen refuse anything may as well not be there."""
    crd = admin.get("crd", "tasks.taskyard.dev")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    expected = [str(row.values[-1]) for row in (*REFUSED_TEMPLATES, *REFUSED, *EDITS_REFUSED)]
    expected += [f"`{row.values[1]}` {AS_CREATED}" for row in FIXED]
    rules = [each["message"] for each in rules_below(schema)]
    assert len(rules) > 40
    # What follows a colon is the reason, and not every row repeats it.
    assert [each for each in rules if not any(each.split(":")[0] in text for text in expected)] == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("waiting", {"suspend": False}, id="suspend"),
        pytest.param("waiting", {"release": True}, id="release"),
        pytest.param("finished", {"release": True}, id="release of what is finished"),
        pytest.param("waiting", {"cancel": True}, id="cancel"),
        pytest.param("cancelled", {"cancel": False}, id="cancel taken back"),
        pytest.param("waiting", {"priority": -5}, id="priority"),
        pytest.param("waiting", {"priority": None}, id="whatever priority its definition has"),
        pytest.param("waiting", {"ttlSecondsAfterFinished": 0}, id="ttlSecondsAfterFinished"),
        pytest.param("waiting", {"rerun": 4}, id="rerun of what is not finished"),
        pytest.param("waiting", {"runAt": "2099-01-01T07:00:00+01:00"}, id="the same time in another zone"),
        pytest.param("finished", {"priority": 1, "ttlSecondsAfterFinished": 1}, id="what is finished"),
        pytest.param("finished", {"rerun": 4}, id="rerun"),
        pytest.param("finished", {"rerun": 400}, id="rerun by more than one"),
        pytest.param(
            "finished", {"rerun": 4, "deadline": "2099-06-01T00:00:00Z"}, id="rerun with a new deadline"
        ),
        pytest.param(
            "finished",
            {"rerun": 4, "runAt": None, "goodUntil": None, "deadline": None},
            id="rerun without any of its times",
        ),
        pytest.param(
            "cancelled", {"rerun": 1, "cancel": False, "deadline": LATE}, id="rerun of a cancelled one"
        ),
        pytest.param("relative", {"priority": 1}, id="a Task with relative times"),
        pytest.param("defined", {"priority": 1}, id="a Task of a definition"),
    ],
)
def test_accepted_edit(standing: Kubectl, name: str, change: JSON) -> None:
    reply = tried(standing, name, change)
    assert reply.is_ok, reply.error


@pytest.mark.parametrize("name", ["waiting", "finished", "defined"])
@pytest.mark.parametrize(
    "result",
    [
        pytest.param({"ok": None}, id="null"),
        pytest.param({"ok": {"a": [1, {"b": None}], "c": None}, "flaws": ["Truncated"]}, id="a nested value"),
        pytest.param(
            {"error": {"code": "My code", "message": "no", "traceback": "line 1\n"}, "flaws": []},
            id="an error",
        ),
    ],
)
def test_a_status_is_kept_as_it_was_written(standing: Kubectl, name: str, result: JSON) -> None:
    """The rules about edits of the spec let it pass. Not by a merge patch: that one drops every null."""
    status = {
        "state": "Running",
        "phase": "Active",
        "stop": {"reason": "Timeout", "requestedAt": NOON},
        "dependencies": [{"name": "first"}, {"name": "second", "uid": "a-b", "state": "Completed"}],
        "definition": {
            "kind": "ClusterTaskDefinition",
            "uid": "c-d",
            "version": "v2",
            "digest": "0" * 64,
            "mainContainer": "main",
            "gracePeriodSeconds": 30,
            "defaults": {"retry": {"limit": 2, "intervalsSeconds": [1, 2]}, "unheardOf": ["x"]},
        },
        "result": result,
    }
    patch = json.dumps([{"op": "replace", "path": "/status", "value": status}])
    options = ("--dry-run=server", "--subresource=status", "--type=json", "-o", "json")
    assert json.loads(standing("patch", "task", name, *options, f"--patch={patch}"))["status"] == status


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param({"state": "Asleep"}, "status.state: Unsupported value", id="no state of ours"),
        pytest.param(
            {"reason": "my reason"}, "status.reason: Invalid value", id="a reason made of user data"
        ),
        pytest.param(
            {"message": "x" * 4097},
            "status.message: Too long: may not be more than 4096",
            id="a long message",
        ),
        pytest.param(
            {"dependencies": [{"name": "first"}, {"name": "first"}]},
            'status.dependencies[1]: Duplicate value: {"name":"first"}',
            id="a dependency twice",
        ),
        pytest.param(
            {"dependencies": [{"state": "Completed"}]},
            "status.dependencies[0].name: Required value",
            id="a dependency without a name",
        ),
        pytest.param(
            {"dependencies": [{"name": "first", "state": "Done"}]},
            "status.dependencies[0].state: Unsupported value",
            id="a dependency that came to no state of ours",
        ),
        pytest.param(
            {"dependencies": [{"name": f"task-{number}"} for number in range(DEPENDENCIES_LIMIT + 1)]},
            f"status.dependencies: Too many: {DEPENDENCIES_LIMIT + 1}",
            id="too many dependencies",
        ),
        pytest.param(
            {"definition": {"kind": "Job"}}, "status.definition.kind: Unsupported value", id="no definition"
        ),
        pytest.param(
            {"definition": {"digest": "0" * 65}}, "status.definition.digest: Too long", id="a long digest"
        ),
        pytest.param(
            {"definition": {"defaults": "none"}},
            "status.definition.defaults: Invalid value",
            id="defaults that are no object",
        ),
        pytest.param({"logs": "x"}, 'unknown field "status.logs"', id="a field that is not there"),
    ],
)
def test_refused_status(standing: Kubectl, status: JSON, message: str) -> None:
    patch = json.dumps({"status": status})
    options = ("--dry-run=server", "--subresource=status", "--type=merge")
    answer = standing.ask("patch", "task", "waiting", *options, f"--patch={patch}")
    assert message in answer.error


@pytest.mark.parametrize(
    ("selector", "inside", "outside"),
    [
        pytest.param("status.phase=Finished", "finished", "waiting", id="phase"),
        pytest.param("status.state=Failed", "finished", "waiting", id="state"),
        pytest.param("spec.queueName=night", "waiting", "plain", id="queue"),
        pytest.param("spec.definitionRef.name=resize.images", "defined", "plain", id="definition"),
    ],
)
def test_selector(standing: Kubectl, selector: str, inside: str, outside: str) -> None:
    """What a person filters by."""
    found = standing.get("tsk", f"--field-selector={selector}")["items"]
    names = [each["metadata"]["name"] for each in found]
    assert inside in names
    assert outside not in names


def test_columns(standing: Kubectl) -> None:
    plain = standing("get", "tasks").splitlines()[0].split()
    wide = standing("get", "tasks", "-o", "wide").splitlines()[0].split()
    assert plain == ["NAME", "STATE", "REASON", "QUEUE", "RUN", "AGE"]
    assert wide == [*plain, "POD", "NODE", "RETRIES", "STARTED", "FINISHED"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("task", ["One unit of work", "What is wanted."], id="task"),
        pytest.param(
            "task.spec",
            [
                "What to run",
                "Default: `default`.",
                "Default: `900`, unless its definition has another.",
                "Absent: as long as it takes. It never changes. Default: its definition's, if that has one.",
                "it is then held until `release`. It never changes.",
                "Default: `AllCompleted`.",
                "Whatever its dependencies say, it may run; a rerun too, while this is true. It may be changed at any"
                " time. Default: `false`.",
            ],
            id="spec",
        ),
        pytest.param(
            "task.spec.retry",
            ["enum: Constant, Linear", "Default: `3600`, unless its definition has another."],
            id="retry",
        ),
        pytest.param("task.spec.input", ["any JSON", "100 KiB", "`MalformedPayload`"], id="input"),
        pytest.param("task.status.result", ["What the task left behind."], id="result"),
        pytest.param("task.status.dependencies", ["The terminal state that it came to"], id="dependencies"),
        pytest.param("task.status.definition", ["when the task was first claimed"], id="definition"),
    ],
)
def test_explain_reads_like_documentation(admin: Kubectl, path: str, words: list[str]) -> None:
    text = " ".join(admin("explain", path).split())
    assert "<no description>" not in text
    assert [each for each in words if each not in text] == []


def rules_below(schema: JSON) -> Iterator[JSON]:
    yield from schema.get("x-kubernetes-validations", [])
    for each in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from rules_below(each)


def refusal(kubectl: Kubectl, manifest: JSON) -> str:
    """What the API server says instead of taking it."""
    reply = kubectl.post(manifest, dryRun="All")
    assert not reply.is_ok
    return reply.error


def accepted(kubectl: Kubectl, manifest: JSON) -> JSON:
    """What the API server makes of it."""
    reply = kubectl.post(manifest, dryRun="All")
    assert reply.is_ok, reply.error
    return reply.body


def edit(kubectl: Kubectl, name: str, change: JSON) -> str:
    """What the API server says about an edit of the spec, which it must refuse."""
    reply = tried(kubectl, name, change)
    assert not reply.is_ok
    return reply.error


def tried(kubectl: Kubectl, name: str, change: JSON) -> Reply:
    """What the API server says about an edit of the spec, which it does not make."""
    return kubectl.patch("task", name, {"spec": change}, dryRun="All")
