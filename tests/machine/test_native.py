"""The native cluster against the machine it runs on: what it leaves, what it survives, what it never touches.

These tests own the cluster: they kill and remove it. They run one after another, before all that needs it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster import images, network
from cluster.errors import ClusterError
from cluster.making import Shape
from cluster.native import STATE, Native
from cluster.node import PARTS
from cluster.process import Register

CONTROL_PLANE = ["etcd", "apiserver", "controller-manager", "scheduler"]
NODE = ["machine", *PARTS]


@dataclass(frozen=True)
class Machine:
    """What a cluster could leave behind."""

    mounts: str
    links: tuple[str, ...]
    routes: str
    control_groups: tuple[str, ...]
    network_namespaces: frozenset[str]
    processes: frozenset[str]
    state: tuple[str, ...]
    folders: tuple[str, ...]
    kernel: tuple[str, ...]


# What a kubelet and a containerd would set or make on their host, if the node did not hide it from them.
KNOBS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
)
FOLDERS = (
    "/opt",
    "/etc",
    "/usr/libexec",
    "/usr/libexec/kubernetes",
    "/var/lib",
    "/var/log",
    "/run",
    "/run/netns",
)


def look() -> Machine:
    # Other work on this machine comes and goes; ours is known by its folder, in its words or in its mounts.
    processes, namespaces = set(), set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            namespaces.add(str((folder / "ns/net").readlink()))
            if "taskyard-cluster" in command or "taskyard-cluster" in (folder / "mountinfo").read_text():
                processes.add(f"{folder.name} {command}")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    groups = [str(group) for group in Path("/sys/fs/cgroup").glob("*/*") if group.is_dir()]
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    return Machine(
        mounts=Path("/proc/self/mounts").read_text(),
        links=tuple(sorted(link.name for link in Path("/sys/class/net").iterdir())),
        routes=routes,
        control_groups=tuple(sorted(groups)),
        network_namespaces=frozenset(namespaces),
        processes=frozenset(processes),
        state=tuple(sorted(folder.name for folder in STATE.iterdir())) if STATE.exists() else (),
        folders=tuple(sorted(str(each) for folder in FOLDERS for each in Path(folder).glob("*"))),
        kernel=tuple((Path("/proc/sys") / knob).read_text() for knob in KNOBS),
    )


@pytest.fixture(scope="module")
def native() -> Native:
    cluster = Native()
    cluster.down()
    return cluster


@pytest.fixture
def running(native: Native) -> Native:
    native.up(dns=False)
    return native


def pids(native: Native) -> dict[str, int]:
    register = Register(native.folder / "processes")
    found = {part: register.recall(part) for part in register.parts()}
    return {part: process.pid for part, process in found.items() if process is not None}


def kubectl(native: Native, *arguments: str) -> str:
    command = [str(native.kubectl), f"--kubeconfig={native.kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_a_pod(native: Native, name: str) -> None:
    """A container that really runs, on whichever node has room."""
    kubectl(
        native,
        "run",
        name,
        "--image=localhost/taskyard-pause:dev",
        "--image-pull-policy=Never",
        "--restart=Never",
    )
    kubectl(native, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


def test_up_and_down_leave_the_machine_as_it_was(native: Native) -> None:
    before = look()
    native.up(dns=False)
    run_a_pod(native, "guest")
    during = look()
    assert network.BRIDGE in during.links
    assert during.control_groups
    assert len(during.network_namespaces - before.network_namespaces) >= 3, "two nodes and a pod"
    native.down()
    assert look() == before


def test_up_twice_changes_nothing(running: Native) -> None:
    before = pids(running)
    assert set(before) == {*CONTROL_PLANE, *(f"node{index}/{part}" for index in (1, 2) for part in NODE)}
    running.up(dns=False)
    assert pids(running) == before


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(["apiserver"], id="the API server"),
        pytest.param(["etcd"], id="etcd"),
        pytest.param(["controller-manager", "scheduler"], id="controllers and scheduler"),
        pytest.param(["node1/kubelet", "node1/containerd", "node2/kube-proxy"], id="parts of nodes"),
        pytest.param(["node2/machine"], id="a whole node"),
        pytest.param([*CONTROL_PLANE, "node1/machine", "node2/machine"], id="everything, as a reboot would"),
    ],
)
def test_up_brings_back_what_was_killed_with_its_data(running: Native, parts: list[str]) -> None:
    name = f"kept-{len(parts)}-{parts[0].replace('/', '-')}"
    kubectl(running, "create", "configmap", name)
    before = pids(running)
    for part in parts:
        os.kill(before[part], signal.SIGKILL)
    running.up(dns=False)
    after = pids(running)
    assert set(after) == set(before)
    assert all(after[part] != before[part] for part in parts)
    kubectl(running, "get", "configmap", name)
    run_a_pod(running, name)


def test_a_part_can_be_stopped_and_started_alone(running: Native) -> None:
    before = pids(running)
    running.stop_part("node1/kubelet")
    running.stop_part("apiserver")
    assert set(before) - set(pids(running)) == {"node1/kubelet", "apiserver"}
    running.start_part("apiserver")
    running.start_part("node1/kubelet")
    assert kubectl(running, "get", "--raw", "/readyz") == "ok"
    assert set(pids(running)) == set(before)
    with pytest.raises(ClusterError, match="no part is called 'node9/kubelet'"):
        running.stop_part("node9/kubelet")


@pytest.mark.parametrize("alive", [pytest.param(True, id="alive"), pytest.param(False, id="killed")])
def test_a_cluster_of_another_making_is_replaced(
    running: Native, alive: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    before = pids(running)
    record = running.folder / "cluster.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"fingerprint": "that of another clone"}))
    if not alive:
        for pid in (before[part] for part in (*CONTROL_PLANE, "node1/machine", "node2/machine")):
            os.kill(pid, signal.SIGKILL)
    running.up(dns=False)
    assert "of another making: replacing it" in capsys.readouterr().err
    assert not set(pids(running).values()) & set(before.values())
    run_a_pod(running, "fresh")


def test_another_clone_of_the_same_making_shares_the_cluster(running: Native) -> None:
    before = pids(running)
    Native().up(dns=False)
    assert pids(running) == before


def test_data_that_etcd_cannot_read_is_given_up_and_said_so(
    running: Native, capsys: pytest.CaptureFixture[str]
) -> None:
    for pid in (pids(running)[part] for part in CONTROL_PLANE):
        os.kill(pid, signal.SIGKILL)
    for file in (running.folder / "etcd").rglob("*.wal"):
        file.write_bytes(b"\xff" * 512)
    running.up(dns=False)
    assert "etcd could not read its data, which are now in" in capsys.readouterr().err
    run_a_pod(running, "on-fresh-data")
    assert kubectl(running, "get", "--raw", "/readyz") == "ok"


def test_one_node_is_enough_when_asked_for(native: Native, capsys: pytest.CaptureFixture[str]) -> None:
    one = Native(shape=Shape(nodes=1, pretended=0))
    one.up(dns=False)
    assert kubectl(one, "get", "nodes", "-o", "name").split() == ["node/node1"]
    run_a_pod(one, "alone")
    native.down()


def test_down_and_up_again_and_again(native: Native) -> None:
    for _ in range(2):
        native.up(dns=False)
        run_a_pod(native, "guest")
        native.down()


@pytest.mark.parametrize("command", ["up", "down"])
def test_a_command_that_is_killed_on_its_way_is_no_harm(native: Native, command: str) -> None:
    before = look()
    # Fewer for `down`: what is to go down has to come up first.
    for patience in (0.3, 0.6, 1.2) if command == "up" else (0.4, 1.0):
        if command == "down":
            native.up(dns=False)
        begun = subprocess.Popen(
            [sys.executable, "-m", "cluster", *([command, "--no-dns"] if command == "up" else [command])],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "CLUSTER": "native", "PYTHONPATH": "."},
        )
        with suppress(subprocess.TimeoutExpired):
            begun.wait(patience)
        begun.kill()
        begun.wait()
    native.up(dns=False)
    run_a_pod(native, "after-all")
    native.down()
    assert look() == before


def test_an_image_that_comes_back_is_the_one_that_runs(running: Native, tmp_path: Path) -> None:
    """Two builds share a tag: going back to the first must bring the first back."""
    node = running.node("node1")
    digests = []
    for content in ("one", "two", "one"):
        file = tmp_path / "content"
        file.write_text(content)
        node.load_image(images.binary_image("tagged", file, tmp_path / "cache", say=lambda line: None))
        listed = node.run("ctr", "--namespace", "k8s.io", "images", "list", "name==localhost/tagged:dev")
        digests.append(listed.splitlines()[1].split()[2])
    assert digests[0] == digests[2] != digests[1]


def test_a_record_that_a_power_cut_has_torn_is_no_obstacle(native: Native) -> None:
    native.up(dns=False)
    os.kill(pids(native)["scheduler"], signal.SIGKILL)
    (native.folder / "processes" / "scheduler.json").write_text("")
    assert "scheduler                DEAD" in native.status()
    native.up(dns=False)
    assert "scheduler" in pids(native)


def test_etcd_that_is_killed_while_it_comes_up_keeps_its_data(native: Native) -> None:
    native.up(dns=False)
    kubectl(native, "create", "configmap", "precious")
    native.stop_part("apiserver")
    begun = subprocess.Popen(
        [sys.executable, "-m", "cluster", "up", "--no-dns"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "CLUSTER": "native", "PYTHONPATH": "."},
    )
    with suppress(subprocess.TimeoutExpired):
        begun.wait(1)
    native.stop_part("etcd")
    begun.wait(120)
    native.up(dns=False)
    kubectl(native, "get", "configmap", "precious")


def test_a_part_that_cannot_live_is_named(native: Native) -> None:
    native.up(dns=False)
    certificate = native.folder / "pki" / "scheduler.crt"
    certificate.write_text("no certificate")
    native.stop_part("scheduler")
    with pytest.raises(ClusterError, match="scheduler ended"):
        native.up(dns=False)
    native.down()
