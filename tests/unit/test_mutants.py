"""The tests are worth something: every plausible mistake in the core is caught by one of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import parity
from tests.unit.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "operator" / "taskyard"


OF_THE_CORE = ("decide", "stopping", "outcome", "verdict", "retry", "result")


def check(folder: Path, caught_by: str) -> subprocess.CompletedProcess[str]:
    """Run the tables, a property or the simulation against the package in this folder."""
    alone = ("-p", "no:xdist", "-p", "no:cacheprovider", "-o", f"pythonpath={folder} {ROOT}")
    match caught_by:
        case "simulation":
            command = ["tests.simulate", "--quick"]
        case "tables":
            tables = (f"{ROOT}/tests/unit/test_{name}.py" for name in OF_THE_CORE)
            # Tables need no plugin and no setting; without them it starts in half the time.
            plain = ("-c", os.devnull, f"--rootdir={ROOT}", "--import-mode=importlib")
            command = ["pytest", "-q", "-x", "-p", "no:cacheprovider", *plain, *tables]
        case (
            "claims"
            | "found_by_simulation"
            | "dependencies"
            | "definitions"
            | "relations"
            | "choose"
            | "line_rates"
        ):
            # A crowd takes its time, and catches nothing that the others do not.
            few = ("-k", "not fan_in")
            command = ["pytest", "-q", "-x", *alone, *few, f"{ROOT}/tests/unit/test_{caught_by}.py"]
        case name:
            command = ["pytest", "-q", "-x", *alone, f"{ROOT}/tests/unit/test_properties.py", "-k", name]
    environment = os.environ | {
        "PYTHONPATH": f"{folder}:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "mutant",
    }
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if caught_by == "tables" else {}
    environment.pop(parity.OUTCOMES, None)  # what fails here is no outcome of this run
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )


def copy_of_the_package(folder: Path) -> Path:
    return shutil.copytree(PACKAGE, folder / "taskyard", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.mark.parametrize("caught_by", sorted({mutant.caught_by for mutant in MUTANTS}))
def test_without_a_mistake_nothing_is_caught(tmp_path: Path, caught_by: str) -> None:
    copy_of_the_package(tmp_path)
    done = check(tmp_path, caught_by)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("mutant", [pytest.param(mutant, id=mutant.says) for mutant in MUTANTS])
def test_a_mistake_is_caught(tmp_path: Path, mutant: Mutant) -> None:
    package = copy_of_the_package(tmp_path)
    [module] = {*package.glob(f"core/{mutant.module}.py"), *package.glob(f"{mutant.module}.py")}
    code = module.read_text()
    assert code.count(mutant.old) == 1, "the mutant is to be written anew: its line is not there, or not once"
    module.write_text(code.replace(mutant.old, mutant.new))
    done = check(tmp_path, mutant.caught_by)
    assert done.returncode == 1, f"not caught by {mutant.caught_by}:\n{done.stdout}{done.stderr}"
    assert "Error" not in done.stderr, done.stderr


def test_there_are_enough_mistakes_of_many_kinds() -> None:
    assert len(MUTANTS) >= 15
    assert len({mutant.says for mutant in MUTANTS}) == len(MUTANTS)
