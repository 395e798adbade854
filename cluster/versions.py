"""What is built, from which Go module. Versions are pinned, with checksums, in `go/*/go.mod` and `go.sum`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GO_MODULES = Path(__file__).parent / "go"


@dataclass(frozen=True)
class Program:
    name: str
    module: str  # a folder under go/
    package: str


def _kubernetes(name: str) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")


PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubelet"),
        _kubernetes("kube-proxy"),
        _kubernetes("kubectl"),
        Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
        Program("coredns", "coredns", "github.com/coredns/coredns"),
        Program("kind", "kind", "sigs.k8s.io/kind"),
    )
}

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("kubelet", "kube-proxy")


def pinned(module: str, folder: str) -> str:
    """The version of a Go module that a go.mod here requires, such as `v1.35.4`."""
    text = (GO_MODULES / folder / "go.mod").read_text()
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    assert found is not None, f"{module} is not in go/{folder}/go.mod"
    return found[1]


def kubernetes_version() -> str:
    return pinned("k8s.io/kubernetes", "kubernetes")
