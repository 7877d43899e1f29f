"""No false "clean": what computes on codes and gives floats is always reported."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from families import GRID, quant
from random_graphs import random_graph
from rewrite_support import Program, apply, parse, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.boundary import CODES, find_boundaries
from qdialect.ir.context import QContext
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, quant_element


def comes_from_codes(value: SSAValue, ctx: QContext) -> bool:
    """By walking up, op by op: only movements and comparisons above, then codes."""
    if quant_element(value.type) is not None:
        return True
    owner = value.owner
    if isinstance(owner, DCastOp):
        return True
    behavior = ctx.behaviors.get(owner) if isinstance(owner, Operation) else None
    if behavior is None or not behavior.commutes or not isinstance(owner, Operation):
        return False
    return all(comes_from_codes(v, ctx) for v in owner.operands)


def must_be_named(op: Operation, ctx: QContext) -> bool:
    if isinstance(op, DCastOp | QCastOp | SCastOp | RescaleOp) or not op.results:
        return False
    behavior = ctx.behaviors.get(op)
    if behavior is not None and behavior.movement is not None:
        return False
    floats = any(quant_element(result.type) is None for result in op.results)
    return floats and any(comes_from_codes(v, ctx) for v in op.operands)


def named(module: ModuleOp, ctx: QContext) -> set[Operation]:
    findings = find_boundaries(module, ctx)
    return {op for f in findings for op in (f.op, *f.region)}


@pytest.mark.parametrize("pipeline", ["dce", "integerize", "move-casts", "type-accumulators"])
def test_everything_float_on_codes_is_named(pipeline: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        module, ctx = parse(random_graph(seed).text)
        apply(module, ctx, pipeline)
        seen.update(f.code for f in find_boundaries(module, ctx))
        missing = {op for op in module.walk() if must_be_named(op, ctx)} - named(module, ctx)
        assert not missing, f"graph {seed}: {[str(op) for op in missing]}\n{module}"
    assert seen["B1"] or seen["B2"]
    assert set(seen) <= set(CODES)


def test_two_runs_agree_and_the_order_is_that_of_the_text() -> None:
    for seed in range(10):
        module, ctx = parse(random_graph(seed).text)
        first, second = (find_boundaries(module, ctx) for _ in range(2))
        assert first == second
        order = {op: n for n, op in enumerate(module.walk())}
        places = [order[f.op] for f in first]
        assert places == sorted(places)


def dequantized(p: Program, q: str, shape: tuple[int, ...]) -> str:
    x = p.argument(tensor(shape, q), np.zeros(0))
    return p.op(f"quant.dcast {x}", tensor(shape, q), tensor(shape, "f32"))


def test_costs() -> None:
    p = Program("costs")
    x = dequantized(p, quant("i8", 0.5), (3, 4))
    y = dequantized(p, quant("i8", 0.25), (4, 2))
    z = p.nn(f"matmul {x}, {y}", ["tensor<3x4xf32>", "tensor<4x2xf32>"], "tensor<3x2xf32>")
    module, ctx = parse(p.returns(z, "tensor<3x2xf32>").text)
    (found,) = find_boundaries(module, ctx)
    assert (found.code, found.flops, found.bytes) == ("B1", 2 * 4 * 6, 4 * 6)
    apply(module, ctx, "type-accumulators")
    assert [f.code for f in find_boundaries(module, ctx)] == ["B7"]


def test_a_clean_graph_is_clean() -> None:
    p = Program("clean")
    kinds = [tensor((4,), q) for q in GRID[:2]]
    x = p.argument(kinds[0], np.zeros(0))
    x = p.op(f"quant.rescale {x}", *kinds)
    x = p.nn(f"mul {x}, {x}", [kinds[1]] * 2, kinds[0])
    module, ctx = parse(p.returns(x, kinds[0]).text)
    assert find_boundaries(module, ctx) == []
