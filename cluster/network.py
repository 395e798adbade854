"""Addresses of the native cluster, and the bridge that joins its nodes.

198.18.0.0/15 is reserved for tests of network devices (RFC 2544), so it meets neither an office network nor
Docker's pools. Nothing here forwards to the outside: pods reach each other, Services and the API server, and
nothing else.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cluster.errors import ClusterError

BRIDGE = "taskyard0"
CONTROL_PLANE = "198.18.0.1"
KWOK_CONTROL_PLANE = "127.77.0.1"  # all of 127.0.0.0/8 is this machine's own, and nobody else listens here
NODES_CIDR = "198.18.0.0/24"
PODS_CIDR = "198.18.16.0/20"
SERVICES_CIDR = "198.18.32.0/20"
API_SERVICE = "198.18.32.1"
DNS_SERVICE = "198.18.32.10"
ADDRESSES = ("198.18.0.0/15", "127.0.0.0/8")


def bypass_proxies() -> None:
    """Whatever proxy the environment names is not for the cluster's own addresses; every child inherits this."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return
    for name in ("NO_PROXY", "no_proxy"):
        known = [each for each in os.environ.get(name, "").split(",") if each and each not in ADDRESSES]
        os.environ[name] = ",".join([*known, *ADDRESSES])


def node_address(index: int) -> str:
    return f"198.18.0.{10 + index}"


def pods_of_node(index: int) -> str:
    return f"198.18.{16 + index}.0/24"


def link_of_node(index: int) -> str:
    """The host's end of a node's cable; the other end is `eth0` inside the node."""
    return f"taskyard-n{index}"


def ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise ClusterError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done


def ensure_bridge() -> None:
    if not has_link(BRIDGE):
        ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "replace", f"{CONTROL_PLANE}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")


def remove_links() -> None:
    """The bridge, and cables whose other end the kernel has not taken down yet: it does that in its own time."""
    for link in Path("/sys/class/net").glob("taskyard-n*"):
        ip("link", "delete", link.name, check=False)
    if has_link(BRIDGE):
        ip("link", "delete", BRIDGE)


def connect_node(index: int, pid: int) -> None:
    """Plugs the network namespace of a node into the bridge. The cable vanishes with the namespace."""
    link = link_of_node(index)
    if has_link(link):  # left by a node that died this moment
        ip("link", "delete", link, check=False)
    ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", link, "master", BRIDGE, "up")
    # the API server speaks to pods (webhooks, aggregated APIs), so the host needs the way there
    ip("route", "replace", pods_of_node(index), "via", node_address(index), "dev", BRIDGE)


def has_link(name: str) -> bool:
    return Path(f"/sys/class/net/{name}").exists()
