"""Progress that a person can follow: one live line in a terminal, a line now and then in a log; on stderr."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

LOG_INTERVAL = 20.0
LIVE_INTERVAL = 0.5


class Progress:
    """What is done, how far, for how long. Ticks by itself: compilers and downloads can be silent for minutes."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._detail = ""
        self._began = time.monotonic()
        self._live = sys.stderr.isatty()
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._print()
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._ticker.join()
        self._detail = "failed" if error else "done"
        self._print()
        if self._live:
            print(file=sys.stderr, flush=True)

    def show(self, detail: str) -> None:
        self._detail = detail

    def _tick(self) -> None:
        while not self._ended.wait(LIVE_INTERVAL if self._live else LOG_INTERVAL):
            self._print()

    def _print(self) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        line = f"{minutes:3d}:{seconds:02d}  {self._what}  {self._detail}"
        print(
            f"\r\x1b[K{line}" if self._live else line,
            end="" if self._live else "\n",
            file=sys.stderr,
            flush=True,
        )
