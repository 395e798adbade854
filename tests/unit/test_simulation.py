"""Random histories of pods, clocks, crashes, conflicts and users: whatever happens, what is promised holds.

What must hold is in `simulation/witness.py` (of every write) and `simulation/rest.py` (whenever nothing is left to
do). A history that breaks it is printed from its beginning, with the seed that tells it again.
"""

import json
import random
from datetime import timedelta
from statistics import median
from typing import Any

import pytest

from taskyard.cluster import JOBS, PODS, TASKS
from taskyard.core import manifest, parse
from taskyard.core.transitions import TRANSITIONS
from tests.unit.simulation import batch, history, users
from tests.unit.simulation.ground import Ground, Violation, uid_of
from tests.unit.simulation.life import Life
from tests.unit.simulation.schema import complaints, status_schema
from tests.unit.simulation.witness import Witness

LEAST = 100
"""How often every edge of the state machine is taken."""


def test_whatever_happens_what_is_promised_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """Thousands more: `make simulate`."""
    tally = batch.until_every_edge(LEAST, each_theme=10, processes=2)
    with capsys.disabled():
        print(f"\n{batch.table(tally)}")
    assert tally.failed is None, "\n" + batch.told(tally.failed)
    assert median(tally.steps) >= 30
    assert {edge: number for edge in TRANSITIONS if (number := tally.edges[edge]) < LEAST} == {}


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_seed_is_the_same_history(seed: int) -> None:
    random.seed(1)
    first = history.run(seed)
    random.seed(2)
    assert history.run(seed) == first


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        pytest.param({"state": "Lost"}, "status.state must be one of", id="a state that there is not"),
        pytest.param({"colour": "red"}, "status.colour is unknown", id="an unknown field"),
        pytest.param({"runs": [{}]}, "status.runs[0].number is required", id="a field that must be there"),
        pytest.param({"message": "x" * 5000}, "status.message has 5000", id="a text that is too long"),
        pytest.param({"attempt": -1}, "status.attempt is out of bounds", id="a number below the least"),
        pytest.param({"attempt": True}, "status.attempt must be of type", id="not a number"),
        pytest.param({"reason": "no word"}, "status.reason does not match", id="a reason of two words"),
    ],
)
def test_the_simulation_knows_what_the_api_server_refuses(status: dict[str, object], complaint: str) -> None:
    found = list(complaints(json.loads(json.dumps(status)), status_schema(), "status"))
    assert len(found) == 1
    assert found[0].startswith(complaint)


STOP = {"reason": "Cancelled", "requestedAt": "2026-01-01T00:01:00Z"}


def job_of(ground: Ground, attempt: int, pods: str | None, status: dict[str, Any]) -> dict[str, Any]:
    """The Job of that attempt, with its pod, of a Task whose current attempt is the second."""
    users.submit(ground, {})
    [task] = ground.tasks()
    claimed = {"state": "Claimed", "phase": "Active", "attempt": 2}
    ground.change(TASKS, task, lambda obj: obj.update(status=claimed | status))
    [task] = ground.tasks()
    name = manifest.job_name(parse.task(task | {"status": task["status"] | {"attempt": attempt}}))
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "ownerReferences": [{"uid": uid_of(task)}],
    }
    job = ground.cluster.put(JOBS, {"metadata": metadata | {"uid": "job"}, "spec": {}})
    if pods is not None:
        labels = {manifest.LABEL_UID: uid_of(task), manifest.LABEL_ATTEMPT: str(attempt)}
        metadata = {"name": "pod", "namespace": "default", "uid": "pod", "labels": labels}
        owner = {"ownerReferences": [{"uid": "job"}]}
        ground.cluster.put(PODS, {"metadata": metadata | owner, "spec": {}, "status": {"phase": pods}})
    return job


@pytest.mark.parametrize(
    ("attempt", "phase", "status"),
    [
        pytest.param(2, "Running", {}, id="its pod runs"),
        pytest.param(2, "Running", {"state": "Running"}, id="its pod runs, and it is known"),
        pytest.param(2, None, {}, id="its pod is to come"),
    ],
)
def test_no_operator_deletes_the_job_of_a_run_at_work(
    attempt: int, phase: str | None, status: dict[str, Any]
) -> None:
    ground = Ground(0)
    witness = Witness(ground)
    with pytest.raises(Violation, match="is deleted, and its run is at work"):
        witness.job_is_deleted(job_of(ground, attempt, phase, status))


@pytest.mark.parametrize(
    ("attempt", "phase", "status"),
    [
        pytest.param(1, "Running", {}, id="of an earlier attempt"),
        pytest.param(2, "Failed", {}, id="its pod is over"),
        pytest.param(2, "Running", {"stop": STOP}, id="it is to be stopped"),
        pytest.param(2, "Running", {"state": "Cancelled", "phase": "Finished"}, id="it is resolved"),
    ],
)
def test_an_operator_may_delete_the_job_of_a_run_that_is_over_or_to_end(
    attempt: int, phase: str | None, status: dict[str, Any]
) -> None:
    ground = Ground(0)
    Witness(ground).job_is_deleted(job_of(ground, attempt, phase, status))


async def test_an_end_in_order_leaves_no_claim_without_its_job() -> None:
    """Unless it was refused one, which is known."""
    ground = Ground(0)
    witness = Witness(ground)
    life = Life(ground, witness, "op", None, timedelta(minutes=10))
    users.submit(ground, {})
    [task] = ground.tasks()
    life.cache.see_task(task)
    claimed = {"state": "Claimed", "phase": "Active", "attempt": 1, "claimedBy": "op"}
    ground.change(TASKS, task, lambda obj: obj.update(status=claimed))
    life.cache.see_task(ground.tasks()[0])
    life._line.claims[uid_of(task)] = 1
    with pytest.raises(Violation, match="ended in order, and alpha is claimed without a Job"):
        life._leaves_no_claim_alone()
    life._line.refused.add(manifest.job_name(parse.task(ground.tasks()[0])))
    life._leaves_no_claim_alone()
    life.end("ends")
