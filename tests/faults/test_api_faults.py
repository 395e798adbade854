"""K3: answers that are late, lost, wrong or refused, and watches that are cut, gone, deaf or frozen.

The operator talks to the real API server through a proxy that does all that to them.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from types import TracebackType
from typing import Any, Self

import pytest

from tests.faults.operator import Operator, Place, free_port
from tests.faults.proxy import Answer, Delay, Fault, Lose, Proxy, Request, RequestFault, Tamper
from tests.kube import UNTIL_TOLD, History, Kubectl, nowhere, of_run, task

JSON = dict[str, Any]

BUSY = Answer(429, "TooManyRequests", retry_after=1)
BROKEN = Answer(500, "InternalError")
AWAY = Answer(503, "ServiceUnavailable")
CONFLICT = Answer(409, "Conflict")
EXPIRED = Answer(410, "Expired")

OFTEN = 2
"""Seconds from list to list, where lists are to repair something soon."""


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    """Pages have two objects, so that every list has several."""
    with Proxy(place.kubeconfig, place.folder, page_size=2) as proxy:
        yield proxy


@pytest.fixture
def behind(place: Place, proxy: Proxy) -> Place:
    """The test's namespace, for operators that know the proxy only."""
    return Place(proxy.kubeconfig, place.namespace, place.folder)


class Rain:
    """A share of all requests and events goes wrong, in every way there is."""

    def __init__(self, seed: int, share: float) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - weather
        self._share = share

    def on_request(self, request: Request) -> RequestFault:
        if self._chance.random() > self._share:
            return None
        any_time: list[RequestFault] = [BUSY, BROKEN, AWAY, Fault.CUT, Delay(0.5)]
        if request.verb == "watch":
            return self._chance.choice([*any_time, Fault.GONE])
        if request.is_continued:
            return self._chance.choice([*any_time, EXPIRED])
        if request.is_write:
            return self._chance.choice([*any_time, CONFLICT, Lose(), Lose(BROKEN)])
        return self._chance.choice(any_time)

    def on_event(self, request: Request, event: JSON) -> Fault | None:
        if self._chance.random() > self._share:
            return None
        return self._chance.choice([Fault.CUT, Fault.GONE, Fault.SWALLOW])


