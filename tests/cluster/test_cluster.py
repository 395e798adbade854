"""The development cluster is a cluster as in production: what later tests rely on works."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.request
from typing import Any

from tests.kube import Kubectl

SERVER = "mkdir -p /tmp/www && echo hello > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"


def pod(name: str, script: str, **labels: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "localhost/taskyard-task:dev",
        "command": ["sh", "-c", script],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def test_pods_have_logs_exec_port_forward_services_and_names(kubectl: Kubectl) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    kubectl.create(service, pod("web", f"echo started; {SERVER}", app="web"))
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    assert kubectl("logs", "web") == "started\n"
    assert kubectl("exec", "web", "--", "hostname") == "web\n"
    assert fetch_through_port_forward(kubectl) == b"hello\n"
    name = f"http://web.{kubectl.namespace}.svc.cluster.local/"
    # the Service's endpoints and the answers of DNS may lag behind the pod by a moment
    client = f"for i in $(seq 50); do wget -q -O - {name} && exit 0; sleep 0.2; done; exit 1"
    kubectl.create(pod("client", client))
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/client", "--timeout=60s")
    assert kubectl("logs", "client").splitlines()[-1] == "hello"


def fetch_through_port_forward(kubectl: Kubectl) -> bytes:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *kubectl.command,
        f"--namespace={kubectl.namespace}",
        "port-forward",
        "pod/web",
        f"{port}:8080",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        try:
            assert forward.stdout is not None
            assert forward.stdout.readline().startswith("Forwarding from")
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            answer: bytes = opener.open(f"http://127.0.0.1:{port}/", timeout=10).read()
            return answer
        finally:
            forward.terminate()


def test_a_restricted_namespace_refuses_a_privileged_pod(kubectl: Kubectl) -> None:
    manifest = pod("root", "exit 0")
    manifest["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    answer = kubectl.ask("create", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest))
    assert answer.code != 0
    assert "violates PodSecurity" in answer.error


def test_parts_have_the_rights_of_their_role_and_no_more(admin: Kubectl) -> None:
    def may(who: str, group: str, *what: str) -> bool:
        impersonation = (f"--as={who}", f"--as-group={group}", "--as-group=system:authenticated")
        return admin.ask("auth", "can-i", *what, *impersonation).out.strip() == "yes"

    node = ("system:node:node1", "system:nodes")
    assert may(*node, "create", "nodes")
    assert not may(*node, "create", "deployments")
    assert not may(*node, "get", "secrets", "--all-namespaces")
    operator = ("system:serviceaccount:taskyard-system:taskyard", "system:serviceaccounts")
    assert may(*operator, "create", "jobs", "--all-namespaces")
    assert not may(*operator, "get", "secrets", "--all-namespaces")
    assert not may(*operator, "update", "tasks", "--all-namespaces")
