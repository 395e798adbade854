"""Tests with many tasks, on nodes that only pretend: a control plane of their own, whatever becomes of the other."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from cluster.build import PROJECT
from cluster.making import Shape
from cluster.native import Native
from cluster.provider import choose
from tests.faults.operator import Place
from tests.history.recorder import record
from tests.history.test_recorded import RECORDING
from tests.kube import Kubectl, namespace


@pytest.fixture(scope="session")
def kwok() -> Iterator[Native]:
    """A control plane with pretended nodes, for what needs many pods. Whoever is the last to use it takes it down."""
    if not isinstance(choose(), Native):
        pytest.skip("the control plane with pretended nodes is a native one: as root, on Debian or Ubuntu")
    cluster = Native("kwok", Shape(nodes=0, pretended=10))
    with (Path(tempfile.gettempdir()) / "taskyard-tests-kwok.lock").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        cluster.up()
        admin = kubectl_of(cluster, "default")
        admin("apply", "--server-side", f"--filename={PROJECT / 'crds'}")
        admin.eventually("the CRD is served", lambda: admin.ask("get", "tasks").code == 0)
        yield cluster
        with suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            cluster.down()


@pytest.fixture
def crowd(kwok: Native) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, on pretended nodes."""
    file = os.environ.get(RECORDING)
    with (
        namespace(kubectl_of(kwok, "default")) as kubectl,
        record(kubectl.command, Path(file), "kwok", kubectl.namespace) if file else nullcontext(),
    ):
        yield kubectl


def kubectl_of(cluster: Native, namespace: str) -> Kubectl:
    return Kubectl((str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"), namespace)


@pytest.fixture
def yard(kwok: Native, crowd: Kubectl, tmp_path: Path) -> Place:
    """Where pretended nodes run whatever they are given."""
    return Place(kwok.kubeconfig, crowd.namespace, tmp_path)
