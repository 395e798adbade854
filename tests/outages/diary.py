"""What a container wrote of itself, every 100 ms, into a file of its host: who was at work when, by no hearsay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube import JSON, Kubectl, of_run, task

ALIVE_LINES = 5
FOLDER = "/diary"


@dataclass(frozen=True)
class Diary:
    """One file a task, in a folder that every node of this machine sees: lines of run number and time, in order."""

    folder: Path

    def keeper(self, name: str, node: str, then: str = "", **spec: Any) -> JSON:
        """A Task that keeps a diary: its first run without end, any later one for a second.

        It starts on that node, if it can. `then` is a condition of the shell: true once a run may end by itself.
        """
        enough = then or '[ "$TASKYARD_RUN" -gt 0 ] && [ $lines -ge 10 ]'
        script = f"""
            trap 'exit 143' TERM
            lines=0
            until {enough}; do
                read now idle < /proc/uptime
                echo "$TASKYARD_RUN $now" >> {FOLDER}/{name}
                lines=$((lines + 1))
                sleep 0.1
            done
            """
        manifest = self._given(task(name, script, **spec))
        manifest["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": _preferred(node)}
        return manifest

    def noter(self, name: str, script: str, **spec: Any) -> JSON:
        """A Task that writes one line a run, and then does something. It sits out what would move it elsewhere."""
        manifest = self._given(task(name, f'echo "$TASKYARD_RUN" >> {FOLDER}/{name}; {script}', **spec))
        manifest["spec"]["template"]["spec"]["tolerations"] = [
            {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute"}
            for state in ("not-ready", "unreachable")
        ]
        return manifest

    def _given(self, manifest: JSON) -> JSON:
        pod = manifest["spec"]["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = 1
        pod["containers"][0]["volumeMounts"] = [{"name": "diary", "mountPath": FOLDER}]
        pod["volumes"] = [{"name": "diary", "hostPath": {"path": str(self.folder)}}]
        return manifest

    def runs(self, name: str) -> list[int]:
        """Who wrote, line by line."""
        file = self.folder / name
        return [int(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []

    def is_kept(self, kubectl: Kubectl, name: str, run: int) -> None:
        """Wait for some more lines of that run: it is at work right now."""
        enough = self.runs(name).count(run) + ALIVE_LINES
        kubectl.eventually(f"run {run} of {name} at work", lambda: self.runs(name).count(run) >= enough)

    def at_work_on(self, kubectl: Kubectl, node: str, *names: str) -> None:
        """Wait until the first run of each of them keeps its diary on that node."""
        for name in names:
            assert of_run(kubectl.until(name, "Running"), "number", "node") == [(0, node)]
        for name in names:
            self.is_kept(kubectl, name, run=0)

    def is_in_order(self, name: str) -> bool:
        """Whether no run wrote a line after the next one's first: they were at work one after the other."""
        runs = self.runs(name)
        return runs == sorted(runs)


def _preferred(node: str) -> JSON:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    term = {"weight": 100, "preference": {"matchExpressions": [here]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
