"""What the API server refuses of a definition, with path and sentence as a person reads them; and what it takes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from taskyard.core.words import VERSIONS_LIMIT
from tests.api import Reply
from tests.cluster.test_validation import (
    A_LIST_OR_A_CURVE,
    ONE_DELAY_A_RETRY,
    REFUSED_TEMPLATES,
    SAME_ORDER,
    WHAT_GROWS,
    Change,
    accepted,
    refusal,
    rules_below,
    several,
)
from tests.kube import JSON, Kubectl, task

KINDS = ["TaskDefinition", "ClusterTaskDefinition"]
AS_WRITTEN = "a version in `versions` must stay as it was written; add another version instead"
A_CONTAINER_OF_IT = "`mainContainer` must be the name of one of the `containers` of `template`"
ONLY_WHAT_IS_THERE = "`retired` must name only what is in `versions`"


def definition(*versions: JSON, kind: str = "TaskDefinition", name: str = "resize", **spec: Any) -> JSON:
    return {
        "apiVersion": "taskyard.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"versions": list(versions), **spec},
    }


def version(name: str, command: str = "exit 0", **more: Any) -> JSON:
    return {"version": name, "template": task("any", command)["spec"]["template"], **more}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"versions": [version("v1")]}, id="a version"),
        pytest.param(
            {"versions": [version("1.0_RC-2", description="The first.\nOf many."), version("2")]},
            id="versions",
        ),
        pytest.param(
            {"versions": [version(f"v{number}") for number in range(VERSIONS_LIMIT)]},
            id="as many as there may be",
        ),
        pytest.param({"versions": [version("v1"), version("v2")], "retired": ["v1"]}, id="one retired"),
        pytest.param({"versions": [version("v1")], "retired": ["v1"]}, id="all retired"),
        pytest.param({"versions": [version("v1")], "retired": []}, id="none retired"),
        pytest.param({"versions": [version("v1", defaults={})]}, id="no defaults, in words"),
        pytest.param(
            {"versions": [version("v1", defaults={"mainContainer": "main"})]}, id="a main container"
        ),
        pytest.param(
            {
                "versions": [
                    version(
                        "v1",
                        defaults={
                            "mainContainer": "main",
                            "priority": -5,
                            "goodForSeconds": 60,
                            "deadlineSeconds": 60,
                            "scheduleTimeoutSeconds": 1,
                            "startTimeoutSeconds": 1,
                            "startLimit": 1,
                            "timeoutSeconds": 1,
                            "retry": {
                                "limit": 2,
                                "intervalsSeconds": [1, 2],
                                "maxDelaySeconds": 1,
                                "expected": {"exitCodes": [75], "errors": ["Timeout"]},
                                "infrastructureLimit": 0,
                            },
                            "unreachableTimeoutSeconds": 60,
                            "onShutdown": "Stop",
                            "deadLetterPolicy": "Save",
                            "logs": "Always",
                            "ttlSecondsAfterFinished": 0,
                        },
                    )
                ]
            },
            id="every default",
        ),
    ],
)
def test_accepted(admin: Kubectl, kind: str, spec: JSON) -> None:
    """And kept as it was written: the API server adds nothing."""
    manifest = {**definition(kind=kind), "spec": spec}
    assert accepted(admin, manifest)["spec"] == spec


@pytest.mark.parametrize(("change", "message"), REFUSED_TEMPLATES)
def test_refused_template(admin: Kubectl, change: Change, message: str) -> None:
    """As that of a Task is, in whichever version it stands."""
    broken = version("v2")
    pod = broken["template"]["spec"]
    change(pod, pod["containers"][0])
    expected = message.replace("spec.template.", "spec.versions[1].template.")
    assert expected in refusal(admin, definition(version("v1"), broken))


REFUSED = [
    pytest.param({}, "spec.versions: Required value", id="nothing"),
    pytest.param({"versions": []}, "spec.versions: Invalid value: 0", id="no version"),
    pytest.param(
        {"versions": [version(f"v{number}") for number in range(VERSIONS_LIMIT + 1)]},
        f"spec.versions: Too many: {VERSIONS_LIMIT + 1}: must have at most {VERSIONS_LIMIT} items",
        id="too many versions",
    ),
    pytest.param(
        {"versions": [version("v1"), version("v1", "exit 1")]},
        'spec.versions[1]: Duplicate value: {"version":"v1"}',
        id="a version twice",
    ),
    pytest.param(
        {"versions": [{"template": version("v1")["template"]}]},
        "spec.versions[0].version: Required value",
        id="a version without a name",
    ),
    pytest.param(
        {"versions": [version("")]},
        "spec.versions[0].version: Invalid value",
        id="a version of an empty name",
    ),
    pytest.param(
        {"versions": [version("v 1")]},
        "spec.versions[0].version: Invalid value",
        id="a version that no label can name",
    ),
    pytest.param(
        {"versions": [version("v" * 64)]}, "spec.versions[0].version: Too long", id="a version of a long name"
    ),
    pytest.param(
        {"versions": [version("v1", description="x" * 1025)]},
        "spec.versions[0].description: Too long: may not be more than 1024",
        id="a long description",
    ),
    pytest.param(
        {"versions": [{"version": "v1"}]}, "spec.versions[0].template: Required value", id="nothing to run"
    ),
    pytest.param(
        {"versions": [version("v1", template={"metadata": {}})]},
        "spec.versions[0].template.spec: Required value",
        id="a template of nothing",
    ),
    pytest.param(
        {"versions": [version("v1", input={})]},
        'unknown field "spec.versions[0].input"',
        id="an input, which is a Task's",
    ),
    pytest.param({"versions": [version("v1")], "paused": True}, 'unknown field "spec.paused"', id="a field"),
    pytest.param(
        {"versions": [version("v1")], "retired": ["v2"]},
        f"spec.retired: Invalid value: {ONLY_WHAT_IS_THERE}",
        id="a version retired that is not there",
    ),
    pytest.param(
        {"versions": [version("v1")], "retired": ["v1", "v2"]},
        f"spec.retired: Invalid value: {ONLY_WHAT_IS_THERE}",
        id="one version retired that is there, and one that is not",
    ),
    pytest.param(
        {"versions": [version("v1")], "retired": ["v1", "v1"]},
        'spec.retired[1]: Duplicate value: "v1"',
        id="a version retired twice",
    ),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_refused(admin: Kubectl, kind: str, spec: JSON, message: str) -> None:
    assert message in refusal(admin, {**definition(kind=kind), "spec": spec})


REFUSED_DEFAULTS = [
    pytest.param(
        {"mainContainer": "nobody"},
        f"mainContainer: Invalid value: {A_CONTAINER_OF_IT}",
        id="a main container",
    ),
    pytest.param({"priority": 1_000_001}, "priority: Invalid value", id="a priority too high"),
    pytest.param(
        {"goodForSeconds": 61, "deadlineSeconds": 60},
        "goodForSeconds: Invalid value: `goodForSeconds` must not be more than `deadlineSeconds`",
        id="an expiry after the deadline",
    ),
    pytest.param({"timeoutSeconds": 0}, "timeoutSeconds: Invalid value", id="no time at all"),
    pytest.param({"startLimit": 0}, "startLimit: Invalid value", id="no start at all"),
    pytest.param({"onShutdown": "Panic"}, "onShutdown: Unsupported value", id="a word not in the list"),
    pytest.param(
        {"retry": {"limit": 1, "intervalsSeconds": [1], "delaySeconds": 1}},
        f"retry.intervalsSeconds: Forbidden: {A_LIST_OR_A_CURVE}",
        id="intervals beside a delay",
    ),
    pytest.param(
        {"retry": {"limit": 1, "intervalsSeconds": [1], "backoff": "Linear"}},
        f"retry.intervalsSeconds: Forbidden: {A_LIST_OR_A_CURVE}",
        id="intervals beside a curve",
    ),
    pytest.param(
        {"retry": {"backoff": "Exponential"}},
        f"retry.delaySeconds: Required value: {WHAT_GROWS}",
        id="a curve of nothing",
    ),
    pytest.param(
        {"retry": {"limit": 3, "intervalsSeconds": [1, 2]}},
        f"retry.intervalsSeconds: Invalid value: {ONE_DELAY_A_RETRY}",
        id="fewer intervals than retries",
    ),
    pytest.param(
        {"retry": {"intervalsSeconds": [1]}},
        f"retry.intervalsSeconds: Invalid value: {ONE_DELAY_A_RETRY}",
        id="intervals without a limit",
    ),
    pytest.param({"retry": {"expected": {}}}, "retry.expected: Invalid value", id="retry on nothing"),
]


@pytest.mark.parametrize(("defaults", "message"), REFUSED_DEFAULTS)
def test_refused_default(admin: Kubectl, defaults: JSON, message: str) -> None:
    """In whichever version it stands."""
    manifest = definition(version("v1"), version("v2", defaults=defaults))
    assert f"spec.versions[1].defaults.{message}" in refusal(admin, manifest)


@pytest.mark.parametrize(
    "field",
    ["input", "queueName", "runAt", "deadline", "dependencies", "suspend", "cancel", "rerun", "template"],
)
def test_a_definition_has_no_default_for(admin: Kubectl, field: str) -> None:
    """What is one Task's own affair."""
    manifest = definition(version("v1", defaults={field: None}))
    assert f'unknown field "spec.versions[0].defaults.{field}"' in refusal(admin, manifest)


