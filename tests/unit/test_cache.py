"""What the cache believes, in what order."""

from typing import Any

import pytest

from taskyard.cache import Cache
from taskyard.core import manifest, parse
from taskyard.core.model import Snapshot
from taskyard.dirty import Dirty
from tests.unit.build import NOW
from tests.unit.test_parse import POD, TASK, merged

JOB_NAME = manifest.job_name(parse.task(merged(TASK, {"status": {"attempt": 1}})))


def seen(cache: Cache) -> Snapshot:
    snapshot = cache.snapshot("task-uid", claimer="op")
    assert snapshot is not None
    return snapshot


def task(version: int, **status: Any) -> dict[str, Any]:
    return merged(TASK, {"metadata": {"resourceVersion": str(version)}, "status": status})


def pod(version: int, phase: str = "Running") -> dict[str, Any]:
    return merged(POD, {"metadata": {"resourceVersion": str(version)}, "status": {"phase": phase}})


def cache_with(*tasks: dict[str, Any]) -> Cache:
    cache = Cache()
    for each in tasks:
        cache.see_task(each)
    return cache


def test_an_older_task_is_ignored_and_disturbs_nobody() -> None:
    cache = cache_with(task(10, state="Claimed"))
    cache.dirty = Dirty()
    cache.see_task(task(9, state="Pending"))
    cache.see_task(task(10, state="Pending"))
    assert seen(cache).task.status.state == "Claimed"
    assert cache.dirty.is_idle


def test_versions_are_compared_as_numbers() -> None:
    cache = cache_with(task(9, state="Pending"), task(10, state="Claimed"))
    assert seen(cache).task.status.state == "Claimed"


def test_an_older_pod_is_ignored() -> None:
    cache = cache_with(task(1, state="Claimed"))
    cache.see_pod(pod(10, "Succeeded"))
    cache.see_pod(pod(9, "Running"))
    assert [each.phase for each in seen(cache).pods] == ["Succeeded"]


def test_a_pod_that_ended_and_is_gone_stays_as_evidence_until_the_task_is_resolved() -> None:
    cache = cache_with(task(1, state="Running"))
    cache.see_pod(pod(2, "Failed"))
    cache.miss_pod(seen(cache).pods[0])
    assert [(each.phase, each.gone) for each in seen(cache).pods] == [("Failed", True)]
    cache.see_task(task(3, state="Failed"))
    assert seen(cache).pods == ()


def test_a_pod_missing_from_a_list_is_not_revived_by_an_older_event() -> None:
    cache = cache_with(task(1, state="Running"))
    cache.see_pod(pod(2))
    cache.miss_pod(seen(cache).pods[0], moment=5)
    cache.see_pod(pod(2))
    cache.see_pod(pod(4))
    assert [each.gone for each in seen(cache).pods] == [True]


def test_a_pod_wrongly_said_to_be_gone_comes_back_when_it_is_seen() -> None:
    cache = cache_with(task(1, state="Running"))
    cache.see_pod(pod(2))
    cache.miss_pod(seen(cache).pods[0])
    cache.see_pod(pod(2))
    assert [each.gone for each in seen(cache).pods] == [False]


def test_pods_that_come_before_their_task_are_kept_for_it() -> None:
    cache = Cache()
    cache.see_pod(pod(2))
    assert cache.snapshot("task-uid", claimer="op") is None
    cache.see_task(task(1, state="Running"))
    assert len(seen(cache).pods) == 1


def test_a_new_attempt_knows_nothing_of_the_old_ones_job() -> None:
    cache = cache_with(task(1, state="Claimed", attempt=1))
    cache.see_job("task-uid", {"metadata": {"name": JOB_NAME, "uid": "job"}})
    assert seen(cache).job is not None
    cache.see_task(task(2, state="Claimed", attempt=2))
    assert seen(cache).job is None


def test_an_answer_about_an_older_attempts_job_is_ignored() -> None:
    cache = cache_with(task(1, state="Claimed", attempt=2))
    cache.see_job("task-uid", {"metadata": {"name": JOB_NAME, "uid": "job"}})
    assert seen(cache).job is None


def test_a_pod_of_another_namespace_has_no_say_whatever_its_labels() -> None:
    cache = cache_with(task(10, state="Claimed", attempt=3))
    cache.see_pod(merged(pod(11, "Succeeded"), {"metadata": {"namespace": "of-somebody-else"}}))
    assert seen(cache).pods == ()


def test_an_object_that_makes_no_sense_leaves_no_trace() -> None:
    cache = Cache()
    with pytest.raises(ValueError, match="Bogus"):
        cache.see_task(task(10, state="Bogus"))
    assert cache.snapshot("task-uid", claimer="op") is None
    assert cache.dirty.is_idle


def test_a_deletion_is_only_a_hint() -> None:
    cache = cache_with(task(1))
    cache.miss_task("task-uid")
    assert seen(cache).vanished
    cache.found_task("task-uid")
    assert not seen(cache).vanished


def test_a_forgotten_task_leaves_nothing_but_its_living_pods() -> None:
    cache = cache_with(task(1, state="Running"))
    cache.see_pod(pod(2))
    cache.forget_task("task-uid", NOW)
    assert list(cache.tasks()) == []
    [orphan] = cache.pods()
    cache.miss_pod(orphan)
    assert list(cache.pods()) == []
    assert cache._entries == {}


def test_of_earlier_attempts_only_pods_that_live_are_remembered() -> None:
    cache = cache_with(task(1, state="Claimed", attempt=3))
    cache.see_pod(pod(2, "Failed"))
    assert len(seen(cache).pods) == 1
    cache.see_task(task(3, state="Claimed", attempt=4))
    assert seen(cache).pods == ()
    cache.see_pod(pod(4, "Failed"))
    assert seen(cache).pods == ()


def test_a_finished_pod_of_a_resolved_task_disturbs_nobody() -> None:
    cache = cache_with(task(1, state="Completed", attempt=3))
    cache.dirty = Dirty()
    cache.see_pod(pod(2, "Succeeded"))
    assert cache.dirty.is_idle
