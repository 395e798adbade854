"""What a person does to tasks by hand, and what tasks do to each other: dependencies, definitions, cancel, rerun."""

from __future__ import annotations

import base64
import json

import pytest

from tests.kube import (
    JSON,
    UNTIL_TOLD,
    History,
    Kubectl,
    apart,
    definition,
    from_now,
    nowhere,
    of_run,
    report,
    task,
    typed,
)

GROUP = "taskyard.dev/group"


def of_group(name: str, manifest: JSON) -> JSON:
    manifest["metadata"]["labels"] = {GROUP: name}
    return manifest


# Dependencies.


def test_t1_unscheduled_until_its_dependencies_are_satisfied_or_it_is_released(
    kubectl: Kubectl, history: History
) -> None:
    kubectl.create(
        task("second", report('{"ok": 2}'), dependencies=["first"]),
        nowhere(task("released", "exit 0", dependencies=["never"])),
        nowhere(task("free", "exit 0")),
    )
    assert kubectl.until("second", "Unscheduled")["message"] == "waiting for `first` (not created yet)"
    assert kubectl.until("free", "Claimed")["attempt"] == 1, "without dependencies at once"
    kubectl.until("released", "Unscheduled")
    kubectl.edit("released", release=True)
    kubectl.until("released", "Claimed")
    kubectl.create(task("first", "exit 0"))
    second = kubectl.wait("second", "Succeeded")["status"]
    first = kubectl.status("first")
    assert second["startedAt"] >= first["completedAt"]
    assert second["enqueuedAt"] >= first["completedAt"], "eligible from then on"
    uid = kubectl.get("task", "first")["metadata"]["uid"]
    assert second["dependencies"] == [{"name": "first", "uid": uid, "state": "Completed"}]
    assert history.states("second")[:2] == ["Pending", "Unscheduled"]


def test_t2_a_task_that_names_itself_is_held_until_it_is_released_or_too_late(kubectl: Kubectl) -> None:
    kubectl.create(
        nowhere(task("held", "exit 0", dependencies=["held"])),
        nowhere(task("too-late", "exit 0", dependencies=["too-late"], deadlineSeconds=3)),
    )
    assert kubectl.until("held", "Unscheduled")["message"] == "waiting for `release`: it names itself"
    late = kubectl.wait("too-late")["status"]
    assert (late["state"], late["reason"]) == ("Exception", "DeadlineExceeded")
    kubectl.edit("held", release=True)
    kubectl.until("held", "Claimed")


def test_t3_and_t4_what_a_failed_dependency_does_to_those_that_wait(kubectl: Kubectl) -> None:
    """By their policy: an end with the reason, a wait for its rerun, or nothing."""
    wants: dict[str, JSON] = {
        "fails-too": {},
        "waits": {"onDependencyFailure": "Wait"},
        "anyway": {"requires": "AllResolved"},
        "gives-up": {"onDependencyFailure": "Wait", "deadlineSeconds": 8},
    }
    kubectl.create(
        task("base", '[ "$TASKYARD_RUN" = 1 ]'),
        *(nowhere(task(name, "exit 0", dependencies=["base"], **spec)) for name, spec in wants.items()),
    )
    failed = kubectl.wait("fails-too")["status"]
    assert (failed["state"], failed["reason"]) == ("Exception", "DependencyFailed")
    assert failed["message"] == "its dependency `base` ended as `Failed`"
    assert failed["runCount"] == 0
    kubectl.until("anyway", "Claimed")
    waits = kubectl.until("waits", "DependencyFailed", ".status.reason")
    assert waits["state"] == "Unscheduled"
    gives_up = kubectl.wait("gives-up")["status"]
    assert (gives_up["state"], gives_up["reason"]) == ("Exception", "DeadlineExceeded")
    assert gives_up["dependencies"][0]["state"] == "Failed", "it knew, and waited all the same"
    kubectl.edit("base", rerun=1)
    kubectl.until("waits", "Claimed")
    assert kubectl.status("base")["state"] == "Completed"
    assert kubectl.status("fails-too")["state"] == "Exception", "a verdict stays"


