"""What `/metrics` of an API server or an etcd says, in Prometheus' text format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?")
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

TASK_WRITES: Final = frozenset({("PATCH", "tasks/status"), ("POST", "jobs")})
"""What only the operator writes, while the tasks of a benchmark run."""


class Request(NamedTuple):
    """A sort of request, as the API server counts them."""

    verb: str
    resource: str
    """With its subresource, as in `tasks/status`."""
    code: str


def samples(text: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Every series of one metric: its labels and its value."""
    for line in text.splitlines():
        if not line.startswith(name):  # most are others
            continue
        found = SAMPLE.fullmatch(line)
        if found is not None and found[1] == name:
            yield dict(LABEL.findall(found[2] or "")), float(found[3])


def value(text: str, name: str) -> float | None:
    """The sum over all series of one metric; None where there is none."""
    found = [each for _, each in samples(text, name)]
    return sum(found) if found else None


def requests(text: str) -> Counter[Request]:
    """How many requests an API server has answered since it started."""
    found = Counter[Request]()
    for labels, number in samples(text, "apiserver_request_total"):
        resource = "/".join(each for each in (labels["resource"], labels.get("subresource", "")) if each)
        found[Request(labels["verb"], resource or "(no resource)", labels["code"])] += round(number)
    return found


def by_sort(found: Mapping[Request, int]) -> Counter[tuple[str, str]]:
    """Whatever was answered."""
    sorts = Counter[tuple[str, str]]()
    for request, number in found.items():
        sorts[request.verb, request.resource] += number
    return sorts


def task_writes(found: Mapping[Request, int]) -> int:
    """The operator's: claim, Job, running, verdict; also those that were refused."""
    return sum(number for sort, number in by_sort(found).items() if sort in TASK_WRITES)


def conflicts(found: Mapping[Request, int]) -> int:
    """Of the operator's writes, those that came too late."""
    return sum(
        number
        for request, number in found.items()
        if request.code == "409" and (request.verb, request.resource) in TASK_WRITES
    )


def stored(text: str) -> dict[str, int]:
    """How many objects there are of each resource, as the API server counts them twice a minute."""
    found: dict[str, int] = {}
    for labels, number in samples(text, "apiserver_storage_objects"):
        found[labels["resource"]] = round(number)
    for labels, number in samples(text, "apiserver_resource_objects"):
        name = ".".join(each for each in (labels["resource"], labels["group"]) if each)
        found[name] = round(number)
    return found
