"""Processes are known by pid and start time; nothing else is ever signalled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.errors import ClusterError
from cluster.process import Process, Register, find, start, stop


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_is_found_and_alive(sleeper: subprocess.Popen[bytes]) -> None:
    process = find(sleeper.pid)
    assert process is not None
    assert process.is_alive


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"started": 1}, id="the same pid, started at another time"),
        pytest.param({"boot": "another"}, id="the same pid and time, before a reboot"),
    ],
)
def test_a_stranger_under_a_remembered_pid_is_left_alone(
    sleeper: subprocess.Popen[bytes], change: dict[str, object]
) -> None:
    known = find(sleeper.pid)
    assert known is not None
    stranger = replace(known, **change)  # type: ignore[arg-type]
    assert not stranger.is_alive
    stop(stranger)
    assert sleeper.poll() is None


def test_stop_ends_it_and_is_done_when_it_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    process = find(sleeper.pid)
    assert process is not None
    stop(process, grace=5)
    assert not process.is_alive


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    remembered: list[Process] = []
    process = start(["sh", "-c", "trap '' TERM; echo deaf; sleep 60"], tmp_path / "log", remembered.append)
    assert remembered == [process]
    while "deaf" not in (tmp_path / "log").read_text():
        assert process.is_alive
    stop(process, grace=0.2)
    assert not process.is_alive


def test_nothing_starts_before_it_is_remembered(tmp_path: Path) -> None:
    """Were this program to die while it writes the record, the process would end at its gate."""

    def fail(process: Process) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        start(["touch", str(tmp_path / "started")], tmp_path / "log", fail)
    assert not (tmp_path / "started").exists()


def test_a_wrapper_stands_for_its_child(tmp_path: Path) -> None:
    process = start(["sleep", "60"], tmp_path / "log", lambda _: None, wrapper=["setsid", "--fork", "--wait"])
    while Path(f"/proc/{process.pid}/cmdline").read_bytes() != b"sleep\x0060\x00":
        assert process.is_alive  # it passes the gate and becomes what was asked for
    stop(process, grace=1)


def test_one_that_cannot_start_says_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="ended at once"):
        start(["true"], tmp_path / "log", lambda _: None, wrapper=["sh", "-c", "echo no such thing; exit 1"])


def test_the_register_forgets_nothing_but_the_dead(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    register = Register(tmp_path / "processes")
    process = find(sleeper.pid)
    assert process is not None
    register.remember("node1/kubelet", process)
    assert Register(tmp_path / "processes").recall("node1/kubelet") == process
    assert register.parts() == ["node1/kubelet"]
    stop(process)
    assert register.recall("node1/kubelet") is None
    assert register.recall("never heard of") is None
