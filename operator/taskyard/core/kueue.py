"""Tasks whose Jobs wait in a queue of Kueue, too: it holds a Job suspended, and lets it go when there is quota.

Such a Job is Kueue's to resume, at any time. So one that is not to run any more is deleted and not left suspended; and
one that has had a pod is over when it is suspended again: resumed, it would make a second one. What had not started is
given back then, as for want of room; the rest was preempted, and is a loss.
"""

from datetime import datetime
from typing import Final

from taskyard.core import verdict
from taskyard.core.model import Job, Pod, Task

PREFIX: Final = "kueue.x-k8s.io/"
QUEUE_NAME: Final = f"{PREFIX}queue-name"

PREEMPTED: Final = "preempted: its Job was suspended while it ran"
PREEMPTED_UNSEEN: Final = "preempted: its Job was suspended, and some code of it may have run"
TAKEN_BACK: Final = "its Job was suspended by Kueue before it had started"


def labels(task: Task) -> dict[str, str]:
    """Those of the Task that its Job is to have."""
    return {key: value for key, value in task.labels.items() if key.startswith(PREFIX)}


def queues(task: Task) -> bool:
    """Whether Kueue decides when the Job of this task starts."""
    return QUEUE_NAME in task.labels and task.labels[QUEUE_NAME] != ""  # an empty name is none to Kueue


def holds(task: Task, job: Job | None) -> bool:
    """Whether the Job is there, and is not to start yet."""
    return (
        job is not None and queues(task) and job.suspend and job.belongs_to(task) and not job.is_placeholder
    )


def is_new(task: Task, job: Job | None) -> bool:
    """Whether the Job was let go so lately that its controller has not said since when."""
    return job is not None and queues(task) and not job.suspend and job.started_at is None


def schedule_by(task: Task, job: Job | None) -> datetime | None:
    """When a Job that Kueue has let go has waited for a node for too long: from then on, and not from its claim."""
    if job is None or job.started_at is None or not queues(task):
        return None
    return job.started_at + task.spec.schedule_timeout


def preempted(task: Task, pod: Pod, evidence: verdict.Evidence) -> verdict.Ending:
    """What is over because Kueue has suspended its Job: that costs nothing where no code of the user's ran."""
    if evidence.has_started or task.status.recorded_run is not None:
        return verdict.Lost(evidence, PREEMPTED)
    if pod.disruption is not None:  # whoever ended it may not be who could tell
        return verdict.Lost(evidence, PREEMPTED_UNSEEN)
    return verdict.NotStarted(evidence, TAKEN_BACK, is_capacity=True)
