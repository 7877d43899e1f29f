"""Functions of one tensor: three accounts of each (the interpreter's, the constant folder's
and the standard library's) on every code."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scalar_oracle import MODES, dequantized, mapped, quantized, random_per_tensor, run, uniform
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.algebra.reals import Reals, UndecidedError, decide
from qdialect.algebra.rounding import Rounding
from qdialect.ir import ops as nn
from qdialect.ir.ops.declare import behavior_of

INT8 = np.arange(-128, 128).astype(np.int8)


def guarded(function: Callable[[float], float]) -> Callable[[float], float]:
    def call(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan if x < 0 else -math.inf
        except ZeroDivisionError:
            return math.inf

    return call


FUNCTIONS: list[tuple[type, dict[str, Any], Callable[[float], float]]] = [
    (nn.SigmoidOp, {}, lambda x: 1 / (1 + math.exp(-x))),
    (nn.TanhOp, {}, math.tanh),
    (nn.NegOp, {}, lambda x: -x),
    (nn.AbsOp, {}, abs),
    (nn.ExpOp, {}, math.exp),
    (nn.LogOp, {}, guarded(math.log)),
    (nn.SqrtOp, {}, guarded(math.sqrt)),
    (nn.ReciprocalOp, {}, guarded(lambda x: 1 / x)),
    (nn.ErfOp, {}, math.erf),
    (nn.GeluOp, {}, lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2)))),
    (
        nn.GeluOp,
        {"approximate": "tanh"},
        lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    (nn.SwishOp, {}, lambda x: x / (1 + math.exp(-x))),
    (nn.SwishOp, {"alpha": 1.702}, lambda x: x / (1 + math.exp(-1.702 * x))),
    (nn.SoftplusOp, {}, lambda x: math.log(1 + math.exp(x))),
    (nn.EluOp, {}, lambda x: x if x >= 0 else math.exp(x) - 1),
    (nn.EluOp, {"alpha": 0.7}, lambda x: x if x >= 0 else 0.7 * (math.exp(x) - 1)),
    (nn.PowOp, {"exponent": 2.0}, lambda x: x**2),
    (nn.PowOp, {"exponent": 3.0}, lambda x: x**3),
    (nn.PowOp, {"exponent": 0.5}, guarded(math.sqrt)),
    (nn.PowOp, {"exponent": -1.5}, guarded(lambda x: math.pow(x, -1.5) if x else math.inf)),
    (nn.PowOp, {"exponent": 0.3}, guarded(lambda x: math.pow(x, 0.3))),
    (nn.FloorOp, {}, math.floor),
    (nn.CeilOp, {}, math.ceil),
    (nn.RoundOp, {}, round),
]
STEPS = (nn.FloorOp, nn.CeilOp, nn.RoundOp)
IDS = [f"{op.name}{properties or ''}" for op, properties, _ in FUNCTIONS]

ENCODINGS = [
    (QParams.per_tensor("i8", 0.1, 3), QParams.per_tensor("u8", 0.03, 100)),
    (QParams.per_tensor("i8", 0.25, 0), QParams.per_tensor("i8", 1 / 64, -3)),
    (QParams.per_tensor("i8", 0.03, -128), QParams.per_tensor("i16", 0.001, 0)),
    (QParams.per_tensor("i8", 1e5, 7), QParams.per_tensor("i8", 900.0, 0)),
]


@pytest.mark.parametrize(("op", "properties", "function"), FUNCTIONS, ids=IDS)
def test_on_codes(op: Any, properties: dict[str, Any], function: Callable[[float], float]) -> None:
    for number, (a, b) in enumerate(ENCODINGS):
        mode = MODES[number % 3]
        got = run(op, [(INT8, uniform(a))], uniform(b), rounding=mode, **properties)
        assert np.array_equal(got, folded(op, properties, a, b, mode))
        with np.errstate(all="ignore"):
            for code, q in zip(INT8.tolist(), got.tolist(), strict=True):
                exact = (code - a.zero_point) * Fraction(a.scale)
                x: Any = exact if op in STEPS else float(exact)
                try:
                    real = function(x) / b.scale
                except OverflowError:
                    continue
                low, high = b.storage.min, b.storage.max
                if math.isnan(real) or math.isinf(real):
                    assert q == (high if real > 0 else low), (code, q)
                    continue
                near = min(max(real + b.zero_point, low), high)
                assert abs(q - near) <= 0.5 + 1e-9 * max(1, abs(real)), (code, q, real)


def folded(op: Any, properties: dict[str, Any], a: QParams, b: QParams, mode: str) -> np.ndarray:
    """What `algebra.reals` decides."""
    x = create_ssa_value(TensorType(uniform(a), INT8.shape))
    built = op(x, element=uniform(b), **properties)
    behavior = behavior_of(built.name)
    words = behavior.analytic or behavior.arithmetic
    assert words is not None
    real = Reals.exact([(int(q) - a.zero_point) * Fraction(a.scale) for q in INT8])
    result = Reals.apply(lambda v: words(built, v), real)
    return decide(result, b.scale, b.zero_point, (b.storage.min, b.storage.max), Rounding(mode))


@pytest.mark.parametrize(("op", "properties", "function"), FUNCTIONS, ids=IDS)
@pytest.mark.parametrize("element", [f64, f32, f16, bf16], ids=str)
def test_on_floats(
    op: Any, properties: dict[str, Any], function: Callable[[float], float], element: Any
) -> None:
    dtype = {"f64": np.float64, "f16": np.float16}.get(str(element), np.float32)
    x = np.array([-4, -2.5, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 3.5], dtype)
    got = run(op, [(x, element)], element, **properties)
    assert got.dtype == dtype
    expected = np.array([function(float(v)) for v in x])
    digits = {"f64": 1e-14, "f32": 1e-6, "f16": 1e-3, "bf16": 1e-2}[str(element)]
    assert np.allclose(got.astype(np.float64), expected, digits, digits, equal_nan=True)


def test_exact_ties() -> None:
    """Results in the middle between two codes, which no float evaluation can decide."""
    half, unit = QParams.per_tensor("i8", 0.5, 0), QParams.per_tensor("i8", 1.0, 0)
    code = np.array([-5, -3, -1, 0, 1, 3, 5], np.int8)
    away = run(nn.NegOp, [(code, uniform(half))], uniform(unit), rounding="half_away")
    assert list(away) == [3, 2, 1, 0, -1, -2, -3]
    even = run(nn.RoundOp, [(code, uniform(half))], uniform(unit))
    assert list(even) == [-2, -2, 0, 0, 0, 2, 2]
    # sqrt(2.25) = 1.5 and 2.25^0.5
    quarter = QParams.per_tensor("i8", 2.25, 0)
    for op, properties in ((nn.SqrtOp, {}), (nn.PowOp, {"exponent": 0.5})):
        for mode, want in (("half_even", 2), ("half_up", 2), ("half_away", 2)):
            one = np.array([1], np.int8)
            got = run(op, [(one, uniform(quarter))], uniform(unit), rounding=mode, **properties)
            assert list(got) == [want]
            assert list(folded(op, properties, quarter, unit, mode)[129:130]) == [want]


def test_what_stays_open_is_refused() -> None:
    """Half of pi^2/6 summed up is no problem; a sum that is a tie beyond all digits is."""
    x = Reals.exact([Fraction(1)])
    # exp(1) - exp(1) + 1/2 is exactly a tie, but its ball never is one point.
    never = Reals.apply(lambda v: v[0].exp() - v[0].exp() + 0.5, x)
    with pytest.raises(UndecidedError, match="too close"):
        decide(never, 1.0, 0, (-128, 127), Rounding.HALF_EVEN)
    with pytest.raises(UndecidedError, match="not a number"):
        decide(
            Reals.apply(lambda v: (v[0] - 2.0).log(), x),
            1.0,
            0,
            (-128, 127),
            Rounding.HALF_EVEN,
            defined=True,
        )


@pytest.mark.parametrize("mode", MODES)
def test_prelu(mode: str) -> None:
    rng = np.random.default_rng(15)
    for kind in ("nice", "wild"):
        a, b = random_per_tensor(rng, "i8", kind), random_per_tensor(rng, "u8", kind)
        s = QParams.per_axis("i8", 0, [0.25, 0.1], [3, -5])
        x = np.stack([INT8, INT8])
        slope = np.array([[-100], [77]], np.int8)
        real = mapped(lambda v, k: v if v >= 0 else v * k, dequantized(x, a), dequantized(slope, s))
        got = run(nn.PReluOp, [(x, uniform(a)), (slope, uniform(s))], uniform(b), rounding=mode)
        assert np.array_equal(got, quantized(real, b, mode))
    floats = run(
        nn.PReluOp, [(np.float32([[-2, 3], [-4, 5]]), f32), (np.float32([[0.5], [2]]), f32)], f32
    )
    assert floats.tolist() == [[-1, 3], [-8, 5]]


def test_bad_properties() -> None:
    x = create_ssa_value(TensorType(f32, [2, 3]))
    with pytest.raises(VerifyException, match="approximate must be one of none, tanh"):
        nn.GeluOp(x, approximate="fast")
    with pytest.raises(VerifyException, match="exponent must be finite"):
        nn.PowOp(x, exponent=math.inf)
    for shape in ([2], [1, 2, 3], [4, 2, 3]):
        with pytest.raises(VerifyException, match="broadcast"):
            nn.PReluOp(x, create_ssa_value(TensorType(f32, shape)))


@pytest.mark.parametrize("op", [nn.SigmoidOp, nn.TanhOp, nn.SwishOp, nn.SoftplusOp])
def test_limits_are_not_reached(op: Any) -> None:
    """sigmoid(254) is less than 1: no tie of a scale of 2, though float64 says so."""
    two = QParams.per_tensor("i8", 2.0, 0)
    for mode in MODES:
        got = run(op, [(INT8, uniform(two))], uniform(two), rounding=mode)
        assert np.array_equal(got, folded(op, {}, two, two, mode)), mode
