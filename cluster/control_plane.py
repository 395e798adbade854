"""The command lines of a control plane; each of its parts has a certificate with a role of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cluster import network
from cluster.pki import Authority

API_PORT = 6443
REQUESTS_PER_SECOND = 300  # the controller manager's default of 20 holds Jobs to about 3 a second

# Memory is plentiful on a development machine, processors are not: at Go's default of 100, much of what a control plane
# does is to collect garbage.
ENVIRONMENT = {"GOGC": "400"}

# A node that falls silent is known after 20 seconds, and its pods are told to go 5 seconds later: the defaults, made
# for machines that may come back, are 50 seconds and 5 minutes. A node's lease lasts 8 seconds (`cluster/node.py`).
SILENT_NODES = ("--node-monitor-grace-period=20s", "--node-monitor-period=2s")
PODS_OF_SILENT_NODES = (
    "--default-unreachable-toleration-seconds=5",
    "--default-not-ready-toleration-seconds=5",
)

SERVERS = ("etcd", "apiserver")
CLIENTS = ("controller-manager", "scheduler")
PARTS = (*SERVERS, *CLIENTS)


@dataclass(frozen=True)
class ControlPlane:
    """Listens on one address of its own, and so never meets another server's port."""

    folder: Path
    address: str

    @property
    def server(self) -> str:
        return f"https://{self.address}:{API_PORT}"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def has_real_nodes(self) -> bool:
        """Nodes that can be lost. Pretended ones, hundreds on a busy machine, shall not seem to be."""
        return not self.address.startswith("127.")

    def authority(self) -> Authority:
        return Authority(self.folder / "pki")

    def prepare(self) -> None:
        authority = self.authority()
        admin = authority.issue("admin", "admin", ("system:masters",))
        authority.kubeconfig(self.kubeconfig, self.server, admin, "admin")

    def command(self, part: str, programs: dict[str, Path]) -> list[str]:
        match part:
            case "etcd":
                return [str(programs["etcd"]), *self._etcd()]
            case "apiserver":
                return [str(programs["kube-apiserver"]), *self._apiserver()]
            case "controller-manager":
                return [str(programs["kube-controller-manager"]), *self._controller_manager()]
            case "scheduler":
                return [str(programs["kube-scheduler"]), *self._scheduler()]
            case _:
                raise AssertionError(part)

    def _etcd(self) -> list[str]:
        authority = self.authority()
        pair = authority.issue("etcd", "etcd", hosts=(self.address,))
        return [
            "--name=etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls=https://{self.address}:2379",
            f"--advertise-client-urls=https://{self.address}:2379",
            f"--listen-peer-urls=https://{self.address}:2380",
            f"--initial-advertise-peer-urls=https://{self.address}:2380",
            f"--initial-cluster=etcd=https://{self.address}:2380",
            f"--cert-file={pair.certificate}",
            f"--key-file={pair.key}",
            f"--trusted-ca-file={authority.certificate}",
            "--client-cert-auth",
            f"--peer-cert-file={pair.certificate}",
            f"--peer-key-file={pair.key}",
            f"--peer-trusted-ca-file={authority.certificate}",
            "--unsafe-no-fsync",  # a development cluster: what a power cut eats is made anew
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        authority = self.authority()
        names = (
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        )
        hosts = (self.address, network.API_SERVICE, "localhost", *names)
        server = authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        etcd = authority.issue("apiserver-etcd", "apiserver-etcd")
        kubelet = authority.issue("apiserver-kubelet", "apiserver-kubelet", ("system:masters",))
        accounts = authority.service_account_key()
        return [
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={API_PORT}",
            f"--etcd-servers=https://{self.address}:2379",
            f"--etcd-cafile={authority.certificate}",
            f"--etcd-certfile={etcd.certificate}",
            f"--etcd-keyfile={etcd.key}",
            f"--client-ca-file={authority.certificate}",
            f"--tls-cert-file={server.certificate}",
            f"--tls-private-key-file={server.key}",
            f"--kubelet-certificate-authority={authority.certificate}",
            f"--kubelet-client-certificate={kubelet.certificate}",
            f"--kubelet-client-key={kubelet.key}",
            "--kubelet-preferred-address-types=InternalIP",  # or `kubectl logs` asks DNS for the node's name
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            f"--service-cluster-ip-range={network.SERVICES_CIDR}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--anonymous-auth=false",
            "--allow-privileged=true",
            "--profiling=false",
            # loopback cannot be announced as an endpoint; the kwok control plane is there, and its pods call nobody
            *(PODS_OF_SILENT_NODES if self.has_real_nodes else ("--endpoint-reconciler-type=none",)),
        ]

    def _controller_manager(self) -> list[str]:
        authority = self.authority()
        return [
            *self._client_flags("controller-manager", "system:kube-controller-manager"),
            f"--root-ca-file={authority.certificate}",
            f"--service-account-private-key-file={authority.service_account_key()}",
            f"--cluster-signing-cert-file={authority.certificate}",
            f"--cluster-signing-key-file={authority.key}",
            "--use-service-account-credentials=true",
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",  # by default below /usr, which it would fill
            f"--kube-api-qps={REQUESTS_PER_SECOND}",
            f"--kube-api-burst={REQUESTS_PER_SECOND}",
            *(SILENT_NODES if self.has_real_nodes else ()),
        ]

    def _scheduler(self) -> list[str]:
        limits = [f"--kube-api-qps={REQUESTS_PER_SECOND}", f"--kube-api-burst={REQUESTS_PER_SECOND}"]
        return [*self._client_flags("scheduler", "system:kube-scheduler"), *limits]

    def _client_flags(self, part: str, user: str) -> list[str]:
        authority = self.authority()
        pair = authority.issue(part, user, hosts=(self.address,))
        config = authority.kubeconfig(self.folder / f"{part}.kubeconfig", self.server, pair, user)
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            f"--bind-address={self.address}",
            f"--tls-cert-file={pair.certificate}",
            f"--tls-private-key-file={pair.key}",
            "--leader-elect=false",  # there is one of each
            "--profiling=false",
        ]
