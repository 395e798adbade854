"""What became of every pod of a namespace, event by event: for the promise of one pod at work for a task."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kube import Kubectl

JSON = dict[str, Any]

UID_LABEL = "taskyard.dev/task-uid"


@dataclass(frozen=True)
class Witness:
    """A watch of pods from before the first of them, written down by kubectl itself."""

    file: Path

    def events(self) -> list[JSON]:
        """In the order in which they happened, as far as they were written down whole."""
        text, found, at = self.file.read_text(), [], 0
        decoder = json.JSONDecoder()
        while (at := _next_object(text, at)) < len(text):
            try:
                event, at = decoder.raw_decode(text, at)
            except ValueError:
                break  # not whole yet
            found.append(event)
        return found

    def of_jobs(self) -> list[JSON]:
        """Those of pods that a Job made, by their first sight: whatever somebody does to their labels later."""
        made = {
            event["object"]["metadata"]["uid"]
            for event in self.events()
            if any(each["kind"] == "Job" for each in event["object"]["metadata"].get("ownerReferences", []))
        }
        return [event for event in self.events() if event["object"]["metadata"]["uid"] in made]

    def check_one_at_a_time(self) -> None:
        """At no event did a task have two pods that were neither terminal nor gone."""
        task_of: dict[str, str] = {}
        alive: dict[str, set[str]] = defaultdict(set)
        for event in self.of_jobs():
            metadata = event["object"]["metadata"]
            pod, name = metadata["uid"], metadata["name"]
            at_work = alive[task_of.setdefault(pod, metadata.get("labels", {}).get(UID_LABEL, name))]
            is_over = event["object"]["status"].get("phase") in {"Succeeded", "Failed"}
            (at_work.discard if is_over or event["type"] == "DELETED" else at_work.add)(name)
            assert len(at_work) <= 1, f"two pods of one task at once: {sorted(at_work)}"

    def pods(self) -> dict[str, JSON]:
        """Each pod that a Job made, by name, as it was last seen; the first one first."""
        return {event["object"]["metadata"]["name"]: event["object"] for event in self.of_jobs()}


@contextmanager
def witness(kubectl: Kubectl, folder: Path) -> Iterator[Witness]:
    """Watch the pods of this namespace meanwhile."""
    file = folder / "pods"
    command = [*kubectl.command, f"--namespace={kubectl.namespace}", "get", "pods"]
    with (
        file.open("w") as out,
        subprocess.Popen([*command, "--watch", "--output-watch-events", "-o", "json"], stdout=out) as process,
    ):
        try:
            yield Witness(file)
            assert process.poll() is None, "the watch has ended: what it saw proves nothing"
        finally:
            process.terminate()


def _next_object(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
