"""Every test's outcome, for the check of `docs/parity.md` at the end of `make test`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.parity import OUTCOMES, write

pytest_plugins = ["tests.kube"]

_outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test has passed if all of it did: setup, call and teardown."""
    if report.outcome != "passed" or report.when == "call":
        _outcomes.setdefault(report.nodeid, report.outcome)
        if report.outcome == "failed":
            _outcomes[report.nodeid] = "failed"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Side by side, the process that collects the reports knows of all of them, and the workers stay silent."""
    file = os.environ.get(OUTCOMES)
    if file and not hasattr(session.config, "workerinput"):
        write(Path(file), _outcomes)
