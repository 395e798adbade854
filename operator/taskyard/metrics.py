"""Prometheus metrics: how many tasks wait and run, by queue and type, how long they wait and take, how they end.

No label names a Task. Counts are those of the cache; what happens is counted as this operator sees it happen, so a sum
over restarts is Prometheus' business, as with any counter. Series go some time after the last Task that they are about:
anybody who may create a Task can invent queues and types.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from datetime import datetime, timedelta
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from taskyard.core.model import Task
from taskyard.core.words import State
from taskyard.tally import Sort, Tally, type_of

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

LABELS: Final = ("namespace", "queue", "definition")
OPEN_STATES: Final = tuple(state for state in State if not state.is_terminal)
KEPT_FOR: Final = timedelta(minutes=10)
"""Longer than anybody's interval of scraping."""
SECONDS: Final = (0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)


class Metrics:
    """What `/metrics` says."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._ends = defaultdict[Sort, set[tuple[str, str]]](set)
        """State and reason of those that were counted."""
        self._heard_of: set[Sort] = set()
        """Within this minute: a Task may come and go in one."""
        self._last_there: dict[Sort, datetime] = {}
        self._outcomes = Counter(
            "taskyard_task_outcomes",
            "Tasks that were resolved, by how.",
            (*LABELS, "state", "reason"),
            registry=self._registry,
        )
        self._waits = Histogram(
            "taskyard_task_wait_seconds",
            "From the moment when a task became eligible to its claim.",
            LABELS,
            buckets=SECONDS,
            registry=self._registry,
        )
        self._durations = Histogram(
            "taskyard_task_duration_seconds",
            "From the start of a task's first run to its verdict.",
            LABELS,
            buckets=SECONDS,
            registry=self._registry,
        )

    def follow(self, tally: Tally, now: Callable[[], datetime]) -> None:
        """Tell of these counts from now on; a process does so once, when it leads and everything is counted."""
        tally.listeners.append(self)
        self._registry.register(_Counts(tally, now))

    def page(self) -> bytes:
        return generate_latest(self._registry)

    def claimed(self, task: Task, waited: timedelta) -> None:
        sort = _sort(task)
        self._heard_of.add(sort)
        self._waits.labels(*sort).observe(max(waited.total_seconds(), 0.0))

    def ended(self, task: Task, ran: timedelta | None) -> None:
        sort, end = _sort(task), (str(task.status.state), task.status.reason or "")
        self._heard_of.add(sort)
        self._ends[sort].add(end)
        self._outcomes.labels(*sort, *end).inc()
        if ran is not None:
            self._durations.labels(*sort).observe(max(ran.total_seconds(), 0.0))

    def there_are(self, found: Set[Sort], now: datetime) -> None:
        """Forget what was counted of those that have not been there for long enough."""
        self._last_there |= dict.fromkeys(found | self._heard_of, now)
        self._heard_of.clear()
        for sort in [each for each, at in self._last_there.items() if now - at >= KEPT_FOR]:
            del self._last_there[sort]
            for end in self._ends.pop(sort, ()):
                self._outcomes.remove(*sort, *end)
            self._waits.remove(*sort)
            self._durations.remove(*sort)


class _Counts(Collector):
    """Read when somebody asks: nothing is kept twice."""

    def __init__(self, tally: Tally, now: Callable[[], datetime]) -> None:
        self._tally = tally
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "taskyard_operator_leads", "1 by the operator that leads, and knows all there is.", value=1
        )
        tasks = GaugeMetricFamily(
            "taskyard_tasks", "Tasks that are not resolved, by state.", labels=(*LABELS, "state")
        )
        for (namespace, queue), definition, state, number in self._tally.all():
            if state in OPEN_STATES:
                tasks.add_metric((namespace, queue, definition, str(state)), number)
        yield tasks
        oldest = GaugeMetricFamily(
            "taskyard_queue_oldest_pending_seconds",
            "How long the task that waits longest has waited for its turn.",
            labels=("namespace", "queue"),
        )
        for key in self._tally.queues():
            if (since := self._tally.oldest_pending(key)) is not None:
                oldest.add_metric(key, max((self._now() - since).total_seconds(), 0.0))
        yield oldest


def _sort(task: Task) -> Sort:
    return task.namespace, task.spec.queue, type_of(task)
