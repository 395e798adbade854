"""A recording, read back: every write in its order, without what is not of the operator's making.

An API server tells every write to a watch, one event each, and since Kubernetes 1.35 resourceVersions can be compared
across kinds: the merged history is exact, and no clock has a part in it. What a watch did not see is known, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.history import objects
from tests.history.objects import Job, Moment, Pod
from tests.history.slim import JOB, JSON, MARKERS, POD, TASK


@dataclass(frozen=True)
class Sight:
    """Told of a watch itself: whether everything is known of its kind from here on."""

    kind: str
    is_clear: bool


Object = Moment | Job | Pod
Entry = Object | Sight


@dataclass(frozen=True)
class Recording:
    """`sessions`: each recording of the file by itself, in the order of the file; in each, that of the writes."""

    sessions: tuple[tuple[Entry, ...], ...]
    parts: frozenset[str]
    """What was recorded: the parts of the tests."""
    gaps: tuple[str, ...]
    ignored: dict[str, frozenset[str]]
    """The uids of what is left out, by kind."""

    def objects(self) -> Iterator[Object]:
        for session in self.sessions:
            yield from (entry for entry in session if not isinstance(entry, Sight))


def load(file: Path) -> list[JSON]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def read(lines: Iterable[JSON]) -> Recording:
    """The recording of these lines."""
    lines = list(lines)
    by_session: dict[str, list[JSON]] = {}
    for line in lines:
        by_session.setdefault(line["session"], []).append(line)
    entries: list[list[Entry]] = []
    for each in by_session.values():
        entries.append(_in_order(each, after=sum(map(len, entries))))
    ignored = _ignored([each for session in entries for each in session if not isinstance(each, Sight)])
    left_out = frozenset[str]().union(*ignored.values())
    return Recording(
        sessions=tuple(
            tuple(each for each in session if isinstance(each, Sight) or each.uid not in left_out)
            for session in entries
        ),
        parts=frozenset(line["part"] for line in lines),
        gaps=tuple(
            f"no {line['kind']} was seen from version {line['since']} to {line['version']} ({line['part']})"
            for line in lines
            if line["type"] == "GAP"
        ),
        ignored=ignored,
    )


_PARSED: Final[dict[str, Callable[[int, JSON], Object]]] = {
    TASK: objects.moment,
    JOB: objects.job,
    POD: objects.pod,
}


def _in_order(lines: list[JSON], after: int) -> list[Entry]:
    """One session, by the versions of its writes. What is told at once stays in the order in which it was told."""
    steps: list[tuple[int, JSON | Sight]] = []
    for line in lines:
        if line["type"] not in MARKERS:
            steps.append((line["version"], line))
            continue
        steps.append((line["since"], Sight(line["kind"], is_clear=False)))
        if line["type"] != "END":
            steps.append((line["version"], Sight(line["kind"], is_clear=True)))
    steps.sort(key=lambda step: step[0])
    return [
        told if isinstance(told, Sight) else _PARSED[told["kind"]](at, told)
        for at, (_, told) in enumerate(steps, start=after)
    ]


def _ignored(entries: list[Object]) -> dict[str, frozenset[str]]:
    """Tasks whose status another hand wrote, with all that is theirs; Jobs that are no Task's; pods of no such Job.

    Tests forge them on purpose. What was once a Task's or a Job's stays so: an orphan loses its owner, and counts.
    """
    forged = {each.uid for each in entries if isinstance(each, Moment) and each.is_forged}
    all_jobs = {each.uid for each in entries if isinstance(each, Job)}
    own_jobs = {
        each.uid
        for each in entries
        if isinstance(each, Job) and each.owner == each.task and each.task not in forged
    }
    all_pods = {each.uid for each in entries if isinstance(each, Pod)}
    own_pods = {
        each.uid
        for each in entries
        if isinstance(each, Pod)
        and each.owner_kind == JOB
        and (each.owner in own_jobs or each.owner not in all_jobs)
        and each.task not in forged
    }
    return {
        TASK: frozenset(forged),
        JOB: frozenset(all_jobs - own_jobs),
        POD: frozenset(all_pods - own_pods),
    }
