"""What a Task takes from its definition, and when."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from taskyard.cluster import DEFINITIONS, JOBS, TASKS, Kind, NotFound
from taskyard.core import defaults, definitions, parse_spec
from taskyard.core.actions import Ask, CreateJob, Decision, WriteStatus
from taskyard.core.decide import decide
from taskyard.core.model import Bound, Unregistered, Version
from taskyard.core.words import DefinitionKind, Reason, State
from tests.unit.build import NOW, REF, job, live, retry, seconds, snapshot, task, version
from tests.unit.contract import new_task
from tests.unit.fake import Object
from tests.unit.world import NAMESPACE, World

EXAMPLES = Path(__file__).parents[2] / "examples"
TO_REPORT = {"kind": "TaskDefinition", "name": "report", "version": "v1"}
NAMESPACED = DEFINITIONS[DefinitionKind.TASK_DEFINITION]
CLUSTER_WIDE = DEFINITIONS[DefinitionKind.CLUSTER_TASK_DEFINITION]
GONE = Unregistered("there is no TaskDefinition `report`")
RETIRED = Unregistered("version `v1` of the TaskDefinition `report` is retired", retired=version())
BOUND = Bound(DefinitionKind.TASK_DEFINITION, "definition-uid", "v1", "digest", "main", 5, {})


@pytest.mark.parametrize(
    ("own", "inherited", "expected"),
    [
        pytest.param(
            {"timeoutSeconds": 1},
            {"timeoutSeconds": 2, "startLimit": 3},
            {"timeoutSeconds": 1, "startLimit": 3},
            id="field by field",
        ),
        pytest.param(
            {"retry": {"limit": 1}},
            {"retry": {"limit": 2, "delaySeconds": 3}},
            {"retry": {"backoff": "Constant", "limit": 1, "delaySeconds": 3}},
            id="those of `retry` too",
        ),
        pytest.param(
            {"retry": {"delaySeconds": 1}},
            {"retry": {"limit": 2, "intervalsSeconds": [3, 4]}},
            {"retry": {"backoff": "Constant", "limit": 2, "delaySeconds": 1}},
            id="delays are a list or a curve",
        ),
        pytest.param(
            {"goodUntil": "x"}, {"goodForSeconds": 2}, {"goodUntil": "x"}, id="a time is absolute or relative"
        ),
        pytest.param(
            {"retry": {"expected": {"errors": ["a"]}}},
            {"retry": {"expected": {"exitCodes": [1]}}},
            {"retry": {"backoff": "Constant", "expected": {"errors": ["a"]}}},
            id="what is deeper is taken whole",
        ),
    ],
)
def test_what_a_task_does_not_say_its_definition_does(own: Any, inherited: Any, expected: Any) -> None:
    assert defaults.merged(own, inherited) == expected


@pytest.mark.parametrize(
    ("versions", "bound", "expected"),
    [
        pytest.param(
            {"v2": version(version="v2"), "v3": version(version="v3")},
            None,
            "there is no version `v1` of the TaskDefinition `report`; there is `v2`, `v3`",
            id="no such version: those that there are",
        ),
        pytest.param(
            {"v1": version(is_retired=True)},
            None,
            "version `v1` of the TaskDefinition `report` is retired: it starts no new tasks",
            id="retired",
        ),
        pytest.param({"v1": version(is_retired=True)}, BOUND, None, id="retired, after the first claim"),
        pytest.param(
            {"v1": version(digest="other")},
            BOUND,
            "version `v1` of the TaskDefinition `report` is another one than the task was first claimed with",
            id="taken away and written anew, with another content",
        ),
        pytest.param({"v1": version(uid="other")}, BOUND, None, id="registered anew, and the same"),
    ],
)
def test_what_a_reference_leads_to(
    versions: dict[str, Version], bound: Bound | None, expected: str | None
) -> None:
    found = definitions.found(REF, versions, bound)
    assert (found.message if isinstance(found, Unregistered) else None) == expected


def test_a_claim_puts_on_record_what_it_takes() -> None:
    offered = version(defaults={"timeoutSeconds": 9})
    action = decide(snapshot(task(wants={"definition": REF}), definition=offered), NOW).action
    assert isinstance(action, WriteStatus)
    assert action.status.definition == Bound(
        DefinitionKind.TASK_DEFINITION, "definition-uid", "v1", "digest", "main", 5, {"timeoutSeconds": 9}
    )
    claimed = task(State.CLAIMED, wants={"definition": REF}, definition=BOUND)
    assert decide(snapshot(claimed, definition=offered), NOW).action == CreateJob(offered.template)


def test_a_missing_definition_is_waited_for_asked_for_and_then_given_up() -> None:
    eligible = task(wants={"definition": REF}, enqueued_at=NOW - seconds(3600))
    action = decide(snapshot(eligible, definition=GONE), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.PENDING, Reason.DEFINITION_NOT_FOUND)
    assert action.status.enqueued_at == NOW, "however long it had waited before: it is missed from now on"
    missing: dict[str, Any] = {
        "wants": {"definition": REF},
        "reason": Reason.DEFINITION_NOT_FOUND,
        "message": GONE.message,
    }
    fresh = task(**missing, enqueued_at=NOW - seconds(59))
    assert not isinstance(decide(snapshot(fresh, definition=GONE), NOW).action, Ask)
    late = task(**missing, enqueued_at=NOW - seconds(60))
    assert decide(snapshot(late, definition=GONE), NOW) == Decision(Ask(definition=True))
    action = decide(snapshot(late, definition=GONE, asked=True), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.DROPPED, "DefinitionNotFound")
    assert action.status.message == GONE.message


def test_a_retired_version_is_not_waited_for() -> None:
    action = decide(snapshot(task(wants={"definition": REF}), definition=RETIRED, asked=True), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.DROPPED, "DefinitionRetired")


@pytest.mark.parametrize(
    ("known", "definition", "expected"),
    [
        pytest.param(None, version(defaults={"startLimit": 2}), {"startLimit": 2}, id="what it says"),
        pytest.param(BOUND, version(digest="new", defaults={"startLimit": 2}), {"startLimit": 2}, id="anew"),
        pytest.param(
            None,
            Unregistered("old", retired=version(defaults={"startLimit": 2})),
            {"startLimit": 2},
            id="old",
        ),
        pytest.param(replace(BOUND, defaults={"startLimit": 3}), GONE, {"startLimit": 3}, id="what it said"),
        pytest.param(None, GONE, None, id="nothing, of one that never was there"),
    ],
)
def test_a_task_that_waits_has_on_record_what_it_inherits(
    known: Bound | None, definition: Version | Unregistered, expected: Any
) -> None:
    waits = task(wants={"definition": REF, "suspend": True}, definition=known)
    action = decide(snapshot(waits, definition=definition), NOW).action
    assert isinstance(action, WriteStatus)
    assert action.status.state is State.UNSCHEDULED
    taken = action.status.definition
    assert (taken.defaults if taken is not None else None) == expected


def test_a_claim_whose_definition_went_is_given_back_by_way_of_a_placeholder() -> None:
    claimed = task(State.CLAIMED, wants={"definition": REF}, definition=BOUND)
    action = decide(snapshot(claimed, definition=GONE, live=live(None)), NOW).action
    assert isinstance(action, CreateJob)
    assert action.is_placeholder


def test_a_definition_that_was_away_for_a_moment_is_nobodys_loss() -> None:
    """Its placeholder is made, and then it is back: the claim was this operator's own, and nothing has run."""
    wants = {"definition": REF, "retry": retry(infrastructure_limit=0)}
    claimed = task(State.CLAIMED, wants=wants, definition=BOUND)
    held = job(is_placeholder=True, suspend=True)
    action = decide(snapshot(claimed, definition=version(), job=held, live=live(held)), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.loss_count) == (State.PENDING, 0)
    assert "was not there for a moment" in str(action.status.message)


