"""Whose turn it is to be thought about: nobody waits for the thousands of somebody else."""

from __future__ import annotations

import asyncio

from taskyard.dirty import NEWS_BEFORE_WORDS, Dirty


def of_namespaces() -> Dirty:
    """Of keys like `ns/name`."""
    return Dirty(lambda uid: uid.split("/")[0])


async def taken(dirty: Dirty, count: int) -> list[str]:
    found = []
    for _ in range(count):
        found.append(await dirty.take())
        dirty.done(found[-1])
    return found


async def test_a_key_is_handed_out_once_and_again_if_marked_meanwhile() -> None:
    dirty = Dirty()
    dirty.mark("a")
    dirty.mark("a")
    dirty.mark("b")
    assert await dirty.take() == "a"
    dirty.mark("a")
    assert await dirty.take() == "b"
    nobody = asyncio.create_task(dirty.take())
    await asyncio.sleep(0)
    assert not nobody.done()
    dirty.done("a")
    assert await nobody == "a"
    dirty.done("a")
    dirty.done("b")
    assert dirty.is_idle


async def test_namespaces_take_turns() -> None:
    dirty = of_namespaces()
    for number in range(1000):
        dirty.mark(f"crowd/{number}")
    dirty.mark("quiet/a")
    dirty.mark("quiet/b")
    assert await taken(dirty, 5) == ["crowd/0", "quiet/a", "crowd/1", "quiet/b", "crowd/2"]


async def test_what_is_only_to_be_told_anew_comes_after_what_has_happened() -> None:
    dirty = of_namespaces()
    for number in range(1000):
        dirty.mark_at_leisure(f"ns/waiting-{number}")
    dirty.mark("ns/cancelled")
    assert await taken(dirty, 3) == ["ns/cancelled", "ns/waiting-0", "ns/waiting-1"]


async def test_and_is_told_in_the_end_however_much_happens() -> None:
    dirty = of_namespaces()
    dirty.mark_at_leisure("ns/waiting")
    for number in range(100):
        dirty.mark(f"ns/{number}")
    assert (await taken(dirty, NEWS_BEFORE_WORDS + 1))[-1] == "ns/waiting"


async def test_news_of_whoever_was_to_be_told_anew_is_news_and_no_reason_to_think_twice() -> None:
    dirty = of_namespaces()
    for name in ("a", "b", "c"):
        dirty.mark_at_leisure(f"ns/{name}")
    dirty.mark("ns/c")
    dirty.mark_at_leisure("ns/c")
    assert await taken(dirty, 3) == ["ns/c", "ns/a", "ns/b"]
    assert dirty.is_idle


async def test_whoever_moved_up_is_not_handed_out_twice_at_once() -> None:
    """It stands in both lines then, and is in somebody's hands when the second comes."""
    dirty = of_namespaces()
    dirty.mark_at_leisure("ns/a")
    dirty.mark("ns/a")
    assert await dirty.take() == "ns/a"
    dirty.mark("ns/a")
    nobody = asyncio.create_task(dirty.take())
    await asyncio.sleep(0)
    assert not nobody.done()
    dirty.done("ns/a")
    assert await nobody == "ns/a"


async def test_whoever_has_it_in_hand_may_go_on_with_it() -> None:
    dirty = of_namespaces()
    dirty.mark("ns/a")
    assert await dirty.take() == "ns/a"
    assert not dirty.take_again("ns/a"), "nothing has happened to it"
    dirty.mark("ns/a")
    assert dirty.take_again("ns/a")
    dirty.done("ns/a")
    assert dirty.is_idle
