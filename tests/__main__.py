"""`make test`: every part in turn, some beside another, then one line a part. `python -m tests PART…` runs some."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cluster.build import PROJECT, ensure_programs
from cluster.errors import ClusterError
from cluster.install import NAMESPACE, RELEASE, install, kubectl
from cluster.native import Native
from cluster.provider import Provider, choose
from cluster.versions import CONTROL_PLANE, NODE
from tests import parity as parity_table
from tests.history.recorder import record
from tests.history.test_recorded import RECORDING

BIN = Path(sys.executable).parent
TWO_AT_ONCE = ("-n", "2", "--dist", "worksteal")
SIDE_BY_SIDE = ("-n", "4", "--dist", "worksteal")

ASIDE: ContextVar[IO[bytes] | None] = ContextVar("ASIDE", default=None)
"""Where the commands of a part that runs beside another write to."""


@dataclass(frozen=True)
class Outcome:
    part: str
    passed: bool | None  # None: nothing here to run it on
    seconds: float


def lint() -> bool:
    commands: tuple[list[str | Path], ...] = (
        [BIN / "ruff", "format", "--check", "--quiet", "."],
        [BIN / "ruff", "check", "--quiet", "."],
        [BIN / "mypy", "--no-error-summary", "operator/taskyard", "cluster", "tests", "bench"],
        [BIN / "lint-imports", "--no-cache"],
    )
    passed = [_run(*command) for command in commands]  # all of them, whatever the first says
    return all(passed) and verify()


def verify() -> bool:
    """What is generated is what is committed."""
    generated = ["crds", "charts/taskyard/files/crds", "docs"]
    before = _contents(generated)
    written = _run(sys.executable, "-m", "taskyard.api.generate", "crds")
    if written and _contents(generated) != before:
        print("The generated files were not those of the API models: commit what `make manifests` writes.")
        return False
    return written


def unit() -> bool:
    # The simulation has processes of its own, and prints what it took.
    simulation = "tests/unit/test_simulation.py"
    passed = [_pytest("tests/unit", f"--ignore={simulation}", *TWO_AT_ONCE), _pytest(simulation)]
    return all(passed)


def machine() -> bool | None:
    """The cluster program itself. It kills and removes the native cluster, so it comes before all that needs one."""
    if not isinstance(choose(), Native):
        print("The cluster here is not the native one: nothing of ours to start and stop.")
        return None
    return _pytest("tests/machine")


def cluster() -> bool:
    provider = _installed()
    with _recorded(provider, "cluster"):
        return _pytest("tests/cluster", *SIDE_BY_SIDE)


def faults() -> bool:
    """Operators that die, and an API server that answers with errors: each test has operators of its own."""
    provider = _installed()
    with _nobody_else(provider), _recorded(provider, "faults"):
        return _pytest("tests/faults", *SIDE_BY_SIDE)


def crowd() -> bool | None:
    """Many tasks at once, on a second control plane whose nodes only pretend."""
    if not isinstance(choose(), Native):
        print("The cluster here is not the native one: there are no pretended nodes.")
        return None
    return _pytest("tests/crowd", *TWO_AT_ONCE)


def outages() -> bool | None:
    """Nodes and the control plane, taken away one after another."""
    provider = choose()
    if not isinstance(provider, Native):
        print("The cluster here is not the native one: its nodes are not ours to break.")
        return None
    _installed()
    with _nobody_else(provider), _recorded(provider, "outages"):
        return _pytest("tests/outages")


def history() -> bool | None:
    """What every Task, Job and pod of the parts before went through, step by step, as watches beside them saw it."""
    if not Path(os.environ[RECORDING]).exists():
        print("Nothing was recorded: `cluster`, `faults` or `outages` must run before.")
        return None
    return _pytest("tests/history", "-s")


def parity() -> bool:
    """Each test that docs/parity.md names has passed in this run."""
    outcomes, is_native = Path(os.environ[parity_table.OUTCOMES]), isinstance(choose(), Native)
    return parity_table.main(outcomes, is_native=is_native) == 0


def chart() -> bool:
    return _pytest("tests/chart")


PARTS: dict[str, Callable[[], bool | None]] = {
    "lint": lint,
    "unit": unit,
    "machine": machine,
    "chart": chart,
    "cluster": cluster,
    "faults": faults,
    "outages": outages,
    "crowd": crowd,
    "history": history,
    "parity": parity,
    "verify": verify,
}
ALL = ("machine", "lint", "chart", "cluster", "faults", "outages", "unit", "crowd", "history", "parity")
BESIDE = {"machine": ("lint", "chart"), "outages": ("unit", "crowd")}
"""What touches nothing of the cluster under test runs beside a part that mostly waits, with what the processors have to
spare: at the lowest priority it was not seen to disturb it.
"""


def main(parts: list[str]) -> int:
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"There is no part {', '.join(unknown)}; there are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    if not parts or {"machine", "chart", "cluster", "faults", "outages", "crowd"} & set(parts):
        try:
            _build_what_is_missing()
        except ClusterError as error:
            print(f"tests: {error}", file=sys.stderr)
            return 1
    with tempfile.TemporaryDirectory(prefix="taskyard-tests-") as folder:
        # Of this run only: every pytest adds its outcomes, and whatever needs a cluster adds to the recording.
        os.environ[parity_table.OUTCOMES] = str(Path(folder) / "outcomes")
        os.environ[RECORDING] = str(Path(folder) / "recording")
        outcomes = list(_outcomes(parts or ALL, Path(folder)))
    print()
    for outcome in outcomes:
        word = {True: "passed", False: "FAILED", None: "not run"}[outcome.passed]
        print(f"{outcome.part:10} {word:7} {outcome.seconds:7.1f} s")
    return 1 if any(outcome.passed is False for outcome in outcomes) else 0


def _build_what_is_missing() -> None:
    """All at once and first, so that the times of the parts are theirs."""
    provider = choose()
    provider.check()
    native = (*CONTROL_PLANE, *NODE, "coredns", "kwok") if isinstance(provider, Native) else ()
    ensure_programs([*native, "helm"])


def _installed() -> Provider:
    provider = choose()
    provider.up()
    install(provider, "task", "python")
    return provider


@contextmanager
def _nobody_else(provider: Provider) -> Iterator[None]:
    """The operator that the chart installed rests meanwhile: it would do the work of the tests' own."""
    scale = ("scale", "deployment", f"--namespace={NAMESPACE}", "--all")
    kubectl(provider, *scale, "--replicas=0")
    pods = ("pods", f"--namespace={NAMESPACE}", f"--selector=app.kubernetes.io/name={RELEASE}")
    kubectl(provider, "wait", "--for=delete", *pods, "--timeout=60s")
    try:
        yield
    finally:
        kubectl(provider, *scale, "--replicas=1")


