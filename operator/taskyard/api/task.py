"""The `Task` kind: what is wanted, and what became of it."""

from pydantic import Field

from taskyard.api.fields import Model
from taskyard.api.spec import TaskSpec
from taskyard.api.status import TaskStatus


class Task(Model):
    """One unit of work, run as one Job at a time and carried to exactly one terminal state."""

    spec: TaskSpec = Field(description="What is wanted.")
    status: TaskStatus | None = Field(
        None, description="The record of the task's life, written by the operator only."
    )
