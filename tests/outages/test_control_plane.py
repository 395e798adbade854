"""The API server away for a minute, etcd killed and started again: nothing is lost, nothing twice, and no storm."""

from __future__ import annotations

import time

import pytest

from tests.faults.operator import Place
from tests.faults.proxy import Proxy
from tests.kube import JSON, Kubectl, of_run
from tests.outages.diary import Diary
from tests.outages.machinery import Machinery
from tests.outages.upkeep import kept_up

REQUESTS_A_SECOND = 5.0
AT_FIRST = 20
"""What an operator with half a dozen tasks may ask when nobody answers, and when somebody does again: so much a second,
and as much as in so many seconds more.
"""


def tasks_under_way(kubectl: Kubectl, diary: Diary, middle: int) -> None:
    """Some that are at work or wait for a clock, which strikes so many seconds from now: within the outage."""
    kubectl.create(
        diary.noter("retries", "exit $((TASKYARD_RUN == 0))", retry={"limit": 1, "delaySeconds": middle}),
        diary.noter("ends", "until [ -e /diary/may-end ]; do sleep 0.5; done"),
        diary.noter("is-timed", "trap 'exit 143' TERM; sleep 600 & wait", timeoutSeconds=middle),
    )
    kubectl.until("ends", "Running")
    kubectl.until("is-timed", "Running")
    kubectl.until("retries", "Delayed")
    kubectl.create(
        diary.noter("is-delayed", "exit 0", startDelaySeconds=middle),
        diary.noter("expires", "exit 0", suspend=True, goodForSeconds=middle),
        diary.noter("is-fresh", "exit 0"),
    )


def check_outcomes(found: dict[str, JSON], diary: Diary) -> None:
    """Each is resolved as if nothing had happened, and each of its runs was at work once."""
    assert {name: status["state"] for name, status in found.items()} == {
        "retries": "Completed",
        "ends": "Completed",
        "is-timed": "Failed",
        "is-delayed": "Completed",
        "expires": "Expired",
        "is-fresh": "Completed",
    }
    assert found["is-timed"]["reason"] == "Timeout"
    assert of_run(found["retries"], "number", "state") == [(0, "Failed"), (1, "Completed")]
    for name, status in found.items():
        assert diary.runs(name) == [number for (number,) in of_run(status, "number")], name
        assert (status["lossCount"], status["startFailures"]) == (0, 0), name


@pytest.mark.parametrize(
    ("part", "seconds"),
    [
        pytest.param("apiserver", 60, id="the API server, for a minute"),
        pytest.param("apiserver", 4, id="the API server, for a moment"),
        pytest.param("etcd", 20, id="etcd"),
    ],
)
def test_an_outage_of_the_control_plane_is_sat_out(
    kubectl: Kubectl, place: Place, machinery: Machinery, diary: Diary, part: str, seconds: int
) -> None:
    with Proxy(place.kubeconfig, place.folder) as proxy:  # an API server that is away counts no requests
        operator = Place(proxy.kubeconfig, place.namespace, place.folder).operator()
        with kept_up(operator) as codes:
            tasks_under_way(kubectl, diary, middle=seconds // 2)
            machinery.kill(part)
            before, since = proxy.count(), time.monotonic()
            (diary.folder / "may-end").touch()
            time.sleep(seconds)  # that is how long it lasts
            in_the_outage = proxy.count() - before
            machinery.bring_back(part)
            check_outcomes(kubectl.finished(), diary)
            in_all, lasted = proxy.count() - before, time.monotonic() - since
    assert 0 < in_the_outage <= REQUESTS_A_SECOND * (AT_FIRST + seconds), "no storm"
    assert in_all <= REQUESTS_A_SECOND * (AT_FIRST + lasted), "nor when it is back"
    assert all(code == 1 for code in codes), "it ends in order, to be started again"
