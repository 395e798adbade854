"""Everything that may happen in a history, and how often."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.unit.fake import Object
from tests.unit.simulation import nodes, trouble, users
from tests.unit.simulation.ground import Ground
from tests.unit.simulation.stage import Stage

Event = Callable[[Stage], bool]
"""Makes it happen; False if there was nothing that it could happen to."""


def _to_a_task(change: Callable[[Ground, Object], bool]) -> Event:
    def act(stage: Stage) -> bool:
        task = stage.a_task()
        return task is not None and change(stage.ground, task)

    return act


def _in_the_cluster(what: trouble.Trouble) -> Event:
    def act(stage: Stage) -> bool:
        has_happened = what(stage.ground)
        stage.ground.happened[what.__name__] += has_happened
        return has_happened

    return act


def _run_again_if_finished(ground: Ground, task: Object) -> bool:
    return task["status"]["phase"] == "Finished" and users.run_again(ground, task)


EVENTS: Final[Mapping[str, Callable[[Stage], bool]]] = {
    "kubernetes": Stage.kubernetes_for_a_while,
    "tick": Stage.tick,
    "next ring": Stage.next_ring,
    "jump": Stage.jump,
    "sleep": Stage.sleep,
    "submit": Stage.submit,
    "start operator": Stage.start_operator,
    "restart operator": Stage.restart_operator,
    "crash": Stage.crash,
    "leave": Stage.leave,
    "sweep": Stage.sweep,
    "pause": Stage.pause,
    "go on": Stage.go_on,
    "deaf": Stage.go_deaf,
    "relist": Stage.relist,
    "late effect": Stage.late_effect,
    "suspend": _to_a_task(users.suspend),
    "resume": _to_a_task(users.resume),
    "release": _to_a_task(users.release),
    "do not release": _to_a_task(users.hold_back),
    "define": _in_the_cluster(users.define),
    "undefine": _in_the_cluster(users.undefine),
    "make queue": _in_the_cluster(users.make_queue),
    "remove queue": _in_the_cluster(users.remove_queue),
    "cancel": _to_a_task(users.cancel),
    "do not cancel": _to_a_task(users.think_better_of_it),
    "change little": _to_a_task(users.change_little),
    "rerun": _to_a_task(_run_again_if_finished),
    "rerun too early": _to_a_task(users.run_again),
    "delete": _to_a_task(users.delete),
    "delete pod": _in_the_cluster(trouble.delete_pod),
    "evict": _in_the_cluster(trouble.evict),
    "preempt": _in_the_cluster(trouble.preempt),
    "force delete pod": _in_the_cluster(trouble.force_delete_pod),
    "delete budget": _in_the_cluster(trouble.delete_budget),
    "node shutdown": _in_the_cluster(nodes.shut_down),
    "node pressure": _in_the_cluster(nodes.run_short),
    "node restart": _in_the_cluster(nodes.restart),
    "node silent": _in_the_cluster(nodes.fall_silent),
    "node tainted": _in_the_cluster(nodes.taint),
    "node returns": _in_the_cluster(nodes.come_back),
    "node deleted": _in_the_cluster(nodes.be_deleted),
    "node out of service": _in_the_cluster(nodes.go_out_of_service),
    "take label": _in_the_cluster(trouble.take_label),
    "strip pod": _in_the_cluster(trouble.strip_pod),
    "delete job": _in_the_cluster(trouble.delete_job),
    "pause job": _in_the_cluster(trouble.pause_job),
    "resume job": _in_the_cluster(trouble.resume_job),
    "orphan": _in_the_cluster(trouble.orphan_pod),
    "name taken": _in_the_cluster(trouble.take_name),
    "stray": _in_the_cluster(trouble.make_stray),
    "stuck stray": _in_the_cluster(trouble.make_stuck_stray),
}

WEIGHTS: Final[Mapping[str, float]] = {
    "kubernetes": 60,
    "tick": 8,
    "next ring": 10,
    "jump": 1.5,
    "sleep": 0.3,
    "submit": 2.5,
    "start operator": 0.4,
    "restart operator": 0.7,
    "crash": 1.5,
    "leave": 1.0,
    "sweep": 1.0,
    "pause": 1,
    "go on": 1,
    "deaf": 1.5,
    "relist": 0.5,
    "late effect": 1,
    "suspend": 1.5,
    "resume": 3,
    "release": 0.5,
    "do not release": 0.5,
    "define": 0.2,
    "undefine": 0.1,
    "make queue": 0.3,
    "remove queue": 0.1,
    "cancel": 0.8,
    "do not cancel": 1,
    "change little": 1,
    "rerun": 10,
    "rerun too early": 0.5,
    "delete": 0.5,
    "delete pod": 0.7,
    "evict": 0.8,
    "preempt": 0.5,
    "node shutdown": 0.5,
    "node pressure": 0.5,
    "node restart": 0.4,
    "force delete pod": 0.3,
    "delete budget": 0.5,
    "node silent": 0.6,
    "node tainted": 2.0,
    "node returns": 0.5,
    "node deleted": 0.4,
    "node out of service": 0.3,
    "take label": 0.3,
    "strip pod": 0.3,
    "delete job": 0.5,
    "pause job": 0.3,
    "resume job": 3,
    "orphan": 0.3,
    "name taken": 0.2,
    "stray": 0.3,
    "stuck stray": 0.1,
}
"""How often each happens, next to the others."""
