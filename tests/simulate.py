"""`make simulate`: random histories of a cluster against the real loop, for as long as there is time.

`python -m tests.simulate --seed N` tells one history from its beginning; the same seed is the same history.
"""

import argparse
import os
import sys
import time

from tests.unit.simulation import batch, history
from tests.unit.simulation.themes import THEMES

QUICK = 3
"""Histories of every theme."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulate", description=__doc__)
    parser.add_argument("--seed", type=int, help="tell this one history")
    parser.add_argument("--first", type=int, help="the first seed of many; else one that depends on the time")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a few histories of every theme, in one process")
    options = parser.parse_args(argv)
    if options.seed is not None:
        outcome = history.run(options.seed)
        print(batch.told(outcome) if outcome.violation is not None else "\n".join(outcome.story))
        return int(outcome.violation is not None)
    if options.quick:
        failed = batch.first_failure(range(QUICK * len(THEMES)))
        print(batch.told(failed) if failed is not None else "nothing went wrong")
        return int(failed is not None)
    first = options.first if options.first is not None else int(time.time()) * 10_000
    print(f"histories from seed {first} on, for {options.seconds:.0f} s", flush=True)
    tally = batch.for_some_time(first, options.seconds, os.cpu_count() or 1)
    print(batch.table(tally))
    if tally.failed is not None:
        print(batch.told(tally.failed))
    return int(tally.failed is not None)


if __name__ == "__main__":
    sys.exit(main())
