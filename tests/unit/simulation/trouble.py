"""What goes wrong in a cluster: evictions, preemption, and people who delete or forge what is not theirs."""

from collections.abc import Callable
from typing import Final

from taskyard.cluster import BUDGETS, JOBS, PODS
from taskyard.core import manifest, parse
from tests.unit.fake import Object
from tests.unit.simulation.ground import (
    NAMESPACE,
    Ground,
    has_started,
    is_alive,
    is_deleting,
    is_tracked,
    name_of,
    owner_uid,
    uid_of,
)

WHO: Final = "trouble"
NOWHERE: Final = "node-0"

Trouble = Callable[[Ground], bool]


def a_living_pod(ground: Ground) -> Object | None:
    """One that runs, if the dice say so and there is one."""
    living = ground.living_pods()
    running = [pod for pod in living if has_started(pod)]
    chosen = running if running and ground.chance(0.5) else living
    return ground.dice.choice(chosen) if chosen else None


def delete_pod(ground: Ground) -> bool:
    if (pod := a_living_pod(ground)) is None or is_deleting(pod):
        return False
    ground.say(WHO, f"somebody deletes the pod {name_of(pod)}")
    ground.begin_deletion(pod)
    return True


def force_delete_pod(ground: Ground) -> bool:
    """Without its kubelet: `kubectl delete --force`. Its Job holds it all the same, until it has ended."""
    pod = a_living_pod(ground)
    if pod is None or pod["metadata"].get("deletionGracePeriodSeconds") == 0:
        return False
    ground.say(WHO, f"somebody deletes the pod {name_of(pod)} by force")
    ground.force_deletion(pod)
    return True


def evict(ground: Ground) -> bool:
    """A drain. The API server refuses it where a budget stands before a pod that runs; not for one that does not."""
    if (pod := a_living_pod(ground)) is None or is_deleting(pod):
        return False
    if ground.is_shielded(pod):
        ground.say(WHO, f"{name_of(pod)} is not evicted: its budget forbids it")
        ground.happened["evict refused"] += 1
        return True
    ground.say(WHO, f"{name_of(pod)} is evicted")
    ground.begin_deletion(pod, condition="EvictionByEvictionAPI")
    return True


def delete_budget(ground: Ground) -> bool:
    """Somebody wants his drain to go on."""
    for budget in ground.cluster.all(BUDGETS):
        ground.say(WHO, "somebody deletes the budget")
        ground.remove(BUDGETS, budget)
        return True
    return False


def preempt(ground: Ground) -> bool:
    if (pod := a_living_pod(ground)) is None or is_deleting(pod):
        return False
    ground.say(WHO, f"{name_of(pod)} is preempted")
    ground.begin_deletion(pod, condition="PreemptionByScheduler")
    return True


def strip_pod(ground: Ground) -> bool:
    """Somebody takes the finalizer off a pod that never ran or is over, and deletes it: no Job has counted it."""
    pods = [pod for pod in ground.pods() if not has_started(pod) or not is_alive(pod)]
    if not pods:
        return False
    pod = ground.dice.choice(pods)
    ground.say(WHO, f"somebody strips and removes the pod {name_of(pod)}")
    if has_started(pod) or not is_alive(pod):
        # What its Job makes now, nobody can foresee; and that it ran, perhaps nobody saw.
        ground.excused |= {owner_uid(pod) or "", ground.task_uid(pod)}
    ground.remove(PODS, pod)
    return True


def delete_job(ground: Ground) -> bool:
    jobs = ground.jobs()
    if not jobs:
        return False
    job = ground.dice.choice(jobs)
    ground.say(WHO, f"somebody deletes the Job {name_of(job)}")
    ground.removed_jobs.add(name_of(job))
    ground.remove(JOBS, job)
    return True


def pause_job(ground: Ground) -> bool:
    """Somebody who does not know that Tasks have a `suspend` of their own."""
    jobs = [job for job in ground.jobs() if not is_paused(job) and not is_deleting(job)]
    if not jobs:
        return False
    job = ground.dice.choice(jobs)
    how: Object = {"suspend": True} if ground.chance(0.7) else {"parallelism": 0}
    ground.say(WHO, f"somebody pauses the Job {name_of(job)}: {how}")
    ground.paused[uid_of(job)] = how
    ground.change(JOBS, job, lambda obj: obj["spec"].update(how))
    return True


