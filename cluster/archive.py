"""Writes a container image as a docker-archive file: one layer, its configuration, a name.

The same entries give the same bytes: sorted, owned by root, dated 1970.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import stat
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

EPOCH = "1970-01-01T00:00:00Z"
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as the kernel and as images name them


@dataclass(frozen=True)
class File:
    path: str
    content: Path | bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Folder:
    path: str
    mode: int = 0o755


@dataclass(frozen=True)
class Link:
    path: str
    target: str


Entry = File | Folder | Link


@dataclass(frozen=True)
class Config:
    """What a container of the image runs, unless its pod says otherwise."""

    user: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    folder: str = "/"

    def as_json(self) -> dict[str, object]:
        return {
            "User": self.user,
            "Entrypoint": list(self.entrypoint) or None,
            "Cmd": list(self.command) or None,
            "Env": [f"PATH={SEARCH_PATH}", *self.environment],
            "WorkingDir": self.folder,
        }


def entries_under(tree: Path) -> Iterator[Entry]:
    """All files, folders and symbolic links of a folder, without devices, sockets and set-uid bits."""
    for path in tree.rglob("*"):
        name, mode = str(path.relative_to(tree)), path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield Link(name, str(path.readlink()))
        elif stat.S_ISDIR(mode):
            yield Folder(name, mode & 0o1777)
        elif stat.S_ISREG(mode):
            yield File(name, path, mode & 0o777)


def write_archive(target: Path, ref: str, entries: Iterable[Entry], config: Config) -> None:
    layer = target.with_suffix(".layer")
    write_layer(layer, entries)
    _write_image(target, ref, layer, config)
    layer.unlink()


def write_layer(target: Path, entries: Iterable[Entry]) -> None:
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as layer:
        for entry in sorted(entries, key=lambda entry: entry.path):
            _add(layer, entry)


def image_architecture() -> str:
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def _add(layer: tarfile.TarFile, entry: Entry) -> None:
    header = tarfile.TarInfo(entry.path)
    match entry:
        case File(content=content, mode=mode):
            with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as opened:
                header.mode, header.size = mode, opened.seek(0, io.SEEK_END)
                opened.seek(0)
                layer.addfile(header, opened)
        case Folder(mode=mode):
            header.mode, header.type = mode, tarfile.DIRTYPE
            layer.addfile(header)
        case Link(target=target):
            header.mode, header.type, header.linkname = 0o777, tarfile.SYMTYPE, target
            layer.addfile(header)
        case _:
            assert_never(entry)


def _write_image(target: Path, ref: str, layer: Path, config: Config) -> None:
    with layer.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    described = json.dumps(
        {
            "architecture": image_architecture(),
            "os": "linux",
            "created": EPOCH,
            "config": config.as_json(),
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created": EPOCH, "created_by": "taskyard cluster.images"}],
        },
        sort_keys=True,
    ).encode()
    described_as = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = [{"Config": described_as, "RepoTags": [ref], "Layers": [f"{digest}.tar"]}]
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, File(f"{digest}.tar", layer))
        _add(archive, File(described_as, described))
        _add(archive, File("manifest.json", json.dumps(manifest, sort_keys=True).encode()))
