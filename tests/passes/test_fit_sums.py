"""fit-sums, judged by simulated accumulators on the activations that are worst for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from rewrite_support import apply, parse

from qdialect.algebra.sums import SumType
from qdialect.analysis.accumulators import products_of, risk, unproven
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.analysis.index import every_op
from qdialect.interpreter import Interpreter
from qdialect.ir.behaviors import Contraction
from qdialect.ir.context import QContext
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.registry import names_of
from qdialect.rewrite import Remark
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel
from tests.generators.programs import random_program
from tests.support.narrow_sums import narrow_kernels

RELAXED = "fit-sums{numerics=relaxed}"
RNG = np.random.default_rng(0)


def target(sums: str, weights: str = "i8 per-axis") -> Target:
    rows = (Kernel(("u8|i8", weights, "i32 per-axis"), ("u8|i8|i32 per-axis",), sums),)
    return Target(
        "npu", "", kernels=dict.fromkeys(("nn.conv2d", "nn.fully_connected", "nn.matmul"), rows)
    )


def text(codes: Any) -> str:
    return f"dense<{np.asarray(codes).tolist()}> : tensor<{'x'.join(map(str, codes.shape))}xi8>"


def dense(depth: int, weights: str, x: str = "u8:f32, 0.5:10", scale: float = 8.0) -> str:
    codes = RNG.integers(-127, 128, (4, depth))
    return f"""
!x = tensor<8x{depth}x!quant.uniform<{x}>>
!w = tensor<4x{depth}x!quant.uniform<{weights}>>
!y = tensor<8x4x!quant.uniform<u8:f32, {scale}:128>>
func.func @f(%x: !x) -> !y {{
  %w = nn.constant {text(codes)} : !w
  %0 = nn.fully_connected %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}}"""


def conv(channels: int, groups: int = 1, x: str = "u8:f32, 0.5:10", scale: float = 8.0) -> str:
    each = channels // groups
    codes = RNG.integers(-127, 128, (6, each, 3, 3))
    return f"""
