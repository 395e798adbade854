"""Stopping a run: why, and then how, one step at a time."""

from dataclasses import replace
from typing import Any

import pytest

from taskyard.core import stopping
from taskyard.core.actions import (
    CreateJob,
    Decision,
    DeleteJob,
    DeletePod,
    EndPod,
    Look,
    SuspendJob,
    WriteStatus,
)
from taskyard.core.decide import decide
from taskyard.core.model import Container, Exit, Hindrance, Job, Log, Pod, Snapshot, Status, Stop, Task
from taskyard.core.refusals import Refusal
from taskyard.core.words import LogPolicy, PodPhase, Reason, State, StopReason
from tests.unit.build import (
    CLAIMED,
    ENDED,
    NOW,
    STARTED,
    ended,
    job,
    live,
    pod,
    retry,
    seconds,
    snapshot,
    started,
    task,
)

CLAIM, RUN = State.CLAIMED, State.RUNNING
WAITING = pod(node=None)
NO_ROOM = Hindrance(Reason.UNSCHEDULABLE, "2 Insufficient cpu", is_capacity=True)
NO_FIT = Hindrance(Reason.UNSCHEDULABLE, "2 node(s) didn't match")
NO_IMAGE = Hindrance(Reason.IMAGE_PULL, "not found")
BAD_NAME = Hindrance(Reason.IMAGE_PULL, "container `main`: InvalidImageName: m", is_final=True)
RUNNING = pod(PodPhase.RUNNING, started())
NO_END = Exit(137, "ContainerStatusUnknown", None, None)


def wants(**what: Any) -> dict[str, Any]:
    return {"wants": what}


