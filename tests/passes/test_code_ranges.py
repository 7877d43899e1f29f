"""Integer ranges: what the interpreter computes lies in them; how tight they are."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import families_casts  # noqa: F401
import families_combine  # noqa: F401
import families_fold  # noqa: F401
import families_integerize  # noqa: F401
import families_move  # noqa: F401
import families_other  # noqa: F401
import numpy as np
import pytest
from families import FAMILIES, Family
from random_graphs import random_graph
from rewrite_support import EXECUTED, KEPT, Program, parse
from xdsl.ir import Operation

from qdialect.algebra.ranges import Interval
from qdialect.analysis import ranges
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.ranges import CodeRanges
from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext, new_context
from tests.generators.programs import random_program
from tests.generators.sized import GRAPHS

CTX = new_context()


def check(program: Program, ctx: QContext, module: Operation, floats: str = "ieee") -> int:
    """Run a program; every value lies in its interval. How many intervals say something."""
    found = CodeRanges(ctx)
    telling = 0

    def listen(op: Operation, results: object) -> None:
        nonlocal telling
        for value, array in zip(op.results, results, strict=True):
            interval, params = found.of(value), qparams_of(value)
            if interval is None or array.size == 0 or (params and not is_integer(params)):
                continue
            low, high = array.min().item(), array.max().item()
            assert interval.low <= low, (op.name, interval, low, program.text)
            assert high <= interval.high, (op.name, interval, high, program.text)
            telling += params is None or not Interval(*params.storage.full_range).inside(interval)

    given = [
        x.astype(np.float64) if floats == "real" and x.dtype.kind == "f" else x
        for x in program.inputs
    ]
    Interpreter(ctx, module, floats=floats, listeners=[listen], functions=KEPT).run(given)
    return telling


@pytest.mark.parametrize("floats", ["ieee", "real"])
def test_random_programs_stay_inside(floats: str) -> None:
    telling = 0
    for seed in range(150):
        program = random_graph(seed)
        module, ctx = parse(program.text, CTX)
        telling += check(program, ctx, module, floats)
    assert telling > 750


@pytest.mark.parametrize(
    "family",
    FAMILIES,
    ids=lambda f: f"{f.pipeline.partition('{')[0]}:{'+'.join(f.rules)}:{f.generate.__name__}",
)
def test_families_stay_inside(family: Family) -> None:
    for program in islice(family.generate(), 0, None, 7):
        try:
            module, ctx = parse(program.text, CTX)
        except InputError:
            continue
        check(program, ctx, module)
        EXECUTED.setdefault("(ranges)", Counter())["programs"] += 1


@pytest.mark.parametrize("part", range(3))
def test_sums_that_reach_past_both_ends_are_as_found_exactly(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = [random_program(seed, 14, wild=False) for seed in range(part * 60, part * 60 + 60)]
    modules += [(graph(60, "quantized"), new_context()) for graph in GRAPHS.values()]
    told = 0
    plainly = ranges.passes

    def counted(*args: Any) -> bool:
        nonlocal told
        found = plainly(*args)
        told += found
        return found

    def intervals() -> list[Interval | None]:
        return [
            found.of(result)
            for module, ctx in modules
            for found in [CodeRanges(ctx)]
            for op in module.walk()
            for result in op.results
        ]

    monkeypatch.setattr(ranges, "passes", counted)
    quick = intervals()
    monkeypatch.setattr(ranges, "passes", lambda *args: False)
    assert quick == intervals()
    assert told > 30
