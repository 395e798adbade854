"""The Helm chart, by the real Helm. That it works is shown by the cluster tests, which run on it."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.build import PROJECT, program_path
from taskyard.metrics import Metrics
from taskyard.settings import load
from taskyard.tally import Tally

METRIC = re.compile(r"taskyard_[a-z_]+")
CHART = PROJECT / "charts" / "taskyard"


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program_path("helm"), *arguments], capture_output=True, text=True)


def rendered(*values: str) -> list[dict[str, Any]]:
    done = helm(
        "template", "taskyard", CHART, "--namespace=somewhere", *(f"--set={value}" for value in values)
    )
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def test_lint_finds_nothing() -> None:
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("value", "named"),
    [
        pytest.param("replica=2", "replica", id="a misspelt value"),
        pytest.param("image.tagg=x", "tagg", id="a misspelt value inside another"),
        pytest.param("replicas=many", "replicas", id="a word where a number belongs"),
        pytest.param("continueSeconds=-1", "continueSeconds", id="less than no time"),
        pytest.param("keepJobsSeconds=59", "keepJobsSeconds", id="a Job gone before its create is over"),
        pytest.param("maxConcurrent=0", "maxConcurrent", id="a limit that lets nothing run"),
        pytest.param("namespaceWeights.a=0", "namespaceWeights", id="a weight of nothing"),
        pytest.param("podMonitor.instal=true", "instal", id="a monitor that nobody would get"),
        pytest.param("logLevel=loud", "logLevel", id="a level that does not exist"),
    ],
)
def test_values_that_make_no_sense_are_refused(value: str, named: str) -> None:
    done = helm("template", "taskyard", CHART, f"--set={value}")
    assert done.returncode != 0
    assert named in done.stderr


def test_limits_reach_the_operator() -> None:
    limits = rendered("maxConcurrent=5", "namespaceWeights.a=3", "namespaceWeights.b=2")
    [deployment] = [document for document in limits if document["kind"] == "Deployment"]
    [operator] = deployment["spec"]["template"]["spec"]["containers"]
    told = {each["name"]: each.get("value") for each in operator["env"]}
    assert told["TASKYARD_MAX_CONCURRENT"] == "5"
    assert load({}, {"TASKYARD_NAMESPACE_WEIGHTS": told["TASKYARD_NAMESPACE_WEIGHTS"]}).namespace_weights == {
        "a": 3,
        "b": 2,
    }


def test_the_crds_come_with_the_chart_unless_told_otherwise() -> None:
    kinds = [document["kind"] for document in rendered()]
    assert "CustomResourceDefinition" in kinds
    assert "CustomResourceDefinition" not in [document["kind"] for document in rendered("crds.install=false")]


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    assert not [each for each in rendered() if each["kind"] == "ConfigMap"]
    [dashboard] = [each for each in rendered("dashboard.install=true") if each["kind"] == "ConfigMap"]
    panels = json.loads(dashboard["data"]["taskyard.json"])["panels"]
    asked = {name for panel in panels for each in panel["targets"] for name in METRIC.findall(each["expr"])}
    counted = {
        name.removesuffix(end) for name in asked for end in ("_bucket", "_total") if name.endswith(end)
    }
    gauges = {name for name in asked if not name.endswith(("_bucket", "_total"))}
    metrics = Metrics()
    metrics.follow(Tally(), lambda: datetime.now(UTC))
    there = set(re.findall(r"^# TYPE (\S+)", metrics.page().decode(), re.MULTILINE))
    assert gauges | counted <= {name.removesuffix("_total") for name in there}


def test_a_pod_monitor_finds_the_operator_and_leaves_the_labels_of_its_series() -> None:
    """`namespace` is that of the tasks: Prometheus would put the operator's in its place."""
    assert not [each for each in rendered() if each["kind"] == "PodMonitor"]
    told = {
        each["kind"]: each
        for each in rendered("podMonitor.install=true", "podMonitor.labels.release=mine")
        if each["kind"] in {"PodMonitor", "Deployment"}
    }
    monitor, pod = told["PodMonitor"], told["Deployment"]["spec"]["template"]
    assert monitor["metadata"]["labels"]["release"] == "mine"
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    [operator] = pod["spec"]["containers"]
    assert endpoint == {"port": operator["ports"][0]["name"], "path": "/metrics", "honorLabels": True}
    for probe in ("livenessProbe", "readinessProbe"):
        assert operator[probe]["httpGet"]["port"] == operator["ports"][0]["name"]


def test_the_operator_asks_for_no_wildcard_and_no_secret() -> None:
    roles = [document for document in rendered() if document["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"]]
    assert rules
    for rule in rules:
        words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"*", "secrets", "escalate", "bind", "impersonate"} & set(words)
