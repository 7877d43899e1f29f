"""Float storage and look-up tables against scalar definitions in Fractions."""

from __future__ import annotations

import importlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scalar_oracle import CONTEXT, parameters, run
from xdsl.dialects.builtin import StringAttr, TensorType, f32, f64
from xdsl.dialects.func import FuncOp
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.qparams.parameters import Quantile, pack_f64
from qdialect.algebra.rounding import Rounding
from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter import Evaluation, compare, evaluate_op, random_inputs
from qdialect.interpreter.values import check_input
from qdialect.ir import ops as nn
from qdialect.ir.quant import ROUNDING_KEY, DCastOp, QCastOp, UniformType

FLOATS = {
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f4E2M1FN": "float4_e2m1fn",
}
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]  # fmt: skip


def table(base: str, values: list[float], *bounds: int) -> Storage:
    return Storage.of(base, *bounds, quantile=Quantile("f16", pack_f64(values)))


UNSORTED = [3.0, -1.0, 0.5, 3.0, 2.0, -1.0, 0.1, 7.25]
TABLES = [
    table("ui4", NF4),
    table("i4", NF4),
    table("u3", UNSORTED),
    table("si3", UNSORTED[:5], -2, 2),
    table("i1", [0.25, -0.75]),
    table("u1", [1.0, 1.0]),
    table("f4E2M1FN", NF4[::-1]),
]


def ml_dtype(name: str) -> Any:
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), FLOATS[name]))


def u8(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint8)