def test_dependencies_that_are_deleted_or_come_back_as_another(kubectl: Kubectl) -> None:
    kubectl.create(
        task("passes", "exit 0", ttlSecondsAfterFinished=0),
        task("goes", "exit 0", suspend=True),
        task("another", "exit 0", suspend=True),
        nowhere(task("patient", "exit 0", dependencies=["passes", "later"])),
        nowhere(task("robbed", "exit 0", dependencies=["goes"])),
        nowhere(task("told", "exit 0", dependencies=["another"], onDependencyFailure="Wait")),
    )
    for name in ("robbed", "told"):
        kubectl.until(name, "Unscheduled")
    kubectl("wait", "--for=delete", "task/passes", "--timeout=60s")
    assert kubectl.until("patient", "Completed", ".status.dependencies[0].state")["state"] == "Unscheduled"
    kubectl("delete", "task", "goes", "another")
    robbed = kubectl.wait("robbed")["status"]
    assert robbed["message"] == "its dependency `goes` was deleted before it was resolved"
    kubectl.until("told", "DependencyFailed", ".status.reason")
    kubectl.create(task("another", "exit 0", suspend=True), task("later", "exit 0"))
    told = kubectl.until("told", "DependencyPending", ".status.reason")
    assert "another one of that name: the first was deleted" in told["message"]
    kubectl.until("patient", "Claimed")


def test_circles_are_found_and_resolved(kubectl: Kubectl) -> None:
    kubectl.create(
        *(
            nowhere(task(name, "exit 0", dependencies=[other], onDependencyFailure=policy))
            for name, other, policy in (("a", "b", "Fail"), ("b", "c", "Wait"), ("c", "a", "Wait"))
        )
    )
    found = kubectl.finished()
    assert {status["reason"] for status in found.values()} == {"DependencyFailed"}
    assert found["a"]["message"] == "its dependencies form a circle: `a` → `b` → `c` → `a`"
    assert found["b"]["message"] == "its dependencies form a circle: `b` → `c` → `a` → `b`"


def test_r4_a_whole_graph_is_cancelled_by_its_label(kubectl: Kubectl) -> None:
    """As the guide has it, one Task after another. Those that have finished stay as they are.

    Each is seen by the operator before the next is patched: the end of a step must be no verdict on those after it.
    """
    kubectl.create(
        of_group("nightly", task("a-done", "exit 0")),
        of_group("nightly", task("a-root", "exit 0", startDelaySeconds=3600)),
        of_group("nightly", task("b-runs", UNTIL_TOLD, dependencies=["a-done"])),
        of_group("nightly", task("b-waits", "exit 0", dependencies=["a-root"])),
        of_group("nightly", task("c-sweeps", "exit 0", dependencies=["b-waits"], requires="AllResolved")),
        of_group("nightly", task("d-last", "exit 0", dependencies=["b-runs", "c-sweeps"])),
        nowhere(task("bystander", "exit 0")),
    )
    kubectl.until("b-runs", "Running")
    kubectl.until("a-root", "Delayed")
    unfinished = (f"--selector={GROUP}=nightly", "--field-selector=status.phase!=Finished")
    for word in ("suspend", "cancel"):
        patch = json.dumps({"spec": {word: True}})
        for name in kubectl("get", "tasks", *unfinished, "--output=name").split():
            patched = json.loads(kubectl("patch", name, "--type=merge", f"--patch={patch}", "--output=json"))
            metadata = patched["metadata"]
            kubectl.until(metadata["name"], str(metadata["generation"]), ".status.observedGeneration")
    names = ("a-root", "b-runs", "b-waits", "c-sweeps", "d-last")
    assert {name: kubectl.wait(name)["status"]["state"] for name in names} == dict.fromkeys(
        names, "Cancelled"
    )
    done = kubectl.get("task", "a-done")
    assert (done["status"]["state"], done["spec"]["cancel"]) == ("Completed", False), "it may be run again"
    assert kubectl.status("bystander")["state"] == "Claimed"


def test_r5_good_until_inside_a_graph(kubectl: Kubectl) -> None:
    kubectl.create(
        nowhere(task("slow", "exit 0")),
        nowhere(task("fresh", "exit 0", dependencies=["slow"], goodUntil=from_now(2))),
        nowhere(task("after", "exit 0", dependencies=["fresh"])),
    )
    fresh, after = kubectl.wait("fresh")["status"], kubectl.wait("after")["status"]
    assert (fresh["state"], fresh["runCount"]) == ("Expired", 0)
    assert after["message"] == "its dependency `fresh` ended as `Expired`"


# By hand.


def test_d9_a_running_task_is_cancelled_with_its_grace_and_keeps_its_evidence(kubectl: Kubectl) -> None:
    kubectl.create(task("told", "echo at work; " + UNTIL_TOLD))
    kubectl.until("told", "Running")
    kubectl.edit("told", cancel=True)
    status = kubectl.wait("told")["status"]
    assert (status["state"], status["reason"]) == ("Cancelled", "TaskCancelled")
    assert of_run(status, "state", "exitCode") == [("Cancelled", 143)]
    assert "at work" in status["logTail"]


