"""One history: random things happen to a few tasks, and whatever must hold is looked at after each of them."""

import asyncio
import logging
import random
import sys
from collections import Counter
from dataclasses import dataclass, field

from taskyard.core.words import State
from tests.unit.simulation import users
from tests.unit.simulation.events import EVENTS, WEIGHTS
from tests.unit.simulation.ground import Violation
from tests.unit.simulation.stage import Stage
from tests.unit.simulation.themes import THEMES


@dataclass
class Outcome:
    """What one history came to."""

    seed: int
    theme: str
    steps: int = 0
    edges: Counter[tuple[State, State]] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    violation: str | None = None


def run(seed: int) -> Outcome:
    """The history of this seed: always the same one."""
    loop, chances = asyncio.new_event_loop(), random.getstate()
    logger = logging.getLogger("taskyard")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    random.seed(seed)  # for the backoff of the operator's loop
    try:
        return loop.run_until_complete(_run(seed, loop))
    finally:
        random.setstate(chances)
        logger.setLevel(level)
        loop.close()


async def _run(seed: int, loop: asyncio.AbstractEventLoop) -> Outcome:
    sys.set_asyncgen_hooks(None, None)  # who is killed closes no generator
    theme = THEMES[seed % len(THEMES)]
    stage, outcome = Stage(seed, theme), Outcome(seed, theme.name)
    loop.time = lambda: stage.ground.elapsed  # type: ignore[method-assign]
    loop.call_at = stage.timers.call_at  # type: ignore[assignment]
    try:
        outcome.steps = play(stage)
        stage.run_out()
    except Violation as violation:
        outcome.violation = str(violation)
    finally:
        stage.end()
        del loop.time, loop.call_at
    outcome.edges, outcome.happened = stage.witness.edges, stage.ground.happened
    outcome.story = stage.ground.story
    return outcome


def play(stage: Stage) -> int:
    """Anything may happen, so many times; after each of them the operators think."""
    ground, weights = stage.ground, dict[frozenset[State], list[float]]()
    users.submit(ground, stage.theme.bias)
    stage.start_operator()
    steps = ground.dice.randint(30, 50)
    for _ in range(steps):
        if not stage.lives and ground.chance(0.5):
            stage.start_operator()
        while not EVENTS[_next_event(stage, weights)](stage):
            pass
        stage.think()
    return steps


def _next_event(stage: Stage, weights: dict[frozenset[State], list[float]]) -> str:
    """By chance, and by how the theme weighs it while the tasks are in these states."""
    states = frozenset(State(task["status"]["state"]) for task in stage.ground.tasks())
    if states not in weights:
        weights[states] = [WEIGHTS[event] * stage.theme.factor(event, states) for event in EVENTS]
    return stage.ground.dice.choices(list(EVENTS), weights[states])[0]
