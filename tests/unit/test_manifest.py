"""What is written to the cluster."""

import copy
import re
from dataclasses import replace
from typing import Any

import pytest

from taskyard.core import manifest
from taskyard.core.manifest import Malformed, Payload, job_name, labels
from taskyard.core.model import Task, Value
from taskyard.core.words import State
from tests.unit.build import NOW, seconds, task

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "sidecar"}, {"name": "main", "image": "i"}]}}
CLAIMED_TASK = task(State.CLAIMED)


def job(of: Task, template: dict[str, Any], value: Value | None = None) -> dict[str, Any]:
    return manifest.job(of, Payload(template, value), NOW)


def pod_spec(of: Task = CLAIMED_TASK, value: Value | None = None, **spec: Any) -> dict[str, Any]:
    template = {"spec": TEMPLATE["spec"] | spec}
    return dict(job(of, template, value)["spec"]["template"]["spec"])


def environment(of: dict[str, Any], name: str) -> dict[str, str]:
    container = next(each for each in of["containers"] if each["name"] == name)
    return {each["name"]: each["value"] for each in container.get("env", [])}


@pytest.mark.parametrize("name", ["hello", "a" * 253, "a." * 100 + "b", "x" * 40 + "-" * 20 + "y", "1.2.3"])
@pytest.mark.parametrize("attempt", [1, 99999])
def test_a_job_name_fits_a_label_with_its_pods_suffix(name: str, attempt: int) -> None:
    named = job_name(task(State.CLAIMED, name=name, attempt=attempt))
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", named)
    assert len(named) + len("-abcde") <= 63
    assert named.endswith(f"-{attempt}")


def test_a_job_name_is_the_attempts_own() -> None:
    named = {job_name(task(State.CLAIMED, attempt=attempt)) for attempt in (1, 2)}
    assert len(named | {job_name(replace(CLAIMED_TASK, uid="uid-2"))}) == 3
    assert job_name(CLAIMED_TASK) == job_name(task(State.RUNNING))


def test_a_long_task_name_is_cut_to_a_label() -> None:
    value = labels(task(name="a" * 62 + ".b"))["taskyard.dev/task"]
    assert value == "a" * 62


def test_a_run_is_one_job_with_one_pod_once_owned_by_its_task() -> None:
    made = job(CLAIMED_TASK, TEMPLATE)
    spec, [owner] = made["spec"], made["metadata"]["ownerReferences"]
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert spec["ttlSecondsAfterFinished"] == 86400
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Task", "uid-1", True)
    for metadata in (made["metadata"], spec["template"]["metadata"]):
        assert metadata["labels"]["taskyard.dev/task-uid"] == "uid-1"
        assert metadata["labels"]["taskyard.dev/run"] == "0"
        assert metadata["labels"]["taskyard.dev/attempt"] == "1"


def test_the_template_is_kept_and_not_changed() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": TEMPLATE["spec"] | {"x": 1},
    }
    before = copy.deepcopy(template)
    made = job(CLAIMED_TASK, template)["spec"]["template"]
    assert template == before
    assert made["spec"]["x"] == 1
    assert made["metadata"]["labels"]["a"] == "b"
    assert made["metadata"]["annotations"] == {"c": "d", "kubectl.kubernetes.io/default-container": "main"}


def test_a_container_is_never_restarted_inside_a_run() -> None:
    assert pod_spec(restartPolicy="OnFailure")["restartPolicy"] == "Never"


@pytest.mark.parametrize(("template", "grace"), [({}, 5), ({"terminationGracePeriodSeconds": 60}, 60)])
def test_the_grace_period_is_short_unless_asked_for(template: dict[str, Any], grace: int) -> None:
    assert pod_spec(**template)["terminationGracePeriodSeconds"] == grace


@pytest.mark.parametrize(
    ("template", "mounted"),
    [
        pytest.param({}, False, id="nobody asked for a service account"),
        pytest.param({"serviceAccountName": "", "serviceAccount": ""}, False, id="an empty name is nobody's"),
        pytest.param({"serviceAccountName": "worker"}, None, id="asked for: as the service account says"),
        pytest.param({"serviceAccount": "worker"}, None, id="asked for by its name of old"),
        pytest.param({"automountServiceAccountToken": True}, True, id="asked for by name"),
    ],
)
def test_a_task_gets_no_token_that_it_did_not_ask_for(template: dict[str, Any], mounted: bool | None) -> None:
    assert pod_spec(**template).get("automountServiceAccountToken") is mounted


