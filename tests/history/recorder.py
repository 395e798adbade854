"""Raw watches that outlive their connections: every event from their start on, none left out.

An API server ends a watch after some minutes, at once when the CRD changes, and when it is restarted itself. A watch is
taken up again from the last event or bookmark; where that is no longer possible, the gap itself becomes an event, and a
listing of all that is there follows it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from taskyard.core.manifest import LABEL_UID
from tests.history.slim import JOB, JSON, POD, TASK, slim

PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 4.0
"""Seconds, doubled from the first one as long as there is no answer: kubectl is not cheap to start."""

SETTLED_WITHIN: Final = 20.0
ANSWERED_WITHIN: Final = 30
PAGE: Final = 500

DEEPEST_RECURSION: Final = 40_000
"""JSON of the API server may have 10,000 levels, and some Task of the tests has half of them."""


@dataclass(frozen=True)
class Kind:
    """What to watch: all of a kind, or those that have a label."""

    name: str
    api: str
    plural: str
    label: str | None = None

    def path(self, namespace: str | None) -> str:
        return (
            f"{self.api}/namespaces/{namespace}/{self.plural}" if namespace else f"{self.api}/{self.plural}"
        )

    @property
    def query(self) -> str:
        return f"labelSelector={self.label}&" if self.label else ""


TASKS: Final = Kind(TASK, "/apis/taskyard.dev/v1alpha1", "tasks")
JOBS: Final = Kind(JOB, "/apis/batch/v1", "jobs", LABEL_UID)
PODS: Final = Kind(POD, "/api/v1", "pods", LABEL_UID)
KINDS: Final = (TASKS, JOBS, PODS)


class NoAnswer(Exception):  # noqa: N818 - errors are named for what they say
    """The API server did not answer, or not with what was asked for."""


class Watch:
    """Hands every event of one kind, of one namespace or of all, to `take`; in a thread of its own.

    Beside the events of the API server there are `START`, `GAP` and `END`, each with the version up to which (`since`)
    and from which on (`version`) everything is known; and `LISTED`, after the first two, of everything there is.
    """

    def __init__(
        self,
        kubectl: Sequence[str],
        take: Callable[[JSON], None],
        namespace: str | None = None,
        kind: Kind = TASKS,
    ) -> None:
        self._kubectl = tuple(kubectl)
        self._take = take
        self._path = kind.path(namespace)
        self._query = kind.query
        self._version = 0
        self._over = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, name=f"watch of {kind.plural}", daemon=True)

    def __enter__(self) -> Self:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST_RECURSION))
        self._begin_anew("START")
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

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def settle(self) -> None:
        """Wait until all that has happened so far is told; then `END` says up to which version that is."""
        try:
            objects, version = self._list()
        except NoAnswer:
            objects, version = [], self._version
        newest = max((int(each["metadata"]["resourceVersion"]) for each in objects), default=0)
        deadline = time.monotonic() + SETTLED_WITHIN
        while self._version < newest and time.monotonic() < deadline and self.is_alive:
            time.sleep(0.05)
        known = version if self._version >= newest else self._version
        self._take(_marker("END", known, known))

    def _follow(self) -> None:
        pause = 0.0
        try:
            while not self._over.wait(pause):
                before = self._version
                try:
                    if not self._listen():
                        self._begin_anew("GAP")
                except NoAnswer:
                    pass  # it comes back
                is_alive = self._version > before
                pause = PAUSE if is_alive else min(max(2 * pause, PAUSE), LONGEST_PAUSE)
        except BaseException as exc:  # told at the end: a recording that stopped half-way proves nothing
            self._failure = exc

    def _listen(self) -> bool:
        """One connection, from where the last one ended, as long as it lasts; false if that is too long ago."""
        query = f"{self._query}watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
        command = [*self._kubectl, "get", "--raw", f"{self._path}?{query}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as self._process:
            try:
                return self._over.is_set() or self._hear(self._process)
            finally:
                self._process.terminate()

    def _hear(self, connection: subprocess.Popen[str]) -> bool:
        assert connection.stdout is not None
        assert connection.stderr is not None
        for line in connection.stdout:
            if not line.endswith("\n"):
                break  # cut off in the middle; it comes again
            event: JSON = json.loads(line)
            if event["type"] == "ERROR":
                return bool(event["object"].get("code") != 410)
            if event["type"] != "BOOKMARK":
                self._take(event)
            self._version = int(event["object"]["metadata"]["resourceVersion"])
        return "too old resource version" not in connection.stderr.read()

    def _begin_anew(self, why: str) -> None:
        """What happened since the last event is not known; what there is now can be."""
        objects, version = self._list()
        self._take(_marker(why, self._version, version))
        for each in objects:
            self._take({"type": "LISTED", "object": each, "version": version})
        self._version = version

    def _list(self) -> tuple[list[JSON], int]:
        """Everything there is at one version, page by page."""
        page = self._page("")
        objects: list[JSON] = page["items"]
        while more := page["metadata"].get("continue"):
            page = self._page(f"&continue={more}")
            objects += page["items"]
        return objects, int(page["metadata"]["resourceVersion"])

    def _page(self, more: str) -> JSON:
        path = f"{self._path}?{self._query}limit={PAGE}{more}"
        command = [*self._kubectl, "get", f"--request-timeout={ANSWERED_WITHIN}s", "--raw", path]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode != 0:
            raise NoAnswer(answer.stderr)
        page: JSON = json.loads(answer.stdout)
        return page


def _marker(word: str, since: int, version: int) -> JSON:
    """Something that is told of the watch itself, in the shape of an event."""
    return {"type": word, "since": since, "object": {"metadata": {"name": "", "resourceVersion": version}}}


@contextmanager
def record(
    kubectl: Sequence[str], file: Path, part: str, namespace: str | None = None
) -> Iterator[tuple[Watch, ...]]:
    """Watches of all Tasks and of all Jobs and pods that are theirs, added to a file, one line of JSON an event.

    Several recordings may be in one file, one after the other or at the same time, of one cluster or of several:
    each line says which one it belongs to, and that one says what was going on.
    """
    session = f"{part}-{uuid.uuid4().hex[:8]}"
    with (
        file.open("ab", buffering=0) as lines,
        ExitStack() as watches,
    ):  # a line is one write: they do not mix

        def taker(kind: Kind) -> Callable[[JSON], None]:
            def take(event: JSON) -> None:
                line = {"session": session, "part": part} | slim(kind.name, event)
                lines.write(json.dumps(line).encode() + b"\n")

            return take

        all_of_them = tuple(
            watches.enter_context(Watch(kubectl, taker(kind), namespace, kind)) for kind in KINDS
        )
        yield all_of_them
        for watch in all_of_them:
            watch.settle()