@pytest.mark.parametrize(
    ("of", "its_pod", "reason", "message"),
    [
        pytest.param(
            task(RUN, **wants(cancel=True, deadline=NOW, timeout=seconds(1))),
            RUNNING,
            "Cancelled",
            "stopping: `cancel` is set",
            id="a cancel comes before every clock",
        ),
        pytest.param(
            task(RUN, **wants(deadline=NOW, timeout=seconds(1))),
            RUNNING,
            "DeadlineExceeded",
            "stopping: its `deadline` has passed",
            id="a deadline comes before a timeout",
        ),
        pytest.param(
            task(RUN, **wants(timeout=seconds(239))),
            RUNNING,
            "Timeout",
            "stopping: its `timeoutSeconds` have passed",
            id="a timeout counts from the container's start",
        ),
        pytest.param(
            task(CLAIM, **wants(timeout=seconds(239))),
            RUNNING,
            "Timeout",
            "stopping: its `timeoutSeconds` have passed",
            id="also of a run that nobody saw start",
        ),
        pytest.param(
            task(CLAIM, **wants(good_until=NOW)),
            WAITING,
            "Expired",
            "stopping: its `goodUntil` has passed",
            id="expired before it started",
        ),
        pytest.param(
            task(CLAIM, **wants(good_until=STARTED)),
            RUNNING,
            "Expired",
            "stopping: it started after its `goodUntil`",
            id="started late while nobody looked",
        ),
        pytest.param(
            task(CLAIM, **wants(good_until=NOW)),
            None,
            "Expired",
            "stopping: its `goodUntil` has passed",
            id="expired before it had a pod",
        ),
        pytest.param(
            task(CLAIM, **wants(schedule_timeout=seconds(299))),
            pod(node=None, hindrance=NO_FIT),
            "ScheduleTimeout",
            "no node was found within 299 s: 2 node(s) didn't match",
            id="no node in time, in the scheduler's own words",
        ),
        pytest.param(
            task(CLAIM, **wants(schedule_timeout=seconds(299))),
            pod(node=None, hindrance=NO_ROOM),
            "NoCapacity",
            "no node was found within 299 s: 2 Insufficient cpu",
            id="no room in time",
        ),
        pytest.param(
            task(
                CLAIM,
                reason="JobRefused",
                message="denied by a webhook",
                **wants(schedule_timeout=seconds(299)),
            ),
            None,
            "ScheduleTimeout",
            "no pod was made within 299 s: denied by a webhook",
            id="no pod in time, in the words of the status",
        ),
        pytest.param(
            task(
                CLAIM,
                reason="QuotaExceeded",
                message="exceeded quota: q",
                **wants(schedule_timeout=seconds(299)),
            ),
            None,
            "NoCapacity",
            "no pod was made within 299 s: exceeded quota: q",
            id="no quota in time is lack of room",
        ),
        pytest.param(
            task(CLAIM),
            pod(hindrance=BAD_NAME, init_containers=(ended(0, "init"),)),
            "MalformedPayload",
            "container `main`: InvalidImageName: m",
            id="an image that can never be, after an init container that could",
        ),
        pytest.param(
            task(RUN),
            pod(PodPhase.RUNNING, Container("main", STARTED, NO_END), started("sidecar")),
            "MainContainerEnded",
            "stopping: the main container has ended, and others linger",
            id="an end without a time",
        ),
        pytest.param(
            task(CLAIM, **wants(start_timeout=seconds(60))),
            pod(hindrance=NO_IMAGE, scheduled_at=NOW - seconds(61)),
            "StartTimeout",
            "the container had not started within 60 s: not found",
            id="no start in time, from when there was a node",
        ),
        pytest.param(
            task(CLAIM, **wants(start_timeout=seconds(60))),
            pod(init_containers=(started("init"),), scheduled_at=NOW - seconds(61)),
            "StartTimeout",
            "the container had not started within 60 s",
            id="an init container is not the start",
        ),
        pytest.param(
            task(CLAIM),
            pod(hindrance=BAD_NAME),
            "MalformedPayload",
            "container `main`: InvalidImageName: m",
            id="an image that can never be",
        ),
        pytest.param(
            task(RUN),
            pod(PodPhase.RUNNING, Container("main", STARTED, ended().exit), started("sidecar")),
            None,
            None,
            id="others may outlive the main container for its grace period",
        ),
        pytest.param(
            task(RUN, **wants(grace=seconds(3))),
            pod(PodPhase.RUNNING, ended(0), started("sidecar")),
            "MainContainerEnded",
            "stopping: the main container has ended, and others linger",
            id="and no longer",
        ),
        pytest.param(
            task(RUN, **wants(grace=seconds(3))),
            pod(PodPhase.RUNNING, ended(0), ended(0, "other")),
            None,
            None,
            id="where nobody outlives it the kubelet has time to say so",
        ),
        pytest.param(
            task(RUN, **wants(grace=seconds(3))),
            pod(
                PodPhase.RUNNING,
                replace(ended(0), exit=Exit(0, None, None, NOW - seconds(33))),
                ended(0, "other"),
            ),
            "MainContainerEnded",
            "stopping: the main container has ended, and others linger",
            id="but not for ever",
        ),
        pytest.param(
            task(RUN, **wants(cancel=True)),
            pod(PodPhase.RUNNING, ended(0), started("sidecar")),
            "MainContainerEnded",
            "stopping: the main container has ended, and others linger",
            id="a cancel after the main container's end does not take its verdict",
        ),
        pytest.param(task(RUN, **wants(good_until=NOW)), RUNNING, None, None, id="what runs expires no more"),
        pytest.param(
            task(CLAIM, **wants(good_until=STARTED + seconds(1))),
            RUNNING,
            None,
            None,
            id="what started in time goes on",
        ),
        pytest.param(
            task(CLAIM, **wants(suspend=True)), WAITING, None, None, id="`suspend` is for the unclaimed"
        ),
    ],
)
def test_the_reason_is_recorded_first(
    of: Task, its_pod: Pod | None, reason: str | None, message: str | None
) -> None:
    pods = () if its_pod is None else (its_pod,)
    situation = snapshot(of, *pods, job=job())
    if reason in stopping.FOR_WANT_OF_A_START:
        assert decide(situation, NOW) == Decision(Look()), "a start may be known by now"
    action = decide(replace(situation, live=live(job())), NOW).action
    if reason is None:
        assert not (isinstance(action, WriteStatus) and action.status.stop)
        return
    assert isinstance(action, WriteStatus)
    assert action.status.stop == Stop(StopReason(reason), NOW)
    assert (action.status.state, action.status.reason) == (of.status.state, "Stopping")
    assert action.status.message == message


def stopped(
    state: State = RUN, reason: StopReason = StopReason.CANCELLED, age: float = 1, **spec: Any
) -> Task:
    return task(state, stop=Stop(reason, NOW - seconds(age)), wants=spec)


