"""The user's own cluster: the current context of a kubeconfig. Nothing is started, stopped or loaded there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.build import cache_folder, ensure_programs
from cluster.errors import ClusterError
from cluster.images import ref


class Current:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    @property
    def kubeconfig(self) -> Path:
        """A copy of the context that was current at `up`: switching it in another shell must not redirect a test."""
        return cache_folder() / "current.kubeconfig"

    @property
    def kubectl(self) -> Path:
        installed = shutil.which("kubectl")
        return Path(installed) if installed else ensure_programs(["kubectl"])["kubectl"]

    def check(self) -> None:
        config = self._ask("config", "view", "--minify", "--flatten")
        if config.returncode != 0:
            raise ClusterError(
                f"`CLUSTER=current` needs a kubeconfig with a current context: {config.stderr.strip()}"
            )

    def up(self, *, dns: bool = True, tools: Sequence[str] = ()) -> None:
        self.check()
        ensure_programs(tools)
        self.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(self._ask("config", "view", "--minify", "--flatten").stdout)
        answer = self._ask("get", "--raw", "/readyz")
        if answer.returncode != 0:
            raise ClusterError(f"The cluster of the current context does not answer: {answer.stderr.strip()}")

    def down(self) -> None:
        print("The cluster is yours: nothing was started here, so nothing is stopped.")

    def status(self) -> str:
        context = self._ask("config", "current-context").stdout.strip()
        ready = self._ask("get", "--raw", "/readyz").returncode == 0
        return f"current: context {context!r}, API server {'ready' if ready else 'NOT ready'}"

    def provide(self, images: Sequence[str]) -> dict[str, str]:
        """Nothing can be put onto the nodes of a foreign cluster: the images have to be in their reach."""
        print(f"Taken for granted on this cluster's nodes: {', '.join(ref(image) for image in images)}")
        return dict.fromkeys(images, "dev")

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.kubectl, *arguments], capture_output=True, text=True, env=dict(self._environment)
        )
