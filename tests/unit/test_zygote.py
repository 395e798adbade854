"""An operator that is forked is as good as one that is executed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.build import PROJECT
from tests.faults.zygote import KUBECONFIG_READ, Child, Zygote

READS = """
import json, os, sys
readers, ask = set(), type(os.environ).__getitem__
def read(self, key):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] in {"os", "collections.abc", "_collections_abc"}:
        frame = frame.f_back
    readers.add((key, frame.f_globals["__name__"]))
    return ask(self, key)
type(os.environ).__getitem__ = read
import taskyard.main
left = [name for name, module in sys.modules.items() if LEFT in vars(module)]
print(json.dumps([sorted(readers), left]))
"""


def test_nothing_but_the_kubeconfig_is_read_at_import_and_left_where_the_child_sets_it() -> None:
    environ = os.environ | {"PYTHONPATH": str(PROJECT / "operator")}
    code = READS.replace("LEFT", repr(KUBECONFIG_READ))
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True)
    readers, left = json.loads(done.stdout)
    # Copied whole for CGI programs by what `prometheus_client` imports for a server of its own, which nobody starts.
    readers = [(key, reader) for key, reader in readers if reader != "wsgiref.handlers"]
    ours = {(key, reader) for key, reader in readers if key.startswith(("TASKYARD_", "KUBE"))}
    assert {key for key, _ in ours} == {"KUBECONFIG"}
    assert {reader for _, reader in ours} <= set(left)


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.end()


def settings(**more: str) -> dict[str, str]:
    """Of an operator that asks for its lease for ever, at a port where nobody is."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "none",
        "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    }
    return {"TASKYARD_HEALTH_PORT": "0", "KUBECONFIG": json.dumps(config)} | more


def begun(zygote: Zygote, folder: Path, **more: str) -> Child:
    environ = settings(**more)
    (folder / "kubeconfig").write_text(environ["KUBECONFIG"])
    return zygote.fork(environ | {"KUBECONFIG": str(folder / "kubeconfig")}, folder / "log")


def sockets(child: Child) -> list[str]:
    files = Path(f"/proc/{child.process}/fd").iterdir()
    return [each.name for each in files if str(each.readlink()).startswith(("socket:", "anon_inode:[pidfd]"))]


def test_it_ends_as_it_is_told_and_with_the_code_that_it_has(zygote: Zygote, tmp_path: Path) -> None:
    killed, told = begun(zygote, tmp_path), begun(zygote, tmp_path)
    with pytest.raises(TimeoutError):
        killed.wait(0.5)
    assert not killed.has_ended()
    killed.send_signal(signal.SIGSTOP)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait(10) == -signal.SIGKILL
    assert not told.has_ended()
    told.send_signal(signal.SIGTERM)
    assert told.wait(10) == 0
    told.send_signal(signal.SIGTERM)  # too late, and no harm
    assert '"event": "stopped"' in (tmp_path / "log").read_text()


def test_its_environment_is_its_own(zygote: Zygote, tmp_path: Path) -> None:
    wrong = begun(zygote, tmp_path, TASKYARD_LOG_LEVEL="loud")
    assert wrong.wait(10) == 2
    assert "TASKYARD_LOG_LEVEL" in (tmp_path / "log").read_text()
    right = begun(zygote, tmp_path)
    with pytest.raises(TimeoutError):
        right.wait(0.5)
    right.send_signal(signal.SIGKILL)


def test_it_has_no_file_of_another_one(zygote: Zygote, tmp_path: Path) -> None:
    first, second = begun(zygote, tmp_path), begun(zygote, tmp_path)
    with pytest.raises(TimeoutError):
        second.wait(0.5)
    assert len(sockets(second)) == len(sockets(first))
    first.send_signal(signal.SIGKILL)
    second.send_signal(signal.SIGKILL)


def test_it_goes_with_whoever_asked_for_it(tmp_path: Path) -> None:
    zygote = Zygote()
    child = begun(zygote, tmp_path)
    zygote.end()
    with pytest.raises(AssertionError, match="is gone"):
        child.wait(10)
