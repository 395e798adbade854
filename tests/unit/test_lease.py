"""One leads, the others stand by."""

import asyncio

import pytest

from taskyard.cluster import LEASES, Kind, Unavailable
from taskyard.lease import Lease, LeaseLost, Terms, lead
from tests.unit.fake import FakeCluster


def terms(identity: str) -> Terms:
    return Terms("default", "taskyard", identity, duration=0.3, deadline=0.2, interval=0.02)


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
    await asyncio.sleep(0.6)
    assert not second.done()
    keeping.cancel()
    async with asyncio.timeout(1):
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
            await asyncio.sleep(10)
        finally:
            cancelled.set()

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(1):
            await lead(cluster, terms("a"), work)
    assert raised.group_contains(LeaseLost, match="could not renew")
    assert cancelled.is_set()


async def test_work_is_cancelled_when_another_has_the_lease() -> None:
    cluster = FakeCluster()

    async def work() -> None:
        [lease] = cluster.all(LEASES)
        lease["spec"]["holderIdentity"] = "b"
        cluster.put(LEASES, lease)
        await asyncio.sleep(10)

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.timeout(1):
            await lead(cluster, terms("a"), work)
    assert raised.group_contains(LeaseLost, match="another operator")
    assert holder(cluster) == "b"


async def test_a_short_outage_does_not_lose_the_lease() -> None:
    cluster = FakeCluster()

    def fail(verb: str, kind: Kind) -> None:
        raise Unavailable("away")

    async def work() -> None:
        cluster.before_call = fail
        await asyncio.sleep(0.1)
        cluster.before_call = lambda verb, kind: None
        await asyncio.sleep(0.3)

    await lead(cluster, terms("a"), work)


async def test_the_lease_is_released_when_the_work_is_done() -> None:
    cluster = FakeCluster()

    async def work() -> None:
        assert holder(cluster) == "a"

    await lead(cluster, terms("a"), work)
    assert holder(cluster) == ""
