"""Random histories of pods, clocks, crashes, conflicts and users: whatever happens, what is promised holds.

What must hold is in `simulation/witness.py` (of every write) and `simulation/rest.py` (whenever nothing is left to
do). A history that breaks it is printed from its beginning, with the seed that tells it again.
"""

import json
import random
from statistics import median

import pytest

from taskyard.core.transitions import TRANSITIONS
from tests.unit.simulation import batch, history
from tests.unit.simulation.schema import complaints, status_schema

LEAST = 100
"""How often every edge of the state machine is taken."""


def test_whatever_happens_what_is_promised_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """Thousands more: `make simulate`."""
    tally = batch.until_every_edge(LEAST, each_theme=10, processes=2)
    with capsys.disabled():
        print(f"\n{batch.table(tally)}")
    assert tally.failed is None, "\n" + batch.told(tally.failed)
    assert median(tally.steps) >= 30
    assert {edge: number for edge in TRANSITIONS if (number := tally.edges[edge]) < LEAST} == {}


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_seed_is_the_same_history(seed: int) -> None:
    random.seed(1)
    first = history.run(seed)
    random.seed(2)
    assert history.run(seed) == first


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        pytest.param({"state": "Lost"}, "status.state must be one of", id="a state that there is not"),
        pytest.param({"colour": "red"}, "status.colour is unknown", id="an unknown field"),
        pytest.param({"runs": [{}]}, "status.runs[0].number is required", id="a field that must be there"),
        pytest.param({"message": "x" * 5000}, "status.message has 5000", id="a text that is too long"),
        pytest.param({"attempt": -1}, "status.attempt is out of bounds", id="a number below the least"),
        pytest.param({"attempt": True}, "status.attempt must be of type", id="not a number"),
        pytest.param({"reason": "no word"}, "status.reason does not match", id="a reason of two words"),
    ],
)
def test_the_simulation_knows_what_the_api_server_refuses(status: dict[str, object], complaint: str) -> None:
    found = list(complaints(json.loads(json.dumps(status)), status_schema(), "status"))
    assert len(found) == 1
    assert found[0].startswith(complaint)
