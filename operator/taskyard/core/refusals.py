"""What the API server, or a policy or webhook behind it, has said no to."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The no to the Job of an attempt."""

    malformed: bool
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Denial:
    """The no to an end of something: of a pod, or of a Job."""

    what: str
    """By its name, which no pod and Job share."""
    message: str
    since: datetime
    at: datetime

    @classmethod
    def of(cls, what: str, message: str, at: datetime, before: Self | None) -> Self:
        """One more, perhaps, of a row of them."""
        since = before.since if before is not None and before.what == what else at
        return cls(what, message, since, at)

    @property
    def until(self) -> datetime:
        """When to ask again: after a second, then whenever the wait has doubled, and once a minute in the end."""
        return self.at + min(max(self.at - self.since, FIRST_PAUSE), LONGEST_PAUSE)
