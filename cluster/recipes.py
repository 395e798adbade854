"""How each image is made, and what it is made of.

Small images are written file by file. Only the operator's needs buildah: it comes from the Containerfile that
users build, on a Debian root in place of a base image that cannot be pulled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.archive import Config, Entry, File, Folder, Link, entries_under, write_archive
from cluster.debian import ensure_packages
from cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

USER = "65532:65532"
WRITABLE = "/tmp"  # noqa: S108 (of the container: where a task may write)
BUSYBOX = Path("/bin/busybox")
TINI = Path("/usr/bin/tini-static")

SUITE = "bookworm"
PYTHON = "3.11"  # the one of that suite, and of the Containerfile's default base
GLIBC_MINOR = 36  # likewise: which manylinux wheels run there
ROOT_PACKAGES = ("base-files", "busybox-static", "python3-venv")
UNUSED = (
    *(f"usr/share/{name}" for name in ("bash-completion", "binfmts", "bug", "debconf", "doc", "doc-base")),
    *(
        f"usr/share/{name}"
        for name in ("dpkg", "info", "lintian", "locale", "man", "perl5", "pixmaps", "polkit-1")
    ),
    *(f"usr/lib/python{PYTHON}/{name}" for name in ("pydoc_data", "test")),
    *(
        "usr/lib/*/gconv",
        "usr/lib/*/libmvec.*",
    ),  # character sets and vector functions of C: Python uses neither
    *("usr/bin/*dpkg*", "usr/bin/debconf*", "usr/sbin/dpkg*", "usr/lib/dpkg", "etc/apt", "etc/dpkg"),
    *("usr/bin/openssl", "usr/bin/c_rehash", "usr/bin/tar"),  # busybox has a tar
    *("var/lib/dpkg", "var/lib/apt", "var/cache/*", "var/log/*", "dev/*"),
)
TAIL = 20


@dataclass(frozen=True)
class Step:
    """What a recipe works with while it makes one image."""

    ref: str
    project: Path
    store: Path  # of everything that is kept
    work: Path  # empty, and gone afterwards
    archive: Path  # to be written
    made: Mapping[str, Path]  # archives of the images it needs
    log: Path

    def run(self, *command: str | Path) -> None:
        """Run with the output in the log, in a mount namespace of its own, so that no mount stays behind.

        It dies with this process: otherwise a killed build would go on, in a folder that the next one clears.
        """
        with self.log.open("a") as log:
            print("$", *command, file=log, flush=True)
            done = subprocess.run(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    "unshare",
                    "--mount",
                    "--propagation",
                    "private",
                    *command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
                env={**os.environ, "TMPDIR": str(self.work)},
            )
        if done.returncode != 0:
            tail = self.log.read_text(errors="replace").splitlines()[-TAIL:]
            failed = (
                f"The image {self.ref} was not built: `{Path(command[0]).name}` failed ({done.returncode})."
            )
            raise ClusterError("\n".join((f"{failed} The end of {self.log}:", *tail)))


@dataclass(frozen=True)
class Recipe:
    name: str
    ref: str
    what: str
    inputs: Callable[[Path], Iterable[bytes]]  # from the project: all that decides what is in the image
    make: Callable[[Step], None]
    needs: tuple[str, ...] = ()


def digest(chunks: Iterable[bytes]) -> str:
    # Of digests, so that what moves from one chunk to the next is a change.
    return hashlib.sha256(b"".join(hashlib.sha256(chunk).digest() for chunk in chunks)).hexdigest()[:16]


def files_under(folder: Path) -> Iterator[bytes]:
    """Names and contents of all files, in order, without what Python leaves behind."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(folder)).encode()
            yield path.read_bytes()


# --- one static program -----------------------------------------------------------------------------------


def binary_recipe(name: str, ref: str, binary: Path, arguments: Sequence[str], user: str) -> Recipe:
    config = Config(user=user, entrypoint=(f"/{binary.name}", *arguments))
    return Recipe(
        name=name,
        ref=ref,
        what="one static program",
        inputs=lambda _: [binary.read_bytes(), repr(config).encode()],
        make=lambda step: write_archive(step.archive, ref, [File(binary.name, binary, 0o755)], config),
    )


# --- pause and task: busybox ------------------------------------------------------------------------------


def _pause_inputs(_: Path) -> Iterator[bytes]:
    ensure_packages(["busybox-static", "tini"])
    yield BUSYBOX.read_bytes()
    yield TINI.read_bytes()


