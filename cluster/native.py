"""The native provider: real programs on this machine, nodes in namespaces, or kwok's pretended nodes.

All state is in one folder of the machine, not of the clone: whichever clone of the project calls, it finds the
cluster that is there, and uses it if it is of the same making, or replaces it if not.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cluster import control_plane, images, kwok, network, node
from cluster.build import (
    PROJECT,
    cache_folder,
    ensure_programs,
    program_path,
    require_disk,
    require_disk_to_build,
)
from cluster.control_plane import ENVIRONMENT, ControlPlane
from cluster.debian import ensure_packages
from cluster.errors import ClusterError
from cluster.making import Shape, disown, establish, is_of_same_making, shape_of
from cluster.node import Node, make_cgroups, remove_cgroups
from cluster.process import Register, last_words, start, stop
from cluster.versions import CONTROL_PLANE, NODE

STATE = Path("/var/lib/taskyard-cluster")
LOCK = Path("/run/lock/taskyard-cluster")
PACKAGES = (
    "containerd",
    "runc",
    "containernetworking-plugins",
    "nftables",
    "iptables",
    "conntrack",
    "tini",
    "iproute2",
)
PATIENCE = 90.0
STATE_NEEDED_GB = 2
MANIFESTS = Path(__file__).parent / "manifests"


class Native:
    """One cluster: `real` with nodes that run containers, or `kwok` with nodes that pretend to."""

    def __init__(self, name: str = "real", shape: Shape | None = None) -> None:
        self.name = name
        self.folder = STATE / name
        self._register = Register(self.folder / "processes")
        address = network.CONTROL_PLANE if name == "real" else network.KWOK_CONTROL_PLANE
        self._plane = ControlPlane(self.folder, address)
        self._asked = shape
        self._cgroup = f"taskyard-{name}"

    # What the other providers offer too.

    @property
    def kubeconfig(self) -> Path:
        return self._plane.kubeconfig

    @property
    def kubectl(self) -> Path:
        return program_path("kubectl")

    def check(self) -> None:
        _require_root()
        require_disk(STATE.parent, STATE_NEEDED_GB, "The cluster's own data need")

    def up(self, *, dns: bool = True, tools: Sequence[str] = ()) -> None:
        """Brings up what is not up. Does nothing, fast, when all is."""
        self.check()
        network.bypass_proxies()
        programs = self._ensure_parts(dns, tools)
        with self._alone():
            wanted = self._wanted_shape()
            self._remove_if_foreign(wanted)
            comes_back = (self.folder / "etcd").exists()
            establish(self.folder, wanted)
            try:
                self._start(programs)
            except ClusterError:
                if not comes_back or self._register.recall("etcd") is not None:
                    raise
                self._start_without_etcd_data(programs)
            if dns and self._shape().nodes:
                self._start_dns(programs["coredns"])

    def down(self) -> None:
        _require_root()
        with self._alone():
            self._remove()

    def status(self) -> str:
        if not self.folder.exists():
            return f"{self.name}: down"
        lines = [
            f"{self.name}: API server {'ready' if self._is_ready() else 'NOT ready'} at {self._plane.server}"
        ]
        for part in self._parts():
            process = self._register.recall(part)
            lines.append(f"  {part:24} {f'pid {process.pid}' if process else 'DEAD (make up starts it)'}")
        return "\n".join(lines)

    def provide(self, names: Sequence[str]) -> dict[str, str]:
        archives = images.build(names, cache_folder(), root=PROJECT)
        self._load(list(archives.values()))
        return {name: archive.stem for name, archive in archives.items()}

    def _load(self, archives: Sequence[Path]) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda one: [one.load_image(archive) for archive in archives], self._nodes()))

    # What only this provider can: parts that die and come back.

    def stop_part(self, part: str) -> None:
        """SIGKILL to `apiserver`, `etcd`, …, `node1/kubelet`, or `node1/machine`, which is its power cord."""
        if part not in self._parts():
            raise ClusterError(f"no part is called {part!r}; there are {', '.join(self._parts())}")
        process = self._register.recall(part)
        if process is not None:
            stop(process, grace=0)

    def start_part(self, part: str) -> None:
        if part not in self._parts():
            raise ClusterError(f"no part is called {part!r}; there are {', '.join(self._parts())}")
        with self._alone():
            owner, _, name = part.rpartition("/")
            if not owner:
                self._start_process(part, ensure_programs(CONTROL_PLANE))
                self._wait_until_ready()
                return
            if name == "machine":
                self.node(owner).start()
            else:
                self.node(owner).start_part(name)

    def node(self, name: str) -> Node:
        return next(one for one in self._nodes() if one.name == name)

    # The rest is how.

    def _ensure_parts(self, dns: bool, tools: Sequence[str]) -> dict[str, Path]:
        if not self._wanted_shape().nodes:
            return ensure_programs((*CONTROL_PLANE, "kwok", *tools))
        wanted = (*CONTROL_PLANE, *NODE, *(["coredns"] if dns else []), *tools)
        require_disk_to_build(wanted)  # before anything is installed
        ensure_packages(PACKAGES)
        return ensure_programs(wanted)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One command at a time on this machine, whichever clone it comes from."""
        LOCK.parent.mkdir(parents=True, exist_ok=True)
        with LOCK.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print("Another cluster command is at work here: waiting for it.", file=sys.stderr)
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _shape(self) -> Shape:
        """As it stands."""
        return shape_of(self.folder) or Shape(0, 0)

    def _wanted_shape(self) -> Shape:
        """As asked for; or as it stands, if nothing was asked for; or the default."""
        default = Shape(nodes=2, pretended=0) if self.name == "real" else Shape(nodes=0, pretended=10)
        return self._asked or shape_of(self.folder) or default

    def _remove_if_foreign(self, wanted: Shape) -> None:
        if self.folder.exists() and not is_of_same_making(self.folder, wanted):
            words = f"The cluster {self.name!r} on this machine is of another making: replacing it."
            print(words, file=sys.stderr)
            self._remove()

    def _parts(self) -> list[str]:
        shape = self._shape()
        machines = [
            f"node{index}/{part}" for index in range(1, shape.nodes + 1) for part in ("machine", *node.PARTS)
        ]
        return [*control_plane.PARTS, *(["kwok"] if shape.pretended else []), *machines]

    def _nodes(self) -> list[Node]:
        count = self._shape().nodes
        return [
            Node(
                index=index,
                folder=self.folder / f"node{index}",
                cgroup=f"{self._cgroup}/node{index}",
                plane=self._plane,
                register=self._register,
                programs=program_path("kubelet").parent,
                count=count,
            )
            for index in range(1, count + 1)
        ]

    def _start(self, programs: dict[str, Path]) -> None:
        shape = self._shape()
        if shape.nodes:
            network.ensure_bridge()
        self._plane.prepare()
        began = time.monotonic()
        dead = [part for part in self._parts() if self._register.recall(part) is None]
        silent = [part.partition("/")[0] for part in dead if part.endswith("/kubelet")]
        for part in control_plane.SERVERS:
            self._start_process(part, programs)
        self._wait_until_ready()
        for part in control_plane.CLIENTS:  # they end where no API server lets them in
            self._start_process(part, programs)
        if shape.pretended and self._register.recall("kwok") is None:
            self._start_process("kwok", programs)
            self._apply(json.dumps(kwok.nodes(shape.pretended)))
        if shape.nodes:
            make_cgroups(self._cgroup)
            with ThreadPoolExecutor() as pool:
                list(pool.map(Node.start, self._nodes()))
            self._load(list(images.build(["pause"], cache_folder(), root=PROJECT, say=_quietly).values()))
        if dead:
            self._wait_for_nodes(
                silent, since=datetime.now(UTC) - timedelta(seconds=time.monotonic() - began + 1)
            )
            self._watch_over(dead)
            print(
                f"The cluster is up: {shape.nodes or shape.pretended} nodes, {time.monotonic() - began:.0f} s."
            )

    def _start_without_etcd_data(self, programs: dict[str, Path]) -> None:
        """etcd did not stay up. Once more, if it was only killed; then without its data, which are set aside."""
        try:
            self._start(programs)
            return
        except ClusterError as error:
            if self._register.recall("etcd") is not None:
                raise
            reason = error
        data, aside = self.folder / "etcd", self.folder / "etcd.set-aside"
        shutil.rmtree(aside, ignore_errors=True)
        data.rename(aside)
        for machine in (part for part in self._parts() if part.endswith("/machine")):
            self._register.see_off(machine)  # kubelets register their node when they start, and only then
        (self.folder / "dns").unlink(missing_ok=True)
        try:
            self._start(programs)
        except ClusterError:
            self._register.see_off("etcd")
            shutil.rmtree(data, ignore_errors=True)
            aside.rename(data)  # it was not the data
            raise
        print(
            f"etcd could not read its data, which are now in {aside}: started afresh. {reason}",
            file=sys.stderr,
        )

    def _start_process(self, part: str, programs: dict[str, Path]) -> None:
        if self._register.recall(part) is not None:
            return
        self._register.see_off(part)
        if part == "kwok":
            command = kwok.command(programs["kwok"], self.kubeconfig)
        else:
            command = self._plane.command(part, programs)
        start(
            command,
            self._log(part),
            remember=lambda process: self._register.remember(part, process),
            environment=ENVIRONMENT,
        )

    def _log(self, part: str) -> Path:
        return self.folder / "logs" / f"{part.replace('/', '-')}.log"

    def _is_ready(self) -> bool:
        pki = self.folder / "pki"
        try:
            context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
            context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
            # no proxy of the environment: this is our own machine
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(f"{self._plane.server}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _wait_until_ready(self) -> None:
        self._wait(self._is_ready, "the API server does not become ready", ("etcd", "apiserver"))

    def _wait_for_nodes(self, started: Sequence[str], since: datetime) -> None:
        """All are ready, and those that were just started have said so themselves: what is written may be old."""
        shape = self._shape()
        columns = "{.metadata.name} {.status.conditions[?(@.type=='Ready')]['status','lastHeartbeatTime']}"

        def all_ready() -> bool:
            for each in self._nodes():
                each.start()  # a kubelet ends if its containerd is not ready yet; systemd would start it again
            told = self._kubectl(
                "get", "nodes", "-o", f"jsonpath={{range .items[*]}}{columns}{{'\\n'}}{{end}}"
            )
            rows = [line.split() for line in told.stdout.splitlines() if len(line.split()) == 3]
            ready = {name: datetime.fromisoformat(heard) for name, status, heard in rows if status == "True"}
            return len(ready) >= shape.nodes + shape.pretended and all(
                name in ready and ready[name] >= since for name in started
            )

        self._wait(all_ready, "the nodes do not become ready", control_plane.PARTS)

    def _wait(self, condition: Callable[[], bool], failure: str, parts: Sequence[str]) -> None:
        """Waits on the condition, but not on parts that have ended meanwhile."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            dead = [part for part in parts if self._register.recall(part) is None]
            if dead or time.monotonic() > deadline:
                failure = f"{', '.join(dead)} ended" if dead else f"{failure} within {PATIENCE:.0f} s"
                words = "\n".join(f"  {part}: {last_words(self._log(part), 2)}" for part in dead or parts)
                raise ClusterError(f"{failure}; the logs end with\n{words}")
            time.sleep(0.2)

    def _watch_over(self, parts: Sequence[str]) -> None:
        """What was just started must live on for a moment: a scheduler that cannot read its certificate does not."""
        deadline = time.monotonic() + 1
        self._wait(lambda: time.monotonic() > deadline, "", parts)

    def _start_dns(self, program: Path) -> None:
        done = self.folder / "dns"
        if done.exists() and done.read_text() == str(program.parent.name):
            return
        self._load([images.binary_image("coredns", program, cache_folder())])
        manifest = (MANIFESTS / "coredns.yaml").read_text()
        self._apply(manifest.replace("$(ADDRESS)", network.DNS_SERVICE))
        done.write_text(program.parent.name)

    def _apply(self, manifest: str) -> None:
        answer = self._kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifest)
        if answer.returncode != 0:
            raise ClusterError(f"kubectl apply: {answer.stderr.strip()}")

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.kubectl, f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
        )

    def _remove(self) -> None:
        """Ends every process that is ours, by pid and start time, and what the kernel does not take down by itself."""
        disown(self.folder)
        for part in sorted(self._register.parts(), key=_stop_order):
            process = self._register.last(part)
            if process is not None:
                stop(process, grace=0)  # its data go, too
            self._register.forget(part)
        remove_cgroups(self._cgroup)
        if self.name == "real":
            network.remove_links()
        if self.folder.exists():
            shutil.rmtree(self.folder)
        with suppress(OSError):
            STATE.rmdir()  # unless the other cluster is there


def _require_root() -> None:
    if os.geteuid() != 0:
        raise ClusterError(
            "A cluster without a container engine needs root, for namespaces and control groups: "
            "use sudo, or start Docker."
        )


def _quietly(line: str) -> None:
    """The image of the sandbox is no news."""


def _stop_order(part: str) -> tuple[int, str]:
    """Nodes first (a machine takes all of its parts along), then the control plane from the outside in."""
    if "/" in part:
        return (0 if part.endswith("/machine") else 1, part)
    return (9 - control_plane.PARTS.index(part) if part in control_plane.PARTS else 2, part)
