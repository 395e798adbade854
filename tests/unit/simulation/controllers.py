"""What Kubernetes itself does about Jobs and pods: the Job controller, the collector of garbage, the scheduler.

Each function does one small step to one object, and says whether there was anything to do.
"""

from datetime import timedelta
from typing import Final

from taskyard.cluster import EVENTS, JOBS, PODS, TASKS
from taskyard.core import manifest
from tests.unit.fake import Object, copied
from tests.unit.simulation.ground import (
    NAMESPACE,
    NODES,
    TRACKING,
    Ground,
    has_condition,
    is_alive,
    is_deleting,
    is_tracked,
    name_of,
    owner_uid,
    set_condition,
    uid_of,
)

WHO: Final = "job controller"
DENIALS: Final = ("exceeded quota: pods, requested: pods=1, used: pods=5", "denied by a webhook: no")


def sync_job(ground: Ground, job: Object) -> bool:
    """One sync of the Job controller: count, then take back or make pods."""
    pods = [pod for pod in ground.pods() if owner_uid(pod) == uid_of(job)]
    if is_deleting(job):  # its pods have been orphaned
        ground.remove(JOBS, job)
        return True
    if is_finished(job):
        return _let_go(ground, [pod for pod in pods if is_tracked(pod)])
    if "uncountedTerminatedPods" in job.get("status", {}):
        return _count(ground, job)
    ended = [pod for pod in pods if not is_alive(pod) and is_tracked(pod)]
    is_paused = job["spec"].get("suspend") or job["spec"].get("parallelism") == 0
    if ended and is_paused and is_deleting(ended[0]) and ground.chance(0.3):
        return _let_go(ground, ended)
    if ended:
        return _note(ground, job, ended[0])
    active = [pod for pod in pods if is_alive(pod) and not is_deleting(pod)]
    terminating = [pod for pod in pods if is_alive(pod) and is_deleting(pod)]
    if job["spec"].get("suspend"):
        return _suspend(ground, job, active, terminating)
    if has_condition(job, "Suspended"):
        ground.change(JOBS, job, lambda obj: set_condition(obj, "Suspended", "False", ground.moment()))
        return True
    if job["spec"].get("parallelism") == 0:
        for pod in active:
            ground.begin_deletion(pod)
        return _report(ground, job, 0, len(active) + len(terminating)) or bool(active)
    if not active and not terminating and not pods:
        return _make_a_pod(ground, job)
    return _report(ground, job, len(active), len(terminating))


def is_finished(job: Object) -> bool:
    return has_condition(job, "Complete") or has_condition(job, "Failed")


def _let_go(ground: Ground, pods: list[Object]) -> bool:
    for pod in pods[:1]:
        ground.release(pod)
    return bool(pods)


def _note(ground: Ground, job: Object, pod: Object) -> bool:
    """First it writes down whom it is about to count, then it lets the pod go."""
    word = pod["status"]["phase"].lower()
    ground.say(WHO, f"{name_of(job)}: its pod {word}")

    def note(obj: Object) -> None:
        obj.setdefault("status", {})["uncountedTerminatedPods"] = {word: [uid_of(pod)]}

    ground.change(JOBS, job, note)
    ground.release(pod)
    return True


def _count(ground: Ground, job: Object) -> bool:
    def count(obj: Object) -> None:
        status = obj["status"]
        word = next(iter(status.pop("uncountedTerminatedPods")))
        status[word] = 1
        status["active"] = status["terminating"] = 0
        set_condition(obj, "Complete" if word == "succeeded" else "Failed", "True", ground.moment())

    ground.change(JOBS, job, count)
    return True


def _suspend(ground: Ground, job: Object, active: list[Object], terminating: list[Object]) -> bool:
    """Pods are taken back, and it says so; how many are still on their way out, it says too."""
    for pod in active:
        ground.begin_deletion(pod)

    def report(obj: Object) -> None:
        obj.setdefault("status", {}).update(active=0, terminating=len(active) + len(terminating))
        set_condition(obj, "Suspended", "True", ground.moment())

    before = job.get("status", {})
    is_said = has_condition(job, "Suspended") and before.get("terminating") == len(terminating)
    if is_said and not active:
        return False
    ground.say(WHO, f"{name_of(job)}: suspended, {len(active) + len(terminating)} pods on their way out")
    ground.change(JOBS, job, report)
    return True


def _report(ground: Ground, job: Object, active: int, terminating: int) -> bool:
    counts = {"active": active, "terminating": terminating}
    before = job.get("status", {})
    if all(before.get(key, 0) == value for key, value in counts.items()):
        return False
    ground.change(JOBS, job, lambda obj: obj.setdefault("status", {}).update(counts))
    return True


def _make_a_pod(ground: Ground, job: Object) -> bool:
    """If it is admitted. What the API server says otherwise is in an Event, and nowhere else."""
    until = ground.denied_until.get(uid_of(job))
    if not ground.is_fair and until is not None and ground.now < until:
        return False
    if not ground.unlucky(ground.hindered / 2):
        make_pod(ground, job)
        return True
    ground.denied_until[uid_of(job)] = ground.now + timedelta(seconds=ground.dice.choice((3, 30, 300)))
    said = f'Error creating: pods "{name_of(job)}" is forbidden: {ground.dice.choice(DENIALS)}'
    ground.say(WHO, said)
    ground.happened["pod denied"] += 1
    event = {
        "metadata": {"name": ground.unique("denied"), "namespace": NAMESPACE, "uid": ground.unique("event")},
        "involvedObject": {"kind": "Job", "name": name_of(job), "uid": uid_of(job)},
        "reason": "FailedCreate",
        "message": said,
        "lastTimestamp": ground.moment(),
    }
    ground.cluster.put(EVENTS, event)
    return True


