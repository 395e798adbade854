"""What a history is about: some of it more often than usual, so that every edge of the state machine is met."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskyard.core.words import TERMINAL_STATES, State

Weights = dict[str, float]


@dataclass(frozen=True)
class Theme:
    """Factors on what usually happens: `bias` on the specs of tasks, `weights` on events.

    `when` holds while a task is in that state. `hindered` and `ends_badly` are the chances that a pod does not
    start and does not succeed.
    """

    name: str
    bias: Weights = field(default_factory=dict)
    weights: Weights = field(default_factory=dict)
    when: Mapping[State, Weights] = field(default_factory=dict)
    hindered: float = 0.1
    ends_badly: float = 0.5
    haste: int = 4
    """How many things Kubernetes does at most before anybody else moves."""
    tasks: int = 2
    """How many there are at once, at most."""

    def factor(self, event: str, states: frozenset[State]) -> float:
        """How much more often than usual, while the tasks that there are are in these states."""
        factor = self.weights.get(event, 1.0)
        if event == "rerun" and not states & TERMINAL_STATES:
            return 0.0
        if (event == "submit" and not states) or (event == "rerun" and states <= TERMINAL_STATES):
            factor *= 10  # else nothing would happen
        for state in states:
            factor *= self.when.get(state, {}).get(event, 1.0)
        return factor


NO_CLOCKS: Final[Weights] = {
    "good": 0.05,
    "deadline": 0.05,
    "suspended": 0.0,
    "other queue": 0.0,
    "definition": 0.0,
    "dependencies": 0.0,
    "key": 0.0,
}
NO_HURRY: Final[Weights] = {"jump": 0.1, "next ring": 0.3, "tick": 0.3}
SELDOM: Final = (
    "suspend",
    "crash",
    "deaf",
    "delete job",
    "strip pod",
    "orphan",
    "stray",
    "stuck stray",
    "delete pod",
)
CALM: Final[Weights] = NO_HURRY | dict.fromkeys(SELDOM, 0.3)


def too_late_for_a_retry(how: str, in_delay: Weights) -> Theme:
    """A run fails, and the next one cannot start in time."""
    return Theme(
        f"too late for a retry: {how}",
        bias=NO_CLOCKS
        | {"retry": 1.0, "delay": 1.0, "at once": 0.0, "good": 1.0, "deadline": 0.0, "run_at": 0.0}
        | {"timeout": 0.0, "init": 0.0},
        weights=CALM | {"resume": 0.1, "node returns": 0.2, "submit": 0.2, "cancel": 0.3, "rerun": 2},
        when={
            State.DELAYED: in_delay | {"kubernetes": 0.1},
            State.PENDING: {"jump": 200, "kubernetes": 0.1},
            State.UNSCHEDULED: {"jump": 200, "kubernetes": 0.1},
            State.FAILED: {"node returns": 100},
            State.EXPIRED: {"node returns": 100},
        },
        hindered=0.0,
        ends_badly=1.0,
        haste=12,
    )


THEMES: Final = (
    Theme("anything"),
    Theme("mostly well", hindered=0.02, ends_badly=0.1),
    too_late_for_a_retry("nobody is there", {"sleep": 100}),
    Theme(
        "too late for another run",
        bias=NO_CLOCKS | {"retry": 0.3, "good": 1.0, "deadline": 0.0, "run_at": 0.0, "no losses": 0.0},
        weights=NO_HURRY | {"suspend": 0.1, "resume": 0.3, "node returns": 0.2, "rerun": 2},
        when={
            State.RUNNING: {"suspend": 20, "stuck stray": 40, "delete pod": 20, "preempt": 20},
            State.PENDING: {"jump": 100},
            State.UNSCHEDULED: {"jump": 200, "next ring": 10},
        },
        hindered=0.02,
        ends_badly=0.5,
    ),
    Theme(
        "too late for anything",
        bias={"deadline": 0.9, "good": 0.1, "run_at": 0.6, "retry": 0.8, "delay": 0.8},
        weights={"rerun": 2},
        when={State.DELAYED: {"sleep": 60, "suspend": 8, "kubernetes": 0.3}, State.UNSCHEDULED: {"jump": 30}},
        hindered=0.05,
    ),
    Theme(
        "too late to start",
        bias={"good": 1.0, "deadline": 0.05, "run_at": 0.8, "suspended": 0.2},
        weights={"rerun": 2},
        when={State.DELAYED: {"sleep": 80, "suspend": 3, "kubernetes": 0.3}, State.UNSCHEDULED: {"jump": 10}},
        hindered=0.5,
    ),
    Theme(
        "cancelled",
        bias=NO_CLOCKS | {"run_at": 0.3, "retry": 0.8, "delay": 0.8},
        weights=CALM | {"do not cancel": 3, "rerun": 2, "cancel": 0.3, "submit": 0.3},
        when={
            State.RUNNING: {"cancel": 600, "kubernetes": 0.05},
            State.DELAYED: {"cancel": 60, "suspend": 100},
            State.UNSCHEDULED: {"cancel": 200, "resume": 0.1},
            State.CLAIMED: {"cancel": 2},
        },
        hindered=0.0,
        haste=1,
    ),
    Theme(
        "drained",
        bias=NO_CLOCKS | {"stop on shutdown": 0.8, "run_at": 0.0},
        weights=CALM | {"evict": 2, "node shutdown": 4, "rerun": 2, "submit": 0.3},
        when={
            State.CLAIMED: {"evict": 2, "node shutdown": 3},
            State.RUNNING: {"evict": 20, "node shutdown": 40, "kubernetes": 0.05},
        },
        hindered=0.0,
        ends_badly=0.2,
        haste=1,
    ),
    Theme(
        "lost",
        bias=NO_CLOCKS | {"run_at": 0.0},
        weights={
            "delete pod": 6,
            "preempt": 6,
            "node silent": 5,
            "node tainted": 3,
            "node returns": 3,
            "node deleted": 3,
            "node out of service": 5,
            "node restart": 5,
            "suspend": 0.2,
        },
        hindered=0.02,
    ),
    Theme(
        "failing",
        bias=NO_CLOCKS | {"retry": 0.6, "run_at": 0.0},
        weights={"rerun": 2, "suspend": 0.2},
        ends_badly=0.95,
    ),
    too_late_for_a_retry("an earlier pod is in the way", {"stuck stray": 2000, "next ring": 10}),
    too_late_for_a_retry("suspended", {"suspend": 600}),
    Theme("hindered", bias=NO_CLOCKS | {"run_at": 0.0}, weights={"suspend": 0.2}, hindered=0.6),
    Theme(
        "not registered",
        bias={"definition": 1.0, "run_at": 0.6, "other queue": 0.1, "good": 0.05, "deadline": 0.05},
        weights={"next ring": 2, "rerun": 2, "define": 0.0},
        when={State.DELAYED: {"sleep": 80, "kubernetes": 0.2}},
    ),
    Theme(
        "registered and retired",
        bias={"definition": 1.0, "run_at": 0.3, "suspended": 0.5, "good": 0.05, "deadline": 0.05},
        weights={"define": 40, "undefine": 10, "resume": 4, "rerun": 2},
        when={State.UNSCHEDULED: {"resume": 10, "define": 5}},
    ),
    Theme(
        "depending on each other",
        bias=NO_CLOCKS | {"dependencies": 0.7, "run_at": 0.1, "deadline": 0.2},
        weights={"submit": 6, "release": 4, "do not release": 3, "delete": 3, "rerun": 2},
        hindered=0.02,
        ends_badly=0.3,
        tasks=4,
    ),
    Theme(
        "in a queue",
        bias=NO_CLOCKS | {"other queue": 0.9, "run_at": 0.1, "deadline": 0.1},
        weights={"submit": 8, "make queue": 15, "remove queue": 3, "next ring": 2, "delete": 3, "rerun": 2},
        hindered=0.02,
        tasks=4,
    ),
    Theme(
        "one and the same",
        bias=NO_CLOCKS | {"key": 0.9, "run_at": 0.1, "deadline": 0.1},
        weights={"submit": 8, "delete": 3, "rerun": 3, "start operator": 10},
        hindered=0.02,
        ends_badly=0.3,
        tasks=4,
    ),
    Theme(
        "suspended",
        bias={"run_at": 0.5, "other queue": 0.3, "suspended": 0.5},
        weights={"suspend": 8, "resume": 8, "cancel": 2},
        when={
            State.UNSCHEDULED: {"kubernetes": 0.1, "resume": 5},
            State.DELAYED: {"kubernetes": 0.1, "suspend": 5},
        },
    ),
    Theme(
        "many operators",
        weights={
            "start operator": 30,
            "restart operator": 8,
            "crash": 8,
            "pause": 8,
            "go on": 4,
            "deaf": 3,
            "late effect": 4,
            "stray": 3,
            "delete job": 3,
        },
    ),
    Theme(
        "swept",
        bias=NO_CLOCKS | {"run_at": 0.0},
        weights={
            "sweep": 15,
            "jump": 4,
            "rerun": 3,
            "start operator": 30,
            "deaf": 2,
            "pause": 2,
            "crash": 0.2,
            "restart operator": 0.2,
        },
        when={State.RUNNING: {"jump": 0.3, "sweep": 3}, State.CLAIMED: {"jump": 0.3, "sweep": 3}},
        hindered=0.02,
        ends_badly=0.3,
    ),
    Theme(
        "ended in order",
        bias=NO_CLOCKS | {"run_at": 0.0},
        weights={"leave": 30, "start operator": 20, "evict": 2, "node shutdown": 2, "crash": 0.2, "sweep": 2},
        when={State.PENDING: {"leave": 2}, State.CLAIMED: {"leave": 2}},
        hindered=0.02,
        ends_badly=0.3,
        haste=2,
    ),
)