def reals(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


def tensor(q: QParams, shape: tuple[int, ...]) -> TensorType[Any]:
    return TensorType(UniformType(q), shape)


def quantize(x: np.ndarray, q: QParams) -> np.ndarray:
    kind = f64 if q.expressed == "f64" else f32
    op = QCastOp(create_ssa_value(TensorType(kind, x.shape)), tensor(q, x.shape))
    return evaluate_op(op, [x], CONTEXT)[0]


def dequantize(stored: np.ndarray, q: QParams) -> np.ndarray:
    kind = f64 if q.expressed == "f64" else f32
    op = DCastOp(create_ssa_value(tensor(q, stored.shape)), TensorType(kind, stored.shape))
    return evaluate_op(op, [stored], CONTEXT)[0]


# -- scalar definitions --------------------------------------------------------


def number(storage: Storage, code: int) -> float:
    """What a code stands for."""
    if storage.quantile is not None:
        return storage.quantile.values()[code if storage.is_float else code - storage.min]
    exponent_bits = {"f8E4M3FN": 4, "f8E5M2": 5, "f4E2M1FN": 2}[storage.keyword]
    mantissa_bits = storage.width - 1 - exponent_bits
    sign = -1.0 if code >> (storage.width - 1) else 1.0
    exponent = code >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = code & (1 << mantissa_bits) - 1
    if storage.keyword == "f8E4M3FN" and code & 0x7F == 0x7F:
        return math.nan
    if storage.keyword == "f8E5M2" and exponent == 31:
        return math.nan if mantissa else sign * math.inf
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (2**mantissa_bits + mantissa) * 2.0 ** (exponent - bias - mantissa_bits)


def all_codes(storage: Storage) -> list[int]:
    if storage.is_float:
        return list(range(1 << storage.width))
    return list(range(storage.min, storage.max + 1))


def nearest(value: Fraction, storage: Storage, negative: bool) -> int:
    """The code to store a real number as."""
    best: list[tuple[Fraction, float, int]] = []
    for code in all_codes(storage):
        v = number(storage, code)
        if not math.isfinite(v):
            continue
        if storage.quantile is None:
            if not storage.min <= v <= storage.max:
                continue
            tie = code % 2
            if v == 0:
                tie += (code != 0) != negative
        else:
            tie = v
        best.append((abs(value - Fraction(v)), tie, code))
    return min(best)[2]


def stored_exactly(reals: np.ndarray, q: QParams) -> np.ndarray:
    """An array of Fractions, quantized."""
    result = np.empty(reals.shape, np.int64)
    for index in np.ndindex(reals.shape):
        scale, zero = parameters(q, index)
        steps = reals[index] / scale + zero
        result[index] = nearest(steps, q.storage, steps < 0)
    return result


def fields(storage: Storage, rng: np.random.Generator, zeros: bool) -> list[QParams]:
    low, high = (-2, 3) if zeros else (0, 1)

    def scales(count: int) -> list[float]:
        return [float(np.float32(s)) for s in rng.uniform(0.01, 3, count)]

    def points(count: int) -> list[int]:
        return [int(z) for z in rng.integers(low, high, count)]

    return [
        QParams.per_tensor(storage, 0.5, points(1)[0]),
        QParams.per_tensor(storage, scales(1)[0], points(1)[0]),
        QParams.per_axis(storage, 1, scales(6), points(6)),
        QParams.blockwise(storage, [(0, 2), (1, 3)], [2, 2], scales(4), points(4)),
    ]


STORAGES = [*map(Storage.of, FLOATS), Storage.of("f8E4M3FN", -101, 3), *TABLES]


@pytest.mark.parametrize("storage", STORAGES, ids=str)
@pytest.mark.parametrize("zeros", [False, True])
def test_casts_of_every_layout(storage: Storage, zeros: bool) -> None:
    rng = np.random.default_rng(11)
    for q in fields(storage, rng, zeros):
        stored = rng.choice(all_codes(storage), (4, 6)).astype(storage_dtype(storage))
        x = dequantize(stored, q)
        spread = 1e4 if storage.quantile is None else 2.0
        y = rng.normal(0, spread, (4, 6)).astype(np.float32)
        y[rng.random((4, 6)) < 0.3] = 0.75
        found = quantize(y, q)
        for index in np.ndindex(4, 6):
            scale, zero = parameters(q, index)
            v = number(storage, int(stored[index]))
            np.testing.assert_equal(x[index], np.float32(v - zero) * np.float32(float(scale)))
            quotient = y[index] / np.float32(float(scale))
            steps = Fraction(float(quotient)) + zero
            assert found[index] == nearest(steps, storage, steps < 0)


def storage_dtype(storage: Storage) -> Any:
    if storage.is_float:
        return np.uint8
    return np.int8 if storage.signed else np.uint8


@pytest.mark.parametrize("base", ["ui4", "i4"])
@pytest.mark.parametrize("scale", [1.0, 0.37, 1e-20])
def test_nf4_codes_come_back(base: str, scale: float) -> None:
    storage = table(base, NF4)
    q = QParams.per_tensor(storage, scale)
    codes = np.arange(storage.min, storage.max + 1).astype(storage_dtype(storage))
    x = dequantize(codes, q)
    np.testing.assert_array_equal(x, reals(NF4) * np.float32(scale))
    np.testing.assert_array_equal(quantize(x, q), codes)
    blocks = QParams.blockwise(storage, [(0, 8)], [2], [scale, 3 * scale])
    np.testing.assert_array_equal(quantize(dequantize(codes, blocks), blocks), codes)


def test_ties_duplicates_and_what_is_no_number_in_a_table() -> None:
    q = QParams.per_tensor(table("u3", UNSORTED), 1.0)
    x = reals([-1, 3, 2.5, 1.25, 100, -100, np.inf, -np.inf, np.nan, 0.3])
    # 2.5 is between 2 and 3, 1.25 between 0.5 and 2; 0.3 is nearer to the double 0.1.
    assert quantize(x, q).tolist() == [1, 0, 4, 2, 7, 1, 7, 1, 1, 2]
    single = QParams.per_tensor(table("u1", [1.0, 1.0]), 1.0)
    assert quantize(reals([-np.inf, 0, np.nan, np.inf]), single).tolist() == [0] * 4


def test_middles_that_are_no_doubles_are_decided_exactly() -> None:
    low, high = 1.0, math.nextafter(1.0, 2.0)
    q = QParams.per_tensor(table("u1", [low, high]), 1.0, expressed="f64")
    assert quantize(np.array([low, high]), q).tolist() == [0, 1]
    third = QParams.per_tensor(table("u1", [0.1, 0.7]), 1.0, expressed="f64")
    middle = float((Fraction(0.1) + Fraction(0.7)) / 2)
    around = np.array([math.nextafter(middle, 0), middle, math.nextafter(middle, 1)])
    expected = stored_exactly(np.array([Fraction(float(v)) for v in around], object), third)
    assert quantize(around, third).tolist() == expected.tolist()


@pytest.mark.parametrize("name", FLOATS)
def test_float_codes_against_ml_dtypes(name: str) -> None:
    dtype = ml_dtype(name)
    q = QParams.per_tensor(name, 1.0)
    codes = np.arange(1 << q.storage.width, dtype=np.uint8)
    means = codes.view(dtype).astype(np.float32)
    np.testing.assert_array_equal(dequantize(codes, q), means)
    signs = np.signbit(means) == np.signbit(dequantize(codes, q))
    assert signs[~np.isnan(means)].all()
    rng = np.random.default_rng(5)
    largest = float(q.storage.max)
    numbers = np.sort(means[np.isfinite(means)])
    x = np.concatenate(
        [
            rng.normal(0, largest / 3, 4000),
            rng.normal(0, 1, 4000) * 2.0 ** rng.integers(-20, 3, 4000),
            numbers[:-1] / 2 + numbers[1:] / 2,
            [0.0, -0.0, largest * 9, -largest * 9, np.inf, -np.inf],
        ]
    ).astype(np.float32)
    clamped = np.clip(x, -largest, largest)
    np.testing.assert_array_equal(quantize(x, q), clamped.astype(dtype).view(np.uint8))


def test_nan_is_kept_where_the_storage_has_one() -> None:
    nan = reals([np.nan, -np.nan])
    for name, code in (("f8E4M3FN", 0x7F), ("f8E5M2", 0x7E), ("f4E2M1FN", 0xF)):
        assert quantize(nan, QParams.per_tensor(name, 0.5)).tolist() == [code] * 2
    assert number(Storage.of("f4E2M1FN"), 0xF) == -6


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2"])
def test_onnx_reference_agrees(name: str) -> None:
    pytest.importorskip("onnx")
    helper, reference = (importlib.import_module(f"onnx.{m}") for m in ("helper", "reference"))
    onnx: Any = importlib.import_module("onnx")
    kind = getattr(onnx.TensorProto, name.replace("f8", "FLOAT8").upper())
    scales = reals([0.5, 0.37, 4.0])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=0),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", 1, [3, 4000]),
            helper.make_tensor_value_info("s", 1, [3]),
        ],
        [helper.make_tensor_value_info(n, t, [3, 4000]) for n, t in (("q", kind), ("y", 1))],
        [helper.make_tensor("z", kind, [3], [0.0] * 3)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    rng = np.random.default_rng(9)
    x = (rng.normal(0, 1, (3, 4000)) * 2.0 ** rng.integers(-18, 18, (3, 4000))).astype(np.float32)
    theirs = reference.ReferenceEvaluator(model).run(None, {"x": x, "s": scales})
    q = QParams.per_axis(name, 0, [float(s) for s in scales])
    codes = quantize(x, q)
    np.testing.assert_array_equal(codes, np.asarray(theirs[0]).view(np.uint8))
    np.testing.assert_array_equal(dequantize(codes, q), theirs[1])


# -- ops -----------------------------------------------------------------------

NF = QParams.per_tensor(table("ui4", NF4), 0.5)
F8 = QParams.per_tensor("f8E4M3FN", 0.25)
F4 = QParams.per_axis("f4E2M1FN", 0, [0.5, 2.0])


@pytest.mark.parametrize("q", [NF, F8, QParams.per_tensor(table("i3", UNSORTED), 1.5, 1)], ids=str)
def test_arithmetic_is_exact_and_stored_once(q: QParams) -> None:
    rng = np.random.default_rng(2)
    codes = [c for c in all_codes(q.storage) if math.isfinite(number(q.storage, c))]
    a, b = (rng.choice(codes, (3, 7)).astype(storage_dtype(q.storage)) for _ in range(2))
    kind = tensor(q, (3, 7))
    found = run(nn.AddOp, [(a, UniformType(q)), (b, UniformType(q))], UniformType(q))
    means = np.empty((2, 3, 7), object)
    for index in np.ndindex(3, 7):
        scale, zero = parameters(q, index)
        for side, value in enumerate((a, b)):
            means[(side, *index)] = (Fraction(number(q.storage, int(value[index]))) - zero) * scale
    expected = stored_exactly(means[0] + means[1], q)
    assert compare(found, expected.astype(found.dtype), kind).is_equal
    assert found.tolist() == expected.tolist()


def test_products_are_summed_exactly() -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(0, 16, (3, 5)).astype(np.uint8)
    b = rng.choice([c for c in range(256) if c & 0x7F != 0x7F], (5, 2)).astype(np.uint8)
    found = run(nn.MatMulOp, [(a, UniformType(NF)), (b, UniformType(F8))], UniformType(F8))
    expected = np.zeros((3, 2), object)
    for i, k, j in np.ndindex(3, 5, 2):
        x = Fraction(number(NF.storage, int(a[i, k]))) * Fraction(0.5)
        expected[i, j] += x * Fraction(number(F8.storage, int(b[k, j]))) * Fraction(0.25)
    assert found.tolist() == stored_exactly(expected, F8).tolist()


def test_maxima_are_of_numbers_and_not_of_codes() -> None:
    kind = UniformType(QParams.per_tensor(table("u3", UNSORTED), 1.0, 2))
    codes = np.arange(8, dtype=np.uint8)
    found = run(nn.ReluOp, [(codes, kind)], kind)
    assert found.tolist() == [0, 4, 4, 3, 4, 4, 4, 7]
    floats = UniformType(F8)
    found = run(nn.ReluOp, [(u8([0x80, 0x81, 0x01, 0x7F]), floats)], floats)
    assert found.tolist() == [0, 0, 1, 0x7F]


@pytest.mark.parametrize("q", [NF, F8, F4], ids=lambda q: str(q.storage))
def test_constants_hold_codes(q: QParams) -> None:
    codes = np.arange(1 << q.storage.width, dtype=np.uint8).reshape(2, -1)
    op = nn.make_constant(codes, UniformType(q), CONTEXT.blobs)
    op.verify()
    found = evaluate_op(op, [], CONTEXT)[0]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, codes)


