"""A raw watch of Tasks that outlives its connections: every event from its start on, none left out.

An API server ends a watch after some minutes, and at once when the CRD changes. It is taken up again from the last
event or bookmark; where that is no longer possible, the gap itself becomes an event.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

JSON = dict[str, Any]

API: Final = "/apis/taskyard.dev/v1alpha1"
GAP: Final[JSON] = {"type": "GAP"}
PAUSE: Final = 0.5
DEEPEST_RECURSION: Final = 40_000
"""JSON of the API server may have 10,000 levels, and some Task of the tests has half of them."""


class Watch:
    """Hands every event of the Tasks, of one namespace or of all, to `take`; in a thread of its own."""

    def __init__(
        self, kubectl: Sequence[str], take: Callable[[JSON], None], namespace: str | None = None
    ) -> None:
        self._kubectl = tuple(kubectl)
        self._take = take
        self._path = f"{API}/namespaces/{namespace}/tasks" if namespace else f"{API}/tasks"
        self._over = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, name="watch of Tasks", daemon=True)

    def __enter__(self) -> Self:
        self._version = self._current_version()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _follow(self) -> None:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST_RECURSION))
        try:
            while not self._over.is_set():
                if not self._listen():
                    self._take(GAP)
                    self._version = self._current_version()
                self._over.wait(PAUSE)
        except BaseException as exc:  # told at the end: a recording that stopped half-way proves nothing
            self._failure = exc

    def _listen(self) -> bool:
        """One connection, from where the last one ended, as long as it lasts; false if that is too long ago."""
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
        command = [*self._kubectl, "get", "--raw", f"{self._path}?{query}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as self._process:
            if self._over.is_set():
                self._process.terminate()
            assert self._process.stdout is not None
            assert self._process.stderr is not None
            for line in self._process.stdout:
                if not line.endswith("\n"):
                    break  # cut off in the middle; it comes again
                event: JSON = json.loads(line)
                if event["type"] == "ERROR":
                    self._process.terminate()
                    return bool(event["object"].get("code") != 410)
                self._version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._take(event)
            return "too old resource version" not in self._process.stderr.read()

    def _current_version(self) -> str:
        command = [*self._kubectl, "get", "--raw", f"{self._path}?limit=1"]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return str(json.loads(answer)["metadata"]["resourceVersion"])


def record(kubectl: Sequence[str], file: Path) -> Watch:
    """A watch of all Tasks that writes what the checker needs of each event as one line of JSON."""
    file.touch()

    def take(event: JSON) -> None:
        with file.open("a") as lines:
            print(json.dumps(slim(event)), file=lines)

    return Watch(kubectl, take)


def slim(event: JSON) -> JSON:
    """An event, less what makes it large: template, input, and who owns which field of the spec."""
    if "object" not in event:
        return event
    metadata, spec = event["object"]["metadata"], event["object"]["spec"]
    writers = [
        each["manager"] for each in metadata.get("managedFields", []) if each.get("subresource") == "status"
    ]
    return {
        "type": event["type"],
        "uid": metadata["uid"],
        "task": f"{metadata['namespace']}/{metadata['name']}",
        "retry": spec["retry"],
        "status": event["object"].get("status", {}),
        "writers": writers,
    }
