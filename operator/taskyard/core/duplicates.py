"""Tasks that say they are one and the same: an `idempotencyKey` in common, in a namespace. One of them runs at a time.

There is no lock. Whoever is to run reads all that have the key, after its claim and before its Job, from the API
server. Of two that were claimed at once, by operators that knew nothing of each other, the one that was claimed later
sees the other, and gives its claim back; it may be that both do. The next time both know both, and the one that came
first goes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from taskyard.core.model import Error, Rival, Snapshot, Task, Wait
from taskyard.core.words import ACTIVE_STATES, ErrorCode, OnDuplicate, Reason, State

Order = tuple[bool, str, str]

HAS_THE_KEY: Final = frozenset({State.COMPLETED, State.RUNNING})
"""Who is in such a state is not given back any more."""


def as_rival(task: Task) -> Rival:
    """A Task in the eyes of others with its key. One that is to run again has not ended."""
    state = task.status.state
    if state.is_terminal and task.spec.rerun > task.status.observed_rerun:
        state = State.PENDING
    replaces = task.spec.on_duplicate is OnDuplicate.REPLACE
    return Rival(
        name=task.name,
        uid=task.uid,
        state=state,
        submitted_at=task.status.submitted_at,
        replaces=replaces,
        started_at=task.status.started_at,
        deleting=task.deleting,
    )


def replaced_by(task: Task, rivals: Iterable[Rival]) -> str | None:
    """The name of the last that came later, and takes this one's place."""
    if task.status.state.is_terminal:
        return None
    later = (each for each in rivals if each.replaces and is_open(each) and not _came_first(each, task))
    last = max(later, key=order, default=None)
    return last.name if last is not None else None


def replacement(task: Task) -> str | None:
    """That another one takes its place, as a sentence."""
    if task.replaced_by is None:
        return None
    return f"replaced by `{task.replaced_by}`, which has the same `idempotencyKey`"


def of(snapshot: Snapshot) -> Error | None:
    """Why this task is one too many: one of its key has run, runs, or is to run before it."""
    if snapshot.task.spec.on_duplicate is not OnDuplicate.SKIP:
        return None
    said = {each: why for each in snapshot.rivals if (why := _is_the_one(each, snapshot.task)) is not None}
    if not said:
        return None
    # One that only came first may be dropped in its turn: whoever runs, or has, is the one to name.
    one = min(said, key=lambda each: (each.state not in HAS_THE_KEY, order(each)))
    return Error(ErrorCode.DUPLICATE, f"`{one.name}` has the same `idempotencyKey`, and {said[one]}")


def holds(snapshot: Snapshot) -> Iterator[Wait]:
    """What has to end before this one may run: whatever is at work, and whoever came first."""
    ahead = before(snapshot.task, snapshot.rivals)
    first = min(ahead, key=lambda each: (not is_at_work(each), order(each)), default=None)
    name = first.name if first is not None else snapshot.lingering
    if name is not None:
        # Which one is a matter of the moment, and no reason to write again.
        yield Wait(
            Reason.DUPLICATE,
            f"another task with the same `idempotencyKey` is to end first; now it is `{name}`",
        )


def before(task: Task, rivals: Iterable[Rival]) -> list[Rival]:
    """Those that go before it, if it waits for its turn."""
    return [each for each in rivals if is_at_work(each) or (is_open(each) and _came_first(each, task))]


def contender(snapshot: Snapshot) -> Rival | None:
    """One with the same key that was claimed too."""
    return next((each for each in snapshot.rivals if is_at_work(each)), None)


def _is_the_one(rival: Rival, task: Task) -> str | None:
    """Whether it takes the place of that task for good, in words. One that is merely claimed may be given back."""
    if rival.deleting:
        return None
    match rival.state:
        case State.COMPLETED:
            return "has completed"
        case State.RUNNING:
            return "runs"
        case _ if is_open(rival) and _came_first(rival, task):
            return "came first"
        case _:
            return None


def has_completed(rival: Rival) -> bool:
    """Whether there is no need to run any other."""
    return rival.state is State.COMPLETED and not rival.deleting


def is_open(rival: Rival) -> bool:
    """Whether it may still run; one that is being deleted is not claimed any more."""
    return not rival.state.is_terminal and (is_at_work(rival) or not rival.deleting)


def is_at_work(rival: Rival) -> bool:
    return rival.state in ACTIVE_STATES


def _came_first(rival: Rival, task: Task) -> bool:
    return order(rival) < order(as_rival(task))


def order(rival: Rival) -> Order:
    """The same for whoever asks; within a second it is by chance. Who has run comes before who has not: otherwise one
    would be dropped for the sake of another that runs, and that one, back in its queue, for the sake of the first."""
    has_run = rival.started_at is not None
    return not has_run, str(rival.started_at if has_run else rival.submitted_at), rival.uid
