"""What the tree must look like."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_operator_is_a_folder_and_not_a_package() -> None:
    """With an `__init__.py` it would be imported from the root in place of the standard `operator`."""
    assert (ROOT / "operator" / "taskyard" / "__init__.py").exists()
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_no_module_of_the_operator_has_outgrown_its_reader() -> None:
    """Past 400 lines a module asks to be split by policy."""
    modules = (ROOT / "operator" / "taskyard").rglob("*.py")
    assert [path.name for path in modules if len(path.read_text().splitlines()) > 400] == []


def test_only_the_edges_ask_what_may_be_absent() -> None:
    """In the core, an absent field is the business of what reads objects, and of what reads a task's own words.

    In `choose`, whoever is not counted has no slots.
    """
    core = (ROOT / "operator" / "taskyard" / "core").glob("*.py")
    asking = {path.name for path in core if ".get(" in path.read_text()}
    assert asking == {"choose.py", "parse.py", "parse_spec.py", "result.py"}


def test_the_table_of_the_modules_names_each_of_them() -> None:
    """In its first column, once; `docs/architecture.md` is where a maintainer looks first."""
    package, page = ROOT / "operator" / "taskyard", (ROOT / "docs" / "architecture.md").read_text()
    files = [*package.glob("*.py"), *package.glob("core/*.py")]
    modules = {str(each.relative_to(package).with_suffix("")) for each in files if each.stem != "__init__"}
    _, table = page.split("## The modules (`operator/taskyard`)")
    rows = re.findall(r"^\| (`.*?) \|", table.split("\n## ")[0], flags=re.MULTILINE)
    named = [name for row in rows for name in re.findall("`(.*?)`", row)]
    assert sorted(named) == sorted(modules)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        pytest.param(["SECONDS=5"], "5", id="as it was asked for"),
        pytest.param([], "300", id="as the help says, whatever the shell counts under that name"),
    ],
)
def test_simulations_take_as_long_as_was_asked_for(options: list[str], seconds: str) -> None:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    told = subprocess.run(
        ["make", "--dry-run", "simulate", *options],
        cwd=ROOT,
        env=environ | {"SECONDS": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"-m tests.simulate --seconds {seconds} " in told.stdout