def test_a_rerun_is_made_of_what_the_task_was_claimed_with() -> None:
    done = task(State.COMPLETED, wants={"definition": REF, "rerun": 1}, definition=BOUND)
    action = decide(snapshot(done, definition=version()), NOW).action
    assert isinstance(action, WriteStatus)
    assert action.status.definition == BOUND, "so that a version which is retired by now still serves it"


def test_the_order_of_a_set_is_no_other_version() -> None:
    def digest(*codes: int) -> str:
        expected = {"retry": {"expected": {"exitCodes": list(codes)}}}
        offered = {
            "version": "v1",
            "template": {"spec": {"containers": [{"name": "m"}]}},
            "defaults": expected,
        }
        metadata = {"name": "report", "uid": "uid"}
        obj = {"kind": "TaskDefinition", "metadata": metadata, "spec": {"versions": [offered]}}
        return parse_spec.versions(obj)["v1"].digest

    assert digest(1, 2) == digest(2, 1) != digest(1, 3)


def test_a_version_is_known_by_all_that_it_says() -> None:
    def digest(**changes: Any) -> str:
        offered = {"version": "v1", "template": {"spec": {"containers": [{"name": "m"}]}}} | changes
        obj = {"kind": "TaskDefinition", "metadata": {"uid": "u"}, "spec": {"versions": [offered]}}
        return parse_spec.versions(obj)["v1"].digest

    assert digest() == digest(description="other words")
    assert digest() != digest(defaults={"timeoutSeconds": 1})
    assert digest() != digest(template={"spec": {"containers": [{"name": "n"}]}})


