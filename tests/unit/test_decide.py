"""The ladder, rung by rung."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from taskyard.core.actions import (
    CreateJob,
    Decision,
    DeletePod,
    DeleteTask,
    Look,
    ReadLog,
    SuspendJob,
    WriteStatus,
)
from taskyard.core.decide import decide
from taskyard.core.launch import next_look
from taskyard.core.manifest import job_name
from taskyard.core.model import (
    Error,
    Hindrance,
    Log,
    Pod,
    Run,
    Snapshot,
    Status,
    Stop,
    Unregistered,
    Wait,
)
from taskyard.core.refusals import Refusal
from taskyard.core.text import cut
from taskyard.core.words import (
    RUNS_KEPT,
    TERMINAL_STATES,
    DeadLetterPolicy,
    LogPolicy,
    PodPhase,
    Reason,
    State,
    StopReason,
)
from tests.unit.build import (
    CLAIMED,
    NOW,
    REF,
    STARTED,
    SUBMITTED,
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

PENDING, CLAIM, RUN = State.PENDING, State.CLAIMED, State.RUNNING
RECORDED = task(RUN, runs=(Run(0, 1, RUN, pod="hello-1-abcde"),))
OVER_QUOTA = live(job(), 'pods "a" is forbidden: exceeded quota: q')
NO_VOLUME = live(job(), 'MountVolume.SetUp failed for volume "s" : secret "s" not found')
DENIED = live(job(), 'pods "a" is forbidden: violates PodSecurity')
NO_NODE = Hindrance(Reason.UNSCHEDULABLE, "0/2 nodes")
BACK_OFF = Hindrance(Reason.IMAGE_PULL, "Back-off pulling image")
REFUSED_AT_LENGTH = Refusal(malformed=False, message="x" * 9000, at=NOW)
NO_QUEUE = Wait(Reason.QUEUE_NOT_FOUND, "there is no queue `x`")
FINAL = {"retry": retry(infrastructure_limit=0)}
PATIENT = {"schedule_timeout": seconds(9000)}
UNKNOWN = Unregistered("there is no TaskDefinition `report`")
REFUSED_NOW = Refusal(malformed=False, message="exceeded quota", at=NOW)


def verdict(situation: Snapshot) -> Status:
    """What is written when the log, where one is asked for, has been read."""
    decision = decide(situation, NOW)
    if isinstance(decision.action, ReadLog):
        decision = decide(replace(situation, log=Log("the end")), NOW)
    return written(decision)


def written(decision: Decision) -> Status:
    assert isinstance(decision.action, WriteStatus), decision
    return decision.action.status


@pytest.mark.parametrize(
    ("situation", "action"),
    [
        pytest.param(
            snapshot(task(PENDING, attempt=1)),
            Look(),
            id="a task that was claimed before is not claimed again without a live look",
        ),
        pytest.param(snapshot(task(CLAIM)), CreateJob(), id="a claimed task without a Job gets one"),
        pytest.param(snapshot(task(CLAIM, deleting=True)), None, id="a task being deleted is not launched"),
        pytest.param(
            snapshot(task(CLAIM), pod(scheduled_at=NOW)),
            None,
            id="a claimed task whose pod has not started waits",
        ),
        pytest.param(
            snapshot(task(CLAIM), pod(scheduled_at=NOW - seconds(10))),
            Look(),
            id="what keeps a container from its start is looked for",
        ),
        pytest.param(
            snapshot(task(CLAIM), pod(scheduled_at=NOW - seconds(10)), looked_at=NOW),
            None,
            id="what keeps a container from its start is not looked for all the time",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, reason="ContainerWaiting", message="no volume"),
                pod(scheduled_at=NOW - seconds(19)),
                looked_at=NOW - seconds(3),
            ),
            None,
            id="what keeps a container from its start stands until somebody looks again",
        ),
        pytest.param(
            snapshot(task(CLAIM), pod(init_containers=(started("init"),), scheduled_at=NOW - seconds(99))),
            None,
            id="an init container may take its time",
        ),
        pytest.param(
            snapshot(task(CLAIM), pod(PodPhase.RUNNING, started("sidecar"))),
            None,
            id="another container's start is not the task's",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, claimed_at=NOW - seconds(20)), refusal=replace(REFUSED_NOW, at=NOW - seconds(10))
            ),
            CreateJob(),
            id="a refused Job is tried again after a while",
        ),
        pytest.param(
            snapshot(task(CLAIM), job=job()), Look(), id="a Job that makes no pod for 5 s is looked at"
        ),
        pytest.param(
            snapshot(task(CLAIM, claimed_at=NOW), job=job(failed=True)),
            Look(),
            id="a Job that is over without a known pod is looked at at once",
        ),
        pytest.param(
            snapshot(task(RUN)), Look(), id="a running task without a pod is looked at, not given up"
        ),
        pytest.param(
            snapshot(task(CLAIM), pod(gone=True)), Look(), id="a pod that is said to be gone is looked for"
        ),
        pytest.param(
            snapshot(task(RUN), pod(PodPhase.RUNNING, started())), None, id="a running task runs on"
        ),
        pytest.param(
            snapshot(task(RUN), pod(PodPhase.RUNNING, ended(0))),
            None,
            id="an ended main container is no verdict before the pod has ended",
        ),
        pytest.param(
            snapshot(task(RUN), vanished=True), Look(), id="a task that is said to be deleted is looked for"
        ),
        pytest.param(
            snapshot(task(CLAIM, attempt=2), pod(attempt=1)), Look(), id="a pod of another attempt is doubted"
        ),
        pytest.param(
            snapshot(task(CLAIM, attempt=2), pod(attempt=1), live=live()),
            DeletePod(pod(attempt=1)),
            id="a pod of another attempt is stopped",
        ),
        pytest.param(
            snapshot(RECORDED, pod(PodPhase.RUNNING, name="second"), live=live()),
            DeletePod(pod(PodPhase.RUNNING, name="second")),
            id="a second pod that the Job made for a started run is stopped",
        ),
        pytest.param(
            snapshot(
                replace(RECORDED, status=replace(RECORDED.status, stop=Stop(StopReason.CANCELLED, NOW))),
                pod(PodPhase.RUNNING, name="second", deleting=True),
            ),
            None,
            id="a run is not over while a second pod of it lives",
        ),
        pytest.param(
            snapshot(RECORDED, pod(PodPhase.FAILED, ended(1), name="second")),
            Look(),
            id="a second pod's end is not the run's",
        ),
        pytest.param(
            snapshot(task(State.COMPLETED), pod(PodPhase.RUNNING), live=live()),
            DeletePod(pod(PodPhase.RUNNING)),
            id="a pod of a resolved task is stopped",
        ),
        pytest.param(
            snapshot(task(PENDING, attempt=1), pod(PodPhase.RUNNING), live=live()),
            DeletePod(pod(PodPhase.RUNNING)),
            id="a pod of an unclaimed task is stopped",
        ),
        pytest.param(
            snapshot(task(State.COMPLETED), pod(PodPhase.RUNNING, deleting=True)),
            None,
            id="a pod is stopped once",
        ),
        pytest.param(
            snapshot(task(CLAIM), job=job(owner_uid="someone"), live=live(None)),
            CreateJob(),
            id="when the foreign Job is gone the task gets its own",
        ),
        pytest.param(
            snapshot(task(RUN), pod(PodPhase.RUNNING, started(), gone=True)),
            Look(),
            id="a Job whose pod is gone is looked for",
        ),
        pytest.param(
            snapshot(task(RUN, stop=Stop(StopReason.LOST, NOW)), live=live(job())),
            SuspendJob(job()),
            id="a Job whose pod is gone is suspended before the run is given up: it could make another",
        ),
        pytest.param(
            snapshot(task(PENDING, attempt=1, reason="RunLost"), live=live(job())),
            SuspendJob(job()),
            id="a Job whose pod was taken from it makes no other beside the next run",
        ),
        pytest.param(
            snapshot(task(State.COMPLETED, completed_at=NOW - seconds(86400))),
            DeleteTask(),
            id="a resolved task is deleted when its time to live is over",
        ),
        pytest.param(
            snapshot(task(State.FAILED, wants={"ttl": seconds(0)}, completed_at=NOW)),
            DeleteTask(),
            id="a time to live of 0 is at once",
        ),
        pytest.param(
            snapshot(task(State.FAILED, wants={"ttl": seconds(0)}, deleting=True)),
            None,
            id="a task that is being deleted is not deleted again",
        ),
    ],
)
def test_action(situation: Snapshot, action: object) -> None:
    assert decide(situation, NOW).action == action


@pytest.mark.parametrize(
    ("situation", "state", "reason"),
    [
        pytest.param(snapshot(task(PENDING)), CLAIM, None, id="an admitted task is claimed"),
        pytest.param(
            snapshot(task(CLAIM), pod(PodPhase.RUNNING, started())), RUN, None, id="a started container runs"
        ),
        pytest.param(
            snapshot(task(RUN), pod(PodPhase.SUCCEEDED, ended(0))),
            State.COMPLETED,
            None,
            id="a succeeded pod completes the task",
        ),
        pytest.param(
            snapshot(task(CLAIM), pod(PodPhase.SUCCEEDED, ended(0))),
            State.COMPLETED,
            None,
            id="a run that was over before it was seen to start needs no Running",
        ),
        pytest.param(
            snapshot(task(RUN), pod(PodPhase.FAILED, ended(3))),
            State.FAILED,
            "ExitCode",
            id="an exit code other than 0 fails it",
        ),
        pytest.param(
            snapshot(task(RUN), pod(PodPhase.FAILED, ended(3), gone=True)),
            State.FAILED,
            "ExitCode",
            id="a pod that ended and is gone has said how it ended",
        ),
        pytest.param(
            snapshot(task(RUN), live=live(job(succeeded=True))),
            State.COMPLETED,
            "ResultUnknown",
            id="pod gone, Job Complete: completed, result unknown",
        ),
        pytest.param(
            snapshot(task(RUN, wants=FINAL), live=live(job(failed=True))),
            State.EXCEPTION,
            "WorkerLost",
            id="pod gone, Job failed: lost",
        ),
        pytest.param(
            snapshot(task(RUN, wants=FINAL), live=live(job(deleting=True))),
            State.EXCEPTION,
            "WorkerLost",
            id="pod gone, Job going: lost",
        ),
        pytest.param(
            snapshot(task(RUN, wants=FINAL), live=live(None)),
            State.EXCEPTION,
            "WorkerLost",
            id="pod gone, Job gone: lost",
        ),
        pytest.param(
            snapshot(task(RUN), live=live(None)), PENDING, "RunLost", id="a loss is made good by another run"
        ),
        pytest.param(
            snapshot(task(CLAIM, wants=FINAL), job=job(), live=live(None)),
            State.EXCEPTION,
            "WorkerLost",
            id="a Job that was deleted before its pod was seen: lost",
        ),
        pytest.param(
            snapshot(task(CLAIM, wants=FINAL), job=job(failed=True), live=live(job(failed=True))),
            State.EXCEPTION,
            "WorkerLost",
            id="a Job that failed while nobody looked, its pod gone: lost",
        ),
        pytest.param(
            snapshot(task(CLAIM), refusal=replace(REFUSED_NOW, malformed=True)),
            State.EXCEPTION,
            "MalformedPayload",
            id="a Job that can never be accepted ends the task",
        ),
        pytest.param(
            snapshot(task(CLAIM), refusal=REFUSED_NOW),
            CLAIM,
            "JobRefused",
            id="a Job refused for now is explained",
        ),
        pytest.param(
            snapshot(task(CLAIM), job=job(owner_uid="someone")),
            CLAIM,
            "JobNameTaken",
            id="a foreign Job of that name is shown",
        ),
        pytest.param(
            snapshot(task(CLAIM), job=job(attempt=9)),
            CLAIM,
            "JobNameTaken",
            id="a Job of another attempt is foreign",
        ),
        pytest.param(
            snapshot(task(State.COMPLETED, generation=2)),
            State.COMPLETED,
            None,
            id="an edit of a resolved task is noted",
        ),
        pytest.param(
            snapshot(
                task(
                    PENDING,
                    generation=2,
                    enqueued_at=SUBMITTED,
                    reason=NO_QUEUE.reason,
                    message=NO_QUEUE.message,
                ),
                holds=(NO_QUEUE,),
            ),
            PENDING,
            "QueueNotFound",
            id="an edit of a waiting task is noted",
        ),
        pytest.param(
            snapshot(task(PENDING), holds=(NO_QUEUE,)), PENDING, "QueueNotFound", id="held by its queue"
        ),
        pytest.param(
            snapshot(task(PENDING, deleting=True)),
            State.UNSCHEDULED,
            "BeingDeleted",
            id="a task being deleted is never claimed",
        ),
        pytest.param(
            snapshot(task(PENDING, wants={"suspend": True})),
            State.UNSCHEDULED,
            "Suspended",
            id="a suspended task is not scheduled",
        ),
        pytest.param(
            snapshot(task(PENDING, wants={"run_at": NOW + seconds(1)})),
            State.DELAYED,
            "NotBefore",
            id="a task whose time is to come is delayed",
        ),
        pytest.param(
            snapshot(task(State.DELAYED, wants={"run_at": NOW})), CLAIM, None, id="its time has come"
        ),
        pytest.param(
            snapshot(task(State.DELAYED, wants={"start_delay": seconds(600)})),
            CLAIM,
            None,
            id="a relative time counts from the submission",
        ),
        pytest.param(
            snapshot(task(State.DELAYED, rerun_at=NOW, wants={"start_delay": seconds(600)})),
            State.DELAYED,
            "NotBefore",
            id="and after a rerun from that",
        ),
        pytest.param(snapshot(task(State.UNSCHEDULED)), CLAIM, None, id="a task that is resumed is claimed"),
        pytest.param(
            snapshot(task(State.UNSCHEDULED, wants={"run_at": NOW + seconds(1)})),
            State.DELAYED,
            "NotBefore",
            id="a task that is resumed before its time is delayed",
        ),
        pytest.param(
            snapshot(task(State.UNSCHEDULED, next_retry_at=NOW + seconds(1))),
            State.DELAYED,
            "RetryDelay",
            id="a retry that is resumed before its time is delayed",
        ),
        pytest.param(
            snapshot(task(PENDING, attempt=1), pod(PodPhase.RUNNING, deleting=True)),
            PENDING,
            "EarlierPod",
            id="a task is not claimed while an earlier pod of it is being stopped",
        ),
        pytest.param(
            snapshot(task(PENDING, wants={"cancel": True, "suspend": True, "good_until": NOW})),
            State.CANCELLED,
            "TaskCancelled",
            id="a cancel comes before all else",
        ),
        pytest.param(
            snapshot(task(PENDING, wants={"deadline": NOW, "good_until": NOW, "suspend": True})),
            State.EXCEPTION,
            "DeadlineExceeded",
            id="past its deadline nothing else counts",
        ),
        pytest.param(
            snapshot(task(State.UNSCHEDULED, wants={"good_for": seconds(600), "suspend": True})),
            State.EXPIRED,
            "TaskExpired",
            id="a suspended task expires as well",
        ),
        pytest.param(
            snapshot(
                task(PENDING, wants={"definition": REF}, enqueued_at=NOW - seconds(59)), definition=UNKNOWN
            ),
            PENDING,
            "DefinitionNotFound",
            id="a definition may arrive later",
        ),
        pytest.param(
            snapshot(
                task(
                    PENDING,
                    wants={"definition": REF},
                    reason=Reason.DEFINITION_NOT_FOUND,
                    enqueued_at=NOW - seconds(60),
                ),
                definition=UNKNOWN,
                asked=True,
            ),
            State.DROPPED,
            "DefinitionNotFound",
            id="but not much later",
        ),
        pytest.param(
            snapshot(task(State.FAILED, wants={"rerun": 1})), PENDING, None, id="a rerun begins anew"
        ),
        pytest.param(
            snapshot(task(CLAIM), pod(hindrance=NO_NODE), job=job()),
            CLAIM,
            "Unschedulable",
            id="a pod that finds no node is told of",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, reason="Unschedulable", message="0/2 nodes"), pod(scheduled_at=NOW), job=job()
            ),
            CLAIM,
            None,
            id="what no longer holds is no longer told",
        ),
        pytest.param(
            snapshot(task(CLAIM, claimed_at=NOW - seconds(5)), job=job(), looked_at=NOW, live=live(job())),
            CLAIM,
            "NoPod",
            id="a Job that makes no pod is told of",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, claimed_at=NOW - seconds(5)),
                job=job(suspend=True),
                looked_at=NOW,
                live=live(job(suspend=True)),
            ),
            CLAIM,
            "JobSuspended",
            id="a Job that somebody has suspended is told of",
        ),
        pytest.param(
            snapshot(task(CLAIM, claimed_at=NOW - seconds(5)), job=job(), looked_at=NOW, live=OVER_QUOTA),
            CLAIM,
            "QuotaExceeded",
            id="a pod that a quota keeps from being made is told of",
        ),
        pytest.param(
            snapshot(
                task(CLAIM), pod(scheduled_at=NOW - seconds(10)), job=job(), looked_at=NOW, live=NO_VOLUME
            ),
            CLAIM,
            "ContainerWaiting",
            id="a volume that does not come is told of",
        ),
        pytest.param(
            snapshot(task(CLAIM, claimed_at=NOW - seconds(5)), job=job(), looked_at=NOW, live=DENIED),
            CLAIM,
            "PodDenied",
            id="a pod that is not admitted is told of",
        ),
    ],
)
def test_written_state(situation: Snapshot, state: State, reason: str | None) -> None:
    status = verdict(situation)
    assert (status.state, status.reason) == (state, reason)
    assert status.observed_generation == situation.task.generation


@pytest.mark.parametrize(
    ("situation", "wake_at"),
    [
        pytest.param(
            snapshot(task(CLAIM, claimed_at=NOW), job=job()),
            NOW + seconds(5),
            id="a launch is looked after in 5 s",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, claimed_at=NOW, reason="JobRefused", message="exceeded quota"),
                refusal=REFUSED_NOW,
            ),
            NOW + seconds(10),
            id="a refusal is remembered until it is tried again, and told once",
        ),
        pytest.param(
            snapshot(task(CLAIM, claimed_at=NOW - seconds(5)), job=job(), looked_at=NOW),
            NOW + seconds(5),
            id="after a look that shows a Job at work, the next one waits longer",
        ),
        pytest.param(
            snapshot(task(RUN), pod(PodPhase.RUNNING, started())), None, id="a run is waited for, not asked"
        ),
        pytest.param(
            snapshot(task(RUN, wants={"timeout": seconds(299)}), pod(PodPhase.RUNNING, started())),
            NOW + seconds(60),
            id="a run is looked after when its timeout strikes",
        ),
        pytest.param(
            snapshot(
                task(RUN, wants={"timeout": seconds(300), "deadline": NOW + seconds(9)}),
                pod(PodPhase.RUNNING, started()),
            ),
            NOW + seconds(9),
            id="or its deadline, whichever comes first",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, reason="Unschedulable", message="0/2 nodes"),
                pod(hindrance=NO_NODE, node=None),
                job=job(),
            ),
            CLAIMED + seconds(901),
            id="what holds a pod is told once, and not for ever",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, reason="ImagePull", message="not found"),
                pod(hindrance=BACK_OFF, scheduled_at=NOW),
                job=job(),
            ),
            NOW + seconds(601),
            id="an image that cannot be pulled is told of once, by its first message",
        ),
        pytest.param(
            snapshot(
                task(
                    State.UNSCHEDULED,
                    reason="Suspended",
                    message="`suspend` is set",
                    waiting=(Wait(Reason.SUSPENDED, "`suspend` is set"),),
                    wants={"suspend": True},
                )
            ),
            None,
            id="a suspended task waits for whoever suspended it",
        ),
        pytest.param(
            snapshot(
                task(
                    State.DELAYED,
                    next_retry_at=NOW + seconds(7),
                    reason="RetryDelay",
                    message="retry 1 of 2",
                    waiting=(Wait(Reason.RETRY_DELAY, "retry 1 of 2"),),
                    wants={"good_until": NOW + seconds(9)},
                )
            ),
            NOW + seconds(7),
            id="a retry waits for its time, and has said so",
        ),
        pytest.param(
            snapshot(task(State.COMPLETED)), NOW + seconds(86340), id="a resolved task waits for its deletion"
        ),
        pytest.param(
            snapshot(task(State.FAILED, wants={"dead_letter": DeadLetterPolicy.SAVE})),
            None,
            id="a dead letter is kept",
        ),
        pytest.param(
            snapshot(task(State.COMPLETED, wants={"dead_letter": DeadLetterPolicy.SAVE})),
            NOW + seconds(86340),
            id="a success is no dead letter",
        ),
        pytest.param(
            snapshot(
                task(CLAIM, claimed_at=NOW, reason="JobRefused", message=cut("x" * 9000)),
                refusal=REFUSED_AT_LENGTH,
            ),
            NOW + seconds(10),
            id="a message that is too long is not written again and again",
        ),
    ],
)
def test_wake_up(situation: Snapshot, wake_at: datetime | None) -> None:
    assert decide(situation, NOW) == Decision(None, wake_at)


def test_a_loss_is_on_record_before_its_job_goes() -> None:
    gone = pod(PodPhase.RUNNING, started(), gone=True)
    status = written(decide(snapshot(task(RUN), gone, live=live(job())), NOW))
    assert (status.state, status.stop) == (RUN, Stop(StopReason.LOST, NOW))


@pytest.mark.parametrize(("age", "pause"), [(0, 10), (60, 60), (1000, 300)])
def test_a_refused_job_is_asked_for_less_and_less_often(age: float, pause: float) -> None:
    of = task(
        CLAIM, claimed_at=NOW - seconds(age), reason="JobRefused", message="in other words", wants=PATIENT
    )
    assert decide(snapshot(of, refusal=REFUSED_NOW), NOW) == Decision(None, NOW + seconds(pause))


def test_the_clocks_go_on_while_a_stray_is_being_stopped() -> None:
    stuck = pod(PodPhase.RUNNING, deleting=True)
    of = task(CLAIM, attempt=2, wants={"deadline": NOW + seconds(9)})
    told = decide(snapshot(of, stuck), NOW)
    assert (written(told).reason, told.wake_at) == (Reason.EARLIER_POD, NOW + seconds(9))
    assert f"`{stuck.name}`, has not ended yet" in str(written(told).message)
    late = task(CLAIM, attempt=2, wants={"deadline": NOW})
    assert written(decide(snapshot(late, stuck), NOW)).stop == Stop(StopReason.DEADLINE_EXCEEDED, NOW)
    given_up = task(CLAIM, attempt=2, stop=Stop(StopReason.DEADLINE_EXCEEDED, NOW), wants={"deadline": NOW})
    assert decide(snapshot(given_up, stuck), NOW + seconds(35)).action == Look()
    fenced = decide(snapshot(given_up, stuck, live=live()), NOW + seconds(35)).action
    assert fenced == CreateJob(is_placeholder=True), "nothing is to start after the verdict"
    held = live(job(attempt=2, suspend=True, is_placeholder=True))
    status = written(decide(snapshot(given_up, stuck, live=held), NOW + seconds(35)))
    assert (status.state, status.reason) == (State.EXCEPTION, "DeadlineExceeded")


def test_looks_come_after_5_10_20_40_seconds_and_at_least_every_five_minutes() -> None:
    looks, last = [], None
    for _ in range(9):
        last = next_look(CLAIMED, last)
        looks.append((last - CLAIMED).total_seconds())
    assert looks == [5, 10, 20, 40, 80, 160, 320, 620, 920]


def test_a_claim_moves_the_attempt_and_says_who_and_when() -> None:
    status = written(
        decide(snapshot(task(PENDING, attempt=4, reason="X", message="y"), claimer="me", live=live()), NOW)
    )
    assert (status.attempt, status.claimed_by, status.claimed_at) == (5, "me", NOW)
    assert (status.run, status.run_count, status.runs) == (0, 0, ())
    assert (status.reason, status.message) == (None, None)


def test_a_start_is_recorded_with_its_place() -> None:
    of = task(CLAIM)
    status = written(decide(snapshot(of, pod(PodPhase.RUNNING, started())), NOW))
    assert status.started_at == STARTED
    assert status.run_count == 1
    assert status.runs == (
        Run(0, 1, RUN, job=job_name(of), pod="hello-1-abcde", node="node-1", started_at=STARTED),
    )


def test_a_verdict_completes_the_record_of_its_run() -> None:
    of = task(
        RUN,
        run_count=1,
        started_at=STARTED,
        runs=(Run(0, 1, RUN, pod="hello-1-abcde", node="n", started_at=STARTED),),
    )
    status = verdict(snapshot(of, pod(PodPhase.FAILED, ended(3))))
    assert (status.completed_at, status.failed_at, status.run_count) == (NOW, NOW, 1)
    assert status.result is not None
    assert status.result.error == Error("ExitCode", "the container `main` exited with code 3")
    assert [(run.state, run.exit_code, run.reason) for run in status.runs] == [(State.FAILED, 3, "ExitCode")]


def test_a_lost_run_keeps_what_was_known_of_it() -> None:
    runs = (Run(0, 1, RUN, pod="p", node="n", started_at=STARTED),)
    of = task(RUN, run_count=1, runs=runs, wants=FINAL)
    status = written(decide(snapshot(of, live=live(None)), NOW))
    assert [(run.pod, run.node, run.started_at) for run in status.runs] == [("p", "n", STARTED)]
    assert status.failed_at is None


def test_a_malformed_task_has_no_run() -> None:
    status = written(decide(snapshot(task(CLAIM), refusal=replace(REFUSED_NOW, malformed=True)), NOW))
    assert (status.run_count, status.runs) == (0, ())
    assert status.result is not None
    assert status.result.error == Error("MalformedPayload", "exceeded quota")


def test_the_history_keeps_the_last_runs() -> None:
    runs = tuple(Run(number, number + 1, State.FAILED) for number in range(RUNS_KEPT))
    of = task(RUN, run=RUNS_KEPT, attempt=11, run_count=RUNS_KEPT, runs=runs)
    status = verdict(snapshot(of, pod(PodPhase.FAILED, ended(1), attempt=11)))
    assert [run.number for run in status.runs] == list(range(1, RUNS_KEPT + 1))
    assert status.run_count == RUNS_KEPT + 1


@pytest.mark.parametrize("state", sorted(TERMINAL_STATES))
@pytest.mark.parametrize(
    "facts",
    [
        {"pods": (pod(PodPhase.SUCCEEDED, ended(0)),)},
        {"pods": (pod(PodPhase.FAILED, ended(1)),)},
        {"job": job(failed=True)},
        {"live": live(None)},
    ],
)
def test_nothing_leads_out_of_a_terminal_state(state: State, facts: dict[str, Any]) -> None:
    decision = decide(snapshot(task(state), **facts), NOW)
    assert decision == Decision(wake_at=NOW + seconds(86340)), "it waits for its deletion only"


def test_a_rerun_is_as_new_but_for_its_identity_and_history() -> None:
    runs = (Run(0, 1, State.FAILED), Run(1, 2, State.FAILED))
    of = task(
        State.FAILED,
        wants={"rerun": 3},
        run=1,
        attempt=2,
        run_count=2,
        retry_count=1,
        loss_count=1,
        start_failures=1,
        started_at=STARTED,
        failed_at=NOW,
        runs=runs,
    )
    assert written(decide(snapshot(of), NOW)) == Status(
        state=PENDING,
        observed_generation=1,
        observed_rerun=3,
        run=2,
        attempt=2,
        run_count=2,
        submitted_at=SUBMITTED,
        rerun_at=NOW,
        runs=runs,
    )


def test_a_rerun_of_a_task_that_never_ran_has_the_same_number() -> None:
    assert written(decide(snapshot(task(State.EXPIRED, wants={"rerun": 1})), NOW)).run == 0


@pytest.mark.parametrize("state", [PENDING, CLAIM, RUN])
def test_a_rerun_that_is_asked_of_an_unresolved_task_is_noted_and_does_nothing(state: State) -> None:
    of = task(state, generation=2, wants={"rerun": 1, "suspend": True})
    pods = () if state is PENDING else (pod(PodPhase.RUNNING, started()),)
    status = written(decide(snapshot(of, *pods), NOW))
    assert status.observed_rerun == 1
    assert not status.state.is_terminal


@pytest.mark.parametrize(
    ("before", "wants", "enqueued_at"),
    [
        pytest.param(PENDING, {}, SUBMITTED, id="at once: when it was submitted"),
        pytest.param(State.DELAYED, {"run_at": NOW - seconds(2)}, NOW - seconds(2), id="when its time came"),
        pytest.param(State.UNSCHEDULED, {}, NOW, id="when it was resumed"),
    ],
)
def test_a_task_is_enqueued_when_it_becomes_eligible(
    before: State, wants: dict[str, Any], enqueued_at: datetime
) -> None:
    assert written(decide(snapshot(task(before, wants=wants)), NOW)).enqueued_at == enqueued_at


def test_a_task_that_is_suspended_is_enqueued_no_more() -> None:
    of = task(PENDING, wants={"suspend": True}, enqueued_at=SUBMITTED)
    assert written(decide(snapshot(of), NOW)).enqueued_at is None


def test_a_later_run_is_a_retry() -> None:
    runs = (Run(0, 1, State.FAILED, started_at=CLAIMED),)
    of = task(CLAIM, attempt=2, run=1, run_count=1, started_at=CLAIMED, runs=runs)
    status = written(decide(snapshot(of, pod(PodPhase.RUNNING, started(), attempt=2)), NOW))
    assert (status.started_at, status.retried_at, status.run_count) == (CLAIMED, STARTED, 2)


FAILED_POD = pod(PodPhase.FAILED, ended(3))
SUCCEEDED_POD = pod(PodPhase.SUCCEEDED, ended(0))


@pytest.mark.parametrize(
    ("policy", "its_pod", "is_read"),
    [
        pytest.param(LogPolicy.ON_FAILURE, FAILED_POD, True, id="a failure, as by default"),
        pytest.param(LogPolicy.ALWAYS, FAILED_POD, True, id="a failure, as always"),
        pytest.param(LogPolicy.NONE, FAILED_POD, False, id="nobody wants it"),
        pytest.param(LogPolicy.ALWAYS, SUCCEEDED_POD, False, id="a success is not kept waiting for it"),
        pytest.param(LogPolicy.ON_FAILURE, replace(FAILED_POD, gone=True), False, id="the pod is gone"),
    ],
)
def test_a_log_is_read_before_an_unsuccessful_verdict(policy: LogPolicy, its_pod: Pod, is_read: bool) -> None:
    situation = snapshot(task(RUN, wants={"logs": policy}), its_pod)
    action = decide(situation, NOW).action
    assert isinstance(action, ReadLog) is is_read
    assert verdict(situation).log_tail == ("the end" if is_read else None)


def test_a_run_that_is_retried_is_not_kept_waiting_for_its_log() -> None:
    of = task(RUN, wants={"retry": retry(limit=1)})
    assert written(decide(snapshot(of, FAILED_POD), NOW)).state is PENDING


def test_the_log_of_a_success_is_read_after_its_verdict() -> None:
    of = task(State.COMPLETED, wants={"logs": LogPolicy.ALWAYS}, runs=(Run(0, 1, State.COMPLETED, pod="p"),))
    assert decide(snapshot(of), NOW) == Decision(ReadLog("p"))
    assert written(decide(snapshot(of, log=Log("")), NOW)).log_tail == "", "nothing is an answer too"


def test_everything_that_holds_a_task_is_told_in_order() -> None:
    wants = {"suspend": True, "run_at": NOW + seconds(1), "definition": REF, "dependencies": ("a",)}
    status = written(decide(snapshot(task(PENDING, wants=wants), holds=(NO_QUEUE,), definition=UNKNOWN), NOW))
    assert [each.reason for each in status.waiting] == [
        "Suspended",
        "DependencyPending",
        "NotBefore",
        "DefinitionNotFound",
        "QueueNotFound",
    ]
    assert (status.reason, status.message) == (status.waiting[0].reason, status.waiting[0].message)


def test_a_suspended_retry_does_not_forget_why_it_is_one() -> None:
    delay = Wait(Reason.RETRY_DELAY, "retry 1 of 2, after: m")
    of = task(State.DELAYED, wants={"suspend": True}, next_retry_at=NOW + seconds(9), waiting=(delay,))
    held = written(decide(snapshot(of), NOW))
    assert held.waiting[1:] == (delay,)
    resumed = task(State.UNSCHEDULED, next_retry_at=NOW + seconds(9), waiting=held.waiting)
    status = written(decide(snapshot(resumed), NOW))
    assert (status.state, status.message, status.waiting) == (State.DELAYED, delay.message, (delay,))


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(snapshot(task(PENDING, waiting=(Wait(Reason.SUSPENDED, "s"),))), id="claimed"),
        pytest.param(
            snapshot(task(CLAIM, waiting=(Wait(Reason.NO_POD, "s"),)), pod(PodPhase.RUNNING, started())),
            id="running",
        ),
        pytest.param(
            snapshot(task(CLAIM, waiting=(Wait(Reason.NO_POD, "s"),)), SUCCEEDED_POD), id="resolved"
        ),
    ],
)
def test_what_goes_on_waits_for_nothing(situation: Snapshot) -> None:
    assert written(decide(situation, NOW)).waiting == ()
