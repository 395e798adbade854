"""Edits by hand in whatever moment they come: while a task waits, is claimed, starts, ends, or has ended."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from tests.crowd.ledger import Ledger, ledger
from tests.faults.operator import Place
from tests.kube import JSON, Kubectl, task

MANY: Final = 60
HANDS: Final = 4
LONGEST_PAUSE: Final = 2.0

EDITS: Final[tuple[JSON, ...]] = (
    {"cancel": True},
    {"suspend": True},
    {"suspend": False},
    {"release": True},
    {"rerun": 1, "cancel": False},
)


def one(number: int, chance: random.Random) -> JSON:
    """Some wait for the one before, some for themselves, some for nobody."""
    name = f"task-{number}"
    waits_for = chance.choice([[], [], [f"task-{number - 1}"], [name]])
    wants: dict[str, Any] = {"dependencies": waits_for} if waits_for else {}
    return task(name, "pretended", **wants, requires="AllResolved", suspend=chance.random() < 0.2)


def meddle(kubectl: Kubectl, numbers: range, seed: int) -> None:
    """Somebody who changes his mind again and again; what the API server refuses is refused."""
    chance = random.Random(seed)  # noqa: S311 - moods
    for number in numbers:
        for _ in range(2):
            edit = chance.choice(EDITS)
            kubectl.patch("task", f"task-{number}", {"spec": edit})
            time.sleep(chance.random() * LONGEST_PAUSE / HANDS)


def test_edits_in_any_moment_leave_every_task_with_one_verdict(crowd: Kubectl, yard: Place) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    chance = random.Random(seed)  # noqa: S311 - moods
    with ledger(crowd) as book, yard.running():
        with ThreadPoolExecutor() as pool:
            coming = pool.submit(crowd.create, *(one(number, chance) for number in range(MANY)))
            hands = [
                pool.submit(meddle, crowd, range(hand, MANY, HANDS), seed + hand) for hand in range(HANDS)
            ]
            coming.result()
            for each in hands:
                each.result()
        let_go(crowd)
        crowd.eventually("every task is resolved", lambda: book.finished() == MANY, seconds=120)
        crowd.finished()
    check(crowd, book)


def let_go(kubectl: Kubectl) -> None:
    """Whatever is still held is held no longer."""
    names = kubectl("get", "tasks", "--output=name").split()
    kubectl("patch", *names, "--type=merge", '--patch={"spec":{"suspend":false,"release":true}}')


def check(kubectl: Kubectl, book: Ledger) -> None:
    """Each has the verdict that its last edit asks for, and never two pods at once; the history has all other rules."""
    for each in kubectl.get("tasks")["items"]:
        name, spec, status = each["metadata"]["name"], each["spec"], each["status"]
        assert status["observedGeneration"] == each["metadata"]["generation"], name
        assert status["observedRerun"] == spec["rerun"], name
        was_stopped = any("stop" in each for each in book.statuses(name))
        if not spec["cancel"] and not was_stopped:  # a stop that has begun is not taken back
            assert status["state"] == "Completed", name
        assert status["state"] in {"Completed", "Cancelled"}, name
    book.check_one_pod_at_a_time()
    book.check_one_job_for_an_attempt()
