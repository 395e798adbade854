"""The stage of a history: operators that come and go, time that passes, and a cluster that goes about its business.

Whatever may happen here is a method that does it, and says whether there was anything to do.
"""

import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from taskyard.cluster import LONGEST_REQUEST, Kind
from taskyard.core import clocks, dependencies, manifest, parse
from taskyard.core.model import Task
from tests.unit.fake import Object
from tests.unit.simulation import controllers, kubelet, nodes, trouble, users
from tests.unit.simulation.ground import (
    Ground,
    Violation,
    is_alive,
    is_deleting,
    is_tracked,
    name_of,
    owner_uid,
    uid_of,
)
from tests.unit.simulation.life import Life
from tests.unit.simulation.rest import check_rest
from tests.unit.simulation.strand import Strand, Timers
from tests.unit.simulation.themes import Theme
from tests.unit.simulation.witness import Witness

Part = Callable[[Ground, Object], bool]
"""A part of Kubernetes: does the next thing to an object, or says that there is none."""

LONGEST_SETTLING: Final = 600
"""Moves; then it will never come to rest."""

LONGEST_FAREWELL: Final = 30.0
"""Seconds that an operator may take to end; its pod is given no more than some more."""

LONGEST_END: Final = 400
"""Rounds; then it will never come to its end."""


