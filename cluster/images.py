"""Container images without an engine and without a registry, as archives in a cache folder.

An archive is `<cache>/images/<name>-<hash of all that goes into it>.tar`. It appears there by a rename, so
what is there is whole, and is built once. `ctr images import` and `kind load image-archive` load it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.errors import ClusterError
from cluster.recipes import RECIPES, USER, Recipe, Step, binary_recipe, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Say = Callable[[str], None]

__all__ = ["RECIPES", "binary_image", "build", "build_with_engine", "ref"]

KEPT = 3  # archives of one name: what this clone needs, what another one does, and the one before
CONTENT_DECIDED_BY = ("archive.py", "recipes.py")  # of this program


def build(images: Sequence[str], cache: Path, *, root: Path, say: Say = print) -> dict[str, Path]:
    """The archives of these images of `RECIPES`, made if not in the cache. `root` is the project's folder."""
    return _build([RECIPES[name] for name in images], cache, root, say)


def binary_image(
    name: str,
    binary: Path,
    cache: Path,
    *,
    arguments: Sequence[str] = (),
    user: str = USER,
    say: Say = print,
) -> Path:
    """The archive of `localhost/<name>:dev`: one static program at `/<its file name>`, and nothing else."""
    recipe = binary_recipe(name, ref(name), binary, arguments, user)
    return _build([recipe], cache, Path(), say)[name]


def ref(name: str) -> str:
    """The name by which pods ask for the image."""
    return RECIPES[name].ref if name in RECIPES else f"localhost/{name}:dev"


def build_with_engine(engine: str, name: str, root: Path) -> str:
    """An image in the store of docker or podman, from the Containerfile that users have; returns its id."""
    file = root / "Containerfile" if name == "operator" else root / "images" / f"{name}.Containerfile"
    command = [engine, "build", "--quiet", "--file", str(file), "--tag", ref(name), str(root)]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    if built.returncode != 0:
        raise ClusterError(f"`{' '.join(command)}` failed: {built.stderr.strip()}")
    return built.stdout.strip()


def _build(recipes: Sequence[Recipe], cache: Path, project: Path, say: Say) -> dict[str, Path]:
    store = cache.absolute() / "images"
    store.mkdir(parents=True, exist_ok=True)
    ordered = _with_needs(recipes)
    made: dict[str, Path] = {}
    with _one_at_a_time(store, say):
        _remove_work_of_the_killed(store)
        for number, recipe in enumerate(ordered, start=1):
            archive = store / f"{recipe.name}-{_key(recipe, project)}.tar"
            label = f"image {number} of {len(ordered)}: {recipe.name}"
            if archive.exists():
                os.utime(archive)  # in use: it stays when old ones go
                say(f"{label}, there already")
            else:
                began = time.monotonic()
                say(f"{label}, {recipe.what} …")
                _make(recipe, archive, project.absolute(), made)
                size = archive.stat().st_size / 1e6
                say(f"{label}, {size:.0f} MB in {time.monotonic() - began:.1f} s")
            made[recipe.name] = archive
    return {recipe.name: made[recipe.name] for recipe in recipes}


def _make(recipe: Recipe, archive: Path, project: Path, made: Mapping[str, Path]) -> None:
    store = archive.parent
    log = store / f"{recipe.name}.log"
    log.write_text("")
    with tempfile.TemporaryDirectory(prefix="work-", dir=store) as work:
        partial = Path(work) / "image.tar"
        recipe.make(Step(recipe.ref, project, store, Path(work), partial, made, log))
        partial.rename(archive)
    for old in superseded(store, recipe.name):
        old.unlink()


def _with_needs(recipes: Sequence[Recipe]) -> list[Recipe]:
    """The recipes and those they need, each once, the needed first."""
    chains = ((*(RECIPES[name] for name in recipe.needs), recipe) for recipe in recipes)
    return list({recipe.name: recipe for chain in chains for recipe in chain}.values())


def _key(recipe: Recipe, project: Path) -> str:
    """Changes when anything changes that the image is made of, the instructions here included."""
    return digest(
        (
            *(Path(__file__).with_name(name).read_bytes() for name in CONTENT_DECIDED_BY),
            platform.machine().encode(),
            *recipe.inputs(project),
            *(_key(RECIPES[name], project).encode() for name in recipe.needs),
        )
    )


def superseded(store: Path, name: str) -> Iterable[Path]:
    """Archives of that image that have not been used for the longest time, and are too many."""
    archives = store.glob(f"{name}-{'[0-9a-f]' * 16}.tar")
    return sorted(archives, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]


@contextlib.contextmanager
def _one_at_a_time(store: Path, say: Say) -> Iterator[None]:
    with (store / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("images: another build is under way, waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_work_of_the_killed(store: Path) -> None:
    for left in store.glob("work-*"):
        shutil.rmtree(left, ignore_errors=True)


def main() -> None:
    from cluster.build import cache_folder

    parser = argparse.ArgumentParser(
        prog="python -m cluster.images", description="Builds images into archives."
    )
    parser.add_argument(
        "images", nargs="*", metavar="image", help=f"{', '.join(RECIPES)}; all, if none is named"
    )
    parser.add_argument("--cache", type=Path, default=cache_folder())
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.images if name not in RECIPES]:
        parser.error(f"there is no image {', '.join(unknown)}; there are {', '.join(RECIPES)}")
    try:
        made = build(chosen.images or list(RECIPES), chosen.cache, root=Path(__file__).parents[1])
    except ClusterError as error:
        sys.exit(str(error))
    for path in made.values():
        print(path)


if __name__ == "__main__":
    main()
