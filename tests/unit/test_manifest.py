"""What is written to the cluster."""

import copy
import re
from dataclasses import replace
from typing import Any

import pytest

from taskyard.core.manifest import Malformed, job, job_name, labels, status_patch
from taskyard.core.model import Error, State, Status
from tests.unit.build import NOW, SUBMITTED, task

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "sidecar"}, {"name": "main", "image": "i"}]}}
CLAIMED_TASK = task(State.CLAIMED)


def pod_spec(**spec: Any) -> dict[str, Any]:
    template = {"spec": TEMPLATE["spec"] | spec}
    return dict(job(CLAIMED_TASK, template)["spec"]["template"]["spec"])


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
        pytest.param({"serviceAccountName": "worker"}, None, id="asked for: as the service account says"),
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
    }
    assert environment(pod_spec(), "sidecar") == {}


def test_the_users_variables_may_refer_to_ours_and_not_replace_them() -> None:
    theirs = [{"name": "TASKYARD_RUN", "value": "9"}, {"name": "LOG", "value": "run-$(TASKYARD_RUN)"}]
    spec = pod_spec(containers=[{"name": "main", "env": theirs}])
    assert environment(spec, "main")["TASKYARD_RUN"] == "0"
    assert [each["name"] for each in spec["containers"][0]["env"]][-1] == "LOG"


def test_a_main_container_that_is_not_there_makes_no_job() -> None:
    with pytest.raises(Malformed, match="`mainContainer`"):
        job(task(State.CLAIMED, main_container="nobody"), TEMPLATE)


def test_the_first_write_says_everything() -> None:
    new = task(observed_generation=0)
    patch = status_patch(new, replace(new.status, observed_generation=1), NOW)
    assert patch["metadata"] == {"resourceVersion": "7"}
    waiting = {"reason": "NotFinished", "message": "", "lastTransitionTime": "2026-01-01T11:50:00Z"}
    assert patch["status"] == {
        "state": "Pending",
        "phase": "Waiting",
        "conditions": [
            {"type": "Succeeded", "status": "Unknown", **waiting},
            {"type": "Finished", "status": "False", **waiting},
        ],
        "observedGeneration": 1,
        "run": 0,
        "attempt": 0,
        "runCount": 0,
        "submittedAt": "2026-01-01T11:50:00Z",
        "updatedAt": "2026-01-01T12:00:00Z",
    }


def test_later_writes_say_what_changed_and_remove_what_is_no_more() -> None:
    before = task(State.CLAIMED, reason="JobRefused", message="quota")
    after = replace(before.status, state=State.RUNNING, reason=None, message=None)
    assert status_patch(before, after, NOW)["status"] == {
        "state": "Running",
        "reason": None,
        "message": None,
        "updatedAt": "2026-01-01T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("state", "reason", "succeeded", "why"),
    [
        (State.COMPLETED, None, "True", "Completed"),
        (State.FAILED, "ExitCode", "False", "ExitCode"),
        (State.EXCEPTION, "WorkerLost", "False", "WorkerLost"),
    ],
)
def test_the_conditions_follow_the_state(state: State, reason: str | None, succeeded: str, why: str) -> None:
    before = task(State.RUNNING)
    after = replace(before.status, state=state, reason=reason, message="m", completed_at=NOW)
    first, second = status_patch(before, after, NOW)["status"]["conditions"]
    assert (first["type"], first["status"], first["reason"]) == ("Succeeded", succeeded, why)
    assert (second["type"], second["status"], second["reason"]) == ("Finished", "True", str(state))
    assert first["lastTransitionTime"] == second["lastTransitionTime"] == "2026-01-01T12:00:00Z"
    assert "observedGeneration" not in first


def test_noting_an_edit_of_a_resolved_task_touches_nothing_else() -> None:
    before = task(State.FAILED, submitted_at=None, completed_at=NOW, generation=2)
    patch = status_patch(before, replace(before.status, observed_generation=2), NOW)
    assert set(patch["status"]) == {"observedGeneration", "updatedAt"}


def test_a_message_is_cut_to_what_the_schema_allows() -> None:
    before = task(State.RUNNING)
    error = Error("ExitCode", "x" * 5000)
    after = replace(before.status, state=State.FAILED, message="y" * 5000, error=error, completed_at=NOW)
    status = status_patch(before, after, NOW)["status"]
    assert len(status["message"]) == len(status["result"]["error"]["message"]) == 4096


def test_an_unwritten_status_is_known_by_its_generation() -> None:
    assert Status(submitted_at=SUBMITTED).observed_generation == 0
