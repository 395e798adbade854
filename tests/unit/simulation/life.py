"""One life of an operator: the real loop, cache and list, driven by hand, with the ears of a watch."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final

from taskyard.cache import Cache
from taskyard.cluster import DEFINITIONS, PODS, QUEUES, TASKS, Cluster, ClusterError, Kind
from taskyard.core import manifest, parse
from taskyard.core.actions import Decision
from taskyard.core.model import Snapshot
from taskyard.core.words import State
from taskyard.loop import CLOSES_WITHIN, Loop
from taskyard.sweep import Sweep
from taskyard.watch import Watch
from tests.unit.fake import Object, copied
from tests.unit.simulation.ground import Ground, Violation, uid_of
from tests.unit.simulation.line import Line
from tests.unit.simulation.strand import Strand
from tests.unit.simulation.witness import Witness

WORKERS: Final = 2

Event = tuple[Kind, str, Object]


class WatchedLoop(Loop):
    """The real loop. What it would only log is a failure here."""

    def __init__(
        self, ground: Ground, line: Line, cache: Cache, name: str, shield_limit: timedelta | None
    ) -> None:
        super().__init__(line, cache, claimer=name, shield_limit=shield_limit, now=lambda: ground.now)
        self._ground = ground
        self._line = line
        self._line.may_claim = lambda uid: uid not in self._retired
        self._retired: set[str] = set()
        """Those about whom it began to think when it was to claim nothing more."""
        self.broken: Exception | None = None

    async def step(self, uid: str) -> None:
        self._line.began[uid] = self._ground.now
        if self._is_retiring:
            self._retired.add(uid)
        try:
            await super().step(uid)
        except ClusterError:
            raise
        except Exception as exc:
            self.broken = exc
            raise


class Life:
    """An operator from its start to its end, in steps that others choose."""

    def __init__(
        self,
        ground: Ground,
        witness: Witness,
        name: str,
        shield_limit: timedelta | None,
        jobs_kept_for: timedelta,
    ) -> None:
        self.name = name
        self._ground = ground
        self._witness = witness
        self._line = line = Line(ground, witness, name)
        cluster: Cluster = line
        self.cache = Cache()
        self.loop = WatchedLoop(ground, line, self.cache, name, shield_limit)
        self._watch = Watch(cluster, self.cache, [])
        self._sweep = Sweep(cluster, self.cache, [], lambda: ground.now, kept_for=jobs_kept_for, pause=0)
        self._sweeping: Strand | None = None
        self.is_leaving = self.has_left = False
        self._heard: dict[Kind, deque[Event]] = {
            kind: deque() for kind in (TASKS, PODS, QUEUES, *DEFINITIONS.values())
        }
        self._out_of_sight: set[str] = set()
        self.is_deaf = False
        self.has_missed = False
        self.is_paused = False
        self._is_listing = True
        self._is_to_list_again = False
        self._workers: list[Strand] = []
        self._strands = [Strand(f"{name} lists", self._list())]
        ground.cluster.watch(self.hear)
        ground.operators += 1
        ground.say(name, "starts")

    # What it is told.

    def hear(self, kind: Kind, event: str, obj: Object) -> None:
        """Something happened in the cluster; it gets to know now, later, twice, or not at all."""
        if kind not in self._heard:
            return
        if kind == PODS and manifest.LABEL_UID not in obj["metadata"]["labels"]:
            if uid_of(obj) in self._out_of_sight:
                return
            event, obj = "DELETED", self._as_labelled(obj)
        if self.is_deaf or (event == "DELETED" and self._ground.unlucky(0.04)):
            self.has_missed = True
            return
        self._heard[kind].append((kind, event, obj))
        if self._ground.unlucky(0.03):
            self._heard[kind].append((kind, event, obj))

    def _as_labelled(self, pod: Object) -> Object:
        """What leaves a watch's selector arrives as deleted, as it was before, once."""
        self._out_of_sight.add(uid_of(pod))
        labelled = copied(pod)
        labelled["metadata"]["labels"][manifest.LABEL_UID] = self._ground.task_uid(pod)
        return labelled

    def listen(self, kind: Kind) -> None:
        """Take in the next event of a watch; once in a while an older one again, or one before its turn."""
        queue = self._heard[kind]
        event = (
            queue[self._ground.dice.randrange(len(queue))] if self._ground.unlucky(0.05) else queue.popleft()
        )
        self._take_in(*event)

    def _take_in(self, kind: Kind, event: str, obj: Object) -> None:
        if kind == TASKS and event == "DELETED":
            self.cache.miss_task(parse.uid(obj))
        elif kind == TASKS:
            self.cache.see_task(obj)
        elif kind in {QUEUES, *DEFINITIONS.values()}:
            known = self.cache.queues if kind == QUEUES else self.cache.definitions
            (known.miss if event == "DELETED" else known.see)(obj)
        elif event == "DELETED":
            self.cache.miss_pod(parse.pod(obj))
        else:
            self.cache.see_pod(obj)

    def relist(self) -> None:
        """What a watch missed is repaired by a list."""
        if self.is_leaving:
            return  # or by whoever comes next
        self.is_deaf = self.has_missed = False
        self._is_to_list_again = self._is_listing
        if not self._is_listing:
            self._is_listing = True
            self._strands.append(Strand(f"{self.name} lists", self._list()))

    async def _list(self) -> None:
        while True:
            try:
                await self._watch.list_everything()
            except ClusterError:
                continue
            if not self._is_to_list_again:
                break
            self._is_to_list_again = False
        self._is_listing = False
        if not self._workers:  # everything is known first
            loop = self.loop
            self._workers = [Strand(f"{self.name} works", loop._work()) for _ in range(WORKERS)]
            self._strands += [*self._workers, Strand(f"{self.name} announces", loop._announcer())]

    # What it does now and then, and at its end.

    @property
    def is_at_work(self) -> bool:
        return bool(self._workers) and not self.is_paused and not self.is_leaving

    def sweep(self) -> bool:
        """Delete the Jobs that are needed no more, one sweep at a time."""
        if not self.is_at_work or (self._sweeping is not None and not self._sweeping.is_over):
            return False
        self._ground.say(self.name, "sweeps")
        self._sweeping = Strand(f"{self.name} sweeps", self._sweep_once())
        self._strands.append(self._sweeping)
        return True

    async def _sweep_once(self) -> None:
        with suppress(ClusterError):  # the next time is soon enough
            await self._sweep.sweep()

    def leave(self) -> None:
        """SIGTERM: it goes on for a while, as `main.operate` has it."""
        self._ground.say(self.name, "is told to end")
        self.is_leaving = True
        self._strands.append(Strand(f"{self.name} leaves", self._leave()))

    async def _leave(self) -> None:
        await self.loop.retire()
        self._ground.cluster.unwatch(self.hear)
        for queue in self._heard.values():
            queue.clear()
        self.has_missed = True
        since = self._ground.elapsed
        await self.loop.close()
        self.has_left = True
        if self._ground.elapsed - since < CLOSES_WITHIN:
            self._leaves_no_claim_alone()

    def _leaves_no_claim_alone(self) -> None:
        """What it claimed has had its Job, or says why not: nobody else would know that nothing has begun."""
        for task in map(parse.task, self._ground.tasks()):
            snapshot, status = self.snapshot(task.uid), task.status
            is_own = self._line.claims.get(task.uid) == status.attempt and status.state is State.CLAIMED
            is_known = snapshot is not None and snapshot.task.resource_version == task.resource_version
            has_job = manifest.job_name(task) in self._witness.made
            is_refused = manifest.job_name(task) in self._line.refused
            if (
                is_own
                and is_known
                and not (has_job or is_refused)
                and status.stop is None
                and status.reason is None
                and not task.deleting
            ):
                raise Violation(f"{self.name} ended in order, and {task.name} is claimed without a Job")

    # How it moves.

    def moves(self) -> Iterator[Kind | Strand]:
        """Everything that it could do next."""
        if self.is_paused:
            return
        self._strands = [strand for strand in self._strands if not strand.is_over]
        yield from (strand for strand in self._strands if strand.can_move)
        yield from (kind for kind, queue in self._heard.items() if queue)

    def move(self, how: Kind | Strand) -> None:
        if isinstance(how, Strand):
            how.move()
        else:
            self.listen(how)
        if isinstance(self.loop.broken, Violation):
            raise self.loop.broken
        if self.loop.broken is not None:
            raise Violation(f"a step of {self.name} failed: {self.loop.broken!r}") from self.loop.broken

    def end(self, why: str) -> None:
        self._ground.say(self.name, why)
        for strand in self._strands:
            strand.end()
        self._ground.cluster.unwatch(self.hear)
        self._ground.operators -= 1

    # Its clock.

    def ring(self) -> None:
        if not self.is_paused:
            self.loop._clock._ring_all_due()

    def next_ring(self) -> float | None:
        return min(self.loop._clock._due.values(), default=None)

    def ring_of(self, uid: str) -> float | None:
        return self.loop._clock._due.get(uid)

    # What it would do.

    def is_waiting_to_try_again(self, uid: str) -> bool:
        return uid in self.loop._failures or uid in self.loop._conflicts

    def stir(self) -> bool:
        """What it does every second: have those think again who are held by other reasons than before."""
        for _ in range(2):
            self.cache.line.stir(self._ground.now)
        return not self.cache.dirty.is_idle

    def snapshot(self, uid: str) -> Snapshot | None:
        return self.loop._snapshot(uid)


def is_idle(decision: Decision) -> bool:
    return decision.action is None
