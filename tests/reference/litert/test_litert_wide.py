"""Convolutions, products and sums of codes of 16 bits as LiteRT computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.interpreter import evaluate_op
from qdialect.ir import ops as nn
from qdialect.ir.ops.base import KERNEL, KERNEL_SUMS
from qdialect.ir.quant import UniformType
from tests.reference.litert.one_op import CONTEXT, element, in_litert, interpreted, random_scale
from tests.support.tflite_models import model, op, run_litert, tensor

KINDS = ("conv", "groups", "depthwise", "transposed")
RESOLVERS = ("ref", "opt")
SHORT = np.int16


def weights_type(storage: str, scales: np.ndarray) -> UniformType:
    values = [float(scale) for scale in scales]
    if len(values) == 1:
        return UniformType(QParams.per_tensor(storage, values[0]))
    return UniformType(QParams.per_axis(storage, 0, values))


def computed(
    kind: Any,
    operands: Sequence[tuple[np.ndarray, Attribute]],
    result: Attribute,
    resolver: str,
    bias: int,
    **properties: Any,
) -> np.ndarray:
    values = [create_ssa_value(TensorType(kind_, array.shape)) for array, kind_ in operands]
    built = kind(*values, element=result, **properties)
    built.attributes[KERNEL] = StringAttr(f"litert-{resolver}")
    if bias == 32:
        built.attributes[KERNEL_SUMS] = StringAttr("i32")
    return evaluate_op(built, [array for array, _ in operands], CONTEXT)[0]


def qparams(rng: np.random.Generator, count: int) -> tuple[float, np.ndarray, float]:
    """Scales of input, weights and result; now and then ones that make ties."""
    if rng.random() < 0.3:
        return 2.0**-10, np.full(count, 2.0**-5, np.float32), 2.0**-12
    weights = np.array([random_scale(rng) for _ in range(count)], np.float32)
    x = float(np.float32(random_scale(rng) / 64))
    return x, weights, float(np.float32(x * weights.max() * rng.choice([1.0, 30.0, 500.0])))


def codes(rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    most = 32768 if rng.random() < 0.5 else 300
    return rng.integers(-most, most, tuple(shape)).astype(SHORT)


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("bias", [64, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_convolutions(kind: str, bias: int, resolver: str) -> None:
    if (kind, bias) == ("depthwise", 32):
        pytest.skip("LiteRT takes biases of 64 bits only")
    rng = np.random.default_rng(7)
    for _ in range(12):
        k, (h, w) = int(rng.integers(1, 4)), rng.integers(3, 8, 2)
        ci, co, groups = int(rng.choice([1, 3, 8, 16])), int(rng.choice([1, 4, 8, 13, 16])), 1
        if kind == "groups":
            ci, co, groups = 8, 8, 2
        elif kind == "depthwise":
            co, groups = ci * int(rng.choice([1, 2])), ci
        s_x, s_w, s_y = qparams(rng, co if rng.random() < 0.7 else 1)
        x = codes(rng, (1, h, w, ci))
        shape = (1, k, k, co) if kind == "depthwise" else (co, k, k, ci // groups)
        weight = rng.integers(-127, 128, shape).astype(np.int8)
        added = rng.integers(-10000, 10000, co)
        out = (h + k - 1, w + k - 1) if kind == "transposed" else (h - k + 1, w - k + 1)
        expected = _convolved(kind, bias, resolver, x, weight, added, (s_x, s_w, s_y), out)
        order = (3, 0, 1, 2) if kind in ("depthwise", "transposed") else (0, 3, 1, 2)
        transposed = kind == "transposed"
        along = UniformType(
            QParams.per_axis("i8", int(transposed), s_w.astype(float).tolist())
            if len(s_w) > 1
            else QParams.per_tensor("i8", float(s_w[0]))
        )
        operands = [
            (x.transpose(0, 3, 1, 2), element(SHORT, s_x, 0)),
            (weight.transpose(order), along),
            (added.astype(np.int32), weights_type("i32", np.float32(s_x) * s_w)),
        ]
        of: Any = nn.ConvTranspose2DOp if transposed else nn.Conv2DOp
        found = computed(of, operands, element(SHORT, s_y, 0), resolver, bias, groups=groups)
        assert np.array_equal(found.transpose(0, 2, 3, 1), expected)


def _convolved(
    kind: str,
    bias: int,
    resolver: str,
    x: np.ndarray,
    weight: np.ndarray,
    added: np.ndarray,
    scales: tuple[float, np.ndarray, float],
    out: Sequence[int],
) -> np.ndarray:
    s_x, s_w, s_y = scales
    name = {"depthwise": "DEPTHWISE_CONV_2D", "transposed": "TRANSPOSE_CONV"}.get(kind, "CONV_2D")
    options: dict[str, Any] = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    if kind == "depthwise":
        options["depth_multiplier"] = weight.shape[3] // x.shape[3]
    else:
        options["quantized_bias_type"] = f"INT{bias}"
    given = tensor("x", x.shape, "INT16", [s_x], [0])
    others = [
        tensor("w", weight.shape, "INT8", s_w, axis=3 if kind == "depthwise" else 0, data=weight),
        tensor("b", added.shape, f"INT{bias}", np.float32(s_x) * s_w, data=added),
        tensor("shape", (4,), "INT32", data=np.array([1, *out, len(added)])),
    ]
    result = tensor("y", (1, *out, len(added)), "INT16", [s_y], [0])
    names = ["shape", "w", "x", "b"] if kind == "transposed" else ["x", "w", "b"]
    data = model([given], [result], [op(name, names, ["y"], options)], others)
    return run_litert(data, [x], resolver)[0]


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("bias", [64, 32, 0])
def test_fully_connected(bias: int, resolver: str) -> None:
    rng = np.random.default_rng(8)
    for _ in range(25):
        count, ci, co = (int(rng.choice(n)) for n in ((1, 3), (1, 7, 16, 100), (1, 5, 8, 33)))
        s_x, s_w, s_y = qparams(rng, co if rng.random() < 0.5 else 1)
        x, weight = codes(rng, (count, ci)), rng.integers(-127, 128, (co, ci)).astype(np.int8)
        added = rng.integers(-10000, 10000, co)
        others = [tensor("w", weight.shape, "INT8", s_w, data=weight)]
        operands = [(x, element(SHORT, s_x, 0)), (weight, weights_type("i8", s_w))]
        if bias:
            scales = np.float32(s_x) * s_w
            others.append(tensor("b", (co,), f"INT{bias}", scales, data=added))
            operands.append((added.astype(np.int32), weights_type("i32", scales)))
        data = model(
            [tensor("x", x.shape, "INT16", [s_x], [0])],
            [tensor("y", (count, co), "INT16", [s_y], [0])],
            [
                op(
                    *("FULLY_CONNECTED", ["x", "w", "b" if bias else ""], ["y"]),
                    {"quantized_bias_type": f"INT{bias}"} if bias else {},
                )
            ],
            others,
        )
        (expected,) = run_litert(data, [x], resolver)
        to = element(SHORT, s_y, 0)
        assert np.array_equal(computed(nn.FullyConnectedOp, operands, to, resolver, bias), expected)


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_matrix_products(dtype: Any, resolver: str) -> None:
    rng = np.random.default_rng(9)
    for _ in range(25):
        rows, depth, columns = (int(rng.choice(n)) for n in ((1, 3, 5), (1, 7, 30), (1, 5, 9)))
        a, limits = codes(rng, (2, rows, depth)), np.iinfo(dtype)
        b = rng.integers(limits.min, limits.max + 1, (2, depth, columns)).astype(dtype)
        s_a, s_b = random_scale(rng) / 64, random_scale(rng) / 64
        s_y = s_a * s_b * float(rng.choice([1.0, 1000.0, 10000.0]))
        operands, to = [(a, (s_a, 0)), (b, (s_b, 0))], (SHORT, s_y, 0)
        expected, _ = in_litert("BATCH_MATMUL", operands, to, resolver, shape=(2, rows, columns))
        found = interpreted(nn.MatMulOp, operands, to, f"litert-{resolver}")
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL"])
def test_elementwise(name: str, resolver: str) -> None:
    rng = np.random.default_rng(10)
    kind = {"ADD": nn.AddOp, "SUB": nn.SubOp, "MUL": nn.MulOp}[name]
    options = {} if name == "MUL" else {"pot_scale_int16": False}
    for _ in range(30):
        a = codes(rng, (4, 1001))
        b = codes(rng, [(4, 1001), (1, 1001), (1, 1)][int(rng.integers(3))])
        smaller = 256 if name == "MUL" else 1
        operands = [(codes_, (random_scale(rng) / smaller, 0)) for codes_ in (a, b)]
        to = (SHORT, random_scale(rng), 0)
        expected, _ = in_litert(name, operands, to, resolver, options)
        assert np.array_equal(interpreted(kind, operands, to, f"litert-{resolver}"), expected)
