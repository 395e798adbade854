"""The parts of the cluster as a test takes them away, and how everything is put back, whatever the test did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cluster.native import Native
from tests.kube import JSON, Kubectl

NODES = ("node1", "node2")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
UNBEARABLE = {"memory.available": "99%"}
"""A threshold that no machine at work is above: its kubelet evicts whatever it may."""


@dataclass(frozen=True)
class Machinery:
    """Real programs of the development cluster; SIGKILL is how they end."""

    native: Native
    admin: Kubectl

    def kill(self, *parts: str) -> None:
        for part in parts:
            self.native.stop_part(part)

    def start(self, *parts: str) -> None:
        for part in parts:
            self.native.start_part(part)

    def bring_back(self, part: str) -> None:
        """Start it again. Others have backed off for up to a minute by now: started after it, they ask at once."""
        others = ("controller-manager", "scheduler", *(f"{node}/kubelet" for node in NODES))
        self.kill(*others)
        self.start(part, *others)

    def silence(self, node: str) -> None:
        """Kubelet and containerd die, and the containers run on, known to nobody: a true zombie."""
        self.kill(f"{node}/kubelet", f"{node}/containerd")

    def wake(self, node: str) -> None:
        """It answers again, with whatever runs on it."""
        self.start(f"{node}/containerd", f"{node}/kubelet")

    def delete_node(self, node: str) -> None:
        """As a cloud's controller does when the machine behind it is no more."""
        self.admin("delete", "node", node, "--wait=false")

    def fence(self, node: str) -> None:
        """As an administrator does who has made sure that the machine is off."""
        self.admin("taint", "node", node, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")

    @contextmanager
    def pressure(self, node: str) -> Iterator[None]:
        """Its kubelet finds memory short, and evicts for real. It is some seconds before its taint says so."""
        self.admin("cordon", node)
        try:
            self._configure(node, evictionHard=UNBEARABLE)
            self.start(f"{node}/kubelet")
            yield
        finally:
            self._configure(node)

    def put_back(self) -> None:
        """All parts run, both nodes are there, ready, and take pods."""
        for node in NODES:
            if "NotFound" in self.admin.ask("get", "node", node).error:
                self.kill(f"{node}/kubelet")  # it registers its node when it starts, and only then
        self.native.up()
        for node in NODES:
            self.admin.ask("taint", "node", node, f"{OUT_OF_SERVICE}-")  # "not found" is what we want
            self.admin("uncordon", node)
        self.admin.eventually("both nodes take pods", self._take_pods, 120)

    def _take_pods(self) -> bool:
        nodes = self.admin.get("nodes")["items"]
        return len(nodes) == len(NODES) and all(
            _is_ready(each) and not each["spec"].get("taints") for each in nodes
        )

    def _configure(self, node: str, **changes: Any) -> None:
        self.kill(f"{node}/kubelet")
        self.native.node(node).configure_kubelet(**changes)


def _is_ready(node: JSON) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
