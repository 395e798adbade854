"""Progress that a person can follow: one live line in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

LOG_INTERVAL = 20.0


class Progress:
    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._shown = 0.0
        self._count = 0
        self._live = sys.stdout.isatty()

    def __enter__(self) -> Self:
        self.show("", force=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show("failed" if error else "done", force=True)
        if self._live:
            print(flush=True)

    def advance(self, total: int) -> None:
        self._count += 1
        self.show(f"{self._count} of {total} packages" if total else f"{self._count} lines")

    def show(self, detail: str, *, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._shown < (0.2 if self._live else LOG_INTERVAL):
            return
        self._shown = now
        minutes, seconds = divmod(int(now - self._began), 60)
        line = f"{minutes:3d}:{seconds:02d}  {self._what}  {detail}"
        print(f"\r\x1b[K{line}" if self._live else line, end="" if self._live else "\n", flush=True)