SUSPENDED = job(suspend=True, is_idle=True, is_suspended=True)
BY_HAND = job(suspend=True, is_suspended=True)


@pytest.mark.parametrize(
    ("situation", "decision"),
    [
        pytest.param(
            snapshot(stopped(), RUNNING),
            Decision(EndPod(RUNNING), NOW + seconds(34)),
            id="a pod with a node is ended in order",
        ),
        pytest.param(
            snapshot(stopped(), pod(PodPhase.RUNNING, started(), active_deadline=1)),
            Decision(wake_at=NOW + seconds(34)),
            id="it is asked once, and has its grace period and some time",
        ),
        pytest.param(
            snapshot(stopped(), pod(PodPhase.RUNNING, started(), deleting=True)),
            Decision(wake_at=NOW + seconds(34)),
            id="one that is being deleted needs no asking",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), WAITING),
            Decision(Look(), NOW + seconds(29)),
            id="a pod without a node: look first",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), WAITING, live=live(job())),
            Decision(SuspendJob(job()), NOW + seconds(29)),
            id="then its Job is suspended",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), WAITING, live=live(job(suspend=True))),
            Decision(wake_at=NOW + seconds(1)),
            id="which takes a moment",
        ),
        pytest.param(
            snapshot(stopped(CLAIM, age=9), WAITING, live=live(job(suspend=True))),
            Decision(wake_at=NOW + seconds(9)),
            id="or longer, and is asked for less and less often",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), WAITING, live=live(None)),
            Decision(DeletePod(WAITING), NOW + seconds(29)),
            id="a pod whose Job is gone is deleted",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), pod(node=None, gone=True)), Decision(Look()), id="the pod is gone: look"
        ),
        pytest.param(snapshot(stopped(CLAIM)), Decision(Look()), id="no pod was ever seen: look"),
        pytest.param(
            snapshot(stopped(CLAIM), live=live(job())),
            Decision(SuspendJob(job())),
            id="a Job without a pod is suspended",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), live=live(job(suspend=True))),
            Decision(wake_at=NOW + seconds(1)),
            id="until it says that nothing of it is left",
        ),
        pytest.param(
            snapshot(stopped(CLAIM, StopReason.SCHEDULE_TIMEOUT), live=live(SUSPENDED)),
            Decision(DeleteJob(SUSPENDED)),
            id="then it goes, if another attempt follows",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), live=live(BY_HAND)),
            Decision(SuspendJob(BY_HAND)),
            id="if none follows, one that somebody suspended is to make no pod when he resumes it",
        ),
        pytest.param(
            snapshot(
                stopped(RUN, StopReason.DEADLINE_EXCEEDED, deadline=NOW - seconds(1)), pod(active_deadline=1)
            ),
            Decision(wake_at=NOW + seconds(34)),
            id="past a deadline a pod that does not end is not waited for for ever",
        ),
        pytest.param(
            snapshot(
                stopped(RUN, StopReason.TIMEOUT, age=20, deadline=NOW + seconds(9)), pod(active_deadline=1)
            ),
            Decision(wake_at=NOW + seconds(15)),
            id="and before it for as long as it takes",
        ),
    ],
)
def test_then_one_step_at_a_time(situation: Snapshot, decision: Decision) -> None:
    assert decide(situation, NOW) == decision


UNCONFIRMED = job(suspend=True)
PAST: dict[str, Any] = {"deadline": NOW - seconds(35)}


def test_a_controller_that_does_not_confirm_is_told_of_and_asked_again() -> None:
    cancelled = stopped(CLAIM, age=10)
    told = decide(snapshot(cancelled, live=live(UNCONFIRMED)), NOW)
    assert isinstance(told.action, WriteStatus)
    [said] = told.action.status.waiting
    assert said.reason == Reason.STOPPING
    assert said.message == (
        "the Job `job` is suspended, and its controller has not confirmed yet that no pod of it is left"
    )
    assert (told.action.status.reason, told.wake_at) == (cancelled.status.reason, NOW + seconds(10))
    again = replace(cancelled, status=told.action.status)
    assert decide(snapshot(again), NOW).action == Look()
    assert decide(snapshot(again, live=live(UNCONFIRMED)), NOW) == Decision(wake_at=NOW + seconds(10))


