"""`make test`: every part in turn, then one line a part with its time. `python -m tests PART…` runs some."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cluster.build import PROJECT, ensure_programs
from cluster.errors import ClusterError
from cluster.install import install
from cluster.native import Native
from cluster.provider import choose
from cluster.versions import CONTROL_PLANE, NODE

BIN = Path(sys.executable).parent
SIDE_BY_SIDE = ("-n", "4", "--dist", "worksteal")


@dataclass(frozen=True)
class Outcome:
    part: str
    passed: bool | None  # None: nothing here to run it on
    seconds: float


def lint() -> bool:
    commands: tuple[list[str | Path], ...] = (
        [BIN / "ruff", "format", "--check", "--quiet", "."],
        [BIN / "ruff", "check", "--quiet", "."],
        [BIN / "mypy", "--no-error-summary", "operator/taskyard", "cluster", "tests"],
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
    return _pytest("tests/unit")


def machine() -> bool | None:
    """The cluster program itself. It kills and removes the native cluster, so it comes before all that needs one."""
    if not isinstance(choose(), Native):
        print("The cluster here is not the native one: nothing of ours to start and stop.")
        return None
    return _pytest("tests/machine")


def cluster() -> bool:
    provider = choose()
    provider.up()
    install(provider, "task", "python")
    return _pytest("tests/cluster", *SIDE_BY_SIDE)


def chart() -> bool:
    return _pytest("tests/chart")


PARTS: dict[str, Callable[[], bool | None]] = {
    "lint": lint,
    "unit": unit,
    "machine": machine,
    "chart": chart,
    "cluster": cluster,
    "verify": verify,
}
ALL = ("lint", "unit", "machine", "chart", "cluster")


def main(parts: list[str]) -> int:
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"There is no part {', '.join(unknown)}; there are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    if not parts or {"machine", "chart", "cluster"} & set(parts):
        try:
            _build_what_is_missing()
        except ClusterError as error:
            print(f"tests: {error}", file=sys.stderr)
            return 1
    outcomes = [_timed(part) for part in parts or ALL]
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
    return subprocess.run(command, cwd=PROJECT).returncode == 0


def _contents(folders: list[str]) -> dict[Path, bytes]:
    files = (file for folder in folders for file in (PROJECT / folder).rglob("*") if file.is_file())
    return {file: file.read_bytes() for file in files}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
