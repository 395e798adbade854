"""Operators that are born with everything imported: that costs 0.9 s of a processor, and tests start a hundred.

One process of `python -m tests.faults.zygote` imports the operator, runs nothing of it, and forks whenever one is asked
for. Each is a process as any other, with its own environment, log, signals and exit code. What it shares with its
siblings is what an import leaves behind: `tests/unit/test_zygote.py` sees to it that this knows no environment.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from cluster.build import PROJECT

LONGEST_REQUEST = 1 << 17
READY_WITHIN = 60.0
KUBECONFIG_READ = "KUBE_CONFIG_DEFAULT_LOCATION"


class Child:
    """A process that somebody else is the parent of: who that is tells how it ended."""

    def __init__(self, process: int, handle: int, parent: socket.socket) -> None:
        self.process = process
        self._handle = handle
        self._parent = parent
        self._code: int | None = None

    def wait(self, seconds: float | None = None) -> int:
        """Minus the signal, or its exit code. Raises TimeoutError while it runs."""
        if self._code is None:
            self._parent.settimeout(seconds)
            try:
                said = self._parent.recv(64)
            except BlockingIOError:  # that is what no time at all is called
                raise TimeoutError from None
            assert said, "whoever has forked it is gone"
            self._code = int(said)
            os.close(self._handle)
            self._parent.close()
        return self._code

    def has_ended(self) -> bool:
        try:
            self.wait(0)
        except TimeoutError:
            return False
        return True

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing if it has ended; and never to another process that has its number by now."""
        if not self.has_ended():
            signal.pidfd_send_signal(self._handle, number)


class Zygote:
    """This end of the process that forks; it ends when this one does, be it by SIGKILL, and ends what it has forked."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
        environ |= {"PYTHONPATH": f"{PROJECT / 'operator'}:{PROJECT}"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                env=environ,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def fork(self, environ: Mapping[str, str], log: Path) -> Child:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(READY_WITHIN)
        with theirs, log.open("ab") as output:
            request = json.dumps(dict(environ)).encode()
            socket.send_fds(self._channel, [request], [theirs.fileno(), output.fileno()])
        said, (handle, *_), _, _ = socket.recv_fds(ours, 64, 1)
        return Child(int(said), handle, ours)

    def end(self) -> None:
        self._channel.close()
        self._process.wait()


_only: list[Zygote] = []
_one_at_a_time = threading.Lock()


def zygote() -> Zygote:
    """The one of this process."""
    with _one_at_a_time:
        if not _only:
            _only.append(Zygote())
        return _only[0]


def serve(channel: socket.socket) -> tuple[dict[str, str], int] | None:
    """Fork for whoever asks. In a child: its environment and its log. In the parent, at the end: None."""
    asked = selectors.DefaultSelector()
    asked.register(channel, selectors.EVENT_READ)
    born: dict[int, tuple[int, socket.socket]] = {}  # by handle: the process, and who wants to know its end
    while True:
        for key, _ in asked.select():
            if key.fileobj is not channel:
                asked.unregister(key.fileobj)
                process, parent = born.pop(key.fd)
                _, status = os.waitpid(process, 0)
                os.close(key.fd)
                with parent:
                    _tell(parent, status)
                continue
            request, descriptors, _, _ = socket.recv_fds(channel, LONGEST_REQUEST, 2)
            if not request:
                for handle in born:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                return None
            answer, log = socket.socket(fileno=descriptors[0]), descriptors[1]
            assert len(list(Path("/proc/self/task").iterdir())) == 1, "a thread would be lost to the child"
            process = os.fork()
            if process == 0:
                # An exec would have closed all this. None of it may outlive us in a child: an end is told by closing.
                asked.close()
                for each in (channel, answer, *(parent for _, parent in born.values())):
                    each.close()
                for handle in born:
                    os.close(handle)
                return json.loads(request), log
            os.close(log)
            handle = os.pidfd_open(process)
            socket.send_fds(answer, [str(process).encode()], [handle])
            born[handle] = process, answer
            asked.register(handle, selectors.EVENT_READ)


def _tell(parent: socket.socket, status: int) -> None:
    try:
        parent.send(str(os.waitstatus_to_exitcode(status)).encode())
    except BrokenPipeError:  # nobody asks any more
        return


def become(environ: Mapping[str, str], log: int) -> None:
    """What an exec would have made of this process."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.environ.clear()
    os.environ.update(environ)
    for module in list(sys.modules.values()):  # the one variable that is read at import, by two libraries
        if KUBECONFIG_READ in vars(module):
            setattr(module, KUBECONFIG_READ, environ["KUBECONFIG"])
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> int:
    from taskyard.main import main as operate

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, whose end is ours
    gc.collect()
    gc.freeze()  # what is imported stays: no child need look at it again, and so copy it
    born = serve(socket.socket(fileno=int(sys.argv[1])))
    if born is None:
        return 0
    become(*born)
    return operate(["run"])


if __name__ == "__main__":
    sys.exit(main())