def test_what_is_told_of_it_says_when_the_task_is_resolved_all_the_same() -> None:
    dated = stopped(CLAIM, age=10, deadline=NOW + seconds(1))
    action = decide(snapshot(dated, live=live(UNCONFIRMED)), NOW)
    assert isinstance(action.action, WriteStatus)
    [said] = action.action.status.waiting
    assert said.message.endswith("; the task is resolved without that at 2026-01-01T12:00:36Z")


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(snapshot(stopped(CLAIM, age=35, **PAST)), Look(), id="no cache is asked"),
        pytest.param(
            snapshot(stopped(CLAIM, age=34, **PAST), live=live(UNCONFIRMED)), None, id="it has its time"
        ),
        pytest.param(
            snapshot(stopped(CLAIM, age=35, **PAST), live=live(job())),
            SuspendJob(job()),
            id="it is suspended first, by an operator that was away",
        ),
        pytest.param(
            snapshot(stopped(CLAIM, age=35, **PAST), live=live(UNCONFIRMED)),
            DeleteJob(UNCONFIRMED),
            id="then it goes without the word of its controller",
        ),
        pytest.param(
            snapshot(stopped(CLAIM, age=35, **PAST), live=live(None)),
            CreateJob(is_placeholder=True),
            id="then its name is held against whoever is late",
        ),
        pytest.param(
            snapshot(stopped(CLAIM, age=35, **PAST), WAITING, live=live(UNCONFIRMED)),
            DeleteJob(UNCONFIRMED),
            id="where it has made a pod, it goes as well",
        ),
        pytest.param(
            snapshot(stopped(CLAIM, age=35, **PAST), WAITING, live=live(None)),
            DeletePod(WAITING),
            id="a pod without a node is to be given none after the verdict",
        ),
    ],
)
def test_past_its_deadline_a_task_does_not_wait_for_the_jobs_controller(
    situation: Snapshot, expected: object
) -> None:
    action = decide(situation, NOW).action
    if expected is None:
        assert isinstance(action, WriteStatus)
        assert action.status.state is CLAIM
    else:
        assert action == expected


