"""What the API server refuses, with the path and the sentence that a person reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.conftest import Kubectl, task

Change = Callable[[dict[str, Any], dict[str, Any]], Any]

REFUSED = [
    pytest.param(
        lambda pod, container: container.update(comand=["x"]),
        'unknown field "spec.template.spec.containers[0].comand"',
        id="a misspelt field of a container, with its path",
    ),
    pytest.param(
        lambda pod, container: pod.update(restartPolicy="OnFailure"),
        "spec.template.spec",
        id="a pod that would restart its containers",
    ),
    pytest.param(
        lambda pod, container: container.update(restartPolicy="Always"),
        "restartPolicy",
        id="a container that restarts",
    ),
    pytest.param(
        lambda pod, container: pod.update(containers=[]),
        "spec.template.spec.containers",
        id="no container at all",
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


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_refused(admin: Kubectl, change: Change, message: str) -> None:
    manifest = task("refused", "exit 0")
    pod = manifest["spec"]["template"]["spec"]
    change(pod, pod["containers"][0])
    answer = admin.ask("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    assert answer.code != 0
    assert message in answer.error


def test_a_main_container_must_be_one_of_the_template(admin: Kubectl) -> None:
    manifest = task("refused", "exit 0", mainContainer="nobody")
    answer = admin.ask("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    assert answer.code != 0
    assert "mainContainer" in answer.error


def test_the_template_of_a_task_never_changes(kubectl: Kubectl) -> None:
    manifest = task("fixed", "exit 0")
    kubectl.create(manifest)
    manifest["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", "exit 1"]
    answer = kubectl.ask("apply", "-f", "-", stdin=json.dumps(manifest))
    assert answer.code != 0
    assert "spec" in answer.error
    assert "must stay as it was created" in answer.error


def test_explain_reads_like_documentation(admin: Kubectl) -> None:
    text = admin("explain", "task.spec")
    assert "template" in text
    assert "mainContainer" in text
    assert "<no description>" not in text.split("FIELDS:")[0]