V1 = {"version": "v1", "template": several("one", "two")}
V2 = version("v2", "exit 2", description="The second.", defaults={"priority": 2, "retry": {"limit": 2}})


@pytest.fixture(scope="module")
def standing(admin: Kubectl) -> Iterator[Kubectl]:
    """kubectl where two definitions are registered, of both kinds, with one name: no edit of them is made."""
    space = Kubectl(admin.command, f"test-{uuid.uuid4().hex[:10]}")
    admin("create", "namespace", space.namespace)
    space.create(*(definition(V1, V2, kind=kind, name=space.namespace, retired=["v1"]) for kind in KINDS))
    yield space
    admin("delete", "clustertaskdefinition", space.namespace)
    admin("delete", "namespace", space.namespace, "--wait=false")


EDITS_REFUSED = [
    pytest.param(
        {"versions": [{"version": "v1", "template": several("two", "one")}, V2]},
        f"spec.versions[0].template.spec.containers: Forbidden: {SAME_ORDER}",
        id="containers in another order",
    ),
    pytest.param(
        {"versions": [version("v1", "exit 1"), V2]},
        f"spec.versions[0]: Forbidden: {AS_WRITTEN}",
        id="another command",
    ),
    pytest.param(
        {"versions": [V1, {**V2, "description": "The last."}]},
        f"spec.versions[1]: Forbidden: {AS_WRITTEN}",
        id="another description",
    ),
    pytest.param(
        {"versions": [{**V2, "defaults": {**V2["defaults"], "priority": 3}}, V1]},
        f"spec.versions[0]: Forbidden: {AS_WRITTEN}",
        id="another default, in another place",
    ),
    pytest.param(
        {"versions": [V1, {**V2, "defaults": {"priority": 2}}]},
        f"spec.versions[1]: Forbidden: {AS_WRITTEN}",
        id="a default less",
    ),
    pytest.param(
        {"versions": [{**V1, "defaults": {}}, V2]},
        f"spec.versions[0]: Forbidden: {AS_WRITTEN}",
        id="defaults at last, though none",
    ),
    pytest.param(
        {"versions": [version("v3"), version("v1", "exit 1"), V2]},
        f"spec.versions[1]: Forbidden: {AS_WRITTEN}",
        id="another command, beside a new version",
    ),
    pytest.param(
        {"versions": [V2]},
        f"spec.retired: Invalid value: {ONLY_WHAT_IS_THERE}",
        id="a version taken away that is named as retired",
    ),
    pytest.param({"versions": []}, "spec.versions: Invalid value: 0", id="every version taken away"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("change", "message"), EDITS_REFUSED)
def test_refused_edit(standing: Kubectl, kind: str, change: JSON, message: str) -> None:
    reply = tried(standing, kind, change)
    assert not reply.is_ok
    assert message in reply.error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"versions": [V1, V2, version("v3")]}, id="a new version"),
        pytest.param({"versions": [version("v3"), V1, V2]}, id="a new version before all others"),
        pytest.param({"versions": [V2, V1]}, id="another order"),
        pytest.param({"versions": [V1]}, id="a version taken away"),
        pytest.param({"versions": [V2], "retired": []}, id="a retired version taken away"),
        pytest.param({"versions": [version("v3")], "retired": ["v3"]}, id="every version replaced"),
        pytest.param({"retired": ["v1", "v2"]}, id="another version retired"),
        pytest.param({"retired": None}, id="a version back from retirement"),
    ],
)
def test_accepted_edit(standing: Kubectl, kind: str, change: JSON) -> None:
    reply = tried(standing, kind, change)
    assert reply.is_ok, reply.error


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_of_the_crd_has_a_row(admin: Kubectl, kind: str) -> None:
    """A rule that nobody has seen refuse anything may as well not be there."""
    crd = admin.get("crd", f"{kind.lower()}s.taskyard.dev")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    rows = (*REFUSED_TEMPLATES, *REFUSED, *REFUSED_DEFAULTS, *EDITS_REFUSED)
    expected = [str(row.values[-1]) for row in rows]
    rules = [each["message"] for each in rules_below(schema)]
    assert len(rules) > 10
    # What follows a colon is the reason, and not every row repeats it.
    assert [each for each in rules if not any(each.split(":")[0] in text for text in expected)] == []


