"""How long to wait before trying again: longer each time, and never in step with others. Time is an argument."""

# ruff: noqa: S311 - chance spreads load here, and guards nothing
import random
from typing import Final

FIRST: Final = 0.5
LONGEST: Final = 30.0
SETTLED: Final = 10.0


def delay(failures: int, *, first: float = FIRST, longest: float = LONGEST) -> float:
    """Seconds to wait after so many failures in a row; half of it is left to chance, so that no herd keeps step."""
    return min(first * 2.0 ** min(failures - 1, 16), longest) * random.uniform(0.5, 1.0)


def about(seconds: float) -> float:
    """An interval for what is done again and again: several that began together drift apart."""
    return seconds * random.uniform(0.9, 1.1)


class Pace:
    """Holds back whoever asks for the same thing again too soon, whatever the reason.

    What lasted for a while may be asked for again at once; what ended early waits longer each time.
    """

    def __init__(self) -> None:
        self._sent_at: float | None = None
        self._hasty = 0
        self._is_owed = False

    def hold_back(self, now: float) -> float:
        """How long to wait before asking; counted as asked for then."""
        if self._is_owed:
            self._is_owed = False
            self._sent_at = now
            return 0.0
        is_hasty = self._sent_at is not None and now - self._sent_at < SETTLED
        self._hasty = self._hasty + 1 if is_hasty else 0
        # Once may be chance: a connection that was cut is taken up again without a pause.
        pause = delay(self._hasty - 1) if self._hasty > 1 else 0.0
        self._sent_at = now + pause
        return pause

    def was_not_sent(self) -> None:
        """Nobody was asked after all. The pause was kept, so the next one may go at once."""
        self._is_owed = True
