"""The operator, from this clone, as a process of its own with the settings that the chart gives it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import yaml

from bench import processes
from bench.processes import Memory
from cluster.build import PROJECT
from tests.faults.operator import free_port

VALUES: Final = PROJECT / "charts" / "taskyard" / "values.yaml"
LISTED: Final = "listed"
READY_WITHIN: Final = 120.0
ENDS_WITHIN: Final = 40.0


def settings_of_the_chart() -> dict[str, str]:
    """As its Deployment sets them, from its default values."""
    values = yaml.safe_load(VALUES.read_text())
    return {
        "TASKYARD_IDENTITY": "taskyard-bench-0",
        "TASKYARD_LEASE_NAMESPACE": "default",
        "TASKYARD_LEASE_NAME": "taskyard",
        "TASKYARD_LOG_LEVEL": str(values["logLevel"]),
        "TASKYARD_LOG_FORMAT": "json",
        "TASKYARD_CONTINUE_SECONDS": str(values["continueSeconds"]),
        "TASKYARD_KEEP_JOBS_SECONDS": str(values["keepJobsSeconds"]),
    }


class Operator:
    """A running one. Its log goes to a file: one JSON object a line."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self._process = process
        self._log = log
        self.port = port
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu_seconds(self) -> float:
        return processes.cpu_seconds(self.pid)

    @property
    def memory(self) -> Memory:
        return processes.memory(self.pid)

    def said(self) -> Counter[str]:
        """How often it has said what."""
        found = Counter[str]()
        for line in self._log.read_text(errors="replace").splitlines():
            try:
                found[json.loads(line)["event"]] += 1
            except (ValueError, KeyError, TypeError):
                found["(not JSON)"] += 1
        return found

    def complaints(self) -> dict[str, int]:
        """What it has warned of, and how often."""
        found = Counter[str]()
        for line in self._log.read_text(errors="replace").splitlines():
            if '"level": "warning"' in line or '"level": "error"' in line:
                found[str(json.loads(line)["event"])] += 1
        return dict(found)

    async def ready(self) -> None:
        """Until it has listed everything, and begins to act."""
        while LISTED not in self.said():
            if self._process.poll() is not None or time.monotonic() > self.started + READY_WITHIN:
                last_words = self._log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the operator does not get ready: {last_words}")
            await asyncio.sleep(0.1)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    async def stop(self) -> None:
        """As a Deployment that is scaled down does."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()


def start(kubeconfig: Path, log: Path) -> Operator:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("TASKYARD_", "KUBE"))}
    port = free_port()
    environ |= settings_of_the_chart()
    environ |= {"KUBECONFIG": str(kubeconfig), "TASKYARD_HEALTH_PORT": str(port)}
    environ |= {"PYTHONPATH": str(PROJECT / "operator")}
    with_us = (
        "setpriv",
        "--pdeathsig",
        "KILL",
    )  # whatever becomes of a benchmark, its operator does not stay behind
    command = [*with_us, sys.executable, "-m", "taskyard.main", "run"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=output, cwd=PROJECT)
    return Operator(process, log, port)