def _make_pause(step: Step) -> None:
    # tini, as process 1, reaps what a shared process namespace leaves to it, and passes SIGTERM on. A bare
    # sleep as process 1 would do neither.
    config = Config(user="65535:65535", entrypoint=("/tini", "--", "/busybox", "sleep", "infinity"))
    entries = [File("tini", TINI, 0o755), File("busybox", BUSYBOX, 0o755)]
    write_archive(step.archive, step.ref, entries, config)


def _task_inputs(project: Path) -> Iterator[bytes]:
    ensure_packages(["busybox-static"])
    yield BUSYBOX.read_bytes()
    yield from files_under(project / "images" / "etc")


def _make_task(step: Step) -> None:
    entries: list[Entry] = [
        *(Folder(name) for name in ("bin", "etc", "sbin", "usr", "usr/bin", "usr/sbin")),
        Folder("tmp", 0o1777),
        File("bin/busybox", BUSYBOX, 0o755),
        *(Link(path, "/bin/busybox") for path in _applets(BUSYBOX) if path != "bin/busybox"),
        *(File(f"etc/{path.name}", path) for path in (step.project / "images" / "etc").iterdir()),
    ]
    config = Config(user=USER, command=("/bin/sh",), environment=(f"HOME={WRITABLE}",), folder=WRITABLE)
    write_archive(step.archive, step.ref, entries, config)


def _applets(busybox: Path) -> list[str]:
    """Where the names belong that busybox answers to, such as `bin/ls`."""
    return subprocess.run([busybox, "--list-full"], capture_output=True, text=True, check=True).stdout.split()


# --- python: a Debian root --------------------------------------------------------------------------------


def _python_inputs(project: Path) -> Iterator[bytes]:
    yield from files_under(project / "images" / "etc")


def _make_python(step: Step) -> None:
    """Python and what it needs, unpacked and not installed: no package manager, and busybox for the shell."""
    ensure_packages(["mmdebstrap", "debian-archive-keyring"])
    tree = step.work / "root"
    step.run(
        *("mmdebstrap", "--variant=extract", "--format=directory", f"--include={','.join(ROOT_PACKAGES)}"),
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        *(SUITE, str(tree), *_sources_of_this_machine()),
    )
    _trim(tree)
    _complete(tree, step.project / "images" / "etc")
    # By hash and unchecked, as in the Containerfile: the archive does not keep the timestamps of packages.
    compileall = ("-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")
    step.run("chroot", tree, "/usr/bin/python3", *compileall, f"/usr/lib/python{PYTHON}")
    config = Config(user=USER, command=("python3",), environment=(f"HOME={WRITABLE}",), folder=WRITABLE)
    write_archive(step.archive, step.ref, entries_under(tree), config)


def _sources_of_this_machine() -> list[str]:
    query = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)"]
    listed = subprocess.run(query, capture_output=True, text=True, check=False)
    return debian_sources(listed.stdout)


def debian_sources(listing: str) -> list[str]:
    """Where this machine gets the suite from, as lines of a sources.list, so that its mirror is used.

    Given lines of origin, address, release and component. None for another suite: mmdebstrap has a default.
    """
    rows = {tuple(line.split()) for line in listing.splitlines() if line.startswith("Debian ")}
    found = sorted(row for row in rows if len(row) == 4 and row[2].partition("-")[0] == SUITE)
    if not any(release == SUITE for _, _, release, _ in found):
        return []
    return [f"deb {address} {release} {component}" for _, address, release, component in found]