def test_t12_a_resolved_task_is_run_again_and_its_history_kept(kubectl: Kubectl) -> None:
    kubectl.create(task("again", '[ "$TASKYARD_RUN" = 1 ]', deadLetterPolicy="Save"))
    assert kubectl.wait("again")["status"]["state"] == "Failed"
    kubectl.edit("again", rerun=1)
    status = kubectl.wait("again", "Succeeded")["status"]
    assert of_run(status, "number", "state") == [(0, "Failed"), (1, "Completed")]
    assert (status["runCount"], status["observedRerun"], status["retryCount"]) == (2, 1, 0)
    assert "failedAt" not in status


# Definitions.


def test_a_definition_says_what_runs_and_a_task_overrides_it_field_by_field(kubectl: Kubectl) -> None:
    kubectl.create(
        definition(
            "report",
            ("v1", report('{"ok": "first"}')),
            ("v2", report('{"ok": "second"}')),
            retry={"limit": 3, "infrastructureLimit": 0},
            logs="Always",
        ),
        typed("old", "report", "v1"),
        typed("new", "report", "v2", retry={"limit": 1}, logs="None"),
        definition("fails", ("v1", "echo no; exit 1"), retry={"limit": 3, "delaySeconds": 1}, logs="None"),
        typed("fails-once-more", "fails", "v1", retry={"limit": 1}, logs="OnFailure"),
        typed("is-silent", "fails", "v1", retry={"limit": 0}),
    )
    found = kubectl.finished()
    failed, silent = found.pop("fails-once-more"), found.pop("is-silent")
    assert (failed["retryCount"], failed["logTail"]) == (1, "no\n"), (
        "its own limit, and its own wish for a log"
    )
    assert apart(failed["runs"][0]["finishedAt"], failed["runs"][1]["startedAt"]) >= 1, "its type's delay"
    assert (silent["retryCount"], "logTail" in silent) == (0, False)
    assert {name: status["result"]["ok"] for name, status in found.items()} == {
        "old": "first",
        "new": "second",
    }
    taken = found["new"]["definition"]
    assert (taken["kind"], taken["version"], taken["mainContainer"]) == ("TaskDefinition", "v2", "main")
    assert taken["defaults"]["retry"] == {"limit": 3, "infrastructureLimit": 0}


def test_j10_an_unknown_name_or_version_waits_for_its_grace_and_is_then_dropped(kubectl: Kubectl) -> None:
    kubectl.create(
        definition("known", ("v1", "exit 0"), ("v2", "exit 0")),
        typed("arrives", "late", "v1"),
        typed("version", "known", "v9"),
        typed("name", "never", "v1"),
    )
    kubectl("patch", "taskdefinition", "known", "--type=merge", '--patch={"spec":{"retired":["v1"]}}')
    kubectl.create(typed("retired", "known", "v1"))
    dropped = kubectl.wait("retired")["status"]
    assert (dropped["state"], dropped["reason"]) == ("Dropped", "DefinitionRetired")
    assert kubectl.until("arrives", "DefinitionNotFound", ".status.reason")["state"] == "Pending"
    kubectl.create(definition("late", ("v1", "exit 0")))
    kubectl.wait("arrives", "Succeeded")
    version, name = kubectl.wait("version")["status"], kubectl.wait("name")["status"]
    assert (version["state"], name["state"]) == ("Dropped", "Dropped")
    assert (
        version["message"]
        == "there is no version `v9` of the TaskDefinition `known`; there is `v1` (retired), `v2`"
    )
    assert name["message"] == "there is no TaskDefinition `never`"
    assert apart(name["submittedAt"], name["completedAt"]) >= 60, "a minute of grace"


def test_a_definition_that_is_deleted_lets_runs_end_and_drops_the_next(kubectl: Kubectl) -> None:
    fails = ("v1", "sleep 2; exit 1")
    kubectl.create(
        definition("brief", fails, retry={"limit": 1, "delaySeconds": 1}), typed("it", "brief", "v1")
    )
    kubectl.until("it", "Running")
    kubectl("delete", "taskdefinition", "brief")
    waits = kubectl.until("it", "DefinitionNotFound", ".status.reason")
    assert of_run(waits, "number", "state") == [(0, "Failed")], "it ended as it would have"
    dropped = kubectl.wait("it")["status"]
    assert (dropped["state"], dropped["message"]) == ("Dropped", "there is no TaskDefinition `brief`")
    assert (dropped["runCount"], dropped["retryCount"]) == (1, 1)


