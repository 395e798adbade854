"""Who of many with one `idempotencyKey` is looked at, and who is told: few, and nobody too few."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from taskyard.core import duplicates
from taskyard.core.model import Task
from taskyard.core.words import ACTIVE_STATES, OnDuplicate, State
from taskyard.rivals import Rivals
from tests.unit.build import NOW, snapshot, task
from tests.unit.test_duplicates import complete, states, submit
from tests.unit.world import World

Answers = tuple[str | None, str | None, list[bool]]

SEEDS = range(60)
STEPS = 60
FEWEST = 4


def any_task(dice: Random, uid: str, before: Task | None) -> Task:
    """One of a few that come at about the same time, wherever its life has led it."""
    state = dice.choice([State.PENDING, State.UNSCHEDULED, State.CLAIMED, State.RUNNING, *State])
    started_at = before.status.started_at if before is not None else None
    if state is State.RUNNING and started_at is None:
        started_at = NOW + timedelta(seconds=dice.randrange(9))
    wants = {
        "idempotency_key": "k",
        "on_duplicate": before.spec.on_duplicate if before is not None else dice.choice(list(OnDuplicate)),
        "rerun": dice.choice([0, 0, 0, 1]),
    }
    since = before.status.submitted_at if before is not None else NOW + timedelta(seconds=dice.randrange(3))
    made = task(state, submitted_at=since, started_at=started_at, wants=wants)
    return replace(made, uid=uid, name=f"task-{uid}", deleting=dice.random() < 0.1)


class Crowd:
    """All with one key, with the few that each is told of, or with all."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.lingering: set[str] = set()
        self.told = set[str]()
        self.rivals = Rivals(self.told.add)

    def move(self, dice: Random) -> str:
        uid = str(dice.randrange(8))
        before = self.tasks.pop(uid, None)
        if before is not None and dice.random() < 0.2:
            self.rivals.forget(before)
        else:
            before = self.tasks[uid] = any_task(dice, uid, before)
            self.rivals.see(before)
        is_over = uid not in self.tasks or before.status.state.is_terminal
        if is_over and dice.random() < 0.3:
            self.rivals.linger(before)
            self.lingering.add(uid)
        else:
            self.rivals.rest(uid)
            self.lingering.discard(uid)
        return uid

    def answers(self, uid: str, *, of_all: bool) -> Answers:
        """What `duplicates` says of one: dropped for whom, replaced by whom, and whether it is to wait."""
        asks = self.tasks[uid]
        if of_all:
            others = (each for each in self.tasks.values() if each.uid != uid)
            known = tuple(duplicates.as_rival(each) for each in others)
            name = next((each for each in self.lingering if each != uid), None)
        else:
            known, name = self.rivals.of(asks), self.rivals.lingering(asks)
        seen = snapshot(asks, rivals=known, lingering=name)
        error = duplicates.of(seen)
        said = error.message if error is not None else None
        return said, duplicates.replaced_by(asks, known), [True for _ in duplicates.holds(seen)]

    def concerns(self, uid: str, answers: Answers) -> Answers:
        """What it goes by now: once it is claimed, all is read live but that another takes its place."""
        is_at_work = self.tasks[uid].status.state in ACTIVE_STATES
        return (None, answers[1], []) if is_at_work else answers

    def open(self) -> list[str]:
        return [uid for uid, each in self.tasks.items() if not each.status.state.is_terminal]


@pytest.mark.parametrize("seed", SEEDS)
def test_few_of_many_say_as_much_as_all(seed: int) -> None:
    dice, crowd = Random(seed), Crowd()  # noqa: S311 - dice
    for _ in range(STEPS):
        crowd.move(dice)
        for uid in crowd.open():
            few, everybody = crowd.answers(uid, of_all=False), crowd.answers(uid, of_all=True)
            assert (few[0] is None, few[1:]) == (everybody[0] is None, everybody[1:])
            at_work = sum(each.status.state in ACTIVE_STATES for each in crowd.tasks.values())
            assert len(crowd.rivals.of(crowd.tasks[uid])) <= at_work + FEWEST


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_is_not_told_has_no_news(seed: int) -> None:
    """But for those that are to end in any case: they have been told, or were when they came."""
    dice, crowd = Random(seed), Crowd()  # noqa: S311 - dice
    for _ in range(STEPS):
        before = {uid: crowd.answers(uid, of_all=True) for uid in crowd.open()}
        crowd.told.clear()
        moved = crowd.move(dice)
        for uid in set(crowd.open()) & before.keys() - crowd.told - {moved}:
            is_to_end = before[uid][:2] != (None, None)
            if not (is_to_end or crowd.tasks[uid].deleting):
                assert crowd.concerns(uid, crowd.answers(uid, of_all=True)) == crowd.concerns(
                    uid, before[uid]
                )


async def test_an_event_under_a_key_of_many_costs_as_little_as_under_one_of_few() -> None:
    assert await thoughts_of_an_end(5) == await thoughts_of_an_end(50)


async def thoughts_of_an_end(waiting: int) -> int:
    """How often anybody thinks, with so many behind it, from the end of one until the next has its Job."""
    world = World()
    operator = await world.operator()
    await submit(world, "one", "next", *map(str, range(waiting)), onDuplicate="Queue")
    await operator.settle(rounds=2000)
    operator.thoughts.clear()
    await complete(world, operator)
    assert states(world, "one", "next") == ["Completed", "Claimed"]
    return operator.thoughts.total()
