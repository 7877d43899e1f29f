"""Quantizing by the reciprocal of a scale: the definitions, and PyTorch's codes bit for bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr, TensorType, f16, f32, f64
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra import arithmetic
from qdialect.algebra.fixed_point import FixedPoint, apply
from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.quantize import quantize_floats, rescale_codes
from qdialect.algebra.requantize import QuantGrid, codes_of, round_fraction
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import survives_float
from qdialect.interpreter import Interpreter, evaluate_op
from qdialect.ir.context import new_context
from qdialect.ir.quant import ROUNDING_KEY, DCastOp, QCastOp, RescaleOp, UniformType
from qdialect.ir.quant.strict import QuantChecker
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text

CONTEXT = new_context()
RECIPROCAL = Rounding.RECIPROCAL
TYPES = {"f16": f16, "f32": f32, "f64": f64}
COUNT = 2000


def interpreted(x: np.ndarray[Any, Any], q: QParams) -> np.ndarray[Any, Any]:
    value = create_ssa_value(TensorType(TYPES[q.expressed], x.shape))
    op = QCastOp(value, TensorType(UniformType(q), x.shape))
    op.attributes[ROUNDING_KEY] = StringAttr("reciprocal")
    return evaluate_op(op, [x], CONTEXT)[0]


def halves(random: np.random.Generator, scale: float, codes: int = 130) -> np.ndarray[Any, Any]:
    """Half-way points of a scale, and their neighbours."""
    x = ((random.integers(-codes, codes, COUNT) + 0.5) * scale).astype(np.float32)
    return (x.view(np.int32) + random.integers(-1, 2, COUNT, np.int32)).view(np.float32)


def scales(random: np.random.Generator) -> list[float]:
    """As doubles, and as f32 are; quantizers write both."""
    found = np.exp(random.uniform(-8, 3, 200))
    return [float(np.float32(s)) if n % 2 else float(s) for n, s in enumerate(found)]


# -- against PyTorch ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("torch", reason="torch is not installed: its codes are compared")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated modules, as they are imported
        import torch
        import torch.ao.quantization.fx._decomposed
    return torch


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int8", -128, 127), ("int8", -127, 127), ("uint8", 0, 15)]
)
def test_half_way_points_per_tensor(torch: Any, dtype: str, low: int, high: int) -> None:
    ops, random = torch.ops.quantized_decomposed, np.random.default_rng(7)
    divided = compared = 0
    for scale in scales(random):
        zero = int(random.integers(low, high + 1))
        x = halves(random, scale, codes=min(130, 2 * high))
        given, kind = torch.from_numpy(x), getattr(torch, dtype)
        q = QParams.per_tensor(Storage.of(dtype.replace("nt", ""), low, high), scale, zero)
        found = interpreted(x, q)
        theirs = ops.quantize_per_tensor(given, scale, zero, low, high, kind).numpy()
        np.testing.assert_array_equal(found, theirs)
        np.testing.assert_array_equal(quantize_floats(x, q, RECIPROCAL), theirs)
        tensors = torch.tensor(scale, dtype=torch.float64), torch.tensor(zero)
        theirs = ops.quantize_per_tensor.tensor(given, *tensors, low, high, kind).numpy()
        np.testing.assert_array_equal(found, theirs)
        divided += np.count_nonzero(quantize_floats(x, q, Rounding.HALF_EVEN) != theirs)
        compared += x.size
    assert compared == 400_000 and divided > 1000


def test_half_way_points_per_channel_and_of_fake_quantizes(torch: Any) -> None:
    ops, random = torch.ops.quantized_decomposed, np.random.default_rng(8)
    single = [float(np.float32(s)) for s in scales(random)]
    x = np.stack([halves(random, s) for s in single])
    zeros = random.integers(-100, 100, len(single)).tolist()
    q = QParams.per_axis("i8", 0, single, zeros)
    found = interpreted(x, q)
    np.testing.assert_array_equal(quantize_floats(x, q, RECIPROCAL), found)
    given = torch.from_numpy(x), torch.tensor(single), torch.tensor(zeros)
    theirs = ops.quantize_per_channel(*given, 0, -128, 127, torch.int8).numpy()
    np.testing.assert_array_equal(found, theirs)

    kind = TensorType(UniformType(q), x.shape)
    op = DCastOp(create_ssa_value(kind), TensorType(f32, x.shape))
    back = evaluate_op(op, [found], CONTEXT)[0]
    fake = torch.fake_quantize_per_channel_affine(*given[:2], given[2].int(), 0, -128, 127)
    np.testing.assert_array_equal(back, fake.numpy())
    for row, scale, zero, expected in zip(x, single, zeros, back, strict=True):
        fake = torch.fake_quantize_per_tensor_affine(torch.from_numpy(row), scale, zero, -128, 127)
        np.testing.assert_array_equal(fake.numpy(), expected)


def test_what_is_no_number_or_too_large(torch: Any) -> None:
    """The same but for NaN, and at the upper end of 32 bits, where PyTorch's cast wraps."""
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9], np.float32)
    quantize = torch.ops.quantized_decomposed.quantize_per_tensor
    for dtype, storage in (("int8", "i8"), ("uint8", "u8"), ("int16", "i16"), ("int32", "i32")):
        q = QParams.per_tensor(storage, 1.0, 5)
        low, high = q.storage.min, q.storage.max
        kind = getattr(torch, dtype)
        theirs = quantize(torch.from_numpy(x), 1.0, 5, low, high, kind).tolist()
        ours = [low, high, low, high, low]
        assert interpreted(x, q).tolist() == ours
        assert theirs == ([0, *ours[1:]] if storage != "i32" else [low] * 5)


