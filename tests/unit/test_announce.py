"""What is announced, and what is not."""

from dataclasses import replace
from typing import Any

import pytest

from taskyard.core.announce import event
from taskyard.core.model import Status, Task
from taskyard.core.words import State
from tests.unit.build import NOW, task

PENDING, CLAIM, RUN = State.PENDING, State.CLAIMED, State.RUNNING


def announced(before: Task, **after: Any) -> dict[str, Any] | None:
    return event(before, replace(before.status, **after), NOW)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param(task(RUN), {"state": State.DELAYED, "reason": "RetryDelay"}, "Retrying", id="a retry"),
        pytest.param(task(RUN), {"state": PENDING, "reason": "Retry"}, "Retrying", id="a retry at once"),
        pytest.param(task(RUN), {"state": PENDING, "reason": "RunLost"}, "RunLost", id="a loss"),
        pytest.param(task(RUN), {"state": PENDING, "reason": "Drained"}, "RunDrained", id="a drain"),
        pytest.param(
            task(CLAIM), {"state": PENDING, "reason": "GivenBack"}, "ClaimGivenBack", id="given back"
        ),
        pytest.param(task(CLAIM), {"reason": "JobRefused"}, "JobRefused", id="a refusal"),
        pytest.param(task(CLAIM, reason="JobRefused"), {"reason": "JobRefused"}, None, id="not once more"),
        pytest.param(task(CLAIM), {"reason": "JobNameTaken"}, "JobNameTaken", id="a foreign Job"),
        pytest.param(task(RUN), {"state": State.FAILED}, "TaskFailed", id="a failure"),
        pytest.param(task(RUN), {"state": State.EXCEPTION}, "TaskException", id="an exception"),
        pytest.param(task(PENDING), {"state": State.EXPIRED}, "TaskExpired", id="an expiry"),
        pytest.param(task(RUN), {"state": State.STALLED}, "TaskStalled", id="a stall"),
        pytest.param(task(PENDING), {"state": State.DROPPED}, "TaskDropped", id="a drop"),
        pytest.param(task(RUN), {"state": State.CANCELLED}, "TaskCancelled", id="a cancel"),
        pytest.param(task(RUN), {"state": State.COMPLETED}, None, id="nothing of a success"),
        pytest.param(task(PENDING), {"state": CLAIM}, None, id="nothing of a claim"),
        pytest.param(task(CLAIM), {"state": RUN}, None, id="nothing of a start"),
        pytest.param(
            task(PENDING), {"state": State.DELAYED, "reason": "NotBefore"}, None, id="nothing of a wait"
        ),
        pytest.param(task(State.FAILED), {"observed_generation": 2}, None, id="nothing of an edit"),
        pytest.param(task(State.FAILED), {"state": PENDING}, None, id="nothing of a rerun"),
    ],
)
def test_reason(before: Task, after: dict[str, Any], reason: str | None) -> None:
    made = announced(before, **after)
    assert (made["reason"] if made else None) == reason


def test_an_announcement_has_a_fixed_name_for_its_attempt_and_its_rerun() -> None:
    def name(**status: Any) -> str:
        before = task(RUN, **status)
        made = event(before, replace(before.status, state=State.FAILED), NOW)
        assert made is not None
        return str(made["metadata"]["name"])

    assert name() == name()
    assert len({name(), name(attempt=2), name(observed_rerun=1)}) == 3


def test_an_event_fits_whatever_the_task_is_called_and_says() -> None:
    before = task(RUN, name="a." * 126 + "b")
    made = event(before, replace(before.status, state=State.FAILED, message="x" * 4096), NOW)
    assert made is not None
    assert len(made["metadata"]["name"]) <= 253
    assert len(made["message"]) == 1024


def test_a_cancel_is_no_warning() -> None:
    cancelled, failed = (announced(task(RUN), state=state) for state in (State.CANCELLED, State.FAILED))
    assert cancelled is not None
    assert failed is not None
    assert (cancelled["type"], failed["type"]) == ("Normal", "Warning")


def test_an_event_is_about_its_task() -> None:
    made = event(task(RUN), Status(state=State.FAILED, reason="ExitCode"), NOW)
    assert made is not None
    assert made["involvedObject"] == {
        "apiVersion": "taskyard.dev/v1alpha1",
        "kind": "Task",
        "namespace": "default",
        "name": "hello",
        "uid": "uid-1",
        "resourceVersion": "7",
    }
