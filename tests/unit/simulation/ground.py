"""The ground of a history: the cluster, its time, its dice, and what was said of everything that happened."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from taskyard.cluster import BUDGETS, JOBS, PODS, TASKS, Kind
from taskyard.core import manifest
from taskyard.core.clocks import said
from tests.unit.fake import FakeCluster, Object, copied

NAMESPACE: Final = "default"
BEGINNING: Final = datetime(2026, 1, 1, 0, 1, 0, tzinfo=UTC)
TRACKING: Final = "batch.kubernetes.io/job-tracking"
NODES: Final = ("node-1", "node-2", "node-3")


class Violation(AssertionError):  # noqa: N818 - it is the simulated operator's error, not this program's
    """Something that must always hold did not."""


class HeldCluster(FakeCluster):
    """A pod that its Job tracks does not go before that lets it: not even by force."""

    def _tell(self, kind: Kind, event: str, obj: Object) -> None:
        """To all the same object: nobody here changes what he is told."""
        told = copied(obj)
        for listener in list(self._listeners):
            listener(kind, event, told)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        uid: str,
        *,
        version: int | None = None,
        force: bool = False,
    ) -> Object:
        pod = next((pod for pod in self.peek(PODS) if uid_of(pod) == uid), None) if kind == PODS else None
        if pod is None or not (is_deleting(pod) or (force and is_tracked(pod))):
            return await super().delete(kind, namespace, name, uid, version=version, force=force)
        if not force or pod["metadata"].get("deletionGracePeriodSeconds") == 0:
            return copied(pod)
        if not is_tracked(pod):
            return await super().delete(kind, namespace, name, uid, force=True)
        marked = copied(pod)
        marked["metadata"] |= {"deletionTimestamp": said(self._now()), "deletionGracePeriodSeconds": 0}
        return self.put(kind, marked)


class Ground:
    """What everybody in a history stands on. Whoever acts says so here; a failed history is read from it."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a history is to be repeated, not to be secret
        self.now = BEGINNING
        self.cluster = HeldCluster(now=lambda: self.now)
        self.story: list[str] = []
        self.happened: Counter[str] = Counter()
        self.is_fair = False
        """From here on nothing goes wrong any more, and whatever can go on does."""
        self.operators = 0
        """How many are at work."""
        self.lost_nodes: set[str] = set()
        self.strays: set[str] = set()
        """The uids of pods that somebody made by hand: an operator is to stop them."""
        self.excused: set[str] = set()
        """The uids of Jobs and pods that came into being against all care: two of them may live at once. And of
        tasks whose run somebody removed all trace of."""
        self.removed_jobs: set[str] = set()
        self.paused: dict[str, Object] = {}
        """What a person did to a Job, and may take back."""
        """The names of Jobs that somebody else than an operator deleted."""
        self.unlabelled: dict[str, str] = {}
        """The uids of pods that lost their label, and of the tasks that it named."""
        self.denied_until: dict[str, datetime] = {}
        """The uids of Jobs whose pods a quota or a webhook does not admit."""
        self.hindered = 0.0
        """How often that begins."""
        self.malformed: set[str] = set()
        """The uids of tasks of which no Job can be made."""
        self.late_effects: list[tuple[datetime, Callable[[], None]]] = []
        """Writes whose sender has given up on them, and that are still on their way; and when they were sent."""
        self._names = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning: what a monotonic clock would show."""
        return (self.now - BEGINNING).total_seconds()

    def say(self, who: str, what: str) -> None:
        self.story.append(f"{self.elapsed:10.3f}  {who}: {what}")

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def moment(self, delay: float = 0.0) -> str:
        return said(self.now + timedelta(seconds=delay))

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def unlucky(self, probability: float) -> bool:
        """As `chance`, but for what goes wrong: never in a fair world."""
        return not self.is_fair and self.dice.random() < probability

    def unique(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}-{self._names:05d}"

    # What there is.

    def tasks(self) -> list[Object]:
        return list(self.cluster.peek(TASKS))

    def jobs(self) -> list[Object]:
        return list(self.cluster.peek(JOBS))

    def pods(self) -> list[Object]:
        return list(self.cluster.peek(PODS))

    def living_pods(self) -> list[Object]:
        return [pod for pod in self.cluster.peek(PODS) if is_alive(pod)]

    def task_uid(self, pod: Object) -> str:
        """Whose it is: by its label, while it has one."""
        label: str | None = pod["metadata"]["labels"].get(manifest.LABEL_UID)
        return label if label is not None else self.unlabelled[uid_of(pod)]

    def is_shielded(self, pod: Object) -> bool:
        """Whether a budget that allows no disruption stands before it. It does not before a pod that does not run."""
        labels, runs = pod["metadata"]["labels"], pod["status"]["phase"] == "Running"
        return runs and any(
            budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
            for budget in self.cluster.peek(BUDGETS)
        )

    def task_of(self, pod: Object) -> Object | None:
        wanted = self.task_uid(pod)
        return next((task for task in self.tasks() if task["metadata"]["uid"] == wanted), None)

    def find(self, kind: Kind, uid: str) -> Object | None:
        return next((obj for obj in self.cluster.peek(kind) if obj["metadata"]["uid"] == uid), None)

    # How it is changed by others than the operator.

    def change(self, kind: Kind, obj: Object, change: Callable[[Object], None]) -> None:
        """Store the object with a change."""
        changed = copied(obj)
        change(changed)
        self.cluster.put(kind, changed)

    def remove(self, kind: Kind, obj: Object) -> None:
        self.cluster.remove(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])

    def begin_deletion(self, pod: Object, *, condition: str | None = None) -> None:
        """A pod is marked; it goes when its kubelet and its Job let it."""
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30) if "nodeName" in pod["spec"] else 0

        def mark(obj: Object) -> None:
            obj["metadata"].setdefault("deletionTimestamp", self.moment(grace))
            if condition is not None:
                set_condition(obj, "DisruptionTarget", "True", self.moment(), condition)

        self.change(PODS, pod, mark)

    def force_deletion(self, pod: Object) -> None:
        """A pod is marked, and goes as soon as its Job lets it: no kubelet is asked."""
        marks = {"deletionTimestamp": self.moment(), "deletionGracePeriodSeconds": 0}
        self.change(PODS, pod, lambda obj: obj["metadata"].update(marks))

    def release(self, pod: Object) -> None:
        """The Job lets go of a pod that it has counted."""
        self.change(PODS, pod, lambda obj: obj["metadata"].update(finalizers=[]))


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def uid_of(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def is_deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_alive(pod: Object) -> bool:
    return pod["status"].get("phase", "Pending") in {"Pending", "Running"}


def is_tracked(pod: Object) -> bool:
    return TRACKING in pod["metadata"].get("finalizers", [])


def is_placeholder(job: Object) -> bool:
    return manifest.ANNOTATION_PLACEHOLDER in job["metadata"].get("annotations", {})


def owner_uid(obj: Object) -> str | None:
    return next((str(each["uid"]) for each in obj["metadata"].get("ownerReferences", [])), None)


def conditions(obj: Object) -> Iterator[Object]:
    yield from obj.get("status", {}).get("conditions", [])


def has_condition(obj: Object, kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in conditions(obj))


def set_condition(
    obj: Object, kind: str, status: str, moment: str, reason: str = "", message: str = ""
) -> None:
    """In place: the one condition of that kind."""
    others = [each for each in conditions(obj) if each["type"] != kind]
    written: Object = {"type": kind, "status": status, "lastTransitionTime": moment}
    written |= {key: value for key, value in (("reason", reason), ("message", message)) if value}
    obj.setdefault("status", {})["conditions"] = [*others, written]


def containers_of(pod: Object) -> list[Object]:
    """The statuses of all its containers, init containers first."""
    status = pod["status"]
    found: list[Any] = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    return found


def has_started(pod: Object) -> bool:
    """Whether any code of the user's ran in it."""
    return any(_started_at(each["state"]) for each in containers_of(pod))


def _started_at(state: Object) -> bool:
    since = (state.get("terminated") or state.get("running") or {}).get("startedAt")
    return since is not None and not since.startswith("1970")
