"""H3, H8: a claim is exclusive, whoever claims, and goes back when its claimer is gone.

A lease lets one operator act at a time, and a lease is no fence. Here there is none in common: every operator acts at
once, as they would when one of them has lost the lease and does not know it yet.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Final

import pytest

from taskyard.core.manifest import LABEL_ATTEMPT, LABEL_UID
from tests.crowd.ledger import Ledger, ledger
from tests.faults.operator import Operator, Place
from tests.kube import JSON, Kubectl, task

MANY: Final = 200
SOME: Final = 100
"""Enough that an operator is caught between a claim and its Job."""
AFTERWARDS: Final = 20
CONFLICT: Final = "the task has changed, looking again"


def one_of_many(yard: Place, name: str, **settings: str) -> Operator:
    """An operator that shares its lease with nobody."""
    return yard.operator(identity=name, lease_name=name, **settings)


@pytest.mark.parametrize("round_", range(3))
def test_two_operators_without_a_common_lease_run_every_task_once(
    round_: int, crowd: Kubectl, yard: Place
) -> None:
    with ledger(crowd) as book, one_of_many(yard, "one") as one, one_of_many(yard, "two") as two:
        create_and_await(crowd, book, MANY)
        conflicts = len(one.said(CONFLICT)) + len(two.said(CONFLICT))
    check_each_ran_once(book, MANY)
    assert {(status["attempt"], status["runs"][0]["attempt"]) for status in book.last().values()} == {(1, 1)}
    assert book.claimers() == {"one", "two"}
    check_nothing_is_said_twice(book)
    # Whoever came second reads before it writes again: it loses once for each write of the other, and no more.
    assert 0 < conflicts <= book.writes().total()
    print(f"writes {book.writes().total() / MANY:.2f}, conflicts {conflicts / MANY:.2f} a task")


def test_an_operator_that_was_out_of_breath_makes_no_second_pod(crowd: Kubectl, yard: Place) -> None:
    """What the one had claimed and not launched is launched by the other: in the same name, so only once."""
    with ledger(crowd) as book, one_of_many(yard, "one") as one, one_of_many(yard, "two"):
        stranded = pause_amid_claims(crowd, one, "one")
        await_finished(crowd, book, SOME)
        one.go_on()
        create_and_await(crowd, book, AFTERWARDS, "afterwards", of=SOME + AFTERWARDS)
    check_each_ran_once(book, SOME + AFTERWARDS)
    assert {book.last()[name]["attempt"] for name in stranded} == {1}


def test_one_of_two_is_killed_and_comes_back_under_another_name(crowd: Kubectl, yard: Place) -> None:
    """The one comes after the claims and gives them back; the other was there all along, and would launch them."""
    with ledger(crowd) as book, one_of_many(yard, "two"):
        with one_of_many(yard, "one", failpoint="after:claim") as one:
            create(crowd, SOME)
            assert one.died() == -9
        with one_of_many(yard, "three"):
            await_finished(crowd, book, SOME)
    check_each_ran_once(book, SOME)
    assert book.claimers() >= {"one", "two"}


def test_h8_a_claim_whose_claimer_is_gone_goes_back_to_the_queue(crowd: Kubectl, yard: Place) -> None:
    with ledger(crowd) as book, one_of_many(yard, "one", failpoint="after:claim") as one:
        create(crowd, 1)
        assert one.died() == -9
        claimed = crowd.until("task-0", "Claimed")
        assert (claimed["claimedBy"], crowd.get("jobs")["items"]) == ("one", [])
        with one_of_many(yard, "two"):
            await_finished(crowd, book, 1)
    assert book.given_back() == ["task-0"]
    check_given_back(book)
    check_each_ran_once(book, 1)
    done = book.last()["task-0"]
    assert (done["claimedBy"], done["attempt"], done["runs"][0]["attempt"]) == ("two", 2, 2)


def test_h8_a_claimer_who_was_only_late_makes_no_second_pod(crowd: Kubectl, yard: Place) -> None:
    """Between its claims and their Jobs it is stopped, taken for gone, and wakes up."""
    with ledger(crowd) as book, one_of_many(yard, "one") as one:
        stranded = pause_amid_claims(crowd, one, "one")
        with one_of_many(yard, "two"):
            await_finished(crowd, book, SOME)
            one.go_on()
            create_and_await(crowd, book, AFTERWARDS, "afterwards", of=SOME + AFTERWARDS)
    check_each_ran_once(book, SOME + AFTERWARDS)
    check_given_back(book)
    assert set(book.given_back()) <= stranded


def create(kubectl: Kubectl, count: int, name: str = "task") -> None:
    kubectl.create(*(task(f"{name}-{number}", "pretended") for number in range(count)))


def create_and_await(
    kubectl: Kubectl, book: Ledger, count: int, name: str = "task", of: int | None = None
) -> None:
    create(kubectl, count, name)
    await_finished(kubectl, book, of or count)


def await_finished(kubectl: Kubectl, book: Ledger, count: int) -> None:
    kubectl.eventually(f"{count} tasks are resolved", lambda: book.finished() == count, seconds=180)


def pause_amid_claims(kubectl: Kubectl, operator: Operator, name: str) -> set[str]:
    """Stop an operator between a claim and its Job, while many come in; the Tasks that it was about to launch."""
    with ThreadPoolExecutor() as pool:
        coming = pool.submit(create, kubectl, SOME)
        while True:
            operator.pause()
            if found := claims_without_job(kubectl, name):
                coming.result()
                return found
            operator.go_on()
            over = [each["status"]["phase"] == "Finished" for each in kubectl.get("tasks")["items"]]
            assert over.count(True) < SOME, "it was never caught between a claim and its Job"


def claims_without_job(kubectl: Kubectl, claimer: str) -> set[str]:
    claims = {
        (each["metadata"]["uid"], str(each["status"]["attempt"])): each["metadata"]["name"]
        for each in kubectl.get("tasks")["items"]
        if each["status"]["state"] == "Claimed" and each["status"]["claimedBy"] == claimer
    }
    launched = {_launch(job) for job in kubectl.get("jobs")["items"]}
    return {name for claim, name in claims.items() if claim not in launched}


def _launch(job: JSON) -> tuple[str, str]:
    labels = job["metadata"]["labels"]
    return labels[LABEL_UID], labels[LABEL_ATTEMPT]


def check_each_ran_once(book: Ledger, count: int) -> None:
    """One run, one pod, one Job for an attempt, and nothing spent."""
    ends = book.last()
    assert len(ends) == count
    assert {(each["state"], each["runCount"], len(each["runs"])) for each in ends.values()} == {
        ("Completed", 1, 1)
    }
    spent = ("retryCount", "lossCount", "startFailures")
    assert {tuple(each.get(budget, 0) for budget in spent) for each in ends.values()} == {(0, 0, 0)}
    pods = book.pods()
    assert (len(pods), pods.total()) == (count, count)
    book.check_one_pod_at_a_time()
    book.check_one_job_for_an_attempt()


def check_given_back(book: Ledger) -> None:
    """Some were, each by way of a Job that held its name; they waited as if nobody had ever claimed them."""
    names = book.given_back()
    assert names
    assert len(book.placeholders()) >= len(names)
    for name in names:
        waiting = [each for each in book.statuses(name) if each.get("reason") == "GivenBack"]
        assert {each["state"] for each in waiting} == {"Pending"}
        assert not any({"claimedBy", "claimedAt"} & each.keys() for each in waiting)
        assert "is gone, and had made no Job" in waiting[0]["message"]


def check_nothing_is_said_twice(book: Ledger) -> None:
    """Operators that undo each other's work would say the same by turns. That a pod is late may be said, once."""
    for name in book.last():
        steps = book.steps(name)
        states = [state for state, _ in groupby(steps, key=lambda step: step[:2])]
        reasons = [step for step in steps if step[2] is not None]
        assert len(states) == len(set(states)), f"{name}: {steps}"
        assert len(reasons) == len(set(reasons)), f"{name}: {steps}"
