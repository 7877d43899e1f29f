"""Functions of one number: all codes as LiteRT computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from qdialect.errors import UnsupportedError
from qdialect.ir import ops as nn
from tests.reference.litert.one_op import (
    all_codes,
    engine_of,
    in_litert,
    interpreted,
    random_scale,
    random_zero,
)
from tests.support.tflite_models import LitertError

RESOLVERS = ("ref", "opt", "xnn")
BYTES, WIDE = (np.int8, np.uint8), np.int16

FUNCTIONS: dict[str, tuple[type, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "LOGISTIC": (nn.SigmoidOp, (*BYTES, WIDE), {}, {}),
    "TANH": (nn.TanhOp, (*BYTES, WIDE), {}, {}),
    "EXP": (nn.ExpOp, (np.int8, WIDE), {}, {}),
    "GELU": (nn.GeluOp, (*BYTES, WIDE), {}, {}),
    "GELU tanh": (nn.GeluOp, (*BYTES, WIDE), {"approximate": "tanh"}, {"approximate": True}),
    "ELU": (nn.EluOp, (np.int8,), {}, {}),
    "LOG": (nn.LogOp, (np.int8, WIDE), {}, {}),
    "ABS": (nn.AbsOp, (np.int8, WIDE), {}, {}),
    "NEG": (nn.NegOp, (np.int8, WIDE), {}, {}),
    "SQRT": (nn.SqrtOp, (np.int8, WIDE), {}, {}),
    "RSQRT": (nn.PowOp, (np.int8, WIDE), {"exponent": -0.5}, {}),
    "HARD_SWISH": (nn.HardSwishOp, BYTES, {}, {}),
    "LEAKY_RELU": (nn.LeakyReluOp, (*BYTES, WIDE), {"alpha": 0.25}, {"alpha": 0.25}),
    "LEAKY_RELU 1.5": (nn.LeakyReluOp, (*BYTES, WIDE), {"alpha": 1.5}, {"alpha": 1.5}),
    "LEAKY_RELU -0.5": (nn.LeakyReluOp, (*BYTES, WIDE), {"alpha": -0.5}, {"alpha": -0.5}),
}
ABSENT = {("ELU", "ref")}


def fixed_result(name: str, dtype: Any) -> tuple[float, int] | None:
    """The qparams of the result that LiteRT demands."""
    if dtype is WIDE:
        return (2.0**-15, 0) if name in ("LOGISTIC", "TANH") else None
    return (1 / 256, int(np.iinfo(dtype).min)) if name == "LOGISTIC" else None


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_codes(name: str, resolver: str) -> None:
    kind, dtypes, properties, options = FUNCTIONS[name]
    if (name, resolver) in ABSENT:
        pytest.skip("LiteRT has no such kernel")
    rng = np.random.default_rng(len(name))
    for dtype in dtypes:
        refused = 0
        count = 4 if dtype is WIDE else 25
        for _ in range(count):
            scale, zero = random_scale(rng), random_zero(rng, dtype)
            if dtype is WIDE:
                scale = float(rng.choice([scale, 2.0**-12, 2.0**-11]))
            result = fixed_result(name, dtype) or (random_scale(rng), random_zero(rng, dtype))
            codes = all_codes(dtype)
            if name in ("SQRT", "RSQRT"):
                codes = codes[codes >= zero][None]
            operands, to = [(codes, (scale, zero))], (dtype, *result)
            try:
                expected, delegated = in_litert(name.split()[0], operands, to, resolver, options)
            except LitertError:
                refused += 1
                continue
            found = interpreted(kind, operands, to, engine_of(resolver, delegated), **properties)
            assert np.array_equal(found, expected), (dtype, scale, zero, result)
        assert refused <= count // 3
        assert not refused or name == "HARD_SWISH"


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_prelu_on_all_pairs(resolver: str) -> None:
    rng = np.random.default_rng(5)
    for dtype, slope in ((np.int8, np.int8), (np.uint8, np.uint8), (np.int16, np.int8)):
        for _ in range(6):
            x = all_codes(dtype).reshape(-1)
            rows = (rng.choice(x, 256) if dtype is WIDE else x).reshape(1, 256, 1, 1)
            codes = np.broadcast_to(rows, (1, 256, 1, 256)).copy()
            operands = [
                (codes, (random_scale(rng), random_zero(rng, dtype))),
                (all_codes(slope).reshape(1, 1, 256), (random_scale(rng), random_zero(rng, slope))),
            ]
            to = (dtype, random_scale(rng), random_zero(rng, dtype))
            expected, delegated = in_litert("PRELU", operands, to, resolver)
            found = interpreted(nn.PReluOp, operands, to, engine_of(resolver, delegated))
            assert np.array_equal(found, expected)


def test_what_litert_refuses_is_refused() -> None:
    below = [(np.zeros((1, 4), np.int8), (0.1, 5))]
    for kind, more in ((nn.SqrtOp, {}), (nn.PowOp, {"exponent": -0.5})):
        with pytest.raises(UnsupportedError, match="roots of negative numbers"):
            interpreted(kind, below, (np.int8, 0.1, 0), "litert-ref", **more)
    with pytest.raises(UnsupportedError, match="power -1/2 only"):
        interpreted(nn.PowOp, below, (np.int8, 0.1, 0), "litert-ref", exponent=3.0)
    with pytest.raises(UnsupportedError, match="alpha = 1 only"):
        interpreted(nn.EluOp, below, (np.int8, 0.1, 0), "litert-opt", alpha=2.0)
    with pytest.raises(UnsupportedError, match="does not know what 'litert-ref' computes"):
        interpreted(nn.EluOp, below, (np.int8, 0.1, 0), "litert-ref")
    with pytest.raises(UnsupportedError, match="so fine a result"):
        interpreted(nn.HardSwishOp, below, (np.int8, 0.0001, 0), "litert-ref")