def resume_job(ground: Ground) -> bool:
    """The same one, who takes back what he did, and nothing else."""
    jobs = [job for job in ground.jobs() if uid_of(job) in ground.paused and not is_deleting(job)]
    if not jobs:
        return False
    job = ground.dice.choice(jobs)
    back = {"suspend": False} if "suspend" in ground.paused.pop(uid_of(job)) else {"parallelism": 1}
    ground.say(WHO, f"somebody resumes the Job {name_of(job)}: {back}")
    ground.change(JOBS, job, lambda obj: obj["spec"].update(back))
    return True


def is_paused(job: Object) -> bool:
    return bool(job["spec"].get("suspend")) or job["spec"].get("parallelism") == 0


def orphan_pod(ground: Ground) -> bool:
    """`kubectl delete job --cascade=orphan`: the pod is let go first, and the Job goes when it is."""
    pods = [pod for pod in ground.living_pods() if is_tracked(pod) and owner_uid(pod) is not None]
    if not pods:
        return False
    pod = ground.dice.choice(pods)
    job = ground.find(JOBS, owner_uid(pod) or "")
    if job is None:
        return False
    ground.say(WHO, f"somebody orphans the pod {name_of(pod)}")
    ground.removed_jobs.add(name_of(job))
    ground.change(JOBS, job, lambda obj: obj["metadata"].update(deletionTimestamp=ground.moment()))
    ground.change(PODS, pod, lambda obj: obj["metadata"].update(finalizers=[], ownerReferences=[]))
    return True


def take_label(ground: Ground) -> bool:
    """Somebody takes from a pod the label by which it is found. Its Job knows it still."""
    pods = [pod for pod in ground.living_pods() if manifest.LABEL_UID in pod["metadata"]["labels"]]
    pods = [pod for pod in pods if ground.find(JOBS, owner_uid(pod) or "") is not None]
    if not pods:
        return False
    pod = ground.dice.choice(pods)
    ground.say(WHO, f"somebody takes the label off the pod {name_of(pod)}")
    ground.unlabelled[uid_of(pod)] = ground.task_uid(pod)
    ground.change(PODS, pod, lambda obj: obj["metadata"]["labels"].pop(manifest.LABEL_UID))
    return True


def take_name(ground: Ground) -> bool:
    """Somebody has a Job of the name that the next attempt needs."""
    tasks = [task for task in ground.tasks() if "attempt" in task["status"]]
    if not tasks:
        return False
    task = ground.dice.choice(tasks)
    status = task["status"] | {"attempt": task["status"]["attempt"] + 1}
    name = manifest.job_name(parse.task(task | {"status": status}))
    if any(name_of(job) == name for job in ground.jobs()):
        return False
    ground.say(WHO, f"somebody takes the name {name}")
    metadata = {"name": name, "namespace": NAMESPACE, "uid": ground.unique("foreign"), "labels": {}}
    ground.cluster.put(JOBS, {"metadata": metadata, "spec": {"suspend": True}, "status": {}})
    return True


def make_stuck_stray(ground: Ground) -> bool:
    """The same on a node that does not answer: it goes when that returns, and a task that waits has to wait."""
    ground.lost_nodes.add(NOWHERE)
    return make_stray(ground, node=NOWHERE)


def make_stray(ground: Ground, node: str | None = None) -> bool:
    """Somebody copies a pod, labels and all."""
    tasks = ground.tasks()
    if not tasks:
        return False
    task = ground.dice.choice(tasks)
    last = task["status"].get("attempt", 0)
    attempt = last if ground.chance(0.5) else ground.dice.randint(0, last)
    name = ground.unique("copy")
    ground.say(WHO, f"somebody makes the pod {name}, of attempt {attempt}")
    uid = ground.unique("pod-uid")
    ground.strays.add(uid)
    ground.excused.add(uid)
    ground.cluster.put(
        PODS,
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": uid,
                "creationTimestamp": ground.moment(),
                "labels": {manifest.LABEL_UID: uid_of(task), manifest.LABEL_ATTEMPT: str(attempt)},
            },
            "spec": {"containers": [{"name": "main", "image": "none"}]}
            | ({"nodeName": node} if node else {}),
            "status": {"phase": "Pending"},
        },
    )
    return True


def remove_foreign_jobs(ground: Ground) -> None:
    for job in ground.jobs():
        if owner_uid(job) is None:
            ground.remove(JOBS, job)