# With the loop and the cache.


def definition(
    *versions: str,
    kind: str = "TaskDefinition",
    name: str = "report",
    retired: Sequence[str] = (),
    **inherited: Any,
) -> dict[str, Any]:
    """A definition whose versions run an image of their name."""
    offered = [
        {
            "version": each,
            "template": {"spec": {"containers": [{"name": "main", "image": each}]}},
            "defaults": {"timeoutSeconds": 60, "retry": {"limit": 1}} | inherited,
        }
        for each in versions
    ]
    metadata = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata |= {"namespace": NAMESPACE} if kind == "TaskDefinition" else {}
    return {"kind": kind, "metadata": metadata, "spec": {"versions": offered, "retired": list(retired)}}


async def submit(world: World, ref: dict[str, str], **spec: Any) -> None:
    task = new_task("hello", NAMESPACE)
    await world.cluster.create(TASKS, NAMESPACE, task | {"spec": {"definitionRef": ref, **spec}})


async def test_a_task_runs_what_its_definition_says_once_that_arrives() -> None:
    world = World()
    operator = await world.operator()
    await submit(world, TO_REPORT, retry={"limit": 3})
    await operator.settle()
    assert world.status()["message"] == "there is no TaskDefinition `report`"
    world.cluster.put(NAMESPACED, definition("v1", "v2"))
    await operator.settle()
    [job] = world.cluster.all(JOBS)
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "v1"
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 600 + 60 + 60
    taken = world.status()["definition"]
    assert (taken["version"], taken["uid"], taken["mainContainer"]) == ("v1", "uid-of-report", "main")
    world.cluster.remove(NAMESPACED, NAMESPACE, "report")
    await operator.settle()
    known = operator.cache.task(world.task()["metadata"]["uid"])
    assert known is not None
    assert (known.spec.timeout, known.spec.retry.limit) == (seconds(60), 3), (
        "whatever becomes of the definition"
    )


