"""Whose turn it is: tables of each rule, and properties that hold for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.core.choose import (
    AT_ONCE,
    OPERATOR,
    Lane,
    Limits,
    Queue,
    Race,
    Scope,
    Used,
    choose,
    rank,
)
from taskyard.core.held import waits
from taskyard.core.rate import Rate, next_start
from taskyard.core.shares import Shares
from taskyard.core.turns import Rank
from taskyard.core.words import Reason

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUEUE = "ns", "q"
A, B, C = (Lane("ns", "q", share) for share in "abc")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def in_order(*names: str) -> list[tuple[Rank, str]]:
    return [((0.0, float(at), name), name) for at, name in enumerate(names)]


def limits(**queue: object) -> Limits:
    return Limits(queues={QUEUE: Queue(**queue)})  # type: ignore[arg-type]


def at_work(*lanes: Lane) -> Used:
    return Used(slots=Counter(scope for lane in lanes for scope in lane.scopes))


def who(
    waiting: Mapping[Lane, Sequence[tuple[Rank, str]]], used: Used, limits: Limits, now: datetime
) -> tuple[str, ...]:
    chosen, _ = choose(waiting, used, limits, now)
    return chosen


def one_after_another(
    waiting: Mapping[Lane, Sequence[tuple[Rank, str]]], limits: Limits, count: int
) -> list[str]:
    """Who goes when each ends before the next is chosen, so that there is one slot each time."""
    left, turns, went = {lane: list(tasks) for lane, tasks in waiting.items()}, dict[Scope, float](), []
    for _ in range(count):
        [uid], now_at = choose(left, Used(turns=turns), limits, NOW, most=1)
        turns |= now_at
        went.append(uid)
        next(tasks for tasks in left.values() if tasks and tasks[0][1] == uid).pop(0)
    return went


@pytest.mark.parametrize(
    ("queue", "first", "second"),
    [
        pytest.param(Queue(ageing=None), (0, 10), (0, 5), id="who waits longer goes first"),
        pytest.param(Queue(ageing=None), (1, 0), (0, 999_999), id="priority first, where nothing ages"),
        pytest.param(Queue(), (1, 0), (0, 59), id="a point of priority is worth a minute"),
        pytest.param(Queue(), (0, 61), (1, 0), id="and no more than a minute"),
        pytest.param(Queue(ageing=timedelta(seconds=5)), (0, 51), (10, 0), id="or as the queue says"),
        pytest.param(
            Queue(max_priority=3), (3, 2), (1000, 1), id="nobody has more than the highest priority"
        ),
        pytest.param(Queue(max_priority=3), (2, 0), (1, 0), id="below it priorities count"),
    ],
)
def test_the_rank_of_tasks(queue: Queue, first: tuple[int, float], second: tuple[int, float]) -> None:
    ranks = [
        rank(queue, priority, ago(waited), uid)
        for uid, (priority, waited) in zip("zy", (first, second), strict=True)
    ]
    assert ranks[0] < ranks[1]


def test_who_is_before_another_stays_so_while_both_wait() -> None:
    """A rank has no time in it, though they age: nothing is ever sorted anew."""
    assert rank(Queue(), 3, ago(10), "a") == rank(Queue(), 3, ago(10), "a")


@pytest.mark.parametrize(
    ("limits", "used", "expected"),
    [
        pytest.param(Limits(), Used(), (), id="nobody goes from a queue that is not there"),
        pytest.param(limits(), Used(), ("1", "2", "3"), id="what limits nothing lets all go"),
        pytest.param(limits(is_paused=True), Used(), (), id="nobody goes while the queue is paused"),
        pytest.param(limits(max_concurrent=2), Used(), ("1", "2"), id="as many as the queue has slots"),
        pytest.param(limits(max_concurrent=2), at_work(B), ("1",), id="less those that are at work"),
        pytest.param(limits(max_concurrent=2), at_work(B, B, B), (), id="none while too many are: it drains"),
        pytest.param(limits(max_per_share=1), at_work(B), ("1",), id="as many as a tenant has slots"),
        pytest.param(limits(max_per_share=1), at_work(A), (), id="none while the tenant has all of its own"),
        pytest.param(
            limits(rate=Rate(2, timedelta(seconds=10))), Used(), ("1", "2"), id="as many as the rate lets"
        ),
        pytest.param(
            limits(rate=Rate(2, timedelta(seconds=10))),
            Used(starts={QUEUE: [ago(11), ago(9)]}),
            ("1",),
            id="less those that the window has in it",
        ),
        pytest.param(
            Limits(queues={QUEUE: Queue()}, operator=1),
            at_work(Lane("other", "x")),
            (),
            id="the operator's own limit",
        ),
    ],
)
def test_how_many_go(limits: Limits, used: Used, expected: tuple[str, ...]) -> None:
    assert who({A: in_order("1", "2", "3")}, used, limits, NOW) == expected


def test_the_limit_of_a_type_holds_over_all_its_queues() -> None:
    one, other = (Lane("ns", name, type=("TaskDefinition", "ns", "resize")) for name in ("q", "default"))
    limits = Limits(queues={QUEUE: Queue()}, types={("TaskDefinition", "ns", "resize"): 3})
    chosen = who(
        {one: in_order("1", "2"), other: in_order("3", "4"), A: in_order("5")}, at_work(one), limits, NOW
    )
    assert "5" in chosen
    assert len(set(chosen) - {"5"}) == 2, "three, of which one is at work"


def test_the_default_queue_is_there_without_an_object() -> None:
    assert who({Lane("ns", "default"): in_order("1")}, Used(), Limits(), NOW) == ("1",)


def test_a_tenant_that_comes_late_goes_within_two_slots() -> None:
    """Five hundred of one tenant before it."""
    waiting = {A: in_order(*(f"a{n:03}" for n in range(500))), B: [((0.0, 1000.0, "b"), "b")]}
    assert "b" in one_after_another(waiting, limits(share_label="team"), 2)
    assert who(waiting, at_work(A, A), limits(max_concurrent=3), NOW) == ("b",)


def test_tenants_share_by_their_weights() -> None:
    waiting = {A: in_order(*"1" * 40), B: in_order(*"2" * 40)}
    weighted = limits(share_label="team", weights={"a": 3}, max_concurrent=8)
    assert Counter(who(waiting, Used(), weighted, NOW)) == {"1": 6, "2": 2}
    assert Counter(one_after_another(waiting, weighted, 40)) == {"1": 30, "2": 10}


def test_whoever_rested_has_saved_one_turn_at_the_most() -> None:
    """A tenant that comes back after a long time does not go alone until it has caught up."""
    turns: dict[Scope, float] = {}
    for _ in range(100):
        race = Race(Used(turns=turns), limits(), NOW)
        race.start(A)
        turns |= race.turns
    waiting = {A: in_order(*(f"a{n}" for n in range(9))), B: in_order(*(f"b{n}" for n in range(9)))}
    went = []
    for _ in range(7):
        [uid], now_at = choose(waiting, Used(turns=turns), limits(), NOW, most=1)
        turns |= now_at
        went.append(uid)
        waiting = {lane: [each for each in tasks if each[1] != uid] for lane, tasks in waiting.items()}
    assert Counter(each[0] for each in went) == {"a": 3, "b": 4}


@pytest.mark.parametrize(
    ("weights", "slots", "first"),
    [
        pytest.param({}, {"a": 1, "b": 0}, "b", id="who has none goes before who has one"),
        pytest.param({}, {"a": 2, "b": 1}, "b", id="who has fewer goes before who has more"),
        pytest.param({"a": 3}, {"a": 2, "b": 1}, "a", id="a share goes by the weight"),
        pytest.param({"a": 3}, {"a": 3, "b": 0}, "b", id="and no further"),
        pytest.param(
            {"a": 3}, {"a": 9, "b": 2}, "b", id="whoever has more than its share waits for all others"
        ),
    ],
)
def test_the_last_slot_goes_to_nobody_who_has_its_share(
    weights: dict[str, int], slots: dict[str, int], first: str
) -> None:
    busy = [Lane("ns", "q", share) for share, count in slots.items() for _ in range(count)]
    waiting = {A: in_order("a"), B: [((0.0, 1.0, "b"), "b")]}
    full = limits(share_label="team", weights=weights, max_concurrent=len(busy) + 1)
    assert who(waiting, at_work(*busy), full, NOW) == (first,)


def test_shares_are_rounded_up() -> None:
    """Of five slots and thirty members nobody has a whole one: all may have one, and take turns."""
    weights = dict.fromkeys(range(30), 1) | {0: 3}
    shares = Shares.of(weights, lambda number: 1 if number < 4 else 0)
    assert [shares.excess(number, slots) for number, slots in ((0, 0), (29, 0))] == [0, 0]
    assert shares.excess(0, 1) == pytest.approx(1 / 3)
    assert shares.excess(29, 1) == 1


def test_namespaces_share_the_operator_by_their_weights() -> None:
    one, two = Lane("one", "default"), Lane("two", "default")
    waiting = {one: in_order(*"1" * 40), two: in_order(*"2" * 40)}
    shared = Limits(operator=9, namespace_weights={"two": 2})
    assert Counter(who(waiting, Used(), shared, NOW)) == {"1": 3, "2": 6}


T = "ClusterTaskDefinition", "", "render"


def starts_one_by_one(waiting: Mapping[Lane, str], busy: list[Lane], limits: Limits, count: int) -> str:
    """Who goes each time when there is room for one more, and it ends before the next one."""
    turns, went = dict[Scope, float](), ""
    for number in range(count):
        tasks = {lane: [((0.0, float(number), name), name)] for lane, name in waiting.items()}
        [uid], now_at = choose(tasks, Used(at_work(*busy).slots, turns), limits, NOW, most=1)
        turns |= now_at
        went += uid
    return went


@pytest.mark.parametrize(
    ("lanes", "busy", "limits"),
    [
        pytest.param(
            (Lane("big", "default", type=T), Lane("small", "default", type=T)),
            [Lane("big", "default")],
            Limits(types={T: 1}),
            id="of a type, between namespaces",
        ),
        pytest.param(
            (Lane("big", "default", type=T), Lane("small", "default", type=T)),
            [Lane("big", "default")],
            Limits(types={T: 1}, operator=9),
            id="of a type, while the operator has many",
        ),
        pytest.param(
            (Lane("ns", "default", type=T), Lane("ns", "q", type=T)),
            [Lane("ns", "default")],
            Limits(queues={QUEUE: Queue()}, types={T: 1}),
            id="of a type, between queues",
        ),
        pytest.param(
            (A, B), [A], limits(rate=Rate(1, timedelta(seconds=9))), id="of a rate, between tenants"
        ),
        pytest.param(
            (A, B),
            [A],
            limits(rate=Rate(1, timedelta(seconds=9)), max_concurrent=9),
            id="of a rate, while the queue has many",
        ),
    ],
)
def test_a_long_task_takes_no_turn(lanes: tuple[Lane, Lane], busy: list[Lane], limits: Limits) -> None:
    """Not where it takes nothing of what the others wait for."""
    went = starts_one_by_one(dict(zip(lanes, ("a", "b"), strict=True)), busy, limits, 100)
    assert Counter(went) == {"a": 50, "b": 50}


@pytest.mark.parametrize(
    ("lanes", "busy", "limits"),
    [
        pytest.param((A, B), [A], limits(max_concurrent=2), id="of a queue, to a tenant"),
        pytest.param(
            (A, B), [A], Limits(queues={QUEUE: Queue()}, operator=2), id="of the operator, to a tenant"
        ),
        pytest.param(
            (A, Lane("ns", "default")),
            [A],
            Limits(queues={QUEUE: Queue()}, operator=2),
            id="of the operator, to a queue",
        ),
        pytest.param(
            (A, Lane("two", "default")),
            [A],
            Limits(queues={QUEUE: Queue()}, operator=2),
            id="of the operator, to a namespace",
        ),
    ],
)
def test_the_last_slot_goes_to_whoever_has_the_fewest(
    lanes: tuple[Lane, Lane], busy: list[Lane], limits: Limits
) -> None:
    """Whoever has long tasks does not come to have all slots."""
    went = starts_one_by_one(dict(zip(lanes, ("a", "b"), strict=True)), busy, limits, 10)
    assert went == "b" * 10


def test_no_more_are_chosen_than_asked_for() -> None:
    waiting = {A: in_order(*"12345"), B: in_order(*"6789")}
    first, _ = choose(waiting, Used(), limits(), NOW, most=4)
    assert sorted(first) == ["1", "2", "6", "7"], "and they are those whose turn it is"
    assert len(who({A: in_order(*map(str, range(999)))}, Used(), limits(), NOW)) == AT_ONCE


@pytest.mark.parametrize(
    ("starts", "more", "expected"),
    [
        pytest.param([], 0, None, id="nobody started"),
        pytest.param([30], 0, None, id="there is room in the window"),
        pytest.param([70, 30], 0, None, id="what is older than the window does not count"),
        pytest.param([50, 30], 0, 10, id="when the first of them leaves the window"),
        pytest.param([50, 30], 1, 30, id="when the second does, if one goes before"),
        pytest.param([30], 1, 30, id="whoever goes now counts"),
        pytest.param([], 2, 60, id="a whole window after those that go now"),
        pytest.param([50, 40, 30], 0, 20, id="a rate that was lowered"),
        pytest.param([50, 30], 2, 70, id="two windows on, when the first of them has left both"),
        pytest.param([30], 4, 120, id="or after those that went in the first"),
        pytest.param([50, 30], -1, None, id="one of them that was to go does not count for itself"),
    ],
)
def test_when_the_rate_lets_another_start(starts: list[float], more: int, expected: float | None) -> None:
    rate = Rate(2, timedelta(seconds=60))
    at = next_start(rate, [ago(each) for each in starts], more, NOW)
    assert at == (NOW + timedelta(seconds=expected) if expected is not None else None)


def test_every_reason_that_holds_is_told_in_order() -> None:
    lane = Lane("ns", "q", "a", ("TaskDefinition", "ns", "resize"))
    everything = Limits(
        queues={
            QUEUE: Queue(
                max_concurrent=2,
                is_paused=True,
                rate=Rate(1, timedelta(seconds=60)),
                share_label="team",
                max_per_share=1,
            )
        },
        types={("TaskDefinition", "ns", "resize"): 2},
        operator=2,
    )
    used = Used(at_work(lane, lane).slots, starts={QUEUE: [ago(20)]})
    told = waits(lane, 7, used, everything, NOW)
    assert [(each.reason, each.message) for each in told] == [
        (Reason.QUEUE_PAUSED, "the queue `q` is paused; number 7 in the queue"),
        (Reason.QUEUE_LIMIT, "the queue `q` has 2 of 2 at work; number 7 in the queue"),
        (Reason.KEY_LIMIT, "`team: a` has 2 of 1 at work; number 7 in the queue"),
        (
            Reason.RATE_LIMIT,
            "the queue `q` starts 1 in 60 s; this one not before 2026-01-01T00:00:40Z; number 7 in the queue",
        ),
        (Reason.TYPE_LIMIT, "the TaskDefinition `resize` has 2 of 2 at work; number 7 in the queue"),
        (Reason.OPERATOR_LIMIT, "the operator has 2 of 2 at work; number 7 in the queue"),
    ]


TYPES = (None, ("TaskDefinition", "n0", "t"), ("ClusterTaskDefinition", "", "t"))
LANES = st.builds(
    Lane,
    st.sampled_from(["n0", "n1"]),
    st.sampled_from(["default", "q"]),
    st.sampled_from("ab"),
    st.sampled_from(TYPES),
)
COUNTS = st.none() | st.integers(0, 4)
QUEUES = st.builds(
    Queue,
    max_concurrent=COUNTS,
    is_paused=st.booleans(),
    rate=st.none() | st.builds(Rate, st.integers(1, 4), st.just(timedelta(seconds=60))),
    weights=st.dictionaries(st.sampled_from("ab"), st.integers(1, 5)),
    max_per_share=COUNTS,
)
LIMITS = st.builds(
    Limits,
    queues=st.dictionaries(
        st.tuples(st.sampled_from(["n0", "n1"]), st.sampled_from(["default", "q"])), QUEUES
    ),
    types=st.dictionaries(st.sampled_from(TYPES[1:]), st.integers(0, 4)),
    operator=COUNTS,
    namespace_weights=st.dictionaries(st.sampled_from(["n0", "n1"]), st.integers(1, 5)),
)
WAITING = st.dictionaries(LANES, st.integers(0, 5), max_size=6)


@given(WAITING, st.lists(LANES, max_size=6), st.lists(st.integers(0, 90), max_size=4), LIMITS)
def test_limits_hold_and_no_slot_is_left_that_somebody_could_use(
    counts: dict[Lane, int], busy: list[Lane], started: list[int], limits: Limits
) -> None:
    waiting = {
        lane: [((float(at), 0.0, f"{number}-{at}"), f"{number}-{at}") for at in range(count)]
        for number, (lane, count) in enumerate(counts.items())
    }
    starts = {(lane.namespace, lane.queue): sorted(ago(each) for each in started) for lane in counts}
    used = Used(at_work(*busy).slots, starts=starts)
    chosen = who(waiting, used, limits, NOW)
    lane_of = {uid: lane for lane, tasks in waiting.items() for _, uid in tasks}
    assert len(set(chosen)) == len(chosen)

    race = Race(used, limits, NOW)
    for uid in chosen:
        assert race.is_open(lane_of[uid]), "each had a slot when it was its turn"
        race.start(lane_of[uid])
    for lane, tasks in waiting.items():
        went = [uid for _, uid in tasks if uid in chosen]
        assert went == [uid for _, uid in tasks][: len(went)], "by rank"
        assert len(went) == len(tasks) or not race.is_open(lane), "whoever stays had no slot"

    after = at_work(*busy, *(lane_of[uid] for uid in chosen)).slots
    for lane in {lane_of[uid] for uid in chosen}:
        for scope in lane.scopes:
            most = limits.of(scope, lane)
            assert most is None or after[scope] <= most
        queue = limits.queue(lane)
        assert queue is not None
        if queue.rate is not None:
            here = sum((lane_of[uid].of_queue == lane.of_queue) for uid in chosen)
            recent = sum(each > NOW - queue.rate.window for each in starts[lane.namespace, lane.queue])
            assert here + recent <= queue.rate.tasks
    assert after[OPERATOR] == len(busy) + len(chosen)
