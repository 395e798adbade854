"""The kind provider: nodes are containers of the engine that answers (docker or podman)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cluster.build import PROJECT, cache_folder, ensure_programs
from cluster.errors import ClusterError
from cluster.images import build_with_engine, ref

NAME = "taskyard"


class Kind:
    def __init__(self, engine: str, nodes: int) -> None:
        self._engine = engine
        self._nodes = nodes
        self._folder = cache_folder() / "kind"

    @property
    def kubeconfig(self) -> Path:
        return self._folder / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        return ensure_programs(["kubectl"])["kubectl"]

    def check(self) -> None:
        """The engine answered: all that kind needs."""

    def up(self, *, dns: bool = True, tools: Sequence[str] = ()) -> None:
        """A cluster that stands is used as it is; stopped containers are started again. kind brings its own DNS."""
        ensure_programs(["kind", "kubectl", *tools])
        if not self._containers():
            self._folder.mkdir(parents=True, exist_ok=True)
            config = self._folder / "config.json"
            config.write_text(json.dumps(configuration(self._nodes)))
            self._kind("create", "cluster", f"--config={config}", "--wait=120s")
        self._run(self._engine, "start", *self._containers())
        self._kind("export", "kubeconfig")
        self._wait_until_ready()

    def down(self) -> None:
        if self._containers():
            self._kind("delete", "cluster")

    def status(self) -> str:
        containers = self._containers()
        return f"kind ({self._engine}): nodes {', '.join(containers)}" if containers else "kind: down"

    def provide(self, images: Sequence[str]) -> dict[str, str]:
        built = {image: build_with_engine(self._engine, image, PROJECT) for image in images}
        with tempfile.TemporaryDirectory() as folder:
            archive = f"{folder}/images.tar"  # `kind load docker-image` knows docker only, an archive comes from both
            save = [self._engine, "save", *(["-m"] if self._engine == "podman" else []), "-o", archive]
            self._run(*save, *(ref(image) for image in images))
            self._kind("load", "image-archive", archive)
        return built

    def _containers(self) -> list[str]:
        """The nodes, running or stopped; asked of the engine, so that nothing needs to be built for the answer."""
        label = f"label=io.x-k8s.kind.cluster={NAME}"
        return self._run(self._engine, "ps", "--all", "--filter", label, "--format", "{{.Names}}").split()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 90
        while True:
            try:
                self._run(str(self.kubectl), f"--kubeconfig={self.kubeconfig}", "get", "--raw", "/readyz")
                return
            except ClusterError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _kind(self, *arguments: str) -> str:
        program = ensure_programs(["kind"])["kind"]
        config = [f"--kubeconfig={self.kubeconfig}"] if arguments[0] != "load" else []
        return self._run(str(program), *arguments, f"--name={NAME}", *config)

    def _run(self, *command: str) -> str:
        environment = {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": Path(self._engine).name}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise ClusterError(f"{Path(command[0]).name} {command[1]}: {done.stderr.strip()}")
        return done.stdout


def configuration(nodes: int) -> dict[str, object]:
    """One control plane that runs nothing else, and as many workers as asked for."""
    roles = [{"role": "control-plane"}, *({"role": "worker"} for _ in range(nodes))]
    return {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": roles}
