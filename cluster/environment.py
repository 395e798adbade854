"""`python3 cluster/environment.py FOLDER LOCK`: the virtual environment of the tools, made once for all clones.

Run by the Makefile with the machine's own Python, so it needs nothing but the standard library. The folder's
name holds a hash of the lock: what is there is never made again, and never removed under another clone's feet.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)


def main(folder: Path, lock: Path) -> int:
    if sys.version_info < OLDEST:
        return complain(
            f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}. `make PYTHON=…` names another."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another clone may be at it
        if (folder / "complete").exists():
            return 0
        if not has_venv() and not install_venv():
            return complain("Python lacks its venv module: install the package python3-venv.")
        print(f"Installing the Python tools into {folder}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)  # what a killed run has left
        pip: list[str | Path] = [
            folder / "bin" / "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--require-hashes",
        ]
        commands: list[list[str | Path]] = [
            [sys.executable, "-m", "venv", folder],
            [*pip, "--requirement", lock],
        ]
        for command in commands:
            if subprocess.run(command).returncode != 0:
                return complain("The Python tools could not be installed.")
        (folder / "complete").touch()
    return 0


def has_venv() -> bool:
    return (
        subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0
    )


def install_venv() -> bool:
    """Debian and Ubuntu keep it in a package of its own."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    commands = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "python3-venv"])
    return all(subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0 for command in commands)


def complain(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
