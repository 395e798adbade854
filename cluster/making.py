"""What stands in a cluster's folder: how many nodes, and made by which sources."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

SOURCES = (
    "control_plane.py",
    "go/kubernetes/go.mod",
    "go/kubernetes/go.sum",
    "kwok.py",
    "making.py",
    "manifests/coredns.yaml",
    "native.py",
    "network.py",
    "node.py",
    "node.sh",
    "pki.py",
    "process.py",
)


@dataclass(frozen=True)
class Shape:
    """How many nodes, and of which kind."""

    nodes: int
    pretended: int


def fingerprint() -> str:
    """Equal for clones that make the same cluster."""
    here = Path(__file__).parent
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in SOURCES)).hexdigest()[:16]


def establish(folder: Path, shape: Shape) -> None:
    """From here on the folder is a cluster of this shape, and of our making."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = _file(folder).with_suffix(".partial")
    partial.write_text(json.dumps(_record_of(shape)))
    partial.rename(_file(folder))


def disown(folder: Path) -> None:
    """From here on it is nobody's: whoever finds half a cluster removes the rest."""
    _file(folder).unlink(missing_ok=True)


def shape_of(folder: Path) -> Shape | None:
    record = _record(folder)
    with suppress(KeyError, TypeError, ValueError):
        return Shape(int(str(record["nodes"])), int(str(record["pretended"])))
    return None


def is_of_same_making(folder: Path, shape: Shape) -> bool:
    return _record(folder) == _record_of(shape)


def _file(folder: Path) -> Path:
    return folder / "cluster.json"


def _record(folder: Path) -> dict[str, object]:
    with suppress(FileNotFoundError, ValueError):
        found = json.loads(_file(folder).read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _record_of(shape: Shape) -> dict[str, object]:
    return {"fingerprint": fingerprint(), **asdict(shape)}
