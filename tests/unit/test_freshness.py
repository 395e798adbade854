"""A watch is stale when lists prove it, and never because it is silent."""

from collections.abc import Callable

import pytest

from taskyard.freshness import Freshness, grace_of

GRACE = 60.0
Step = Callable[[Freshness], object]


def listed(greatest: int, at: float) -> Step:
    return lambda it: it.listed("pods", greatest, at)


def heard(version: int, at: float) -> Step:
    return lambda it: it.hear("pods", version, at)


def asked(at: float) -> Step:
    return lambda it: it.overdue(at)


@pytest.mark.parametrize(
    ("steps", "is_stale"),
    [
        pytest.param([], False, id="nothing happened yet"),
        pytest.param([listed(0, 0), asked(61), listed(0, 61), asked(122)], False, id="nothing is there"),
        pytest.param(
            [heard(5, 0), listed(5, 10), asked(100), listed(5, 100), asked(900)],
            False,
            id="nothing changes, for however long",
        ),
        pytest.param([listed(5, 0), asked(61)], False, id="one list is no proof"),
        pytest.param(
            [listed(5, 0), asked(61), listed(5, 61), asked(122)], True, id="silent after two lists in a row"
        ),
        pytest.param(
            [heard(4, 0), listed(5, 0), asked(61), listed(9, 61), asked(122)],
            True,
            id="silent after two lists, whatever changed between them",
        ),
        pytest.param([listed(5, 0), asked(61), listed(5, 61), asked(100)], False, id="the grace is not over"),
        pytest.param(
            [listed(5, 0), asked(61), listed(5, 61), heard(5, 70), asked(122)], False, id="late, but told"
        ),
        pytest.param(
            [listed(5, 0), asked(61), listed(5, 61), heard(7, 70), asked(122)],
            False,
            id="told in a later version: deleted, or changed since",
        ),
        pytest.param(
            [heard(3, 0), listed(5, 0), asked(61), listed(3, 61), asked(122)],
            False,
            id="what the first list showed was gone before the watch began anew",
        ),
        pytest.param(
            [listed(50, 0), heard(10, 50), asked(61), heard(20, 100), asked(122), heard(30, 150), asked(183)],
            False,
            id="one that lags behind is at work",
        ),
        pytest.param(
            [listed(5, 0), asked(61), listed(5, 61), heard(4, 100), asked(122), asked(161), listed(5, 161)],
            False,
            id="what was told in between begins the count anew",
        ),
        pytest.param(
            [listed(5, 0), asked(61), listed(5, 61), asked(122), heard(5, 130)], False, id="it came back"
        ),
        pytest.param(
            [listed(5, 0), asked(61), listed(5, 61), asked(122), listed(5, 122), asked(183)],
            True,
            id="stale as long as it says nothing",
        ),
        pytest.param(
            [heard(9, 0), heard(5, 1), listed(9, 2), asked(63), listed(9, 63), asked(124)],
            False,
            id="events of different objects come in any order",
        ),
    ],
)
def test_staleness(steps: list[Step], is_stale: bool) -> None:
    freshness = Freshness(GRACE)
    for step in steps:
        step(freshness)
    assert freshness.stale() == (["pods"] if is_stale else [])


def test_a_watch_is_judged_by_what_it_is_about() -> None:
    """Versions are one sequence for the whole cluster: what another watch tells proves nothing."""
    freshness = Freshness(GRACE)
    for now in (0.0, 61.0):
        freshness.listed("pods in a", 5, now)
        freshness.listed("pods in b", 5, now)
        freshness.hear("pods in b", 100, now + 1)
        freshness.overdue(now + 61)
    assert freshness.complaint() == "the watch of pods in a does not tell what a list shows"


def test_nothing_is_wrong_until_it_is_proven() -> None:
    assert Freshness(GRACE).complaint() is None


def test_a_suspect_is_named_once_a_list() -> None:
    """Each time it is a reason to list again, and once is enough."""
    freshness = Freshness(GRACE)
    freshness.listed("pods", 5, 0.0)
    assert freshness.next_due() == 60.0
    assert [freshness.overdue(now) for now in (59.0, 60.0, 61.0)] == [[], ["pods"], []]
    assert freshness.next_due() is None


def test_a_second_list_does_not_lengthen_the_grace() -> None:
    freshness = Freshness(GRACE)
    for now in (0.0, 10.0, 20.0, 50.0):
        freshness.listed("pods", 5 + int(now), now)
    assert freshness.overdue(60.0) == ["pods"]


@pytest.mark.parametrize(("relist_seconds", "grace"), [(1, 3.0), (10, 10.0), (300, 60.0)])
def test_whoever_lists_often_waits_less(relist_seconds: int, grace: float) -> None:
    assert grace_of(relist_seconds) == grace