@pytest.mark.parametrize(
    ("reason", "state", "code"),
    [
        (StopReason.DEADLINE_EXCEEDED, State.EXCEPTION, "DeadlineExceeded"),
        (StopReason.CANCELLED, State.CANCELLED, "TaskCancelled"),
    ],
)
@pytest.mark.parametrize(
    "left",
    [
        pytest.param({"live": live(job(suspend=True, is_placeholder=True))}, id="only the name is held"),
        pytest.param({"live": live(job(suspend=True, deleting=True))}, id="it goes with its pods, some time"),
    ],
)
def test_and_then_it_has_its_verdict(
    reason: StopReason, state: State, code: str, left: dict[str, Any]
) -> None:
    action = decide(snapshot(stopped(CLAIM, reason, age=35, **PAST), **left), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (state, code)


STUCK = pod(PodPhase.RUNNING, started(), active_deadline=1)
SILENT_SINCE = NOW - seconds(61)
TAINTED: dict[str, Any] = {"disruption": "DeletionByTaintManager", "disturbed_at": NOW - seconds(130)}
LATE = (
    "the pod `hello-1-abcde` has not ended within its grace period of 5 s; its node `node-1` has not said why"
)
SILENT = "the pod `hello-1-abcde` is to end, and its node `node-1` does not answer: it may still run"
ENDURED = "the node `node-1` does not answer: the pod `hello-1-abcde` may still run there"


def deleted(ago: float, grace: float = 5, **changes: Any) -> Pod:
    """A pod that somebody deleted so long ago, and with so long a grace period."""
    gone_by = NOW - seconds(ago - grace)
    told = {"deleting": True, "deleted_at": gone_by, "disturbed_at": NOW - seconds(ago)}
    return pod(PodPhase.RUNNING, started(), **(told | changes))


@pytest.mark.parametrize(
    ("of", "its_pod", "reason", "message"),
    [
        pytest.param(stopped(age=34), STUCK, None, None, id="a stop has the grace period and 30 s"),
        pytest.param(
            stopped(age=35), STUCK, "Stopping", LATE, id="then it has no effect, and nobody says why"
        ),
        pytest.param(
            stopped(age=5),
            replace(STUCK, silent_since=NOW),
            "NodeUnreachable",
            SILENT,
            id="its node is said to be silent",
        ),
        pytest.param(
            stopped(age=5),
            deleted(16, **TAINTED),
            "NodeUnreachable",
            SILENT,
            id="a taint drove it away, and it does not go",
        ),
        pytest.param(stopped(age=5), deleted(900), None, None, id="who is stopped late is given its time"),
        pytest.param(
            stopped(age=60, grace=seconds(120)),
            deleted(40, grace=0),
            None,
            None,
            id="force ends no grace period",
        ),
        pytest.param(
            task(RUN, wants={"grace": seconds(120)}),
            deleted(149, grace=0),
            None,
            None,
            id="nor that of a pod that nobody stopped",
        ),
        pytest.param(task(RUN), deleted(34), None, None, id="a deletion has the same time"),
        pytest.param(
            task(RUN), deleted(35), "Stopping", LATE, id="a deletion without effect, on whatever node"
        ),
        pytest.param(
            task(RUN), deleted(120, grace=100), None, None, id="a longer grace of the deletion counts"
        ),
        pytest.param(task(RUN), deleted(16, **TAINTED), "NodeUnreachable", SILENT, id="by a taint: 10 s"),
        pytest.param(
            task(RUN),
            deleted(1, silent_since=NOW),
            "NodeUnreachable",
            SILENT,
            id="its node was silent before",
        ),
        pytest.param(
            task(RUN), replace(RUNNING, silent_since=NOW), None, None, id="a node that may come back"
        ),
        pytest.param(
            task(RUN),
            replace(RUNNING, silent_since=SILENT_SINCE),
            "NodeUnreachable",
            ENDURED,
            id="a run that tolerates that its node is gone, and is never told to end",
        ),
        pytest.param(
            stopped(CLAIM, age=30),
            WAITING,
            "Stopping",
            "the pod `hello-1-abcde` is to go, and is still there: it has no node",
            id="a pod without a node that nobody takes back",
        ),
    ],
)
def test_a_pod_that_does_not_end_is_told_of_and_its_node_is_blamed_by_evidence_only(
    of: Task, its_pod: Pod, reason: str | None, message: str | None
) -> None:
    action = decide(snapshot(of, its_pod, live=live(job(suspend=True))), NOW).action
    if reason is None:
        assert action is None
        return
    assert isinstance(action, WriteStatus)
    [said] = action.status.waiting
    assert (said.reason, said.message[: len(str(message))]) == (reason, message)
    assert said.message.endswith("out-of-service") is (its_pod.node is not None)
    assert action.status.stop == of.status.stop
    assert (action.status.reason == said.reason) is (of.status.stop is None), "the stop keeps its words"


@pytest.mark.parametrize("of", [task(RUN), stopped(age=20)])
def test_when_its_node_answers_again_the_status_says_no_more(of: Task) -> None:
    silent = decide(snapshot(of, replace(STUCK, silent_since=SILENT_SINCE)), NOW).action
    assert isinstance(silent, WriteStatus)
    answers = decide(snapshot(replace(of, status=silent.status), STUCK), NOW).action
    assert isinstance(answers, WriteStatus)
    assert answers.status == of.status
    assert decide(snapshot(replace(of, status=answers.status), STUCK), NOW).action is None


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(snapshot(stopped(RUN), live=live(None)), id="nothing is left"),
        pytest.param(snapshot(stopped(CLAIM), live=live(SUSPENDED)), id="only a Job at rest is left"),
        pytest.param(
            snapshot(stopped(CLAIM), live=live(job(suspend=True, is_placeholder=True))),
            id="only what holds the name is left",
        ),
        pytest.param(
            snapshot(stopped(CLAIM), live=live(None), refusal=Refusal(False, "no", NOW)),
            id="no Job of it would be taken, however late",
        ),
        pytest.param(snapshot(stopped(CLAIM), live=live(job(failed=True))), id="the Job is over"),
        pytest.param(snapshot(stopped(CLAIM), live=live(job(owner_uid="x"))), id="the Job is another's"),
        pytest.param(
            snapshot(stopped(), pod(PodPhase.FAILED, ended(143), reason="DeadlineExceeded")),
            id="the pod has ended",
        ),
    ],
)
def test_and_the_verdict_comes_last(situation: Snapshot) -> None:
    action = decide(replace(situation, log=Log("")), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.stop) == (State.CANCELLED, None)


