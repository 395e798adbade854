"""Who has come to how much after many starts: tenants of a full queue that always have more to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random

import pytest

from taskyard.core.choose import Lane, Limits, Queue, rank
from taskyard.line import Line

STARTS = 1500
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = "tenant-00"


def starts(
    tenants: int, slots: int, weights: dict[str, int], seconds: Callable[[str], float]
) -> Counter[str]:
    """How often each started, when it has always more to do."""
    queue = Queue(max_concurrent=slots, share_label="team", weights=weights)
    line, random, now = Line(lambda uid: None, lambda uid: None), Random(1), NOW  # noqa: S311 - not for secrets
    line.limit(Limits(queues={("ns", "q"): queue}), [])
    started, waiting, running = Counter[str](), dict[str, Lane](), list[tuple[datetime, str]]()

    def start(uid: str) -> None:
        lane = waiting.pop(uid)
        started[lane.share] += 1
        line.take(uid, lane)
        taken = timedelta(seconds=seconds(lane.share) * random.uniform(0.9, 1.1))
        heappush(running, (now + taken, uid))

    def submit(share: str, number: int) -> None:
        uid = f"{share}/{number:06}"
        waiting[uid] = Lane("ns", "q", share)
        if line.ask(uid, waiting[uid], rank(queue, 0, now, uid), now):
            start(uid)

    for number in range(2 * slots):
        for tenant in range(tenants):
            submit(f"tenant-{tenant:02}", number)
    while started.total() < STARTS:
        now, ended = heappop(running)
        line.free(ended)
        line.settle(now)
        for uid in [each for each in waiting if line.is_chosen(each)]:
            start(uid)
        submit(ended.split("/")[0], 2 * slots + started.total())
    return started


@pytest.mark.parametrize(
    ("tenants", "slots"),
    [
        pytest.param(30, 5, id="many tenants, and few slots"),
        pytest.param(10, 5, id="twice as many tenants as slots"),
        pytest.param(5, 5, id="as many tenants as slots"),
        pytest.param(3, 6, id="fewer tenants than slots"),
        pytest.param(2, 2, id="two for two"),
        pytest.param(30, 1, id="one slot"),
    ],
)
def test_in_a_full_queue_tenants_start_by_their_weights(tenants: int, slots: int) -> None:
    found = starts(tenants, slots, {FIRST: 3}, lambda tenant: 1)
    others = [found[tenant] for tenant in found if tenant != FIRST]
    assert len(others) == tenants - 1
    assert found[FIRST] == pytest.approx(3 * sum(others) / len(others), rel=0.1)
    assert max(others) - min(others) <= 2


@pytest.mark.parametrize(
    ("tenants", "slots", "most"),
    [
        pytest.param(2, 4, 2, id="two for four"),
        pytest.param(3, 6, 2, id="three for six"),
        pytest.param(30, 5, 1, id="many for few"),
    ],
)
def test_a_tenant_with_long_tasks_has_no_more_slots_than_its_share(
    tenants: int, slots: int, most: int
) -> None:
    found = starts(tenants, slots, {}, lambda tenant: 20 if tenant == FIRST else 1)
    others = found.total() - found[FIRST]
    assert 20 * found[FIRST] <= others * most / (slots - most) * 1.2
