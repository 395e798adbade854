"""One leads, the others stand by."""

import asyncio

import pytest

from taskyard.cluster import LEASES, Conflict, Kind, Unavailable
from taskyard.lease import Lease, LeaseLost, Terms, lead
from tests.unit.fake import FakeCluster

pytestmark = pytest.mark.hurried


def terms(identity: str) -> Terms:
    return Terms("default", "taskyard", identity)


def holder(cluster: FakeCluster) -> str:
    [lease] = cluster.all(LEASES)
    return str(lease["spec"]["holderIdentity"])


async def test_the_first_one_creates_the_lease_and_leads() -> None:
    cluster = FakeCluster()
    await Lease(cluster, terms("a")).acquire()
    assert holder(cluster) == "a"


async def test_the_second_one_stands_by_while_the_first_renews() -> None:
    cluster = FakeCluster()
    first = Lease(cluster, terms("a"))
    await first.acquire()
    keeping = asyncio.create_task(first.keep())
    second = asyncio.create_task(Lease(cluster, terms("b")).acquire())
    await asyncio.sleep(30)
    assert not second.done()
    keeping.cancel()
    async with asyncio.timeout(20):
        await second
    assert holder(cluster) == "b"


async def test_a_released_lease_is_taken_at_once() -> None:
    cluster = FakeCluster()
    first = Lease(cluster, terms("a"))
    await first.acquire()
    await first.release()
    async with asyncio.timeout(0.1):
        await Lease(cluster, terms("b")).acquire()


async def test_a_restarted_operator_of_the_same_name_takes_its_lease_back_at_once() -> None:
    cluster = FakeCluster()
    await Lease(cluster, terms("a")).acquire()
    async with asyncio.timeout(0.1):
        await Lease(cluster, terms("a")).acquire()


async def test_work_is_cancelled_when_the_lease_cannot_be_renewed() -> None:
    cluster = FakeCluster()
    cancelled = asyncio.Event()

    def fail(verb: str, kind: Kind) -> None:
        raise Unavailable("away")

    async def work() -> None:
        cluster.before_call = fail
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(20):
            await lead(cluster, terms("a"), work)
    assert raised.group_contains(LeaseLost, match="could not renew")
    assert cancelled.is_set()


async def test_work_is_cancelled_when_another_has_the_lease() -> None:
    cluster = FakeCluster()

    async def work() -> None:
        [lease] = cluster.all(LEASES)
        lease["spec"]["holderIdentity"] = "b"
        cluster.put(LEASES, lease)
        await asyncio.sleep(60)

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(20):
            await lead(cluster, terms("a"), work)
    assert raised.group_contains(LeaseLost, match="another operator")
    assert holder(cluster) == "b"


async def test_a_short_outage_does_not_lose_the_lease() -> None:
    cluster = FakeCluster()

    def fail(verb: str, kind: Kind) -> None:
        raise Unavailable("away")

    async def work() -> None:
        cluster.before_call = fail
        await asyncio.sleep(5)
        cluster.before_call = lambda verb, kind: None
        await asyncio.sleep(15)

    await lead(cluster, terms("a"), work)


async def test_a_renewal_whose_answer_is_lost_does_not_lose_the_lease() -> None:
    """It has happened: the next one meets a version that it does not know, and it was its own."""
    cluster, lost = FakeCluster(), 0

    def lose(verb: str, kind: Kind) -> None:
        nonlocal lost
        if verb == "replace" and lost < 3:
            lost += 1
            raise Unavailable("the connection was cut")

    async def work() -> None:
        cluster.after_call = lose
        await asyncio.sleep(25)
        assert holder(cluster) == "a"

    await lead(cluster, terms("a"), work)
    assert lost == 3


async def test_a_lease_that_somebody_deleted_is_made_anew() -> None:
    cluster = FakeCluster()

    async def work() -> None:
        await asyncio.sleep(5)
        [lease] = cluster.all(LEASES)
        cluster.remove(LEASES, "default", lease["metadata"]["name"])

        def as_an_api_server_says_it(verb: str, kind: Kind) -> None:
            if verb == "replace" and not cluster.all(LEASES):
                raise Conflict("Precondition failed: UID in precondition")

        cluster.before_call = as_an_api_server_says_it
        await asyncio.sleep(25)
        assert holder(cluster) == "a"

    await lead(cluster, terms("a"), work)


async def test_those_who_stand_by_do_not_keep_step() -> None:
    """A hundred that start together must not ask together for ever."""
    cluster, loop = FakeCluster(), asyncio.get_running_loop()
    await Lease(cluster, terms("a")).acquire()
    asked: list[float] = []
    cluster.before_call = lambda verb, kind: asked.append(loop.time())
    others = [asyncio.create_task(Lease(cluster, terms(f"b{n}")).acquire()) for n in range(10)]
    await asyncio.sleep(12)
    for each in others:
        each.cancel()
    last = sorted(asked)[-10:]
    assert last[-1] - last[0] > 0.2, "the last look of each is spread over a part of the interval"


async def test_the_lease_is_released_when_the_work_is_done() -> None:
    cluster = FakeCluster()

    async def work() -> None:
        assert holder(cluster) == "a"

    await lead(cluster, terms("a"), work)
    assert holder(cluster) == ""