class Kubelet:
    """Starts an operator again that has ended by itself; as long as the block lasts."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="kubelet", daemon=True)
        self.restarts: list[int | str] = []

    def __enter__(self) -> Self:
        self._operator.start(until="leading")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._operator.stop(is_unwell=True)

    def _look_after(self) -> None:
        while not self._over.is_set():
            try:
                self.restarts.append(self._operator.died(within=0.5))
            except AssertionError:  # it lives
                continue
            self._operator.start(until="leading")


# What goes wrong now and then, all of it at once


def test_a_rain_of_faults_changes_no_verdict(
    kubectl: Kubectl, behind: Place, proxy: Proxy, history: History
) -> None:
    """A third of all requests and events: each run has run once, and nobody was asked for ever."""
    kubectl.create(
        task("plain", "exit 0"),
        task("again", '[ "$TASKYARD_RETRY" = 1 ]', retry={"limit": 3}),
        task("fails", "exit 3"),
        task("told", UNTIL_TOLD),
        task("passes", "exit 0", ttlSecondsAfterFinished=1),
        nowhere(task("waits", "exit 0")),
    )
    rain = Rain(seed=5, share=1 / 3)
    proxy.fault, proxy.event_fault = rain.on_request, rain.on_event
    with Kubelet(behind.operator(relist_seconds=OFTEN)) as kubelet:
        kubectl.until("told", "Running")
        kubectl.edit("told", cancel=True)
        kubectl.edit("waits", cancel=True)
        history.gone("passes")
        found = kubectl.finished()
    assert {name: (status["state"], of_run(status, "state")) for name, status in found.items()} == {
        "plain": ("Completed", [("Completed",)]),
        "again": ("Completed", [("Failed",), ("Completed",)]),
        "fails": ("Failed", [("Failed",)]),
        "told": ("Cancelled", [("Cancelled",)]),
        "waits": ("Cancelled", []),
    }
    [passed] = [each for each in history.statuses("passes") if each["phase"] == "Finished"][-1:]
    assert (passed["state"], passed["runCount"], passed["attempt"]) == ("Completed", 1, 1)
    pods = attempts_and_pods(kubectl)
    assert pods.pop("waits", [0]) == [0], "stopped before it had a Job, or while that had no node"
    assert pods == {"plain": [1], "again": [1, 1], "fails": [1], "told": [1]}
    assert set(kubelet.restarts) <= {1}, "it ends by itself when it must, and says so"
    assert proxy.count() < 1500, "no storm"


def attempts_and_pods(kubectl: Kubectl) -> dict[str, list[int]]:
    """How many pods each Job has, by Task. Jobs outlive the verdict, and pods their Jobs never."""
    pods = kubectl.get("pods")["items"]
    owners = [each["metadata"]["ownerReferences"][0]["uid"] for each in pods]
    found: dict[str, list[int]] = {}
    for job in kubectl.get("jobs", "--sort-by=.metadata.creationTimestamp")["items"]:
        name = job["metadata"]["ownerReferences"][0]["name"]
        found.setdefault(name, []).append(owners.count(job["metadata"]["uid"]))
    return found


# What goes wrong every time, one at a time


def test_a_write_whose_answer_is_lost_is_done_once(kubectl: Kubectl, behind: Place, proxy: Proxy) -> None:
    """Each write of the operator happens, and nobody tells it so."""
    kubectl.create(task("it", '[ "$TASKYARD_RETRY" = 1 ]', retry={"limit": 1}))
    lost: set[bytes] = set()

    def lose_the_first(request: Request) -> RequestFault:
        about = b"%a %a %a" % (request.verb, request.resource, state_of(request))
        if not request.is_write or about in lost:
            return None
        lost.add(about)
        return Lose()

    proxy.fault = lose_the_first
    with behind.running(relist_seconds=OFTEN):
        status = kubectl.wait("it")["status"]
    assert of_run(status, "state") == [("Failed",), ("Completed",)]
    assert (status["runCount"], status["retryCount"], status["attempt"]) == (2, 1, 2)
    assert attempts_and_pods(kubectl) == {"it": [1, 1]}
    assert len(lost) >= 6, "lease, event, Job, and each state of the Task"


def state_of(request: Request) -> str | None:
    """The state that a write of a status writes."""
    if request.resource != "tasks/status":
        return None
    return next((each["value"] for each in json.loads(request.body) if each["path"] == "/status/state"), None)


def test_a_status_that_is_refused_stops_nobody_else(kubectl: Kubectl, behind: Place, proxy: Proxy) -> None:
    """422, from the real CRD, about one Task; it goes on as soon as its status is accepted."""

    def spoil(request: Request) -> RequestFault:
        if request.name == "refused" and state_of(request) == "Claimed":
            return Tamper(request.body.replace(b'"Claimed"', b'"Nonsense"'))
        return None

    proxy.fault = spoil
    with behind.running() as operator:
        kubectl.create(nowhere(task("refused", "exit 0")))
        kubectl.eventually("it was refused", lambda: refusals(operator))
        kubectl.create(nowhere(task("accepted", "exit 0")))
        kubectl.until("accepted", "Claimed")
        kubectl.eventually("it was refused again", lambda: len(refusals(operator)) >= 4)
        waits = [line["after"] for line in refusals(operator)]
        assert all(wait >= 0.25 * 2**n for n, wait in enumerate(waits)), "longer each time"
        proxy.fault = lambda _: None
        kubectl.until("refused", "Claimed")


def refusals(operator: Operator) -> list[JSON]:
    return [
        line for line in operator.said("will try again") if 'Unsupported value: "Nonsense"' in line["why"]
    ]


@pytest.mark.parametrize(
    "answer", [BROKEN, AWAY, BUSY, CONFLICT], ids=lambda answer: f"{answer.code} {answer.reason}"
)
def test_many_tasks_that_fail_together_make_no_storm(
    kubectl: Kubectl, behind: Place, proxy: Proxy, answer: Answer
) -> None:
    count = 40
    kubectl.create(*[nowhere(task(f"it-{n}", "exit 0")) for n in range(count)])
    proxy.fault = lambda request: answer if request.resource in {"tasks/status", "jobs"} else None
    with behind.running() as operator:
        kubectl.eventually("each was tried", lambda: len(refused(operator)) == count)
        kubectl.eventually("some waited long", lambda: longest_wait(operator) >= 5)
        tried = proxy.count("patch", "tasks/status")
        proxy.fault = lambda _: None
        kubectl("wait", "--for=jsonpath={.status.state}=Claimed", "tasks", "--all", "--timeout=120s")
    assert tried < 10 * count


def refused(operator: Operator) -> set[str]:
    return {line["uid"] for line in operator.said("will try again")}


def longest_wait(operator: Operator) -> float:
    return max((line["after"] for line in operator.said("will try again")), default=0.0)


# Watches


def test_deletions_that_no_watch_told_are_found_by_a_list(
    kubectl: Kubectl, behind: Place, proxy: Proxy
) -> None:
    """Of a Task, and of the pod of another."""
    only_once = f'[ "$TASKYARD_RUN" = 1 ] || {{ {UNTIL_TOLD}; }}'
    kubectl.create(nowhere(task("goes", "exit 0")), task("loses", only_once))
    with behind.running(relist_seconds=OFTEN) as operator:
        kubectl.until("goes", "Claimed")
        kubectl.until("loses", "Running")
        goes, loses = kubectl.get("task", "goes"), kubectl.status("loses")["runs"][0]["pod"]

        def swallow(_: Request, event: JSON) -> Fault | None:
            return Fault.SWALLOW if event["object"]["metadata"].get("name") in {"goes", loses} else None

        proxy.event_fault = swallow
        kubectl("delete", "task", "goes", "--wait=false")
        kubectl("delete", "pod", loses, "--force", "--grace-period=0", "--wait=false")
        kubectl.eventually(
            "the Task is missed",
            lambda: goes["metadata"]["uid"] in {line["uid"] for line in operator.said("task is gone")},
        )
        status = kubectl.wait("loses")["status"]
    assert of_run(status, "state", "reason") == [("Exception", "WorkerLost"), ("Completed", None)]
    assert (status["lossCount"], status["retryCount"]) == (1, 0)
    assert operator.said("a watch is stale") == []


def test_a_list_that_expires_half_way_is_begun_anew(kubectl: Kubectl, behind: Place, proxy: Proxy) -> None:
    """`410 Gone` to a later page: the operator's own list when it starts, and kopf's; neither ends it."""
    kubectl.create(*[nowhere(task(f"it-{n}", "exit 0")) for n in range(5)])
    expired: dict[tuple[str, str], int] = {}

    def expire(request: Request) -> RequestFault:
        about = (request.resource, request.client)
        if not request.is_continued or expired.get(about, 0) >= 2:
            return None
        expired[about] = expired.get(about, 0) + 1
        return EXPIRED

    proxy.fault = expire
    with behind.running(relist_seconds=OFTEN) as operator:
        kubectl("wait", "--for=jsonpath={.status.state}=Claimed", "tasks", "--all", "--timeout=120s")
        kubectl.eventually("both were told so twice", lambda: sorted(expired.values())[-2:] == [2, 2])
        kubectl.create(nowhere(task("later", "exit 0")))
        kubectl.until("later", "Claimed")
        assert operator.said("stopped") == []


def test_an_operator_starts_however_its_first_lists_are_answered(
    kubectl: Kubectl, behind: Place, proxy: Proxy
) -> None:
    kubectl.create(*[nowhere(task(f"it-{n}", "exit 0")) for n in range(5)])
    answers = iter([BROKEN, None, EXPIRED, BUSY, Fault.CUT, None, AWAY])
    proxy.fault = lambda request: next(answers, None) if request.verb == "list" else None
    with behind.running() as operator:
        kubectl("wait", "--for=jsonpath={.status.state}=Claimed", "tasks", "--all", "--timeout=120s")
        assert len(operator.said("could not list everything, will try again")) >= 4
        assert operator.said("stopped") == []
    assert proxy.count("list", "tasks") < 30


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.GONE, BROKEN, BUSY, Answer(401, "Unauthorized")], ids=str)
def test_watches_that_end_at_once_make_no_storm_and_lists_do_their_work(
    kubectl: Kubectl, behind: Place, proxy: Proxy, fault: Fault | Answer
) -> None:
    proxy.fault = lambda request: fault if request.verb == "watch" else None
    with behind.running(relist_seconds=OFTEN) as operator:
        for number in range(3):
            kubectl.create(nowhere(task(f"it-{number}", "exit 0")))
            kubectl.until(f"it-{number}", "Claimed")
        lists = len(operator.said("listed"))
        kubectl.eventually("many lists went by", lambda: len(operator.said("listed")) >= lists + 5)
        tried = proxy.count("watch")
        assert 4 <= tried < 40
        assert operator.said("stopped") == []
        proxy.fault = lambda _: None
        kubectl.eventually("all watches are back", lambda: proxy.count("watch") >= tried + 2)


def test_a_watch_that_breaks_ends_the_process_and_the_next_one_goes_on(
    kubectl: Kubectl, behind: Place, proxy: Proxy
) -> None:
    """Of an error other than `410 Gone` kopf does not recover; a new process does."""
    kubectl.create(task("it", UNTIL_TOLD))
    with behind.running() as operator:
        kubectl.until("it", "Running")
        proxy.event_fault = lambda request, _: Fault.BREAK if request.resource == "tasks" else None
        kubectl("label", "task", "it", "something=new")
        assert operator.died() == 1
        proxy.event_fault = lambda *_: None
        kubectl.edit("it", cancel=True)
        operator.start()
        status = kubectl.wait("it")["status"]
    assert of_run(status, "state") == [("Cancelled",)]
    assert attempts_and_pods(kubectl) == {"it": [1]}


@pytest.mark.parametrize("resource", ["tasks", "pods"])
def test_a_frozen_watch_is_found_out_and_a_restart_cures_it(
    kubectl: Kubectl, behind: Place, proxy: Proxy, resource: str
) -> None:
    """Its connection is open, and nothing comes. Work goes on by lists, and liveness says what is wrong."""
    port = free_port()
    with behind.running(relist_seconds=OFTEN, health_port=port) as operator:
        kubectl.create(nowhere(task("before", "exit 0")))
        kubectl.until("before", "Claimed")
        assert probe(port) == (200, "ok")
        frozen = [Fault.FREEZE]
        proxy.event_fault = lambda request, _: frozen[0] if frozen and request.resource == resource else None
        kubectl.create(nowhere(task("during", "exit 0")))
        kubectl.until("during", "Claimed")
        sentence = f"the watch of {resource} in {kubectl.namespace} does not tell what a list shows"
        kubectl.eventually("liveness fails", lambda: probe(port) == (503, sentence))
        assert len(operator.said("a watch is stale")) == 1
        operator.kill()  # as a kubelet does then
        frozen.clear()
        operator.start()
        kubectl.create(nowhere(task("after", "exit 0")))
        kubectl.until("after", "Claimed")
        lists = len(operator.said("listed"))
        kubectl.eventually("some lists went by", lambda: len(operator.said("listed")) >= lists + 4)
        assert probe(port) == (200, "ok")
        assert operator.said("a watch is silent, listing anew") == []


def test_whoever_has_nothing_to_do_is_well(kubectl: Kubectl, behind: Place, proxy: Proxy) -> None:
    """No event for several times as long as a watch may be silent; leading, and standing by."""
    kubectl.create(nowhere(task("rests", "exit 0", suspend=True)), nowhere(task("waits", "exit 0")))
    ports = free_port(), free_port()
    other = behind.operator(identity="stands-by", relist_seconds=1, health_port=ports[1])
    with behind.running(identity="leads", relist_seconds=1, health_port=ports[0]) as leader:
        other.start(until="standing by")
        kubectl.until("waits", "Claimed")
        kubectl.eventually("many lists went by", lambda: len(leader.said("listed")) >= 20)
        assert [probe(port) for port in ports] == [(200, "ok"), (200, "ok")]
        assert leader.said("a watch is silent, listing anew") == []
        assert other.said("listed") == []
        other.stop()
        with closing(http.client.HTTPConnection("127.0.0.1", ports[0], timeout=5)) as scraping:
            scraping.request("GET", "/metrics")
            assert scraping.getresponse().read()
            # A second to look around, and not five more for a connection that is kept.
            assert leader.stop() < 5


def probe(port: int) -> tuple[int, str]:
    """What a kubelet sees of the operator."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode().strip()
