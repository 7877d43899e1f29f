"""Convolutions, fully connected and matrix products are LiteRT's in all three engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from litert_cases import (
    ENGINES,
    KINDS,
    TO_FILE,
    TO_OURS,
    Case,
    built,
    codes,
    differing,
    model,
    op,
    quant,
    quant_axis,
    same_pads,
    scale,
    tensor,
    zero_point,
)
from xdsl.dialects.builtin import StringAttr

from qdialect.ir import ops as nn

Rng = np.random.Generator


def weight_scales(rng: Rng, kind: str, count: int, per_axis: bool) -> np.ndarray:
    """One scale, or one per channel."""
    number = count if per_axis else 1
    return np.array([scale(rng, kind) for _ in range(number)], np.float32)


def result_scale(rng: Rng, kind: str, s_x: float, s_w: np.ndarray, depth: int) -> float:
    """A scale that most sums fit in; a power of two where ties are wanted."""
    typical = s_x * float(np.median(s_w)) * 75 * 75 * np.sqrt(depth) / 100
    if kind == "ties":
        return float(2.0 ** np.round(np.log2(typical) + rng.integers(-1, 2)))
    if kind == "far" and rng.integers(3) == 0:
        return s_x * float(s_w.max()) / float(rng.choice([0.6, 1.0, 1.7, 3.0]))
    # XNNPACK refuses factors of 256 and more.
    return float(np.float32(max(typical * np.exp(rng.normal() / 2), s_x * s_w.max() / 200)))


def bias(rng: Rng, count: int) -> np.ndarray:
    """Integers of the size of sums."""
    return rng.integers(-30000, 30000, count).astype(np.int32)


def conv(rng: Rng, kind: str, what: str, type: str) -> Case:
    """CONV_2D, DEPTHWISE_CONV_2D or TRANSPOSE_CONV (`what`)."""
    kernel = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    stride = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    dilation = (1, 1)
    if rng.integers(3) == 0 and what != "TRANSPOSE_CONV":
        dilation, stride = (int(rng.integers(1, 4)), int(rng.integers(1, 4))), (1, 1)
    size = (int(rng.integers(7, 14)), int(rng.integers(7, 14)))
    groups, c_in, c_out = 1, int(rng.integers(1, 9)), int(rng.integers(1, 40))
    if what == "DEPTHWISE_CONV_2D":
        groups = c_in = int(rng.integers(1, 20))
        c_out = c_in * int(rng.integers(1, 4))
    elif what == "CONV_2D" and rng.integers(4) == 0 and type == "INT8":
        groups = int(rng.integers(2, 4))
        c_in, c_out = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 5))
    per_axis = type == "INT8" and bool(rng.integers(3))
    padding = str(rng.choice(["SAME", "VALID"]))
    s_x, z_x = scale(rng, kind), zero_point(rng, type)
    s_w = weight_scales(rng, kind, c_out, per_axis)
    z_w = 0 if type == "INT8" else zero_point(rng, type)
    depth = c_in // groups * kernel[0] * kernel[1]
    s_y, z_y = result_scale(rng, kind, s_x, s_w, depth), zero_point(rng, type)
    transposed = what == "TRANSPOSE_CONV"
    n = int(rng.integers(1, 3))
    x = codes(rng, (n, *size, c_in), type)
    w = codes(rng, (c_out, *kernel, c_in // groups), type)
    pads = [same_pads(*t) for t in zip(size, kernel, stride, dilation, strict=True)]
    if padding == "VALID":
        pads = [(0, 0), (0, 0)]
    out = [
        (k + sum(p) - (m - 1) * d - 1) // s + 1
        for k, p, m, d, s in zip(size, pads, kernel, dilation, stride, strict=True)
    ]
    output_padding = [0, 0]
    if transposed:
        full = [(k - 1) * s + m for k, s, m in zip(size, stride, kernel, strict=True)]
        out = [k * s for k, s in zip(size, stride, strict=True)] if padding == "SAME" else full
        pads = [(0, 0), (0, 0)]
        if padding == "SAME":
            pads = [same_pads(*t, 1) for t in zip(out, kernel, stride, strict=True)]
        output_padding = [o - (f - sum(p)) for o, f, p in zip(out, full, pads, strict=True)]
    has_bias = bool(rng.integers(4)) or not transposed
    b = bias(rng, c_out)
    file_w, axis = w, 0
    if what == "DEPTHWISE_CONV_2D":
        file_w, axis = np.ascontiguousarray(w.transpose(3, 1, 2, 0)), 3 if s_w.size > 1 else 0
    others = [tensor("w", file_w.shape, type, s_w, z_w, axis, file_w)]
    names = ["x", "w"]
    if transposed:
        shape = np.array([n, *out, c_out], np.int32)
        others.append(tensor("shape", (4,), "INT32", data=shape))
        names = ["shape", "w", "x"]
    if has_bias:
        others.append(tensor("b", (c_out,), "INT32", s_x * s_w, data=b))
        names.append("b")
    options: dict[str, Any] = {"padding": padding, "stride_h": stride[0], "stride_w": stride[1]}
    if not transposed:
        options |= {"dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1]}
    if what == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = c_out // c_in
    data = model(
        [tensor("x", x.shape, type, s_x, z_x)],
        [tensor("y", (n, *out, c_out), type, s_y, z_y)],
        [op(what, names, ["y"], options, version=6 if groups > 1 else 3)],
        others,
    )
    ours = np.ascontiguousarray(w.transpose(0, 3, 1, 2))
    channel = 0
    if transposed:
        ours, channel = np.ascontiguousarray(ours.transpose(1, 0, 2, 3)), 1
    kind_w = quant_axis(type, channel, list(s_w)) if s_w.size > 1 else quant(type, s_w[0], z_w)
    kind_b = (
        quant_axis("INT32", 0, list(s_x * s_w)) if s_w.size > 1 else quant("INT32", s_x * s_w[0])
    )
    operands = [(x.transpose(TO_OURS), quant(type, s_x, z_x)), (ours, kind_w)]
    if has_bias:
        operands.append((b, kind_b))
    named: dict[str, Any] = {
        "strides": list(stride),
        "pads": [p[0] for p in pads] + [p[1] for p in pads],
        "dilations": list(dilation),
        "groups": groups,
    }
    if transposed:
        named["output_padding"] = output_padding
    of = nn.ConvTranspose2DOp if transposed else nn.Conv2DOp
    made = built(of, operands, quant(type, s_y, z_y), **named)
    made.attributes["nn.kernel_op"] = StringAttr(what)
    back = lambda y: y.transpose(TO_FILE)  # noqa: E731
    # Convolutions in groups have no optimized kernel.
    optimized = "ref" if what == "CONV_2D" and groups > 1 else "opt"
    return Case(data, [x], made, [a for a, _ in operands], back, optimized)


def fully_connected(rng: Rng, kind: str, what: str, type: str) -> Case:
    """FULLY_CONNECTED."""
    rows, depth, c_out = (
        int(rng.integers(1, 30)),
        int(rng.integers(1, 70)),
        int(rng.integers(1, 40)),
    )
    per_axis = type == "INT8" and bool(rng.integers(2))
    s_x, z_x, z_y = scale(rng, kind), zero_point(rng, type), zero_point(rng, type)
    s_w = weight_scales(rng, kind, c_out, per_axis)
    z_w = 0 if type == "INT8" else zero_point(rng, type)
    s_y = result_scale(rng, kind, s_x, s_w, depth)
    x, w, b = codes(rng, (rows, depth), type), codes(rng, (c_out, depth), type), bias(rng, c_out)
    has_bias = bool(rng.integers(3))
    others = [tensor("w", w.shape, type, s_w, z_w, 0, w)]
    if has_bias:
        others.append(tensor("b", (c_out,), "INT32", s_x * s_w, data=b))
    data = model(
        [tensor("x", x.shape, type, s_x, z_x)],
        [tensor("y", (rows, c_out), type, s_y, z_y)],
        [op("FULLY_CONNECTED", ["x", "w", "b" if has_bias else ""], ["y"], version=4)],
        others,
    )
    kind_w = quant_axis(type, 0, list(s_w)) if s_w.size > 1 else quant(type, s_w[0], z_w)
    kind_b = (
        quant_axis("INT32", 0, list(s_x * s_w)) if s_w.size > 1 else quant("INT32", s_x * s_w[0])
    )
    operands = [(x, quant(type, s_x, z_x)), (w, kind_w), (b, kind_b)][: 3 if has_bias else 2]
    made = built(nn.FullyConnectedOp, operands, quant(type, s_y, z_y))
    return Case(data, [x], made, [a for a, _ in operands])


def matmul(rng: Rng, kind: str, what: str, type: str) -> Case:
    """BATCH_MATMUL of two computed operands, or with a constant one."""
    m, k, n = (int(rng.integers(1, 30)) for _ in range(3))
    batch = [(), (3,), (2, 3)][rng.integers(3)]
    s_x, s_w = scale(rng, kind), np.array([scale(rng, kind)], np.float32)
    z_x, z_y = zero_point(rng, type), zero_point(rng, type)
    z_w = 0 if rng.integers(2) else zero_point(rng, type)
    s_y = result_scale(rng, kind, s_x, s_w, k)
    a, b = codes(rng, (*batch, m, k), type), codes(rng, (*batch, k, n), type)
    constant = bool(rng.integers(2))
    w = tensor("b", b.shape, type, s_w, z_w, data=b if constant else None)
    x = tensor("a", a.shape, type, s_x, z_x)
    data = model(
        [x] if constant else [x, w],
        [tensor("y", (*batch, m, n), type, s_y, z_y)],
        [op("BATCH_MATMUL", ["a", "b"], ["y"], version=4)],
        [w] if constant else [],
    )
    operands = [(a, quant(type, s_x, z_x)), (b, quant(type, float(s_w[0]), z_w))]
    made = built(nn.MatMulOp, operands, quant(type, s_y, z_y))
    return Case(data, [a] if constant else [a, b], made, [a, b])


MAKERS = {
    ("CONV_2D", "INT8"): conv,
    ("CONV_2D", "UINT8"): conv,
    ("DEPTHWISE_CONV_2D", "INT8"): conv,
    ("DEPTHWISE_CONV_2D", "UINT8"): conv,
    ("TRANSPOSE_CONV", "INT8"): conv,
    ("TRANSPOSE_CONV", "UINT8"): conv,
    ("FULLY_CONNECTED", "INT8"): fully_connected,
    ("FULLY_CONNECTED", "UINT8"): fully_connected,
    ("BATCH_MATMUL", "INT8"): matmul,
}


@pytest.mark.parametrize(("what", "type"), list(MAKERS))
@pytest.mark.parametrize("kind", KINDS)
def test_products(what: str, type: str, kind: str) -> None:
    rng = np.random.default_rng([*map(ord, what + type + kind)])
    for number in range(8):
        case = MAKERS[what, type](rng, kind, what, type)
        for engine in ENGINES:
            wrong, ran = differing(case, engine)
            assert wrong == 0, (number, engine, ran, wrong, case.op)
