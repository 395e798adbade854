"""An operator that is started again whenever it ends, as a kubelet does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.faults.operator import Operator

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 10.0


@contextmanager
def kept_up(operator: Operator) -> Iterator[list[int]]:
    """Keep it running meanwhile: after each end later than after the last. Yields its exit codes so far."""
    codes: list[int] = []
    over = threading.Event()

    def keep() -> None:
        while not over.wait(0.1):
            if (code := _ended(operator)) is not None:
                codes.append(code)
                if not over.wait(min(FIRST_PAUSE * 2 ** (len(codes) - 1), LONGEST_PAUSE)):
                    _start(operator)

    thread = threading.Thread(target=keep, name="kubelet of an operator")
    with operator:
        thread.start()
        try:
            yield codes
        finally:
            over.set()
            thread.join()


def _ended(operator: Operator) -> int | None:
    with suppress(AssertionError):  # it runs
        return operator.died(within=0.2)
    return None


def _start(operator: Operator) -> None:
    with suppress(AssertionError):  # it has not listed everything yet, but runs: there is no API server
        operator.start()
