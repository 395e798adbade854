"""What goes wrong with nodes: they run short, restart, shut down, fall silent, come back or never do."""

from typing import Final

from taskyard.cluster import PODS
from tests.unit.fake import Object
from tests.unit.simulation import kubelet
from tests.unit.simulation.ground import Ground, has_started, is_alive, is_deleting, set_condition
from tests.unit.simulation.trouble import a_living_pod

WHO: Final = "trouble"
MOST_LOST: Final = 2


def shut_down(ground: Ground) -> bool:
    """In order: the kubelet ends its pods, and says that it is the machine that goes."""
    return _end_by_node(ground, "Terminated")


def run_short(ground: Ground) -> bool:
    """Of memory or disk: the kubelet ends a pod."""
    return _end_by_node(ground, "Evicted")


def _end_by_node(ground: Ground, reason: str) -> bool:
    pod = _a_pod_on_a_node(ground)
    if pod is None:
        return False
    kubelet.kill_by_node(ground, pod, reason)
    return True


def _a_pod_on_a_node(ground: Ground) -> Object | None:
    pod = a_living_pod(ground)
    return None if pod is None or pod["spec"].get("nodeName", "") in {"", *ground.lost_nodes} else pod


def restart(ground: Ground) -> bool:
    pod = _a_pod_on_a_node(ground)
    if pod is None or not has_started(pod):
        return False
    kubelet.lose_container(ground, pod)
    return True


def fall_silent(ground: Ground) -> bool:
    """Its kubelet answers no more. At first nobody knows; what runs there runs on, or not."""
    pod = _a_pod_on_a_node(ground)
    if pod is None or len(ground.lost_nodes) > MOST_LOST:
        return False
    node = pod["spec"]["nodeName"]
    ground.say(WHO, f"{node} falls silent")
    ground.lost_nodes.add(node)
    return True


def taint(ground: Ground) -> bool:
    """After some minutes of silence its pods are marked, and nobody ends them."""
    pods = [pod for pod in _on_lost_nodes(ground) if not is_deleting(pod)]
    if not pods:
        return False
    node = pods[0]["spec"]["nodeName"]
    ground.say(WHO, f"{node} is tainted: unreachable")
    for each in pods:
        if each["spec"]["nodeName"] == node:
            ground.begin_deletion(each, condition="DeletionByTaintManager")
    return True


def _on_lost_nodes(ground: Ground) -> list[Object]:
    return [pod for pod in ground.living_pods() if pod["spec"].get("nodeName") in ground.lost_nodes]


def come_back(ground: Ground) -> bool:
    """It was only away, and what it ran may run still."""
    node = _a_lost_node(ground)
    if node is None:
        return False
    ground.say(WHO, f"{node} is back")
    ground.lost_nodes.discard(node)
    return True


def be_deleted(ground: Ground) -> bool:
    """Its Node object goes: what ran there is declared failed, and deleted by force."""
    node = _a_lost_node(ground)
    if node is None:
        return False
    ground.say(WHO, f"{node} is deleted")
    ground.lost_nodes.discard(node)
    for each in ground.living_pods():
        if each["spec"].get("nodeName") == node:
            _fail(ground, each, "DeletionByPodGC")
    return True


def go_out_of_service(ground: Ground) -> bool:
    """Somebody vouches that it is off, by a taint: what was to be deleted there is. It says nothing more."""
    marked = [pod for pod in _on_lost_nodes(ground) if is_deleting(pod)]
    if not marked:
        return False
    node = marked[0]["spec"]["nodeName"]
    ground.say(WHO, f"{node} is out of service")
    for each in marked:
        if each["spec"]["nodeName"] == node and is_alive(each):
            _fail(ground, each, None)
    return True


def _a_lost_node(ground: Ground) -> str | None:
    return ground.dice.choice(sorted(ground.lost_nodes)) if ground.lost_nodes else None


def _fail(ground: Ground, pod: Object, condition: str | None) -> None:
    def fail(obj: Object) -> None:
        obj["status"]["phase"] = "Failed"
        obj["metadata"].setdefault("deletionTimestamp", ground.moment())
        obj["metadata"]["deletionGracePeriodSeconds"] = 0
        if condition is not None:
            set_condition(obj, "DisruptionTarget", "True", ground.moment(), condition)

    ground.change(PODS, pod, fail)


def all_come_back(ground: Ground) -> None:
    """In one of the ways there are."""
    while ground.lost_nodes:
        ground.dice.choice((come_back, be_deleted))(ground)
