"""Every rule of every pass on the programs of its families: what it may change, and what it does.

Families (`tests/passes/families_*.py`) are programs on which a rule fires or refuses: all
codes of functions of one operand, all pairs of two, samples of contractions, over a grid of
scales and zero points.  Each program is then put on extreme grids (`extreme_grids.py`): denormal,
huge and equal scales, scales far apart, zero points at the ends; and the target is another.

    python -m tools.fuzz contracts                      # everything
    python -m tools.fuzz contracts --rules combine-down --most 200
    python -m tools.fuzz contracts --document docs/reference/contract-proofs.md
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from contract_judge import judge, judge_extreme
from extreme_grids import extremes_of
from families import FAMILIES, Family
from rewrite_support import EXECUTED

from qdialect.algebra.contract import Numerics
from qdialect.ir.context import new_context
from qdialect.targets.installed import get_target
from tests.support.program_checks import TARGETS
from tests.support.tables import put

LEVELS = [str(level) for level in Numerics]


def prove(family: Family, most: int | None, extremes: int | None, seed: int = 0) -> list[str]:
    """Run a family: at most `most` of its programs, and `extremes` of them on other grids
    (None: all); what is wrong."""
    draw, wrong, ctx = Random(f"{seed} {family.pipeline} {family.rules}"), [], new_context()
    programs = list(family.generate())
    for program in programs if most is None else draw.sample(programs, min(most, len(programs))):
        ctx.remarks.remarks.clear()
        try:
            judge(program, family, ctx)
        except Exception as error:
            wrong.append(_told(family, "as given", error))
    others = [(p, *made) for p in programs for made in extremes_of(p.text)]
    if extremes is not None:
        others = draw.sample(others, min(extremes, len(others)))
    for program, name, text in others:
        ctx.remarks.remarks.clear()
        # Targets round in their own ways.
        target = draw.choice(TARGETS)
        ctx.target = get_target(target)
        try:
            found = judge_extreme(text, program, family, ctx)
        except Exception as error:
            wrong.append(_told(family, f"{name}, {target}", error, text))
            continue
        for rule in family.rules:
            outcome = "unjudged" if found is None else "quiet"
            if found is None or all(remark.rule != rule for remark in found):
                EXECUTED.setdefault(rule, Counter())[outcome] += 1
    return wrong


def _told(family: Family, grid: str, error: Exception, text: str = "") -> str:
    where = f"{family.pipeline} {family.generate.__name__}, {grid}"
    told = str(error).strip()
    return f"{where}: {type(error).__name__}: {told}" + ("" if text in told else f"\n{text}")


def table(rules: Sequence[str], wrong: int) -> str:
    """What was executed, as a table."""
    rows = [
        "| rule | programs | on extreme grids | refused there | elements | differing | "
        + "contracts that fired |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    total: Counter[str] = Counter()
    for rule in rules:
        counts = EXECUTED.get(rule, Counter())
        differing = counts["differ"] + counts["differ in f32"]
        levels = ", ".join(f"{level} {counts[level]:,}" for level in LEVELS if counts[level])
        rows.append(
            f"| `{rule}` | {counts['programs']:,} | {counts['extreme']:,} | {counts['quiet']:,} | "
            f"{counts['elements']:,} | {differing:,} | {levels} |"
        )
        total += counts
    rows.append(
        f"| all | {total['programs']:,} | {total['extreme']:,} | {total['quiet']:,} | "
        f"{total['elements']:,} | {total['differ'] + total['differ in f32']:,} | |"
    )
    rows += ["", f"{len(rules)} rules; {wrong} programs on which a contract did not hold."]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """The table; 1 if a contract does not hold."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--rules", nargs="+", help="only families of these")
    parser.add_argument("--most", type=int, help="programs of a family (default: all)")
    parser.add_argument("--extremes", type=int, help="programs on extreme grids (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    chosen = [f for f in FAMILIES if not options.rules or set(f.rules) & set(options.rules)]
    wrong: list[str] = []
    for family in chosen:
        began = time.monotonic()
        found = prove(family, options.most, options.extremes, options.seed)
        wrong += found
        for text in found:
            print(text, file=sys.stderr)
        if sys.stderr.isatty() or found:
            seconds = time.monotonic() - began
            told = f"{family.generate.__name__}: {seconds:.1f} s, {len(found)} wrong"
            print(told, file=sys.stderr, flush=True)
    rules = sorted({rule for family in chosen for rule in family.rules})
    print(table(rules, len(wrong)))
    if options.json is not None:
        held = {"executed": {r: EXECUTED.get(r, Counter()) for r in rules}, "wrong": wrong}
        options.json.write_text(json.dumps(held, indent=1) + "\n")
    if options.document is not None:
        put(options.document, "contract_proofs", table(rules, len(wrong)))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
