"""The users: what they submit, and what they change their minds about."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from taskyard.cluster import DEFINITIONS, QUEUES, TASKS
from taskyard.core import manifest
from taskyard.core.clocks import said
from taskyard.core.words import DefinitionKind
from tests.unit.fake import Object, copied
from tests.unit.simulation.ground import NAMESPACE, Ground, is_deleting, name_of, uid_of

WHO: Final = "user"

NAMES: Final = ("alpha", "beta", "gamma", "delta")
DEFINITION: Final = DEFINITIONS[DefinitionKind.TASK_DEFINITION]

Bias = Mapping[str, float]

USUAL: Final[Bias] = {
    "retry": 0.5,
    "delay": 0.5,
    "at once": 0.2,
    "run_at": 0.2,
    "good": 0.25,
    "deadline": 0.25,
    "relative": 0.7,
    "timeout": 0.3,
    "other queue": 0.06,
    "definition": 0.05,
    "dependencies": 0.08,
    "key": 0.05,
    "suspended": 0.08,
    "stop on shutdown": 0.3,
    "init": 0.2,
    "helper": 0.15,
    "save": 0.3,
    "no losses": 0.2,
}
"""How often a task asks for something; a theme says so for some."""


def submit(ground: Ground, bias: Bias) -> None:
    """A new Task, of a random spec that the API server would take."""
    taken = {name_of(task) for task in ground.tasks()}
    name = next(each for each in NAMES if each not in taken)
    spec = random_spec(ground, {**USUAL, **bias})
    ground.say(WHO, f"submits {name}: {spec}")
    task: Object = {
        "apiVersion": manifest.API_VERSION,
        "kind": "Task",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": ground.unique("task-uid"),
            "generation": 1,
            "creationTimestamp": ground.moment(),
        },
        "spec": spec,
    }
    if ground.chance(0.02):
        ground.malformed.add(uid_of(task))
    ground.cluster.put(TASKS, task)


def random_spec(ground: Ground, bias: Bias) -> dict[str, Any]:
    dice = ground.dice
    spec: dict[str, Any] = {
        "scheduleTimeoutSeconds": dice.choice((5, 20, 60, 900)),
        "startTimeoutSeconds": dice.choice((5, 20, 60, 600)),
        "startLimit": dice.choice((1, 2, 3)),
        "ttlSecondsAfterFinished": dice.choice((0, 600, 3600, 86400, 86400)),
        "priority": dice.choice((0, 5)),
        "onShutdown": "Stop"
        if ground.chance(bias["stop on shutdown"])
        else dice.choice(("Resubmit", "Continue")),
        "logs": dice.choice(("None", "OnFailure", "OnFailure", "Always")),
        "deadLetterPolicy": "Save" if ground.chance(bias["save"]) else "None",
        "retry": _retry(ground, bias),
        **_clocks(ground, bias),
    }
    if ground.chance(bias["definition"]):
        spec["definitionRef"] = {"name": "report", "version": "v1"}
    else:
        spec["template"] = _template(ground, bias)
    if ground.chance(bias["dependencies"]):
        spec["dependencies"] = sorted(dice.sample(NAMES, dice.choice((1, 1, 2))))
        spec["requires"] = dice.choice(("AllCompleted", "AllCompleted", "AllResolved"))
        spec["onDependencyFailure"] = dice.choice(("Fail", "Wait"))
    if ground.chance(bias["key"]):
        spec["idempotencyKey"] = "k"
        spec["onDuplicate"] = dice.choice(("Skip", "Replace", "Queue"))
    if ground.chance(bias["timeout"]):
        spec["timeoutSeconds"] = dice.choice((1, 10, 60))
    if ground.chance(bias["other queue"]):
        spec["queueName"] = "elsewhere"
    if ground.chance(bias["suspended"]):
        spec["suspend"] = True
    if ground.chance(0.1):
        spec["unreachableTimeoutSeconds"] = dice.choice((5, 60))
    return spec


def _template(ground: Ground, bias: Bias) -> Object:
    containers = [{"name": "main", "image": "example.invalid/none"}]
    if ground.chance(bias["helper"]):
        containers.append({"name": "helper", "image": "example.invalid/none"})
    pod: Object = {"containers": containers, "terminationGracePeriodSeconds": ground.dice.choice((0, 2, 30))}
    if ground.chance(bias["init"]):
        pod["initContainers"] = [{"name": "init", "image": "example.invalid/none"}]
    return {"spec": pod}


def _retry(ground: Ground, bias: Bias) -> Object:
    dice = ground.dice
    policy: Object = {
        "infrastructureLimit": 0 if ground.chance(bias["no losses"]) else dice.choice((1, 2, 5))
    }
    if not ground.chance(bias["retry"]):
        return policy
    policy["limit"] = dice.choice((1, 2, 4))
    if not ground.chance(bias["delay"]):
        return policy
    delays = (0,) if ground.chance(bias["at once"]) else (1, 7, 20)
    if ground.chance(0.2):
        policy["intervalsSeconds"] = [dice.choice(delays) for _ in range(policy["limit"])]
        return policy
    policy["delaySeconds"] = dice.choice(delays)
    policy["backoff"] = dice.choice(("Constant", "Linear", "Exponential", "ExponentialJitter"))
    if ground.chance(0.2):
        policy["maxDelaySeconds"] = dice.choice((1, 30))
    if ground.chance(0.2):
        policy["expected"] = {"exitCodes": [1, 137], "errors": ["Timeout", "BadRow"]}
    return policy


def _clocks(ground: Ground, bias: Bias) -> Object:
    """Absolute or relative, and in order: `runAt` before `goodUntil`, that not after `deadline`."""
    dice = ground.dice
    spec: Object = {}
    start = dice.choice((1, 10, 30)) if ground.chance(bias["run_at"]) else None
    good = (start or 0) + dice.choice((5, 30, 60, 120)) if ground.chance(bias["good"]) else None
    after = good if good is not None else start or 0
    deadline = after + dice.choice((10, 60, 200)) if ground.chance(bias["deadline"]) else None
    names = (("startDelaySeconds", "runAt"), ("goodForSeconds", "goodUntil"), ("deadlineSeconds", "deadline"))
    is_relative = ground.chance(bias["relative"])
    for (relative, absolute), seconds in zip(names, (start, good, deadline), strict=True):
        if seconds is not None and is_relative:
            spec[relative] = seconds
        elif seconds is not None:
            spec[absolute] = said(ground.now + timedelta(seconds=seconds))
    return spec


# Changes of mind.


def edit(ground: Ground, task: Object, what: str, **spec: Any) -> bool:
    """A write of the spec moves the generation; False if it would change nothing."""
    if all(task["spec"].get(key) == value for key, value in spec.items()):
        return False
    ground.say(WHO, f"{name_of(task)}: {what}")
    changed = copied(task)
    changed["spec"] |= spec
    changed["metadata"]["generation"] += 1
    ground.cluster.put(TASKS, changed)
    return True


def suspend(ground: Ground, task: Object) -> bool:
    return edit(ground, task, "suspend", suspend=True)


def resume(ground: Ground, task: Object) -> bool:
    return edit(ground, task, "resume", suspend=False)


def release(ground: Ground, task: Object) -> bool:
    return edit(ground, task, "release", release=True)


def hold_back(ground: Ground, task: Object) -> bool:
    return edit(ground, task, "do not release", release=False)


def define(ground: Ground) -> bool:
    """A type is registered, its version retired or taken up again, or written anew with another content."""
    known = next(iter(ground.cluster.all(DEFINITION)), None)
    offered = {"version": "v1", "template": _template(ground, USUAL), "defaults": {"timeoutSeconds": 60}}
    if known is not None and ground.chance(0.8):
        offered = known["spec"]["versions"][0]
    spec = {"versions": [offered], "retired": ground.dice.choice(([], ["v1"]))}
    metadata = {"name": "report", "namespace": NAMESPACE, "uid": ground.unique("definition-uid")}
    ground.say(WHO, f"registers {spec}")
    ground.cluster.put(
        DEFINITION,
        {"kind": "TaskDefinition", "metadata": known["metadata"] if known else metadata, "spec": spec},
    )
    return True


def make_queue(ground: Ground) -> bool:
    """The other queue is made, or has other limits."""
    dice = ground.dice
    spec: Object = {"paused": ground.chance(0.15), "ageing": {"secondsPerPoint": dice.choice((0, 60))}}
    if ground.chance(0.7):
        spec["maxConcurrent"] = dice.choice((0, 1, 1, 2))
    if ground.chance(0.3):
        spec["rateLimit"] = {"tasks": 1, "perSeconds": dice.choice((5, 60))}
    ground.say(WHO, f"a queue of {spec}")
    metadata = {"name": "elsewhere", "namespace": NAMESPACE, "uid": "queue-uid"}
    ground.cluster.put(QUEUES, {"kind": "TaskQueue", "metadata": metadata, "spec": spec})
    return True


def remove_queue(ground: Ground) -> bool:
    if not ground.cluster.all(QUEUES):
        return False
    ground.say(WHO, "takes the queue away")
    ground.cluster.remove(QUEUES, NAMESPACE, "elsewhere")
    return True


def undefine(ground: Ground) -> bool:
    known = next(iter(ground.cluster.all(DEFINITION)), None)
    if known is None:
        return False
    ground.say(WHO, "takes the definition away")
    ground.cluster.remove(DEFINITION, NAMESPACE, "report")
    return True


def cancel(ground: Ground, task: Object) -> bool:
    return edit(ground, task, "cancel", cancel=True)


def think_better_of_it(ground: Ground, task: Object) -> bool:
    return edit(ground, task, "do not cancel", cancel=False)


def change_little(ground: Ground, task: Object) -> bool:
    ttl = ground.dice.choice((0, 60, 300))
    priority = ground.dice.randint(-5, 5)
    return edit(ground, task, "other priority and ttl", priority=priority, ttlSecondsAfterFinished=ttl)


def run_again(ground: Ground, task: Object) -> bool:
    """Only a Task that is finished may get other times with it."""
    changes: dict[str, Any] = {"rerun": task["spec"]["rerun"] + 1, "cancel": False}
    if ground.chance(0.7):
        changes["suspend"] = False
    if task["status"]["phase"] == "Finished":
        later = timedelta(seconds=ground.dice.choice((30, 100)))
        for name in ("goodUntil", "deadline"):
            if name in task["spec"] and ground.chance(0.8):
                changes[name] = said(ground.now + later)
    return edit(ground, task, f"run it again {changes}", **changes)


def delete(ground: Ground, task: Object) -> bool:
    """In the background: gone at once. In the foreground: gone after all that it owns."""
    if is_deleting(task):
        return False
    if ground.chance(0.5):
        ground.say(WHO, f"deletes {name_of(task)}")
        ground.remove(TASKS, task)
        return True
    ground.say(WHO, f"deletes {name_of(task)} in the foreground")
    marks = {"deletionTimestamp": ground.moment(), "finalizers": ["foregroundDeletion"]}
    ground.change(TASKS, task, lambda obj: obj["metadata"].update(marks))
    return True
