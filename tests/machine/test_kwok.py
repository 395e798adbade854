"""The second control plane, with pretended nodes: a real API server that no operator watches."""

from __future__ import annotations

import subprocess
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_kube_config

from cluster.build import PROJECT
from cluster.making import Shape
from cluster.native import Native
from taskyard.cluster import ApiServer
from tests.machine.test_native import kubectl
from tests.unit.contract import ClusterContract


@pytest.fixture(scope="module")
def kwok() -> Iterator[Native]:
    cluster = Native("kwok", Shape(nodes=0, pretended=10))
    cluster.up()
    try:
        kubectl(cluster, "apply", "--server-side", f"--filename={PROJECT / 'crds'}")
        served = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", "get", "tasks"]
        deadline = time.monotonic() + 30
        while subprocess.run(served, capture_output=True).returncode != 0:
            assert time.monotonic() < deadline, "the CRD is not served"
            time.sleep(0.1)
        yield cluster
    finally:
        cluster.down()
    assert not cluster.folder.exists()


def test_pretended_nodes_run_jobs_beside_the_real_cluster(kwok: Native) -> None:
    real = Native()
    real.up(dns=False)
    kubectl(kwok, "create", "job", "pretended", "--image=none")
    kubectl(kwok, "wait", "--for=condition=Complete", "job/pretended", "--timeout=30s")
    assert len(kubectl(kwok, "get", "nodes", "-o", "name").split()) == 10
    assert kubectl(real, "get", "--raw", "/readyz") == "ok"


class TestApiServer(ClusterContract):
    """The real API server keeps the contract that the fake of the unit tests keeps."""

    @pytest.fixture
    async def cluster(self, kwok: Native) -> AsyncIterator[ApiServer]:
        configuration = Configuration()
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kwok.kubeconfig), client_configuration=configuration, persist_config=False
        )
        async with ApiClient(configuration) as client:
            yield ApiServer(client)

    @pytest.fixture
    def namespace(self) -> str:
        return "default"
