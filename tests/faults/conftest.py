"""Tests that break the operator, and what it stands on. The one that the chart installed is scaled down meanwhile."""

from __future__ import annotations

import fcntl
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from cluster.build import PROJECT
from cluster.making import Shape
from cluster.native import Native
from cluster.provider import choose
from tests.faults.operator import Place
from tests.faults.witness import Witness, witness
from tests.history.recorder import record
from tests.history.test_recorded import RECORDING
from tests.kube import Kubectl


@pytest.fixture
def place(kubectl: Kubectl, calm: None, tmp_path: Path) -> Place:
    """The test's own namespace, where nobody works until it starts an operator."""
    return Place(choose().kubeconfig, kubectl.namespace, tmp_path)


@pytest.fixture
def seen(kubectl: Kubectl, tmp_path: Path) -> Iterator[Witness]:
    """Every pod of the test; at its end, no task ever had two of them at work."""
    with witness(kubectl, tmp_path) as watched:
        yield watched
        watched.check_one_at_a_time()


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
    name = f"test-{uuid.uuid4().hex[:10]}"
    admin = kubectl_of(kwok, "default")
    admin("create", "namespace", name)
    kubectl, file = kubectl_of(kwok, name), os.environ.get(RECORDING)
    with record(kubectl.command, Path(file), "kwok", name) if file else nullcontext():
        yield kubectl
    admin("delete", "namespace", name, "--wait=false")


def kubectl_of(cluster: Native, namespace: str) -> Kubectl:
    return Kubectl((str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}"), namespace)
