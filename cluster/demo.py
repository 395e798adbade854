"""`make demo`: a cluster, Taskyard on it, and the example Tasks on their way to their verdicts, live."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.build import PROJECT
from cluster.errors import ClusterError
from cluster.install import install, kubectl
from cluster.provider import Provider, choose

NAMESPACE = "taskyard-demo"
EXAMPLES = [PROJECT / "examples" / f"{name}.yaml" for name in ("hello", "slow", "fails", "retry", "timeout")]
PATIENCE = "120s"
COLOURS = {"Completed": 32, "Failed": 31, "Exception": 31, "Running": 36, "Claimed": 33, "Delayed": 35}

WHAT_NEXT = f"""
All resolved. What to try next:
  eval "$(make -s env)"            # kubectl and helm of this cluster, in this shell
  kubectl config set-context --current --namespace {NAMESPACE}
  kubectl get task retry -o yaml   # the verdict, with the runs that led to it
  kubectl describe task timeout    # what happened to it, and why
  kubectl get tasks --field-selector status.state=Failed
  kubectl delete task slow
  kubectl apply -f examples/slow.yaml
  kubectl wait --for=condition=Finished task/slow
  make down                        # stop the cluster; the machine is as it was"""


def main() -> int:
    try:
        provider = choose()
        with _step("The cluster (the first time this builds Kubernetes, which takes about ten minutes)"):
            provider.up(dns=False, tools=["helm"])
        with _step("Taskyard: its image and its chart"):
            install(provider, "task")
        _clear_namespace(provider)
        print(
            f"▶ Some Tasks of examples/, in the namespace `{NAMESPACE}`\n\n$ kubectl get tasks --watch",
            flush=True,
        )
        with _transitions_shown(provider):
            files = [f"--filename={file}" for file in EXAMPLES]
            kubectl(provider, "create", *files, f"--namespace={NAMESPACE}")
            every = ["tasks", "--all", f"--namespace={NAMESPACE}"]
            kubectl(provider, "wait", "--for=condition=Finished", *every, f"--timeout={PATIENCE}")
        print(
            "\n$ kubectl get tasks\n" + kubectl(provider, "get", "tasks", f"--namespace={NAMESPACE}"), end=""
        )
    except ClusterError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(WHAT_NEXT)
    return 0


@contextmanager
def _step(what: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"▶ {what}", flush=True)
    yield
    print(f"  done in {time.monotonic() - began:.0f} s", flush=True)


def _clear_namespace(provider: Provider) -> None:
    """From the start each time: what an earlier demo left is deleted first, with its pods."""
    namespace = f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n"
    kubectl(provider, "apply", "--filename=-", stdin=namespace)
    every = ["tasks", "--all", f"--namespace={NAMESPACE}"]
    kubectl(provider, "delete", *every, "--cascade=foreground", "--timeout=60s")


@contextmanager
def _transitions_shown(provider: Provider) -> Iterator[None]:
    """Prints what `kubectl get tasks --watch` says, less the lines in which only the age is new."""
    command = [str(provider.kubectl), f"--kubeconfig={provider.kubeconfig}", f"--namespace={NAMESPACE}"]
    watch = subprocess.Popen(
        [*command, "get", "tasks", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    reader = threading.Thread(target=_print_transitions, args=(watch,), daemon=True)
    reader.start()
    try:
        yield
        time.sleep(0.5)  # the last lines are on their way
    finally:
        watch.terminate()
        watch.wait()
        reader.join()


def _print_transitions(watch: subprocess.Popen[str]) -> None:
    assert watch.stdout is not None
    shown = set()
    for line in watch.stdout:
        if tuple(line.split()[:-1]) not in shown:
            shown.add(tuple(line.split()[:-1]))
            print(_coloured(line), end="", flush=True)


def _coloured(line: str) -> str:
    for state, colour in COLOURS.items() if sys.stdout.isatty() else ():
        line = line.replace(f" {state} ", f" \x1b[{colour}m{state}\x1b[0m ")
    return line


if __name__ == "__main__":
    sys.exit(main())