ONCE: dict[str, Any] = {"retry": retry(infrastructure_limit=0)}
TAKEN = pod(PodPhase.FAILED, ended(143), deleting=True, disturbed_at=ENDED - seconds(1))
TRAPPED = replace(TAKEN, containers=(ended(1),))
SUCCESS = replace(TAKEN, phase=PodPhase.SUCCEEDED, containers=(ended(0),))
FAILURE = replace(TAKEN, containers=(ended(3),), disturbed_at=ENDED + seconds(1))
NEVER_PLACED = pod(PodPhase.FAILED, node=None, deleting=True)
SCALED_TO_NONE = job(is_idle=True)


@pytest.mark.parametrize("paused", [BY_HAND, job(suspend=True), SCALED_TO_NONE])
@pytest.mark.parametrize("its_pod", [TAKEN, TRAPPED])
@pytest.mark.parametrize("of", [task(RUN, wants=ONCE), task(CLAIM, wants=ONCE)])
def test_a_job_that_somebody_paused_under_its_run_goes_before_the_verdict(
    of: Task, its_pod: Pod, paused: Job
) -> None:
    """Resumed later, it would run the code again, after the verdict."""
    assert decide(snapshot(of, its_pod), NOW).action == Look(), "no cache tells that it is paused"
    recorded = decide(snapshot(of, its_pod, live=live(paused)), NOW).action
    assert isinstance(recorded, WriteStatus)
    assert recorded.status.stop == Stop(StopReason.LOST, NOW), "on record, before its Job goes"
    lost = replace(of, status=recorded.status)
    assert decide(snapshot(lost, its_pod), NOW).action == Look()
    assert decide(snapshot(lost, its_pod, live=live(paused)), NOW).action == DeleteJob(paused)
    for left in (None, replace(paused, deleting=True)):
        last = decide(snapshot(lost, its_pod, live=live(left), log=Log("")), NOW).action
        assert isinstance(last, WriteStatus)
        assert (last.status.state, last.status.reason) == (State.EXCEPTION, "WorkerLost")
        assert last.status.message == "the pod was deleted before its run had ended"


@pytest.mark.parametrize(
    ("its_pod", "state"),
    [
        pytest.param(SUCCESS, State.COMPLETED, id="a run that did its work on the way out"),
        pytest.param(FAILURE, State.FAILED, id="one that had failed before that"),
        pytest.param(
            replace(TAKEN, disruption="EvictionByEvictionAPI"), State.PENDING, id="one that was drained"
        ),
        pytest.param(NEVER_PLACED, State.DELAYED, id="one that had no node"),
    ],
)
def test_and_before_any_other_end_of_the_run(its_pod: Pod, state: State) -> None:
    assert decide(snapshot(task(CLAIM), its_pod), NOW).action == Look()
    assert end_of(task(CLAIM), its_pod, BY_HAND).state is state


def end_of(of: Task, its_pod: Pod, unfinished: Job) -> Status:
    """What a run comes to, whose Job goes first; and before that it is on record that there was one."""
    action = decide(snapshot(of, its_pod, live=live(unfinished)), NOW).action
    if its_pod.has_started:
        assert isinstance(action, WriteStatus)
        assert action.status.stop == Stop(StopReason.LOST, NOW)
        of = replace(of, status=action.status)
        action = decide(snapshot(of, its_pod, live=live(unfinished)), NOW).action
    assert action == DeleteJob(unfinished)
    last = decide(snapshot(of, its_pod, live=live(None), log=Log("")), NOW).action
    assert isinstance(last, WriteStatus)
    return last.status


@pytest.mark.parametrize(
    ("its_pod", "state"),
    [
        pytest.param(SUCCESS, State.COMPLETED, id="a run that did its work on the way out"),
        pytest.param(FAILURE, State.FAILED, id="one that had failed before that"),
    ],
)
def test_a_job_that_was_resumed_while_its_pod_ended_goes_before_the_verdict(
    its_pod: Pod, state: State
) -> None:
    """It let the pod go uncounted when it was suspended, and makes another as soon as that one is gone."""
    assert end_of(task(RUN), replace(its_pod, is_tracked=False), job()).state is state


