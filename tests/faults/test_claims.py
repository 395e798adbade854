"""Claims that come to nothing: given back with the cluster's own words, and no retry spent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faults.operator import Place
from tests.faults.reading import main_of, pod_of, spent
from tests.faults.witness import Witness
from tests.kube import JSON, UNTIL_TOLD, History, Kubectl, from_now, moment, of_run, task

pytestmark = pytest.mark.usefixtures("calm")  # nobody takes the cluster away, from the first line on


def gated(manifest: JSON) -> JSON:
    """The same Task, whose pods get no node until their gate is opened."""
    pod_of(manifest)["schedulingGates"] = [{"name": "taskyard.test/gate"}]
    return manifest


def open_gate(kubectl: Kubectl, pod: str) -> bool:
    """Let a pod go; whether it was there to be let go."""
    patch = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])
    return kubectl.ask("patch", "pod", pod, "--type=json", f"--patch={patch}").code == 0


def pod_name(kubectl: Kubectl, name: str) -> str:
    """The one pod of a Task, once it is made."""

    def found() -> str:
        return kubectl("get", "pods", f"--selector=taskyard.dev/task={name}", "-o", "name")

    return str(kubectl.eventually(f"{name} has a pod", found)).strip().removeprefix("pod/")


def started(pod: JSON) -> bool:
    """Whether its container ever ran, by the last that was seen of it."""
    states = [each["state"] for each in pod["status"].get("containerStatuses", [])]
    return any(
        (state.get("running") or state.get("terminated") or {}).get("startedAt") is not None
        for state in states
    )


def test_a_claim_whose_claimer_died_goes_back_and_runs_once(
    kubectl: Kubectl, place: Place, seen: Witness, history: History
) -> None:
    kubectl.create(task("left", "exit 0", retry={"limit": 3}))
    with place.operator(identity="first", failpoint="after:claim") as first:
        assert first.died() == -9
    assert kubectl.status("left")["claimedBy"] == "first"
    assert not kubectl.get("jobs")["items"], "it died before it made one"
    with place.running(identity="second"):
        status = kubectl.wait("left")["status"]
    assert (status["state"], status["claimedBy"]) == ("Completed", "second")
    assert of_run(status, "number", "state") == [(0, "Completed")]
    assert spent(status) == (0, 0, 0)
    states = [
        each for each in history.states("left") if each != "Running"
    ]  # it may be over before it is seen
    assert states == ["Pending", "Claimed", "Pending", "Claimed", "Completed"]
    given_back = next(each for each in history.statuses("left") if each.get("reason") == "GivenBack")
    assert given_back["message"] == "its claimer `first` is gone, and had made no Job"
    assert not {"claimedAt", "claimedBy"} & set(given_back)
    assert len(seen.pods()) == 1


def test_images_that_cannot_be_had_end_with_the_kubelets_words(kubectl: Kubectl, place: Place) -> None:
    def with_image(name: str, image: str, policy: str) -> JSON:
        limits: JSON = {"startTimeoutSeconds": 4, "startLimit": 2, "retry": {"limit": 3}}
        manifest = task(name, "exit 0", **limits)
        main_of(manifest).update(image=image, imagePullPolicy=policy)
        return manifest

    kubectl.create(
        with_image("absent", "localhost/no-such-image:dev", "Never"),
        with_image("unreachable", "localhost:1/none:1", "Always"),
        with_image("malformed", "localhost/Not A Name", "Always"),
    )
    with place.running():
        found = kubectl.finished()
    for name, words in {
        "absent": 'ErrImageNeverPull: Container image "localhost/no-such-image:dev" is not present',
        "unreachable": 'failed to pull and unpack image "localhost:1/none:1"',
    }.items():
        assert (found[name]["state"], found[name]["reason"]) == ("Exception", "StartFailed"), name
        assert found[name]["message"].startswith(
            "the container had not started within 4 s: container `main`: "
        )
        assert words in found[name]["message"]
        assert found[name]["attempt"] == 2
        assert spent(found[name]) == (0, 0, 2)
    assert (found["malformed"]["state"], found["malformed"]["reason"]) == ("Exception", "MalformedPayload")
    assert "InvalidImageName" in found["malformed"]["message"]
    assert (found["malformed"]["attempt"], *spent(found["malformed"])) == (1, 0, 0, 0), "at once"
    assert all(status["runCount"] == 0 for status in found.values())


@pytest.mark.parametrize("patience", [pytest.param(2, id="given back before the first look"), 8])
def test_a_quota_is_told_in_its_own_words_and_never_counted(
    kubectl: Kubectl, place: Place, seen: Witness, history: History, patience: int
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    kubectl.create(quota | {"spec": {"hard": {"pods": "0"}}})
    kubectl.create(task("crowded", "exit 0", scheduleTimeoutSeconds=patience, startLimit=1))
    with place.running():
        kubectl.eventually("it is tried again", lambda: kubectl.status("crowded").get("attempt", 0) > 1)
        kubectl("delete", "resourcequota", "none")
        status = kubectl.wait("crowded", "Succeeded")["status"]
    assert spent(status) == (0, 0, 0)
    given_back = next(each for each in history.statuses("crowded") if each.get("reason") == "GivenBack")
    assert given_back["message"].startswith(f"no pod was made within {patience} s: ")
    assert "exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0" in given_back["message"]
    assert len(seen.pods()) == 1


@pytest.fixture
def policy(admin: Kubectl, kubectl: Kubectl) -> Iterator[str]:
    """A rule of the cluster's: Jobs of this namespace must not be named `forbidden…`."""
    name = f"no-forbidden-{kubectl.namespace}"
    api, here = "admissionregistration.k8s.io/v1", {"kubernetes.io/metadata.name": kubectl.namespace}
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}
    admin.create(
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [
                    {
                        "expression": "!object.metadata.name.startsWith('forbidden')",
                        "message": "that name is taken by the city council",
                    }
                ],
            },
        },
        {
            "apiVersion": api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": here}},
            },
        },
    )
    yield name
    admin(
        "delete", "--ignore-not-found", "validatingadmissionpolicybindings,validatingadmissionpolicies", name
    )