def test_movement_copies_codes() -> None:
    a = np.arange(8, dtype=np.uint8).reshape(2, 4) | 0xF8
    kind = UniformType(F8)
    found = run(nn.TransposeOp, [(a, kind)], kind, perm=(1, 0))
    np.testing.assert_array_equal(found, a.T)


def test_roundings_other_than_to_nearest_are_refused() -> None:
    op = QCastOp(create_ssa_value(TensorType(f32, [2])), tensor(F8, (2,)))
    op.attributes[ROUNDING_KEY] = StringAttr(Rounding.HALF_AWAY.value)
    with pytest.raises(UnsupportedError, match="no rounding"):
        evaluate_op(op, [np.zeros(2, np.float32)], CONTEXT)


def test_bounds_of_a_table_on_floats_have_no_meaning() -> None:
    q = QParams.per_tensor(table("f4E2M1FN", [0.0, 1.0, 2.0], -1, 1), 1.0)
    with pytest.raises(UnsupportedError, match="no meaning"):
        quantize(np.zeros(2, np.float32), q)


# -- inputs and differences ----------------------------------------------------


@pytest.mark.parametrize("storage", STORAGES, ids=str)
@pytest.mark.parametrize("boundary", [False, True])
def test_random_inputs_are_accepted(storage: Storage, boundary: bool) -> None:
    kind = tensor(QParams.per_tensor(storage, 0.5, 1), (100, 90))
    func = FuncOp("f", ([kind], []))
    (array,) = random_inputs(func, 3, boundary)
    assert array.dtype == storage_dtype(storage)
    check_input(array, kind, "x", Evaluation(CONTEXT))
    wanted = {c for c in all_codes(storage) if math.isfinite(number(storage, c))}
    if storage.quantile is None:
        wanted = {c for c in wanted if storage.min <= number(storage, c) <= storage.max}
    assert set(array.ravel().tolist()) == wanted


