"""Run every pass and the pipelines of every target twice: the second run must change nothing.

    python -m tools.fuzz twice --seeds 2000 --jobs 2
    python -m tools.fuzz twice --seeds 0                  # the inputs of the lit tests only

A pass that says it is idempotent and never changed a program is an error.
"""

# pyright: basic
from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from functools import partial

from qdialect.passes import PASSES
from tests.support.twice import Seen, on_lit_tests, on_program, uncovered


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a second run changed something, or a pass that is marked was not covered."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=2000, help="how many random programs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ops", type=int, default=12, help="ops of a program")
    parser.add_argument("--count", type=int, help="passes per program; default: all")
    parser.add_argument("--pipelines", type=int, default=1, help="targets per program")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    total, began = Seen(), time.monotonic()
    for one in on_lit_tests():
        total.add(one)
        _print_failures(one)
    work = partial(on_program, ops=options.ops, count=options.count, pipelines=options.pipelines)
    seeds = range(options.first, options.first + options.seeds)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for one in pool.imap_unordered(work, seeds, chunksize=2):
            total.add(one)
            _print_failures(one)
            if time.monotonic() - began > 60 * options.minutes:
                pool.terminate()
                break
    report(total, time.monotonic() - began)
    return int(bool(total.failures or uncovered(total)))


def report(total: Seen, seconds: float) -> None:
    print(f"{total.programs} random programs, {total.runs} pairs of runs, {seconds:.0f} s")
    print(f"{len(total.changed)} of {len(PASSES)} passes changed a program and then nothing")
    print("never: " + ", ".join(name for name in PASSES if not total.changed[name]))
    for name in uncovered(total):
        print(f"ERROR: '{name}' says it is idempotent, and no program shows it")
    print(f"{len(total.failures)} failures")


def _print_failures(seen: Seen) -> None:
    for failure in seen.failures:
        print("  " + " ".join(f"{k}={v}" for k, v in failure.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