class Stage:
    """One cluster with everybody in it, and everything that may happen there."""

    def __init__(self, seed: int, theme: Theme) -> None:
        self.ground = Ground(seed)
        self.theme = theme
        self.witness = Witness(self.ground)
        self.lives: list[Life] = []
        self.ground.hindered = theme.hindered
        self.timers = Timers()
        self.shield_limit = self.ground.dice.choice((None, timedelta(seconds=20), timedelta(hours=1)))
        self.jobs_kept_for = self.ground.dice.choice((timedelta(minutes=1), timedelta(minutes=10)))
        self.ground.say("theme", self.theme.name)

    def end(self) -> None:
        for life in self.lives:
            life.end("ends")
        self.lives = []

    # Operators.

    def start_operator(self) -> bool:
        """Under a name of its own. One that is paused is not there, as far as anybody can tell."""
        if sum(not life.is_paused for life in self.lives) >= 2 or len(self.lives) >= 3:
            return False
        self._begin_life(self.ground.unique("op"))
        return True

    def _begin_life(self, name: str) -> None:
        life = Life(self.ground, self.witness, name, self.shield_limit, self.jobs_kept_for)
        self.lives.append(life)

    def restart_operator(self) -> bool:
        """The process is killed, in the middle of whatever it does, and starts again under the same name."""
        if not self.lives:
            return False
        life = self.ground.dice.choice(self.lives)
        self._end_life(life, "restarts")
        self._begin_life(life.name)
        return True

    def _end_life(self, life: Life, why: str) -> None:
        self.lives.remove(life)
        life.end(why)
        self.ground.happened[why] += 1

    def pause(self) -> bool:
        """An operator stands still, in the middle of a step if there is one, and does not know it."""
        awake = [life for life in self.lives if not life.is_paused]
        if not awake:
            return False
        life = self.ground.dice.choice(awake)
        self._move_a_little(life)
        if life not in self.lives:
            return True
        life.is_paused = True
        self.ground.happened["pause"] += 1
        self.ground.say(life.name, "stands still")
        return True

    def go_on(self) -> bool:
        paused = [life for life in self.lives if life.is_paused]
        for life in paused:
            self.ground.say(life.name, "goes on")
            life.is_paused = False
        return bool(paused)

    def think(self) -> None:
        """The operators go on: not at all, a bit, or until nothing is left to do."""
        mood = self.ground.dice.random()
        if mood < 0.08:
            return
        if mood < 0.25:
            for _ in range(self.ground.dice.randint(1, 6)):
                self.move()
            return
        self.settle()

    def move(self) -> bool:
        """One move of one operator; False if there is none."""
        moves = [(life, how) for life in self.lives for how in life.moves()]
        if not moves:
            return False
        self._move(*self.ground.dice.choice(moves))
        return True

    def _move_a_little(self, life: Life) -> None:
        """Into the middle of a step, if there is one."""
        for _ in range(self.ground.dice.randint(0, 4)):
            if moves := list(life.moves()):
                self._move(life, self.ground.dice.choice(moves))

    def _move(self, life: Life, how: Kind | Strand) -> None:
        life.move(how)
        if life.has_left:
            self._end_life(life, "ends in order")

    def leave(self) -> bool:
        """An operator is told to end, and may take its time. One that does not act yet ends at once."""
        if not (staying := [life for life in self.lives if not life.is_leaving and not life.is_paused]):
            return False
        life = self.ground.dice.choice(staying)
        self._move_a_little(life)
        if life.is_at_work:
            life.leave()
        else:
            self._end_life(life, "ends before it acts")
        return True

    def sweep(self) -> bool:
        """Any operator does, every few minutes; also one that hears nothing."""
        sweepers = [life for life in self.lives if life.is_at_work]
        has_begun = bool(sweepers) and self.ground.dice.choice(sweepers).sweep()
        self.ground.happened["sweep"] += has_begun
        return has_begun

    def settle(self) -> None:
        if self._comes_to_rest():
            return
        # Two that act at once, and of which one has missed something, tell a task different things in turn: until that
        # one lists everything, as all do every few minutes.
        missing = [life for life in self.lives if life.has_missed and not life.is_paused]
        for life in missing if len(self.lives) > 1 else ():
            life.relist()
        if not missing or not self._comes_to_rest():
            raise Violation("it does not come to rest")

    def _comes_to_rest(self) -> bool:
        for _ in range(LONGEST_SETTLING):
            if not self.move() and not any(life.stir() for life in self.lives if not life.is_paused):
                resting = [life for life in self.lives if not life.is_paused and not life.is_leaving]
                check_rest(self.ground, resting)
                return True
        return False

    def crash(self) -> bool:
        """The process is killed, in the middle of whatever it does."""
        if not self.lives:
            return False
        self._end_life(self.ground.dice.choice(self.lives), "crashes")
        return True

    def go_deaf(self) -> bool:
        """Its watch tells it nothing any more; or it notices that, and lists everything."""
        if not self.lives:
            return False
        life = self.ground.dice.choice(self.lives)
        if life.is_deaf:
            life.relist()
        elif not life.is_leaving:
            life.is_deaf = True
            self.ground.say(life.name, "hears nothing")
        return True

    def relist(self) -> bool:
        for life in self.lives:
            life.relist()
        return bool(self.lives)

    def late_effect(self) -> bool:
        if not self.ground.late_effects:
            return False
        sent, arrive = self.ground.late_effects.pop(0)
        if self.ground.now - sent <= LONGEST_REQUEST:
            arrive()
        return True

    # Time.

    def pass_time(self, seconds: float) -> None:
        self.ground.later(seconds)
        self.timers.ring(self.ground.elapsed)
        for life in self.lives:
            life.ring()

    def tick(self) -> bool:
        self.pass_time(self.ground.dice.choice((0.2, 1.0, 3.7)))
        return True

    def next_ring(self) -> bool:
        """On to the next timer; False if there is none."""
        due = [ring for life in self.lives if not life.is_paused and (ring := life.next_ring()) is not None]
        if not due:
            return False
        # On the dot: a whole number of microseconds, and not before.
        self.pass_time(max(math.ceil((min(due) - self.ground.elapsed) * 1e6 - 1e-3), 1) / 1e6)
        return True

    def sleep(self) -> bool:
        """No operator is there for a while."""
        last = self.lives[-1].name if self.lives and self.ground.chance(0.5) else self.ground.unique("op")
        self.end()
        self.jump()
        self._begin_life(last)
        return True

    def jump(self) -> bool:
        """Everybody sleeps for a while; often until some clock has struck."""
        now, dice = self.ground.now, self.ground.dice
        tasks = [parse.task(task) for task in self.ground.tasks()]
        clock = [each for task in tasks for each in (clocks.good_until(task), clocks.deadline(task)) if each]
        ahead = [each for each in clock if each > now]
        if ahead and dice.random() < 0.6:
            self.pass_time((dice.choice(ahead) - now).total_seconds() + dice.choice((0.0, 0.5)))
        else:
            self.pass_time(dice.choice((15.0, 61.0, 130.0, 700.0)))
        return True

    # Everybody else.

    def kubernetes_for_a_while(self) -> bool:
        for number in range(self.ground.dice.randint(1, self.theme.haste)):
            if not self.kubernetes():
                return number > 0
            if self.ground.chance(0.15):
                self.settle()
        return True

    def kubernetes(self) -> bool:
        """Some part of Kubernetes does what is next; False if there is nothing."""
        ground = self.ground
        pods = [pod for pod in ground.pods() if is_alive(pod) or is_deleting(pod) or is_tracked(pod)]
        tracking = {owner_uid(pod) for pod in pods}
        jobs = [job for job in ground.jobs() if uid_of(job) in tracking or not controllers.is_finished(job)]
        parts: list[tuple[Part, Object]] = [(controllers.sync_job, job) for job in jobs]
        for part in (controllers.collect_pod, self._schedule, self._kubelet):
            parts += [(part, pod) for pod in pods]
        ground.dice.shuffle(parts)
        if ground.chance(0.2) and controllers.collect(ground):
            return True
        return any(part(ground, obj) for part, obj in parts) or controllers.collect(ground)

    def _schedule(self, ground: Ground, pod: Object) -> bool:
        """In the end every pod finds a node, but one that an operator must take back."""
        task = ground.task_of(pod)
        if ground.is_fair and task is not None and "stop" in task["status"]:
            return False
        return controllers.schedule(ground, pod, self.theme.hindered)

    def _kubelet(self, ground: Ground, pod: Object) -> bool:
        theme, stays = self.theme, ground.is_fair and self._stays(pod)
        return kubelet.step(ground, pod, ends_badly=theme.ends_badly, hindered=theme.hindered, stays=stays)

    def _stays(self, pod: Object) -> bool:
        """In the end every pod ends by itself, but one that an operator must stop."""
        found = self.ground.task_of(pod)
        if found is None:
            return False
        task = parse.task(found)
        is_current = str(task.status.attempt) == pod["metadata"]["labels"][manifest.LABEL_ATTEMPT]
        if not is_current or task.status.state.phase != "Active" or uid_of(pod) in self.ground.strays:
            return True
        is_bounded = task.spec.timeout is not None or clocks.deadline(task) is not None
        return task.status.stop is not None or (is_bounded and uid_of(pod)[-1] in "02468")

    def a_task(self) -> Object | None:
        tasks = [task for task in self.ground.tasks() if not is_deleting(task)]
        return self.ground.dice.choice(tasks) if tasks else None

    def submit(self) -> bool:
        if len(self.ground.tasks()) >= self.theme.tasks:
            return False
        users.submit(self.ground, self.theme.bias)
        return True

    # The end.

    def run_out(self) -> None:
        """Nothing goes wrong any more, and everything that can end does: so must every task."""
        ground = self.ground
        ground.is_fair = True
        ground.say("world", "nothing goes wrong from here on")
        nodes.all_come_back(ground)
        while ground.late_effects:
            self.late_effect()
        trouble.remove_foreign_jobs(ground)
        self.go_on()
        self._let_leave()
        if not self.lives:
            self.start_operator()
        for life in self.lives:
            if life.is_deaf or life.has_missed:
                life.relist()
        for _ in range(LONGEST_END):
            self.settle()
            if self.kubernetes():
                continue
            if not self.is_unfinished():
                return
            if not self.next_ring() and not self._wait_for_limits():
                raise Violation(f"nothing will happen any more to {self.is_unfinished()}")
        raise Violation(f"still not at its end: {self.is_unfinished()}")

    def _let_leave(self) -> None:
        """Those who were told to end do, in their time."""
        until = self.ground.elapsed + LONGEST_FAREWELL
        while any(life.is_leaving for life in self.lives):
            if self.ground.elapsed > until:
                raise Violation("an operator was told to end, and does not")
            self.settle()
            self.pass_time(1.0)

    def _wait_for_limits(self) -> bool:
        """Pods have clocks of their own."""
        limits = [pod["spec"].get("activeDeadlineSeconds") for pod in self.ground.living_pods()]
        known = [limit for limit in limits if limit is not None]
        self.pass_time(max(known, default=0) + 1.0)
        return bool(known)

    def is_unfinished(self) -> list[str]:
        """The tasks that must go on to an end of their own."""
        tasks = {name_of(task): parse.task(task) for task in self.ground.tasks()}
        return [name for name, task in tasks.items() if not _may_stay(task, tasks)] + [
            name_of(pod) for pod in self.ground.living_pods()
        ]


