"""Nodes that only pretend: kwok plays their kubelets, so that scale costs no containers."""

from __future__ import annotations

from pathlib import Path

from cluster.build import kwok_stages


def command(program: Path, kubeconfig: Path) -> list[str]:
    stages = [f"--config={stage}" for stage in sorted(kwok_stages().glob("*.yaml"))]
    lease = "--node-lease-duration-seconds=40"
    return [str(program), f"--kubeconfig={kubeconfig}", "--manage-all-nodes=true", lease, *stages]


def nodes(count: int) -> dict[str, object]:
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "2000"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"kwok-{index}",
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"type": "kwok"},
            },
            "status": {"allocatable": capacity, "capacity": capacity},
        }
        for index in range(count)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": nodes}
