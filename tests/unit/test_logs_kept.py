"""How much of a log is kept."""

import pytest

from taskyard.core.logs import tail
from taskyard.core.words import LOG_LIMIT


@pytest.mark.parametrize(
    ("log", "kept"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("a\nb\n", "a\nb\n", id="all of a short one"),
        pytest.param("x" * LOG_LIMIT, "x" * LOG_LIMIT, id="just as much as fits"),
        pytest.param("a" + "x" * LOG_LIMIT, "…" + "x" * (LOG_LIMIT - 3), id="the end of a long one, marked"),
        pytest.param("a" + "é" * LOG_LIMIT, "…" + "é" * ((LOG_LIMIT - 3) // 2), id="whole characters"),
        pytest.param("\x1b[31m\0", "\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}", id="printable"),
    ],
)
def test_tail(log: str, kept: str) -> None:
    assert tail(log) == kept
    assert tail(kept) == kept
    assert len(kept.encode()) <= LOG_LIMIT
