"""Let random sequences of the greedy rules look for a placement that costs less.

    python -m tools.fuzz placement --seeds 200 --sequences 200
    python -m tools.fuzz placement --minutes 10 --first 5000

`tests/support/placement_checks.py` says what must hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from qdialect.plugins.mlir.write import module_text
from tests.support.placement_checks import compared, placement_program


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every program that fails, as text; 1 if one does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=100, help="how many programs (default: 100)")
    parser.add_argument("--minutes", type=float, help="as many programs as fit instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--ops", type=int, default=12, help="ops per program (default: 12)")
    parser.add_argument("--sequences", type=int, default=200, help="per program (default: 200)")
    options = parser.parse_args(arguments)
    until = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    last = sys.maxsize if options.minutes else options.first + options.seeds
    programs = moved = failures = 0
    for seed in range(options.first, last):
        one = compared(seed, options.ops, options.sequences)
        programs, moved = programs + 1, moved + (one.placed < one.before)
        if one.failures:
            failures += 1
            print(one, ", ".join(one.failures))
            print(module_text(*placement_program(seed, options.ops)), flush=True)
        if time.monotonic() > until:
            break
    print(f"{programs} programs, {moved} placed better than before, {failures} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