def test_the_main_container_alone_is_told_about_itself() -> None:
    assert environment(pod_spec(), "main") == {
        "TASKYARD_TASK": "hello",
        "TASKYARD_NAMESPACE": "default",
        "TASKYARD_UID": "uid-1",
        "TASKYARD_RUN": "0",
        "TASKYARD_RETRY": "0",
        "TASKYARD_RESULT_PATH": "/dev/termination-log",
    }
    assert environment(pod_spec(), "sidecar") == {}


def test_a_task_with_a_deadline_is_told_of_it() -> None:
    of = task(State.CLAIMED, wants={"deadline_after": seconds(600)}, retry_count=2, run=3)
    told = environment(pod_spec(of), "main")
    assert told["TASKYARD_DEADLINE"] == "2026-01-01T12:00:00Z"
    assert (told["TASKYARD_RETRY"], told["TASKYARD_RUN"]) == ("2", "3")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        pytest.param({"a": "$(HOME) $$"}, '{"a":"$$(HOME) $$$$"}', id="dollars are doubled"),
        pytest.param("é\n", '"é\\n"', id="text is as it was, in one line"),
        pytest.param(None, "null", id="null"),
        pytest.param([1, 2.5, True], "[1,2.5,true]", id="no space is wasted"),
    ],
)
def test_the_input_arrives_as_json(value: Any, told: str) -> None:
    assert environment(pod_spec(value=Value(value)), "main")["TASKYARD_INPUT"] == told


def test_an_input_has_100_kib_as_json_and_not_a_byte_more() -> None:
    most = "é" * ((100 * 1024 - 2) // 2)
    assert "TASKYARD_INPUT" in environment(pod_spec(value=Value(most)), "main")
    with pytest.raises(Malformed, match="`input` must have at most 102400 bytes as JSON; it has 102401"):
        pod_spec(value=Value(most + "x"))


@pytest.mark.parametrize(
    ("own", "path", "policy"),
    [
        pytest.param({}, "/dev/termination-log", "FallbackToLogsOnError", id="as we have it"),
        pytest.param(
            {"terminationMessagePath": "/tmp/x", "terminationMessagePolicy": "File"},
            "/tmp/x",
            "File",
            id="as the template has it",
        ),
    ],
)
def test_the_main_container_is_heard_at_its_end(own: dict[str, Any], path: str, policy: str) -> None:
    spec = pod_spec(containers=[{"name": "main", **own}])
    container = spec["containers"][0]
    assert (container["terminationMessagePath"], container["terminationMessagePolicy"]) == (path, policy)
    assert environment(spec, "main")["TASKYARD_RESULT_PATH"] == path


@pytest.mark.parametrize(
    ("wants", "template", "limit"),
    [
        pytest.param({}, {}, None, id="nothing limits it"),
        pytest.param({}, {"activeDeadlineSeconds": 7}, 7, id="the template's own"),
        pytest.param({"timeout": seconds(10)}, {}, 670, id="a timeout, with slack for image and operator"),
        pytest.param({"timeout": seconds(10)}, {"activeDeadlineSeconds": 7}, 7, id="the shorter one counts"),
        pytest.param({"deadline_after": seconds(630)}, {}, 90, id="a deadline, from now"),
        pytest.param(
            {"deadline_after": seconds(630), "timeout": seconds(10)}, {}, 90, id="whichever comes first"
        ),
        pytest.param({"deadline_after": seconds(10**11)}, {}, 2**31 - 1, id="no longer than a pod may have"),
        pytest.param({"deadline": NOW - seconds(9)}, {}, 60, id="a deadline that has passed meanwhile"),
    ],
)
def test_the_kubelet_ends_a_run_when_no_operator_is_there(
    wants: dict[str, Any], template: dict[str, Any], limit: int | None
) -> None:
    of = task(State.CLAIMED, wants=wants)
    assert pod_spec(of, **template).get("activeDeadlineSeconds") == limit


def test_the_users_variables_may_refer_to_ours_and_not_replace_them() -> None:
    theirs = [{"name": "TASKYARD_RUN", "value": "9"}, {"name": "LOG", "value": "run-$(TASKYARD_RUN)"}]
    spec = pod_spec(containers=[{"name": "main", "env": theirs}])
    assert environment(spec, "main")["TASKYARD_RUN"] == "0"
    assert [each["name"] for each in spec["containers"][0]["env"]][-1] == "LOG"


def test_a_main_container_that_is_not_there_makes_no_job() -> None:
    with pytest.raises(Malformed, match="`mainContainer`"):
        job(task(State.CLAIMED, wants={"main_container": "nobody"}), TEMPLATE)
