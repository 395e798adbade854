"""A node: Linux namespaces that look like a machine, with containerd, a kubelet and kube-proxy in it.

Killing the node's first process is a power cut: the kernel ends every container, mount and interface with it.
Killing only the kubelet and containerd is a node that fell silent: its containers run on. Both are what tests
of node loss need.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import network
from cluster.control_plane import ControlPlane
from cluster.errors import ClusterError
from cluster.process import Process, Register, last_words, start

PARTS = ("containerd", "kubelet", "kube-proxy")
CGROUPS = Path("/sys/fs/cgroup")
NAMESPACES = ("--pid", "--mount", "--net", "--uts", "--ipc")
PAUSE_IMAGE = "localhost/taskyard-pause:dev"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"


@dataclass(frozen=True)
class Node:
    index: int  # from 1
    folder: Path
    cgroup: str  # such as taskyard/real/node1
    plane: ControlPlane
    register: Register
    programs: Path  # the folder with kubelet and kube-proxy
    count: int  # nodes in all

    @property
    def name(self) -> str:
        return f"node{self.index}"

    @property
    def address(self) -> str:
        return network.node_address(self.index)

    def part(self, name: str) -> str:
        return f"{self.name}/{name}"

    def start(self) -> None:
        machine = self.register.recall(self.part("machine"))
        if machine is None or not _is_ready(machine):
            machine = self._boot()
        for part in PARTS:
            if self.register.recall(self.part(part)) is None:
                self._start_part(machine, part)

    def start_part(self, part: str) -> None:
        machine = self.register.recall(self.part("machine"))
        if machine is None:
            raise ClusterError(f"{self.name} is not running: `make up` starts it")
        if self.register.recall(self.part(part)) is None:
            self._start_part(machine, part)

    def run(self, *command: str, stdin: Any = None) -> str:
        """Runs a command inside the node, as `ssh` would."""
        machine = self.register.recall(self.part("machine"))
        if machine is None:
            raise ClusterError(f"{self.name} is not running: `make up` starts it")
        done = subprocess.run([*_enter(machine), *command], stdin=stdin, capture_output=True, text=True)
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(command)} on {self.name}: {done.stderr.strip()}")
        return done.stdout

    def configure_kubelet(self, **changes: Any) -> None:
        """Differently from its next start on, until the node boots again; without changes, as it was."""
        configuration = kubelet_configuration(self.address, self.cgroup) | changes
        _write(self.folder / "lib/kubelet/config.yaml", json.dumps(configuration))

    def load_image(self, archive: Path) -> None:
        """Imports an image archive, unless it is the last one of its name that was imported."""
        record = self.folder / "lib" / "images" / archive.stem.rpartition("-")[0]
        if record.exists() and record.read_text() == archive.name:
            return
        with archive.open("rb") as content:
            self.run("ctr", "--namespace", "k8s.io", "images", "import", "--no-unpack", "-", stdin=content)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(archive.name)

    def _boot(self) -> Process:
        self.register.see_off(self.part("machine"))
        for part in PARTS:
            self.register.forget(self.part(part))
        self._write_configuration()
        remove_cgroups(
            self.cgroup
        )  # a reboot leaves none, and the kubelet waits for pods whose group it finds
        make_cgroups(self.cgroup)
        log = self._log("machine")
        others = [index for index in range(1, self.count + 1) if index != self.index]
        routes = [f"{network.pods_of_node(other)}@{network.node_address(other)}" for other in others]
        script = str(Path(__file__).with_name("node.sh"))
        arguments = [
            str(self.folder),
            self.name,
            self.address,
            network.CONTROL_PLANE,
            str(self.programs),
            *routes,
        ]
        machine = start(
            ["sh", script, *arguments],
            log,
            remember=lambda process: self.register.remember(self.part("machine"), process),
            wrapper=["unshare", *NAMESPACES, "--fork", "--propagation", "private"],
        )
        network.connect_node(self.index, machine.pid)
        deadline = time.monotonic() + 15
        while not _is_ready(machine):
            if time.monotonic() > deadline or not machine.is_alive:
                raise ClusterError(f"{self.name} did not come up: {last_words(log)}")
            time.sleep(0.05)
        return machine

    def _start_part(self, machine: Process, part: str) -> None:
        log = self._log(part)
        self.register.see_off(self.part(part))
        start(
            self._command(part),
            log,
            remember=lambda process: self.register.remember(self.part(part), process),
            wrapper=_enter(machine),
        )
        if part == "containerd":
            self._wait_for_containerd(log)

    def _wait_for_containerd(self, log: Path) -> None:
        deadline = time.monotonic() + 20
        while True:
            try:
                self.run("ctr", "version")
                return
            except ClusterError as error:
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"containerd on {self.name} does not answer: {last_words(log)}"
                    ) from error
                time.sleep(0.1)

    def _command(self, part: str) -> Sequence[str]:
        match part:
            case "containerd":
                return ("containerd", "--config", "/var/lib/containerd-config/config.toml")
            case "kubelet":
                return (
                    "/var/lib/programs/kubelet",
                    "--config=/var/lib/kubelet/config.yaml",
                    "--kubeconfig=/var/lib/kubelet/kubeconfig",
                    f"--hostname-override={self.name}",
                    f"--node-ip={self.address}",
                )
            case "kube-proxy":
                return ("/var/lib/programs/kube-proxy", "--config=/var/lib/kube-proxy/config.yaml")
            case _:
                raise AssertionError(part)

    def _log(self, part: str) -> Path:
        return self.plane.folder / "logs" / f"{self.name}-{part}.log"

    def _write_configuration(self) -> None:
        library = self.folder / "lib"
        (self.folder / "log").mkdir(parents=True, exist_ok=True)
        authority = self.plane.authority()
        user = f"system:node:{self.name}"
        pair = authority.issue(self.name, user, ("system:nodes",), hosts=(self.name, self.address))
        _write(library / "kubelet/server.crt", pair.certificate.read_text())
        _write(library / "kubelet/server.key", pair.key.read_text(), mode=0o600)
        _write(library / "kubelet/ca.crt", authority.certificate.read_text())
        _write(library / "kubelet/resolv.conf", "")  # nothing outside is asked for names
        authority.kubeconfig(library / "kubelet/kubeconfig", self.plane.server, pair, user)
        self.configure_kubelet()
        proxy = authority.issue("kube-proxy", "system:kube-proxy", ("system:node-proxier",))
        authority.kubeconfig(library / "kube-proxy/kubeconfig", self.plane.server, proxy, "system:kube-proxy")
        _write(library / "kube-proxy/config.yaml", json.dumps(proxy_configuration(self.name)))
        _write(library / "containerd-config/config.toml", CONTAINERD_CONFIGURATION)
        _write(
            library / "cni-config/10-bridge.conflist",
            json.dumps(cni_configuration(network.pods_of_node(self.index))),
        )


def _is_ready(machine: Process) -> bool:
    """Whether the node's script has made the place ready; whoever started it may have been killed before."""
    return Path(f"/proc/{machine.pid}/root/run/ready").exists()