@pytest.mark.parametrize(("name", "state", "retries"), [("blue", "Claimed", 1), ("green", "Failed", 0)])
async def test_what_a_task_of_the_example_overrides_counts(name: str, state: str, retries: int) -> None:
    """Both tasks of examples/definition.yaml inherit two retries, and one wants none; on the cluster none fails."""
    world = World()
    operator = await world.operator()
    shipped, *_, blue, green = yaml.safe_load_all((EXAMPLES / "definition.yaml").read_text())
    world.cluster.put(CLUSTER_WIDE, shipped | {"metadata": {"name": "greeting", "uid": "uid-of-greeting"}})
    [chosen] = [each for each in (blue, green) if each["metadata"]["name"] == name]
    await submit(world, chosen["spec"]["definitionRef"], **chosen["spec"])
    await operator.settle()
    [made] = world.cluster.all(JOBS)
    assert made["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 600 + 60 + 60, "both have its timeout"
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.pod_ends(1)
    await operator.settle()
    assert (world.status()["state"], world.status()["retryCount"]) == (state, retries)


async def test_what_only_a_launch_needs_is_not_kept_for_a_definition_that_may_come() -> None:
    world = World()
    operator = await world.operator()
    await submit(world, TO_REPORT, input="x" * 9999)
    await operator.settle()
    known = operator.cache.task(world.task()["metadata"]["uid"])
    assert known is not None
    assert known.written is not None
    assert "input" not in known.written


async def test_a_cluster_wide_definition_serves_all_namespaces() -> None:
    world = World()
    world.cluster.put(CLUSTER_WIDE, definition("v1", kind="ClusterTaskDefinition"))
    operator = await world.operator()
    await submit(world, {"kind": "ClusterTaskDefinition", "name": "report", "version": "v1"})
    await operator.settle()
    assert world.status()["state"] == "Claimed"


async def test_a_name_of_the_other_kind_is_told_of() -> None:
    """`kind` is TaskDefinition where a reference does not say."""
    world = World()
    operator = await world.operator()
    await submit(world, TO_REPORT)
    await operator.settle()
    assert world.status()["message"] == "there is no TaskDefinition `report`"
    world.cluster.put(CLUSTER_WIDE, definition("v1", kind="ClusterTaskDefinition"))
    world.later(61)
    operator.mark_all()
    await operator.settle()
    assert (world.status()["state"], world.status()["message"]) == (
        "Dropped",
        "there is no TaskDefinition `report`; there is a ClusterTaskDefinition of that name,"
        " for which `definitionRef.kind` must be `ClusterTaskDefinition`",
    )


async def test_a_retry_whose_version_was_deleted_is_dropped() -> None:
    world = World()
    world.cluster.put(NAMESPACED, definition("v1", "v2"))
    operator = await world.operator()
    await submit(world, TO_REPORT)
    await operator.settle()
    world.make_pods()
    world.pod_runs()
    await operator.settle()
    world.cluster.put(NAMESPACED, definition("v2"))
    world.pod_ends(3)
    await operator.settle()
    said = "there is no version `v1` of the TaskDefinition `report`; there is `v2`"
    assert (world.status()["state"], world.status()["message"]) == ("Pending", said)
    world.later(61)
    operator.mark_all()
    await operator.settle()
    assert (world.status()["state"], world.status()["message"]) == ("Dropped", said)
    assert [run["state"] for run in world.status()["runs"]] == ["Failed"]


async def test_what_ended_before_its_first_claim_keeps_its_definitions_time_to_live() -> None:
    world = World()
    operator = await world.operator()
    world.cluster.put(NAMESPACED, definition("v1", deadLetterPolicy="Save"))
    await submit(world, TO_REPORT, goodUntil="2026-01-01T00:00:30Z", suspend=True)
    await operator.settle()
    world.later(60)
    operator.mark_all()
    await operator.settle()
    assert world.status("hello")["state"] == "Expired"
    world.cluster.remove(NAMESPACED, NAMESPACE, "report")
    world.later(86400 + 5)
    operator.mark_all()
    await operator.settle()
    assert world.status("hello")["state"] == "Expired", "kept"
    assert all(each.written is None for each in operator.cache.tasks()), "what is resolved is kept slim"


INHERITED_CLOCKS = [
    pytest.param({"deadlineSeconds": 100}, ("Exception", "DeadlineExceeded"), id="deadline"),
    pytest.param({"goodForSeconds": 100}, ("Expired", "TaskExpired"), id="start by"),
]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("waits", [{"dependencies": ["never"]}, {"suspend": True}], ids=str)
@pytest.mark.parametrize("edit", ["retired", "deleted", "version deleted"])
@pytest.mark.parametrize(("inherited", "expected"), INHERITED_CLOCKS)
async def test_an_inherited_clock_strikes_whatever_becomes_of_the_definition(
    inherited: Any, expected: tuple[str, str], edit: str, waits: Any, is_restarted: bool
) -> None:
    """A task that waits for something else is not dropped meanwhile, nor does it wait for ever."""
    world = World()
    operator = await world.operator()
    world.cluster.put(NAMESPACED, definition("v1", "v2", **inherited))
    await submit(world, TO_REPORT, **waits)
    await operator.settle()
    match edit:
        case "retired":
            world.cluster.put(NAMESPACED, definition("v1", "v2", retired=["v1"], **inherited))
        case "deleted":
            world.cluster.remove(NAMESPACED, NAMESPACE, "report")
        case _:
            world.cluster.put(NAMESPACED, definition("v2"))
    await operator.settle()
    if is_restarted:
        operator.is_deaf = True
        operator = await world.operator("op-2")
    world.later(99)
    operator.mark_all()
    await operator.settle()
    assert world.status()["state"] == "Unscheduled", "not for want of a definition: it is not its turn yet"
    world.later(2)
    operator.mark_all()
    await operator.settle()
    assert (world.status()["state"], world.status()["reason"]) == expected


async def test_a_rerun_that_waits_keeps_what_it_inherited_too() -> None:
    """What ended before its first claim, and begins anew when its definition is gone."""
    world = World()
    operator = await world.operator()
    world.cluster.put(NAMESPACED, definition("v1", deadlineSeconds=100))
    await submit(world, TO_REPORT, dependencies=["never"], cancel=True)
    await operator.settle()
    world.cluster.remove(NAMESPACED, NAMESPACE, "report")
    world.edit_spec("hello", rerun=1, cancel=False)
    await operator.settle()
    assert world.status()["state"] == "Unscheduled"
    world.later(101)
    operator.mark_all()
    await operator.settle()
    assert world.status()["reason"] == "DeadlineExceeded"


async def test_until_its_first_claim_a_task_goes_by_what_its_definition_says_now() -> None:
    world = World()
    operator = await world.operator()
    world.cluster.put(NAMESPACED, definition("v1", deadlineSeconds=100))
    await submit(world, TO_REPORT, suspend=True)
    await operator.settle()
    world.cluster.remove(NAMESPACED, NAMESPACE, "report")
    world.cluster.put(NAMESPACED, definition("v1", name="report", timeoutSeconds=7))
    await operator.settle()
    assert world.status()["definition"]["defaults"]["timeoutSeconds"] == 7
    world.later(3600)
    world.edit_spec("hello", suspend=False)
    await operator.settle()
    assert world.status()["state"] == "Claimed", "neither dropped as another one, nor by a clock of the first"


async def test_what_is_dropped_for_a_retired_version_is_kept_as_that_says() -> None:
    world = World()
    operator = await world.operator()
    inherited: dict[str, Any] = {"deadLetterPolicy": "Save", "ttlSecondsAfterFinished": 10**6}
    world.cluster.put(NAMESPACED, definition("v1", retired=["v1"], **inherited))
    await submit(world, TO_REPORT)
    await operator.settle()
    assert (world.status()["state"], world.status()["reason"]) == ("Dropped", "DefinitionRetired")
    world.cluster.remove(NAMESPACED, NAMESPACE, "report")
    world.later(86400 + 5)
    operator.mark_all()
    await operator.settle()
    assert world.status("hello")["state"] == "Dropped", "not deleted"


@pytest.mark.parametrize("was_known", [False, True], ids=["not known before", "deleted, and not told yet"])
async def test_a_definition_that_comes_while_another_is_not_found_is_there(was_known: bool) -> None:
    """Its event arrives before the answer of a read that was served earlier."""
    world = World()
    operator = await world.operator()
    if was_known:
        world.cluster.put(NAMESPACED, definition("v0"))
        operator.is_deaf = True
        world.cluster.remove(NAMESPACED, NAMESPACE, "report")
        operator.is_deaf = False
    await submit(world, TO_REPORT)
    await operator.settle()
    world.later(61)
    operator.mark_all()
    served = world.cluster.get

    async def late(kind: Kind, namespace: str | None, name: str) -> Object:
        try:
            return await served(kind, namespace, name)
        except NotFound:
            world.cluster.put(NAMESPACED, definition("v1"))
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.cluster, "get", late)
        await operator.settle()
    assert world.status()["state"] == "Claimed"


