"""Tests that break the operator, and what it stands on. The one that the chart installed is scaled down meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.provider import choose
from tests.faults.operator import Place
from tests.faults.witness import Witness, witness
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