def test_what_admission_denies_ends_with_its_own_words(
    kubectl: Kubectl, admin: Kubectl, place: Place, policy: str, history: History
) -> None:
    limits: JSON = {"scheduleTimeoutSeconds": 3, "startLimit": 1, "retry": {"limit": 3}}
    privileged = task("privileged", "exit 0", **limits)
    main_of(privileged)["securityContext"] = {"privileged": True}

    def is_denied() -> bool:
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "forbidden"}}
        template = {"spec": {**pod_of(privileged), "restartPolicy": "Never"}}
        made = json.dumps(job | {"spec": {"template": template}})
        return kubectl.ask("create", "--dry-run=server", "-f", "-", stdin=made).code != 0

    kubectl.eventually("the policy is in force", is_denied)
    kubectl.create(privileged, task("forbidden", "exit 0", **limits), task("forbidden-later", "exit 0"))
    with place.running():
        found = {name: kubectl.wait(name)["status"] for name in ("privileged", "forbidden")}
        waiting = kubectl.until("forbidden-later", "JobRefused", ".status.reason")
        admin("delete", "validatingadmissionpolicybinding", policy)
        kubectl.wait("forbidden-later", "Succeeded")
    for name, words in {"privileged": "violates PodSecurity", "forbidden": "the city council"}.items():
        assert (found[name]["state"], found[name]["reason"]) == ("Exception", "StartFailed"), name
        assert found[name]["message"].startswith("no pod was made within 3 s: ")
        assert words in found[name]["message"]
        assert (found[name]["runCount"], *spent(found[name])) == (0, 0, 0, 1)
    assert waiting["state"] == "Claimed"
    assert "the city council" in waiting["message"]


@pytest.fixture
def webhook(admin: Kubectl, kubectl: Kubectl) -> Iterator[str]:
    """Somebody must be asked before a Job is made in this namespace, and is not there."""
    name = f"nobody-{kubectl.namespace}"
    admin.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": "nobody.taskyard.test",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                    "clientConfig": {"service": {"namespace": kubectl.namespace, "name": "nobody"}},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}},
                    "rules": [
                        {
                            "apiGroups": ["batch"],
                            "apiVersions": ["v1"],
                            "resources": ["jobs"],
                            "operations": ["CREATE"],
                        }
                    ],
                }
            ],
        }
    )
    yield name
    admin("delete", "--ignore-not-found", "validatingwebhookconfigurations", name)


def test_a_webhook_that_does_not_answer_is_told_and_holds_up_no_clock_and_no_cancel(
    kubectl: Kubectl, admin: Kubectl, place: Place, webhook: str
) -> None:
    def is_refused() -> bool:
        return kubectl.ask("create", "job", "probe", "--image=none", "--dry-run=server").code != 0

    kubectl.eventually("it is asked for", is_refused)
    kubectl.create(
        task("patient", "exit 0"),
        task("dated", "exit 0", deadlineSeconds=4),
        task("short-lived", "exit 0", goodForSeconds=4),
        task("unwanted", "exit 0"),
        task("limited", "exit 0", scheduleTimeoutSeconds=3, startLimit=1),
    )
    with place.running():
        assert (
            "failed calling webhook" in kubectl.until("unwanted", "JobRefused", ".status.reason")["message"]
        )
        kubectl.edit("unwanted", cancel=True)
        names = ("dated", "short-lived", "unwanted", "limited")
        ends = {name: kubectl.wait(name)["status"]["reason"] for name in names}
        assert kubectl.status("patient")["reason"] == "JobRefused"
        admin("delete", "validatingwebhookconfiguration", webhook)
        assert kubectl.wait("patient", "Succeeded")["status"]["runCount"] == 1
    assert ends == {
        "dated": "DeadlineExceeded",
        "short-lived": "TaskExpired",
        "unwanted": "TaskCancelled",
        "limited": "StartFailed",
    }