def _enter(machine: Process) -> list[str]:
    return ["nsenter", f"--target={machine.pid}", *NAMESPACES, "--"]


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=mode)
    path.write_text(text)


def kubelet_configuration(address: str, cgroup: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/var/lib/kubelet/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": "/var/lib/kubelet/server.crt",
        "tlsPrivateKeyFile": "/var/lib/kubelet/server.key",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "clusterDNS": [network.DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": "/var/lib/kubelet/resolv.conf",
        "cgroupDriver": "cgroupfs",  # in this pid namespace there is no systemd to talk to
        "cgroupRoot": f"/{cgroup}",
        "failSwapOn": False,
        "nodeLeaseDurationSeconds": 8,  # renewed every 2: see SILENT_NODES of the control plane
        "nodeStatusUpdateFrequency": "4s",
        "nodeStatusReportFrequency": "1m",
        "failCgroupV1": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",  # by default below /usr, which is the host's
        "makeIPTablesUtilChains": False,  # kube-proxy speaks nftables
        "serializeImagePulls": False,
        "imageGCHighThresholdPercent": 100,  # images cannot be pulled again: never collect them
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "enforceNodeAllocatable": [],
    }


def proxy_configuration(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig"},
        "mode": "nftables",
        "clusterCIDR": network.PODS_CIDR,
        "hostnameOverride": name,
        "conntrack": {"maxPerCore": 0},  # the machine's own limits stay as they are
    }


def cni_configuration(pods: str) -> dict[str, Any]:
    address_management = {
        "type": "host-local",
        "ranges": [[{"subnet": pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni-addresses",  # addresses are given back by a "reboot", like the pods that had them
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": address_management,
    }
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


# restrict_oom_score_adj: without the SYS_RESOURCE capability runc otherwise dies with "can't get final child's
# PID from pipe".
CONTAINERD_CONFIGURATION = f"""\
version = 2
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "/var/lib/cni-config"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
"""


def make_cgroups(path: str) -> None:
    """The group of a node's pods, in every hierarchy: one with cgroups v2, a dozen with v1."""
    for hierarchy in _hierarchies():
        group = hierarchy
        for name in path.split("/"):
            for controller in ("cpu", "cpuset", "memory", "pids"):
                with suppress(
                    OSError
                ):  # v2: what can be delegated differs by machine; the kubelet says what it lacks
                    (group / "cgroup.subtree_control").write_text(f"+{controller}")
            group = group / name
            group.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):  # v1: an empty cpuset runs nothing
                if (group / file).exists() and not (group / file).read_text().strip():
                    (group / file).write_text((group.parent / file).read_text())


def remove_cgroups(path: str) -> None:
    """Groups are folders that go from the leaves up, once their last process is gone."""
    for hierarchy in _hierarchies():
        group = hierarchy / path
        leaves_first = sorted((folder for folder in group.rglob("*") if folder.is_dir()), reverse=True)
        for folder in (*leaves_first, group):
            _remove_cgroup(folder)


def _remove_cgroup(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while folder.exists():
        try:
            folder.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ClusterError(f"the control group {folder} is still in use") from error
            time.sleep(0.05)


def _hierarchies() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [
        folder
        for folder in CGROUPS.iterdir()
        if (folder / "cgroup.procs").exists() and not folder.is_symlink()
    ]