async def test_a_definition_that_is_not_found_is_forgotten() -> None:
    """Also when nobody was told of its end."""
    world = World()
    operator = await world.operator()
    world.cluster.put(NAMESPACED, definition("v2"))
    await submit(world, TO_REPORT)
    await operator.settle()
    operator.is_deaf = True
    world.cluster.remove(NAMESPACED, NAMESPACE, "report")
    world.later(61)
    operator.mark_all()
    await operator.settle()
    said = "there is no TaskDefinition `report`"
    assert (world.status("hello")["state"], world.status("hello")["message"]) == ("Dropped", said)


async def test_an_edit_that_says_nothing_else_is_no_news_for_those_that_run() -> None:
    world = World()
    world.cluster.put(NAMESPACED, definition("v1"))
    operator = await world.operator()
    await submit(world, TO_REPORT)
    await operator.settle()
    [known] = world.cluster.all(NAMESPACED)
    world.cluster.put(NAMESPACED, known | {"metadata": known["metadata"] | {"annotations": {"a": "b"}}})
    assert operator.cache.dirty.is_idle


async def test_a_definition_that_nobody_can_read_is_said_to_be_one() -> None:
    world = World()
    unreadable = definition("v1")
    del unreadable["spec"]["versions"][0]["template"]
    world.cluster.put(NAMESPACED, unreadable)
    operator = await world.operator()
    await submit(world, TO_REPORT)
    await operator.settle()
    assert world.status("hello")["message"] == "the TaskDefinition `report` cannot be read"
    world.later(61)
    operator.mark_all()
    await operator.settle()
    assert (world.status("hello")["state"], world.status("hello")["reason"]) == (
        "Dropped",
        "DefinitionNotFound",
    )
