"""What the benchmark makes of what it reads: the parts of it that need no cluster."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import pytest

from bench import chart, exposition, results, table, targets
from bench.exposition import Request
from bench.figures import Latencies, Spread, apart, percentile, rise
from bench.processes import TICK, Memory, Stat, busy_seconds, stolen_seconds, tree
from bench.soak import COMPACTED_EVERY, Sample, growth
from bench.targets import TARGETS, Target
from bench.watcher import Watcher

PAGE = """\
# HELP apiserver_request_total [STABLE] Counter of apiserver requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="tasks",subresource="status",verb="PATCH",version="v1alpha1"} 12
apiserver_request_total{code="409",resource="tasks",subresource="status",verb="PATCH",version="v1alpha1"} 2
apiserver_request_total{code="201",resource="jobs",subresource="",verb="POST",version="v1"} 1.3e+01
apiserver_request_total{code="201",resource="tasks",subresource="",verb="POST",version="v1alpha1"} 4
apiserver_request_total{code="200",resource="",subresource="/readyz",verb="GET",version=""} 7
apiserver_request_total_of_something_else{code="200",resource="tasks",verb="GET"} 99
etcd_mvcc_db_total_size_in_bytes 2.097152e+06
with_a_time{a="b \\"c\\", d"} 5 1700000000000
"""


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        pytest.param([], 0.5, None, id="nothing measured has none"),
        pytest.param([3.0], 0.99, 3.0, id="one value is every percentile"),
        pytest.param([1.0, 2.0, 3.0, 4.0], 0.50, 2.0, id="half of them do not exceed it"),
        pytest.param([float(each) for each in range(1, 101)], 0.99, 99.0, id="the last but one of a hundred"),
        pytest.param([1.0, 2.0], 0.0, 1.0, id="never less than the first"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(
    values: list[float], share: float, expected: float | None
) -> None:
    assert percentile(values, share) == expected


def test_latencies_are_of_what_happened() -> None:
    assert Latencies.of([0.3, None, 0.1, 0.2]) == Latencies(3, 0.2, 0.3, 0.3)
    assert Latencies.of([None]) == Latencies(0, None, None, None)
    assert (apart(1.0, 1.5), apart(None, 1.5), apart(1.0, None)) == (0.5, None, None)


def test_repeats_have_a_median_and_two_ends() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread.of([None]) is None
    assert rise({"a": 1.0, "gone": 5.0}, {"a": 3.0, "new": 7.0}) == {"a": 2.0}


def test_requests_are_counted_by_verb_resource_and_code() -> None:
    assert exposition.requests(PAGE) == Counter(
        {
            Request("PATCH", "tasks/status", "200"): 12,
            Request("PATCH", "tasks/status", "409"): 2,
            Request("POST", "jobs", "201"): 13,
            Request("POST", "tasks", "201"): 4,
            Request("GET", "/readyz", "200"): 7,
        }
    )


def test_writes_of_the_operator_are_those_that_nobody_else_makes() -> None:
    found = exposition.requests(PAGE)
    assert exposition.task_writes(found) == 12 + 2 + 13
    assert exposition.conflicts(found) == 2


def test_a_value_is_the_sum_of_its_series() -> None:
    assert exposition.value(PAGE, "etcd_mvcc_db_total_size_in_bytes") == 2 * 2**20
    assert exposition.value(PAGE, "with_a_time") == 5
    assert exposition.value(PAGE, "with_a") is None


def test_labels_may_hold_quotes_and_commas() -> None:
    [(labels, _)] = exposition.samples(PAGE, "with_a_time")
    assert labels == {"a": 'b \\"c\\", d'}


def test_objects_are_counted_under_the_old_name_of_the_metric_and_the_new() -> None:
    old = 'apiserver_storage_objects{resource="jobs.batch"} 3\n'
    new = 'apiserver_resource_objects{group="batch",resource="jobs"} 3\n'
    assert exposition.stored(old) == exposition.stored(new) == {"jobs.batch": 3}
    assert exposition.stored('apiserver_resource_objects{group="",resource="pods"} 2') == {"pods": 2}


def test_the_cpu_of_a_process_includes_its_children_that_have_ended() -> None:
    # pid (name) state ppid …: the name may hold anything; utime, stime, cutime and cstime are 14 to 17
    line = "7 (a) b) c) S 5 7 7 0 -1 4194304 1 2 3 4 100 20 3 1 20 0 1 0 900 1 2"
    found = Stat.of(line)
    assert found.parent == 5
    assert found.seconds == pytest.approx(124 * TICK)


def test_a_tree_is_a_process_and_all_below_it() -> None:
    assert tree([2], {2: 1, 3: 2, 4: 3, 5: 1}) == {2, 3, 4}
    assert tree([9], {}) == {9}


def test_memory_is_told_in_mib() -> None:
    assert Memory.of("Name:\tx\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\n") == Memory(now=2.0, peak=4.0)
    assert Memory.of("") == Memory(0.0, 0.0), "one that has ended has none"


def test_what_all_processors_did_leaves_out_idling_and_what_was_stolen() -> None:
    stat = "cpu  100 2 30 4000 50 6 7 80 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
    assert busy_seconds(stat) == pytest.approx((100 + 2 + 30 + 6 + 7) * TICK)
    assert stolen_seconds(stat) == pytest.approx(80 * TICK)


# --- the watcher ------------------------------------------------------------------------------------------


def seen(
    kind: str, name: str, status: dict[str, Any], of: str = "", word: str = "MODIFIED"
) -> dict[str, Any]:
    labels = {"taskyard.dev/task": of} if of else {"job-name": name}
    metadata = {"name": name, "uid": f"uid-of-{name}", "labels": {} if kind == "Task" else labels}
    return {"type": word, "object": {"metadata": metadata, "status": status}}


def test_a_task_lives_from_its_submission_to_its_verdict() -> None:
    watcher = Watcher()
    watcher.lives["t"].submitted = 1.0
    watcher.take("Task", seen("Task", "t", {}, word="ADDED"), 2.0)
    watcher.take("Task", seen("Task", "t", {"state": "Claimed", "attempt": 1}), 3.0)
    watcher.take("Job", seen("Job", "j", {}, of="t", word="ADDED"), 4.0)
    watcher.take("Pod", seen("Pod", "p", {"phase": "Pending"}, of="t", word="ADDED"), 5.0)
    for moment in (6.0, 6.5):  # the second event takes the finalizer off
        watcher.take("Pod", seen("Pod", "p", {"phase": "Succeeded"}, of="t"), moment)
    assert watcher.finished == 0
    for moment in (7.0, 8.0):
        status = {"state": "Completed", "phase": "Finished", "attempt": 1}
        watcher.take("Task", seen("Task", "t", status), moment)
    life = watcher.lives["t"]
    found = (life.seen, life.claimed, life.job_seen, life.pod_seen, life.pod_ended, life.finished)
    assert found == (2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    assert (life.state, life.writes, life.duplicates) == ("Completed", 3, 0)
    assert (watcher.finished, watcher.known, watcher.claims) == (1, 1, 1)


def test_the_pods_of_retries_end_one_after_another() -> None:
    watcher = Watcher()
    for number in (1, 2):
        watcher.take("Job", seen("Job", f"j{number}", {}, of="t"), float(number))
        watcher.take("Pod", seen("Pod", f"p{number}", {"phase": "Failed"}, of="t"), number + 0.5)
    watcher.take("Task", seen("Task", "t", {"state": "Failed", "phase": "Finished", "attempt": 2}), 9.0)
    assert watcher.lives["t"].pod_ended == 2.5
    assert watcher.lives["t"].duplicates == 0
    watcher.take("Job", seen("Job", "j3", {}, of="t"), 10.0)
    assert watcher.lives["t"].duplicates == 1, "a Job more than there were attempts"


def test_a_raw_job_has_ended_when_it_says_so_itself() -> None:
    watcher = Watcher()
    watcher.take("Job", seen("Job", "j", {}, word="ADDED"), 1.0)
    watcher.take("Pod", seen("Pod", "j", {"phase": "Succeeded"}), 2.0)
    conditions = [{"type": "SuccessCriteriaMet", "status": "True"}]
    watcher.take("Job", seen("Job", "j", {"conditions": conditions}), 3.0)
    assert watcher.finished == 0
    conditions = [*conditions, {"type": "Complete", "status": "True"}]
    watcher.take("Job", seen("Job", "j", {"conditions": conditions}), 4.0)
    life = watcher.lives["j"]
    assert (life.job_seen, life.pod_ended, life.finished, life.state) == (1.0, 2.0, 4.0, "Complete")


# --- targets, table, chart --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at_least", "figure", "verdict"),
    [
        pytest.param(False, 5.0, "met, and the aim", id="less than the aim"),
        pytest.param(False, 10.0, "met", id="the limit itself will do"),
        pytest.param(False, 10.1, "MISSED", id="more than the limit"),
        pytest.param(True, 10.0, "met", id="at least the limit"),
        pytest.param(True, 5.0, "MISSED", id="less than at least"),
        pytest.param(True, None, "not measured", id="not measured is neither"),
    ],
)
def test_a_target_is_met_or_missed(at_least: bool, figure: float | None, verdict: str) -> None:
    target = Target("x", "something", 10, 15 if at_least else 6, at_least=at_least)
    assert target.verdict(figure) == verdict


def test_only_what_was_measured_can_be_missed() -> None:
    assert targets.missed({}) == []
    assert [each.figure for each in targets.missed({"growth": 1.3, "duplicates": 0})] == ["growth"]


def test_every_target_has_a_name_of_its_own() -> None:
    assert len({each.figure for each in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.1234, "0.12"), (9.999, "10.0"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    assert table.number(value) == text


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    assert table.laid_out([["what", "a", "b"], ["long name", "1", "22"]]) == (
        "what       a   b\n─────────  ─  ──\nlong name  1  22"
    )


def run(what: str, rate: float, **more: Any) -> dict[str, Any]:
    latency = {"count": 1, "p50": 0.01, "p99": 0.02, "most": 0.02}
    names = ("submit_to_job", "submit_to_verdict", "pod_to_verdict", "watch_lag", "operator_lag", "our_lag")
    cpu = {"apiserver": 20.0, "harness": 2.0, "others": 1.0} | (
        {"operator": 6.0} if what == "Taskyard" else {}
    )
    found = {"what": what, "count": 500, "seconds": 10.0, "rate": rate, "pods_rate": rate, "cpu_ms": cpu}
    found |= {
        "cpu_ms_afterwards": {"apiserver": 1.0},
        "writes_a_task": 4.0,
        "requests_a_task": {"POST jobs": 1.0},
    }
    found |= {"conflicts": 0, "duplicates": 0, "peak_memory": None, "states": {"Completed": 500}}
    return found | dict.fromkeys(names, latency) | more


def everything() -> dict[str, Any]:
    throughput = {
        "500": {
            "raw Jobs": [run("raw Jobs", rate) for rate in (40.0, 20.0, 50.0)],
            "Taskyard": [run("Taskyard", rate) for rate in (36.0, 16.0, 20.0)],
        }
    }
    idle = {what: run(what, 1.0) for what in ("raw Jobs", "Taskyard")}
    storm = {"run": run("Taskyard", 9.0, duplicates=1)}
    return {"throughput": throughput, "idle": idle, "scenarios": {"retry storm": storm}}


def test_a_ratio_is_that_of_runs_side_by_side() -> None:
    """The median of 0.9, 0.8 and 0.4: not the ratio of the medians."""
    assert results.figures(everything())["ratio_500"] == pytest.approx(0.8)


def test_figures_are_told_of_what_was_measured_only() -> None:
    found = results.figures(everything())
    assert found["pod_to_verdict_ms"] == pytest.approx(10)
    assert found["duplicates"] == 1, "of the scenarios, too"
    assert not {"ratio_2000", "growth", "cold_start_s"} & found.keys()


def test_a_run_beside_which_others_worked_is_named() -> None:
    found = everything() | {"processors": 2}
    quiet, busy = {"others": 4.0, "stolen": 0.0}, {"others": 4.0, "stolen": 30.0}
    for runs in found["throughput"]["500"].values():
        for each in runs:
            each["cpu_ms"] = quiet
    found["throughput"]["500"]["Taskyard"][1]["cpu_ms"] = busy
    found["scenarios"]["retry storm"]["run"]["cpu_ms"] = quiet
    windows = [{"strangers": 0.1}, {"strangers": 1.0}]
    found["scenarios"]["long line"] = {"short": windows[:1], "long": windows}
    assert results.disturbed(found) == ["Taskyard, 500, repeat 2: 85%", "long line, long, window 2: 50%"]


def test_every_table_can_be_told() -> None:
    found = everything()
    found["figures"] = results.figures(found)
    text = "\n".join(table.everything(found))
    assert "36 (" not in text
    assert "20 (16 to 36)" in text, "a median between its ends"
    assert "MISSED" in text
    assert table.in_all(found["throughput"]["500"]["Taskyard"][0]["cpu_ms"]) == 26


def test_the_chart_is_whole_and_names_what_it_shows() -> None:
    drawn = chart.chart(everything()["throughput"], "a & b")
    texts = [each.text for each in ET.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314
    assert {"raw Jobs", "Taskyard", "500", "tasks a second", "a & b"} <= set(texts)


# --- soak -------------------------------------------------------------------------------------------------


def sample(at: float, used: float) -> Sample:
    return Sample(at, used, used, used, used, 0, {})


def test_growth_is_the_most_of_the_last_quarter_by_that_of_the_second() -> None:
    used = [90.0, 10.0, 5.0, 10.0, 99.0, 99.0, 12.0, 8.0]
    assert growth([sample(at * COMPACTED_EVERY, each) for at, each in enumerate(used)], "etcd_in_use") == 1.2


def test_what_was_too_short_is_not_judged() -> None:
    assert growth([sample(1, 1)], "operator") is None
    short = [sample(at * 10.0, 1.0) for at in range(8)]
    assert (growth(short, "operator"), growth(short, "etcd_in_use")) == (1.0, None)
