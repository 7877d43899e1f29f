"""Products of floats and weights of codes: every float as LiteRT computes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

from xdsl.dialects.builtin import StringAttr, TensorType, f32
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.interpreter.values import Evaluation
from qdialect.ir import ops as nn
from qdialect.ir.ops.base import KERNEL_INPUTS
from qdialect.ir.quant import UniformType
from qdialect.plugins.tflite.interpreter import rows
from qdialect.plugins.tflite.interpreter.contraction import KERNEL_OP
from tests.reference.litert.one_op import CONTEXT, engine_of, random_scale
from tests.support.tflite_models import litert_ops, model, op, run_litert, tensor

RESOLVERS = ("ref", "opt", "xnn")


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers about 0, with many ties, without a sign, or of any size."""
    kind = int(rng.integers(4))
    values = rng.normal(size=shape)
    if kind == 1:
        values = rng.integers(-127, 128, shape) * 0.5
    elif kind == 2:
        values = np.maximum(values * 10, 0)
    elif kind == 3:
        values = values * 10.0 ** rng.uniform(-3, 3) + rng.normal()
    return values.astype(np.float32)


def computed(
    kind: Any,
    engine: str,
    operands: Sequence[np.ndarray],
    scales: np.ndarray,
    axis: int,
    shape: Sequence[int],
    attributes: dict[str, str],
    **properties: Any,
) -> np.ndarray:
    """By the row of the op; a bias is a third operand."""
    x, weight = operands[:2]
    values = [float(scale) for scale in scales]
    params = (
        QParams.per_axis("i8", axis, values)
        if len(values) > 1
        else QParams.per_tensor("i8", values[0])
    )
    given = [
        create_ssa_value(TensorType(element, array.shape))
        for element, array in ((f32, x), (UniformType(params), weight))
    ]
    built = kind(*given, result_types=[TensorType(f32, shape)], **properties)
    for name, text in attributes.items():
        built.attributes[name] = StringAttr(text)
    (row,) = rows(built.name, engine)
    found = row(built, operands, Evaluation(CONTEXT))
    assert found is not None
    return found[0]


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("bits", [8, 4])
def test_fully_connected(bits: int, kind: str, resolver: str) -> None:
    rng = np.random.default_rng(bits)
    most = 2 ** (bits - 1) - 1
    for _ in range(25):
        count, ci, co = (int(rng.choice(n)) for n in ((1, 3, 4), (1, 5, 8, 33, 100), (1, 4, 7, 33)))
        x, weight = floats(rng, count, ci), rng.integers(-most, most + 1, (co, ci)).astype(np.int8)
        scales = np.array([random_scale(rng) for _ in range(rng.choice([1, co]))], np.float32)
        bias = floats(rng, co) if rng.random() < 0.6 else None
        others = [tensor("w", weight.shape, f"INT{bits}", scales, data=weight)]
        others += [] if bias is None else [tensor("b", (co,), data=bias)]
        names = ["x", "w", "" if bias is None else "b"]
        options = {"asymmetric_quantize_inputs": kind == "asymmetric"}
        data = model(
            [tensor("x", x.shape)],
            [tensor("y", (count, co))],
            [op("FULLY_CONNECTED", names, ["y"], options)],
            others,
        )
        (expected,) = run_litert(data, [x], resolver)
        delegated = resolver == "xnn" and "DELEGATE" in litert_ops(data)
        engine = engine_of(resolver, delegated)
        packs = engine == "litert-opt" and bits == 4 and ci % 2 == 0 and ci >= 32 and co >= 4
        found = computed(
            nn.DynamicMatMulOp,
            engine,
            [x, weight.T, *([] if bias is None else [bias])],
            scales,
            1,
            (count, co),
            {KERNEL_INPUTS: "packed" if packs else kind},
        )
        assert np.array_equal(found, expected), (count, ci, co, delegated)


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("kind", ["conv", "groups", "depthwise"])
def test_convolutions(kind: str, resolver: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(25):
        k, (h, w) = int(rng.integers(1, 4)), (int(n) for n in rng.integers(3, 8, 2))
        ci, co, groups = int(rng.choice([1, 3, 8, 16])), int(rng.choice([1, 4, 8, 13, 16])), 1
        if kind == "groups":
            ci, co, groups = 8, 8, 2
        elif kind == "depthwise":
            co, groups = ci * int(rng.choice([1, 2])), ci
        x = floats(rng, int(rng.integers(1, 3)), h, w, ci)
        shape = (1, k, k, co) if kind == "depthwise" else (co, k, k, ci // groups)
        weight = rng.integers(-127, 128, shape).astype(np.int8)
        one = kind == "conv" and rng.random() < 0.4
        scales = np.array([random_scale(rng) for _ in range(1 if one else co)], np.float32)
        bias, same = floats(rng, co), bool(k % 2 and rng.random() < 0.5)
        stride = int(rng.choice([1, 2]))
        pad = k // 2 if same else 0
        if same and stride == 2:
            same, pad = False, 0
        out = [(n + 2 * pad - k) // stride + 1 for n in (h, w)]
        depthwise = kind == "depthwise"
        options: dict[str, Any] = {
            "padding": "SAME" if same else "VALID",
            "stride_w": stride,
            "stride_h": stride,
        }
        if depthwise:
            options["depth_multiplier"] = co // ci
        name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        data = model(
            [tensor("x", x.shape)],
            [tensor("y", (len(x), *out, co))],
            [op(name, ["x", "w", "b"], ["y"], options)],
            [
                tensor("w", shape, "INT8", scales, axis=3 if depthwise else 0, data=weight),
                tensor("b", (co,), data=bias),
            ],
        )
        (expected,) = run_litert(data, [x], resolver)
        delegated = resolver == "xnn" and "DELEGATE" in litert_ops(data)
        found = computed(
            nn.DynamicConv2DOp,
            engine_of(resolver, delegated),
            [
                np.ascontiguousarray(x.transpose(0, 3, 1, 2)),
                weight.transpose((3, 0, 1, 2) if depthwise else (0, 3, 1, 2)),
                bias,
            ],
            scales,
            0,
            (len(x), co, *out),
            {KERNEL_OP: name},
            groups=groups,
            strides=(stride, stride),
            pads=(pad,) * 4,
        )
        assert np.array_equal(found.transpose(0, 2, 3, 1), expected), (x.shape, shape, stride, pad)
