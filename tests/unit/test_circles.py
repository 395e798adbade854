"""Circles of tasks that wait for each other: all are found, each once, and by work that grows with the graph only."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.core import circles


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        pytest.param({"a": "b", "b": ""}, [], id="a chain"),
        pytest.param({"a": "bc", "b": "d", "c": "d", "d": ""}, [], id="two ways to the same"),
        pytest.param({"a": "a"}, [], id="itself is a hold, not a circle"),
        pytest.param({"a": "b", "b": "a"}, ["ab"], id="two"),
        pytest.param({"a": "xb", "b": "c", "c": "a", "x": ""}, ["abc"], id="three, and a way out of them"),
        pytest.param({"a": "b", "b": "c", "c": "b"}, ["bc"], id="others that it waits for"),
        pytest.param({"a": "ab", "b": "a"}, ["ab"], id="a circle beside a hold"),
        pytest.param({"a": "bc", "b": "a", "c": "a"}, ["abc"], id="two that share one"),
        pytest.param({"a": "b", "d": "b", "c": "ad", "b": "c"}, ["abcd"], id="two that share a way"),
        pytest.param({"a": "b", "b": "ac", "c": "d", "d": "c"}, ["ab", "cd"], id="one behind another"),
        pytest.param({"a": "", "b": "c", "c": "b"}, [], id="one that cannot be reached"),
    ],
)
def test_circles_are_found(edges: dict[str, str], expected: list[str]) -> None:
    found = list(circles.find("a", lambda name: edges[name]))
    assert sorted("".join(sorted(each.members)) for each in found) == expected


@pytest.mark.parametrize(
    ("size", "member", "told"),
    [
        pytest.param(2, "0", ("0", "1", "0"), id="two"),
        pytest.param(3, "1", ("1", "2", "0", "1"), id="three: each tells it from its own place"),
        pytest.param(8, "7", ("7", "0", "1", "2", "3", "4", "5", "6", "7"), id="eight are named"),
        pytest.param(9, "4", ("4", "5", "6", "7", 2, "1", "2", "3", "4"), id="of more, some are left out"),
        pytest.param(9, "7", ("7", "8", 4, "4", "5", "6", "7"), id="beyond the hub it goes on from the end"),
        pytest.param(9, "8", ("8", 5, "5", "6", "7", "8"), id="as the hub does"),
        pytest.param(5000, "7", ("7", "8", "9", "10", 4993, "4", "5", "6", "7"), id="thousands"),
    ],
)
def test_a_circle_is_told_by_each_in_one_sentence(
    size: int, member: str, told: tuple[str | int, ...]
) -> None:
    [found] = circles.find(["0"], lambda name: [str((int(name) + 1) % size)])
    named = found.told_by(member)
    assert named == told
    assert sum(each if isinstance(each, int) else 1 for each in named) == size + 1


@given(st.dictionaries(st.integers(0, 9), st.frozensets(st.integers(0, 9)), max_size=10))
def test_all_that_lead_to_each_other_are_in_one(graph: dict[int, frozenset[int]]) -> None:
    edges = {str(name): [str(each) for each in sorted(others)] for name, others in graph.items()}

    def reached(name: str) -> set[str]:
        seen, ahead = set[str](), [name]
        while ahead:
            for other in edges.get(ahead.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    ahead.append(other)
        return seen

    found = list(circles.find(edges, lambda name: edges.get(name, ())))
    among = {member: circle for circle in found for member in circle.members}
    for name in edges:
        expected = {other for other in reached(name) - {name} if name in reached(other)}
        assert set(among[name].members if name in among else ()) == (expected | {name} if expected else set())
    for name, circle in among.items():
        way = circle.told_by(name)
        assert way[0] == way[-1] == name
        assert len(way) > 2
        steps = [(one, other) for one, other in pairwise(way) if isinstance(one, str)]
        assert all(not isinstance(other, str) or other in edges[one] for one, other in steps)


def test_nobody_is_looked_at_more_than_twice_however_many_there_are() -> None:
    """A ring of thousands, with all of them as starts; and so many layers, each of which waits for all of the last."""
    looks = Counter[str]()

    def ring(name: str) -> list[str]:
        looks[name] += 1
        return [str((int(name) + 1) % 5000)]

    def layers(name: str) -> list[str]:
        looks[name] += 1
        layer, _, _ = name.partition("-")
        return [f"{int(layer) - 1}-{each}" for each in range(16)] if int(layer) else []

    [found] = circles.find(map(str, range(5000)), ring)
    assert len(found.told_by("77")) == 9
    assert len(looks) == 5000
    assert max(looks.values()) == 2
    looks.clear()
    starts = [f"{layer}-{each}" for layer in range(100) for each in range(16)]
    assert list(circles.find(starts, layers)) == []
    assert set(looks.values()) == {1}