def test_and_before_the_loss_of_a_run_that_is_not_repeated() -> None:
    forgotten = replace(TAKEN, is_tracked=False)
    recorded = decide(snapshot(task(RUN, wants=ONCE), forgotten, live=live(job())), NOW).action
    assert isinstance(recorded, WriteStatus)
    assert recorded.status.stop == Stop(StopReason.LOST, NOW)
    lost = replace(task(RUN, wants=ONCE), status=recorded.status)
    assert decide(snapshot(lost, forgotten, live=live(job())), NOW).action == DeleteJob(job())


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(job(), id="at work: it counts its pod, and makes no other"),
        pytest.param(job(has_counted=True), id="one that has counted its pod, and is about to be over"),
        pytest.param(job(failed=True, suspend=True), id="over, whatever is asked of it"),
        pytest.param(job(suspend=True, owner_uid="another"), id="somebody else's"),
    ],
)
def test_any_other_job_is_left_to_itself(found: Job) -> None:
    its_pod = replace(TAKEN, is_tracked=not found.has_counted)
    action = decide(snapshot(task(RUN, wants=ONCE), its_pod, live=live(found), log=Log("")), NOW).action
    assert isinstance(action, WriteStatus)
    assert action.status.state is State.EXCEPTION


def test_past_its_deadline_a_task_is_resolved_although_its_node_does_not_answer() -> None:
    of = stopped(RUN, StopReason.DEADLINE_EXCEEDED, age=35, deadline=NOW - seconds(35))
    stuck = pod(PodPhase.RUNNING, started(), active_deadline=1)
    assert decide(snapshot(of, stuck), NOW).action == Look(), "no cache is asked"
    unfinished = decide(snapshot(of, stuck, live=live(job())), NOW).action
    assert unfinished == DeleteJob(job()), "it could make another pod, after the verdict"
    action = decide(snapshot(of, stuck, live=live(None)), NOW).action
    assert isinstance(action, WriteStatus)
    assert (action.status.state, action.status.reason) == (State.EXCEPTION, "DeadlineExceeded")
    assert [(run.pod, run.started_at) for run in action.status.runs] == [("hello-1-abcde", STARTED)]


def test_an_unreachable_pod_is_lost_only_if_asked_for() -> None:
    gone_node: dict[str, Any] = {
        "deleting": True,
        "deleted_at": NOW - seconds(70),
        "disruption": "DeletionByTaintManager",
    }
    unreachable = pod(PodPhase.RUNNING, started(), **gone_node)
    told = decide(snapshot(task(RUN), unreachable), NOW).action
    assert isinstance(told, WriteStatus)
    assert told.status.reason == Reason.NODE_UNREACHABLE
    assert "node `node-1` does not answer" in str(told.status.message)
    impatient = task(RUN, wants={"unreachable_timeout": seconds(60)})
    assert decide(snapshot(impatient, unreachable), NOW) == Decision(Look())
    recorded = decide(snapshot(impatient, unreachable, live=live(job())), NOW).action
    assert isinstance(recorded, WriteStatus)
    assert recorded.status.stop == Stop(StopReason.LOST, NOW)
    lost = stopped(RUN, StopReason.LOST, unreachable_timeout=seconds(60))
    without_job = decide(snapshot(lost, unreachable, live=live(job())), NOW)
    assert without_job == Decision(DeleteJob(job())), "it holds the pod even against force"
    forced = decide(snapshot(lost, unreachable, live=live(None)), NOW)
    assert forced.action == DeletePod(unreachable, force=True)
    patient = task(RUN, wants={"unreachable_timeout": seconds(61)})
    assert decide(snapshot(patient, unreachable), NOW).wake_at == NOW + seconds(1)


def test_a_taint_on_a_node_that_is_well_is_no_silence() -> None:
    """Any taint may drive a pod away; its kubelet gets the time to end it."""
    driven = pod(
        PodPhase.RUNNING,
        started(),
        deleting=True,
        deleted_at=NOW - seconds(9),
        disruption="DeletionByTaintManager",
    )
    impatient = task(RUN, wants={"unreachable_timeout": seconds(1)})
    assert decide(snapshot(impatient, driven), NOW) == Decision(wake_at=NOW + seconds(1))


