"""Tests that take nodes and the control plane away: alone on the cluster, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.native import Native
from cluster.provider import choose
from tests.faults.operator import Place
from tests.faults.witness import Witness, witness
from tests.kube import Kubectl, namespace
from tests.outages.diary import Diary
from tests.outages.machinery import Machinery


@pytest.fixture
def kubectl(admin: Kubectl, alone: None) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, where pods may write to their host."""
    with namespace(admin, **{"pod-security.kubernetes.io/enforce": "privileged"}) as made:
        yield made


@pytest.fixture
def machinery(kubectl: Kubectl, admin: Kubectl) -> Iterator[Machinery]:
    """The cluster's parts. They are whole before the namespace goes and the next test comes."""
    native = choose()
    assert isinstance(native, Native), "only the native cluster's parts can be killed one by one"
    taken = Machinery(native, admin)
    yield taken
    taken.put_back()


@pytest.fixture
def place(kubectl: Kubectl, machinery: Machinery, tmp_path: Path) -> Place:
    """The test's own namespace, where nobody works until it starts an operator."""
    return Place(machinery.native.kubeconfig, kubectl.namespace, tmp_path)


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    """A folder that the containers may write to, whoever they run as."""
    folder = tmp_path / "diary"
    folder.mkdir()
    folder.chmod(0o777)
    return Diary(folder)


@pytest.fixture
def pods(kubectl: Kubectl, machinery: Machinery, tmp_path: Path) -> Iterator[Witness]:
    """Every pod of the test; at its end, no task ever had two of them at work."""
    with witness(kubectl, tmp_path) as watched:
        yield watched
        watched.check_one_at_a_time()
