"""What the API server refuses of a TaskQueue, with path and sentence as a person reads them; and what it takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.test_queues import queue
from tests.cluster.test_validation import accepted, refusal
from tests.kube import Kubectl


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing: no limit"),
        pytest.param({"maxConcurrent": 0, "paused": True}, id="nothing is to run"),
        pytest.param({"maxConcurrent": 10, "rateLimit": {"tasks": 5, "perSeconds": 60}}, id="limits"),
        pytest.param({"maxPriority": -5, "ageing": {"secondsPerPoint": 0}}, id="priorities"),
        pytest.param(
            {
                "fairness": {
                    "labelKey": "example.com/team",
                    "weights": [{"key": "a", "weight": 3}],
                    "maxConcurrentPerKey": 2,
                }
            },
            id="tenants",
        ),
    ],
)
def test_what_is_taken(spec: dict[str, Any], kubectl: Kubectl) -> None:
    accepted(kubectl, queue("q", **spec))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"maxConcurrent": -1}, "spec.maxConcurrent: Invalid value: -1", id="less than none"),
        pytest.param({"maxConcurent": 1}, 'unknown field "spec.maxConcurent"', id="misspelt"),
        pytest.param({"paused": "yes"}, "spec.paused: Invalid value", id="a word for yes"),
        pytest.param(
            {"rateLimit": {"tasks": 5}}, "spec.rateLimit.perSeconds: Required value", id="half a rate"
        ),
        pytest.param(
            {"rateLimit": {"tasks": 0, "perSeconds": 1}},
            "spec.rateLimit.tasks: Invalid value: 0",
            id="a rate of none",
        ),
        pytest.param({"fairness": {}}, "spec.fairness.labelKey: Required value", id="tenants by nothing"),
        pytest.param(
            {"fairness": {"labelKey": "-"}}, "spec.fairness.labelKey: Invalid value", id="no key of a label"
        ),
        pytest.param(
            {"fairness": {"labelKey": "team", "weights": [{"key": "a", "weight": 0}]}},
            "spec.fairness.weights[0].weight: Invalid value: 0",
            id="a weight of nothing",
        ),
        pytest.param(
            {
                "fairness": {
                    "labelKey": "team",
                    "weights": [{"key": "a", "weight": 1}, {"key": "a", "weight": 2}],
                }
            },
            'spec.fairness.weights[1]: Duplicate value: {"key":"a"}',
            id="two weights of one tenant",
        ),
        pytest.param(
            {"ageing": {"secondsPerPoint": -1}},
            "spec.ageing.secondsPerPoint: Invalid value: -1",
            id="growing young",
        ),
        pytest.param({"maxPriority": 10_000_000}, "spec.maxPriority: Invalid value: 10000000", id="too high"),
    ],
)
def test_what_is_refused(spec: dict[str, Any], said: str, kubectl: Kubectl) -> None:
    assert said in refusal(kubectl, queue("q", **spec))
