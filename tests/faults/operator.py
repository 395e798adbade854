"""The operator as a process of the test's own: it serves the test's namespace, and may be killed at any line."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.faults.zygote import Child, zygote

JSON = dict[str, Any]

READY_WITHIN = 60.0
ENDS_WITHIN = 30.0
"""After SIGTERM: 16 s for runs that are drained with it, 5 for what it has in hand, 3 for its lease and those who
scrape it. The rest is for a busy machine.
"""


class Operator:
    """`taskyard run`, from this clone. Its log goes to a file, one JSON object a line."""

    def __init__(self, kubeconfig: Path | str, log: Path, **settings: str | float) -> None:
        self.log = log
        self._log_from = 0
        self._kubeconfig = str(kubeconfig)
        self._settings = {"identity": "operator-1", "health_port": free_port()} | settings
        self._process: Child | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, until: str = "listed", **settings: str | float) -> None:
        """Start it, with these settings for this once, and wait until its log says that it acts."""
        assert self._process is None, "it runs already"
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        environ = {
            key: value for key, value in os.environ.items() if not key.startswith(("TASKYARD_", "KUBE"))
        }
        environ |= {"KUBECONFIG": self._kubeconfig, "TASKYARD_LOG_FORMAT": "json"}
        environ |= {
            f"TASKYARD_{key.upper()}": str(value) for key, value in (self._settings | settings).items()
        }
        # Outside of tests it takes more than a second to start. Claims have whole seconds: one who acts within that of
        # an earlier one's claim cannot tell that this is of an earlier life.
        time.sleep(1 - time.time() % 1)
        self._process = zygote().fork(environ, self.log)
        deadline = time.monotonic() + READY_WITHIN
        while not self.said(until):
            if self._process.has_ended():
                return  # it may be meant to die before that; whoever waits for more will see
            assert time.monotonic() < deadline, f"the operator did not say {until!r}: {self._last_words()}"
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL: at whatever line it is."""
        assert self._process is not None
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def died(self, within: float = 60.0) -> int:
        """Wait until it has ended by itself; how it did: minus the signal, or its exit code."""
        assert self._process is not None
        try:
            code = self._process.wait(within)
        except TimeoutError:
            raise AssertionError(
                f"the operator still runs after {within:.0f} s: {self._last_words()}"
            ) from None
        self._process = None
        return code

    def pause(self) -> None:
        """As a machine does that is out of breath: it stops in the middle, and knows nothing of it."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self, *, is_unwell: bool = False) -> float:
        """SIGTERM, as a Deployment that is scaled down: it ends in order; in how many seconds. Nothing if it is gone
        already. One that is unwell may end by itself in just that moment.
        """
        if self._process is None:
            return 0.0
        self._signal(signal.SIGCONT)
        had_ended, began = self._process.has_ended(), time.monotonic()
        self._signal(signal.SIGTERM)
        try:
            code = self._process.wait(ENDS_WITHIN)
        except TimeoutError:
            self.kill()
            raise AssertionError(f"SIGTERM did not end the operator: {self._last_words()}") from None
        self._process = None
        assert code == 0 or had_ended or is_unwell, f"exit code {code} after SIGTERM: {self._last_words()}"
        return time.monotonic() - began

    def health(self) -> int:
        """What `/healthz` answers."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._settings['health_port']}/healthz", timeout=5
            ) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def lines(self) -> list[JSON]:
        """What it has said since its last start; what is not JSON, a traceback, is left out."""
        with self.log.open("rb") as log:
            log.seek(self._log_from)
            text = log.read().decode(errors="replace")
        found = []
        for line in text.splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return [line for line in found if isinstance(line, dict)]

    def said(self, event: str) -> list[JSON]:
        return [line for line in self.lines() if line.get("event") == event]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


@dataclass(frozen=True)
class Place:
    """Where a test's operators work."""

    kubeconfig: Path | str
    namespace: str
    folder: Path

    def operator(self, **settings: str | float) -> Operator:
        """One that serves this namespace, unless told otherwise, with its lease in there too; not started yet."""
        name = str(settings.get("identity", "operator-1"))
        here = {"namespaces": self.namespace, "lease_namespace": self.namespace}
        return Operator(self.kubeconfig, self.folder / f"{name}.log", **(here | settings))

    @contextmanager
    def running(self, **settings: str | float) -> Iterator[Operator]:
        with self.operator(**settings) as operator:
            yield operator


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