def _trim(tree: Path) -> None:
    for path in (path for pattern in UNUSED for path in tree.glob(pattern)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _complete(tree: Path, etc: Path) -> None:
    """What the packages' own scripts would have done, as far as it matters here."""
    for path in etc.iterdir():
        shutil.copyfile(path, tree / "etc" / path.name)
    certificates = sorted((tree / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = tree / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(path.read_bytes() for path in certificates))
    for applet in _applets(tree / "usr/bin/busybox"):
        link = tree / "usr" / applet.removeprefix("usr/")  # /bin and /sbin are links into /usr
        if not link.exists() and not link.is_symlink():
            link.symlink_to("/usr/bin/busybox")
    (tree / "usr/bin/python").symlink_to("python3")
    (tree / "tmp").chmod(0o1777)


# --- operator: the Containerfile --------------------------------------------------------------------------


def _operator_inputs(project: Path) -> Iterator[bytes]:
    names = ("Containerfile", ".dockerignore", "requirements.lock", "images/requirements-build.lock")
    for name in (*names, "pyproject.toml", "LICENSE"):
        path = project / name
        if not path.exists():
            raise ClusterError(f"`{name}` is missing: the operator's image is made of it, among others.")
        yield path.read_bytes()
    yield from files_under(project / "operator")


def _make_operator(step: Step) -> None:
    ensure_packages(["buildah"])
    wheels = _wheels(step)
    policy = step.work / "policy.json"  # that of the machine may be missing, or allow only signed images
    policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
    base, target = step.made["python"], f"docker-archive:{step.archive}:{step.ref}"
    driver = _storage_driver(step)
    with _storage(step, driver, key=digest([base.name.encode(), wheels.name.encode()])) as storage:
        buildah = ("buildah", "--root", storage, "--runroot", step.work / "run", "--storage-driver", driver)
        step.run(*buildah, "pull", "--quiet", "--signature-policy", policy, f"docker-archive:{base}")
        step.run(
            *(*buildah, "build", "--isolation", "chroot", "--pull-never", "--timestamp", "0"),
            *(f"--layers={str(driver == 'overlay').lower()}", "--signature-policy", policy),
            *("--volume", f"{wheels}:/wheels:ro", "--build-arg", f"BASE={RECIPES['python'].ref}"),
            *("--build-arg", "PIP_NO_INDEX=1", "--build-arg", "PIP_FIND_LINKS=/wheels"),
            *("--tag", step.ref, "--file", step.project / "Containerfile", step.project),
        )
        step.run(*buildah, "push", "--quiet", "--signature-policy", policy, step.ref, target)


@contextlib.contextmanager
def _storage(step: Step, driver: str, key: str) -> Iterator[Path]:
    """buildah's storage, kept so that a change of the project repeats only the Containerfile's last steps.

    During a build it is in the work folder: one that fails or is killed takes it along, the next starts anew.
    """
    kept = step.store / f"buildah-{key}"
    for other in step.store.glob("buildah-*"):
        if other != kept:
            shutil.rmtree(other)
    storage = step.work / "buildah"
    if kept.exists():
        kept.rename(storage)
    yield storage
    if driver == "overlay":  # with vfs it would grow by a whole image each time
        storage.rename(kept)


def _storage_driver(step: Step) -> str:
    """overlay shares layers; vfs, which copies each of them whole, works inside a container too."""
    probe = ("--root", step.work / "probe", "--runroot", step.work / "probe-run")
    try:
        step.run("buildah", *probe, "--storage-driver", "overlay", "info")
    except ClusterError:
        return "vfs"
    return "overlay"


def _wheels(step: Step) -> Path:
    """The locked wheels, fetched outside the build: this machine knows its index, proxies and authorities."""
    locks = [step.project / "requirements.lock", step.project / "images/requirements-build.lock"]
    tags = wheel_tags(platform.machine())
    folder = step.store / f"wheels-{digest([*map(str.encode, tags), *(lock.read_bytes() for lock in locks)])}"
    if folder.exists():
        return folder
    partial = step.work / "wheels"
    for lock in locks:
        step.run(
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--require-hashes", "--no-deps", "--only-binary", ":all:", *tags),
            *("--dest", partial, "--requirement", lock),
        )
    for old in step.store.glob("wheels-*"):
        shutil.rmtree(old)
    return partial.rename(folder)


def wheel_tags(machine: str) -> list[str]:
    """pip's options for wheels that run in the Debian root, whichever Python asks for them."""
    old = ("manylinux1", "manylinux2010", "manylinux2014")
    platforms = [*old, *(f"manylinux_2_{minor}" for minor in range(5, GLIBC_MINOR + 1))]
    return [
        *("--python-version", PYTHON, "--implementation", "cp"),
        *(option for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none") for option in ("--abi", abi)),
        *(option for name in platforms for option in ("--platform", f"{name}_{machine}")),
    ]


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("pause", "localhost/taskyard-pause:dev", "for sandboxes", _pause_inputs, _make_pause),
        Recipe("task", "localhost/taskyard-task:dev", "a shell and its tools", _task_inputs, _make_task),
        Recipe("python", "localhost/taskyard-python:dev", "Python on Debian", _python_inputs, _make_python),
        Recipe(
            "operator",
            "localhost/taskyard:dev",
            "from the Containerfile",
            _operator_inputs,
            _make_operator,
            needs=("python",),
        ),
    )
}