def _may_stay(task: Task, others: Mapping[str, Task], asked: frozenset[str] = frozenset()) -> bool:
    """Whether a task is at its end, or may wait for somebody for ever."""
    if task.status.state.is_terminal:
        return task.spec.rerun <= task.status.observed_rerun
    if clocks.deadline(task) is not None or clocks.good_until(task) is not None or task.spec.cancel:
        return False
    if task.status.state.phase == "Active":
        return False
    asked |= {task.name}
    is_held = _is_held(task, others, asked) or _is_behind(task, others, asked)
    return task.spec.suspend or task.spec.queue != "default" or is_held


def _is_behind(task: Task, others: Mapping[str, Task], asked: frozenset[str]) -> bool:
    """Whether one of the same key comes first, and stays."""
    return task.spec.idempotency_key is not None and any(
        each.spec.idempotency_key == task.spec.idempotency_key
        and not each.status.state.is_terminal
        and name not in asked
        and _may_stay(each, others, asked)
        for name, each in others.items()
    )


def _is_held(task: Task, others: Mapping[str, Task], asked: frozenset[str]) -> bool:
    """Whether it depends on one that will not end as it must: itself, nobody, one that failed or stays."""
    return any(
        name == task.name
        or name not in others
        or (name not in asked and _may_stay(others[name], others, asked))
        for name in dependencies.waits_for(task)
    )