def make_pod(ground: Ground, job: Object) -> None:
    """The one pod of a Job."""
    template = copied(job["spec"]["template"])
    name, uid = ground.unique(name_of(job)), ground.unique("pod-uid")
    if uid_of(job) in ground.excused:
        ground.excused.add(uid)
    ground.say(WHO, f"makes the pod {name}")
    ground.cluster.logs[name] = "so it goes\n" if ground.chance(0.95) else "\x1b[1m…" * 3000
    ground.cluster.put(
        PODS,
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": uid,
                "creationTimestamp": ground.moment(),
                "labels": template["metadata"]["labels"],
                "ownerReferences": [
                    {"kind": "Job", "name": name_of(job), "uid": uid_of(job), "controller": True}
                ],
                "finalizers": [TRACKING],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        },
    )


# Garbage.


def collect(ground: Ground) -> bool:
    """One step of the collector: what has lost its owner goes, and an owner that waits for it, after it."""
    tasks = {uid_of(task): task for task in ground.tasks()}
    jobs = {uid_of(job): job for job in ground.jobs()}
    for job in ground.jobs():
        if owner_uid(job) is not None and _collect_job(ground, job, tasks.get(owner_uid(job) or "")):
            return True
    for pod in ground.pods():
        owner = owner_uid(pod)
        if owner is not None and owner not in jobs and (is_tracked(pod) or not is_deleting(pod)):
            ground.say("collector", f"{name_of(pod)} has no Job any more")
            ground.begin_deletion(pod)
            found = ground.find(PODS, uid_of(pod))
            assert found is not None
            ground.release(found)
            return True
    for task in tasks.values():
        if is_deleting(task) and not any(owner_uid(job) == uid_of(task) for job in jobs.values()):
            ground.say("collector", f"{name_of(task)} is gone")
            ground.remove(TASKS, task)
            return True
    return False


def _collect_job(ground: Ground, job: Object, owner: Object | None) -> bool:
    pods = [pod for pod in ground.pods() if owner_uid(pod) == uid_of(job)]
    if owner is None:
        ground.say("collector", f"{name_of(job)} has no Task any more")
        ground.remove(JOBS, job)
        return True
    if is_deleting(owner) and not is_deleting(job):
        ground.change(JOBS, job, lambda obj: obj["metadata"].update(deletionTimestamp=ground.moment()))
        return True
    if is_deleting(job):
        if not pods:
            ground.remove(JOBS, job)
            return True
        for pod in pods:
            if is_tracked(pod) or not is_deleting(pod):
                ground.begin_deletion(pod)
                found = ground.find(PODS, uid_of(pod))
                assert found is not None
                ground.release(found)
                return True
    return False


def collect_pod(ground: Ground, pod: Object) -> bool:
    """A pod that is deleted goes when nobody holds it: its kubelet has ended it, or it never had one."""
    is_forced = pod["metadata"].get("deletionGracePeriodSeconds") == 0
    if not is_deleting(pod) or (is_alive(pod) and "nodeName" in pod["spec"] and not is_forced):
        return False
    if not is_tracked(pod):
        ground.say("API server", f"the pod {name_of(pod)} is gone")
        ground.remove(PODS, pod)
        return True
    if is_alive(pod) and "nodeName" not in pod["spec"]:
        ground.say("collector", f"{name_of(pod)} never had a node, and fails")
        ground.change(PODS, pod, lambda obj: obj["status"].update(phase="Failed"))
        return True
    return False


# The scheduler.


def schedule(ground: Ground, pod: Object, hindered: float) -> bool:
    """Find a node for a pod, or say why there is none."""
    if "nodeName" in pod["spec"] or is_deleting(pod) or not is_alive(pod):
        return False
    nodes = [node for node in NODES if node not in ground.lost_nodes]
    if ground.unlucky(hindered) or not nodes:
        said = ground.dice.choice(
            (
                "0/3 nodes are available: 3 Insufficient cpu.",
                "0/3 nodes are available: 3 node(s) didn't match.",
            )
        )
        ground.say("scheduler", f"{name_of(pod)}: {said}")
        ground.change(
            PODS,
            pod,
            lambda obj: set_condition(obj, "PodScheduled", "False", ground.moment(), "Unschedulable", said),
        )
        return True
    node = ground.dice.choice(nodes)
    ground.say("scheduler", f"{name_of(pod)}: {node}")

    def bind(obj: Object) -> None:
        obj["spec"]["nodeName"] = node
        set_condition(obj, "PodScheduled", "True", ground.moment())

    ground.change(PODS, pod, bind)
    return True


def attempt_of(obj: Object) -> int:
    return int(obj["metadata"]["labels"][manifest.LABEL_ATTEMPT])