# -- definitions -------------------------------------------------------------------------


@pytest.mark.parametrize("expressed", TYPES)
def test_the_product_in_the_type_that_is_computed_in(expressed: str) -> None:
    random = np.random.default_rng(9)
    kind: Any = np.float64 if expressed == "f64" else np.float32
    for scale in (0.1, 0.3, 1 / 255, 2.0**-9, 1.5):
        x = ((random.integers(-140, 140, 500) + 0.5) * scale).astype(f"f{int(expressed[1:]) // 8}")
        q = QParams.per_tensor("u8", scale, 130, expressed)
        factor = kind(1.0 / scale)
        expected = [round(float(kind(v) * factor)) + 130 for v in x]
        assert interpreted(x, q).tolist() == np.clip(expected, 0, 255).tolist()
        assert quantize_floats(x, q, RECIPROCAL).tolist() == np.clip(expected, 0, 255).tolist()


def test_exact_numbers_round_half_to_even() -> None:
    for n in range(-9, 10):
        for d in (1, 2, 3, 4):
            value = Fraction(n, d)
            assert round_fraction(value, RECIPROCAL) == round(value)
    pair, steps = FixedPoint(3, 2), np.arange(-50, 50)
    even = apply(steps, pair, Rounding.HALF_EVEN)
    np.testing.assert_array_equal(apply(steps, pair, RECIPROCAL), even)
    a, b = QuantGrid(0.1, 3, -128, 127), QuantGrid(0.3, 0, -128, 127)
    even = arithmetic.table(a, b, Rounding.HALF_EVEN, None)
    np.testing.assert_array_equal(arithmetic.table(a, b, RECIPROCAL, None), even)


def test_rescales_of_a_module_in_floats() -> None:
    """Folded constants and tables are what the interpreter gives."""
    differ = 0
    for a, b in [(0.05, 0.7), (0.1, 0.3), (0.02, 0.11), (0.3, 0.12), (0.05, 0.1)]:
        source, result = QParams.per_tensor("i8", a, 3), QParams.per_tensor("i8", b, -5)
        kinds = [f"tensor<256x!quant.uniform<i8:f32, {s!r}:{z}>>" for s, z in ((a, 3), (b, -5))]
        module = read_module(
            'module attributes {quant.arithmetic = "expressed"} {\n'
            f"func.func @main(%x: {kinds[0]}) -> {kinds[1]} {{\n"
            f"  %0 = quant.rescale %x rounding reciprocal : {kinds[0]} to {kinds[1]}\n"
            f"  return %0 : {kinds[1]}\n}}}}",
            CONTEXT,
        )
        codes = np.arange(-128, 128).astype(np.int8)
        (found,) = Interpreter(CONTEXT, module).run([codes])
        floats = arithmetic.Arithmetic.EXPRESSED
        folded = rescale_codes(codes, source, result, RECIPROCAL, floats)
        np.testing.assert_array_equal(folded, found)
        grids = [QuantGrid(q.scale, q.zero_point, -128, 127) for q in (source, result)]
        table = arithmetic.table(grids[0], grids[1], RECIPROCAL, "f32")
        np.testing.assert_array_equal(table, found)
        differ += np.count_nonzero(arithmetic.table(*grids, Rounding.HALF_EVEN, "f32") != table)
    assert differ


