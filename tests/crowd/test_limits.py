"""Limits hold whoever dies, and whatever is lowered meanwhile; and a queue tells the truth about itself.

All is judged by the watch. A pretended pod ends as soon as it has started, so limits are small and tasks many: there is
always somebody who would go, if the limit let it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import pytest

from cluster.native import Native
from tests.cluster.test_queues import queue
from tests.crowd.conftest import kubectl_of
from tests.crowd.ledger import QUEUES, Ledger, at_work, ledger, most_at_once
from tests.faults.operator import Operator, Place
from tests.history.recorder import TASKS
from tests.kube import JSON, Kubectl, definition, namespace, nowhere, task, typed

DEATHS: Final = ("after:claim", "after:create-job", "before:verdict")
TEAMS: Final = ("a", "b", "c", "d")
TYPED: Final = ("a", "c")
"""The teams whose tasks are of a type with a limit."""
OPERATOR_HEARS_WITHIN: Final = 2.0
ARRIVAL: Final = 0.5
"""By how much the watch may tell of one thing later than of another."""
A_SECOND: Final = 1.0
REPORTS_WITHIN: Final = 3.0
"""After its start: the first second, a read, and some breath."""


def many(count: int, name: str = "task", **spec: Any) -> Iterator[JSON]:
    return (task(f"{name}-{number}", "pretended", **spec) for number in range(count))


def of_a_team(number: int) -> JSON:
    """Teams by turns; some have tasks of the type."""
    team = TEAMS[number % len(TEAMS)]
    name = f"task-{number}"
    made = (
        typed(name, "report", "v1", queueName="q")
        if team in TYPED
        else task(name, "pretended", queueName="q")
    )
    made["metadata"]["labels"] = {"team": team}
    return made


def team_of(task: JSON) -> str:
    return str(task["metadata"]["labels"]["team"])


def await_finished(kubectl: Kubectl, book: Ledger, count: int) -> None:
    kubectl.eventually(f"{count} tasks are resolved", lambda: book.finished() >= count, seconds=180)


@contextmanager
def dying(yard: Place, **settings: str | float) -> Iterator[Operator]:
    """One that has died at each of these lines, and is back."""
    operator = yard.operator(**settings)
    try:
        for point in DEATHS:
            operator.start(failpoint=point)
            assert operator.died() == -9
        operator.start()
        yield operator
    finally:
        operator.stop()


def test_no_limit_is_ever_exceeded_whenever_an_operator_dies(crowd: Kubectl, yard: Place) -> None:
    """Of the queue, of a tenant, and of a type, all at once."""
    fairness = {"labelKey": "team", "maxConcurrentPerKey": 2}
    crowd.create(queue("q", maxConcurrent=5, fairness=fairness))
    report = definition("report", ("v1", "pretended"))
    report["spec"]["maxConcurrent"] = 2
    crowd.create(report)
    count = 80
    with ledger(crowd) as book:
        crowd.create(*map(of_a_team, range(count)))
        with dying(yard) as operator:
            for finished in (15, 40):
                await_finished(crowd, book, finished)
                operator.kill()
                operator.start()
            await_finished(crowd, book, count)
    assert {each["state"] for each in book.last().values()} == {"Completed"}
    book.check_limit(5)
    book.check_limit(2, team_of)
    book.check_limit(2, lambda task: "report" if team_of(task) in TYPED else None)
    book.check_one_pod_at_a_time()
    book.check_one_job_for_an_attempt()


def test_a_limit_that_is_lowered_holds_as_soon_as_it_is_heard_of(crowd: Kubectl, yard: Place) -> None:
    """What is at work goes on; nobody else goes until there is room under the new limit."""
    before, after, count = 8, 2, 60
    crowd.create(queue("q", maxConcurrent=before))
    with ledger(crowd, QUEUES) as book:
        crowd.create(*many(count, queueName="q"))
        with yard.running() as operator:
            await_finished(crowd, book, 10)
            assert crowd.patch("taskqueue", "q", {"spec": {"maxConcurrent": after}}).is_ok
            await_finished(crowd, book, 30)
            operator.kill()
            operator.start()
            await_finished(crowd, book, count)
    lowered_at = next(
        event["seenAt"] for event in book.events(QUEUES) if event["object"]["spec"]["maxConcurrent"] == after
    )
    assert most_at_once(at_work(book.events(TASKS)), lambda task: "all", before) == before
    found, uids = 0, set[str]()
    for event, (_, uid, is_at_work) in zip(book.events(TASKS), at_work(book.events(TASKS)), strict=True):
        is_new = is_at_work and uid not in uids
        (uids.add if is_at_work else uids.discard)(uid)
        if is_new and event["seenAt"] > lowered_at + OPERATOR_HEARS_WITHIN:
            found += 1
            assert len(uids) <= after, f"claimed as number {len(uids)} of {after}"
    assert found > 0, "nobody went under the new limit"


@pytest.fixture
def other(kwok: Native) -> Iterator[Kubectl]:
    """A second namespace."""
    with namespace(kubectl_of(kwok, "default")) as kubectl:
        yield kubectl


def serving(*places: Kubectl, limit: int, weights: str = "") -> dict[str, str | float]:
    """The settings of an operator that serves these, with so many slots in all."""
    namespaces = ",".join(each.namespace for each in places)
    return {"namespaces": namespaces, "max_concurrent": limit, "namespace_weights": weights}


def in_order(*books: Ledger) -> list[JSON]:
    """All news of Tasks of several namespaces, as they were written: the API server counts versions for all."""
    events = (event for book in books for event in book.events(TASKS))
    return sorted(events, key=lambda event: int(event["object"]["metadata"]["resourceVersion"]))


def test_the_operators_own_limit_is_never_exceeded_over_all_namespaces(
    crowd: Kubectl, other: Kubectl, yard: Place
) -> None:
    limit, count = 4, 30
    with ledger(crowd) as here, ledger(other) as there:
        for each in (crowd, other):
            each.create(*many(count))
        with dying(yard, **serving(crowd, other, limit=limit)):
            await_finished(crowd, here, count)
            await_finished(other, there, count)
    assert most_at_once(at_work(in_order(here, there)), lambda task: "all", limit) == limit
    for book in (here, there):
        book.check_one_pod_at_a_time()


def test_namespaces_share_the_operators_limit_by_weight(crowd: Kubectl, other: Kubectl, yard: Place) -> None:
    """One has everything, and when it lets go each gets its part. None of these ends: there is no node for them."""
    limit = 6
    settings = serving(crowd, other, limit=limit, weights=f"{crowd.namespace}=2,{other.namespace}=1")
    with ledger(crowd) as here, ledger(other) as there, yard.running(**settings):
        crowd.create(*map(nowhere, many(limit, "early")))
        crowd.eventually("all slots are taken", lambda: claimed(here) == {crowd.namespace: limit})
        for each in (crowd, other):
            each.create(*map(nowhere, many(limit, "late")))
        crowd.eventually("all others wait", lambda: len(held(here)) + len(held(there)) == 2 * limit)
        for number in range(limit):
            crowd.edit(f"early-{number}", cancel=True)
        await_finished(crowd, here, limit)
        crowd.eventually("all slots are taken again", lambda: claimed(here, there).total() == limit)
        assert claimed(here, there) == {crowd.namespace: 4, other.namespace: 2}
    assert most_at_once(at_work(in_order(here, there)), lambda task: "all", limit) == limit


def held(book: Ledger) -> list[str]:
    """Who waits for a slot of the operator, and says so."""
    return [name for name, status in book.last().items() if status.get("reason") == "OperatorLimit"]


def claimed(*books: Ledger) -> Counter[str]:
    """How many are claimed now, by namespace."""
    last = {
        event["object"]["metadata"]["uid"]: event["object"] for book in books for event in book.events(TASKS)
    }
    return Counter(
        each["metadata"]["namespace"] for each in last.values() if each["status"]["state"] == "Claimed"
    )


def test_a_queue_is_written_once_a_second_at_most_and_tells_the_truth(crowd: Kubectl, yard: Place) -> None:
    """Also across a restart, which finds on record what is so."""
    count = 80
    crowd.create(queue("q", maxConcurrent=3))
    with ledger(crowd, QUEUES) as book:
        crowd.create(*many(count, queueName="q"))
        with yard.running() as operator:
            await_finished(crowd, book, count)
            crowd.eventually("it says so", lambda: counts(book).get("finished") == count, seconds=10)
            quiet = {
                name: counts(book)[name] for name in ("pending", "claimed", "running", "finishedLastMinutes")
            }
            assert quiet == {"pending": 0, "claimed": 0, "running": 0, "finishedLastMinutes": count}
            written = len(status_writes(book))
            operator.kill()
            operator.start()
            time.sleep(REPORTS_WITHIN)
    assert len(status_writes(book)) == written, "nothing was new to the next one"
    statuses = [event["object"]["status"] for event in status_writes(book)]
    arrivals = [event["seenAt"] for event in status_writes(book)]
    assert len(statuses) >= 4, "it was busy for seconds"
    assert len({each["conditions"][0]["lastTransitionTime"] for each in statuses}) == 1
    # More than a second lies between two writes, so no two have the same one.
    assert all(earlier["updatedAt"] < later["updatedAt"] for earlier, later in pairwise(statuses))
    assert all(later - earlier > A_SECOND - ARRIVAL for earlier, later in pairwise(arrivals))


def counts(book: Ledger) -> JSON:
    found: JSON = book.events(QUEUES)[-1]["object"].get("status", {})
    return found


def status_writes(book: Ledger) -> list[JSON]:
    events = [event for event in book.events(QUEUES) if "status" in event["object"]]
    return [
        event
        for event, before in zip(events, [None, *events], strict=False)
        if before is None or event["object"]["status"] != before["object"]["status"]
    ]


def test_a_rate_holds_over_a_restart(crowd: Kubectl, yard: Place) -> None:
    """A start that is on record has lost its fraction of a second."""
    most, window, count = 4, 6.0, 12
    crowd.create(queue("q", rateLimit={"tasks": most, "perSeconds": int(window)}))
    with ledger(crowd) as book:
        crowd.create(*many(count, queueName="q"))
        with yard.running() as operator:
            for finished in (most, 2 * most):
                await_finished(crowd, book, finished)
                operator.kill()
                operator.start()
            await_finished(crowd, book, count)
    claims = book.claims()
    assert len(claims) == count
    apart = [later - earlier for earlier, later in zip(claims, claims[most:], strict=False)]
    assert min(apart) > window - A_SECOND - ARRIVAL