def test_a_pod_that_gets_its_node_in_the_moment_of_giving_back_is_a_run_or_none(
    kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    """Gates are opened around the moment when patience ends: some just before it, some just after."""
    offsets = {f"racer-{number}": -0.9 + 0.5 * number for number in range(6)}
    limits: JSON = {"scheduleTimeoutSeconds": 8, "startLimit": 1, "retry": {"infrastructureLimit": 0}}

    def let_go(name: str, pod: str, at: float) -> None:
        time.sleep(max(0.0, at - time.time()))
        open_gate(kubectl, pod)

    kubectl.create(*(gated(task(name, UNTIL_TOLD, timeoutSeconds=3, **limits)) for name in offsets))
    with place.running():
        pods = {name: pod_name(kubectl, name) for name in offsets}
        due = {name: moment(kubectl.status(name)["claimedAt"]).timestamp() + 9 for name in offsets}
        openers = [
            threading.Thread(target=let_go, args=(name, pods[name], due[name] + offset))
            for name, offset in offsets.items()
        ]
        for each in openers:
            each.start()
        found = kubectl.finished()
        for each in openers:
            each.join()
    check_that_runs_are_those_that_started(found, seen)
    assert {status["reason"] for status in found.values()} >= {"StartFailed"}, "some came too late"


def test_a_pod_that_starts_in_the_moment_of_giving_back_is_a_run_or_none(
    kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    """They may take as long to start as a start takes: about half of them make it."""
    names = [f"racer-{number}" for number in range(6)]
    limits: JSON = {"startTimeoutSeconds": 1, "startLimit": 1, "retry": {"infrastructureLimit": 0}}
    kubectl.create(*(task(name, UNTIL_TOLD, timeoutSeconds=3, **limits) for name in names))
    with place.running():
        found = kubectl.finished()
    check_that_runs_are_those_that_started(found, seen)


def check_that_runs_are_those_that_started(found: dict[str, JSON], seen: Witness) -> None:
    """Each Task had one pod. What started is on record, once, and ended; what did not left no run.

    Of one that had a node, and was gone before anybody told, nobody knows: that is a loss.
    """
    pods = {pod["metadata"]["labels"]["taskyard.dev/task"]: pod for pod in seen.pods().values()}
    assert len(seen.pods()) == len(found), "one pod each"
    for name, status in found.items():
        if started(pods[name]):
            assert of_run(status, "number", "pod") == [(0, pods[name]["metadata"]["name"])], name
            assert status["reason"] in {"Timeout", "WorkerLost"}, name
        elif status["reason"] == "WorkerLost":
            assert pods[name]["spec"].get("nodeName"), "without a node nothing can have run"
            assert "some code of it may have run" in status["message"], name
        else:
            assert of_run(status, "number") == [], name
            assert (status["state"], status["reason"], *spent(status)) == (
                "Exception",
                "StartFailed",
                0,
                0,
                1,
            )


def test_expired_from_claimed_when_the_time_passes_before_the_start(
    kubectl: Kubectl, place: Place, seen: Witness, history: History
) -> None:
    kubectl.create(gated(task("late", "exit 0", goodForSeconds=5)))
    with place.running():
        status = kubectl.wait("late")["status"]
        kubectl.eventually("its pod is gone", lambda: not kubectl.get("pods")["items"])
    assert history.states("late") == ["Pending", "Claimed", "Expired"]
    assert (status["state"], status["reason"]) == ("Expired", "TaskExpired")
    assert "had not started by its `goodUntil`" in status["message"]
    assert (status["runCount"], status.get("runs", []), *spent(status)) == (0, [], 0, 0, 0)
    assert not any(started(pod) for pod in seen.pods().values())


def test_expired_when_it_started_late_while_the_operator_was_away(
    kubectl: Kubectl, place: Place, seen: Witness
) -> None:
    good_until = from_now(6)
    kubectl.create(gated(task("late", UNTIL_TOLD, goodUntil=good_until)))
    with place.running() as operator:
        pod = pod_name(kubectl, "late")
        kubectl.until("late", "Unschedulable", ".status.reason")
        operator.kill()
        time.sleep(max(0.0, moment(good_until).timestamp() - time.time()))
        assert open_gate(kubectl, pod)
        kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
        assert kubectl.status("late")["state"] == "Claimed", "nobody knows yet"
        operator.start()
        status = kubectl.wait("late")["status"]
    assert (status["state"], status["reason"]) == ("Expired", "StartedLate")
    assert of_run(status, "number", "pod", "state", "exitCode") == [(0, pod, "Expired", 143)]
    assert "stopped" in status["message"]
    assert status["runs"][0]["startedAt"] >= good_until
