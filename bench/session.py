"""How every benchmark begins, and what it says meanwhile."""

from __future__ import annotations

import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final, Never

from cluster.build import PROJECT

RESULTS: Final = PROJECT / "bench" / "results"


def new_folder(kind: str = "") -> Path:
    """For the results of this one, not made yet; from here on SIGTERM ends what was begun, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    return RESULTS / (kind + datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S"))


def say(line: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S}  {line}", file=sys.stderr, flush=True)


def _as_ctrl_c(number: int, frame: FrameType | None) -> Never:
    raise KeyboardInterrupt
