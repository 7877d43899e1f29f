"""LiteRT's integer kernels as the lowering knows them, beside those of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.algebra.requantize import QuantGrid
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.tflite.numerics import rescale as litert

CODES = np.arange(-128, 128).astype(np.int8)


def _uniform(a: QuantGrid) -> str:
    return f"!quant.uniform<i8:f32, {a.scale!r}:{a.zero}>"


def _grid(scale: float, zero: int) -> QuantGrid:
    return QuantGrid(float(np.float32(scale)), zero, -128, 127)


def _run(text: str, *codes: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    ctx = new_context()
    module = read_module(text, ctx)
    (found,) = Interpreter(ctx, module).run(list(codes))
    return np.asarray(found).astype(np.int64)


GRIDS = [
    (_grid(0.05, 3), _grid(0.031, -7), _grid(0.07, -20)),
    (_grid(0.5, 3), _grid(0.25, 0), _grid(0.5, 5)),
    (_grid(0.0371, -128), _grid(0.9, 12), _grid(0.41, 1)),
]


@pytest.mark.parametrize(("a", "b", "c"), GRIDS)
@pytest.mark.parametrize(("op", "sign"), [("add", 1), ("sub", -1)])
def test_sums_of_all_pairs(a: QuantGrid, b: QuantGrid, c: QuantGrid, op: str, sign: int) -> None:
    shape = "256x256x"
    x, y, z = (f"tensor<{s}{_uniform(g)}>" for s, g in (("256x1x", a), ("1x256x", b), (shape, c)))
    text = (
        f"func.func @main(%x: {x}, %y: {y}) -> {z} {{\n"
        f'  %0 = nn.{op} %x, %y {{nn.kernel = "litert-xnn"}} : ({x}, {y}) -> {z}\n'
        f"  return %0 : {z}\n}}\n"
    )
    wanted = _run(text, CODES.reshape(256, 1), CODES.reshape(1, 256))
    made = litert.added(a, b, c, sign)
    assert made is not None
    assert np.array_equal(made, wanted)


@pytest.mark.parametrize(("a", "b", "c"), GRIDS)
def test_rescales_of_all_codes(a: QuantGrid, b: QuantGrid, c: QuantGrid) -> None:
    for source, target in ((a, b), (b, c), (a, c)):
        x, y = (f"tensor<256x{_uniform(g)}>" for g in (source, target))
        multiplier = int(np.rint(256 * float(np.float32(source.scale) / np.float32(target.scale))))
        text = (
            f"func.func @main(%x: {x}) -> {y} {{\n"
            f"  %0 = quant.rescale %x rounding half_up multiplier [{multiplier}] shift [8]"
            f" : {x} to {y}\n"
            f"  return %0 : {y}\n}}\n"
        )
        made = litert.quantized_again(source, target)
        assert made is not None
        assert np.array_equal(made, _run(text, CODES))


@pytest.mark.parametrize("count", [1, 6, 16])
def test_means_of_sums(count: int) -> None:
    a, b = _grid(0.05, 3), _grid(0.031, -7)
    x, y = f"tensor<40x{count}x{_uniform(a)}>", f"tensor<40x1x{_uniform(b)}>"
    text = (
        f"func.func @main(%x: {x}) -> {y} {{\n"
        f'  %0 = nn.reduce_mean %x axes [1] {{nn.kernel = "litert-xnn"}} : ({x}) -> {y}\n'
        f"  return %0 : {y}\n}}\n"
    )
    codes = np.random.default_rng(count).integers(-128, 128, (40, count)).astype(np.int8)
    made, _ = litert.reduced(a, b, count, True)
    sums = codes.sum(axis=1, dtype=np.int64)
    assert np.array_equal(made[sums - count * a.low], _run(text, codes).reshape(-1))


def test_a_factor_that_gives_all_codes_or_none() -> None:
    a, b = _grid(0.05, 3), _grid(0.031, -7)
    meant = litert.multiplied(a, float(np.nextafter(np.float32(1), np.float32(2))), b)
    factor = litert.exact_factor(a, b, meant)
    assert factor is not None
    assert np.array_equal(litert.multiplied(a, factor, b), meant)
    assert litert.exact_factor(a, b, meant[::-1].copy()) is None