def test_after_a_rerun_an_unreachable_pod_is_lost_too() -> None:
    lost = pod(
        PodPhase.RUNNING,
        started(),
        deleting=True,
        deleted_at=NOW - seconds(60),
        disruption="DeletionByTaintManager",
    )
    told = decide(snapshot(task(attempt=1), lost), NOW).action
    assert isinstance(told, WriteStatus)
    assert told.status.reason == Reason.EARLIER_POD
    assert "its node `node-1` does not answer" in str(told.status.message)
    impatient = task(attempt=1, wants={"unreachable_timeout": seconds(50)})
    assert decide(snapshot(impatient, lost), NOW).action == Look()
    assert decide(snapshot(impatient, lost, live=live(None)), NOW).action == DeletePod(lost, force=True)


def test_a_claim_that_ends_without_a_job_is_fenced_first() -> None:
    """A create of it may still be on its way: it is to find its name taken."""
    found = snapshot(stopped(CLAIM), live=live(None))
    assert decide(found, NOW).action == CreateJob(is_placeholder=True)


def test_a_claim_is_timed_from_when_it_was_made() -> None:
    decision = decide(snapshot(task(CLAIM), pod(node=None), job=job()), NOW)
    assert decision == Decision(wake_at=CLAIMED + seconds(901))


@pytest.mark.parametrize(
    ("its_pod", "since", "is_waited_for"),
    [
        pytest.param(pod(PodPhase.FAILED, started()), 7, True, id="said to have failed, and not yet how"),
        pytest.param(pod(PodPhase.FAILED, started()), 8, False, id="for 3 s beyond its grace period"),
        pytest.param(pod(PodPhase.FAILED, started(), gone=True), 1, False, id="gone: nothing will be added"),
        pytest.param(pod(PodPhase.FAILED, ended(137)), 1, False, id="told how"),
        pytest.param(pod(PodPhase.FAILED, Container("main", exit=NO_END)), 1, False, id="never started"),
        pytest.param(pod(PodPhase.FAILED, started()), -3600, False, id="by a clock that goes wrong"),
    ],
)
def test_how_a_stopped_run_ended_may_be_told_a_moment_after_that_it_did(
    its_pod: Pod, since: float, is_waited_for: bool
) -> None:
    of = task(RUN, stop=Stop(StopReason.TIMEOUT, NOW - seconds(since)), wants={"logs": LogPolicy.NONE})
    decision = decide(snapshot(of, its_pod), NOW)
    if is_waited_for:
        assert decision == Decision(wake_at=NOW - seconds(since) + seconds(8))
    else:
        assert isinstance(decision.action, WriteStatus)
        assert decision.action.status.state is State.FAILED


@pytest.mark.parametrize(
    ("its_pod", "is_waited_for"),
    [
        pytest.param(pod(PodPhase.FAILED, ended(143)), True, id="SIGTERM, by nobody so far"),
        pytest.param(pod(PodPhase.FAILED, ended(137)), True, id="SIGKILL, by nobody so far"),
        pytest.param(pod(PodPhase.FAILED, ended(1)), False, id="its own exit code"),
        pytest.param(pod(PodPhase.FAILED, ended(137, reason="OOMKilled")), False, id="out of memory"),
        pytest.param(pod(PodPhase.FAILED, ended(143), reason="Evicted"), False, id="evicted, as is told"),
        pytest.param(pod(PodPhase.FAILED, ended(143), deleting=True), False, id="deleted, as is told"),
        pytest.param(
            pod(PodPhase.FAILED, init_containers=(ended(143, "init"),)),
            True,
            id="an init container, by nobody so far",
        ),
        pytest.param(
            pod(PodPhase.FAILED, init_containers=(ended(1, "init"),)), False, id="an init container failed"
        ),
    ],
)
def test_who_ended_a_run_by_a_signal_may_be_told_a_moment_later(its_pod: Pod, is_waited_for: bool) -> None:
    """A kubelet short of memory was seen to say first that the pod has failed, and then that it had evicted it."""
    of = task(RUN, wants={"logs": LogPolicy.NONE, "retry": retry(infrastructure_limit=0)})
    decision = decide(snapshot(of, its_pod), NOW)
    assert (decision.action is None) is is_waited_for
    if is_waited_for:
        assert decision.wake_at == ENDED + seconds(4)
        assert decide(snapshot(of, its_pod), ENDED + seconds(4)).action is not None
