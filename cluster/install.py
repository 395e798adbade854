"""Taskyard in the development cluster, the way a user installs it: its image, and its chart by Helm."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cluster.build import PROJECT, ensure_programs
from cluster.errors import ClusterError
from cluster.provider import Provider

NAMESPACE = "taskyard-system"
RELEASE = "taskyard"


def install(provider: Provider, *task_images: str) -> None:
    """Installs or upgrades, with images for tasks beside the operator's; waits until the operator is ready."""
    helm = ensure_programs(["helm"])["helm"]
    _refuse_to_replace(provider)
    # The tag stays when the image changes: an annotation with its content's name makes the Deployment roll.
    version = provider.provide(["operator", *task_images])["operator"]
    command = [
        str(helm),
        "upgrade",
        "--install",
        RELEASE,
        str(PROJECT / "charts" / "taskyard"),
        f"--kubeconfig={provider.kubeconfig}",
        f"--namespace={NAMESPACE}",
        "--create-namespace",
        "--set=image.tag=dev",
        f"--set-string=podAnnotations.taskyard\\.dev/image={version}",
        "--wait",
        "--timeout=120s",
    ]
    _run(command)


def _refuse_to_replace(provider: Provider) -> None:
    """A release that was not made here is somebody's operator: it shall not become a development version."""
    jsonpath = "jsonpath={.items[*].spec.template.metadata.annotations['taskyard\\.dev/image']}"
    where = ("get", "deployments", f"--namespace={NAMESPACE}", "--ignore-not-found")
    if (
        kubectl(provider, *where, "-o", "name").strip()
        and not kubectl(provider, *where, "-o", jsonpath).strip()
    ):
        raise ClusterError(
            f"The namespace `{NAMESPACE}` has a Taskyard that was not installed by `make`: left alone."
        )


def kubectl(provider: Provider, *arguments: str, stdin: str | None = None) -> str:
    return _run([str(provider.kubectl), f"--kubeconfig={provider.kubeconfig}", *arguments], stdin)


def _run(command: list[str], stdin: str | None = None) -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        name, verb = Path(command[0]).name, command[1] if len(command) > 1 else ""
        raise ClusterError(f"{name} {verb} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