@pytest.mark.parametrize("scale", [0.1, 0.7, 1.9999998, 1.0000001, 3e-7])
def test_codes_survive_floats(scale: float) -> None:
    """quantize(dequantize(q)) = q as far as `survives_float` says, and not much further."""

    def comes_back(bits: int, rounding: Rounding) -> bool:
        a = QuantGrid(scale, 0, -(1 << bits) + 1, (1 << bits) - 1)
        codes = np.concatenate([codes_of(a)[:4096], codes_of(a)[-4096:]])
        return bool((arithmetic.requantized(codes, a, a, rounding, "f32") == codes).all())

    def claimed(bits: int, rounding: Rounding) -> bool:
        storage = Storage.of("i32", -(1 << bits) + 1, (1 << bits) - 1)
        return survives_float(QParams.per_tensor(storage, scale, 0), rounding)

    for bits in range(16, 22):
        assert claimed(bits, RECIPROCAL) and comes_back(bits, RECIPROCAL)
    assert not claimed(22, RECIPROCAL) and claimed(22, Rounding.HALF_EVEN)


# -- where it is legal -------------------------------------------------------------------


def test_text_says_it() -> None:
    x, y = "!quant.uniform<i8:f32, 1.000000e-01>", "!quant.uniform<i8:f32, 3.000000e-01>"
    text = (
        "func.func @main(%arg0: tensor<4xf32>) -> "
        f"tensor<4x{y}> {{\n"
        '  %0 = quant.qcast %arg0 {quant.rounding = "reciprocal"} : '
        f"tensor<4xf32> to tensor<4x{x}>\n"
        f"  %1 = quant.rescale %0 rounding reciprocal : tensor<4x{x}> to tensor<4x{y}>\n"
        f"  func.return %1 : tensor<4x{y}>\n}}\n"
    )
    module = read_module(text, CONTEXT)
    verify_module(module, CONTEXT)
    again = module_text(module, CONTEXT)
    assert '{quant.rounding = "reciprocal"}' in again and "rounding reciprocal" in again
    assert module_text(read_module(again, CONTEXT), CONTEXT) == again


def test_a_multiplier_has_no_reciprocal() -> None:
    kind: Attribute = TensorType(UniformType(QParams.per_tensor("i8", 0.5)), (4,))
    with pytest.raises(VerifyException, match="rounding reciprocal is of scales"):
        RescaleOp(create_ssa_value(kind), kind, RECIPROCAL, [1 << 30], [31]).verify()


@pytest.mark.parametrize(
    ("kind", "storage", "reason"),
    [
        (DCastOp, "i8", "where floats are quantized only"),
        (QCastOp, "f8E4M3FN", "of integer storage"),
        (QCastOp, "i8", ""),
    ],
)
def test_casts_that_may_say_it(kind: Any, storage: str, reason: str) -> None:
    quantized = TensorType(UniformType(QParams.per_tensor(storage, 0.5)), (4,))
    types = [TensorType(f32, (4,)), quantized]
    source, result = types if kind is QCastOp else types[::-1]
    op = kind(create_ssa_value(source), result)
    op.attributes[ROUNDING_KEY] = StringAttr("reciprocal")
    found = QuantChecker(strict=True).strict_error(op)
    assert (reason in found) if found and reason else (found is None and not reason)
