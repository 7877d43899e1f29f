"""fold-affine: what floats decide, and what it leaves for the next run."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from families_other import CHAINS, chains
from rewrite_support import apply, evaluate, fired, parse

from qdialect.algebra.float_path import near_tie
from qdialect.algebra.requantize import QuantGrid
from qdialect.ir.context import new_context
from qdialect.pipeline.manager import PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text
from qdialect.rewrite.summary import summarize


def after(text: str, pipeline: str) -> str:
    ctx = new_context()
    module = read_module(text, ctx)
    PassManager(ctx, PassRegistry().build(parse_pipeline(pipeline))).run(module)
    return module_text(module, ctx)


def division(a: float, by: float, b: float) -> str:
    x, d, y = (f"!quant.uniform<u8:f32, {scale!r}:128>" for scale in (a, by, b))
    return (
        f"func.func @f(%x: tensor<4x{x}>) -> tensor<4x{y}> {{\n"
        f"  %d = nn.constant dense<-127> : tensor<i8> : tensor<{d}>\n"
        f"  %0 = nn.div %x, %d : (tensor<4x{x}>, tensor<{d}>) -> tensor<4x{y}>\n"
        f"  return %0 : tensor<4x{y}>\n}}\n"
    )


@pytest.mark.parametrize(
    ("scales", "exact"),
    [
        # 5/6 of a step, up to the rounding of the scales: every third code is a tie that
        # float division and float multiplication by the folded scale decide differently.
        ((0.24803149700164795, 6.0, 0.04960630089044571), False),
        ((0.11574803292751312, 6.0, 0.023149605840444565), False),
        # Ties that floats compute without rounding.
        ((0.25, 2.0, 0.25), True),
        # No ties.
        ((0.1, 6.0, 0.013), True),
    ],
)
def test_ties_in_floats(scales: tuple[float, float, float], exact: bool) -> None:
    text = division(*scales)
    assert ("nn.div" not in after(text, "fold-affine{numerics=exact}")) is exact
    assert "nn.div" not in after(text, "fold-affine{numerics=ties}")


@pytest.mark.parametrize(
    ("value", "computed", "near"),
    [
        (Fraction(5, 2), (), True),
        (Fraction(5, 2), (Fraction(5, 2),), False),
        (Fraction(5, 2), (Fraction(1, 3),), True),
        (Fraction(5, 2) + Fraction(1, 1 << 22), (), True),
        (Fraction(5, 2) - Fraction(1, 1 << 18), (), False),
        (Fraction(2), (), False),
        (Fraction(601, 2), (), False),
    ],
)
def test_near_tie(value: Fraction, computed: tuple[Fraction, ...], near: bool) -> None:
    assert near_tie([value], QuantGrid(1.0, 0, -128, 127), "f32", computed) is near


def test_a_channel_without_a_function() -> None:
    """The root of a negative variance, not in the first channel."""
    x, y = (f"tensor<4x2x!quant.uniform<i8:f32, {scale}>>" for scale in (0.5, 2.0))
    numbers = "".join(
        f"  %{name} = nn.constant dense<[{a}, {b}]> : tensor<2xf32> : tensor<2xf32>\n"
        for name, a, b in (("s", 1.0, 3.0), ("b", 0.25, -1.0), ("m", 0.0, 0.0), ("v", 4.0, -4.0))
    )
    operands = ", ".join(["tensor<2xf32>"] * 4)
    module, ctx = parse(
        f"func.func @f(%x: {x}) -> {y} {{\n{numbers}"
        f"  %0 = nn.batch_norm %x, %s, %b, %m, %v epsilon 0.0 : ({x}, {operands}) -> {y}\n"
        f"  return %0 : {y}\n}}\n"
    )
    apply(module, ctx, "fold-affine{numerics=relaxed}")
    (remark,) = ctx.remarks.remarks
    assert remark.reason == "it is not defined for all constants"


@pytest.mark.parametrize("storage", ["i8", "u8"])
def test_the_constant_has_the_storage_of_the_operand(storage: str) -> None:
    zero = 0 if storage == "i8" else 128
    x, y = (f"!quant.uniform<{storage}:f32, {scale}:{zero}>" for scale in (0.03, 0.01))
    text = (
        f"func.func @f(%x: tensor<4x{x}>) -> tensor<4x{y}> {{\n"
        "  %c = nn.constant dense<7> : tensor<i8> : tensor<!quant.uniform<i8:f32, 0.05>>\n"
        f"  %0 = nn.sub %x, %c : (tensor<4x{x}>, tensor<!quant.uniform<i8:f32, 0.05>>)"
        f" -> tensor<4x{y}>\n"
        f"  return %0 : tensor<4x{y}>\n}}\n"
    )
    once = after(text, "fold-affine")
    assert "nn.add" in once
    if storage == "u8":
        assert "quant.uniform<i8" not in once
        assert after(once, "reencode-storage,fold-affine") == once


def test_bounds_of_chains() -> None:
    """Two or three links at `bounded`: no result is further off than is told."""
    bounded = 0
    for n, program in enumerate(chains([chain for chain in CHAINS if len(chain) > 1])):
        if n % 4:
            continue
        module, ctx = parse(program.text)
        before = evaluate(module, ctx, program.inputs)
        done = fired(apply(module, ctx, "fold-affine{numerics=bounded}"))
        bounded += any(remark.contract.startswith("bounded") for remark in done)
        (bound,) = summarize(ctx, module)
        (old,), (new,) = before, evaluate(module, ctx, program.inputs)
        far = np.abs(old.astype(int) - new.astype(int)).max()
        assert far <= bound.steps < np.inf, program.text
    assert bounded > 5
