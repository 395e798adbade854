"""The recorder hears of every event, whatever becomes of its connections; and says so where it did not."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history import recorder, recording
from tests.history.recorder import JOBS, KINDS, PODS, TASKS, NoAnswer, Watch, record
from tests.history.slim import JSON

FAKE = """
import json, os, pathlib, signal, sys
folder, path = pathlib.Path(sys.argv[1]), sys.argv[-1]
kind = "watch" if "watch=1" in path else "list"
with (folder / "asked").open("a") as file:
    print(path, file=file)
for number in range(100):
    try:
        (folder / f"{kind}-{number}").rename(folder / f"{kind}-{number}-told")
        answer = json.loads((folder / f"{kind}-{number}-told").read_text())
        break
    except FileNotFoundError:
        continue
else:
    signal.pause()
sys.stdout.write(answer["out"])
sys.stdout.flush()
sys.stderr.write(answer["error"])
if answer["stays"]:
    signal.pause()
sys.exit(1 if answer["error"] else 0)
"""
"""A kubectl that has its answers in files. Without any more of them it waits, as one does whose watch is quiet."""


class Server:
    """What the API server will say, in this order: to lists, and to watches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers = {"list": 0, "watch": 0}
        (folder / "kubectl.py").write_text(FAKE)
        self.kubectl = (sys.executable, str(folder / "kubectl.py"), str(folder))

    def lists(self, version: int, *objects: JSON, more: str = "") -> None:
        metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
        self._answer("list", json.dumps({"metadata": metadata, "items": objects}))

    def tells(self, *events: JSON, cut: str = "", error: str = "", stays: bool = False) -> None:
        """One connection: these events, perhaps part of another, and then it ends, or stays."""
        self._answer("watch", "".join(json.dumps(each) + "\n" for each in events) + cut, error, stays)

    def fails(self, kind: str, error: str = "connection refused") -> None:
        self._answer(kind, "", error)

    def asked(self) -> list[str]:
        return (self._folder / "asked").read_text().splitlines()

    def _answer(self, kind: str, out: str, error: str = "", stays: bool = False) -> None:
        answer = json.dumps({"out": out, "error": error, "stays": stays})
        (self._folder / f"{kind}-{self._answers[kind]}").write_text(answer)
        self._answers[kind] += 1


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(recorder, "PAUSE", 0.01)
    monkeypatch.setattr(recorder, "LONGEST_PAUSE", 0.01)
    return Server(tmp_path)


def thing(name: str, version: int) -> JSON:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def event(word: str, name: str, version: int) -> JSON:
    return {"type": word, "object": thing(name, version)}


def gone() -> JSON:
    return {"type": "ERROR", "object": {"kind": "Status", "code": 410}}


def heard(server: Server, count: int, kind: recorder.Kind = TASKS) -> list[tuple[str, str, int]]:
    """The first so many that a watch tells: the type, whose it is, and its version."""
    told: list[JSON] = []
    with Watch(server.kubectl, told.append, kind=kind):
        eventually(lambda: len(told) >= count)
    return [
        (each["type"], each["object"]["metadata"]["name"], int(each["object"]["metadata"]["resourceVersion"]))
        for each in told
    ]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def versions_asked(server: Server) -> list[str]:
    """From which version each watch was asked for."""
    return [path.split("resourceVersion=")[1] for path in server.asked() if "watch=1" in path]


def test_a_connection_that_ends_is_taken_up_where_it_was(server: Server) -> None:
    server.lists(5, thing("old", 3))
    server.tells(event("ADDED", "a", 6))
    server.fails("watch")
    server.tells(event("MODIFIED", "a", 8), event("BOOKMARK", "", 11))
    server.tells(event("DELETED", "a", 12), stays=True)
    assert heard(server, 5) == [
        ("START", "", 5),
        ("LISTED", "old", 3),
        ("ADDED", "a", 6),
        ("MODIFIED", "a", 8),
        ("DELETED", "a", 12),
    ]
    assert versions_asked(server) == ["5", "6", "6", "11"]


def test_what_was_cut_off_comes_again(server: Server) -> None:
    server.lists(5)
    server.tells(event("ADDED", "a", 6), cut='{"type": "MODIFIED", "obj')
    server.tells(event("MODIFIED", "a", 7), stays=True)
    assert heard(server, 3)[1:] == [("ADDED", "a", 6), ("MODIFIED", "a", 7)]