@contextmanager
def _recorded(provider: Provider, part: str) -> Iterator[None]:
    """Every event of Tasks, Jobs and pods meanwhile, up to what the last test did."""
    command = (str(provider.kubectl), f"--kubeconfig={provider.kubeconfig}")
    with record(command, Path(os.environ[RECORDING]), part):
        yield


def _outcomes(parts: Sequence[str], folder: Path) -> Iterator[Outcome]:
    """Each part in its turn; and what may run beside another, when that one begins."""
    begun: set[str] = set()
    for part in parts:
        if part in begun:
            continue
        others = [each for each in BESIDE.get(part, ()) if each in parts]
        begun |= {part, *others}
        with ThreadPoolExecutor() as pool:
            beside = pool.submit(_at_leisure, others, folder)
            yield _timed(part)
            yield from beside.result()


def _at_leisure(parts: list[str], folder: Path) -> list[Outcome]:
    """These, one after another; what one of them prints is shown when it has ended."""
    outcomes = []
    for part in parts:
        said = folder / f"{part}.log"
        with said.open("wb") as log:
            ASIDE.set(log)
            outcomes.append(_timed(part))
        print(said.read_text(errors="replace"), flush=True)
    return outcomes


def _timed(part: str) -> Outcome:
    print(f"▶ {part}", flush=True)
    began = time.monotonic()
    try:
        passed = PARTS[part]()
    except ClusterError as error:
        print(f"{part}: {error}", file=sys.stderr)
        passed = False
    return Outcome(part, passed, time.monotonic() - began)


def _pytest(*arguments: str) -> bool:
    return _run(sys.executable, "-m", "pytest", "-q", *arguments)


def _run(*command: str | Path) -> bool:
    if (log := ASIDE.get()) is None:
        return subprocess.run(command, cwd=PROJECT).returncode == 0
    slowly = ("nice", "-n", "19", *command)
    return subprocess.run(slowly, cwd=PROJECT, stdout=log, stderr=subprocess.STDOUT).returncode == 0


def _contents(folders: list[str]) -> dict[Path, bytes]:
    files = (file for folder in folders for file in (PROJECT / folder).rglob("*") if file.is_file())
    return {file: file.read_bytes() for file in files}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
