"""The kind `TaskQueue`: how many of its tasks run at once, how fast they start, and in what order."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from taskyard.api.fields import YEAR, Count, LabelValue, Model, Priority, list_map, whole
from taskyard.api.status import Conditions

MAX_SLOTS = 1_000_000
MAX_KEYS = 1000
DAY = 24 * 3600

LABEL_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
LABEL_KEY = rf"^{LABEL_PREFIX}[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"

Slots = Annotated[int, whole(0, MAX_SLOTS)]
LabelKey = Annotated[str, StringConstraints(min_length=1, max_length=317, pattern=LABEL_KEY)]


class RateLimit(Model):
    """How many tasks are started in a time. Whoever must wait is delayed, never refused."""

    tasks: Annotated[int, whole(1, MAX_SLOTS)] = Field(
        description="How many are started in any such time, at most."
    )
    per_seconds: Annotated[int, whole(1, DAY)] = Field(description="That time.")


class Weight(Model):
    """How much of the queue one tenant gets."""

    key: LabelValue = Field(description="The tenant: a value of the label.")
    weight: Annotated[int, whole(1, 1000)] = Field(
        description="Its part of the queue, beside those of the others."
    )


Weights = Annotated[list[Weight], Field(max_length=MAX_KEYS, json_schema_extra=list_map("key"))]


class Fairness(Model):
    """How the tenants of the queue share it: the values of a label of the Tasks."""

    label_key: LabelKey = Field(
        description="The label whose values tell the tenants apart. Tasks without it are one tenant together."
    )
    weights: Weights | None = Field(
        None,
        description="How much of the queue tenants get beside the others. One that is not named here has 1.",
    )
    max_concurrent_per_key: Slots | None = Field(
        None, description="How many tasks of one tenant are at work at once, at most. Absent: no limit."
    )


class Ageing(Model):
    """How a task that waits makes up for a lower priority."""

    seconds_per_point: Annotated[int, whole(0, YEAR)] = Field(
        60,
        description="For so long in the queue a task counts as one point of priority higher. 0: priorities alone"
        " decide, and a low one may wait for ever.",
    )


class QueueSpec(Model):
    """How many, how fast, and in what order. What is absent does not limit."""

    max_concurrent: Slots | None = Field(
        None,
        description="How many tasks of the queue are claimed or running at once, at most. When it is lowered nothing is"
        " stopped: fewer are started. Absent: no limit.",
    )
    paused: bool = Field(False, description="Start nothing while true; what is claimed or runs goes on.")
    rate_limit: RateLimit | None = Field(None, description="How fast tasks are started. Absent: at once.")
    max_priority: Priority | None = Field(
        None, description="A Task that asks for a higher priority counts as this one. Absent: as they ask."
    )
    ageing: Ageing = Field(
        Ageing(), description="How waiting makes up for a lower priority.", validate_default=True
    )
    fairness: Fairness | None = Field(
        None, description="How tenants share the queue. Absent: all tasks of the queue are one tenant's."
    )


class QueueStatus(Model):
    """What is in the queue, as counted by the operator."""

    unscheduled: Count | None = Field(None, description="Tasks that are held, or wait for others.")
    delayed: Count | None = Field(None, description="Tasks that wait for a time.")
    pending: Count | None = Field(None, description="Tasks that wait for their turn.")
    claimed: Count | None = Field(None, description="Tasks that are about to run.")
    running: Count | None = Field(None, description="Tasks that run.")
    finished: Count | None = Field(None, description="Tasks that are resolved, and still there.")
    oldest_pending_at: datetime | None = Field(
        None, description="Since when the one that waits longest waits for its turn."
    )
    finished_last_minutes: Count | None = Field(
        None,
        description="How many were resolved in the last five whole minutes, and in the one that has begun.",
    )
    updated_at: datetime | None = Field(None, description="When this status was last written.")
    conditions: Conditions | None = Field(
        None, description="`Active`: whether the queue starts tasks at all."
    )


class TaskQueue(Model):
    """Where Tasks of its namespace wait for their turn. They name it in `queueName`."""

    spec: QueueSpec = Field(description="How many, how fast, and in what order.")
    status: QueueStatus | None = Field(
        None, description="What is in the queue, written by the operator only."
    )
