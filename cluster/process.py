"""Processes that outlive this program: remembered by pid *and* start time, and stopped by nothing less.

A pid alone is reused by the kernel, and a name belongs to anybody; pid, start time and boot id together are one
process for ever.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from cluster.errors import ClusterError

EXITING = 0x4  # PF_EXITING of the kernel


@dataclass(frozen=True)
class Process:
    pid: int
    started: int  # clock ticks after boot
    boot: str

    @property
    def is_alive(self) -> bool:
        """Whether it is there and not about to end: a killed process may take a while to be gone."""
        return find(self.pid) == self and not _is_ending(self.pid)


def find(pid: int) -> Process | None:
    """The process that has this pid now, be it alive, ending, or ended and not reaped yet."""
    fields = _stat(pid)
    return Process(pid, int(fields[19]), _boot()) if fields else None


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> list[str]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return stat.rpartition(")")[2].split()  # the name in parentheses before may contain anything


def _is_ending(pid: int) -> bool:
    """Whether SIGKILL is on its way to it, or it is on its way out, or it waits to be reaped."""
    fields = _stat(pid)
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = [
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))
    ]
    is_killed = any(mask & 1 << (signal.SIGKILL - 1) for mask in pending)
    return is_killed or not fields or fields[0] in "ZX" or bool(int(fields[6]) & EXITING)


GATE = 'read go && exec "$@" </dev/null'


def start(
    command: Sequence[str],
    log: Path,
    remember: Callable[[Process], None],
    wrapper: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Process:
    """Starts a process in a session of its own, where neither Ctrl-C nor the end of the terminal reaches it.

    It waits at a gate until it is remembered: were this program killed in between, the gate's pipe would close
    and the process end, so there is never one that nobody knows of. With a wrapper that forks (`unshare --fork`,
    `nsenter --pid`) its child is meant.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        begun = subprocess.Popen(
            [*wrapper, "sh", "-c", GATE, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
            env={**os.environ, **environment},
        )
    process = _only_child(begun.pid) if wrapper else find(begun.pid)
    if process is None or not process.is_alive:
        raise ClusterError(f"{Path(command[0]).name} ended at once; its last words: {last_words(log)}")
    remember(process)
    assert begun.stdin is not None
    with suppress(BrokenPipeError):
        begun.stdin.write(b"go\n")
        begun.stdin.close()
    return process


def _only_child(pid: int) -> Process | None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and not _is_ending(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            child = find(int(children[0])) if children else None
            if child is not None:
                return child
        time.sleep(0.02)
    return None


def stop(process: Process, grace: float = 10.0) -> None:
    """SIGTERM, then SIGKILL; returns when it is gone. A stranger under the same pid is left alone."""
    try:
        handle = os.pidfd_open(process.pid)  # from here on the pid cannot be reused under our hands
    except ProcessLookupError:
        return
    try:
        if find(process.pid) != process:
            return
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 30.0)):
            if patience <= 0:
                continue
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            if _ended(process, handle, patience):
                return
    finally:
        os.close(handle)
    raise ClusterError(f"process {process.pid} does not end, not even by SIGKILL")


def _ended(process: Process, handle: int, patience: float) -> bool:
    readable, _, _ = select.select([handle], [], [], patience)
    with suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)  # reap it, where it is our own child
    return bool(readable)


def last_words(log: Path, lines: int = 5) -> str:
    try:
        return " | ".join(log.read_text(errors="replace").splitlines()[-lines:]) or "(nothing)"
    except FileNotFoundError:
        return "(nothing)"


class Register:
    """Which process plays which part, one small file each, so that the next call of this program knows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def remember(self, part: str, process: Process) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._file(part)
        partial = file.with_suffix(".partial")
        with partial.open("w") as record:
            json.dump(asdict(process), record)
            record.flush()
            os.fsync(record.fileno())  # a record that a power cut has torn names no process
        partial.rename(file)

    def recall(self, part: str) -> Process | None:
        """The part's process, if it lives."""
        process = self.last(part)
        return process if process is not None and process.is_alive else None

    def last(self, part: str) -> Process | None:
        """The part's process, alive or not."""
        try:
            return Process(**json.loads(self._file(part).read_text()))
        except (
            FileNotFoundError,
            ValueError,
            TypeError,
        ):  # torn by a power cut, which ended the process, too
            return None

    def see_off(self, part: str) -> None:
        """Waits until the part's last process is gone for good; a killed one may hold its port for a while."""
        process = self.last(part)
        if process is not None:
            stop(process, grace=0)

    def forget(self, part: str) -> None:
        self._file(part).unlink(missing_ok=True)

    def parts(self) -> list[str]:
        return sorted(file.stem.replace("@", "/") for file in self._folder.glob("*.json"))

    def _file(self, part: str) -> Path:
        return self._folder / f"{part.replace('/', '@')}.json"
