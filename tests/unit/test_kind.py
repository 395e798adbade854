"""What the kind provider asks of kind and of the engine. Where an engine answers, `make test` runs on it for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster import kind
from cluster.errors import ClusterError
from cluster.kind import Kind

# Both note how they were called; kind knows one cluster from `create` on until `delete`.
ENGINE = """#!/bin/sh
echo "engine $*" >> {log}
[ "$1" = build ] && echo sha256:123
[ "$1" = ps ] && [ -e {folder}/stands ] && echo taskyard-control-plane taskyard-worker
exit 0
"""
KIND = """#!/bin/sh
echo "kind $*" >> {log}
case "$1 $2" in
  "create cluster") touch {folder}/stands ;;
  "delete cluster") rm {folder}/stands ;;
  "load image-archive") [ -d "$(dirname "$3")" ] || {{ echo "no such file" >&2; exit 1; }} ;;
esac
exit 0
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    log = tmp_path / "log"
    for name, script in (("engine", ENGINE), ("kind", KIND), ("kubectl", "#!/bin/sh\necho ok\n")):
        (tmp_path / name).write_text(script.format(log=log, folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(kind, "ensure_programs", lambda names: {name: tmp_path / name for name in names})
    monkeypatch.setenv("TASKYARD_CACHE", str(tmp_path / "cache"))
    return log


@pytest.fixture
def provider(log: Path, tmp_path: Path) -> Kind:
    return Kind(str(tmp_path / "engine"), nodes=2)


def calls(log: Path, beginning: str) -> list[str]:
    return [line for line in log.read_text().splitlines() if line.startswith(beginning)]


def test_up_makes_the_cluster_once(provider: Kind, log: Path) -> None:
    provider.up()
    provider.up()
    (create,) = calls(log, "kind create")
    config = next(word.removeprefix("--config=") for word in create.split() if word.startswith("--config="))
    roles = [node["role"] for node in json.loads(Path(config).read_text())["nodes"]]
    assert roles == ["control-plane", "worker", "worker"]
    assert f"--kubeconfig={provider.kubeconfig}" in create
    # stopped by a reboot, containers are started again
    assert calls(log, "engine start")[-1].split()[2:] == ["taskyard-control-plane", "taskyard-worker"]


def test_down_deletes_what_stands_and_nothing_else(provider: Kind, log: Path) -> None:
    provider.down()
    assert not calls(log, "kind delete")
    provider.up()
    provider.down()
    assert len(calls(log, "kind delete cluster --name=taskyard")) == 1
    assert provider.status() == "kind: down"


def test_images_are_built_by_the_engine_and_loaded(provider: Kind, log: Path) -> None:
    assert provider.provide(["operator", "task"]) == {"operator": "sha256:123", "task": "sha256:123"}
    files = [call.split("--file ")[1].split()[0] for call in calls(log, "engine build")]
    assert [Path(file).name for file in files] == ["Containerfile", "task.Containerfile"]
    assert all(Path(file).exists() for file in files)
    (save,) = calls(log, "engine save")
    assert save.endswith("localhost/taskyard:dev localhost/taskyard-task:dev")
    assert len(calls(log, "kind load image-archive")) == 1


def test_what_kind_says_is_passed_on(provider: Kind, tmp_path: Path) -> None:
    (tmp_path / "kind").write_text("#!/bin/sh\necho 'no space left' >&2; exit 1\n")
    with pytest.raises(ClusterError, match="no space left"):
        provider.up()
