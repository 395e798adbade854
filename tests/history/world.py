"""What existed at one instant, as far as it is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tests.history.objects import Belonging, Job, Moment, Pod
from tests.history.recording import Entry, Object, Sight
from tests.history.slim import JOB, POD, TASK
from tests.history.task_rules import was_given_up

KINDS: Final[dict[type[Object], str]] = {Moment: TASK, Job: JOB, Pod: POD}


@dataclass
class World:
    """Of a kind whose watch has a gap, nothing is known until all of it was listed again."""

    _all: dict[str, dict[str, Object]] = field(default_factory=dict)
    """By kind, then by uid; only of kinds of which everything is known."""

    given_up: set[str] = field(default_factory=set)
    """Pods that outlived the verdict on their Task, as a deadline allows."""

    def before(self, now: Object) -> Object | None:
        """The same object, as it was last."""
        return self._all.get(KINDS[type(now)], {}).get(now.uid)

    def task_of(self, one: Belonging) -> Moment | None:
        """The Task of a Job or a pod, if it is there and known."""
        found = self._all.get(TASK, {}).get(one.task)
        assert found is None or isinstance(found, Moment)
        return found

    def job(self, uid: str | None) -> Job | None:
        found = self._all.get(JOB, {}).get(uid or "")
        assert found is None or isinstance(found, Job)
        return found

    def pods_of(self, task: str) -> list[Pod]:
        """None of them while pods cannot be seen: nobody is accused then."""
        pods = self._all.get(POD, {}).values()
        return [pod for pod in pods if isinstance(pod, Pod) and pod.task == task]

    def take(self, entry: Entry) -> None:
        """The next entry: now this is so."""
        if isinstance(entry, Sight):
            self._all.pop(entry.kind, None)
            if entry.is_clear:
                self._all[entry.kind] = {}
            return
        before = self.before(entry)
        if isinstance(before, Moment) and isinstance(entry, Moment) and was_given_up(before, entry):
            self.given_up |= {pod.uid for pod in self.pods_of(entry.uid)}
        those = self._all.get(KINDS[type(entry)], {})
        those[entry.uid] = entry
        if entry.is_gone:
            del those[entry.uid]
