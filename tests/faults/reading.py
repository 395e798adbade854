"""Parts of manifests and statuses that the tests of faults look at."""

from __future__ import annotations

from tests.kube import JSON

SPENT = ("lossCount", "retryCount", "startFailures")


def spent(status: JSON) -> tuple[int, ...]:
    return tuple(status[each] for each in SPENT)


def pod_of(manifest: JSON) -> JSON:
    spec: JSON = manifest["spec"]["template"]["spec"]
    return spec


def main_of(manifest: JSON) -> JSON:
    container: JSON = pod_of(manifest)["containers"][0]
    return container
