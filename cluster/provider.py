"""What every provider offers, and how one is chosen."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from cluster.current import Current
from cluster.errors import ClusterError
from cluster.kind import Kind
from cluster.making import Shape
from cluster.native import Native


class Provider(Protocol):
    @property
    def kubeconfig(self) -> Path: ...

    @property
    def kubectl(self) -> Path: ...

    def check(self) -> None:
        """Says what this machine lacks, before anything is done."""

    def up(self, *, dns: bool = True, tools: Sequence[str] = ()) -> None:
        """Brings up what is not up, and builds tools beside it; fast, and changes nothing, when all is."""

    def down(self) -> None:
        """Stops exactly what `up` started."""

    def status(self) -> str: ...

    def provide(self, images: Sequence[str]) -> dict[str, str]:
        """Builds images (`operator`, `task`, `python`) onto every node; a name for the content of each."""
        ...


def choose(environment: Mapping[str, str] = os.environ) -> Provider:
    """`CLUSTER` names one; otherwise kind where a container engine answers, and native where none does."""
    nodes = environment.get("NODES")
    if nodes is not None and nodes not in ("1", "2", "3"):
        raise ClusterError(f"`NODES` must be 1, 2 or 3; it is {nodes!r}")
    match environment.get("CLUSTER", ""):
        case "current":
            return Current(environment)
        case "native":
            return Native(shape=Shape(int(nodes), 0) if nodes else None)
        case "kind":
            engine = answering_engine()
            if engine is None:
                raise ClusterError(
                    "`CLUSTER=kind` needs a container engine, and neither docker nor podman answers."
                )
            return Kind(engine, int(nodes or 2))
        case "":
            engine = answering_engine()
            return (
                Kind(engine, int(nodes or 2))
                if engine
                else Native(shape=Shape(int(nodes), 0) if nodes else None)
            )
        case other:
            raise ClusterError(f"`CLUSTER` must be one of kind, native, current; it is {other!r}")


def answering_engine() -> str | None:
    """A client on the PATH is not enough: the engine itself must answer."""
    for engine in ("docker", "podman"):
        if shutil.which(engine):
            with suppress(subprocess.TimeoutExpired):  # hung is as good as none
                if subprocess.run([engine, "info"], capture_output=True, timeout=20).returncode == 0:
                    return engine
    return None