@pytest.mark.parametrize("name", ["td", "ctd", "taskdefinitions", "clustertaskdefinitions"])
def test_columns(standing: Kubectl, name: str) -> None:
    """The last version stands for all: of many, a column shows one."""
    head, line = standing("get", name, standing.namespace).splitlines()
    assert head.split() == ["NAME", "LATEST", "RETIRED", "AGE"]
    assert line.split()[:3] == [standing.namespace, "v2", '["v1"]']


def test_the_category_has_them(standing: Kubectl) -> None:
    """`kubectl get taskyard` shows all that is Taskyard's."""
    assert (
        f"taskdefinition.taskyard.dev/{standing.namespace}"
        in standing("get", "taskyard", "-o", "name").split()
    )


@pytest.mark.parametrize("name", ["td", "ctd"])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("", ["A task type for the Tasks of", "What there is to run."], id="kind"),
        pytest.param(
            ".spec", ["A version never changes once it is written", "start no new tasks"], id="spec"
        ),
        pytest.param(".spec.versions", ["a pod template, as in a Job", "where it is silent"], id="versions"),
        pytest.param(".spec.versions.defaults", ["How long a run may take"], id="defaults"),
        pytest.param(".spec.versions.defaults.retry", ["How many retries"], id="retry"),
    ],
)
def test_explain_reads_like_documentation(admin: Kubectl, name: str, path: str, words: list[str]) -> None:
    text = " ".join(admin("explain", f"{name}{path}").split())
    assert "<no description>" not in text
    assert [each for each in words if each not in text] == []


def tried(kubectl: Kubectl, kind: str, change: JSON) -> Reply:
    """What the API server says about an edit of the spec, which it does not make."""
    return kubectl.patch(kind.lower(), kubectl.namespace, {"spec": change}, dryRun="All")