!x = tensor<2x{channels}x5x5x!quant.uniform<{x}>>
!w = tensor<6x{each}x3x3x!quant.uniform<i8:f32:0, {{0.5, 0.25, 0.125, 0.5, 0.5, 1.0}}>>
!b = tensor<6x!quant.uniform<i32:f32:0, {{0.25, 0.125, 0.0625, 0.25, 0.25, 0.5}}>>
!y = tensor<2x6x5x5x!quant.uniform<u8:f32, {scale}:128>>
func.func @f(%x: !x) -> !y {{
  %w = nn.constant {text(codes)} : !w
  %b = nn.constant dense<[100, -5, 2000, 0, -700, 3]> : tensor<6xi32> : !b
  %0 = nn.conv2d %x, %w, %b pads [1, 1, 1, 1] groups {groups} : (!x, !w, !b) -> !y
  func.return %0 : !y
}}"""


def inputs(ctx: QContext, module: Any) -> Any:
    """Activations that are worst for channels, and random ones."""
    op = next(op for op in every_op(module) if op.name in ctx.target.kernels)
    weights = constant_values(op.operands[1], ctx)
    assert weights is not None
    weights = weights.astype(int)
    params = qparams_of(op.operands[0])
    assert params is not None
    low, high = params.storage.min, params.storage.max
    x = RNG.integers(low, high + 1, shape_of(op.operands[0]))
    if weights.ndim == 2:
        for row in range(4):
            x[2 * row % 8] = np.where(weights[row] > 0, high, low)
            x[(2 * row + 1) % 8] = np.where(weights[row] > 0, low, high)
    else:
        each = weights.shape[1]
        x[0, :each, 1:4, 1:4] = np.where(weights[0] > 0, high, low)
        x[1, :each, 1:4, 1:4] = np.where(weights[0] > 0, low, high)
    return x.astype("i1" if params.storage.signed else "u1")


CASES = {
    "saturating": ("i16 saturating", dense(24, "i8:f32:0, {0.5, 0.25, 0.1, 0.3}", scale=64.0)),
    "wrapping": ("i16", dense(24, "i8:f32:0, {0.5, 0.25, 0.1, 0.3}", scale=64.0)),
    "pairs": ("i32 pairs=i16", dense(7, "i8:f32:0, {0.5, 0.25, 0.1, 0.3}", scale=32.0)),
    "signed pairs": ("i32 pairs=i16", dense(7, "i8:f32, 0.5", "i8:f32, 0.5:-3", 32.0)),
    "per tensor": ("i16 saturating", dense(24, "i8:f32, 0.5", scale=64.0)),
    "conv": ("i18 saturating", conv(12, scale=64.0)),
    "conv pairs": ("i32 pairs=i16", conv(4, scale=64.0)),
    "groups": ("i17 saturating", conv(12, 2, scale=64.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_saturate_before_and_nowhere_after(name: str) -> None:
    sums, program = CASES[name]
    weights = "i8" if name == "per tensor" else "i8 per-axis"
    module, ctx = parse(program)
    ctx.target = target(sums, weights)
    kernels = narrow_kernels(SumType.parse(sums))
    x = [inputs(ctx, module)]
    exact, narrow = (
        Interpreter(ctx, module, functions=f).run(x)[0].astype(int) for f in (None, kernels)
    )
    assert (exact != narrow).any()
    assert risk(module, ctx)
    remarks = apply(module, ctx, RELAXED)
    fired = [remark for remark in remarks if remark.kind == "fired"]
    assert [remark.rule for remark in fired] == ["fit-sums"] and not risk(module, ctx)
    wrong = Counter[str]()
    kernels = narrow_kernels(SumType.parse(sums), wrong)
    after, fits = (
        Interpreter(ctx, module, functions=f).run(x)[0].astype(int) for f in (None, kernels)
    )
    assert (after == fits).all() and not +wrong
    # The network that does not saturate is as near as was said; the one that did was further.
    off = np.abs(after - exact).max()
    assert off <= fired[0].steps < np.inf
    assert np.square(after - exact).mean() < np.square(narrow - exact).mean()
    count = len(ctx.remarks.remarks)
    assert not apply(module, ctx, RELAXED) and len(ctx.remarks.remarks) == count


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_done_at_exact_but_said(name: str) -> None:
    sums, program = CASES[name]
    module, ctx = parse(program)
    ctx.target = target(sums)
    before = str(module)
    remarks: list[Remark] = apply(module, ctx, "fit-sums")
    assert str(module) == before
    assert [remark.kind for remark in remarks] == ["refused", "note"]
    assert remarks[1].reason == f"sums of 1 of 1 convolutions and products may leave {sums}"


def test_what_fits_is_left_alone() -> None:
    for sums, program in CASES.values():
        module, ctx = parse(program)
        ctx.target = target("i32")
        before = str(module)
        assert not apply(module, ctx, RELAXED) and str(module) == before, sums
        assert unproven(list(every_op(module)), ctx)[1] == 1


def test_hardly_a_bit_is_refused() -> None:
    module, ctx = parse(dense(600, "i8:f32:0, {0.5, 0.25, 0.1, 0.3}"))
    ctx.target = target("i14 saturating")
    refused, note = apply(module, ctx, RELAXED)
    assert (refused.kind, refused.code) == ("refused", "overflow") and note.kind == "note"


def test_two_runtime_operands() -> None:
    body = """
!x = tensor<4x{0}x!quant.uniform<u8:f32, 0.5:10>>
!w = tensor<{0}x4x!quant.uniform<i8:f32, 0.5>>
!y = tensor<4x4x!quant.uniform<u8:f32, 64.0:128>>
func.func @f(%x: !x, %w: !w) -> !y {{
  %0 = nn.matmul %x, %w : (!x, !w) -> !y
  func.return %0 : !y
}}"""
    for depth, fits in ((1, True), (200, False)):
        module, ctx = parse(body.format(depth))
        ctx.target = target("i16 saturating")
        op = next(op for op in every_op(module) if op.name == "nn.matmul")
        found = products_of(ctx, op)
        assert found is not None and found.fits is fits
        refused = [r.code for r in apply(module, ctx, RELAXED) if r.kind == "refused"]
        assert refused == ([] if fits else ["runtime"])


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_settle(seed: int) -> None:
    """One run is all there is to do, and what it leaves is said."""
    sums = ("i16 saturating", "i20", "i32 pairs=i16", "i12 saturating")[seed % 4]
    names = names_of(Contraction)
    module, ctx = random_program(seed, 8, names=[*names, "nn.relu", "nn.add"])
    row = Kernel(("*", "* per-axis", "* per-axis"), ("* per-axis",), sums)
    ctx.target = Target("npu", "", kernels=dict.fromkeys(names, (row,)))
    apply(module, ctx, RELAXED)
    once = str(module)
    left = apply(module, ctx, RELAXED)
    assert str(module) == once
    refused = sum(remark.kind == "refused" for remark in left)
    assert refused == len(unproven(list(every_op(module)), ctx)[0])
