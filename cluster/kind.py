"""The kind provider: nodes are containers of the engine that answers (docker or podman)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
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

    def up(self, *, dns: bool = True) -> None:
        """A cluster that stands is used as it is; stopped containers are started again. kind brings its own DNS."""
        if not self._stands():
            self._folder.mkdir(parents=True, exist_ok=True)
            config = self._folder / "config.json"
            config.write_text(json.dumps(configuration(self._nodes)))
            self._kind("create", "cluster", f"--config={config}", "--wait=120s")
        containers = self._kind("get", "nodes").split()
        subprocess.run([self._engine, "start", *containers], check=True, capture_output=True)
        self._kind("export", "kubeconfig")

    def down(self) -> None:
        if self._stands():
            self._kind("delete", "cluster")

    def status(self) -> str:
        if not self._stands():
            return "kind: down"
        return f"kind ({self._engine}): nodes {', '.join(self._kind('get', 'nodes').split())}"

    def provide(self, images: Sequence[str]) -> dict[str, str]:
        built = {image: build_with_engine(self._engine, image, PROJECT) for image in images}
        with tempfile.TemporaryDirectory() as folder:
            archive = f"{folder}/images.tar"  # `kind load docker-image` knows docker only, an archive comes from both
            save = [self._engine, "save", *(["-m"] if self._engine == "podman" else []), "-o", archive]
            subprocess.run([*save, *(ref(image) for image in images)], check=True, capture_output=True)
            self._kind("load", "image-archive", archive)
        return built

    def _stands(self) -> bool:
        return NAME in self._kind("get", "clusters", named=False).split()

    def _kind(self, *arguments: str, named: bool = True) -> str:
        program = ensure_programs(["kind"])["kind"]
        environment = {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": self._engine}
        name = [f"--name={NAME}"] if named else []
        config = [f"--kubeconfig={self.kubeconfig}"] if arguments[0] in ("create", "delete", "export") else []
        done = subprocess.run(
            [program, *arguments, *name, *config], capture_output=True, text=True, env=environment
        )
        if done.returncode != 0:
            raise ClusterError(f"kind {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


def configuration(nodes: int) -> dict[str, object]:
    """One control plane that runs nothing else, and as many workers as asked for."""
    roles = [{"role": "control-plane"}, *({"role": "worker"} for _ in range(nodes))]
    return {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": roles}
