"""Debian packages the development cluster needs, installed without starting what they bring.

The packages are only tools here: the cluster starts a containerd with folders and a socket of its own. So the
one that the package would start on a systemd machine must not run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLICY = Path("/usr/sbin/policy-rc.d")  # asked by invoke-rc.d and deb-systemd-invoke; 101 means "do not"
POLICY_MARK = "# taskyard: temporary, no services while packages are installed"
LOCK = Path("/run/lock/taskyard-packages")
TAIL = 15


def ensure_packages(names: Sequence[str]) -> None:
    """Have all the packages installed on return. Asks only dpkg, in milliseconds, when they are."""
    missing = missing_packages(names)
    _drop_own_policy()
    if not missing:
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg-query") is None:
        raise ClusterError(
            f"Packages are missing ({' '.join(missing)}), and without apt-get they cannot be installed. "
            "Install what they provide by other means, or use a machine with a container engine."
        )
    if os.geteuid() != 0:
        raise ClusterError(
            f"Packages are missing, and only root can install them: apt-get install {' '.join(missing)}"
        )
    with _one_at_a_time():
        # Whoever held the lock may have installed them.
        if missing := missing_packages(names):
            _install(missing)


def missing_packages(names: Sequence[str]) -> list[str]:
    """The given packages that are not fully installed, in the given order."""
    if shutil.which("dpkg-query") is None:
        return list(names)
    found = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${binary:Package} ${db:Status-Status}\n", *names],
        capture_output=True,
        text=True,
        check=False,  # 1 when one of them is unknown; the others are still listed
    )
    return missing_from(found.stdout, names)


def missing_from(listing: str, names: Sequence[str]) -> list[str]:
    """The names that `listing`, lines of package and status, does not call installed."""
    rows = (line.partition(" ") for line in listing.splitlines())
    # A package that exists for several architectures is listed as libc6:amd64.
    installed = {package.partition(":")[0] for package, _, status in rows if status == "installed"}
    return [name for name in names if name not in installed]


def _install(names: Sequence[str]) -> None:
    # --no-remove: Docker's own containerd.io, for one, would have to go for Debian's. That is not ours to decide.
    # A stale or broken third-party source fails the update and may not matter: the installation decides.
    update = _apt("update")
    with _services_stay_down():
        install = _apt("install", "--yes", "--no-install-recommends", "--no-remove", *names)
    if install.returncode == 0:
        return
    output = (install.stdout + ("" if update.returncode == 0 else update.stdout)).splitlines()
    raise ClusterError("\n".join((f"apt-get could not install {' '.join(names)}; it said:", *output[-TAIL:])))


def _apt(*arguments: str) -> subprocess.CompletedProcess[str]:
    keep_changed_files = ("Dpkg::Options::=--force-confdef", "Dpkg::Options::=--force-confold")
    options = [f"-o{option}" for option in ("DPkg::Lock::Timeout=300", *keep_changed_files)]
    return subprocess.run(
        ["apt-get", "-q", *options, *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two clusters that start at the same time install in turn: apt-get update does not wait by itself."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _drop_own_policy(policy: Path = POLICY) -> None:
    """Left by a run that was killed, it would keep the services of other packages from starting."""
    if policy.exists() and POLICY_MARK in policy.read_text(errors="replace") and os.geteuid() == 0:
        with _one_at_a_time():
            policy.unlink(missing_ok=True)


@contextlib.contextmanager
def _services_stay_down(policy: Path = POLICY) -> Iterator[None]:
    """While inside, no package starts a service. A policy that the machine already has stays in charge."""
    if policy.exists() and POLICY_MARK not in policy.read_text(errors="replace"):
        yield
        return
    # One with our mark was left by a run that was killed: take it over, so that it goes away now.
    policy.write_text(f"#!/bin/sh\n{POLICY_MARK}\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)
