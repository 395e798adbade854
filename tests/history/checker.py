"""Whether a recorded history has kept to the rules, whatever the tests did to it; pure functions over its lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.history import recording
from tests.history.life_rules import LIVES, Life
from tests.history.objects import Job, Moment, Pod
from tests.history.recording import Recording, Sight
from tests.history.slim import JOB, JSON, POD, TASK
from tests.history.task_rules import ACROSS, ALWAYS, STEPS, is_loss
from tests.history.world import World
from tests.history.world_rules import INSTANTS


@dataclass(frozen=True)
class Summary:
    """How much there was to check, what was left out, and what was not seen."""

    tasks: int
    jobs: int
    pods: int
    events: int
    lost_runs: int
    ignored_tasks: int
    ignored_jobs: int
    ignored_pods: int
    gaps: tuple[str, ...]

    def __str__(self) -> str:
        said = f"{self.tasks} tasks, {self.jobs} jobs, {self.pods} pods, {self.events} events"
        said += f", {self.lost_runs} lost runs"
        ignored = f"{self.ignored_tasks} tasks, {self.ignored_jobs} jobs, {self.ignored_pods} pods"
        lines = (said, f"ignored, being of another hand: {ignored}", f"{len(self.gaps)} gaps", *self.gaps)
        return "\n".join(lines)


def check(lines: Iterable[JSON]) -> tuple[Summary, list[str]]:
    """What was recorded, and every breach of a rule as a sentence that names the Task."""
    found = recording.read(lines)
    lives = lives_of(found)
    names = {uid: life.moments[0].full_name for uid, life in lives.items() if life.moments}
    said = itertools.chain(_of_lives(lives), *(_of_instants(session) for session in found.sessions))
    return summary(found, lives), [f"{names.get(uid, uid)}: {what}" for uid, what in said]


def violations(lines: Iterable[JSON]) -> list[str]:
    return check(lines)[1]


def lives_of(found: Recording) -> dict[str, Life]:
    """Everything that was seen of each Task, by its uid."""
    lives: dict[str, Life] = {}
    for each in found.objects():
        match each:
            case Moment():
                if not each.is_gone:
                    lives.setdefault(each.uid, Life()).moments.append(each)
            case Job():
                lives.setdefault(each.task, Life()).jobs.append(each)
            case Pod():
                lives.setdefault(each.task, Life()).pods.append(each)
    return lives


def summary(found: Recording, lives: dict[str, Life]) -> Summary:
    def count(kind: type[Moment | Job | Pod]) -> int:
        return len({each.uid for each in found.objects() if isinstance(each, kind)})

    last = (life.moments[-1] for life in lives.values() if life.moments)
    return Summary(
        tasks=count(Moment),
        jobs=count(Job),
        pods=count(Pod),
        events=sum(1 for _ in found.objects()),
        lost_runs=sum(is_loss(run) for moment in last for run in moment.runs),
        ignored_tasks=len(found.ignored[TASK]),
        ignored_jobs=len(found.ignored[JOB]),
        ignored_pods=len(found.ignored[POD]),
        gaps=found.gaps,
    )


Said = tuple[str, str]
"""A Task's uid, and what is wrong with it."""


def _of_lives(lives: dict[str, Life]) -> Iterator[Said]:
    for uid, life in lives.items():
        for moment in life.moments:
            yield from ((uid, said) for rule in ALWAYS for said in rule(moment))
        for before, after in itertools.pairwise(life.moments):
            rules = (*ACROSS, *STEPS) if after.is_exact else ACROSS
            yield from ((uid, said) for step in rules for said in step(before, after))
        yield from ((uid, said) for whole in LIVES for said in whole(life))


def _of_instants(session: Iterable[recording.Entry]) -> Iterator[Said]:
    world = World()
    for entry in session:
        if not isinstance(entry, Sight):
            uid = entry.uid if isinstance(entry, Moment) else entry.task
            yield from ((uid, said) for rule in INSTANTS for said in rule(entry, world))
        world.take(entry)
