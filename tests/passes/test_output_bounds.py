"""What rewrites add up to at each result: the interpreter never goes further."""

from __future__ import annotations

import json
from collections import Counter
from math import inf, isfinite

import numpy as np
import pytest
from random_graphs import random_graph
from rewrite_support import Program, apply, evaluate, fired, parse, quant, tensor

from qdialect.passes.pipelines import optimize_pipeline
from qdialect.rewrite.remarks import RemarkLog
from qdialect.rewrite.summary import summarize

PIPELINES = [
    "combine-rescale{numerics=bounded}",
    "fold-rescale{numerics=bounded},combine-rescale{numerics=bounded},sink-rescale,cse",
    "sink-rescale,combine-rescale{numerics=bounded},hoist-rescale,fold-rescale{numerics=bounded}",
    optimize_pipeline("generic", "bounded"),
    "fold-rescale{numerics=bounded},place-rescales{numerics=bounded},sink-rescale",
]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_bounds_are_kept(pipeline: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(200):
        program = random_graph(seed)
        module, ctx = parse(program.text)
        before = evaluate(module, ctx, program.inputs, "real")
        done = fired(apply(module, ctx, pipeline))
        after = evaluate(module, ctx, program.inputs, "real")
        bounds = summarize(ctx, module)
        assert len(bounds) == len(before)
        for a, b, bound in zip(before, after, bounds, strict=True):
            far = abs(a.astype(float) - b.astype(float)).max(initial=0)
            allowed = bound.real if a.dtype.kind == "f" else bound.steps
            # A table is of real numbers; float64 makes sigmoid(1e-28) a tie, which it is not.
            if a.dtype.kind != "f" and any(r.rule == "chain-to-table" for r in done):
                allowed += 1
            told = f"graph {seed}: {bound} but {far}\n{[(r.rule, r.contract) for r in done]}"
            assert far <= allowed * (1 + 1e-9) + (1e-5 if allowed else 0), told
            seen["moved"] += bool(far)
            seen["exact"] += bound.real == 0
            seen["finite" if isfinite(bound.real) else "open"] += bound.real > 0
            assert not bound.real or bound.causes
            assert isfinite(bound.real) or bound.blocked or bound.contract != "bounded"
    print(pipeline[:30], dict(seen))
    assert seen["finite"] > 4 * seen["open"]
    assert seen["finite"] > 20 and seen["moved"] > 3


def chain(tail: str = "") -> Program:
    """A middle rounding that goes, and what is below it."""
    a, b, c = quant("i8", 0.5), quant("i8", 0.75), quant("i16", 0.5)
    p = Program("chain")
    x = p.argument(tensor((4,), a), None)  # type: ignore[arg-type]
    y = p.op(f"quant.rescale {x}", tensor((4,), a), tensor((4,), b))
    z = p.nn(f"add {y}, {x}", [tensor((4,), b), tensor((4,), a)], tensor((4,), c))
    w = p.nn(f"relu {z}", [tensor((4,), c)], tensor((4,), c))
    p.returns(w, tensor((4,), c))
    return p.returns(x, tensor((4,), a))


def test_a_bound_reaches_the_result_it_concerns() -> None:
    module, ctx = parse(chain().text)
    apply(module, ctx, "combine-rescale{numerics=bounded}")
    moved, same = summarize(ctx, module)
    assert (moved.contract, [c.rule for c in moved.causes]) == ("bounded", ["combine-down"])
    assert moved.steps == pytest.approx(1.75)
    assert (same.contract, same.real, same.causes) == ("exact", 0.0, [])
    assert str(moved) == "@main result #0: bounded, at most 1.75 steps off after 1 rewrites"
    log = json.loads(RemarkLog(ctx.remarks.remarks, [moved, same]).to_json())
    assert log["outputs"][0]["steps"] == moved.steps
    assert log["outputs"][0]["causes"][0]["rule"] == "combine-down"


UNKNOWN = """
!a = tensor<4x!quant.uniform<i8:f32, 0.5>>
!b = tensor<4x!quant.uniform<i8:f32, 0.75>>
!c = tensor<4x!quant.uniform<i16:f32, 0.5>>
func.func @main(%x: !a) -> !c {
  %0 = quant.rescale %x : !a to !b
  %1 = nn.add %0, %x : (!b, !a) -> !c
  %2 = "vendor.op"(%1) {nn.key = "odd"} : (!c) -> !c
  func.return %2 : !c
}
"""


def test_an_unknown_op_is_named() -> None:
    from qdialect.context import new_context

    module, ctx = parse(UNKNOWN, new_context(allow_unregistered=True))
    apply(module, ctx, "combine-rescale{numerics=bounded}")
    (bound,) = summarize(ctx, module)
    assert bound.steps == inf and bound.contract == "bounded"
    assert len(bound.blocked) == 1 and "(odd)" in bound.blocked[0]
    assert "no bound" in str(bound)


def test_bounds_survive_later_rewrites() -> None:
    """What combine-down did to a value is still known when its op has been rewritten."""
    text = chain().text
    module, ctx = parse(text)
    apply(module, ctx, "combine-rescale{numerics=bounded}")
    before = summarize(ctx, module)[0]
    apply(module, ctx, "canonicalize,cse,dce")
    after = summarize(ctx, module)[0]
    assert (after.steps, after.contract) == (before.steps, before.contract)


def test_a_bound_outlives_the_cast_at_the_end() -> None:
    """What a value may be off is not forgotten where the interface gives its codes."""
    text = """
!a = tensor<2x!quant.uniform<i8:f32, 0.5>>
!b = tensor<2x!quant.uniform<i8:f32, 2.0>>
func.func @main(%x: !a) -> tensor<2xf32> {
  %0 = quant.dcast %x : !a to tensor<2xf32>
  %1 = quant.qcast %0 : tensor<2xf32> to !b
  %2 = quant.dcast %1 : !b to tensor<2xf32>
  func.return %2 : tensor<2xf32>
}
"""
    module, ctx = parse(text)
    apply(module, ctx, "fold-rescale{numerics=relaxed},fold-interface")
    (bound,) = summarize(ctx, module)
    assert bound.real > 0


BELOW_AND_ABOVE = """
!x = tensor<256x!quant.uniform<i8:f32, {0}>>
!v = tensor<256x!quant.uniform<i8:f32, {1}>>
!y = tensor<256x!quant.uniform<i8:f32, {2}>>
!z = tensor<256x!quant.uniform<{3}>>
!w = tensor<256x!quant.uniform<{4}>>
func.func @main(%x: !x, %v: !v) -> !w {{
  %r = quant.rescale %x : !x to !y
  %s = nn.{5} %v, {6} : (!v, !y) -> !z
  %t = quant.rescale %s : !z to !w
  return %t : !w
}}
"""
SCALES = ("0.3:6", "0.1:1", "0.5:1", "0.25", "0.7:-4", "0.05:3")
RESULTS = ("i16:f32, 0.7:4", "i16:f32, 0.7:3", "i8:f32, 0.5:4", "i16:f32, 0.5:3", "i16:f32, 0.2")


@pytest.mark.parametrize("level", ["bounded", "saturation"])
def test_a_rescale_from_above_and_one_from_below(level: str) -> None:
    """What either port of an op takes counts where both do, in the steps it was proved in."""
    rng = np.random.default_rng(1)
    seen: Counter[str] = Counter()
    for number in range(60):
        qparams = [*rng.choice(SCALES, 3), *rng.choice(RESULTS, 2)]
        body = [*qparams, *(("add", "%r") if number % 2 else ("sub", "%r"))]
        module, ctx = parse(BELOW_AND_ABOVE.format(*body))
        codes = np.arange(-128, 128, dtype=np.int8)
        inputs = [codes, rng.permutation(codes)]
        (before,) = evaluate(module, ctx, inputs, "real")
        done = fired(apply(module, ctx, f"place-rescales{{numerics={level}}}"))
        (after,) = evaluate(module, ctx, inputs, "real")
        (bound,) = summarize(ctx, module)
        far = abs(before.astype(float) - after.astype(float)).max()
        assert far <= bound.steps * (1 + 1e-9), (qparams, bound, far)
        if level == "bounded":
            assert isfinite(bound.steps), qparams
        seen["both"] += {"absorb-down", "absorb-up"} <= {r.rule for r in done}
        seen["moved"] += bool(far)
    assert seen["both"] > 5 and seen["moved"] > 5, seen
