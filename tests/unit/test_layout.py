"""What the tree must look like."""

from pathlib import Path

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
