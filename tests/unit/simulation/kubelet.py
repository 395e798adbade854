"""The kubelets: containers start, end, are stopped and refused. One small step of one pod at a time."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from taskyard.cluster import PODS
from tests.unit.fake import Object
from tests.unit.simulation.ground import (
    Ground,
    containers_of,
    is_alive,
    is_deleting,
    name_of,
    set_condition,
)

WHO: Final = "kubelet"

End = tuple[int, str, str | None]
"""Exit code, the runtime's word, and the termination message."""


def _report(**said: object) -> str:
    return json.dumps(said)


GOOD_ENDS: Final[Sequence[End]] = (
    (0, "Completed", None),
    (0, "Completed", _report(ok={"rows": 3, "nothing": None})),
    (0, "Completed", _report(ok=None)),
    (0, "Completed", "no JSON at all: \x1b[31m{"),
    (0, "Completed", "[" * 200),
)
BAD_ENDS: Final[Sequence[End]] = (
    (1, "Error", None),
    (3, "Error", "three\n"),
    (137, "Error", None),
    (137, "OOMKilled", None),
    (255, "Unknown", None),
    (1, "Error", _report(error={"code": "BadRow", "message": "row 7", "traceback": "here"})),
    (0, "Completed", _report(error={"code": "BadRow", "message": "row 7", "retryable": True})),
    (1, "Error", _report(error={"code": "x" * 300, "retryable": False})),
    (1, "Error", _report(error="just words")),
    (1, "Error", "\ufffd\x00 half of {"),
)
EXCEPTIONS: Final[Sequence[End]] = (
    (1, "Error", _report(error={"code": "MalformedPayload", "message": "what is this?"})),
    (1, "Error", _report(error={"code": "InternalError", "message": "no disk"})),
    (0, "Completed", _report(error={"code": "Shutdown", "message": "asked to go"})),
)
REFUSALS: Final = ("OutOfcpu", "OutOfmemory", "NodeAffinity", "NodeShutdown", "UnexpectedAdmissionError")


def step(ground: Ground, pod: Object, *, ends_badly: float, hindered: float, stays: bool = False) -> bool:
    """What the kubelet of this pod does next. `stays`: its code would run for ever."""
    node = pod["spec"].get("nodeName")
    if node is None or node in ground.lost_nodes or not is_alive(pod):
        return False
    if "startTime" not in pod["status"]:
        return _admit(ground, pod, hindered)
    if is_deleting(pod):
        return _kill(ground, pod, None)
    if _is_past_its_limit(ground, pod) or (_is_asked_to_end(pod) and ground.chance(0.7)):
        if _is_running(_main(pod)) and ground.chance(0.15):
            return _end_all(ground, pod, (0, "Completed", None))
        return _kill(ground, pod, "DeadlineExceeded")
    for init in pod["status"].get("initContainerStatuses", []):
        if "terminated" not in init["state"]:
            return _advance_init(ground, pod, init["name"], ends_badly)
    if "terminated" not in _main(pod)["state"] and not _is_running(_main(pod)):
        return _start(ground, pod, hindered)
    if stays:
        return False
    running = [each["name"] for each in containers_of(pod) if _is_running(each)]
    return bool(running) and _end(ground, pod, ground.dice.choice(running), _any_end(ground, ends_badly))


def _any_end(ground: Ground, ends_badly: float) -> End:
    if not ground.chance(ends_badly):
        return ground.dice.choice(GOOD_ENDS)
    return ground.dice.choice(EXCEPTIONS if ground.chance(0.15) else BAD_ENDS)


def _main(pod: Object) -> Object:
    found: Object = pod["status"]["containerStatuses"][0]
    return found


def _is_running(container: Object) -> bool:
    return "running" in container["state"]


def _is_past_its_limit(ground: Ground, pod: Object) -> bool:
    limit = pod["spec"].get("activeDeadlineSeconds")
    since = datetime.fromisoformat(pod["status"]["startTime"])
    return limit is not None and ground.now >= since + timedelta(seconds=limit)


