"""Logs are events with fields."""

import json
import logging

from taskyard.logs import JsonFormatter, TextFormatter


def record(**fields: object) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": "taskyard.loop", "levelno": 20, "levelname": "INFO", "msg": "claimed", **fields}
    )


def test_json_has_the_event_and_its_fields() -> None:
    event = json.loads(JsonFormatter().format(record(task="hello", attempt=1)))
    assert (event["event"], event["level"], event["task"], event["attempt"]) == (
        "claimed",
        "info",
        "hello",
        1,
    )


def test_text_reads_in_a_line() -> None:
    assert (
        TextFormatter()
        .format(record(task="hello", attempt=1))
        .endswith("info    claimed  task=hello attempt=1")
    )


def test_objects_that_libraries_hang_on_records_are_left_out() -> None:
    assert "k8s_ref" not in json.loads(JsonFormatter().format(record(k8s_ref={"uid": "x"})))
