"""K8: submitted by fifty at once under one key, with two operators that share no lease: it runs once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from tests.crowd.ledger import ledger
from tests.crowd.test_exclusive import one_of_many
from tests.faults.operator import Place
from tests.kube import Kubectl, task

CLIENTS: Final = 50


def submit_at_once(kubectl: Kubectl, **spec: Any) -> None:
    """Each by a client of its own."""
    manifests = [task(f"task-{number}", "pretended", idempotencyKey="k", **spec) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda each: kubectl.create(each), manifests))


def end_of(name: str, named: dict[str, str]) -> str:
    """Whom it leads to: one that came first may have been dropped for another that came before it, within a second."""
    for _ in range(CLIENTS):
        name = named.get(name, name)
    return name


@pytest.mark.parametrize("policy", ["Skip", "Replace", "Queue"])
def test_k8_fifty_submissions_under_one_key(policy: str, crowd: Kubectl, yard: Place) -> None:
    with ledger(crowd) as book, one_of_many(yard, "one"), one_of_many(yard, "two"):
        submit_at_once(crowd, onDuplicate=policy)
        crowd.eventually("all are resolved", lambda: book.finished() == CLIENTS, seconds=180)
    states = Counter(each["state"] for each in book.last().values())
    book.check_one_job_for_an_attempt()
    book.check_one_pod_at_a_time(of_all=True)
    match policy:
        case "Skip":
            assert states == {"Completed": 1, "Dropped": CLIENTS - 1}
            assert book.pods().total() == 1, "of every pod that there ever was"
            [one] = [name for name, each in book.last().items() if each["state"] == "Completed"]
            named = {name: each["message"].split("`")[1] for name, each in book.last().items() if name != one}
            assert {end_of(name, named) for name in named} == {one}
        case "Replace":
            assert states["Completed"] >= 1
            assert states.keys() <= {"Completed", "Cancelled"}
        case _:
            assert states == {"Completed": CLIENTS}
            assert book.pods().total() == CLIENTS
