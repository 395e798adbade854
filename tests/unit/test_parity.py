"""The check of `docs/parity.md` says what is wrong with it, and nothing when all is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import parity
from tests.parity import Row

TABLE = [Row(each, "…", ()) for each in parity.IDS]


def test_the_table_in_the_documentation_has_every_row_once() -> None:
    table = parity.rows(parity.TABLE.read_text())
    passed = {test: "passed" for row in table for test in row.tests}
    assert parity.problems(table, passed) == []
    assert len(parity.IDS) == 62


def test_a_row_is_read_with_its_tests() -> None:
    text = (
        "| id | behaviour | test |\n|---|---|---|\n"
        "| H1 | one | `tests/a.py::test_b`<br>`tests/a.py::test_c[x y]` |\n"
        "| K9 | two | open: Kueue |\n| D9 | three | open |\n\n| what | why |\n|---|---|\n| REQUEUED | no |\n"
    )
    assert parity.rows(text) == [
        Row("H1", "one", ("tests/a.py::test_b", "tests/a.py::test_c[x y]")),
        Row("K9", "two", ()),
        Row("D9", "three", ()),
    ]


@pytest.mark.parametrize(
    ("table", "outcomes", "expected"),
    [
        pytest.param(TABLE, {}, [], id="all rows open"),
        pytest.param(TABLE[1:], {}, ["H1 is missing"], id="a row is missing"),
        pytest.param([*TABLE, TABLE[0]], {}, ["H1 is there twice"], id="a row twice"),
        pytest.param(
            [*TABLE, Row("X1", "…", ())], {}, ["X1 is no row of the feature list"], id="a row too many"
        ),
        pytest.param(
            [Row("H1", "…", ("a::b",)), *TABLE[1:]], {"a::b": "passed"}, [], id="a test that passed"
        ),
        pytest.param(
            [Row("H1", "…", ("a::b",)), *TABLE[1:]],
            {"a::c": "passed"},
            ["H1: a::b did not run"],
            id="a test that does not exist",
        ),
        pytest.param(
            [Row("H1", "…", ("a::b", "a::c")), *TABLE[1:]],
            {"a::b": "skipped", "a::c": "passed"},
            ["H1: a::b skipped"],
            id="a test that was skipped",
        ),
        pytest.param(
            [Row("H1", "…", ("a::b",)), *TABLE[1:]],
            {"a::b": "failed"},
            ["H1: a::b failed"],
            id="a test that failed",
        ),
    ],
)
def test_problems(table: list[Row], outcomes: dict[str, str], expected: list[str]) -> None:
    assert parity.problems(table, outcomes) == expected


@pytest.mark.parametrize(("outcome", "count"), [("skipped", 0), (None, 0), ("failed", 1)])
def test_what_only_a_native_cluster_can_show_is_not_asked_of_others(outcome: str | None, count: int) -> None:
    test = f"{parity.NATIVE_ONLY[0]}test_a.py::test_b"
    table = [Row("H1", "…", (test,)), *TABLE[1:]]
    outcomes = {test: outcome} if outcome is not None else {}
    assert len(parity.problems(table, outcomes, is_native=False)) == count
    assert len(parity.problems(table, outcomes)) == 1


def test_the_outcomes_of_several_sessions_are_those_of_the_run(tmp_path: Path) -> None:
    file = tmp_path / "outcomes"
    assert parity.read(file) == {}
    parity.write(file, {"a": "passed", "b": "failed"})
    parity.write(file, {"b": "passed", "c": "skipped"})
    assert parity.read(file) == {"a": "passed", "b": "failed", "c": "skipped"}
