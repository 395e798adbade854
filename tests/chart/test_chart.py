"""The Helm chart, by the real Helm. That it works is shown by the cluster tests, which run on it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.build import PROJECT, program_path

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
        pytest.param("logLevel=loud", "logLevel", id="a level that does not exist"),
    ],
)
def test_values_that_make_no_sense_are_refused(value: str, named: str) -> None:
    done = helm("template", "taskyard", CHART, f"--set={value}")
    assert done.returncode != 0
    assert named in done.stderr


def test_the_crds_come_with_the_chart_unless_told_otherwise() -> None:
    kinds = [document["kind"] for document in rendered()]
    assert "CustomResourceDefinition" in kinds
    assert "CustomResourceDefinition" not in [document["kind"] for document in rendered("crds.install=false")]


def test_the_operator_asks_for_no_wildcard_and_no_secret() -> None:
    roles = [document for document in rendered() if document["kind"] in ("Role", "ClusterRole")]
    rules = [rule for role in roles for rule in role["rules"]]
    assert rules
    for rule in rules:
        words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"*", "secrets", "escalate", "bind", "impersonate"} & set(words)
