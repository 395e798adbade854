"""What a task left behind, whatever it was."""

import json
from typing import Any

import pytest

from taskyard.core.model import Error, Value
from taskyard.core.result import NOTHING_SAID, Report, read
from taskyard.core.words import Flaw

BAD = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("message", "value"),
    [
        pytest.param('{"ok": 1}', 1, id="a value"),
        pytest.param('{"ok": null}', None, id="null is a value"),
        pytest.param('{"ok": {"error": {"code": "X"}}}', {"error": {"code": "X"}}, id="whatever is in it"),
        pytest.param('{"ok": 1, "more": 2}', {"ok": 1, "more": 2}, id="any other object is the value itself"),
        pytest.param("[1, 2.5, null]", [1, 2.5, None], id="a list"),
        pytest.param("17\n", 17, id="a number"),
        pytest.param('"text"', "text", id="a string"),
        pytest.param("null", None, id="bare null"),
        pytest.param('{"error": null}', {"error": None}, id="no error is none"),
        pytest.param('{"error": "boom"}', {"error": "boom"}, id="an error is an object"),
        pytest.param(str(2**63 - 1), 2**63 - 1, id="the largest number that is kept exactly"),
    ],
)
def test_json_is_the_result(message: str, value: Any) -> None:
    assert read(message) == Report(ok=Value(value))


@pytest.mark.parametrize("message", [None, "", " \n"])
def test_nothing_said_is_no_result(message: str | None) -> None:
    assert read(message) is NOTHING_SAID


@pytest.mark.parametrize(
    ("reported", "error", "retryable"),
    [
        pytest.param(
            {"code": "Busy", "message": "later", "traceback": "t", "retryable": True},
            Error("Busy", "later", "t", is_reported=True),
            True,
            id="all of it",
        ),
        pytest.param(
            {},
            Error("UnhandledError", "the task reported an error without a message", is_reported=True),
            None,
            id="nothing but that",
        ),
        pytest.param(
            {"code": 17, "message": ["a", None], "retryable": "yes"},
            Error("17", '["a", null]', is_reported=True),
            None,
            id="types that nobody expects",
        ),
        pytest.param(
            {"code": "C" * 200, "message": "m" * 3000},
            Error("C" * 127 + "…", "m" * 3000, is_reported=True),
            None,
            id="a code that is too long",
        ),
    ],
)
def test_an_error_is_told_from_a_value(reported: Any, error: Error, retryable: bool | None) -> None:
    report = read(json.dumps({"error": reported}))
    assert (report.ok, report.error, report.retryable, report.flaws) == (None, error, retryable, ())


@pytest.mark.parametrize(
    ("message", "kept", "flaws"),
    [
        pytest.param("done", "done", [Flaw.NOT_JSON], id="text"),
        pytest.param("{'a': 1}", "{'a': 1}", [Flaw.NOT_JSON], id="nearly JSON"),
        pytest.param("NaN", "NaN", [Flaw.NOT_JSON], id="not a number"),
        pytest.param("1e999", "1e999", [Flaw.NOT_JSON], id="more than a number can be"),
        pytest.param(str(2**63), str(2**63), [Flaw.NOT_JSON], id="a number that would not be kept exactly"),
        pytest.param("[" * 2000, "[" * 2000, [Flaw.NOT_JSON], id="brackets without end"),
        pytest.param("[" * 65 + "]" * 65, "[" * 65 + "]" * 65, [Flaw.NOT_JSON], id="deeper than readers go"),
        pytest.param(
            "\x1b[31mred\x1b[0m\0",
            f"{BAD}[31mred{BAD}[0m{BAD}",
            [Flaw.NOT_JSON, Flaw.CONTROL_CHARACTERS],
            id="what would paint a terminal",
        ),
        pytest.param(
            f"caf{BAD}", f"caf{BAD}", [Flaw.NOT_JSON, Flaw.INVALID_UTF8], id="bytes that were no text"
        ),
        pytest.param(
            "x" * 4096, "x" * 4096, [Flaw.NOT_JSON, Flaw.TRUNCATED], id="the end of something longer"
        ),
        pytest.param(
            BAD + "é" * 2047 + "x",
            BAD + "é" * 2047 + "x",
            [Flaw.NOT_JSON, Flaw.TRUNCATED, Flaw.INVALID_UTF8],
            id="cut in the middle of a character",
        ),
    ],
)
def test_what_is_not_json_is_kept_as_text_and_marked(message: str, kept: str, flaws: list[Flaw]) -> None:
    report = read(message)
    assert report.ok == Value(kept)
    assert list(report.flaws) == flaws


def test_strings_inside_json_are_made_printable_and_that_is_marked() -> None:
    report = read('{"ok": {"a\\u0000": ["\\u001b[2J", "\\ud800", "fine\\n"]}}')
    assert report.ok == Value({f"a{BAD}": [f"{BAD}[2J", BAD, "fine\n"]})
    assert report.flaws == (Flaw.CONTROL_CHARACTERS,)


def test_an_object_that_fills_the_room_exactly_is_whole() -> None:
    message = json.dumps({"ok": "x" * 4086})
    assert len(message) == 4096
    assert read(message).flaws == ()


def test_many_containers_share_the_room() -> None:
    assert Flaw.TRUNCATED in read("x" * 2048, containers=6).flaws
    assert Flaw.TRUNCATED not in read("x" * 2048, containers=3).flaws


def test_after_a_crash_a_line_of_a_log_is_not_taken_for_a_report() -> None:
    line = '{"level": "error", "error": {"code": "CacheMiss"}}'
    assert read(line).error is not None
    assert read(line, may_be_log=True).error is None
    assert read('{"error": {"code": "Busy"}}', may_be_log=True).error is not None