def test_inputs_outside_the_codes_are_refused() -> None:
    evaluation = Evaluation(CONTEXT)
    cases = [
        ("f8E5M2", 0x7C),
        ("f4E2M1FN", 16),
        (Storage.of("f8E4M3FN", -100, 100), 0x7E),
        (table("si3", UNSORTED[:5], -2, 2), 3),
    ]
    for storage, code in cases:
        kind = tensor(QParams.per_tensor(storage, 0.5), (1,))
        with pytest.raises(InputError, match="holds codes that storage"):
            check_input(np.array([code], np.int32), kind, "x", evaluation)
    nan = tensor(QParams.per_tensor("f8E5M2", 0.5), (1,))
    assert check_input(u8([0xFD]), nan, "x", evaluation).tolist() == [0xFD]


def test_steps_are_places_in_the_order_of_numbers() -> None:
    kind = tensor(QParams.per_tensor(table("u3", UNSORTED), 1.0), (3,))
    # Numbers in order: -1, 0.1, 0.5, 2, 3, 7.25; codes 0 and 3 are both 3.
    difference = compare(u8([0, 1, 7]), u8([3, 6, 1]), kind)
    assert (difference.max_steps, difference.first_index) == (5, (1,))
    assert difference.max_abs == 8.25
    floats = tensor(QParams.per_tensor("f8E4M3FN", 1.0), (3,))
    assert compare(u8([0, 0x80, 0x7F]), u8([0x80, 0, 0xFF]), floats).is_equal
    assert compare(u8([1, 0, 0]), u8([0x81, 0, 0]), floats).max_steps == 2
    assert compare(u8([1, 0, 0]), u8([0x7F, 0, 0]), floats).max_steps == math.inf