@pytest.mark.parametrize(
    "tell",
    [
        pytest.param(lambda server: server.tells(gone()), id="in the watch"),
        pytest.param(
            lambda server: server.fails("watch", "too old resource version: 6 (40)"), id="before it"
        ),
    ],
)
def test_where_it_cannot_be_taken_up_there_is_a_gap_and_all_is_listed_anew(
    server: Server, tell: Callable[[Server], None]
) -> None:
    """An API server that was restarted does not know what it told before."""
    server.lists(5)
    server.tells(event("ADDED", "a", 6))
    tell(server)
    server.fails("list")
    tell(server)
    server.lists(50, thing("b", 45))
    server.tells(event("MODIFIED", "b", 51), stays=True)
    assert heard(server, 5)[1:] == [
        ("ADDED", "a", 6),
        ("GAP", "", 50),
        ("LISTED", "b", 45),
        ("MODIFIED", "b", 51),
    ]
    assert versions_asked(server) == ["5", "6", "6", "50"]


def test_a_gap_says_since_when(server: Server) -> None:
    server.lists(5)
    server.tells(event("ADDED", "a", 6), gone())
    server.lists(50, thing("a", 6))
    told: list[JSON] = []
    with Watch(server.kubectl, told.append):
        eventually(lambda: len(told) == 4)
    assert [(each["since"], each["type"]) for each in told if "since" in each] == [(0, "START"), (6, "GAP")]
    assert [each["version"] for each in told if each["type"] == "LISTED"] == [50], "known as of the listing"


def test_an_error_that_passes_leaves_no_gap(server: Server) -> None:
    server.lists(5)
    server.tells({"type": "ERROR", "object": {"kind": "Status", "code": 500}})
    server.tells(event("ADDED", "a", 6), stays=True)
    assert heard(server, 2) == [("START", "", 5), ("ADDED", "a", 6)]


def test_a_long_list_comes_in_pages(server: Server) -> None:
    server.lists(5, thing("a", 1), more="there")
    server.lists(5, thing("b", 2))
    assert heard(server, 3, PODS) == [("START", "", 5), ("LISTED", "a", 1), ("LISTED", "b", 2)]
    first, second = (path for path in server.asked() if "limit=" in path)
    assert first == "/api/v1/pods?labelSelector=taskyard.dev/task-uid&limit=500"
    assert second == f"{first}&continue=there"


def test_it_ends_when_all_that_happened_is_told(server: Server) -> None:
    server.lists(5)
    server.tells(event("ADDED", "a", 6), event("ADDED", "b", 9), stays=True)
    server.lists(20, thing("a", 6), thing("b", 9))
    told: list[JSON] = []
    with Watch(server.kubectl, told.append) as watch:
        watch.settle()
    assert [each["type"] for each in told] == ["START", "ADDED", "ADDED", "END"]
    assert told[-1]["since"] == 20, "nothing newer was there"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda server: server.fails("list"), id="no answer"),
        pytest.param(lambda server: server.lists(20, thing("b", 9)), id="something that is never told"),
    ],
)
def test_where_that_is_not_known_it_ends_with_its_last_event(
    server: Server, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Server], None]
) -> None:
    monkeypatch.setattr(recorder, "SETTLED_WITHIN", 0.1)
    server.lists(5)
    server.tells(event("ADDED", "a", 6), stays=True)
    answer(server)
    told: list[JSON] = []
    with Watch(server.kubectl, told.append) as watch:
        eventually(lambda: len(told) == 2)
        watch.settle()
    assert (told[-1]["type"], told[-1]["since"]) == ("END", 6)


def test_a_recorder_that_failed_says_so(server: Server) -> None:
    """Half a recording proves nothing."""

    def take(event: JSON) -> None:
        if event["type"] == "ADDED":
            raise OSError("no space left")

    server.lists(5)
    server.tells(event("ADDED", "a", 6), stays=True)
    with pytest.raises(OSError, match="no space left"), Watch(server.kubectl, take) as watch:
        eventually(lambda: not watch.is_alive)


def test_without_a_cluster_there_is_no_recording(server: Server) -> None:
    server.fails("list")
    with pytest.raises(NoAnswer, match="connection refused"), Watch(server.kubectl, print):
        pass


def test_parts_of_the_tests_are_added_to_one_recording(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "recording"
    for part in ("cluster", "faults"):
        for version in (5, 6, 7, 8, 8, 8):
            server.lists(version)
        with record(server.kubectl, file, part):
            pass
    lines = recording.load(file)
    for part in ("cluster", "faults"):
        told = [(line["type"], line["kind"]) for line in lines if line["part"] == part]
        assert told == [(word, kind.name) for word in ("START", "END") for kind in KINDS]
    assert len({line["session"] for line in lines}) == 2
    lists = [path.split("limit")[0] for path in server.asked() if "limit=" in path][:3]
    assert lists == [f"{kind.path(None)}?{kind.query}" for kind in (TASKS, JOBS, PODS)]