def _is_asked_to_end(pod: Object) -> bool:
    """Its limit is the shortest there is; that second may have passed unnoticed."""
    return bool(pod["spec"].get("activeDeadlineSeconds") == 1)


def _admit(ground: Ground, pod: Object, hindered: float) -> bool:
    if is_deleting(pod):
        ground.say(WHO, f"{name_of(pod)}: deleted before it began")
        ground.change(PODS, pod, lambda obj: obj["status"].update(phase="Failed"))
        return True
    if ground.unlucky(hindered / 2):
        return refuse(ground, pod, ground.dice.choice(REFUSALS))

    def admit(obj: Object) -> None:
        waiting = {
            "waiting": {
                "reason": "PodInitializing" if "initContainers" in obj["spec"] else "ContainerCreating"
            }
        }
        status = obj["status"]
        status["startTime"] = ground.moment()
        status["containerStatuses"] = [_named(each, waiting) for each in obj["spec"]["containers"]]
        if "initContainers" in obj["spec"]:
            status["initContainerStatuses"] = [
                _named(each, waiting) for each in obj["spec"]["initContainers"]
            ]

    ground.say(WHO, f"{name_of(pod)}: taken in")
    ground.change(PODS, pod, admit)
    return True


def _named(container: Object, state: Object) -> Object:
    return {"name": container["name"], "state": dict(state)}


def refuse(ground: Ground, pod: Object, reason: str) -> bool:
    ground.say(WHO, f"{name_of(pod)}: refused, {reason}")

    def fail(obj: Object) -> None:
        obj["status"].update(phase="Failed", reason=reason, message="Pod was rejected")
        if reason == "NodeShutdown":
            set_condition(obj, "DisruptionTarget", "True", ground.moment(), "TerminationByKubelet")

    ground.change(PODS, pod, fail)
    return True


def _advance_init(ground: Ground, pod: Object, name: str, ends_badly: float) -> bool:
    init = next(each for each in containers_of(pod) if each["name"] == name)
    if not _is_running(init):
        ground.say(WHO, f"{name_of(pod)}: {name} starts")
        _set_state(ground, pod, name, {"running": {"startedAt": ground.moment()}})
        return True
    code = 1 if ground.unlucky(ends_badly / 4) else 0
    ground.say(WHO, f"{name_of(pod)}: {name} ends with {code}")

    def end(obj: Object) -> None:
        _set(obj, name, _terminated(ground, init, (code, "Error" if code else "Completed", None)))
        if code:
            obj["status"]["phase"] = "Failed"

    ground.change(PODS, pod, end)
    return True


def _start(ground: Ground, pod: Object, hindered: float) -> bool:
    if ground.unlucky(hindered):
        return _fail_to_start(ground, pod)
    ground.say(WHO, f"{name_of(pod)}: its containers start")

    def start(obj: Object) -> None:
        obj["status"]["phase"] = "Running"
        for each in obj["status"]["containerStatuses"]:
            each["state"] = {"running": {"startedAt": ground.moment()}}

    ground.change(PODS, pod, start)
    return True


def _fail_to_start(ground: Ground, pod: Object) -> bool:
    words = ("ErrImagePull", "ImagePullBackOff", "ImagePullBackOff", "CreateContainerConfigError")
    word = ground.dice.choice(words)
    if ground.chance(0.1):
        word = ground.dice.choice(("InvalidImageName", "StartError"))
    ground.say(WHO, f"{name_of(pod)}: {word}")
    main = _main(pod)["name"]
    if word == "StartError":
        never = "1970-01-01T00:00:00Z"
        state = {"exitCode": 128, "reason": word, "startedAt": never, "finishedAt": ground.moment()}

        def fail(obj: Object) -> None:
            _set(obj, main, {"terminated": state})
            obj["status"]["phase"] = "Failed"

        ground.change(PODS, pod, fail)
    else:
        _set_state(ground, pod, main, {"waiting": {"reason": word, "message": f"it says {word}"}})
    return True


