"""Everything that became of the Tasks of a namespace, their Jobs and their pods: raw watches from before the first."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from taskyard.core.manifest import ANNOTATION_PLACEHOLDER, LABEL_ATTEMPT, LABEL_UID
from tests.history.recorder import JOBS, PODS, TASKS, Kind, Watch
from tests.kube import JSON, Kubectl

QUEUES: Final = Kind("TaskQueue", "/apis/taskyard.dev/v1alpha1", "taskqueues")

SEEN: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "LISTED"})


class Ledger:
    """What the API server told, kind by kind, in its order."""

    def __init__(self) -> None:
        self.told: dict[str, list[JSON]] = defaultdict(list)

    def taker(self, kind: Kind) -> Callable[[JSON], None]:
        def take(event: JSON) -> None:
            self.told[kind.plural].append(event | {"seenAt": time.monotonic()})

        return take

    def events(self, kind: Kind) -> list[JSON]:
        return [event for event in self.told[kind.plural] if event["type"] in SEEN]

    def statuses(self, task: str) -> list[JSON]:
        """Every status of one Task."""
        found = (event["object"] for event in self.events(TASKS))
        return [each["status"] for each in found if each["metadata"]["name"] == task]

    def steps(self, task: str) -> list[tuple[str, int, str | None]]:
        """What each status of one Task said: state, attempt and reason."""
        return [(each["state"], each.get("attempt", 0), each.get("reason")) for each in self.statuses(task)]

    def last(self) -> dict[str, JSON]:
        """The last known status of every Task, by name."""
        return {
            event["object"]["metadata"]["name"]: event["object"]["status"] for event in self.events(TASKS)
        }

    def finished(self) -> int:
        return sum(status["phase"] == "Finished" for status in self.last().values())

    def given_back(self) -> list[str]:
        """The Tasks that went back to the queue because their claimer was gone."""
        found = (event["object"] for event in self.events(TASKS))
        return sorted(
            {each["metadata"]["name"] for each in found if each["status"].get("reason") == "GivenBack"}
        )

    def claimers(self) -> set[str]:
        return {event["object"]["status"].get("claimedBy") for event in self.events(TASKS)} - {None}

    def writes(self) -> Counter[str]:
        """How often each Task was written, after it was created."""
        return Counter(
            event["object"]["metadata"]["name"] for event in self.events(TASKS) if event["type"] == "MODIFIED"
        )

    def claims(self) -> list[float]:
        """When each claim was seen, here."""
        known, found = set[tuple[str, int]](), list[float]()
        for event in self.events(TASKS):
            task = event["object"]
            claim = task["metadata"]["uid"], task["status"].get("attempt", 0)
            if task["status"]["state"] == "Claimed" and claim not in known:
                known.add(claim)
                found.append(event["seenAt"])
        return found

    def check_limit(self, limit: int, of: Callable[[JSON], Hashable | None] = lambda task: "all") -> None:
        """Of no scope more than so many Tasks are ever at work, nor their pods; and so many are. `of`: its scope."""
        assert most_at_once(at_work(self.events(TASKS)), of, limit) == limit, "it was never full"
        tasks = {event["object"]["metadata"]["uid"]: event["object"] for event in self.events(TASKS)}
        most_at_once(pods_at_work(self.events(PODS), tasks), of, limit)

    def check_nothing_is_missing(self) -> None:
        assert not any(event["type"] == "GAP" for events in self.told.values() for event in events)

    def check_one_job_for_an_attempt(self) -> None:
        uids: dict[tuple[str, str], set[str]] = defaultdict(set)
        for metadata in (event["object"]["metadata"] for event in self.events(JOBS)):
            labels = metadata["labels"]
            uids[labels[LABEL_UID], labels[LABEL_ATTEMPT]].add(metadata["uid"])
        assert [each for each, made in uids.items() if len(made) > 1] == []

    def check_one_pod_at_a_time(self, *, of_all: bool = False) -> None:
        """Of each Task; or of all of them together."""
        alive: dict[str, set[str]] = defaultdict(set)
        for event in self.events(PODS):
            metadata, phase = event["object"]["metadata"], event["object"]["status"]["phase"]
            at_work = alive["" if of_all else metadata["labels"][LABEL_UID]]
            is_over = event["type"] == "DELETED" or phase in {"Succeeded", "Failed"}
            (at_work.discard if is_over else at_work.add)(metadata["name"])
            assert len(at_work) <= 1, f"two pods at once: {sorted(at_work)}"

    def pods(self) -> Counter[str]:
        """How many pods each Task ever had, by its uid."""
        made = {
            event["object"]["metadata"]["uid"]: event["object"]["metadata"]["labels"][LABEL_UID]
            for event in self.events(PODS)
        }
        return Counter(made.values())

    def placeholders(self) -> set[str]:
        """The uids of the Tasks that had a Job which only held its name."""
        found = (event["object"]["metadata"] for event in self.events(JOBS))
        return {
            each["labels"][LABEL_UID]
            for each in found
            if ANNOTATION_PLACEHOLDER in each.get("annotations", {})
        }


Step = tuple[JSON, str, bool]
"""A Task, the uid of it or of its pod, and whether that is at work from here on."""


def at_work(events: list[JSON]) -> Iterator[Step]:
    for event in events:
        task = event["object"]
        is_claimed = task["status"]["state"] in {"Claimed", "Running"}
        yield task, task["metadata"]["uid"], is_claimed and event["type"] != "DELETED"


def pods_at_work(events: list[JSON], tasks: dict[str, JSON]) -> Iterator[Step]:
    for event in events:
        metadata, phase = event["object"]["metadata"], event["object"]["status"]["phase"]
        is_over = event["type"] == "DELETED" or phase in {"Succeeded", "Failed"}
        yield tasks[metadata["labels"][LABEL_UID]], metadata["uid"], not is_over


def most_at_once(steps: Iterator[Step], of: Callable[[JSON], Hashable | None], limit: int) -> int:
    """How many of one scope were at work at the same time, at most; never more than the limit."""
    by_scope, most = defaultdict[Hashable, set[str]](set), 0
    for task, uid, is_at_work in steps:
        if (scope := of(task)) is None:
            continue
        there = by_scope[scope]
        (there.add if is_at_work else there.discard)(uid)
        assert len(there) <= limit, f"{len(there)} of {limit} at work: {scope}"
        most = max(most, len(there))
    return most


@contextmanager
def ledger(kubectl: Kubectl, *more: Kind) -> Iterator[Ledger]:
    """Watch the namespace meanwhile; afterwards all that happened is known, without a gap."""
    book = Ledger()
    with ExitStack() as stack:
        watches = [
            stack.enter_context(Watch(kubectl.command, book.taker(kind), kubectl.namespace, kind))
            for kind in (TASKS, JOBS, PODS, *more)
        ]
        yield book
        for watch in watches:
            watch.settle()
    book.check_nothing_is_missing()
