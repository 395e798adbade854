"""Waiting: longer each time, and never in step."""

from taskyard.backoff import LONGEST, Pace, about, delay


def test_each_failure_waits_longer_up_to_a_limit() -> None:
    for failures, longest in [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (1000, 30.0)]:
        waits = [delay(failures) for _ in range(200)]
        assert longest / 2 <= min(waits) < max(waits) <= longest
        assert len(set(waits)) > 100, "no two keep step"


def test_an_interval_varies_by_a_tenth() -> None:
    waits = [about(300) for _ in range(200)]
    assert 270 <= min(waits) < max(waits) <= 330
    assert len(set(waits)) > 100


def test_what_lasts_is_asked_for_again_at_once() -> None:
    pace = Pace()
    assert [pace.hold_back(now) for now in (0.0, 300.0, 600.0, 610.0)] == [0.0] * 4


def test_what_ends_once_in_a_while_is_asked_for_again_at_once() -> None:
    pace = Pace()
    assert [pace.hold_back(now) for now in (0.0, 1.0, 20.0, 21.0)] == [0.0] * 4


def test_what_ends_at_once_each_time_is_asked_for_ever_more_rarely() -> None:
    pace, now, asked = Pace(), 0.0, 0
    while now < 3600:
        now += pace.hold_back(now)
        asked += 1
    assert asked < 3600 / (LONGEST / 2) + 10


def test_one_that_recovers_is_no_longer_held_back() -> None:
    pace = Pace()
    for _ in range(20):
        pace.hold_back(0.0)
    assert pace.hold_back(1000.0) == 0.0


def test_whoever_waited_in_vain_goes_at_once_the_next_time_and_only_then() -> None:
    pace = Pace()
    for _ in range(10):
        pace.hold_back(0.0)
    pace.was_not_sent()
    assert pace.hold_back(1.0) == 0.0
    assert pace.hold_back(1.5) > 0.0
