"""Images are files: what is written, when it is written again, and what is left after a failure."""

from __future__ import annotations

import json
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from cluster import debian, images
from cluster.archive import Config, Entry, File, Folder, Link, entries_under, write_archive
from cluster.debian import missing_from
from cluster.errors import ClusterError
from cluster.recipes import Recipe, Step, debian_sources, digest, wheel_tags

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = Config(user="65532:65532", entrypoint=("/hello",))


def layer_of(archive: Path, folder: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (manifest,) = json.loads((folder / "manifest.json").read_text())
    with tarfile.open(folder / manifest["Layers"][0]) as layer:
        return {member.name: member for member in layer.getmembers()}


def test_same_entries_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    entries: list[Entry] = [File("hello", b"hi", 0o755), Folder("etc"), Link("bye", "/hello")]
    write_archive(tmp_path / "one.tar", "localhost/x:dev", entries, CONFIG)
    write_archive(tmp_path / "two.tar", "localhost/x:dev", reversed(entries), CONFIG)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_a_layer_belongs_to_root_and_has_no_set_uid_bit(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "tmp").mkdir(parents=True)
    (tree / "tmp").chmod(0o1777)
    (tree / "su").write_text("")
    (tree / "su").chmod(0o4755)
    (tree / "sh").symlink_to("/su")
    os.mkfifo(tree / "pipe")
    write_archive(tmp_path / "image.tar", "localhost/x:dev", entries_under(tree), CONFIG)

    layer = layer_of(tmp_path / "image.tar", tmp_path / "unpacked")

    assert sorted(layer) == ["sh", "su", "tmp"]
    assert (layer["tmp"].mode, layer["su"].mode, layer["sh"].linkname) == (0o1777, 0o755, "/su")
    assert {(member.uid, member.gid, member.mtime) for member in layer.values()} == {(0, 0, 0)}


def test_an_image_is_built_once_and_again_when_its_program_changes(tmp_path: Path) -> None:
    program = tmp_path / "program"
    said: list[str] = []

    def archive() -> Path:
        return images.binary_image("thing", program, tmp_path, say=said.append)

    program.write_bytes(b"one")
    first = archive()
    assert archive() == first
    assert said[-1] == "image 1 of 1: thing, there already"
    program.write_bytes(b"two")
    assert archive() != first


def test_a_failed_build_leaves_nothing_but_its_log(tmp_path: Path) -> None:
    def fail(step: Step) -> None:
        step.archive.write_text("half")
        raise ClusterError("no")

    recipe = Recipe("thing", "localhost/thing:dev", "a thing", inputs=lambda _: [], make=fail)
    with pytest.raises(ClusterError):
        images._build([recipe], tmp_path, tmp_path, lambda _: None)
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) == ["lock", "thing.log"]


def test_archives_used_last_are_kept(tmp_path: Path) -> None:
    for age in range(5):
        archive = tmp_path / f"task-{age:016x}.tar"
        archive.touch()
        os.utime(archive, (1000 - age, 1000 - age))
    (tmp_path / "task-runner-0000000000000000.tar").touch()
    assert [path.name for path in images.superseded(tmp_path, "task")] == [
        f"task-{age:016x}.tar" for age in (3, 4)
    ]


def test_content_that_moves_between_inputs_is_a_change() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"])


@pytest.mark.parametrize(
    ("listing", "sources"),
    [
        pytest.param("", [], id="no apt: the default of mmdebstrap"),
        pytest.param(
            "Debian http://mirror/debian/ bookworm main\nDebian http://mirror/debian/ bookworm main\n"
            "Debian http://mirror/security/ bookworm-security main\nOther http://x/ bookworm main",
            ["deb http://mirror/debian/ bookworm main", "deb http://mirror/security/ bookworm-security main"],
            id="the mirror of this machine, once each, Debian's own only",
        ),
        pytest.param("Debian http://mirror/debian/ trixie main", [], id="another suite: the default"),
    ],
)
def test_where_the_debian_root_comes_from(listing: str, sources: list[str]) -> None:
    assert debian_sources(listing) == sources


def test_wheels_are_chosen_for_the_image_and_not_for_this_python() -> None:
    options = wheel_tags("aarch64")
    assert options[:2] == ["--python-version", "3.11"]
    assert "manylinux_2_36_aarch64" in options
    assert "manylinux_2_37_aarch64" not in options


@pytest.mark.parametrize(
    ("listing", "missing"),
    [
        pytest.param("tini installed\nlibc6:amd64 installed\n", [], id="installed, with an architecture too"),
        pytest.param("tini config-files\nlibc6:amd64 installed\n", ["tini"], id="removed, its settings kept"),
        pytest.param("", ["tini", "libc6"], id="never heard of"),
    ],
)
def test_packages_that_are_missing(listing: str, missing: list[str]) -> None:
    assert missing_from(listing, ["tini", "libc6"]) == missing


def test_a_policy_of_the_machine_is_left_alone(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    with debian._services_stay_down(policy):
        assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert policy.exists()


@pytest.mark.parametrize("left", [None, debian.POLICY_MARK], ids=["none before", "one left by a killed run"])
def test_no_service_starts_during_an_installation(tmp_path: Path, left: str | None) -> None:
    policy = tmp_path / "policy-rc.d"
    if left:
        policy.write_text(left)
    with debian._services_stay_down(policy):
        assert os.waitstatus_to_exitcode(os.system(str(policy))) == 101  # noqa: S605 (a file made above)
    assert not policy.exists()