def _end(ground: Ground, pod: Object, name: str, end: End) -> bool:
    """One container ends; with the last one the pod does."""
    ended = next(each for each in containers_of(pod) if each["name"] == name)
    ground.say(WHO, f"{name_of(pod)}: {name} ends with {end}")

    def change(obj: Object) -> None:
        _set(obj, name, _terminated(ground, ended, end))
        _close(obj)

    ground.change(PODS, pod, change)
    return True


def _end_all(ground: Ground, pod: Object, end: End) -> bool:
    ground.say(WHO, f"{name_of(pod)}: all of it ends with {end}")

    def change(obj: Object) -> None:
        for each in obj["status"]["containerStatuses"]:
            if _is_running(each):
                _set(obj, each["name"], _terminated(ground, each, end))
        _close(obj)

    ground.change(PODS, pod, change)
    return True


def _close(pod: Object) -> None:
    ends = [each["state"].get("terminated") for each in pod["status"]["containerStatuses"]]
    if all(ends):
        is_good = all(end["exitCode"] == 0 for end in ends)
        pod["status"]["phase"] = "Succeeded" if is_good else "Failed"


def _kill(ground: Ground, pod: Object, reason: str | None) -> bool:
    """SIGTERM and, if need be, SIGKILL: what had started says so, what had not gets an end nobody saw."""
    code = ground.dice.choice((143, 137, 0))
    ground.say(WHO, f"{name_of(pod)}: killed, {reason or 'deleted'}, {code}")

    def kill(obj: Object) -> None:
        for each in containers_of(obj):
            if _is_running(each):
                _set(
                    obj,
                    each["name"],
                    _terminated(ground, each, (code, "Error" if code else "Completed", None)),
                )
            elif "terminated" not in each["state"]:
                unseen = {"exitCode": 137, "reason": "ContainerStatusUnknown"}
                _set(obj, each["name"], {"terminated": unseen})
        _close(obj)
        if reason is not None:
            obj["status"].update(phase="Failed", reason=reason, message="Pod was active on the node too long")

    ground.change(PODS, pod, kill)
    return True


def kill_by_node(ground: Ground, pod: Object, reason: str) -> None:
    """The node goes down in order, or is short of something: its kubelet ends the pod and says so."""
    ground.say(WHO, f"{name_of(pod)}: ended by its node, {reason}")

    def kill(obj: Object) -> None:
        for each in containers_of(obj):
            if _is_running(each):
                _set(obj, each["name"], _terminated(ground, each, (137, "Error", None)))
        obj["status"].update(phase="Failed", reason=reason, message="The node was low on resource: memory")
        # A kubelet dates it when it has seen the containers end.
        set_condition(obj, "DisruptionTarget", "True", ground.moment(1.0), "TerminationByKubelet")

    ground.change(PODS, pod, kill)


def lose_container(ground: Ground, pod: Object) -> None:
    """The node restarted: its containers are gone, and nobody saw them end."""
    ground.say(WHO, f"{name_of(pod)}: its containers are gone")

    def lose(obj: Object) -> None:
        for each in obj["status"].get("containerStatuses", []):
            if _is_running(each):
                _set(obj, each["name"], _terminated(ground, each, (255, "Unknown", None)))
        obj["status"]["phase"] = "Failed"

    ground.change(PODS, pod, lose)


def _terminated(ground: Ground, container: Object, end: End) -> Object:
    code, reason, message = end
    since = container["state"].get("running", {}).get("startedAt")
    ended: Object = {"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": ground.moment()}
    return {"terminated": ended | ({"message": message} if message is not None else {})}


def _set_state(ground: Ground, pod: Object, name: str, state: Object) -> None:
    ground.change(PODS, pod, lambda obj: _set(obj, name, state))


def _set(pod: Object, name: str, state: Object) -> None:
    for each in containers_of(pod):
        if each["name"] == name:
            each["state"] = state