def test_an_inherited_deadline_strikes_though_the_definition_is_deleted_or_retired(kubectl: Kubectl) -> None:
    kubectl.create(
        definition("deleted", ("v1", "exit 0"), deadlineSeconds=15),
        definition("outdated", ("v1", "exit 0"), deadlineSeconds=15),
        typed("waits", "deleted", "v1", dependencies=["never"]),
        typed("held", "outdated", "v1", suspend=True),
    )
    for name in ("waits", "held"):
        seen = kubectl.until(name, "v1", ".status.definition.version")
        assert (seen["state"], seen["definition"]["defaults"]) == ("Unscheduled", {"deadlineSeconds": 15})
    kubectl("delete", "taskdefinition", "deleted")
    kubectl("patch", "taskdefinition", "outdated", "--type=merge", '--patch={"spec":{"retired":["v1"]}}')
    for name, reason in (("waits", "DefinitionNotFound"), ("held", "DefinitionRetired")):
        seen = kubectl.until(name, reason, ".status.waiting[1].reason")
        assert seen["state"] == "Unscheduled", "not dropped: it is not its turn yet"
    for status in kubectl.finished().values():
        assert (status["state"], status["reason"]) == ("Exception", "DeadlineExceeded")
        assert apart(status["submittedAt"], status["completedAt"]) >= 15


def test_a_definition_cannot_smuggle_in_what_the_namespace_forbids(kubectl: Kubectl, admin: Kubectl) -> None:
    name = f"privileged-{kubectl.namespace}"
    smuggler = definition(name, ("v1", "exit 0"), kind="ClusterTaskDefinition")
    [container] = smuggler["spec"]["versions"][0]["template"]["spec"]["containers"]
    container["securityContext"] = {"privileged": True}
    admin.create(smuggler)
    try:
        limits = {"scheduleTimeoutSeconds": 3, "startLimit": 1}
        kubectl.create(typed("sneaky", name, "v1", kind="ClusterTaskDefinition", **limits))
        status = kubectl.wait("sneaky")["status"]
    finally:
        admin("delete", "clustertaskdefinition", name)
    assert (status["state"], status["reason"]) == ("Exception", "StartFailed")
    assert "violates PodSecurity" in status["message"]


# Credentials.

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"


@pytest.fixture
def account(kubectl: Kubectl) -> str:
    kubectl("create", "serviceaccount", "worker")
    return "worker"


def is_good(kubectl: Kubectl, token: str) -> bool:
    """Whether the API server takes it for what it says it is."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = json.loads(kubectl("create", "-f", "-", "--output=json", stdin=json.dumps(review)))
    return bool(answer["status"].get("authenticated", False))


def claims_of(token: str) -> JSON:
    """What a token says of itself."""
    coded = token.split(".")[1]
    claims: JSON = json.loads(base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)))
    return claims


def test_t10a_credentials_are_given_to_those_that_ask_short_lived_and_bound_to_the_pod(
    kubectl: Kubectl, account: str
) -> None:
    tell = f'[ -e {TOKEN} ] && printf \'{{"ok": "%s"}}\' "$(cat {TOKEN})" > "$TASKYARD_RESULT_PATH"; exit 0'
    with_account = task("asks", tell)
    with_account["spec"]["template"]["spec"]["serviceAccountName"] = account
    in_words = task("asks-in-words", tell)
    in_words["spec"]["template"]["spec"]["automountServiceAccountToken"] = True
    kubectl.create(with_account, in_words, task("does-not", tell))
    found = kubectl.finished()
    assert "result" not in found["does-not"], "no token unless one is asked for"
    of_default = claims_of(found["asks-in-words"]["result"]["ok"])["kubernetes.io"]
    assert of_default["serviceaccount"]["name"] == "default"
    assert of_default["pod"]["name"] == found["asks-in-words"]["runs"][0]["pod"]
    token, pod = found["asks"]["result"]["ok"], found["asks"]["runs"][0]["pod"]
    claims = claims_of(token)
    assert claims["kubernetes.io"]["pod"]["name"] == pod
    assert claims["kubernetes.io"]["serviceaccount"]["name"] == account
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] <= 3607, "renewed every hour"
    assert is_good(kubectl, token)
    kubectl("delete", "pod", pod)
    kubectl.eventually("the token is worth nothing without its pod", lambda: not is_good(kubectl, token))
    may = kubectl.ask("auth", "can-i", "list", "tasks", f"--as={claims['sub']}")
    assert may.out.strip() == "no", "no more rights than it was given"
