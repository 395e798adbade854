"""What is said before anything is built, and where things go."""

from __future__ import annotations

import os
import shutil
import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster import build
from cluster.errors import ClusterError
from cluster.pki import Authority
from cluster.versions import PROGRAMS, kubernetes_version


def test_too_little_disk_is_said_before_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_CACHE", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1.5e9))
    with pytest.raises(
        ClusterError, match=r"The build needs 6 GB of disk, and .* has 1.5 GB free; set TASKYARD_CACHE"
    ):
        build.ensure_programs(["kubectl"])
    assert not list(tmp_path.iterdir())


def test_nothing_is_built_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "find_go", lambda: pytest.fail("a build began"))
    for name in PROGRAMS:
        build.program_path(name).parent.mkdir(parents=True, exist_ok=True)
        build.program_path(name).touch()
    assert set(build.ensure_programs(PROGRAMS)) == set(PROGRAMS)


def test_all_of_a_build_is_in_the_cache_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_CACHE", "somewhere")
    environment = build._go_environment()
    for place in (build.program_path("etcd"), Path(environment["GOCACHE"]), Path(environment["GOMODCACHE"])):
        assert place.is_relative_to(Path.cwd() / "somewhere"), "programs are started from another folder"


def test_what_was_killed_yesterday_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKYARD_CACHE", str(tmp_path))
    old, new = tmp_path / "partial-old", tmp_path / "partial-new"
    for folder in (old, new):
        folder.mkdir()
    monkeypatch.setattr("time.time", lambda: new.stat().st_mtime + 60)
    os.utime(old, (0, 0))
    build._sweep()
    assert [folder.name for folder in tmp_path.iterdir()] == ["partial-new"]


def test_the_version_is_the_one_of_the_lock() -> None:
    assert kubernetes_version().startswith("v1.35.")


def test_certificates_satisfy_the_strictest_reader(tmp_path: Path) -> None:
    """Python 3.13 asks for all that RFC 5280 says; a handshake in memory, with that switched on."""
    authority = Authority(tmp_path)
    pair = authority.issue("server", "server", hosts=("localhost", "127.0.0.1"))
    client_context = ssl.create_default_context(cafile=str(authority.certificate))
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(pair.certificate, pair.key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.getpeercert()


def test_keys_are_nobody_elses(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.issue("admin", "admin", ("system:masters",))
    assert {file.stat().st_mode & 0o077 for file in (authority.key, pair.key)} == {0}
    assert authority.issue("admin", "admin") == pair, "none is made twice"
