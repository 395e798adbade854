"""Which cluster is meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cluster import provider
from cluster.current import Current
from cluster.errors import ClusterError
from cluster.kind import Kind, configuration
from cluster.making import Shape
from cluster.native import Native
from cluster.network import bypass_proxies


@pytest.mark.parametrize(
    ("environment", "engine", "kind"),
    [
        pytest.param({}, "docker", Kind, id="kind where an engine answers"),
        pytest.param({}, None, Native, id="native where none does"),
        pytest.param({"CLUSTER": "native"}, "docker", Native, id="native when asked for, engine or not"),
        pytest.param({"CLUSTER": "kind"}, "podman", Kind, id="kind by name"),
        pytest.param(
            {"CLUSTER": "current", "KUBECONFIG": "/a"}, "docker", Current, id="the user's own by name only"
        ),
    ],
)
def test_choice(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], engine: str | None, kind: type[object]
) -> None:
    monkeypatch.setattr(provider, "answering_engine", lambda: engine)
    assert isinstance(provider.choose(environment), kind)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        pytest.param({"CLUSTER": "minikube"}, "`CLUSTER` must be one of", id="an unknown provider"),
        pytest.param({"NODES": "0"}, "`NODES` must be 1, 2 or 3", id="no nodes"),
        pytest.param({"CLUSTER": "kind"}, "neither docker nor podman answers", id="kind without an engine"),
    ],
)
def test_refusal(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], message: str) -> None:
    monkeypatch.setattr(provider, "answering_engine", lambda: None)
    with pytest.raises(ClusterError, match=message):
        provider.choose(environment)


def test_the_users_context_is_pinned_when_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another shell that switches the context must not redirect a running test."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\n[ "$1" = config ] && cat "$KUBECONFIG"\nexit 0\n')
    kubectl.chmod(0o755)
    config = tmp_path / "config"
    config.write_text("context: mine\n")
    monkeypatch.setenv("TASKYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("shutil.which", lambda name: str(kubectl))
    current = Current({"KUBECONFIG": str(config)})
    current.up()
    config.write_text("context: another\n")
    assert current.kubeconfig.read_text() == "context: mine\n"


def test_proxies_are_not_for_the_clusters_own_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    monkeypatch.setenv("NO_PROXY", "intra.invalid")
    monkeypatch.setenv("no_proxy", "")
    bypass_proxies()
    bypass_proxies()
    assert os.environ["NO_PROXY"] == "intra.invalid,198.18.0.0/15,127.0.0.0/8"


def test_kind_gets_as_many_workers_as_asked_for() -> None:
    roles = configuration(2)["nodes"]
    assert roles == [{"role": "control-plane"}, {"role": "worker"}, {"role": "worker"}]


def test_without_root_the_native_cluster_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="needs root"):
        Native(shape=Shape(1, 0)).up()
