"""Every pass on random programs, judged by the interpreter and its own contract.

    python -m tools.fuzz programs --minutes 10 --jobs 2
    python -m tools.fuzz programs --seeds 100 --first 4000 --passes fold-rescale

`tests/support/program_checks.py` says what must hold.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from qdialect.engines.table import ENGINES
from qdialect.ir.context import new_context
from qdialect.passes import PASSES
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from tests.support.program_checks import CHECKS, NOT_FUNCTIONS, Tally, fuzz_seed


def _job(arguments: tuple) -> Tally:
    return fuzz_seed(*arguments)


def fuzz(
    seeds: Iterator[int],
    jobs: int,
    until: float,
    arguments: tuple,
    watch: Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    total, began = Tally(), time.monotonic()
    given = ((seed, *arguments) for seed in seeds)
    if jobs == 1:
        found: Iterator[Tally] = map(_job, given)
        pool = None
    else:
        pool = multiprocessing.get_context("spawn").Pool(jobs)
        found = pool.imap_unordered(_job, _until(given, until), chunksize=4)
    for one in found:
        total.add(one)
        total.seconds = time.monotonic() - began
        watch(total)
        if time.monotonic() > until:
            break
    if pool is not None:
        pool.terminate()
    return total


def _until(items: Iterator[tuple], until: float) -> Iterator[tuple]:
    for item in items:
        if time.monotonic() > until:
            return
        yield item


def all_rules() -> list[str]:
    """The names of the rules of the passes that are run here."""
    names: set[str] = set()
    for name in PASSES:
        if name in NOT_FUNCTIONS:
            continue
        ((_, instance),) = PassRegistry().build(parse_pipeline(name))
        rules = getattr(instance, "rules", None)
        if rules is not None:
            names.update(rule.name for rule in rules(new_context()))
    return sorted(names)


def main(arguments: Sequence[str] | None = None) -> int:
    """What was run and what failed; 1 if anything did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=200, help="how many programs")
    parser.add_argument("--minutes", type=float, help="as many as fit instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--ops", type=int, default=12)
    parser.add_argument("--passes", nargs="+", choices=PASSES, help="only these")
    parser.add_argument("--count", type=int, default=6, help="passes per program")
    parser.add_argument("--checks", nargs="+", choices=CHECKS, default=CHECKS)
    parser.add_argument(
        "--orders",
        type=int,
        default=0,
        help="instead: so many random orders of passes and levels per program, judged by what is "
        "claimed of each output",
    )
    parser.add_argument("--mild", action="store_true", help="scales and types of real networks")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[], help="compare with")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for reduced programs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    until = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    last = sys.maxsize if options.minutes else options.first + options.seeds

    wild = not options.mild

    def watch(tally: Tally) -> None:
        if sys.stderr.isatty():
            rate = 60 * tally.programs / max(tally.seconds, 1e-9)
            sys.stderr.write(f"\r{tally.programs} programs, {rate:.0f} per minute ")

    total = fuzz(
        iter(range(options.first, last)), options.jobs, until,
        (options.ops, options.passes, options.count,
         ["numerics"] if options.orders else options.checks, options.keep, wild, options.engines,
         options.orders),
        watch,
    )  # fmt: skip
    report(total)
    if options.json is not None:
        options.json.write_text(json.dumps(total.as_json(), indent=1) + "\n")
    return int(bool(total.failures))


def report(total: Tally) -> None:
    rate = 60 * total.programs / max(total.seconds, 1e-9)
    rules = all_rules()
    fired = [rule for rule in rules if total.fired[rule]]
    print(f"{total.programs} programs, {rate:.0f} per minute, {total.runs} runs of passes")
    print(f"{total.compared} results compared, {total.refused} refused as a whole")
    print("claimed: " + ", ".join(f"{kind} {n}" for kind, n in sorted(total.claimed.items())))
    print(f"{len(fired)} of {len(rules)} rules fired, {sum(total.fired.values())} times")
    for engine, count in total.in_engines.items():
        print(f"{count} results compared with {engine}")
    print("never: " + ", ".join(rule for rule in rules if not total.fired[rule]))
    print(f"{len(total.failures)} failures")
    for failure in total.failures:
        print("  " + " ".join(f"{k}={v}" for k, v in failure.items() if v))


if __name__ == "__main__":
    sys.exit(main())
